"""Arrays as plain bytes: a checked header of type and shape, and the numbers, little-endian. Nothing in it can run.

    magic (4) | type (1) | dimensions (1) | each dimension (8, unsigned) | CRC-32 of all the rest (4) | the numbers

The check notices what a failing disk does to a page, which SQLite itself would hand back without a word.
"""

import math
import struct
import zlib
from typing import Any

import numpy as np

from sottovoce.deployment.store.refusals import StoreError
from sottovoce.errors import ConfigError

_MAGIC = b"svA1"
_TYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype("<i8"),
    2: np.dtype("<u8"),
    3: np.dtype("<f8"),
    4: np.dtype("u1"),
    5: np.dtype("?"),
    6: np.dtype("<i4"),
    7: np.dtype("<f4"),
}
_CODES = {kind: code for code, kind in _TYPES.items()}
_MOST_DIMENSIONS = 8


def packed(array: np.ndarray) -> bytes:
    """An array as bytes.

    Raises:
        ConfigError: objects, text or another type of number.
    """
    held = np.asarray(array)
    kind = held.dtype.newbyteorder("<") if held.dtype.itemsize > 1 else held.dtype
    if kind not in _CODES or held.ndim > _MOST_DIMENSIONS:
        raise ConfigError(
            f"an array of type {held.dtype} with {held.ndim} dimensions; a store keeps whole numbers, float32, float64 and truth values in at "
            f"most {_MOST_DIMENSIONS} dimensions. Convert it."
        )
    numbers = np.ascontiguousarray(held, dtype=kind).tobytes()
    head = _MAGIC + bytes((_CODES[kind], held.ndim)) + struct.pack(f"<{held.ndim}Q", *held.shape)
    return b"".join((head, struct.pack("<I", zlib.crc32(numbers, zlib.crc32(head))), numbers))


def unpacked(content: bytes, *, of: str) -> np.ndarray:
    """The array that `packed` wrote, as a copy that may be changed.

    Args:
        content: the bytes.
        of: what they are, for the message.

    Raises:
        StoreError: other bytes than were written.
    """
    head = content[:6]
    if len(head) < 6 or head[:4] != _MAGIC or head[4] not in _TYPES or head[5] > _MOST_DIMENSIONS:
        raise _damaged(of)
    kind, dimensions = _TYPES[head[4]], head[5]
    start = 6 + 8 * dimensions
    if len(content) < start + 4:
        raise _damaged(of)
    shape = struct.unpack(f"<{dimensions}Q", content[6:start])
    (check,) = struct.unpack("<I", content[start : start + 4])
    numbers = memoryview(content)[start + 4 :]
    if len(numbers) != math.prod(shape) * kind.itemsize or zlib.crc32(numbers, zlib.crc32(content[:start])) != check:
        raise _damaged(of)
    return np.frombuffer(numbers, dtype=kind).reshape(shape).copy()


def sealed(payload: bytes) -> bytes:
    """Bytes with the same check in front."""
    return struct.pack("<I", zlib.crc32(payload)) + payload


def unsealed(content: bytes, *, of: str) -> bytes:
    """The bytes that `sealed` wrote.

    Raises:
        StoreError: other bytes than were written.
    """
    if len(content) < 4 or zlib.crc32(memoryview(content)[4:]) != struct.unpack("<I", content[:4])[0]:
        raise _damaged(of)
    return content[4:]


def _damaged(of: str) -> StoreError:
    return StoreError(
        f"the store's copy of {of} is damaged: its check does not fit. Do not go on with it; put back a whole copy of the file, if there is "
        f"one that knows every message that was sent, or give the run up."
    )
