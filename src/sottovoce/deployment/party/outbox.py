"""What was written down and sent, and not acknowledged yet: sent again after a while, less and less often.

How long a receiver takes to acknowledge is measured by words that were sent once, since nobody knows which of two copies was acknowledged; the next
words wait for twice as long before they are sent again. Where words had to be repeated, the next ones begin with the wait that these had come to.
Nothing is repeated while earlier bytes for the receiver are still on their way out.
"""

from collections.abc import Callable
from dataclasses import dataclass

FIRST_WAIT = 1.0  # seconds until a message is sent again, at least
LONGEST_WAIT = 8.0
MOST = 2  # exchanges to one receiver without a receipt


@dataclass(slots=True)
class _Entry:
    words: bytes
    sent: float
    due: float
    wait: float
    at_once: bool = False  # its receiver has just started, and had nothing of it
    repeated: bool = False


def _never(receiver: str) -> bool:
    return False


class Outbox:
    """Words by receiver and position, each with the time when it is sent again."""

    def __init__(self) -> None:
        self._entries: dict[str, dict[int, _Entry]] = {}
        self._usual: dict[str, float] = {}  # seconds until a receipt, smoothed
        self._first: dict[str, float] = {}  # seconds until words are sent again for the first time

    def put(self, receiver: str, position: int, words: bytes, now: float) -> None:
        """Keep what is being sent now."""
        wait = self._first.get(receiver, FIRST_WAIT)
        self._entries.setdefault(receiver, {})[position] = _Entry(words, now, now + wait, wait)

    def drop(self, receiver: str, taken: int, now: float) -> bool:
        """Forget what a receiver has taken, and learn how long that took; False where there was nothing of it."""
        kept = self._entries.get(receiver, {})
        gone = sorted(position for position in kept if position < taken)
        for position in gone:
            entry = kept.pop(position)
            if entry.repeated:
                self._first[receiver] = entry.wait
            else:
                took = min(now - entry.sent, LONGEST_WAIT)
                self._usual[receiver] = usual = 0.75 * self._usual.get(receiver, took) + 0.25 * took
                self._first[receiver] = min(max(2 * usual, FIRST_WAIT), LONGEST_WAIT)
        return bool(gone)

    def forget(self, receiver: str) -> None:
        """Have nothing more for a receiver who is lost."""
        self._entries.pop(receiver, None)

    def usual(self, receiver: str) -> float:
        """Seconds in which a receiver acknowledges words, as far as is known: measured, or more where words had to be repeated."""
        first = self._first.get(receiver, FIRST_WAIT)
        return max(self._usual.get(receiver, 0.0), first / 2 if first > FIRST_WAIT else 0.0)

    def full(self, receiver: str) -> bool:
        """Whether a receiver has to acknowledge something before it is sent more."""
        return len(self._entries.get(receiver, {})) >= MOST

    def of(self, receiver: str) -> list[tuple[int, bytes]]:
        """(position, words) of all that a receiver has not acknowledged."""
        return [(position, entry.words) for position, entry in sorted(self._entries.get(receiver, {}).items())]

    def receivers(self) -> list[str]:
        """Who has not acknowledged everything."""
        return sorted(receiver for receiver, kept in self._entries.items() if kept)

    def hurry(self, receiver: str, now: float) -> None:
        """Send all of a receiver's messages again at once: it has just started."""
        self._first.pop(receiver, None)
        for entry in self._entries.get(receiver, {}).values():
            entry.due, entry.wait, entry.at_once = now, FIRST_WAIT, True

    def retry(self, receiver: str, now: float) -> None:
        """Send what was repeated in vain again, as soon as may be: its receiver is heard of again."""
        for entry in self._entries.get(receiver, {}).values():
            if entry.repeated:
                entry.due, entry.wait = min(entry.due, now), FIRST_WAIT

    def due(self, now: float, busy: Callable[[str], bool] = _never) -> list[tuple[str, int, bytes]]:
        """(receiver, position, words) of all whose time has come; each waits longer for its next time.

        Args:
            now: the time.
            busy: whether earlier bytes for a receiver are still on their way out.
        """
        found = []
        for receiver, kept in self._entries.items():
            waits = busy(receiver) if any(entry.due <= now for entry in kept.values()) else False
            for position, entry in sorted(kept.items()):
                if entry.due > now:
                    continue
                if entry.at_once or not waits:
                    found.append((receiver, position, entry.words))
                    entry.repeated = not entry.at_once
                entry.due, entry.wait = now + entry.wait, min(2 * entry.wait, LONGEST_WAIT)
                if entry.at_once:
                    entry.at_once, entry.sent, entry.wait = False, now, FIRST_WAIT
        return found

    def next_due(self) -> float | None:
        """When something is sent again; None where nothing waits."""
        return min((entry.due for kept in self._entries.values() for entry in kept.values()), default=None)
