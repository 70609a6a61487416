"""Who a party is, how others know it, and how two of them talk so that nobody else can read or change it.

    Identity    the keys of a party, in a folder that only it can read; `new_identity`, `load_identity`, `renew_identity`
    Roster      the members, each entry signed by its owner; `load_roster`, `load_entry`
    Session     one start of a party in a run: hellos, sealed messages, keys for masks (needs the extra `deploy`)
    verify      checks what `Identity.sign` signed

Everything that comes from others and does not fit is refused with a reason of its own (`refusals`).
"""

from typing import TYPE_CHECKING

from sottovoce.deployment.identity import exchange_keys, refusals
from sottovoce.deployment.identity.certificates import (
    check_valid,
    der,
    new_certificate,
    pem,
    server_name,
    valid_until,
)
from sottovoce.deployment.identity.entry import Entry
from sottovoce.deployment.identity.fingerprint import fingerprint
from sottovoce.deployment.identity.identity import (
    DAYS,
    Identity,
    entry_path,
    key_path,
    load_identity,
    new_identity,
    renew_identity,
    write_entry,
)
from sottovoce.deployment.identity.names import ROLES, is_loopback, split_address
from sottovoce.deployment.identity.roster import Roster, load_entry, load_roster, read_json
from sottovoce.deployment.identity.signatures import verify
from sottovoce.imported_later import imported_later

if TYPE_CHECKING:
    from sottovoce.deployment.identity.hello import Hello
    from sottovoce.deployment.identity.session import Opened, Session, fresh_boot, is_hello, new_run_key

__getattr__ = imported_later(
    __name__, {"hello": ("Hello",), "session": ("Opened", "Session", "fresh_boot", "is_hello", "new_run_key")}
)

__all__ = [
    "ROLES",
    "Entry",
    "Hello",
    "Identity",
    "Opened",
    "Roster",
    "Session",
    "fresh_boot",
    "is_hello",
    "load_entry",
    "load_identity",
    "load_roster",
    "new_identity",
    "new_run_key",
    "refusals",
    "renew_identity",
    "verify",
]


def __dir__() -> list[str]:
    return [*__all__]
