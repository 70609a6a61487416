"""Blobs to one other party: a queue, and one stream of gRPC that is opened again whenever it breaks.

A blob is cut into parts of `PART` bytes and a shorter one, perhaps empty, which ends it. What was being sent when the stream broke is sent once more
from its beginning, after the last few that had been handed over, which may be lost with it. Where the other end cannot be reached the oldest blobs give way: who sends
keeps what is not acknowledged.
"""

import asyncio
import contextlib
import random
from typing import Any

import grpc

from sottovoce.deployment.transports.handed_over import HandedOver
from sottovoce.deployment.transports.waiting import Waiting

METHOD = "/sottovoce.Post/Carry"
PART = 2**20  # bytes of one message of gRPC; a shorter one ends a blob
_FIRST_WAIT, _LONGEST_WAIT = 0.05, 0.5  # seconds before another attempt; gRPC waits up to a second more
_CONNECTING = 30.0  # seconds of one attempt


class Outgoing:
    """The way to one other party; all of it runs in the thread of the network."""

    def __init__(self, channel: grpc.aio.Channel, quota: int) -> None:
        self._channel, self._blobs = channel, Waiting(quota)
        self._handed_over = HandedOver()
        self._more = asyncio.Event()
        self._closing = False
        self.connected = False
        self.trouble = ""  # why the last attempt failed, in gRPC's words
        self._task = asyncio.get_running_loop().create_task(self._run())

    def put(self, blob: bytes) -> None:
        """Queue a blob; the oldest ones give way where there is no room."""
        self._blobs.put(blob)
        self._more.set()

    @property
    def busy(self) -> bool:
        """Whether blobs wait for the stream (any thread)."""
        return bool(self._blobs)

    async def close(self, seconds: float) -> None:
        """Send what is queued, within so many seconds, and end; nothing is tried again for one that cannot be reached."""
        self._closing = True
        self._more.set()
        with contextlib.suppress(TimeoutError, asyncio.CancelledError):
            await asyncio.wait_for(self._task, seconds if self.connected or not self.trouble else 0.0)
        await self._channel.close()

    async def _run(self) -> None:
        wait = _FIRST_WAIT
        while not (self._closing and not self._blobs):
            await self._until_something_is_queued()
            try:
                await self._stream()
                wait = _FIRST_WAIT
            # gRPC says that a call has ended in three ways, one of them a cancellation that is not of this task.
            except (grpc.RpcError, asyncio.InvalidStateError, asyncio.CancelledError, TimeoutError) as error:
                if isinstance(error, asyncio.CancelledError) and _cancelled():
                    raise
                self.trouble = _words(error)
                wait = _FIRST_WAIT if self.connected else min(2 * wait, _LONGEST_WAIT)
                self.connected = False
                self._take_back()
                if self._closing:
                    return
                await asyncio.sleep(wait * random.uniform(0.5, 1.0))

    async def _stream(self) -> None:
        """Send blobs over one stream until there is no more to come."""
        call = self._channel.stream_unary(METHOD)()
        call.add_done_callback(lambda _: self._more.set())
        try:
            await asyncio.wait_for(call.wait_for_connection(), _CONNECTING)
        except TimeoutError:
            call.cancel()
            raise
        self.connected, self.trouble = True, ""
        while True:
            await self._until_something_is_queued(call)
            if call.done():
                await call  # raises what ended it
            if not self._blobs:
                break
            blob = self._blobs.first
            for first in range(0, len(blob) + 1, PART):
                await call.write(blob[first : first + PART] if len(blob) >= PART else blob)
            self._blobs.forget(blob)
            self._handed_over.put(blob)
        await call.done_writing()
        await call

    async def _until_something_is_queued(self, call: Any = None) -> None:
        while not self._blobs and not self._closing and not (call and call.done()):
            self._more.clear()
            await self._more.wait()

    def _take_back(self) -> None:
        for blob in reversed(self._handed_over.taken_back()):
            self._blobs.put_back(blob)


def _cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _words(error: BaseException) -> str:
    if isinstance(error, grpc.RpcError):
        return f"{error.code().name.lower().replace('_', ' ')}: {error.details()}"
    if isinstance(error, TimeoutError):
        return f"no connection within {_CONNECTING:g} seconds"
    return "the stream was ended"
