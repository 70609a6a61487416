"""sv.simulate: run one algorithm with one noise scheme, or a whole comparison as one program."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.linear import check_parts
from sottovoce.noise import Noise
from sottovoce.simulation.run import Run, join
from sottovoce.simulation.settings import Settings
from sottovoce.topologies import Topology

if TYPE_CHECKING:
    from sottovoce.simulation.engine import Chunk

Metrics = dict[tuple[Any, Any], dict[str, np.ndarray]]


@overload
def simulate(
    problem: Any, topology: Topology, algorithm: Algorithm, noise: Noise, *, rounds: int, repeats: int = ..., seed: int = ...,
    batch_size: int | None = ..., dtype: str = ..., record: Sequence[str] | None = ..., test: tuple[Any, Any] | None = ...,
    progress: bool = ..., chunk: int | None = ..., repeats_together: int | None = ...,
) -> Run: ...  # fmt: skip


@overload
def simulate(
    problem: Any, topology: Topology, algorithm: Algorithm | Mapping[Any, Algorithm], noise: Noise | Mapping[Any, Noise], *,
    rounds: int, repeats: int = ..., seed: int = ..., batch_size: int | None = ..., dtype: str = ...,
    record: Sequence[str] | None = ..., test: tuple[Any, Any] | None = ..., progress: bool = ..., chunk: int | None = ...,
    repeats_together: int | None = ...,
) -> dict[tuple[Any, Any], Run]: ...  # fmt: skip


def simulate(
    problem: Any,
    topology: Topology,
    algorithm: Algorithm | Mapping[Any, Algorithm],
    noise: Noise | Mapping[Any, Noise],
    *,
    rounds: int,
    repeats: int = 1,
    seed: int = 0,
    batch_size: int | None = None,
    dtype: str = "float32",
    record: Sequence[str] | None = None,
    test: tuple[Any, Any] | None = None,
    progress: bool = True,
    chunk: int | None = None,
    repeats_together: int | None = None,
) -> Run | dict[tuple[Any, Any], Run]:
    """Let the agents learn for a number of rounds and return what was measured.

    Args:
        problem: data split over agents, and a loss.
        topology: who talks to whom, with which weights.
        algorithm: what one agent does in a round, or a dict of several to compare.
        noise: how messages are perturbed, or a dict of several to compare.
        rounds: exchanges; metrics[..., t] is the state after round t + 1.
        repeats: independent repetitions.
        seed: of all random numbers; the same seed gives the same run, alone or in a comparison.
        batch_size: distinct records per agent and round, drawn uniformly; None for the full gradient.
        dtype: "float32" or "float64".
        record: metrics to keep; None for all the problem has.
        test: (features, labels) for the accuracy.
        progress: show a bar on the terminal's error stream.
        chunk: rounds between two updates of the bar; None chooses. Results do not depend on it.
        repeats_together: repeats in one pass; None chooses by memory. Random numbers do not depend on it.

    Returns:
        A Run; or, when a dict was given for algorithm or noise, {(algorithm label, noise label): Run}. A choice that was not
        a dict has its name as label.
    """
    from sottovoce.simulation.engine import chunks  # JAX, which a finished run does not need
    from sottovoce.simulation.progress import expected_seconds, round_bar

    check_parts(problem=problem, topology=topology, algorithm=algorithm, noise=noise)
    settings = Settings(
        rounds=rounds, repeats=repeats, seed=seed, batch_size=batch_size, dtype=dtype, chunk=chunk, repeats_together=repeats_together
    )  # fmt: skip
    single = not isinstance(algorithm, Mapping) and not isinstance(noise, Mapping)
    algorithms = algorithm if isinstance(algorithm, Mapping) else {algorithm.name: algorithm}
    noises = noise if isinstance(noise, Mapping) else {noise.name: noise}
    metrics: list[Metrics] = []
    last: Chunk | None = None
    steps = chunks(problem, topology, algorithms, noises, settings, record=record, test=test)
    seconds = expected_seconds(problem, topology, tuple(algorithms.values()), settings, schemes=len(noises))
    with round_bar(rounds, shown=progress, expected=seconds) as advance:
        for part in steps:
            metrics.append(part.metrics)
            last = part
            advance(part.round)
    common = {
        "problem": problem.describe(),
        "topology": topology.describe(),
        "rounds": rounds,
        "repeats": repeats,
        "seed": seed,
        "batch_size": batch_size,
        "dtype": dtype,
    }
    assert last is not None  # at least one round was run
    models = last.models
    runs = {
        (a, n): Run(
            metrics=join([part[a, n] for part in metrics]),
            models=models[a, n],
            description={**common, "algorithm": algorithms[a].describe(), "noise": noises[n].describe(rounds)},
        )
        for a in algorithms
        for n in noises
    }
    return next(iter(runs.values())) if single else runs
