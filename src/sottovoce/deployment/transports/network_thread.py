"""The thread in which a transport does its work, with an event loop of its own between `open` and `close`."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any


class NetworkThread:
    """An event loop that runs until `stop`."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_run, args=(self.loop,), name="sottovoce-transport", daemon=True)
        self._thread.start()

    def finished(self, work: Coroutine[Any, Any, None], seconds: float | None = None) -> None:
        """Wait for work in the thread.

        Raises:
            TimeoutError: it takes longer than so many seconds.
        """
        asyncio.run_coroutine_threadsafe(work, self.loop).result(seconds)

    def soon(self, call: Callable[..., object], *arguments: object) -> None:
        """Have something called in the thread, and do not wait; after `stop` nothing happens."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(call, *arguments)

    def stop(self) -> None:
        """End everything that runs in the thread, and the thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        pending = asyncio.all_tasks(loop)
        for task in pending:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
