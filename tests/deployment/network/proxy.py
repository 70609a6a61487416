"""Links on loopback that behave badly when told to: late, slow, silent, cut; bytes themselves are never changed.

Every directed link (who connects, whom it reaches) is a port of its own, so that one party can be cut off from the others in both directions. One
thread carries all of them. TCP keeps the order and loses nothing, so that what happens to whole messages stands elsewhere (`rough.py`).
"""

import asyncio
import random
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

Link = tuple[str, str]  # who connects, whom it reaches
Mode = Literal["open", "silent", "reset"]
_CHUNK = 65536
_WAITING = 64  # chunks on their way, after which a sender is not read from


@dataclass(frozen=True, slots=True)
class Weather:
    """How a link behaves.

    Attributes:
        delay: seconds one way.
        jitter: seconds, at most so many more or fewer, drawn anew for each piece.
        rate: bytes a second in each direction of a connection; 0: no limit.
        mode: silent keeps what comes and passes nothing on, new connections too; reset ends connections, and every new one at once.
    """

    delay: float = 0.0
    jitter: float = 0.0
    rate: float = 0.0
    mode: Mode = "open"


class Links:
    """All links of a run; `port` says where each of them is entered."""

    def __init__(self, targets: Mapping[Link, int], *, seed: int = 0, weather: Weather | None = None) -> None:
        """Begin to listen.

        Args:
            targets: link -> the port on loopback that it leads to.
            seed: of the jitter.
            weather: of all links in the beginning; left out: nothing is done to them.
        """
        self._chance = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._weather = dict.fromkeys(targets, weather or Weather())
        self._changed: dict[Link, asyncio.Event] = {}
        self._writers: dict[Link, set[asyncio.StreamWriter]] = {link: set() for link in targets}
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._ports: dict[Link, int] = {}
        self._thread = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)
        self._thread.start()
        self._call(self._listen(targets))

    def port(self, link: Link) -> int:
        """Where a link is entered."""
        return self._ports[link]

    def between(self, some: Iterable[str]) -> list[Link]:
        """All links that lead from these parties to others, or back."""
        inside = set(some)
        return [link for link in self._weather if (link[0] in inside) != (link[1] in inside)]

    def change(self, links: Iterable[Link] | None = None, **values: float | str) -> None:
        """Have links behave otherwise from now on; left out: all of them."""
        self._call(self._change(list(self._weather if links is None else links), values))

    def cut(self, links: Iterable[Link] | None = None) -> int:
        """End the connections that there are now; new ones are let through. Returns how many ends were cut."""
        return self._call(self._cut(list(self._weather if links is None else links)))

    def close(self) -> None:
        """End everything."""
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10.0)

    async def _listen(self, targets: Mapping[Link, int]) -> None:
        for link, port in targets.items():
            self._changed[link] = asyncio.Event()
            server = await asyncio.start_server(self._accept(link, port), "127.0.0.1", 0)
            self._servers.append(server)
            self._ports[link] = server.sockets[0].getsockname()[1]

    async def _change(self, links: list[Link], values: Mapping[str, float | str]) -> None:
        for link in links:
            self._weather[link] = replace(self._weather[link], **values)
            self._changed[link].set()
            self._changed[link] = asyncio.Event()
            if self._weather[link].mode == "reset":
                await self._cut([link])

    async def _cut(self, links: list[Link]) -> int:
        cut = 0
        for link in links:
            for writer in self._writers[link]:
                writer.transport.abort()
                cut += 1
            self._writers[link].clear()
        return cut

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        await self._cut(list(self._weather))
        for task in [*self._tasks]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, link: Link, port: int) -> Callable:
        def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = self._loop.create_task(self._connect(link, port, reader, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return accepted

    async def _connect(self, link: Link, port: int, reader, writer) -> None:
        self._writers[link].add(writer)
        try:
            await self._until_open(link)
            there = await asyncio.open_connection("127.0.0.1", port)
        except OSError:  # the party is not there
            writer.transport.abort()
            self._writers[link].discard(writer)
            return
        self._writers[link].add(there[1])
        ways = [
            self._loop.create_task(way)
            for way in (self._carry(link, reader, there[1]), self._carry(link, there[0], writer))
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for each in (writer, there[1]):
                each.transport.abort()
                self._writers[link].discard(each)

    async def _until_open(self, link: Link) -> None:
        while self._weather[link].mode != "open":
            if self._weather[link].mode == "reset":
                raise ConnectionResetError
            await self._changed[link].wait()

    async def _carry(self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One direction of a connection, until one of its ends is gone: a piece is written when its time has come, never before the one ahead of it."""
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_WAITING)
        delivering = self._loop.create_task(self._deliver(link, waiting, writer))
        reading = self._loop.create_task(self._collect(link, reader, waiting))
        try:
            await asyncio.wait([delivering, reading], return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in (delivering, reading):
                task.cancel()
            await asyncio.gather(delivering, reading, return_exceptions=True)

    async def _collect(self, link: Link, reader: asyncio.StreamReader, waiting: asyncio.Queue) -> None:
        data = b"-"
        while data:
            data = await self._read(link, reader)
            await waiting.put((self._loop.time() + self._lag(link), data))

    async def _read(self, link: Link, reader: asyncio.StreamReader) -> bytes:
        rate = self._weather[link].rate
        return await reader.read(max(64, int(rate / 10)) if rate else _CHUNK)

    def _lag(self, link: Link) -> float:
        now = self._weather[link]
        return max(0.0, now.delay + self._chance.uniform(-now.jitter, now.jitter))

    async def _deliver(self, link: Link, waiting, writer: asyncio.StreamWriter) -> None:
        while True:
            due, data = await waiting.get()
            await asyncio.sleep(max(0.0, due - self._loop.time()))
            if rate := self._weather[link].rate:
                await asyncio.sleep(len(data) / rate)
            await self._until_open(link)
            if not data:
                return
            writer.write(data)
            await writer.drain()
