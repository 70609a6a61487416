"""The structure of a comparison, bound once before its first round: what shapes the compiled program, and the arrays it reads."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.linear import Centroid, centroid, exchange_topologies
from sottovoce.noise import Noise
from sottovoce.problems import Batch
from sottovoce.schedules import Schedule
from sottovoce.simulation.rounds import random
from sottovoce.simulation.rounds.draws import law_scale
from sottovoce.simulation.rounds.links import LinkPlan, link_arrays, plan_links
from sottovoce.simulation.rounds.metrics import NOTHING, Measured
from sottovoce.simulation.rounds.perturbation import Perturbation, plan_noise
from sottovoce.simulation.rounds.remembered import memory_table, remembering
from sottovoce.simulation.settings import Settings
from sottovoce.topologies import Topology, visits_before, walk_paths

Array = Any


class Plan(NamedTuple):
    """The structure of a comparison: host-side values that shape the program, none of them traced."""

    problem: Any
    algorithms: tuple[Algorithm, ...]
    noises: tuple[Noise, ...]
    links: tuple[LinkPlan, ...]
    noise_plans: tuple[tuple[Perturbation, ...], ...]  # [use][scheme]
    noise_links: tuple[tuple[int, int], ...]  # [use] = (which links, which exchange of the round)
    exchange_links: tuple[tuple[int, ...], ...]  # [algorithm][exchange] -> which links
    exchange_noise: tuple[tuple[int, ...], ...]  # [algorithm][exchange] -> which use of noise
    metrics: tuple[str, ...]
    batch_size: int | None
    batch: Batch | None
    dtype: Any
    keeps_models: bool = False  # every agent's model of every round
    fraction_bits: int | None = None  # sources are rounded to whole units of 2^-f; None: they are not
    first: np.ndarray | None = None  # where agents start, [d] or [K, d]; None: where the problem says

    @property
    def shape(self) -> tuple[int, int]:
        """(K, d)."""
        return self.problem.num_agents, self.problem.dimension

    @property
    def remembering(self) -> list[int]:
        """The positions of the schemes whose noise enters again in later rounds."""
        return remembering(self.noises)

    @property
    def gradients(self) -> int:
        """The most gradients that an agent takes in a round."""
        return max(algorithm.gradients_per_round for algorithm in self.algorithms)


class _Uses:
    """Link plans and noise uses found so far, each kept once so that algorithms share them."""

    def __init__(self, noises: tuple[Noise, ...], *, merges: bool) -> None:
        self.noises, self.merges = noises, merges
        self.topologies: list[Topology] = []
        self.links: list[LinkPlan] = []
        self.noise: list[tuple[int, int, np.ndarray]] = []
        self.noise_plans: list[tuple[Perturbation, ...]] = []
        self.noise_arrays: list[list[dict[str, Any]]] = []

    def links_of(self, topology: Topology) -> int:
        for index, known in enumerate(self.topologies):
            if known is topology:
                return index
        self.topologies.append(topology)
        self.links.append(plan_links(topology))
        return len(self.links) - 1

    def noise_of(self, links: int, exchange: int, receivers: np.ndarray) -> int:
        for index, (own_links, own_exchange, r) in enumerate(self.noise):
            if (own_links, own_exchange) == (links, exchange) and np.array_equal(r, receivers):
                return index
        self.noise.append((links, exchange, receivers))
        planned = [plan_noise(noise, self.links[links], receivers, merges=self.merges) for noise in self.noises]
        self.noise_plans.append(tuple(p for p, _ in planned))
        self.noise_arrays.append([arrays for _, arrays in planned])
        return len(self.noise) - 1


def plan_comparison(
    problem: Any,
    topology: Topology,
    algorithms: Mapping[Any, Algorithm],
    noises: Mapping[Any, Noise],
    settings: Settings,
    measured: Measured = NOTHING,
) -> tuple[Plan, dict[str, Any]]:
    """Bind everything once: the structure of the program, and the arrays it reads.

    Args:
        problem: the data and the loss.
        topology: who talks to whom.
        algorithms: by label.
        noises: by label.
        settings: the numbers of the run.
        measured: what is measured after every round.
    """
    uses = _Uses(tuple(noises.values()), merges=settings.draws == "merged")
    exchange_links, exchange_noise = [], []
    centroids: list[Centroid] = []
    for algorithm in algorithms.values():
        weighting = centroid(algorithm, topology)
        centroids.append(weighting)
        links = [uses.links_of(t) for t in exchange_topologies(algorithm, topology)]
        exchange_links.append(tuple(links))
        exchange_noise.append(tuple(uses.noise_of(index, e, weighting.receivers[e]) for e, index in enumerate(links)))
    dtype = jnp.dtype(settings.dtype)
    plan = Plan(
        problem=problem,
        algorithms=tuple(algorithms.values()),
        noises=tuple(noises.values()),
        links=tuple(uses.links),
        noise_plans=tuple(uses.noise_plans),
        noise_links=tuple((index, e) for index, e, _ in uses.noise),
        exchange_links=tuple(exchange_links),
        exchange_noise=tuple(exchange_noise),
        metrics=measured.names,
        batch_size=settings.batch_size,
        batch=settings.batch,
        dtype=dtype,
        keeps_models=measured.models,
        fraction_bits=settings.fraction_bits,
    )
    arrays: dict[str, Any] = {
        **run_arrays(problem, topology, plan.algorithms, settings),
        "links": [link_arrays(link_plan) for link_plan in plan.links],
        "noise": uses.noise_arrays,
        "perron": [weighting.weights for weighting in centroids],
        **_tables(plan, settings.rounds),
        **measured.arrays(problem),
    }
    return plan, cast(arrays, dtype)


def _tables(plan: Plan, rounds: int) -> dict[str, Any]:
    """What changes from round to round: per algorithm the factors on what was drawn [S, rounds] and the values of its schedules.

    On a lattice the scales are in the draws ("scales" [S, rounds]), and the factors say only whether an algorithm adds noise in a round.
    """
    scales = np.stack([noise_scales(noise, rounds) for noise in plan.noises])
    drawn = np.ones_like(scales) if plan.fraction_bits is not None else scales
    tables: dict[str, Any] = {
        "factors": [drawn * one.noisy_rounds(rounds) for one in plan.algorithms],
        "schedules": [[schedule.table(rounds) for schedule in one.schedules] for one in plan.algorithms],
    }
    if plan.remembering:
        tables["memory"] = memory_table(plan.noises, rounds, plan.shape[0])
    return tables if plan.fraction_bits is None else tables | {"scales": scales}


def run_arrays(
    problem: Any, topology: Topology, algorithms: tuple[Algorithm, ...], settings: Settings
) -> dict[str, Any]:
    """What a run reads of its seed and its data; all else in a program's arrays is the same for any seed and any records."""
    arrays: dict[str, Any] = {
        "seed": random.seed_words(settings.seed),
        "data": dict(problem.arrays),
        "sizes": np.asarray(problem.sizes, np.int32),
    }
    if settings.batch is not None:
        positions, weights = settings.batch.table(problem.sizes)
        arrays["turns"] = {"positions": positions, "weights": weights}
    if any(algorithm.walks for algorithm in algorithms):
        arrays["walk"] = _walk_arrays(topology, algorithms, settings)
    return arrays


def _walk_arrays(topology: Topology, algorithms: tuple[Algorithm, ...], settings: Settings) -> dict[str, Any]:
    """The token's path in every repeat, and, per algorithm, in which rounds its holder still adds a gradient."""
    rounds = settings.rounds
    path = walk_paths(topology, rounds, seed=settings.seed, repeats=settings.repeats)
    before = visits_before(path, topology.num_agents)
    most = [rounds + 1 if algorithm.contributions is None else algorithm.contributions for algorithm in algorithms]
    return {"path": path, "adds": [before < limit for limit in most]}


def noise_scales(noise: Noise, rounds: int) -> np.ndarray:
    """[rounds] what a unit source is multiplied with in every round in which an algorithm adds noise."""
    return (0.0 if noise.law is None else law_scale(noise.law)) * noise.factors(rounds)


def cast(arrays: Any, dtype: Any) -> Any:
    """The arrays as a program takes them: real numbers of its type, whole numbers of 32 bits."""

    def one(value: Any) -> Array:
        value = np.asarray(value)
        if value.dtype.kind == "f":
            return value.astype(dtype)
        return value.astype(np.int32) if value.dtype.kind == "i" else value

    return jax.tree.map(one, arrays)


def schedules_in_round(plan: Plan, arrays: Any, index: int, t: Array) -> dict[Schedule, Array]:
    """What the schedules of one algorithm say in a round."""
    tables = zip(plan.algorithms[index].schedules, arrays["schedules"][index], strict=True)
    return {schedule: table[t - 1] for schedule, table in tables}
