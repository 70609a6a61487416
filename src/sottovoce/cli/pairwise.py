"""`sottovoce pairwise`: who learns how much about whom."""

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, Group, RenderableType

from sottovoce.cli.output import ExplainOption, JsonOption, Notes, OverridesArgument, QuietOption, show, table, wrapped
from sottovoce.errors import ConfigError
from sottovoce.rounding import shown

if TYPE_CHECKING:
    from sottovoce.experiments import Experiment, Measure, Pairs, Ways
    from sottovoce.topologies import Topology

_MOST_WORKERS = 4
FINER = "Computed fast, for a first picture; --resolution fine and finest give smaller numbers, in some ten and fifty times the time."


def pairwise(
    file: Annotated[Path, typer.Argument(help="A TOML configuration with a section \\[privacy].")],
    overrides: OverridesArgument = None,
    attacker: Annotated[
        int | None, typer.Option("--attacker", help="Who looks in the picture of the network (default: most central).")
    ] = None,
    resolution: Annotated[
        str | None,
        typer.Option(
            "--resolution",
            metavar="fast|fine|finest",
            help="Of a walk: a first picture, or smaller numbers that take longer.",
        ),
    ] = None,
    tokens: Annotated[
        int | None, typer.Option("--tokens", help="Of a walk: how many walk at once, independently (default: 1).")
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", help="Of a walk: processes (default: the number of cores, at most 4).")
    ] = None,
    published_seed: Annotated[
        int | None,
        typer.Option(
            "--published-seed", help="Of a walk: the path that this seed draws, for a seed that is published."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder of results (default: runs/pairwise-NAME).")] = None,
    explain: ExplainOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Say what every agent learns about every other: by graph distance, as a matrix, and as pictures."""
    import numpy as np

    from sottovoce.experiments import (
        build,
        describe_pairs,
        pair_arrays,
        pairs_of,
        protection_notes,
        read,
        results_folder,
    )
    from sottovoce.reports import pairs_figures

    notes = Notes()
    config = read(file, overrides or (), say=notes)
    experiment = build(config)
    ways = _ways(
        experiment, resolution=resolution, tokens=tokens, workers=workers, published_seed=published_seed
    )  # fmt: skip
    folder = out or Path("runs") / f"pairwise-{config.experiment.name}"
    with results_folder(folder):
        with _telling(visible=not (as_json or quiet)) as tell:
            found = pairs_of(experiment, attacker=attacker, ways=ways, progress=tell)
        np.savez_compressed(folder / "pairs.npz", allow_pickle=False, **pair_arrays(found))
        paths = [folder / "pairs.npz", *pairs_figures(found, experiment.topology, folder, names=experiment.agents)]
    remarks = [*_notes(found), *protection_notes(experiment), *_undrawn(found, experiment.topology)]
    value = {**describe_pairs(found), "notes": remarks, "files": [str(path) for path in paths]}
    unsaid = {*([] if explain else _details(found)), *([FINER] if quiet else [])}
    ends = [*(note for note in remarks if note not in unsaid), f"pairs.npz and figures in {folder}"]
    kinds: list[Measure] = ["epsilon", "mu"] if explain and found.measure == "mu" else ["epsilon"]
    tables = [_table(value, kind) for kind in kinds]
    show(value, as_json=as_json, text=Group(*tables, *map(wrapped, ends)), notes=notes)


def _ways(
    experiment: "Experiment",
    *,
    resolution: str | None,
    tokens: int | None,
    workers: int | None,
    published_seed: int | None,
) -> "Ways | None":
    """Over which ways of the token to account; None where no token walks.

    Raises:
        ConfigError: options of a walk where none is, or such as have nothing to say together.
    """
    from sottovoce.experiments import AllWays, PublishedPath

    of_average = _given({"--resolution": resolution, "--workers": workers})
    of_walks = [*of_average, *_given({"--tokens": tokens, "--published-seed": published_seed})]
    if not experiment.algorithm.walks:
        _refuse_idle(
            of_walks, f"a walking token, and the algorithm of this file is '{experiment.algorithm.name}'",
            'Leave them out, or use [algorithm] kind = "random_walk".',
        )  # fmt: skip
        return None
    at_once = 1 if tokens is None else tokens
    if published_seed is not None:
        _refuse_idle(
            of_average, "the average over all ways, and --published-seed asks for one path, whose losses are computed as they are",
            "Leave them out, or --published-seed.",
        )  # fmt: skip
        return PublishedPath(seed=published_seed, tokens=at_once)
    return AllWays(
        tokens=at_once,
        resolution=resolution or "fast",  # type: ignore[arg-type]
        workers=min(_MOST_WORKERS, os.cpu_count() or 1) if workers is None else workers,
    )


def _given(options: Mapping[str, object]) -> list[str]:
    return [name for name, value in options.items() if value is not None]


def _refuse_idle(options: list[str], what: str, advice: str) -> None:
    if options:
        raise ConfigError(f"{', '.join(options)}: such options speak of {what}. {advice}")


def _undrawn(pairs: "Pairs", topology: "Topology") -> list[str]:
    """Why there is no picture of the network, where there is none."""
    import numpy as np

    from sottovoce.reports import drawable

    said = []
    if np.isinf(np.delete(pairs.losses[:, pairs.attacker], pairs.attacker)).any():
        said.append(f"Agent {pairs.attacker} reads something of somebody without noise, so its network is not drawn.")
    if not drawable(topology):
        said.append(f"The network of {topology.num_agents:,} agents is too large for a picture.")
    return said


def _notes(pairs: "Pairs") -> list[str]:
    from sottovoce.experiments import VALIDITY

    said = [f"{pairs.method.capitalize()}; {VALIDITY[pairs.validity]}.", *_details(pairs)]
    if pairs.proven:
        said.append(
            f"Proven: what `sottovoce account` proves for agent {pairs.attacker}, who reads what it receives and knows its own noise; the largest "
            f"at each distance."
        )
    return [*said, *_of_walk(pairs)]


def _of_walk(pairs: "Pairs") -> list[str]:
    """What is said of a walk alone: whom it exposes most, what is not counted, what is assumed, and that the numbers can be smaller."""
    if pairs.drawn != "epsilon":
        return []
    agent, observer = pairs.most_exposed
    said = [
        "All pairs are alike." if pairs.alike else f"Most exposed: agent {agent}, towards agent {observer}.",
        "Whoever looks sees the token only when it holds it. A last token that is published, which all see, is not counted.",
        pairs.premise,
    ]
    return [*said, FINER] if pairs.choices["resolution"] == "fast" else said


def _details(pairs: "Pairs") -> list[str]:
    """How exact the numbers are and what they rest on, said on request."""
    return [note for note in (_bracket(pairs), pairs.details) if note]


def _bracket(pairs: "Pairs") -> str | None:
    """How exact the numbers are, where only an interval around them is known."""
    if pairs.gap is None:
        return None
    return (
        f"The upper ends are shown. Width of the bracket: at most {shown(pairs.gap, 2)} of the largest mu squared; the part of it "
        f"that is due to rounding is estimated."
    )


def _table(value: dict[str, Any], kind: "Measure") -> RenderableType:
    """What is learned, distance by distance, as epsilon or as mu."""
    sizes = ("least", "median", "largest")
    beside = "attacker_proven_infinite" in value["by_distance"][0]
    rows = []
    for row in value["by_distance"]:
        numbers = [str(row["distance"]), str(row["pairs"]), *(_number(row[kind][name]) for name in sizes)]
        if beside:
            missing = "inf" if row["attacker_proven_infinite"] else ""
            numbers.append(_number(row[f"attacker_proven_{kind}"], missing=missing))
        rows.append(numbers)
    header = ("links\napart", "\npairs", *(f"{kind}\n{name}" for name in sizes))
    if beside:
        header = (*header, f"proven for\nagent {value['attacker']}")
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
