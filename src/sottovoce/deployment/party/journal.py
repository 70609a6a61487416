"""What a party writes for people who look on: a log, and the measures of every exchange. Neither is needed to go on after a crash.

    log.jsonl       one event a line: when (UTC), how grave, which event, a sentence, and its values
    metrics.jsonl   one exchange a line: position, seconds, bytes sent since the last one, messages sent again

Nothing in them is secret, and nothing depends on records: names of parties, positions, sizes, times. Both files may be moved away at any time, as
programs that rotate logs do: the next line begins a new one. A line that cannot be written, on a full disk, is lost, and the run goes on.
"""

import contextlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

LOG, METRICS = "log.jsonl", "metrics.jsonl"
# How grave an event is, and the sentence that is written beside its values; any other event is told by its name.
SENTENCES: dict[str, tuple[str, str]] = {
    "started": ("info", "Start {boot} of {party} in the run {run}."),
    "looked on": ("info", "Health and metrics are served at http://{address}."),
    "ready": ("info", "Everybody who is needed is there; it goes on at exchange {position}."),
    "greeted": ("info", "{neighbour} is there, with its start {boot}."),
    "waiting": ("warning", "Nothing has come for a while at exchange {position}; waits for {awaited}."),
    "moving": ("info", "It goes on, at exchange {position}, after {seconds} seconds of waiting."),
    "refused": ("warning", "Refused of {sender}: {reason}"),
    "round": ("info", "Round {number} is over."),
    "lost": ("warning", "Votes to go on without {parties}; committed last: exchange {committed}."),
    "cut": ("warning", "All who remain go on without {without} after exchange {after}, under the agreement {follows}."),
    "goes on": ("info", "It goes on without {without} after exchange {after}; all who remain have signed it."),
    "equivocation": ("error", "{sender} has signed two different messages for exchange {position}."),
    "asked to stop": ("info", "Asked to stop by {signal}; everything is written down, and the same command goes on."),
    "stopped": ("info", "No more is sent; not heard of: {missing}."),
    "ended": ("info", "{says}"),
    "failed": ("error", "{says}"),
}


class Journal:
    """The two files of one party in one run."""

    def __init__(self, folder: Path, also: IO[str] | None = None) -> None:
        """Go on with the files of a folder.

        Args:
            folder: made if it is not there.
            also: where every line of the log is written too, such as the error stream.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._log, self._metrics, self._also = _Lines(folder / LOG), _Lines(folder / METRICS), also

    @property
    def lost(self) -> int:
        """Lines that could not be written."""
        return self._log.lost + self._metrics.lost

    def log(self, event: str, **values: Any) -> None:
        """Write an event, at once."""
        level, sentence = SENTENCES.get(event, ("info", event))
        says = sentence.format_map(_Said(values))
        line = _line({"time": utc(), "level": level, "event": event, "says": says, **values})
        self._log.write(line, at_once=True)
        if self._also is not None:
            with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
                self._also.write(line)
                self._also.flush()

    def measure(self, **values: float) -> None:
        """Write the measures of an exchange; they reach the disk in blocks."""
        self._metrics.write(_line(values), at_once=False)

    def close(self) -> None:
        """Write what is left."""
        self._log.close()
        self._metrics.close()


def utc() -> str:
    """The time, UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _Said(dict[str, Any]):
    """Values as a sentence has them."""

    def __getitem__(self, name: str) -> str:
        value = self.get(name)
        if isinstance(value, list | tuple):
            return ", ".join(map(str, value)) or "nobody"
        return "?" if value is None else str(value)


class _Lines:
    """A file that is appended to, and begun anew where somebody has moved it away."""

    def __init__(self, path: Path) -> None:
        self._path, self._file, self.lost = path, _appending(path), 0

    def write(self, line: str, *, at_once: bool) -> None:
        try:
            if self._moved():
                self.close()
                self._file = _appending(self._path)
            self._file.write(line)
            if at_once:
                self._file.flush()
        except (OSError, ValueError):
            self.lost += 1

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()

    def _moved(self) -> bool:
        if self._file.closed:
            return True
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return True
        here = os.fstat(self._file.fileno())
        return (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino)


def _appending(path: Path) -> IO[str]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    return os.fdopen(descriptor, "a", encoding="utf-8")


def _line(values: dict[str, Any]) -> str:
    return json.dumps(values, separators=(",", ":"), ensure_ascii=True) + "\n"
