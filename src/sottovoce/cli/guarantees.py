"""How guarantees are printed: one row per observer, why some are infinite, and what the marks mean."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sottovoce.rounding import shown


def guarantee_table(stated: Mapping[str, Any], *, title: str = "guarantees", per_agent: bool = False) -> RenderableType:
    """The statement of `sottovoce.experiments.privacy.statement` for people.

    Args:
        stated: delta, guarantees and notes.
        title: of the table.
        per_agent: the rows are single agents, among which the worst of each observer is marked; else the worst agents alone.
    """
    rows: Sequence[Mapping[str, Any]] = stated["guarantees"]
    whose = "every agent" if per_agent else "the agent most exposed"
    table = Table(
        *("observer", "agent", "epsilon", "mu", "linear mu", "valid as"),
        title=f"{title}: epsilon at delta = {stated['delta']:g}, of {whose}",
        box=box.SIMPLE_HEAD,
    )
    for column in table.columns[1:5]:
        column.justify = "right"
    for column in table.columns[1:]:
        column.no_wrap = True
    worst = _worst(rows) if per_agent else set()
    for position, row in enumerate(rows):
        agent = f"{row['agent']} worst" if position in worst else f"{row['agent']}"
        table.add_row(escape(row["observer"]), agent, _number(epsilon_of(row)), _mu(row), _linear(row), _validity(row))
    infinite = dict.fromkeys(f"{row['observer']}: {row['reason']}" for row in rows if row["validity"] == "infinite")
    notes = [*(f"inf for {line}" for line in infinite), *stated["notes"]]
    if any(map(_lacks_linear_mu, rows)):
        notes.append(
            "Where linear mu is blank it would take too long, or this observer has none; mu and epsilon do not need it."
        )
    return Group(table, *(Text(note) for note in notes))


def coalitions(rows: Sequence[Mapping[str, Any]], delta: float) -> RenderableType:
    """What the relay learns together with more and more agents, under masked averages."""
    from sottovoce.experiments import NO_HELP

    table = Table(
        *("colluding\nagents", "honest agents\nin a sum", "epsilon", "risk of a\nbad graph", "hidden", "valid as"),
        title=f"the relay and a share of the agents: epsilon at delta = {delta:g}",
        box=box.SIMPLE_HEAD,
    )
    for column in table.columns:
        column.justify = "right"
    for row in rows:
        epsilon = math.inf if row["epsilon"] is None else row["epsilon"]
        hidden = "among them" if row["masks_count"] else "alone"
        table.add_row(
            f"{100 * row['colluding']:g} %", f"{row['honest']}", _number(epsilon), f"{row['graph_risk']:.1e}", hidden, row["validity"]
        )  # fmt: skip
    notes = [] if all(row["masks_count"] for row in rows) else [Text(NO_HELP)]
    return Group(table, *notes)


def epsilon_of(row: Mapping[str, Any]) -> float:
    """The epsilon that a described guarantee states."""
    value = next(iter(row["epsilon"].values()))
    return math.inf if value is None else float(value)


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
