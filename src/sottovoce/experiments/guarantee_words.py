"""Guarantees in whole sentences, for those who get a model and not the run."""

import math
from collections.abc import Mapping
from typing import Any

from sottovoce.problems import unit_in_words
from sottovoce.rounding import shown

_SEES = {  # by the first word of an observer's name
    "eavesdropper": "somebody who reads every message",
    "curious": "an agent that sees what it is sent",
    "coalition": "agents that put together what they are sent",
    "server": "the server, which sees what agents send it",
    "links": "somebody who reads some of the messages",
    "final": "whoever gets the final model",
}


def in_words(stated: Mapping[str, Any] | None) -> list[str]:
    """One sentence for each observer of a statement as `guarantees.json` holds it; one sentence where none was named."""
    if stated is None or not stated["guarantees"]:
        return ["Nothing is promised: no observer was named, so nothing was accounted for."]
    return list(dict.fromkeys(_sentence(row) for row in stated["guarantees"]))


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
