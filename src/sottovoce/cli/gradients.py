"""`sottovoce gradients`: how long gradients are, to choose a clip by."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group

from sottovoce.cli.output import JsonOption, Notes, OverridesArgument, QuietOption, percent, show, table, wrapped

WARNING = (
    "For public data, or for the eyes of the data's owner only. These numbers are computed from the data. A clip chosen by private data costs privacy budget, which no guarantee of sottovoce "
    "covers: choose it with public or synthetic data, or before looking."
)
MEANING = (
    "The clip acts on the gradient of every record, whatever the unit, and not on the "
    "ridge; the rows of agents are their averages. The histogram runs from 0 to the largest norm."
)
MEANING_WHOLE = (
    "The clip acts on every agent's whole gradient, ridge and all, which are the rows of agents; those of records are without the ridge. "
    "The histogram runs from 0 to the largest norm."
)
_BARS = " ▁▂▃▄▅▆▇█"


def gradients(
    file: Annotated[Path, typer.Argument(help="A TOML configuration.")],
    overrides: OverridesArgument = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Show how long gradients are along a run in clear, to choose a clip by; for public or synthetic data."""
    from sottovoce.experiments import PERCENTILES, gradient_norms, read

    notes = Notes()
    found = gradient_norms(read(file, overrides or (), say=notes))
    header = ("round", "of", *(_title(share) for share in PERCENTILES), "clipped", "histogram")
    rows = [
        (
            f"{each.round}",
            f"{each.whose} {each.norm}",
            *(f"{value:.3g}" for value in each.percentiles.values()),
            percent(each.above_clip, 0),
            _bars(each.histogram),
        )
        for each in found
    ]
    shown = table(header, rows, keys=2, title="lengths of gradients, without noise and without clipping")
    whole = any(each.whose == "agent" and each.above_clip is not None for each in found)
    said = MEANING_WHOLE if whole else MEANING
    meaning = [] if quiet else [wrapped(said)]
    show(
        {"norms": [each.describe() for each in found], "notes": [said, WARNING]},
        as_json=as_json,
        text=Group(wrapped(WARNING, style="bold"), shown, *meaning),
        notes=notes,
    )


def _title(share: int) -> str:
    return {50: "median", 100: "largest"}.get(share, f"{share} %")


def _bars(histogram: Sequence[int]) -> str:
    largest = max(histogram)
    return "".join(_BARS[-(-8 * count // largest)] for count in histogram)
