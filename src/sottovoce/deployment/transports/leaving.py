"""What goes to a relay: blobs wait for each receiver, travel in parts, and are forgotten when the relay has said that it has them.

Not more than `_WINDOW` bytes are on their way to the relay at a time. What it had not confirmed when the connection ended is sent again over the next
one, and what it refused, for want of a mailbox or of room, a little later. With a fixed shape one part, or a dummy, goes to every member at every beat, and nothing is sent again: who sends keeps what is not
acknowledged by its receiver.
"""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from sottovoce.deployment.transports.cover import BESIDE, Cover
from sottovoce.deployment.transports.parts import cut
from sottovoce.deployment.transports.shape import Shape
from sottovoce.deployment.transports.waiting import Waiting

_WINDOW = 8 * 2**20
_PAUSE = 0.3  # seconds before a blob that the relay refused is sent again
_CONFIRMED_WITHIN = 10.0  # seconds, after which a part counts as lost
_BUSY = 30.0  # seconds, after which a part that is not confirmed keeps nobody from sending more
_SLOWEST = 4.0  # seconds: a relay that takes longer counts as one that takes so long


class Publishes(Protocol):
    """Hands a part over to the relay."""

    async def __call__(self, to: str, content: bytes, number: int) -> None:
        """Publish bytes for a receiver; the relay's answer will bear the number."""


@dataclass(slots=True)
class _Letter:
    to: str
    blob: bytes
    left: int  # parts that the relay has not answered
    began: float  # when it was handed over to the connection
    refused: bool = False


class Leaving:
    """The way from blobs to messages; all of it runs in the thread of the network.

    Attributes:
        troubles: receiver -> why the relay did not take the last part for it; nothing where it did.
        answers_within: seconds that the relay takes to confirm a blob, as it was lately, queues on the way included.
    """

    def __init__(self, covers: Mapping[str, Cover], quota: int, most: int) -> None:
        """Begin with nothing.

        Args:
            covers: the outer seal of everybody to whom something may be sent.
            quota: the most bytes that wait for one of them.
            most: bytes of a message.
        """
        self._covers, self._most = covers, most - BESIDE
        self._waiting = {to: Waiting(quota) for to in covers}
        self._numbers = itertools.count(1)
        self._unconfirmed: dict[int, tuple[_Letter, int]] = {}
        self._bytes = 0  # that are not confirmed
        self._more, self._room = asyncio.Event(), asyncio.Event()
        self._cutting: dict[str, Iterator[bytes]] = {}
        self.troubles: dict[str, str] = {}
        self.answers_within = 0.0

    @property
    def idle(self) -> bool:
        """Whether nothing waits and everything is confirmed."""
        return not self._unconfirmed and not self._cutting and not any(self._waiting.values())

    def busy(self, to: str) -> bool:
        """Whether a blob for somebody waits or is not confirmed yet, unless that takes so long that it may be lost (any thread)."""
        since = time.monotonic() - _BUSY
        unconfirmed = tuple(self._unconfirmed.values())
        return (
            bool(self._waiting[to])
            or to in self._cutting
            or any(letter.to == to and letter.began > since for letter, _ in unconfirmed)
        )

    def connected(self, seconds: float) -> None:
        """Take the time of a handshake for the time of an answer, until there are answers."""
        self.answers_within = min(seconds, _SLOWEST)

    def put(self, to: str, blob: bytes) -> None:
        """Queue a blob; the oldest ones give way where there is no room."""
        self._waiting[to].put(blob)
        self._more.set()

    def confirmed(self, number: int, trouble: str) -> None:
        """The relay has answered a part."""
        letter, size = self._unconfirmed.pop(number, (None, 0))
        if letter is None:
            return
        self._bytes -= size
        self._room.set()
        letter.left -= 1
        if not letter.left:
            took = min(time.monotonic() - letter.began, _SLOWEST)
            self.answers_within += (took - self.answers_within) / 4
        letter.refused |= bool(trouble)
        if trouble:
            self.troubles[letter.to] = trouble
        else:
            self.troubles.pop(letter.to, None)
        if letter.refused and not letter.left:
            self._waiting[letter.to].put_back(letter.blob)
            asyncio.get_running_loop().call_later(_PAUSE, self._more.set)

    def disconnected(self) -> None:
        """Queue again what the relay has not confirmed."""
        letters = {id(letter): letter for letter, _ in self._unconfirmed.values()}
        for letter in reversed(letters.values()):
            self._waiting[letter.to].put_back(letter.blob)
        self._unconfirmed.clear()
        self._cutting.clear()
        self._bytes = 0

    async def run(self, publish: Publishes) -> None:
        """Send what is queued, one blob of each receiver in turn, for as long as there is a connection."""
        while True:
            self._more.clear()
            for to, waiting in self._waiting.items():
                if waiting:
                    await self._send(to, waiting.first, publish)
            if not any(waiting and to not in self.troubles for to, waiting in self._waiting.items()):
                await self._more.wait()

    async def _send(self, to: str, blob: bytes, publish: Publishes) -> None:
        parts = list(cut(blob, self._most))
        letter = _Letter(to, blob, len(parts), time.monotonic())
        for part in parts:
            await self._until_room(len(part))
            number = next(self._numbers)
            self._unconfirmed[number] = letter, len(part)
            self._bytes += len(part)
            await publish(to, self._covers[to].sealed(part), number)
        self._waiting[to].forget(blob)

    async def _until_room(self, size: int) -> None:
        while self._bytes and self._bytes + size > _WINDOW:
            self._room.clear()
            try:
                await asyncio.wait_for(self._room.wait(), _CONFIRMED_WITHIN)
            except TimeoutError:
                self._unconfirmed.clear()
                self._bytes = 0

    async def beat(self, publish: Publishes, shape: Shape) -> None:
        """Send one message to everybody at every beat, for as long as there is a connection."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            for to, cover in self._covers.items():
                await publish(to, cover.sealed(self._next(to, shape.size - BESIDE), shape.size), 0)
            due = max(due + shape.seconds, loop.time())
            await asyncio.sleep(due - loop.time())

    def _next(self, to: str, most: int) -> bytes:
        """The next part for a receiver; empty where nothing waits."""
        if to not in self._cutting and self._waiting[to]:
            blob = self._waiting[to].first
            self._waiting[to].forget(blob)
            self._cutting[to] = cut(blob, most)
        with contextlib.suppress(KeyError):
            part = next(self._cutting[to], b"")
            if part:
                return part
            del self._cutting[to]
            return self._next(to, most)
        return b""
