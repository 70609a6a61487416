"""Whom a party talks to in a run: who has been greeted, and who waits for what.

Every start of a process begins with a greeting, which the other end answers with its own; until both know each other's fresh bytes nothing can be
sealed. Greetings are repeated until they are answered.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

FIRST_WAIT = 0.2  # seconds until a greeting is repeated
LONGEST_WAIT = 3.0
ANSWER_WAIT = (
    1.0  # seconds in which repetitions of a greeting are not answered again: over a slow link many of them come at once
)

MOST_DOUBLINGS = 2  # of the wait between two reminders


@dataclass(slots=True)
class Neighbour:
    """What is known of one other party."""

    start: bytes | None = None  # the fresh bytes of the start that was greeted last; None: not greeted
    knows_me: bool = False  # it has taken in the greeting of this start
    due: float = -math.inf  # when it is greeted again
    wait: float = FIRST_WAIT
    settled: bool = False  # it said that it waits for no receipt
    reminded: float = -math.inf
    reminders: int = 0  # how often it was told in the end what was taken
    answered: float = -math.inf  # when its greeting was last answered
    refusal: str | None = None  # why its last greeting was refused
    heard: float = -math.inf  # when something genuine came last
    taken: int | None = None  # exchanges that it has said to have taken
    boot: int | None = None  # number of its start
    refusals: int = 0  # messages of it that were refused

    @property
    def ready(self) -> bool:
        """Whether both ends know each other's start, so that what one seals the other can open."""
        return self.start is not None and self.knows_me

    def wants_answer(self, wanted: bool, fresh: bool, now: float) -> bool:
        """Whether a greeting is to be answered now: one of a new start always, a repeated one every second at most."""
        if not wanted or not (fresh or now >= self.answered + ANSWER_WAIT):
            return False
        self.answered = now
        return True

    def wants_reminder(self, now: float, wait: float) -> bool:
        """Whether it is to be told again what was taken: after so many seconds, then less and less often."""
        return now >= self.reminded + wait * (1 << min(self.reminders, MOST_DOUBLINGS))


class Neighbours:
    """All others that a party exchanges messages or keys with at some time of the run."""

    def __init__(self, names: Iterable[str]) -> None:
        self._known = {name: Neighbour() for name in sorted(names)}

    def __getitem__(self, name: str) -> Neighbour:
        return self._known[name]

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def forget(self, name: str) -> None:
        """Have nothing more to do with somebody who is lost."""
        self._known.pop(name, None)

    def items(self) -> Iterator[tuple[str, Neighbour]]:
        """Names and what is known of each."""
        return iter(self._known.items())

    def to_greet(self, now: float, busy: Callable[[str], bool]) -> list[str]:
        """Who is to be greeted now; each waits longer for its next time, and nobody for whom earlier bytes are still on their way out (`busy`)."""
        found = []
        for name, each in self._known.items():
            if not each.knows_me and each.due <= now:
                found += [] if busy(name) else [name]
                each.due, each.wait = now + each.wait, min(2 * each.wait, LONGEST_WAIT)
        return found

    def next_due(self) -> float | None:
        """When the next greeting is to be repeated; None where all were answered."""
        return min((each.due for each in self._known.values() if not each.knows_me), default=None)
