"""How guarantees are printed: one row per observer, in words a user knows; mu and the linear view where an explanation is asked for."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType

from sottovoce.cli.output import table, wrapped
from sottovoce.rounding import shown

_SEES = {  # by the first word of an observer's name
    "eavesdropper": "every message",
    "curious": "what it is sent",
    "coalition": "what they are sent",
    "server": "what agents send it",
    "links": "these messages",
    "final": "the final model",
}
_UNITS = {"record": "one record", "person": "all records of one person", "agent": "all data"}
_SURE = {
    "exact": "exact",
    "sent-messages": "proven bound",
    "absorption": "proven bound",
    "amplified-by-iteration": "proven bound",
    "infinite": "no protection",
}


def guarantee_table(
    stated: Mapping[str, Any], *, title: str = "privacy", per_agent: bool = False, explain: bool = False
) -> RenderableType:  # fmt: skip
    """The statement of `sottovoce.experiments.privacy.statement` for people.

    Args:
        stated: delta, guarantees and notes; and the names of agents, where they have any.
        title: of the table.
        per_agent: the rows are single agents, among which the worst of each observer is marked; else the worst agents alone.
        explain: with mu, the linear view and the word for why a value holds, in a second table.
    """
    from sottovoce.experiments import LINEAR_VIEW

    rows: Sequence[Mapping[str, Any]] = stated["guarantees"]
    parts = [_observers(stated, title, per_agent=per_agent)]
    if explain:
        parts.append(_reasons(rows))
    infinite = dict.fromkeys(f"{row['observer']}: {row['reason']}" for row in rows if row["validity"] == "infinite")
    notes = [f"inf for {line}" for line in infinite]
    notes += [note for note in stated["notes"] if explain or note != LINEAR_VIEW]
    if explain and any(map(_lacks_linear_mu, rows)):
        notes.append(
            "Where linear mu is blank it would take too long, or this observer has none; mu and epsilon do not need it."
        )
    return Group(*parts, *map(wrapped, notes))


def _observers(stated: Mapping[str, Any], title: str, *, per_agent: bool) -> RenderableType:
    """One row for every observer, or for every observer and agent."""
    rows, names = stated["guarantees"], stated.get("agents")
    whose = "every agent" if per_agent else "the agent most exposed"
    header = ("who looks", "sees", "agent", "epsilon", "how sure")
    return table(
        header,
        _rows(rows, names, _worst(rows) if per_agent else set()),
        words=set(header) - ({"epsilon", "agent"} if names is None else {"epsilon"}),
        title=f"{title}: epsilon at delta = {stated['delta']:g}, {_UNITS[rows[0]['unit']]} of {whose}",
    )


def coalitions(rows: Sequence[Mapping[str, Any]], delta: float) -> RenderableType:
    """What the relay learns together with more and more agents, under masked averages."""
    from sottovoce.experiments import NO_HELP

    header = ("colluding\nagents", "honest agents\nin a sum", "epsilon", "risk of a\nbad graph", "hidden", "how sure")
    cells = [
        (
            f"{100 * row['colluding']:g} %",
            f"{row['honest']}",
            _number(math.inf if row["epsilon"] is None else row["epsilon"]),
            f"{row['graph_risk']:.1e}",
            "among them" if row["masks_count"] else "alone",
            _SURE[row["validity"]],
        )
        for row in rows
    ]
    title = f"the relay and a share of the agents: epsilon at delta = {delta:g}"
    notes = [] if all(row["masks_count"] for row in rows) else [wrapped(NO_HELP)]
    return Group(table(header, cells, words=("hidden", "how sure"), title=title), *notes)


def epsilon_of(row: Mapping[str, Any]) -> float:
    """The epsilon that a described guarantee states."""
    value = next(iter(row["epsilon"].values()))
    return math.inf if value is None else float(value)


def sees(observer: str) -> str:
    """What an observer of this name gets to see, in plain words; `a + b` sees what either does."""
    seen = [_SEES.get(part.split()[0], "") + _share(part) for part in observer.split(" + ")]
    return " and ".join(filter(None, seen))


def who(observer: str) -> str:
    """Who looks, without what it is given besides."""
    looking = [part for part in observer.split(" + ") if part != "final model"]
    return " + ".join(looking) or "whoever gets the model"


def _with_name(looking: str, names: Sequence[str] | None) -> str:
    """A curious agent with its name behind its number, where agents have names."""
    number = looking.removeprefix("curious agent ")
    known = names is not None and number.isdecimal() and int(number) < len(names)
    return f"{looking} ({names[int(number)]})" if names is not None and known else looking


def how_sure(validity: str) -> str:
    """How sure an epsilon is, in plain words, by the kind of its proof."""
    return _SURE[validity]


def _share(part: str) -> str:
    return ", and what these agents know" if part.startswith("server and") else ""


def _rows(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str] | None, worst: set[int]
) -> list[tuple[str, str, str, str, str]]:
    cells = []
    for position, row in enumerate(rows):
        agent = f"{row['agent']}" if names is None else names[row["agent"]]
        marked = f"{agent} worst" if position in worst else agent
        seen = (_with_name(who(row["observer"]), names), sees(row["observer"]))
        cells.append((*seen, marked, _number(epsilon_of(row)), _sure(row)))
    return cells


def _reasons(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Why each value holds, and the values behind epsilon."""
    cells = [(row["observer"], f"{row['agent']}", _mu(row), _linear(row), _validity(row)) for row in rows]
    header = ("observer", "agent", "mu", "linear mu", "valid as")
    return table(header, cells, words=("observer", "valid as"), title="what epsilon follows from")


def _lacks_linear_mu(row: Mapping[str, Any]) -> bool:
    """Whether a Gaussian guarantee has no linear view beside it."""
    gaussian = row["mu"] is not None and row["pure_epsilon"] is None
    return gaussian and row["linear_mu"] is None and not row["linear_infinite"]


def _worst(rows: Sequence[Mapping[str, Any]]) -> set[int]:
    """Positions of each observer's worst agent, the first where several are."""
    found: dict[str, int] = {}
    for position, row in enumerate(rows):
        held = found.get(row["observer"])
        if held is None or epsilon_of(row) > epsilon_of(rows[held]):
            found[row["observer"]] = position
    return set(found.values())


def _mu(row: Mapping[str, Any]) -> str:
    if row["validity"] == "infinite":
        return "inf"
    return "" if row["mu"] is None else _number(row["mu"])


def _sure(row: Mapping[str, Any]) -> str:
    return "exact at delta 0" if _validity(row) == "exact at 0" else _SURE[row["validity"]]


def _validity(row: Mapping[str, Any]) -> str:
    """In a run of an earlier version, whose pure epsilons were added up, an exact value is reached at delta = 0 only."""
    from sottovoce.accounting import pure

    if row["validity"] != "exact" or row["pure_epsilon"] is None:
        return str(row["validity"])
    stated = [
        (float(delta), value) for delta, value in row["epsilon"].items() if value is not None and float(delta) > 0
    ]
    added = any(value >= pure.epsilon(row["pure_epsilon"], delta) * (1 - 1e-9) for delta, value in stated)
    return "exact at 0" if added else "exact"


def _linear(row: Mapping[str, Any]) -> str:
    mark = " *" if row["linear_validity"] == "exogenous-gradients" else ""
    if row["linear_infinite"]:
        return f"inf{mark}"
    return "" if row["linear_mu"] is None else f"{_number(row['linear_mu'])}{mark}"


def _number(value: float) -> str:
    return "inf" if math.isinf(value) else shown(value, 4)
