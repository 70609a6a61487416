"""What has arrived and was not asked for yet: bounded for every sender by itself, and handed out in turn.

A sender whose blobs nobody takes is not read from any more, so that its own end fills up. What one sends never takes the room of another, and a
sender of many blobs waits its turn for each of them.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable

from sottovoce.deployment.transports.transport import Delivery, nothing

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
        self._waiting: dict[str, deque[Delivery]] = {sender: deque() for sender in senders}
        self._turns: deque[str] = deque()  # senders of whom something waits
        self._bytes = dict.fromkeys(senders, 0)
        self._paused: dict[str, asyncio.Event] = {}
        self._arrived = threading.Condition()

    async def put(self, sender: str, blob: bytes) -> None:
        """Add a blob, as soon as there is room for it (network's thread)."""
        while not self.offer(sender, blob):
            with self._arrived:
                room = self._paused.setdefault(sender, asyncio.Event()) if self._full(sender, blob) else None
            if room is not None:
                await room.wait()

    def offer(self, sender: str, blob: bytes, done: Callable[[], None] = nothing) -> bool:
        """Add a blob if there is room for it (network's thread)."""
        with self._arrived:
            if self._full(sender, blob):
                return False
            self._bytes[sender] += len(blob) + _OVERHEAD
            if not self._waiting[sender]:
                self._turns.append(sender)
            self._waiting[sender].append(Delivery(sender, blob, done))
            self._arrived.notify()
            return True

    def get(self, timeout: float) -> Delivery | None:
        """The next blob, or None (caller's thread)."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: self._turns, max(0.0, timeout)):
                return None
            sender = self._turns.popleft()
            delivery = self._waiting[sender].popleft()
            if self._waiting[sender]:
                self._turns.append(sender)
            self._bytes[sender] -= len(delivery.blob) + _OVERHEAD
            paused = self._paused.pop(sender, None)
        if paused is not None:
            self._loop.call_soon_threadsafe(paused.set)
        return delivery

    def waiting_bytes(self, sender: str) -> int:
        """How many bytes of one sender wait."""
        with self._arrived:
            return self._bytes[sender]

    def _full(self, sender: str, blob: bytes) -> bool:
        return bool(self._bytes[sender]) and self._bytes[sender] + len(blob) + _OVERHEAD > self._quota
