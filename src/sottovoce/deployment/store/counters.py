"""How far a store has come, in numbers that only grow, and the signatures by which others remember them.

A store that is put back from a copy has forgotten messages that it sent: going on, it would draw other noise for the same exchange, and add to a
ledger whose last entries are gone. It cannot see that itself. Others can: with every greeting and every message a party signs

    exchanges   exchanges committed, over all runs of this store
    boots       starts of a party on it, over all runs
    entries     entries of its ledger

and peers keep the highest that they saw. A peer's word alone stops nobody: "you have sent more" counts only with one's OWN signature below the
numbers. The store's random name is in the signed bytes, since one identity may own several data sets.
"""

import struct
from dataclasses import dataclass
from typing import NamedTuple

from sottovoce.deployment.identity import verify
from sottovoce.deployment.identity.refusals import Forged
from sottovoce.errors import ProtocolError

STORE_ID_BYTES = 16
PURPOSE = "counters"  # of the signature: identity.sign(PURPOSE, counters.to_bytes())
_PREFIX = b"sottovoce counters 1\n"
_NUMBERS = struct.Struct("<3Q")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """How far a store has come.

    Attributes:
        store: the random name that it got when it was made.
        exchanges: committed over all runs.
        boots: starts of a party over all runs.
        entries: of the ledger.
    """

    store: bytes
    exchanges: int
    boots: int
    entries: int

    def to_bytes(self) -> bytes:
        """What is signed and sent."""
        return _PREFIX + self.store + _NUMBERS.pack(self.exchanges, self.boots, self.entries)

    @staticmethod
    def from_bytes(content: bytes) -> "Counters":
        """The counters that somebody sent.

        Raises:
            ProtocolError: bytes that are no counters.
        """
        if len(content) != len(_PREFIX) + STORE_ID_BYTES + _NUMBERS.size or not content.startswith(_PREFIX):
            raise ProtocolError(
                f"{len(content)} bytes that are not the counters of a store. The peer may run another version: compare `sottovoce --version`."
            )
        store = content[len(_PREFIX) : -_NUMBERS.size]
        exchanges, boots, entries = _NUMBERS.unpack(content[-_NUMBERS.size :])
        return Counters(store=store, exchanges=exchanges, boots=boots, entries=entries)

    def behind(self, other: "Counters") -> bool:
        """Whether one of these numbers is below the other's; they only grow, so that one is enough."""
        return self.exchanges < other.exchanges or self.boots < other.boots or self.entries < other.entries

    def __str__(self) -> str:
        return f"{self.exchanges} exchanges, {self.boots} boots, {self.entries} ledger entries"


class Proof(NamedTuple):
    """Counters in bytes, with the signature of the identity that they are about."""

    counters: bytes
    signature: bytes


def signed_by(identity_key: bytes, purpose: str, content: bytes, signature: bytes) -> bool:
    """Whether an identity signed these bytes for this purpose, as `Identity.sign(purpose, content)` does.

    Args:
        identity_key: the Ed25519 key, 32 bytes.
        purpose: what the signature has to be for.
        content: what was signed.
        signature: 64 bytes.
    """
    try:
        verify(identity_key, purpose, content, signature)
    except Forged:
        return False
    return True
