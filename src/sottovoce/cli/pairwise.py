"""`sottovoce pairwise`: who learns how much about whom."""

import contextlib
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console, Group, RenderableType

from sottovoce.cli.output import ExplainOption, JsonOption, Notes, OverridesArgument, QuietOption, show, table, wrapped
from sottovoce.rounding import shown

if TYPE_CHECKING:
    from sottovoce.experiments import Pairs


def pairwise(
    file: Annotated[Path, typer.Argument(help="A TOML configuration with a section \\[privacy].")],
    overrides: OverridesArgument = None,
    attacker: Annotated[
        int | None, typer.Option("--attacker", help="Who looks in the picture of the network (default: most central).")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder of results (default: runs/pairwise-NAME).")] = None,
    explain: ExplainOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Say what every agent learns about every other: by graph distance, as a matrix, and as pictures."""
    import numpy as np

    from sottovoce.experiments import build, describe_pairs, pairs_of, protection_notes, read, results_folder
    from sottovoce.reports import drawable, pairs_figures

    notes = Notes()
    config = read(file, overrides or (), say=notes)
    experiment = build(config)
    folder = out or Path("runs") / f"pairwise-{config.experiment.name}"
    with results_folder(folder):
        with _telling(visible=not (as_json or quiet)) as tell:
            found = pairs_of(experiment, attacker=attacker, progress=tell)
        arrays = {"mu": found.mu, "distances": found.distances, "attacker": np.array(found.attacker)}
        arrays["attacker_proven_mu"] = found.proven_mu
        if found.resolved is not None:
            arrays["resolved"] = found.resolved
        np.savez_compressed(folder / "pairs.npz", allow_pickle=False, **arrays)
        paths = [folder / "pairs.npz", *pairs_figures(found, experiment.topology, folder, names=experiment.agents)]
    remarks = [*_notes(found), *protection_notes(experiment)]
    if np.isinf(np.delete(found.mu[:, found.attacker], found.attacker)).any():
        remarks.append(
            f"Agent {found.attacker} reads something of somebody without noise, so its network is not drawn."
        )
    if not drawable(experiment.topology):
        remarks.append(f"The network of {experiment.topology.num_agents:,} agents is too large for a picture.")
    value = {**describe_pairs(found), "notes": remarks, "files": [str(path) for path in paths]}
    said = [note for note in remarks if explain or note != _bracket(found)]
    ends = [*said, f"pairs.npz and figures in {folder}"]
    tables = [_table(value, "epsilon"), *([_table(value, "mu")] if explain else [])]
    show(value, as_json=as_json, text=Group(*tables, *map(wrapped, ends)), notes=notes)


def _notes(pairs: "Pairs") -> list[str]:
    from sottovoce.experiments import VALIDITY

    said = [f"{pairs.method.capitalize()}; {VALIDITY[pairs.validity]}."]
    bracket = _bracket(pairs)
    if bracket is not None:
        said.append(bracket)
    said.append(
        f"Proven: what `sottovoce account` proves for agent {pairs.attacker}, who reads what it receives and knows its own noise; the largest "
        f"at each distance."
    )
    return said


def _bracket(pairs: "Pairs") -> str | None:
    """How exact the numbers are, where only an interval around them is known."""
    if pairs.gap is None:
        return None
    return (
        f"The upper ends are shown. Width of the bracket: at most {shown(pairs.gap, 2)} of the largest mu squared; the part of it "
        f"that is due to rounding is estimated."
    )


def _table(value: dict[str, Any], kind: Literal["epsilon", "mu"]) -> RenderableType:
    """What is learned, distance by distance, as epsilon or as mu."""
    sizes = ("least", "median", "largest")
    rows = []
    for row in value["by_distance"]:
        missing = "inf" if row["attacker_proven_infinite"] else ""
        proven = _number(row[f"attacker_proven_{kind}"], missing=missing)
        rows.append((str(row["distance"]), str(row["pairs"]), *(_number(row[kind][name]) for name in sizes), proven))
    header = (
        "links\napart",
        "\npairs",
        *(f"{kind}\n{name}" for name in sizes),
        f"proven for\nagent {value['attacker']}",
    )
    at = f" at delta = {value['delta']:g}" if kind == "epsilon" else ""
    return table(header, rows, title=f"{value['num_agents']} agents, {value['rounds']} rounds: {kind}{at}")


def _number(value: float | None, missing: str = "inf") -> str:
    return missing if value is None else shown(value, 3) if value > 0 and math.isfinite(value) else "0"


@contextlib.contextmanager
def _telling(*, visible: bool) -> Iterator[Callable[[int, int], None] | None]:
    """How many attackers are done: a line that changes on a terminal; nothing elsewhere."""
    console = Console(stderr=True)
    if not visible or not console.is_terminal:
        yield None
        return
    with console.status("pairs: start") as status:
        yield lambda done, total: status.update(f"pairs: {done} of {total} attackers")
