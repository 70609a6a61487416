"""What a party writes for people who look on: a log, and the measures of every exchange. Neither is needed to go on after a crash.

    log.jsonl       one event a line: when, what, and its values
    metrics.jsonl   one exchange a line: position, seconds, bytes sent since the last one, messages sent again

Nothing in them is secret, and nothing depends on records: names of parties, positions, sizes, times.
"""

import json
import os
import time
from pathlib import Path
from typing import IO, Any

LOG, METRICS = "log.jsonl", "metrics.jsonl"


class Journal:
    """The two files of one party in one run."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._log, self._metrics = _appending(folder / LOG), _appending(folder / METRICS)

    def log(self, event: str, **values: Any) -> None:
        """Write an event, at once."""
        _line(self._log, {"time": round(time.time(), 3), "event": event, **values})
        self._log.flush()

    def measure(self, **values: float) -> None:
        """Write the measures of an exchange; they reach the disk in blocks."""
        _line(self._metrics, values)

    def close(self) -> None:
        """Write what is left."""
        self._log.close()
        self._metrics.close()


def _appending(path: Path) -> IO[str]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    return os.fdopen(descriptor, "a", encoding="utf-8")


def _line(file: IO[str], values: dict[str, Any]) -> None:
    file.write(json.dumps(values, separators=(",", ":"), ensure_ascii=True) + "\n")
