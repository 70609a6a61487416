"""Arrays as plain bytes: the numbers, little-endian, and a head with their type, shape and a check. Nothing in it can run.

    head    magic (4) | type (1) | dimensions (1) | each dimension (8, unsigned) | check (4)

The check notices what a failing disk does to a page, which SQLite itself would hand back without a word. It is a CRC-32 of the sums of all whole
64 kB blocks and of the bytes after them: a block that was changed, lost or exchanged has another sum, and sums are ten times faster.
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
_BLOCK_BYTES = 65536


def packed(array: np.ndarray) -> tuple[bytes, memoryview]:
    """An array as its head and its bytes, which are a view where they can be.

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
    flat = np.ascontiguousarray(held, dtype=kind).reshape(-1)
    content = (flat if flat.size else np.zeros(0, "u1")).view("u1").data
    head = _MAGIC + bytes((_CODES[kind], held.ndim)) + struct.pack(f"<{held.ndim}Q", *held.shape)
    return head + check_of(content, head), content


def unpacked(head: bytes, content: bytes, *, of: str) -> np.ndarray:
    """The array that `packed` wrote, as a copy that may be changed.

    Args:
        head: its head.
        content: its bytes.
        of: what they are, for the message.

    Raises:
        StoreError: other bytes than were written.
    """
    if len(head) < 10 or head[:4] != _MAGIC or head[4] not in _TYPES or len(head) != 10 + 8 * head[5]:
        raise damaged(of)
    kind, shape = _TYPES[head[4]], struct.unpack(f"<{head[5]}Q", head[6:-4])
    if len(content) != math.prod(shape) * kind.itemsize or check_of(memoryview(content), head[:-4]) != head[-4:]:
        raise damaged(of)
    return np.frombuffer(content, dtype=kind).reshape(shape).copy()


def check_of(content: memoryview, head: bytes = b"") -> bytes:
    """Four bytes that other contents would not have."""
    whole = len(content) - len(content) % _BLOCK_BYTES
    blocks = np.frombuffer(content[:whole], dtype="<u8").reshape(-1, _BLOCK_BYTES // 8)
    sums = np.add.reduce(blocks, axis=1, dtype=np.uint64)
    return struct.pack("<I", zlib.crc32(content[whole:], zlib.crc32(sums.astype("<u8").tobytes(), zlib.crc32(head))))


def damaged(of: str) -> StoreError:
    """What to say of bytes that do not fit their check."""
    return StoreError(
        f"the store's copy of {of} is damaged: its check does not fit. Do not go on with it; put back a whole copy of the file, if there is "
        f"one that knows every message that was sent, or give the run up."
    )
