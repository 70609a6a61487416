"""How the worth of a result is shown: what it reached beside what can be had without it, under the heading of whom it is for."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType

from sottovoce.cli.output import percent, table, wrapped
from sottovoce.rounding import shown

if TYPE_CHECKING:
    from sottovoce.simulation import Run

FIGURE = "owner-only.png"
_SCORES = {"common": "common\nmodel", "average": "average\nagent", "worst": "worst\nagent", "best": "best\nagent"}


def worth_table(told: Mapping[str, Any]) -> RenderableType:
    """What `run_and_weigh` says of a run, for people: heading, table, and what to know."""
    rows, measure = told["rows"], told["measure"]
    columns = [name for name in _SCORES if any(name in row for row in rows.values())]
    explains = any("explained" in row for row in rows.values())
    header = ["learning", *(_SCORES[name] for name in columns), *(["variance\nexplained"] if explains else [])]
    cells = []
    for name, row in rows.items():
        scores = [_score(row.get(column), measure) for column in columns]
        cells.append([_names(told)[name], *scores, *([percent(row.get("explained"))] if explains else [])])
    heading = told["heading"][:1].upper() + told["heading"][1:] + "."
    return Group(
        wrapped(heading, style="bold"),
        table(header, cells, words=("learning",), title=_title(told)),
        *(wrapped(note) for note in told["notes"]),
    )


def draw_worth(run: "Run", folder: Path, told: Mapping[str, Any], stated: Mapping[str, Any] | None) -> list[Path]:
    """Draw the run into its folder, readable by its owner alone; a figure that is there stays.

    Args:
        run: what was run.
        folder: of the run.
        told: what it is worth, drawn beside it where both are accuracies.
        stated: its guarantees.
    """
    figures = [folder / FIGURE, (folder / FIGURE).with_suffix(".svg")]
    if not all(path.exists() for path in figures):
        from sottovoce.reports import run_figure

        before = os.umask(0o077)  # a figure is readable by its owner alone from its first byte on
        try:
            run_figure(
                run,
                folder / FIGURE,
                references=_references(run, told),
                stated=stated,
                for_whom="for the data's owner only",
            )
        finally:
            os.umask(before)
    return figures


def _references(run: "Run", told: Mapping[str, Any]) -> dict[str, Any]:
    """What is drawn beside the line of a run: (worst, average, best) of the agents alone, and the others by their common model."""
    if told["measure"] != "accuracy" or "accuracy" not in run.metrics:
        return {}
    rows, names = told["rows"], {"without learning": "majority class", "in clear": "together, without noise"}
    found: dict[str, Any] = {names[name]: rows[name]["common"] for name in names if name in rows}
    if "alone" in rows:
        found["each agent alone"] = tuple(rows["alone"][name] for name in ("worst", "average", "best"))
    return found


def _names(told: Mapping[str, Any]) -> dict[str, str]:
    nothing = {"accuracy": "the most frequent class in training", "error": "the mean of the targets in training"}
    noisy = "in clear" in told["rows"]
    return {
        "without learning": nothing.get(told["measure"], ""),
        "alone": "each agent alone",
        "in clear": "together, without noise and clipping",
        "together": "together, with noise" if noisy else "together",
    }


def _title(told: Mapping[str, Any]) -> str:
    count, kept = told["records"], "kept for testing" if told["held_out"] else "that were learnt from"
    if told["measure"] == "distance":
        return "distance from the mean over agents"
    what = "accuracy" if told["measure"] == "accuracy" else "error (root of the mean square, in the target's units)"
    return f"{what} on {count} records {kept}"


def _score(value: float | None, measure: str) -> str:
    if value is None:
        return ""
    return percent(value) if measure == "accuracy" else shown(value, 4)
