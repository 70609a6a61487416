"""A transport whose blobs come twice, late, and in another order: what a relay or a datagram could do, and TCP hides.

It stands between a party and its real transport. A blob that is chosen is sent once more in a moment; one that is held back is sent after those that
followed it. Nothing is lost here.
"""

import heapq
import random
import time

from sottovoce.deployment.transports import Delivery, Transport

_LONGEST = 0.3  # seconds for which a blob is held back


class Rough:
    """Wraps a transport; it is opened and closed with it."""

    def __init__(self, inner: Transport, *, seed: int, twice: float = 0.0, late: float = 0.0) -> None:
        """Choose what happens.

        Args:
            inner: carries the blobs.
            seed: of all choices.
            twice: probability that a blob is sent a second time.
            late: probability that it is held back for a moment, so that later ones overtake it.
        """
        self._inner, self._chance = inner, random.Random(seed)
        self._twice, self._late = twice, late
        self._held: list[tuple[float, int, str, bytes]] = []
        self._sent = 0
        self.doubled = self.delayed = 0

    @property
    def max_blob(self) -> int:
        return self._inner.max_blob

    def open(self) -> None:
        self._inner.open()

    def send(self, to: str, blob: bytes) -> None:
        late = self._chance.random() < self._late
        if late:
            self.delayed += 1
            self._hold(to, blob)
        else:
            self._inner.send(to, blob)
        if self._chance.random() < self._twice:
            self.doubled += 1
            self._hold(to, blob)

    def recv(self, timeout: float) -> Delivery | None:
        until = time.monotonic() + timeout
        while True:
            self._release()
            now = time.monotonic()
            pause = min(until, self._held[0][0]) if self._held else until
            delivery = self._inner.recv(max(0.0, pause - now))
            if delivery is not None or time.monotonic() >= until:
                return delivery

    def busy(self, to: str) -> bool:
        return self._inner.busy(to)

    def close(self) -> None:
        for _, _, to, blob in sorted(self._held):
            self._inner.send(to, blob)
        self._held.clear()
        self._inner.close()

    def _hold(self, to: str, blob: bytes) -> None:
        self._sent += 1
        due = time.monotonic() + self._chance.uniform(0.0, _LONGEST)
        heapq.heappush(self._held, (due, self._sent, to, blob))

    def _release(self) -> None:
        while self._held and self._held[0][0] <= time.monotonic():
            _, _, to, blob = heapq.heappop(self._held)
            self._inner.send(to, blob)
