"""Words that have come and are not taken yet: at most two exchanges of each sender, whatever a sender does."""

from collections.abc import Callable, Iterable

import numpy as np

from sottovoce.deployment.transports import nothing
from sottovoce.errors import ProtocolError

MOST = 2  # exchanges of one sender; an honest one waits for a receipt before it sends a third


class Inbox:
    """Words by sender and position."""

    def __init__(self) -> None:
        self._words: dict[str, dict[int, np.ndarray]] = {}
        self._done: dict[tuple[str, int], Callable[[], None]] = {}
        self._popped: list[Callable[[], None]] = []  # of words that are taken and not written down

    def put(self, sender: str, position: int, words: np.ndarray, done: Callable[[], None] = nothing) -> bool:
        """Keep words; False where a sender has too many here already. Words that came before are not kept twice.

        Args:
            sender: whose.
            position: of which exchange.
            words: [d].
            done: called once they are written down, or at once where they are not kept.

        Raises:
            ProtocolError: the sender said something else before.
        """
        kept = self._words.setdefault(sender, {})
        if position in kept:
            if not np.array_equal(kept[position], words):
                raise ProtocolError(
                    f"{sender} sent two different messages for exchange {position}, which no honest store does: either it was set back from a "
                    f"backup or it cheats. The run stops here; ask {sender}."
                )
            done()
            return True
        if len(kept) >= MOST:
            done()
            return False
        kept[position] = words
        self._done[sender, position] = done
        return True

    def missing(self, position: int, senders: Iterable[str]) -> list[str]:
        """The senders that have not been heard at an exchange."""
        return [sender for sender in senders if position not in self._words.get(sender, {})]

    def pop(self, position: int, senders: Iterable[str]) -> dict[str, np.ndarray]:
        """The words of an exchange, which are then gone from here."""
        senders = tuple(senders)
        self._popped += [self._done.pop((sender, position)) for sender in senders]
        return {sender: self._words[sender].pop(position) for sender in senders}

    def written(self) -> None:
        """Note that a transaction has taken along all words that were popped: nobody needs to deliver them again."""
        for done in self._popped:
            done()
        self._popped.clear()

    def let_go(self) -> None:
        """Forget everything: its run ends, and nobody needs to deliver it again."""
        self._popped += self._done.values()
        self._words.clear()
        self._done.clear()
        self.written()
