"""`sottovoce demo`: twenty hospitals, real records, accuracy, epsilon and pictures, offline."""

import resource
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group

from sottovoce.cli.guarantees import epsilon_of, guarantee_table
from sottovoce.cli.output import JsonOption, QuietOption, show, wrapped
from sottovoce.cli.worth import worth_table

if TYPE_CHECKING:
    from sottovoce.experiments import Demonstration


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder of results.")] = Path("runs/demo"),
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Let twenty hospitals learn a tumour classifier together, with noise on every message."""
    started = time.perf_counter()
    from sottovoce.experiments import is_finished, results_folder, run_demo
    from sottovoce.reports import demo_figures

    with results_folder(out):
        stored = is_finished(out / "noisy") and is_finished(out / "clear")
        found = run_demo(out, progress=not (as_json or quiet))
        figures = demo_figures(found, out / "figures")
    accuracies = found.accuracies()
    seconds = time.perf_counter() - started
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    where = f"Runs in {out}/noisy and {out}/clear, pictures in {out}/figures, configuration in {out}/demo.toml."
    if stored:
        where = f"These runs were stored before and are only read back. {where}"
    ends = [where] if quiet else [_summary(found, out), where, f"{seconds:.1f} s, {memory:.0f} MB at the peak."]
    show(
        {
            "folder": str(out),
            "stored": stored,
            "accuracy": accuracies,
            **found.stated,
            "figures": [str(path) for path in figures],
            "seconds": seconds,
            "peak_megabytes": memory,
        },
        as_json=as_json,
        text=Group(worth_table(found.worth.describe()), guarantee_table(found.stated), *map(wrapped, ends)),
    )


def _command() -> str:
    """How this command is called again: by its name, or by its path where the shell does not find the name."""
    return "sottovoce" if shutil.which("sottovoce") else sys.argv[0]


def _summary(found: "Demonstration", out: Path) -> str:
    law = found.experiment.noise.describe()
    return (
        f"{found.experiment.problem.num_agents} hospitals, {sum(found.experiment.problem.sizes)} records to learn from, "
        f"{found.experiment.rounds} rounds; every message carries {law['law']} noise of scale {law['scale']:.4g}, which was calibrated so "
        f"that someone who reads all messages has epsilon = {epsilon_of(found.stated['guarantees'][0]):.3g} for one patient's record.\n"
        f"Less epsilon costs accuracy. Try it:\n  {_command()} run {out}/demo.toml noise.epsilon=4"
    )
