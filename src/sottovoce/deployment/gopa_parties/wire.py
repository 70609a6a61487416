"""What roles send each other: a reader asks the board for the log, the board shows it, messages go to the board, publications to neighbours.

    asking     A | digest of the agreement (32) | entries read (8) | proof
    showing    S | digest of the agreement (32) | first entry (8) | entries in all (8) | number of proofs (1) | proofs | entries
    message    M | a signed message of the round
    handing    H | a signed publication

Nothing here is secret, and whatever counts is signed by who made it; the transport says who sends. A proof are counters signed by the party whose store
they are about: a reader shows its own with every question, and the board answers with the highest that it has seen of that reader, so that a party
whose store was set back learns it before it says anything.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sottovoce.deployment.gopa.refusals import Malformed
from sottovoce.deployment.gopa_parties.packing import packed, unpacked
from sottovoce.deployment.store import Counters, Proof

ASK, SHOW, MESSAGE, HAND = b"A", b"S", b"M", b"H"
MOST_PROOFS = 64
_ASKED = struct.Struct("<1s32sQ")
_SHOWN = struct.Struct("<1s32sQQB")
_COUNTERS = len(Counters(store=bytes(16), exchanges=0, boots=0, entries=0).to_bytes())
_PROOF = _COUNTERS + 64


class Asked(NamedTuple):
    """A question for the rest of the log."""

    digest: bytes
    length: int
    proof: Proof


class Shown(NamedTuple):
    """Some entries of the log."""

    digest: bytes
    first: int
    total: int
    proofs: Sequence[Proof]
    entries: Sequence[bytes]


def asking(value: Asked) -> bytes:
    """A question as it travels."""
    return _ASKED.pack(ASK, value.digest, value.length) + b"".join(value.proof)


def read_asking(blob: bytes) -> Asked:
    """What a question says.

    Raises:
        Malformed: it has another length.
    """
    if len(blob) != _ASKED.size + _PROOF:
        raise Malformed(f"a question has {_ASKED.size + _PROOF} bytes; this one has {len(blob)}.")
    _, digest, length = _ASKED.unpack_from(blob)
    return Asked(digest, length, _proof(blob[_ASKED.size :]))


def showing(value: Shown) -> bytes:
    """Entries as they travel."""
    proofs = value.proofs[:MOST_PROOFS]
    head = _SHOWN.pack(SHOW, value.digest, value.first, value.total, len(proofs))
    return b"".join((head, *(part for proof in proofs for part in proof), packed(value.entries)))


def read_showing(blob: bytes) -> Shown:
    """What entries say.

    Raises:
        Malformed: lengths that do not fit.
    """
    if len(blob) < _SHOWN.size or len(blob) < (end := _SHOWN.size + _PROOF * blob[_SHOWN.size - 1]):
        raise Malformed(f"{len(blob)} bytes are fewer than what stands before entries of a log.")
    _, digest, first, total, _ = _SHOWN.unpack_from(blob)
    proofs = tuple(_proof(blob[at : at + _PROOF]) for at in range(_SHOWN.size, end, _PROOF))
    return Shown(digest, first, total, proofs, unpacked(blob[end:]))


def in_pieces(value: Shown, most: int) -> Iterator[bytes]:
    """Entries in as many blobs as they need, each of at most so many bytes."""
    room = most - _SHOWN.size - _PROOF * MOST_PROOFS
    first, piece, size = value.first, list[bytes](), 0
    for raw in value.entries:
        if piece and size + len(raw) + 4 > room:
            yield showing(value._replace(first=first, entries=piece))
            first, piece, size = first + len(piece), [], 0
        piece.append(raw)
        size += len(raw) + 4
    yield showing(value._replace(first=first, entries=piece))


def _proof(content: bytes) -> Proof:
    return Proof(content[:_COUNTERS], content[_COUNTERS:])
