"""Blobs that wait to be sent to one other party: bounded, and the oldest give way, since who sends keeps what is not acknowledged."""

from collections import deque
from collections.abc import Iterator

MOST_BLOBS = 256


class Waiting:
    """A queue in the thread of the network."""

    def __init__(self, quota: int) -> None:
        """Begin empty.

        Args:
            quota: the most bytes that wait; a single blob may be larger.
        """
        self._quota, self._bytes = quota, 0
        self._blobs: deque[bytes] = deque()

    def __len__(self) -> int:
        return len(self._blobs)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._blobs)

    @property
    def first(self) -> bytes:
        """The next blob, which stays here."""
        return self._blobs[0]

    def put(self, blob: bytes) -> None:
        """Queue a blob; the oldest ones give way where there is no room."""
        self._blobs.append(blob)
        self._bytes += len(blob)
        while len(self._blobs) > 1 and self._full():
            self._bytes -= len(self._blobs.popleft())

    def put_back(self, blob: bytes) -> None:
        """Queue a blob before all others, if there is room: it was taken from here, and is older."""
        self._blobs.appendleft(blob)
        self._bytes += len(blob)
        if len(self._blobs) > 1 and self._full():
            self._bytes -= len(self._blobs.popleft())

    def forget(self, blob: bytes) -> None:
        """Take out the first blob, unless it has given way to others while it was being sent."""
        if self._blobs and self._blobs[0] is blob:
            self._blobs.popleft()
            self._bytes -= len(blob)

    def _full(self) -> bool:
        return self._bytes > self._quota or len(self._blobs) > MOST_BLOBS
