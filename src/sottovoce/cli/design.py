"""`sottovoce design`: the noise that costs least accuracy for what every observer may learn."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType

from sottovoce.cli.output import (
    JsonOption,
    Notes,
    OverridesArgument,
    QuietOption,
    percent,
    show,
    table,
    telling,
    wrapped,
)
from sottovoce.rounding import shown

if TYPE_CHECKING:
    from sottovoce.experiments import DesignedFile


def design(
    file: Annotated[Path, typer.Argument(help="A TOML configuration with a section \\[design].")],
    overrides: OverridesArgument = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder of results (default: runs/design-NAME).")] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    r"""Compute the noise that costs least accuracy for what every observer may learn, beside schemes that were picked.

    It is written to design.json, which \[noise] kind = "designed" and sv.load read.
    """
    started = time.perf_counter()
    from sottovoce.experiments import design_file, results_folder
    from sottovoce.reports import design_figures

    notes = Notes()
    with telling("design", shown=not (as_json or quiet)) as tell:
        found = design_file(file, overrides or (), say=notes, progress=tell)
        folder = out or Path("runs") / f"design-{found.name}"
        with results_folder(folder):
            tell("figures")
            paths = [found.design.save(folder / "design.json"), *design_figures(found, folder)]
    value = {**found.describe(), "files": [str(path) for path in paths], "seconds": time.perf_counter() - started}
    ends = [*_epsilons(found), *found.limits]
    if not quiet:
        ends.append(f"design.json and figures in {folder}. To use it: noise={{kind='designed', file='{paths[0]}'}}")
    show(value, as_json=as_json, text=Group(_table(found), *map(wrapped, ends)), notes=notes)


def _table(found: "DesignedFile") -> RenderableType:
    """A row for every scheme; what every observer learns stands in columns of its own."""
    observers = list(found.design.targets)
    header = ("scheme", "error", "gain", "gap", "largest\nstd", *(f"mu of\n{_broken(name)}" for name in observers))
    rows = [
        (
            row.scheme,
            f"{row.error:.4g}",
            f"{row.gain:.3f}",
            _gap(row.gap),
            "" if row.largest_std is None else f"{row.largest_std:.4g}",
            *("" if name not in row.guarantees else shown(row.guarantees[name].mu or 0.0, 5) for name in observers),
        )
        for row in found.rows
    ]
    what = {"average": "an agent's mean-square error", "centroid": "the common model's mean-square error"}
    weights = found.section.weights
    measure = what[weights] if isinstance(weights, str) else "the weighted mean-square errors"
    when = {"steady": "in the long run", "final": "after the last round", "mean": "on average over rounds"}
    title = f"noise part of {measure} {when[found.section.when]}; keys: {found.section.keys}"
    return table(header, rows, words=("scheme",), title=title)


def _broken(name: str) -> str:
    """An observer's name on short lines, for the head of a column."""
    return name.replace(" + ", "\n+ ")


def _gap(gap: float | None) -> str:
    """How far the error may be from the least; rounding alone is shown as none."""
    return "" if gap is None else percent(max(gap, 0.0), 2)


def _epsilons(found: "DesignedFile") -> list[str]:
    """Epsilon of every target, where the file gives a delta."""
    privacy = found.experiment.privacy
    if privacy is None or privacy.delta is None:
        return []
    stated = found.row("designed").guarantees
    each = [f"{name} {shown(one.epsilon(privacy.delta), 4)}" for name, one in stated.items()]
    return [f"epsilon at delta = {privacy.delta:g}, one {privacy.unit}: {', '.join(each)}."]
