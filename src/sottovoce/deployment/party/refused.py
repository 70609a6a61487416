"""What was refused of whom: a sentence in the log for the first few of each kind, and a count of all."""

from collections.abc import Callable, Mapping

QUOTA = 5  # sentences for one peer and kind
_MOST_PEERS = 4096  # names that are told apart; a roster has fewer


class Refused:
    """Refusals by peer and kind.

    Attributes:
        counts: peer -> kind -> how many.
    """

    def __init__(self, log: Callable[..., None]) -> None:
        self._log = log
        self._counts: dict[str, dict[str, int]] = {}

    @property
    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Peer -> kind -> how many."""
        return self._counts

    def note(self, sender: str, error: Exception | str, kind: str = "") -> None:
        """Count a refusal, and take it down unless there were too many of its kind."""
        kind = kind or type(error).__name__
        if sender not in self._counts and len(self._counts) >= _MOST_PEERS:
            return
        kinds = self._counts.setdefault(sender, {})
        kinds[kind] = kinds.get(kind, 0) + 1
        if kinds[kind] <= QUOTA:
            self._log("refused", sender=sender, reason=str(error), kind=kind)
        if kinds[kind] == QUOTA:
            self._log("only counted", sender=sender, kind=kind, reason=f"{QUOTA} were taken down; more are counted")
