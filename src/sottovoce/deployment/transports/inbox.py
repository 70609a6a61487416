"""What has arrived and was not asked for yet: bounded for every sender by itself.

A sender whose blobs nobody takes is not read from any more, so that its own end fills up. What one sends never takes the room of another.
"""

import asyncio
import queue
import threading

from sottovoce.deployment.transports.transport import Delivery

_OVERHEAD = 1024  # bytes of memory that count for any blob, however short


class Inbox:
    """Blobs on their way from the thread of the network to the caller's."""

    def __init__(self, senders: tuple[str, ...], quota: int, loop: asyncio.AbstractEventLoop) -> None:
        """Begin empty.

        Args:
            senders: whose blobs may come.
            quota: the most bytes of one of them that wait; a single blob may be larger.
            loop: of the network's thread.
        """
        self._quota, self._loop = quota, loop
        self._waiting: queue.SimpleQueue[Delivery] = queue.SimpleQueue()
        self._bytes = dict.fromkeys(senders, 0)
        self._paused: dict[str, asyncio.Event] = {}
        self._lock = threading.Lock()

    async def put(self, sender: str, blob: bytes) -> None:
        """Add a blob, as soon as there is room for it (network's thread)."""
        while (room := self._enter(sender, len(blob) + _OVERHEAD)) is not None:
            await room.wait()
        self._waiting.put(Delivery(sender, blob))

    def get(self, timeout: float) -> Delivery | None:
        """The next blob, or None (caller's thread)."""
        try:
            delivery = self._waiting.get(timeout=max(0.0, timeout))
        except queue.Empty:
            return None
        with self._lock:
            self._bytes[delivery.sender] -= len(delivery.blob) + _OVERHEAD
            paused = self._paused.pop(delivery.sender, None)
        if paused is not None:
            self._loop.call_soon_threadsafe(paused.set)
        return delivery

    def waiting_bytes(self, sender: str) -> int:
        """How many bytes of one sender wait."""
        with self._lock:
            return self._bytes[sender]

    def _enter(self, sender: str, size: int) -> asyncio.Event | None:
        """Count a blob in; where there is no room, an event that comes when there may be."""
        with self._lock:
            if self._bytes[sender] and self._bytes[sender] + size > self._quota:
                return self._paused.setdefault(sender, asyncio.Event())
            self._bytes[sender] += size
            return None
