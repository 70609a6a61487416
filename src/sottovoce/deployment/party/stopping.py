"""Asked to stop: SIGTERM and SIGINT end a party between two transactions, so that everything is written down and the same command goes on.

    first signal     noted; the party looks at it before it takes in anything more, says so, and closes transport, store and log
    second signal    ends the process at once, as if nobody had asked; that costs nothing either, since a crash costs nothing

Exit codes are those of shells: 128 and the number of the signal, 130 for SIGINT and 143 for SIGTERM.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stopped(KeyboardInterrupt):
    """This party was asked to stop, and has.

    Attributes:
        exit_code: of the process.
    """

    def __init__(self, number: int) -> None:
        self.signal = signal.Signals(number).name
        self.exit_code = 128 + number
        super().__init__(
            f"stopped by {self.signal}, with everything written down; the same command goes on where it is."
        )


@contextlib.contextmanager
def stop_on_signals() -> Iterator[Callable[[], int]]:
    """Note signals while this lasts; gives a function that returns the first one's number, 0 where none has come.

    Only the main thread of a process gets signals; elsewhere nothing is noted.
    """
    asked = [0]

    def note(number: int, frame: FrameType | None) -> None:
        if asked[0]:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        asked[0] = number

    if threading.current_thread() is not threading.main_thread():
        yield lambda: 0
        return
    before = {number: signal.signal(number, note) for number in SIGNALS}
    try:
        yield lambda: asked[0]
    finally:
        for number, handling in before.items():
            signal.signal(number, handling)
