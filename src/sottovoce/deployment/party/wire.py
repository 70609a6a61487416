"""What one party sends another: a greeting in the open, everything else sealed.

    greeting    H | answer wanted | known start | proof | number of proofs | proofs | hello
    sealed      S | box                     box opens to: receipt | statements that are passed on | salt and signature of the words | words,
                                            or nothing, or evidence, or who is missing (`stalls`)

`known start` are the first bytes of the receiver's start that its sender knows, zeros where it knows none: only who is known can be answered. A
proof are counters signed by the party whose store they are about (`store.Counters`). A greeting shows the sender's own, and the highest that it
has seen of the receiver, so that a receiver whose store was set back learns it. A receipt stands in front of every sealed message: how many
exchanges its sender has taken durably, whether it still waits for a receipt itself, and its proof. `taken = n` says that nothing of the exchanges
0..n-1 is needed again. Salt and signature are zeros where there are no words, or words for one receiver (`statements`).
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sottovoce.deployment.identity.refusals import Malformed, Oversized
from sottovoce.deployment.party import passing
from sottovoce.deployment.party.passing import Bundle
from sottovoce.deployment.party.statements import NO_CLAIM, SALT, SIGNATURE, Claim
from sottovoce.deployment.store import Counters, Proof
from sottovoce.errors import ProtocolError

HELLO, SEALED = b"H", b"S"
WORDS, RECEIPT, EVIDENCE, STALL = "words", "receipt", "evidence", "stall"  # kinds of sealed messages
MOST_PROOFS = 64
_RECEIPT = struct.Struct("<QB")
_WORD = np.dtype("<u8")
_START = 8  # bytes by which starts are told apart
UNKNOWN = bytes(_START)
_COUNTERS = len(Counters(store=bytes(16), exchanges=0, boots=0, entries=0).to_bytes())
_PROOF = _COUNTERS + SIGNATURE
_PREFIX = _RECEIPT.size + _PROOF
_CLAIM = SALT + SIGNATURE
LONGEST = _PREFIX + passing.LARGEST + _CLAIM  # bytes before words
_MOST_TAKEN = 2**63  # what a store can count to


class OtherShape(ProtocolError):
    """Words for a model of another size."""


class Greeting(NamedTuple):
    """The beginning of a conversation."""

    wanted: bool  # an answer
    known: bytes  # beginning of the receiver's start, as far as the sender knows
    mine: Proof
    yours: Sequence[Proof]  # the highest that the sender has seen
    hello: bytes


class Receipt(NamedTuple):
    """What its sender has behind it."""

    taken: int
    settled: bool  # everything it sent to the receiver was acknowledged
    proof: Proof


class Payload(NamedTuple):
    """What a sealed message holds."""

    receipt: Receipt
    bundle: Bundle
    claim: Claim
    words: bytes


def greeting(value: Greeting) -> bytes:
    """A greeting as it travels."""
    yours = value.yours[:MOST_PROOFS]
    proofs = b"".join(part for proof in yours for part in proof)
    return b"".join(
        (HELLO, bytes([value.wanted]), value.known[:_START], *value.mine, bytes([len(yours)]), proofs, value.hello)
    )


def read_greeting(blob: bytes) -> Greeting:
    """What a greeting says.

    Raises:
        Oversized: it has too many proofs.
        Malformed: it is too short.
    """
    proof = 2 + _START
    count = proof + _PROOF
    first = count + 1
    if len(blob) > first and blob[count] > MOST_PROOFS:
        raise Oversized(f"a greeting has {blob[count]} proofs; at most {MOST_PROOFS} are read. It is ignored.")
    if len(blob) <= first or len(blob) <= (end := first + _PROOF * blob[count]):
        raise Malformed(f"a greeting has {len(blob)} bytes, fewer than what stands before its hello; it is ignored.")
    yours = tuple(_proof(blob[at : at + _PROOF]) for at in range(first, end, _PROOF))
    return Greeting(bool(blob[1]), blob[2:proof], _proof(blob[proof:count]), yours, blob[end:])


def knows(greeting: Greeting, start: bytes) -> bool:
    """Whether a greeting was sent by somebody who knows this start of its receiver."""
    return greeting.known == start[:_START]


def packed(receipt: Receipt, words: bytes, bundle: Bundle = passing.NOTHING, claim: Claim = NO_CLAIM) -> bytes:
    """A payload to be sealed."""
    head = _RECEIPT.pack(receipt.taken, receipt.settled)
    return b"".join((head, *receipt.proof, passing.packed(bundle), *claim, words))


def unpacked(payload: bytes) -> Payload:
    """What was sealed.

    Raises:
        Malformed: the payload is too short, or counts to more than there can be.
    """
    if len(payload) < _PREFIX:
        raise Malformed(f"a message has {len(payload)} bytes, fewer than its receipt of {_PREFIX}; it is ignored.")
    taken, settled = _RECEIPT.unpack_from(payload)
    if taken >= _MOST_TAKEN:
        raise Malformed(f"a message says that {taken} exchanges were taken, which nobody can count to; it is ignored.")
    bundle, length = passing.unpacked(payload[_PREFIX : _PREFIX + passing.LARGEST])
    first, end = _PREFIX + length, _PREFIX + length + _CLAIM
    if len(payload) < end:
        raise Malformed(f"a message has {len(payload)} bytes, fewer than what stands before its words; it is ignored.")
    receipt = Receipt(taken, bool(settled), _proof(bytes(payload[_RECEIPT.size : _PREFIX])))
    claim = Claim(bytes(payload[first : first + SALT]), bytes(payload[first + SALT : end]))
    return Payload(receipt, bundle, claim, payload[end:])


def as_bytes(words: np.ndarray) -> bytes:
    """Words as they travel and are kept."""
    return np.ascontiguousarray(words, dtype=_WORD).tobytes()


def as_words(content: bytes, dimension: int, sender: str) -> np.ndarray:
    """[d] uint64.

    Raises:
        OtherShape: not as many words as a model has.
    """
    if len(content) != dimension * _WORD.itemsize:
        raise OtherShape(
            f"{sender} sent {len(content)} bytes where a message of this run has {dimension * _WORD.itemsize}; it is ignored."
        )
    return np.frombuffer(content, dtype=_WORD).astype(np.uint64, copy=False)


def _proof(content: bytes) -> Proof:
    return Proof(content[:_COUNTERS], content[_COUNTERS:])
