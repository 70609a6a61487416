"""What was written down and sent, and not acknowledged yet: sent again after a while, less and less often."""

from dataclasses import dataclass

FIRST_WAIT = 1.0  # seconds until a message is sent again
LONGEST_WAIT = 8.0
MOST = 2  # exchanges to one receiver without a receipt


@dataclass(slots=True)
class _Entry:
    words: bytes
    due: float
    wait: float = FIRST_WAIT


class Outbox:
    """Words by receiver and position, each with the time when it is sent again."""

    def __init__(self) -> None:
        self._entries: dict[str, dict[int, _Entry]] = {}

    def put(self, receiver: str, position: int, words: bytes, now: float) -> None:
        """Keep what is being sent now."""
        self._entries.setdefault(receiver, {})[position] = _Entry(words, now + FIRST_WAIT)

    def drop(self, receiver: str, taken: int) -> bool:
        """Forget what a receiver has taken; False where there was nothing of it."""
        kept = self._entries.get(receiver, {})
        gone = [position for position in kept if position < taken]
        for position in gone:
            del kept[position]
        return bool(gone)

    def forget(self, receiver: str) -> None:
        """Have nothing more for a receiver who is lost."""
        self._entries.pop(receiver, None)

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
        for entry in self._entries.get(receiver, {}).values():
            entry.due, entry.wait = now, FIRST_WAIT

    def due(self, now: float) -> list[tuple[str, int, bytes]]:
        """(receiver, position, words) of all whose time has come; each waits longer for its next time."""
        found = []
        for receiver, kept in self._entries.items():
            for position, entry in sorted(kept.items()):
                if entry.due <= now:
                    found.append((receiver, position, entry.words))
                    entry.due, entry.wait = now + entry.wait, min(2 * entry.wait, LONGEST_WAIT)
        return found

    def next_due(self) -> float | None:
        """When something is sent again; None where nothing waits."""
        return min((entry.due for kept in self._entries.values() for entry in kept.values()), default=None)
