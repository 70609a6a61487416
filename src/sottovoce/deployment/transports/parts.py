"""Blobs in parts, for a relay whose messages are short.

    part = id of the blob, 8 bytes | number of the part | number of parts | length of the blob, 4 bytes each | bytes

All parts of a blob but the last have the same length, ceil(length / parts), so that every header says exactly how long its part is. What a sender
can make a receiver hold is bounded: `most` bytes of blobs that are not whole, four such blobs, and no part shorter than 64 bytes beside the last.
Where that is too little the oldest blob that is not whole is forgotten, and what comes of it later is dropped.
"""

import os
import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from sottovoce.errors import ProtocolError

Mark: TypeAlias = tuple[
    int, str
]  # what tells a message of the relay from all others, and is the same when it comes again
_HEADER = struct.Struct("<8sIII")
HEADER = _HEADER.size
_LEAST = 64  # bytes of a part that is not the last one
_OPEN = 4  # blobs of one sender that are not whole
_REMEMBERED = 64  # blobs of one sender that were whole or forgotten
_OVERHEAD = 256  # bytes of memory that count for any part


def cut(blob: bytes, most: int) -> Iterator[bytes]:
    """The parts of a blob, each with at most so many bytes, header included."""
    name = os.urandom(8)
    parts = max(1, -(-len(blob) // (most - HEADER)))
    length = -(-len(blob) // parts)
    for number in range(parts):
        yield _HEADER.pack(name, number, parts, len(blob)) + blob[number * length : (number + 1) * length]


class Whole(NamedTuple):
    """A blob of which all parts have come."""

    blob: bytes
    messages: tuple[Mark, ...]  # in which they came


@dataclass(slots=True)
class _Open:
    parts: int
    total: int
    pieces: dict[int, bytes] = field(default_factory=dict)
    messages: list[Mark] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(map(len, self.pieces.values())) + _OVERHEAD * len(self.pieces)


class Assembly:
    """What has come of one sender's blobs.

    Attributes:
        dropped: messages whose parts are of no use any more; who calls empties it.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: dict[bytes, _Open] = {}
        self._closed: deque[bytes] = deque(maxlen=_REMEMBERED)
        self.dropped: list[Mark] = []

    @property
    def size(self) -> int:
        """Bytes held."""
        return sum(each.size for each in self._open.values())

    def take(self, part: bytes, message: Mark) -> Whole | None:
        """Take in a part; returns the blob that it completes.

        Args:
            part: as it came.
            message: the mark of the message in which it came.

        Raises:
            ProtocolError: it is no part of a blob that can be taken; it is dropped.
        """
        name, number, parts, total, piece = self._read(part)
        if name in self._closed:
            self.dropped.append(message)
            return None
        blob = self._open.setdefault(name, _Open(parts, total))
        if (blob.parts, blob.total) != (parts, total):
            raise ProtocolError("parts of one blob do not agree on its length")
        if number in blob.pieces:
            self.dropped.append(message)
            return None
        blob.pieces[number] = piece
        blob.messages.append(message)
        if len(blob.pieces) < parts:
            self._make_room(name)
            return None
        del self._open[name]
        self._closed.append(name)
        return Whole(b"".join(blob.pieces[each] for each in range(parts)), tuple(blob.messages))

    def _read(self, part: bytes) -> tuple[bytes, int, int, int, bytes]:
        if len(part) < HEADER:
            raise ProtocolError(f"a part has {len(part)} bytes, fewer than its header of {HEADER}")
        name, number, parts, total = _HEADER.unpack_from(part)
        if total > self._most:
            raise ProtocolError(f"a blob of {total} bytes was announced; at most {self._most} are taken")
        if not 1 <= parts <= total // _LEAST + 1 or number >= parts:
            raise ProtocolError(f"part {number} of {parts} was announced for a blob of {total} bytes")
        length = -(-total // parts)
        expected = max(0, min(total - number * length, length))
        if len(part) - HEADER != expected:
            raise ProtocolError(f"a part has {len(part) - HEADER} bytes where its header says {expected}")
        return name, number, parts, total, part[HEADER:]

    def _make_room(self, newest: bytes) -> None:
        """Forget the oldest blobs that are not whole, but not the one that has just grown."""
        while len(self._open) > 1 and (len(self._open) > _OPEN or self.size > self._most):
            oldest = next(name for name in self._open if name != newest)
            self.dropped += self._open.pop(oldest).messages
            self._closed.append(oldest)
