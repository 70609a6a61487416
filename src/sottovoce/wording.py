"""Words for messages: what somebody wrote, cut and made harmless, and the names that were meant instead."""

import difflib
from collections.abc import Iterable


def brief(text: str, longest: int = 60) -> str:
    """Text that somebody wrote, for a message: cut when long, and without characters that do something to a terminal."""
    cut = text if len(text) <= longest else text[: longest - 3] + "..."
    return cut if cut.isprintable() else ascii(cut)[1:-1]


def brief_value(given: object) -> str:
    """A value as Python writes it, for a message."""
    return brief(repr(given), 100)


def suggest(given: str, choices: Iterable[str]) -> str:
    """The end of a complaint about an unknown name: the nearest known one, or all of them."""
    choices = list(choices)
    near = difflib.get_close_matches(given, choices, n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(choices)}"
