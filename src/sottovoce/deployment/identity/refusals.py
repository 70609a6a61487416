"""Why bytes from another party are refused, one class per reason, all of them `sottovoce.errors.ProtocolError`.

Refusing changes nothing for whoever refuses, and nothing about the reason travels back to the sender: words are for the log of this party alone.
"""

from sottovoce.errors import ProtocolError


class Malformed(ProtocolError):
    """Bytes that are not the canonical encoding of what they are given as: a message, or a key."""


class Oversized(ProtocolError):
    """More bytes than a message of its kind may have."""


class Forged(ProtocolError):
    """A signature or a seal that does not fit: the bytes were changed, or made by somebody else."""


class UnknownParty(ProtocolError):
    """A name or a certificate that the roster does not list."""


class WrongRun(ProtocolError):
    """A message of another run."""


class DifferentAgreement(ProtocolError):
    """A party of this run that has agreed to something else."""


class DifferentRoster(ProtocolError):
    """A party of this run that knows other members."""


class DifferentVersion(ProtocolError):
    """A party of this run whose release speaks another version of the messages."""


class WrongReceiver(ProtocolError):
    """A message for somebody else."""


class WrongSender(ProtocolError):
    """A message that says to be from one party and came from another."""


class NotGreeted(ProtocolError):
    """Nothing can be sealed for a party, or opened from it, before its hello has come."""


class OtherBoot(ProtocolError):
    """A message sealed before one of the two ends started again. It is genuine as far as one can tell, and has to be sealed anew."""


class Repeated(ProtocolError):
    """A message that was opened before. It is harmless: who sends again what was not acknowledged causes some."""


class Superseded(ProtocolError):
    """A hello from before the party's latest start."""


class Equivocation(ProtocolError):
    """One party, two different statements where there can be one."""
