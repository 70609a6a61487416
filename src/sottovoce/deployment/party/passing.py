"""Which statements go to which neighbour: each once, in an order that both ends count, and again as long as it was not counted.

    bundle    base | first | counted | number of statements | statements

To every neighbour there is a queue. `first` is the place of the bundle's first statement in it, everything before `base` is given up, and `counted` says
up to which place the sender of the bundle has the receiver's own queue without a gap. What goes along with new words begins where the last words
ended; what goes along with anything else, or is sent again, begins where the other end stopped counting. So a loss costs a repetition and nothing
is lost. Queues begin anew when one of the two ends starts again.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from sottovoce.deployment.identity.refusals import Malformed
from sottovoce.deployment.party import statements
from sottovoce.deployment.party.statements import Statement

MOST = 512  # statements in one message
_HEAD = struct.Struct("<IIIH")
LARGEST = _HEAD.size + MOST * statements.SIZE
_LAST_PLACE = 2**32 - 1  # that a bundle can name


class Bundle(NamedTuple):
    """Statements on their way."""

    base: int
    first: int
    counted: int
    statements: list[Statement]


NOTHING = Bundle(0, 0, 0, [])


def packed(bundle: Bundle) -> bytes:
    """A bundle as it travels."""
    return _HEAD.pack(*bundle[:3], len(bundle.statements)) + statements.packed(bundle.statements)


def unpacked(content: bytes) -> tuple[Bundle, int]:
    """A bundle, and where it ends.

    Raises:
        Malformed: it is cut off, has more statements than may go along with a message, or counts to more than an answer can.
    """
    if len(content) < _HEAD.size:
        raise Malformed(f"{len(content)} bytes are fewer than stand before statements; the message is ignored.")
    base, first, counted, number = _HEAD.unpack_from(content)
    end = _HEAD.size + number * statements.SIZE
    if number > MOST or len(content) < end:
        raise Malformed(f"a message announces {number} statements; it is cut off, or these are more than {MOST}.")
    if first + number > _LAST_PLACE:
        raise Malformed(f"a message counts {first + number} statements, more than can be answered; it is ignored.")
    return Bundle(base, first, counted, statements.unpacked(content[_HEAD.size : end])), end


@dataclass(slots=True)
class _Queue:
    """What one neighbour is to be told, and how much of it was."""

    base: int = 0  # place of the first entry
    entries: list[Statement] = field(default_factory=list)
    sent: int = 0  # the place after the last entry that went along with words
    counted: int = 0  # up to here the neighbour has everything
    theirs: int = 0  # up to here its own queue is here

    @property
    def end(self) -> int:
        return self.base + len(self.entries)


class Passing:
    """The queues of one party."""

    def __init__(self) -> None:
        self._queues: dict[str, _Queue] = {}

    def begin(self, name: str, known: Iterable[Statement]) -> None:
        """A neighbour has started, and may have forgotten everything."""
        self._queues[name] = _Queue(entries=list(known))

    def add(self, statement: Statement, *, but: Iterable[str]) -> None:
        """Pass a statement on to all but some."""
        left_out = set(but)
        for name, queue in self._queues.items():
            if name not in left_out:
                queue.entries.append(statement)

    def bundle(self, name: str, *, onwards: bool) -> Bundle:
        """What goes along with a message.

        Args:
            name: of the neighbour.
            onwards: it goes along with new words, which will be sent again if they are lost: so only what is new.
        """
        queue = self._queues.setdefault(name, _Queue())
        first = max(queue.sent if onwards else queue.counted, queue.base)
        chosen = queue.entries[first - queue.base :][:MOST]
        if onwards:
            queue.sent = first + len(chosen)
        return Bundle(queue.base, first, queue.theirs, chosen)

    def take(self, name: str, bundle: Bundle) -> None:
        """Count what a neighbour has, and what has come of it."""
        queue = self._queues.setdefault(name, _Queue())
        queue.counted = max(queue.counted, min(bundle.counted, queue.end))
        queue.theirs = max(queue.theirs, min(bundle.base, bundle.first))
        if bundle.first <= queue.theirs:
            queue.theirs = max(queue.theirs, bundle.first + len(bundle.statements))

    def left(self, name: str) -> list[Statement]:
        """What a neighbour has not counted yet."""
        queue = self._queues.setdefault(name, _Queue())
        return queue.entries[max(queue.counted - queue.base, 0) :]

    def stand(self, name: str) -> tuple[int, int]:
        """How long the queue of a neighbour is, and how much of its own is here."""
        queue = self._queues.setdefault(name, _Queue())
        return queue.end, queue.theirs

    def forget(self, before: int) -> None:
        """Give up what belongs to positions that nobody asks for any more."""
        for queue in self._queues.values():
            old = next((k for k, each in enumerate(queue.entries) if each.position >= before), len(queue.entries))
            del queue.entries[:old]
            queue.base += old
