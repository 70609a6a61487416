"""Words that have come and are not taken yet: at most two exchanges of each sender, whatever a sender does."""

from collections.abc import Iterable

import numpy as np

from sottovoce.errors import ProtocolError

MOST = 2  # exchanges of one sender; an honest one waits for a receipt before it sends a third


class Inbox:
    """Words by sender and position."""

    def __init__(self) -> None:
        self._words: dict[str, dict[int, np.ndarray]] = {}

    def put(self, sender: str, position: int, words: np.ndarray) -> bool:
        """Keep words; False where a sender has too many here already. Words that came before are not kept twice.

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
            return True
        if len(kept) >= MOST:
            return False
        kept[position] = words
        return True

    def missing(self, position: int, senders: Iterable[str]) -> list[str]:
        """The senders that have not been heard at an exchange."""
        return [sender for sender in senders if position not in self._words.get(sender, {})]

    def pop(self, position: int, senders: Iterable[str]) -> dict[str, np.ndarray]:
        """The words of an exchange, which are then gone from here."""
        return {sender: self._words[sender].pop(position) for sender in senders}
