"""sv.simulate: run one algorithm with one noise scheme, or a whole comparison as one program."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.linear import check_parts
from sottovoce.noise import Noise
from sottovoce.problems import Batch, ClippedGradients, CustomLoss
from sottovoce.simulation.common_model import common_models, last_holders
from sottovoce.simulation.generator import GENERATOR
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
    progress: bool = ..., chunk: int | None = ..., repeats_together: int | None = ..., start: Any = ...,
    draws: str = ..., fraction_bits: int | None = ..., batch: Batch | None = ...,
) -> Run: ...  # fmt: skip


@overload
def simulate(
    problem: Any, topology: Topology, algorithm: Algorithm | Mapping[Any, Algorithm], noise: Noise | Mapping[Any, Noise], *,
    rounds: int, repeats: int = ..., seed: int = ..., batch_size: int | None = ..., dtype: str = ...,
    record: Sequence[str] | None = ..., test: tuple[Any, Any] | None = ..., progress: bool = ..., chunk: int | None = ...,
    repeats_together: int | None = ..., start: Any = ...,
    draws: str = ..., fraction_bits: int | None = ..., batch: Batch | None = ...,
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
    start: Any = None,
    draws: str = "merged",
    fraction_bits: int | None = None,
    batch: Batch | None = None,
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
        record: metrics to keep; None for all the problem has. With "models" the run has `models_by_round`, every agent's model after every round;
            alone, beside the metrics of None. It is refused where it would not fit into memory; a file run streams it to its folder.
        test: (features, labels) for the accuracy.
        progress: show a bar on the terminal's error stream.
        chunk: rounds between two updates of the bar; None chooses. Results do not depend on it.
        repeats_together: repeats in one pass; None chooses by memory. Random numbers do not depend on it.
        start: where agents start: one model [d] for all, parameters as the problem structures them, or one model each [K, d]; None: where the
            problem says. Guarantees take it for public and for the same whatever the records are: never fit it to the agents' records. A model
            that was learned from them before is a release of its own, and its epsilon adds to that of this run.
        draws: "merged": Gaussian sources that only add up at one receiver are drawn as one, which is faster and equal in law; "sources": every
            source of the noise map is drawn, and the models are exactly those of the map with the sources of `sv.simulation.drawn`.
        fraction_bits: f, every source rounded to whole units of 2^-f, so that a deployed run can be fed the same integers; None: as drawn.
            Needs draws="sources" and dtype="float64".
        batch: in place of batch_size, `sv.problems.cyclic_batch(gap)`: records in turns, in a public order that the accountant knows too.

    Returns:
        A Run; or, when a dict was given for algorithm or noise, {(algorithm label, noise label): Run}. A choice that was not
        a dict has its name as label.
    """
    from sottovoce.simulation.checks import first_models
    from sottovoce.simulation.engine import chunks  # JAX, which a finished run does not need
    from sottovoce.simulation.progress import expected_seconds, round_bar
    from sottovoce.simulation.rounds.metrics import keeps_models

    check_parts(problem=problem, topology=topology, algorithm=algorithm, noise=noise)
    settings = Settings(
        rounds=rounds, repeats=repeats, seed=seed, batch_size=batch_size, dtype=dtype, chunk=chunk, repeats_together=repeats_together,
        draws=draws, fraction_bits=fraction_bits, batch=batch,
    )  # fmt: skip
    single = not isinstance(algorithm, Mapping) and not isinstance(noise, Mapping)
    algorithms = algorithm if isinstance(algorithm, Mapping) else {algorithm.name: algorithm}
    noises = noise if isinstance(noise, Mapping) else {noise.name: noise}
    metrics: list[Metrics] = []
    last: Chunk | None = None
    kept = _room_for_models(problem, topology, algorithms, noises, settings) if keeps_models(record) else {}
    first = first_models(problem, topology, algorithms, start)
    steps = chunks(problem, topology, algorithms, noises, settings, record=record, test=test, start=first)
    seconds = expected_seconds(problem, topology, tuple(algorithms.values()), settings, schemes=len(noises))
    with round_bar(rounds, shown=progress, expected=seconds) as advance:
        for part in steps:
            metrics.append(part.metrics)
            _fill(kept, part)
            last = part
            advance(part.round)
    common = _described(problem, topology, settings, first)
    assert last is not None  # at least one round was run
    final = last.models
    holders = last_holders(topology, rounds=rounds, seed=seed, repeats=repeats)
    runs = {
        (a, n): Run(
            metrics=join([part[a, n] for part in metrics]),
            models=final[a, n],
            models_by_round=kept.get((a, n)),
            description={**common, "algorithm": algorithms[a].describe(), "noise": noises[n].describe(rounds)},
            common=common_models(final[a, n], topology, algorithms[a], rounds=rounds, seed=seed, holders=holders),
            structure=_structure(problem),
        )
        for a in algorithms
        for n in noises
    }
    return next(iter(runs.values())) if single else runs


def _described(problem: Any, topology: Topology, settings: Settings, first: np.ndarray | None) -> dict[str, Any]:
    """What all runs of a comparison have in common, as plain values."""
    described = {
        "problem": problem.describe(),
        "topology": topology.describe(),
        "rounds": settings.rounds,
        "repeats": settings.repeats,
        "seed": settings.seed,
        "generator": GENERATOR,
        "batch_size": settings.batch_size,
        "dtype": settings.dtype,
    }
    if settings.batch is not None:
        described["batch"] = settings.batch.describe()
    if settings.draws == "sources":
        described |= {"draws": settings.draws, "fraction_bits": settings.fraction_bits}
    if first is not None:
        described["start"] = "one model for all agents" if first.ndim == 1 else "a model for each agent"
    return described


def _fill(kept: dict[tuple[Any, Any], np.ndarray], part: "Chunk") -> None:
    """Put the models of a chunk's rounds where they belong."""
    for labels, models in part.models_by_round.items():
        kept[labels][:, part.round - models.shape[1] : part.round] = models


def _room_for_models(
    problem: Any, topology: Topology, algorithms: Mapping[Any, Algorithm], noises: Mapping[Any, Noise], settings: Settings
) -> dict[tuple[Any, Any], np.ndarray]:  # fmt: skip
    """{(algorithm, noise): [repeats, rounds, K, d]}, still empty; refused where it would not fit beside the run itself."""
    from sottovoce.simulation.engine import size_of_run
    from sottovoce.simulation.resources import check_run_size

    size = size_of_run(problem, topology, tuple(algorithms.values()), settings, schemes=len(noises), metrics=0)
    check_run_size(replace(size, kept_rounds=settings.rounds))
    shape = (settings.repeats, settings.rounds, problem.num_agents, problem.dimension)
    return {(a, n): np.empty(shape, settings.dtype) for a in algorithms for n in noises}


def _structure(problem: Any) -> Any:
    """The pytree of a user's own parameters; None where a problem has none."""
    inner = problem.problem if isinstance(problem, ClippedGradients) else problem
    return inner.initial_parameters if isinstance(inner, CustomLoss) else None
