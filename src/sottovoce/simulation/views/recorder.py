"""Recorded runs bound to their observer and driven group by group or chunk by chunk; what they refuse before the first round."""

import dataclasses
from collections.abc import Sequence
from dataclasses import replace
from types import FunctionType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.errors import ConfigError, Diverged
from sottovoce.linear import check_agents, check_parts
from sottovoce.noise import Noise
from sottovoce.observers import Observer
from sottovoce.problems import ClippedGradients
from sottovoce.simulation.checks import check_algorithm
from sottovoce.simulation.divergence import cause_of
from sottovoce.simulation.resources import (
    RECORD_GRADIENT_COPIES,
    check_run_size,
    holds_record_gradients,
    run_size,
)
from sottovoce.simulation.rounds.plan import Plan, cast, plan_comparison, run_arrays
from sottovoce.simulation.rounds.precision import precision
from sottovoce.simulation.rounds.program import initial_state
from sottovoce.simulation.settings import Settings
from sottovoce.simulation.views.masks import Board
from sottovoce.simulation.views.plan import ViewPlan, channel_arrays, plan_view
from sottovoce.simulation.views.program import Array, Seen, Statistic, compile_record, world_seed
from sottovoce.topologies import Topology

GROUP_BYTES = 2**25  # runs are recorded side by side while they need less, unless told how many
OF_WORLD = ("seed", "data", "sizes", "walk", "turns")


class Recorder:
    """Everything bound once: the structure of the program and its arrays."""

    def __init__(
        self,
        worlds: Sequence[Any],
        topology: Topology,
        algorithm: Algorithm,
        noise: Noise,
        observer: Observer,
        settings: Settings,
        honest: int | None = None,
    ) -> None:
        for problem in worlds:
            check_parts(problem=problem, topology=topology, algorithm=algorithm, noise=noise, observer=observer)
        _check(worlds, topology, algorithm, noise, settings)
        self.settings, self.topology, self.algorithm = settings, topology, algorithm
        self.worlds = worlds
        self.view_plan: ViewPlan = plan_view(topology, algorithm, noise, observer, honest=honest)
        with precision(settings.dtype):
            self.plan, self.shared, self.arrays = self._bind(noise)

    def _bind(self, noise: Noise) -> tuple[Plan, dict[str, Any], Any]:
        settings, dtype = self.settings, jnp.dtype(self.settings.dtype)
        plan, arrays = plan_comparison(self.worlds[0], self.topology, {"": self.algorithm}, {"": noise}, settings)
        first = {name: arrays.pop(name) for name in OF_WORLD if name in arrays}
        others = []
        for world, problem in enumerate(self.worlds[1:], start=1):
            own = replace(settings, seed=world_seed(settings.seed, world))
            others.append(cast(run_arrays(problem, self.topology, plan.algorithms, own), dtype))
        arrays.pop("noise")
        arrays["channels"] = cast([channel_arrays(channel) for channel in self.view_plan.channels], dtype)
        return plan, jax.device_put(arrays), jax.device_put(jax.tree.map(lambda *x: np.stack(x), first, *others))

    @property
    def round_bytes(self) -> int:
        """What the observer sees in one round of one run."""
        rows, (_, d) = self.view_plan.layout, self.plan.shape
        links = sum(len(part) for part in rows.links)
        vectors = links + sum(len(part) for part in rows.sources) + rows.broadcast * len(rows.links)
        masks = self.view_plan.masks
        board = 0 if masks is None else masks.num_agents * (4 * masks.partners + 6)
        return vectors * d * np.dtype(self.settings.dtype).itemsize + links + board

    @property
    def run_bytes(self) -> int:
        """What one run needs while a round is computed, about."""
        K, d = self.plan.shape
        channels = self.view_plan.channels
        vectors = sum((0 if c.one_message else len(c.links.senders)) + c.map.num_sources + 2 * K for c in channels)
        masks, graph = self.view_plan.masks, 0
        if masks is not None:
            graph = 32 * K * masks.partners
            graph += 0 if masks.uniform else 16 * K * K  # Gaussian masks are weighed in a matrix of all agents
        if holds_record_gradients(self.worlds[0]):
            batch_size = self.settings.batch_size
            records = int(np.max(self.worlds[0].sizes)) if batch_size is None else batch_size
            vectors += RECORD_GRADIENT_COPIES * K * records
        return vectors * d * np.dtype(self.settings.dtype).itemsize + graph

    def start(self, repeats: int) -> Any:
        """The states before the first round, with a leading axis for the worlds."""
        return jax.tree.map(
            lambda x: np.broadcast_to(x, (len(self.worlds), *x.shape)), initial_state(self.plan, repeats)
        )

    def advance(self, program: Any, ids: np.ndarray, states: Any, done: int, count: int) -> tuple[Any, Any]:
        """Run `count` rounds.

        Raises:
            Diverged: a model left the finite numbers.
        """
        ids = np.asarray(ids, np.uint32)
        states, results = program(
            self.arrays, self.shared, ids, states, np.int32(done), np.int32(count), np.bool_(True)
        )
        for leaf in jax.tree.leaves(states):
            if not bool(jnp.isfinite(leaf).all()):
                world, agent, *_, repeat = np.argwhere(~np.isfinite(np.asarray(leaf)))[0]
                raise self._diverged(int(world), int(agent), int(ids[repeat]), done + 1, done + count)
        return states, results

    def _diverged(self, world: int, agent: int, repeat: int, first: int, last: int) -> Diverged:
        of = f"world {world}, " if len(self.worlds) > 1 else ""
        cause = cause_of(self.plan._replace(problem=self.worlds[world]), self.topology, self.algorithm, last)
        return Diverged(
            f"learning left the finite numbers between rounds {first} and {last}, seen at agent {agent} ('{self.algorithm.name}' with noise "
            f"'{self.plan.noises[0].name}', {of}repeat {repeat}). {cause}"
        )

    def measure(self, statistic: Statistic) -> Any:
        """A statistic of all runs, group after group; the last group is filled up, so that all are the same program."""
        n = self.settings
        with precision(n.dtype):
            carried = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(jax.eval_shape(statistic.init)))
            lanes = int(GROUP_BYTES / ((self.run_bytes + carried) * len(self.worlds)))
            together = min(n.repeats, n.repeats_together or max(1, lanes))
            groups = -(-n.repeats // together)
            together = -(-n.repeats // groups)
            program = compile_record(self.plan, self.view_plan, statistic)
            start, found = self.start(together), []
            for group in range(groups):
                ids = np.arange(group * together, (group + 1) * together)
                _, results = self.advance(program, np.minimum(ids, n.repeats - 1), start, 0, n.rounds)
                found.append(jax.tree.map(np.asarray, results))
        return jax.tree.map(lambda *parts: np.concatenate(parts, axis=1)[:, : n.repeats], *found)


def keep_all(recorder: Recorder, capacity: int) -> Statistic:
    """The statistic that keeps everything: round t at place (t - 1) mod capacity."""
    rows, (_, d), dtype = recorder.view_plan.layout, recorder.plan.shape, recorder.plan.dtype

    def init() -> Seen:
        return Seen(
            messages=tuple(jnp.zeros((capacity, len(part), d), dtype) for part in rows.links),
            active=tuple(jnp.zeros((capacity, len(part)), bool) for part in rows.links),
            broadcast=tuple(jnp.zeros((capacity, d), dtype) for _ in rows.links) if rows.broadcast else (),
            sources=tuple(jnp.zeros((capacity, len(part), d), dtype) for part in rows.sources),
            board=_empty_board(recorder, capacity),
        )

    def update(kept: Seen, seen: Seen, round_: Array) -> Seen:
        place = (round_ - 1) % capacity
        return Seen(
            *(jax.tree.map(lambda held, new: held.at[place].set(new), *pair) for pair in zip(kept, seen, strict=True))
        )

    return Statistic(init, update, lambda kept, final: (kept, final))


def _empty_board(recorder: Recorder, capacity: int) -> Board | None:
    masks = recorder.view_plan.masks
    if masks is None:
        return None
    agents = (capacity, masks.num_agents)
    return Board(
        published=jnp.zeros(agents, bool),
        members=jnp.zeros(agents, bool),
        picks=jnp.zeros((*agents, masks.partners), jnp.int32),
        parts=jnp.zeros(agents, jnp.int32),
    )


def _check(worlds: Sequence[Any], topology: Topology, algorithm: Algorithm, noise: Noise, settings: Settings) -> None:
    """Refuse what an ordinary run refuses."""
    check_run_size(run_size(worlds[0], topology, (algorithm,), settings, schemes=1, metrics=0, worlds=len(worlds)))
    check_algorithm(worlds[0], topology, algorithm, (noise,), settings)
    for problem in worlds[1:]:  # the same problem, but agents may have other numbers of records
        check_agents(problem, topology, settings.batch_size)
        if settings.batch is not None:
            settings.batch.check(problem.sizes)


def checked_worlds(problems: Any) -> list[Any]:
    """Refuse worlds that cannot be run by one program, or that differ in more than their records."""
    if not isinstance(problems, Sequence) or not problems:
        raise ConfigError(
            f"problems = {type(problems).__name__}; give a list with one problem per world, such as [problem, neighbour]."
        )
    first = problems[0]
    for world, other in enumerate(problems[1:], start=1):
        differs = _difference(first, other)
        if differs is not None:
            raise ConfigError(
                f"world {world} differs from world 0 in its {differs}; worlds are the same problem with other records, in arrays of the same "
                f"shapes. Change records only."
            )
    return list(problems)


def _difference(first: Any, other: Any) -> str | None:
    """What differs between two problems beside their records; None is nothing."""
    if isinstance(first, ClippedGradients) and isinstance(other, ClippedGradients):
        same = first.gradient_clip == other.gradient_clip
        return _difference(first.problem, other.problem) if same else "gradient_clip"
    if type(first) is not type(other):
        return "kind"
    return _other_field(first, other) or _other_shape(first, other)


def _other_field(first: Any, other: Any) -> str | None:
    for field in dataclasses.fields(first) if dataclasses.is_dataclass(first) else ():
        mine, its = (getattr(problem, field.name) for problem in (first, other))
        if isinstance(mine, np.ndarray) or field.name in ("arrays", "initial_parameters"):
            continue  # these may differ, or are compared below
        if not _same(mine, its):
            return field.name
    return None


def _other_shape(first: Any, other: Any) -> str | None:
    if not np.array_equal(first.initial_model, other.initial_model):
        return "initial model"
    shapes = [{name: np.shape(value) for name, value in problem.arrays.items()} for problem in (first, other)]
    if shapes[0] != shapes[1]:
        return f"shapes, {shapes[1]} instead of {shapes[0]}"
    return None


def _same(mine: Any, its: Any) -> bool:
    """Whether two values are the same; functions are when they have the same code and have caught the same values."""
    if mine is its:
        return True
    if type(mine) is not type(its):
        return False
    if isinstance(mine, FunctionType):
        caught = [[cell.cell_contents for cell in function.__closure__ or ()] for function in (mine, its)]
        return mine.__code__ == its.__code__ and _same(mine.__defaults__, its.__defaults__) and _same(*caught)
    if isinstance(mine, tuple | list):
        return len(mine) == len(its) and all(_same(*pair) for pair in zip(mine, its, strict=True))
    return bool(np.all(mine == its))
