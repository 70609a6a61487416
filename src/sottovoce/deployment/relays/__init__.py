"""A relay between parties that cannot reach each other: NATS JetStream, which nobody has to trust.

Relay            where it is and which certificate it has; `load_relay` reads the file that its operator gives to all members
configured       writes the server's configuration for the members of a roster
open_mailboxes   makes, in a server that runs, one mailbox for each member (needs the extra `deploy`)
"""

from typing import TYPE_CHECKING

from sottovoce.deployment.relays.configuration import Limits, Written, configured
from sottovoce.deployment.relays.relay_file import Relay, load_relay
from sottovoce.imported_later import imported_later

if TYPE_CHECKING:
    from sottovoce.deployment.relays.opening import Found, look_at_mailboxes, open_mailboxes

__getattr__ = imported_later(__name__, {"opening": ("Found", "look_at_mailboxes", "open_mailboxes")})

__all__ = ["Found", "Limits", "Relay", "Written", "configured", "load_relay", "look_at_mailboxes", "open_mailboxes"]


def __dir__() -> list[str]:
    return [*__all__]
