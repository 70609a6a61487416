"""`sottovoce run`: simulate an experiment into a folder, or continue one that was interrupted."""

import math
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType

from sottovoce.cli.guarantees import guarantee_table
from sottovoce.cli.output import JsonOption, Notes, OverridesArgument, QuietOption, percent, show, table, wrapped
from sottovoce.cli.worth import FIGURE, draw_worth, worth_table


def run(
    file: Annotated[Path, typer.Argument(help="A TOML configuration; `sottovoce new` writes one.")],
    overrides: OverridesArgument = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder of results (default: runs/NAME-DIGEST).")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="With all metrics, mu and the linear view.")] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run an experiment; given again after an interruption, continue it."""
    from sottovoce.experiments import (
        default_folder,
        final_metrics,
        is_finished,
        load_guarantees,
        read,
        release_note,
        run_and_weigh,
    )

    notes = Notes()
    config = read(file, overrides or (), say=notes)
    folder = out or default_folder(config)
    stored = is_finished(folder)
    done, told = run_and_weigh(config, folder, progress=not (as_json or quiet))
    metrics = final_metrics(done)
    stated = load_guarantees(folder)
    if stated is not None and "repeats" not in stated:  # written before repeats were accounted
        given = done.description
        stated["notes"].append(release_note(seed=given["seed"], repeats=given["repeats"], together=[None]))
    figures = [str(path) for path in draw_worth(done, folder, told, stated)]
    show(
        {
            "folder": str(folder),
            "stored": stored,
            "final_metrics": _finite(metrics),
            "owner_only": told,
            "figures": figures,
            **(stated or {}),
        },
        as_json=as_json,
        text=Group(
            worth_table(told),
            *([_table(metrics)] if explain else []),
            *([] if stated is None else [guarantee_table(stated, explain=explain)]),
            wrapped(_where(folder, stored=stored)),
        ),
        notes=notes,
    )


def _finite(metrics: dict[str, dict[str, float | None]]) -> dict[str, dict[str, float | None]]:
    """Numbers for JSON, which knows no infinity."""
    return {
        name: {key: None if value is None or not math.isfinite(value) else value for key, value in values.items()}
        for name, values in metrics.items()
    }


def _where(folder: Path, *, stored: bool) -> str:
    if stored:
        return f"This result was stored before and is only read back, from {folder}; to compute it anew choose another folder with --out."
    return (
        f"Results in {folder}, a picture in {folder / FIGURE} for the data's owner only. For new records:\n"
        f"  sottovoce predict {folder} NEW.csv --out predictions.csv"
    )


def _table(metrics: dict[str, dict[str, float | None]]) -> RenderableType:
    rows = []
    for name, values in metrics.items():
        cells = (values["mean"], values["standard_error"], values["decibels"])
        if name.startswith("accuracy"):
            rows.append([name, percent(cells[0]), percent(cells[1]), ""])
            continue
        formats = (".4g", ".2g", ".2f")
        rows.append(
            [name, *("" if cell is None else f"{cell:{spec}}" for cell, spec in zip(cells, formats, strict=True))]
        )
    header = ("metric", "mean", "+- standard error", "decibels")
    return table(header, rows, words=("metric",), title="for the data's owner only: after the last round, over repeats")
