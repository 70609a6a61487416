"""Several strings of bytes as one, for stores and wires: each with its length in front."""

import struct
from collections.abc import Iterable

import numpy as np

from sottovoce.deployment.gopa.refusals import Malformed

_LENGTH = struct.Struct("<I")


def packed(parts: Iterable[bytes]) -> bytes:
    """All parts, one after the other."""
    return b"".join(piece for part in parts for piece in (_LENGTH.pack(len(part)), part))


def unpacked(content: bytes) -> list[bytes]:
    """What `packed` was given.

    Raises:
        Malformed: lengths that do not fit.
    """
    found, at = [], 0
    while at < len(content):
        if at + _LENGTH.size > len(content):
            raise Malformed("a length is cut off; these are not whole messages.")
        (length,) = _LENGTH.unpack_from(content, at)
        at += _LENGTH.size
        if at + length > len(content):
            raise Malformed(f"a message of {length} bytes is announced where {len(content) - at} are left.")
        found.append(content[at : at + length])
        at += length
    return found


def as_array(content: bytes) -> np.ndarray:
    """Bytes as a store keeps them, [n] uint8."""
    return np.frombuffer(content, dtype=np.uint8)
