"""The newest blobs that a stream was given: a stream that breaks may not have delivered them, and says nothing about it.

They are sent once more over the next stream, so that what was lost does not wait until its sender's patience ends, which grows while nobody
answers. Who receives one twice refuses the second.
"""

from collections import deque

MOST_BLOBS = 4  # two exchanges without a receipt, and two receipts
MOST_BYTES = 2**20


class HandedOver:
    """A few blobs, bounded in number and bytes; the oldest give way."""

    def __init__(self) -> None:
        self._blobs: deque[bytes] = deque()
        self._bytes = 0

    def put(self, blob: bytes) -> None:
        """Remember a blob that was handed over."""
        self._blobs.append(blob)
        self._bytes += len(blob)
        while len(self._blobs) > MOST_BLOBS or self._bytes > MOST_BYTES:
            self._bytes -= len(self._blobs.popleft())

    def taken_back(self) -> list[bytes]:
        """All of them, the oldest first, which are then gone from here."""
        found = [*self._blobs]
        self._blobs.clear()
        self._bytes = 0
        return found
