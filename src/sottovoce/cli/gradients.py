"""`sottovoce gradients`: how long gradients are, to choose a clip by."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from sottovoce.cli.output import JsonOption, Notes, OverridesArgument, show

WARNING = (
    "These numbers are computed from the data. A clip chosen by private data costs privacy budget, which no guarantee of sottovoce "
    "covers: choose it with public or synthetic data, or before looking."
)
MEANING = (
    "The clip acts on the gradient of every record, whatever the unit, and not on the "
    "ridge; the rows of agents are their averages. The histogram runs from 0 to the largest norm."
)
_BARS = " ▁▂▃▄▅▆▇█"


def gradients(
    file: Annotated[Path, typer.Argument(help="A TOML configuration.")],
    overrides: OverridesArgument = None,
    as_json: JsonOption = False,
) -> None:
    """Show how long gradients are along a run in clear, to choose a clip by; for public or synthetic data."""
    from sottovoce.experiments import PERCENTILES, gradient_norms, read

    notes = Notes()
    found = gradient_norms(read(file, overrides or (), say=notes))
    table = Table(
        *("round", "of", *(_title(share) for share in PERCENTILES), "clipped", "histogram"),
        title="norms of gradients, without noise and without clipping",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for column in table.columns:
        column.justify, column.no_wrap = "right", True
    table.columns[-1].justify = "left"
    for each in found:
        clipped = "" if each.above_clip is None else f"{100 * each.above_clip:.0f} %"
        percentiles = (f"{value:.3g}" for value in each.percentiles.values())
        table.add_row(f"{each.round}", f"{each.whose} {each.norm}", *percentiles, clipped, _bars(each.histogram))
    show(
        {"norms": [each.describe() for each in found], "notes": [MEANING, WARNING]},
        as_json=as_json,
        text=Group(table, Text(MEANING), Text(WARNING, style="bold")),
        notes=notes,
    )


def _title(share: int) -> str:
    return {50: "median", 100: "largest"}.get(share, f"{share} %")


def _bars(histogram: Sequence[int]) -> str:
    largest = max(histogram)
    return "".join(_BARS[-(-8 * count // largest)] for count in histogram)
