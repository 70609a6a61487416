"""`sottovoce compare`: which noise scheme costs least at equal privacy."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType

from sottovoce.cli.output import JsonOption, Notes, OverridesArgument, QuietOption, show, table, wrapped
from sottovoce.errors import ConfigError


def compare(
    file: Annotated[Path, typer.Argument(help="A TOML configuration with a table \\[compare], or rizk-regression.")],
    overrides: OverridesArgument = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder of results (default: runs/compare-NAME).")] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Compare noise schemes at the same epsilon for the same observer: tables, figures, and who wins."""
    started = time.perf_counter()
    from sottovoce.experiments import read_comparison, results_folder, run_comparison, write_comparison
    from sottovoce.reports import comparison_figures, pictures

    notes = Notes()
    chosen = read_comparison(file, overrides or (), say=notes)
    if next(iter(chosen.experiments.values())).repeats < 2:
        raise ConfigError(
            f"{file}: [experiment] repeats: one repeat has no standard error, so no winner can be named; give 2 or more."
        )
    folder = out or Path("runs") / f"compare-{chosen.name}"
    with results_folder(folder):
        found = run_comparison(chosen, progress=not (as_json or quiet))
        paths = [*write_comparison(found, folder), *comparison_figures(found, folder)]
    seconds = time.perf_counter() - started
    parts: list[RenderableType] = []
    for observer in found.observers:
        for measure in found.measures:
            header, *rows = found.by_epsilon(observer, measure)
            title = f"{observer}: {pictures.words.metric(measure)} ({measure}), +- one standard error"
            parts.append(table(header, rows, words=("scheme", "algorithm"), title=title, keys=2))
        if reasons := found.reasons(observer):
            parts += [*map(wrapped, reasons), ""]
    parts += [wrapped("Who wins at equal epsilon:", style="bold"), *map(wrapped, found.sentences()), ""]
    ends = [] if quiet else [f"Scales of the noise, exact numbers and figures in {folder}; {seconds:.0f} s."]
    parts += map(wrapped, [*found.notes, *ends])
    winners = [
        {
            "observer": winner.observer, "measure": winner.measure, "epsilon": winner.epsilon, "value": winner.value, "tie": winner.tie,
            "best": [{"algorithm": algorithm, "scheme": scheme} for algorithm, scheme in winner.best],
        }
        for winner in found.winners()
    ]  # fmt: skip
    show(
        {
            "comparison": found.describe(),
            "winners": winners,
            "files": [str(path) for path in paths],
            "seconds": seconds,
        },
        as_json=as_json,
        text=Group(*parts),
        notes=notes,
    )
