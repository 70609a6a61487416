"""`sottovoce demo`: twenty hospitals, real records, accuracy and pictures, offline."""

import resource
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.table import Table

from sottovoce.cli.output import JsonOption, show


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder of results.")] = Path("runs/demo"),
    as_json: JsonOption = False,
) -> None:
    """Let twenty hospitals learn a tumour classifier together, with noise on every message."""
    started = time.perf_counter()
    from sottovoce.experiments.demo import run_demo
    from sottovoce.reports.demo import demo_figures

    found = run_demo(out, progress=not as_json)
    figures = demo_figures(found, out / "figures")
    accuracies = found.accuracies()
    seconds = time.perf_counter() - started
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    law = found.experiment.noise.describe()
    summary = (
        f"{found.experiment.problem.num_agents} hospitals, {sum(found.experiment.problem.sizes)} records to learn from, "
        f"{found.experiment.rounds} rounds; every message carries {law['law']} noise of scale {law['scale']:g}.\n"
        "Guarantees for observers are not in this version, so no epsilon is printed.\n"
        f"Runs in {out}/noisy and {out}/clear, pictures in {out}/figures, configuration in {out}/demo.toml.\n"
        f"{seconds:.1f} s, {memory:.0f} MB at the peak."
    )
    show(
        {
            "folder": str(out),
            "accuracy": accuracies,
            "figures": [str(path) for path in figures],
            "seconds": seconds,
            "peak_megabytes": memory,
        },
        as_json=as_json,
        text=Group(_table(accuracies), summary),
    )


def _table(accuracies: dict[str, dict[str, float]]) -> Table:
    table = Table("", "centroid", "average hospital", "worst hospital", title="accuracy on held-out records")
    for column in table.columns[1:]:
        column.justify = "right"
    names = {
        "with noise": "together, with noise and clipping",
        "without noise": "together, without both",
        "alone": "each on its own",
    }
    for key, name in names.items():
        row = accuracies[key]
        table.add_row(
            name,
            *(f"{100 * row[column]:.1f} %" if column in row else "" for column in ("centroid", "average", "worst")),
        )
    return table
