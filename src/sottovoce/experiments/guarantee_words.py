"""Guarantees in whole sentences, for those who get a model and not the run."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sottovoce.problems import unit_in_words
from sottovoce.rounding import shown

_SEES = {  # by the first word of an observer's name
    "eavesdropper": "somebody who reads every message",
    "curious": "the one agent that was asked about, which sees what it is sent (other agents may learn more)",
    "coalition": "the agents that were asked about, who put together what they are sent (others may learn more)",
    "server": "the server, which sees what agents send it",
    "links": "somebody who reads the links that were asked about (elsewhere more may be learnt)",
    "final": "whoever gets the final model",
}
ASSUMED = "Assumed besides: "  # how the sentence begins that says what an experiment's guarantees rest on
PROMISED = "Where an epsilon needs it, it rests on the promise, which was not checked for all data, that every agent's loss is convex and smooth."
UNCOVERED = "Nobody named above is given the model itself: for whoever has it, nothing is promised."


def in_words(stated: Mapping[str, Any] | None) -> list[str]:
    """One sentence for each observer of a statement as `guarantees.json` holds it; one sentence where none was named.

    They stand in the file of a model, so they also say whether somebody who has that model is among the observers, and what is assumed. Other
    notes stay with the run: one of them names the seed.
    """
    if stated is None or not stated["guarantees"]:
        return ["Nothing is promised: no observer was named, so nothing was accounted for."]
    given = any("final model" in row["observer"].split(" + ") for row in stated["guarantees"])
    assumed = [note for note in stated.get("notes", ()) if note.startswith(ASSUMED)]
    said = dict.fromkeys(_sentence(row) for row in stated["guarantees"])
    return [*said, *([] if given else [UNCOVERED]), *_promised(stated["guarantees"]), *assumed]


def _promised(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """That guarantees rest on a promise about losses; without its numbers, which may have been computed from the records."""
    rests = any("convex" in each and "promised" in each for row in rows for each in row.get("assumptions", ()))
    return [PROMISED] if rests else []


def _sentence(row: Mapping[str, Any]) -> str:
    who = " together with ".join(map(_who, row["observer"].split(" + ")))
    change = "replaced by any other" if row["adjacency"] == "replace" else "added or removed"
    change = "replaced by any others" if row["unit"] != "record" and row["adjacency"] == "replace" else change
    (delta, epsilon), *_ = row["epsilon"].items()
    what = f"{unit_in_words(row['unit'], row.get('records_per_person'))}{' of one agent' if row['unit'] == 'agent' else ''}"
    if epsilon is None or math.isinf(epsilon):
        return f"Nothing is hidden from {who} (epsilon is infinite)."
    return (
        f"For {who}, epsilon is at most {shown(epsilon, 4)} at delta = {delta} when {what} {_be(row['unit'])} {change}; one run of "
        f"{row['rounds']} rounds."
    )


def _who(observer: str) -> str:
    """Who looks, and at what, without numbers of agents."""
    if observer.startswith("server and "):
        return f"the {observer}, which put together what they are sent and what they know"
    return _SEES.get(observer.split()[0], observer)


def _be(unit: str) -> str:
    return "is" if unit == "record" else "are"
