"""`sottovoce demo`: twenty hospitals, real records, accuracy, epsilon and pictures, offline."""

import resource
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from sottovoce.cli.guarantees import epsilon_of, guarantee_table
from sottovoce.cli.output import JsonOption, show


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder of results.")] = Path("runs/demo"),
    as_json: JsonOption = False,
) -> None:
    """Let twenty hospitals learn a tumour classifier together, with noise on every message."""
    started = time.perf_counter()
    from sottovoce.experiments import results_folder, run_demo
    from sottovoce.reports import demo_figures

    with results_folder(out):
        found = run_demo(out, progress=not as_json)
        figures = demo_figures(found, out / "figures")
    accuracies = found.accuracies()
    seconds = time.perf_counter() - started
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    law = found.experiment.noise.describe()
    summary = (
        f"{found.experiment.problem.num_agents} hospitals, {sum(found.experiment.problem.sizes)} records to learn from, "
        f"{found.experiment.rounds} rounds; every message carries {law['law']} noise of scale {law['scale']:.4g}, which was calibrated so "
        f"that someone who reads all messages has epsilon = {epsilon_of(found.stated['guarantees'][0]):.3g} for one patient's record. Less "
        f"epsilon costs accuracy: try `sottovoce run {out}/demo.toml noise.epsilon=4`.\n"
        f"Runs in {out}/noisy and {out}/clear, pictures in {out}/figures, configuration in {out}/demo.toml.\n"
        f"{seconds:.1f} s, {memory:.0f} MB at the peak."
    )
    show(
        {
            "folder": str(out),
            "accuracy": accuracies,
            **found.stated,
            "figures": [str(path) for path in figures],
            "seconds": seconds,
            "peak_megabytes": memory,
        },
        as_json=as_json,
        text=Group(_table(accuracies), guarantee_table(found.stated), Text(summary)),
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
