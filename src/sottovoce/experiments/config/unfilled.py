"""Lines of a file that are still to be completed: texts that begin with FILL IN, as `sottovoce new --data` writes them.

A file with such lines is refused by every command. So that everything else that is wrong can be told in the same answer, stand-ins
of the right form take their place for the check, and never for a run.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FILL_IN = "FILL IN"

_STAND_INS: Mapping[tuple[str, ...], Any] = {  # where -> a value of the form that belongs there; "*" is any key
    ("experiment", "rounds"): 10,
    ("topology", "agents"): 5,
    ("problem", "labels"): ["no", "yes"],
    ("problem", "bounds", "*"): [0.0, 1.0],
    ("problem", "categories", "*"): ["a", "b"],
    ("problem", "records_per_person"): 1,
    ("noise", "epsilon"): 1.0,
    ("privacy", "clip"): 1.0,
    ("privacy", "delta"): 1e-5,
}


@dataclass(frozen=True, slots=True)
class Unfilled:
    """One line to complete."""

    path: tuple[str, ...]  # of keys
    hint: str  # what belongs there

    @property
    def place(self) -> str:
        """Where it stands, as messages write it."""
        return f"[{'.'.join(self.path[:-1])}] {self.path[-1]}"

    def sentence(self) -> str:
        """What is missing, without its full stop."""
        return f"{self.place}: still to be completed{': ' if self.hint else ''}{self.hint}"


def without_unfilled(data: Mapping[str, Any]) -> tuple[dict[str, Any], list[Unfilled]]:
    """The tables with stand-ins where lines are to be completed, or without the line where none is known, and those lines."""
    found: list[Unfilled] = []
    return _filled(data, (), found), found


def lines_to_complete(text: str) -> int:
    """How many lines of a file are to be completed."""
    return len(without_unfilled(tomllib.loads(text))[1])


def _filled(table: Mapping[str, Any], path: tuple[str, ...], found: list[Unfilled]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, value in table.items():
        place = (*path, key)
        if isinstance(value, dict):
            kept[key] = _filled(value, place, found)
        elif isinstance(value, str) and value.startswith(FILL_IN):
            found.append(Unfilled(place, value.removeprefix(FILL_IN).strip(" :")))
            stand_in = _STAND_INS.get(place, _STAND_INS.get((*path, "*")))
            if stand_in is not None:
                kept[key] = stand_in
        else:
            kept[key] = value
    return kept
