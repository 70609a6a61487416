"""What a role of the protocol refuses, one class per reason, all of them `sottovoce.errors.ProtocolError`.

Refusing a message never changes the state of whoever refuses it: the round goes on as if the message had not arrived.
"""

from sottovoce.deployment.identity.exchange_keys import Malformed as Malformed
from sottovoce.errors import ProtocolError


class Forged(ProtocolError):
    """The signature is not the named sender's."""


class UnknownSender(ProtocolError):
    """The sender is not entitled to send this kind of message in this round."""


class Replayed(ProtocolError):
    """A message of another run, of another round or of another history of this one."""


class OutOfPhase(ProtocolError):
    """A message of a phase that has ended or has not begun."""


class Duplicate(ProtocolError):
    """A second message where each sender has one."""


class FalseList(ProtocolError):
    """A list of active or dropped parties that the board's own log contradicts."""


class Equivocation(ProtocolError):
    """Two logs that should be one: the board has told a reader something else."""


class SecondPublication(ProtocolError):
    """A party was asked to publish again; two publications with the same masks reveal their difference."""


class WithheldPublication(ProtocolError):
    """A party is said to have dropped out although its publication has been seen."""


class WrongTime(ProtocolError):
    """A step was asked for at a time at which it would no longer, or not yet, be safe."""


class TooFewParties(ProtocolError):
    """Fewer parties or neighbours are left than the round promised to hide among."""


class Unrepaired(ProtocolError):
    """The sum still contains masks of parties that fell silent."""
