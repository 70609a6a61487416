"""Messages: one canonical string of bytes for each, signed as a whole.

    label (17) | kind (1) | run (16) | round (8) | sender (32) | reference (32) | length (4) | payload | signature (64)

Numbers are little-endian. The reference is a head of the board's log, which fixes everything said before: a message of
another history of the same round does not fit. Payloads:

    REGISTER  exchange key (32)                CLOSE  nothing             BEACON  32 random bytes
    READY     nothing                          FREEZE the active parties, 4 bytes each, increasing
    PUBLISH   d words of 8 bytes               DROPS  the dropped parties, 4 bytes each, increasing
    COSIGN    nothing                          REPAIR d words of 8 bytes

Parsing accepts exactly what `seal` writes, and nothing else.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from sottovoce.deployment.gopa.keys import identity_bytes
from sottovoce.deployment.gopa.refusals import Forged, Malformed
from sottovoce.reprs import short_repr

_LABEL = b"sottovoce/gopa/1\n"
_HEADER = struct.Struct("<17sB16sQ32s32sI")
_SIGNATURE_BYTES = 64


class Kind(IntEnum):
    """The kinds of message, in the order in which a round needs them."""

    REGISTER = 1
    CLOSE = 2
    BEACON = 3
    READY = 4
    FREEZE = 5
    PUBLISH = 6
    DROPS = 7
    COSIGN = 8
    REPAIR = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message without its signature.

    Attributes:
        kind: what it is.
        run: 16 bytes that name the run.
        round_number: the round within the run, below 2^64.
        sender: public identity key, 32 bytes.
        reference: head of the log that the message builds on, 32 bytes.
        payload: what the kind says.
    """

    kind: Kind
    run: bytes
    round_number: int
    sender: bytes
    reference: bytes
    payload: bytes = b""

    def __repr__(self) -> str:
        return short_repr(self)


def seal(message: Message, identity: Ed25519PrivateKey) -> bytes:
    """The canonical bytes of a message, signed by its sender."""
    if identity_bytes(identity) != message.sender:
        raise Forged("A message is signed by the identity it names as sender; this identity is another one.")
    body = _body(message)
    return body + identity.sign(body)


def parse(raw: bytes) -> Message:
    """Read a message without checking its signature.

    Raises:
        Malformed: the bytes are not what `seal` writes.
    """
    if not isinstance(raw, bytes) or len(raw) < _HEADER.size + _SIGNATURE_BYTES:
        raise Malformed("A message must be bytes that hold at least a header and a signature; these do not.")
    label, kind, run, round_number, sender, reference, length = _HEADER.unpack_from(raw)
    if label != _LABEL:
        raise Malformed(
            f"The message starts with {label!r}; this version reads {_LABEL!r}. Use the same version everywhere."
        )
    if kind not in Kind.__members__.values():
        raise Malformed(f"The message has kind {kind}; known are 1 to {max(Kind)}.")
    if len(raw) != _HEADER.size + length + _SIGNATURE_BYTES:
        raise Malformed(
            f"The message announces {length} bytes of payload and has {len(raw) - _HEADER.size - _SIGNATURE_BYTES}."
        )
    payload = raw[_HEADER.size : _HEADER.size + length]
    return Message(
        kind=Kind(kind), run=run, round_number=round_number, sender=sender, reference=reference, payload=payload
    )


def open_message(raw: bytes) -> Message:
    """Read a message and check that its named sender signed it.

    Raises:
        Malformed: the bytes are not what `seal` writes.
        Forged: the signature is wrong.
    """
    message = parse(raw)
    try:
        key = Ed25519PublicKey.from_public_bytes(message.sender)
        key.verify(raw[-_SIGNATURE_BYTES:], raw[:-_SIGNATURE_BYTES])
    except (InvalidSignature, ValueError) as error:
        raise Forged(
            f"The {message.kind.name} message is not signed by the sender it names; it was changed or made up."
        ) from error
    return message


def pack_words(words: np.ndarray) -> bytes:
    """A vector modulo 2^64 as payload, [d] uint64."""
    return words.astype("<u8").tobytes()


def unpack_words(payload: bytes, dimension: int) -> np.ndarray:
    """The vector of a payload, [d] uint64.

    Raises:
        Malformed: the payload has another length.
    """
    if len(payload) != 8 * dimension:
        raise Malformed(f"The payload has {len(payload)} bytes; {dimension} words of 8 bytes are needed.")
    return np.frombuffer(payload, dtype="<u8").astype(np.uint64)


def pack_parties(parties: frozenset[int]) -> bytes:
    """A set of parties as payload."""
    return struct.pack(f"<{len(parties)}I", *sorted(parties))


def unpack_parties(payload: bytes) -> frozenset[int]:
    """The set of parties of a payload.

    Raises:
        Malformed: not whole numbers of 4 bytes, or not strictly increasing.
    """
    if len(payload) % 4:
        raise Malformed(f"A list of parties has 4 bytes for each; these are {len(payload)} bytes.")
    listed = struct.unpack(f"<{len(payload) // 4}I", payload)
    if any(later <= earlier for earlier, later in pairwise(listed)):
        raise Malformed("A list of parties must be strictly increasing; this one is not.")
    return frozenset(listed)


def _body(message: Message) -> bytes:
    header = _HEADER.pack(
        _LABEL,
        message.kind,
        message.run,
        message.round_number,
        message.sender,
        message.reference,
        len(message.payload),
    )
    return header + message.payload
