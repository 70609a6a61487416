"""The only loop: runs a compiled comparison chunk by chunk and yields what each chunk measured.

A chunk boundary is a checkpoint. Because every random number is addressed by (seed, repeat, round, id), the state and the number of
rounds done are all that is needed to go on; any division into chunks and any number of devices give the same bits. Another number of
repeats side by side uses the same random numbers but may round sums differently in the last digit.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.errors import ConfigError, Diverged
from sottovoce.linear import check_parts
from sottovoce.noise import Noise
from sottovoce.simulation.checks import check_algorithm, check_resumed, check_test_records
from sottovoce.simulation.divergence import cause_of, failing_agent
from sottovoce.simulation.pace import next_rounds
from sottovoce.simulation.resources import RunSize, check_compiled, check_run_size, holds_record_gradients, run_size
from sottovoce.simulation.rounds.metrics import NEEDS_LABELS, Measured, choose_metrics, keeps_models
from sottovoce.simulation.rounds.plan import Plan, plan_comparison
from sottovoce.simulation.rounds.precision import precision
from sottovoce.simulation.rounds.program import compile_advance, initial_state, models_of
from sottovoce.simulation.rounds.remembered import most_lags
from sottovoce.simulation.settings import Settings
from sottovoce.topologies import Topology

Array = Any
# Parameter updates of the longest chunk when its size is left open: a fraction of a second to a few seconds.
CHUNK_WORK = 5e8
# Repeats run together while the states of a group stay below this, about a processor's share of cache,
GROUP_BYTES = 2**23
# and while the clipped gradients of single records in a group stay below this.
RECORD_BYTES = 2**30
# The models of all rounds of a chunk stay below this, where they are recorded.
KEPT_BYTES = 2**26

# Where a run begins: (round, state) of an earlier chunk, models [d] or [K, d], or None for where the problem says.
Start = tuple[int, dict[str, np.ndarray]] | np.ndarray | None


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """What happened since the previous chunk. State and models are copied from the device only when asked for."""

    round: int  # rounds done so far
    metrics: dict[tuple[Any, Any], dict[str, np.ndarray]]  # (algorithm, noise): {name: [repeats, rounds in this chunk]}
    _plan: Plan
    _labels: tuple[tuple[Any, ...], tuple[Any, ...]]
    _states: list[Any]
    _kept: list[
        np.ndarray
    ]  # per algorithm [rounds in this chunk, K, d, S, repeats]; empty where models are not recorded

    @property
    def state(self) -> dict[str, np.ndarray]:
        """Enough, with `round`, to go on from here: arrays [K, d, schemes, repeats]."""
        return {str(i): leaf for i, leaf in enumerate(jax.tree.leaves(self._whole()))}

    @property
    def models(self) -> dict[tuple[Any, Any], np.ndarray]:
        """{(algorithm, noise): [repeats, K, d]}: every agent's model now."""
        algorithms, noises = self._labels
        models = dict(zip(algorithms, models_of(self._plan, self._whole()), strict=True))
        return {
            (a, n): np.moveaxis(np.asarray(models[a])[:, :, s], -1, 0) for a in algorithms for s, n in enumerate(noises)
        }

    @property
    def models_by_round(self) -> dict[tuple[Any, Any], np.ndarray]:
        """{(algorithm, noise): [repeats, rounds in this chunk, K, d]}: every agent's model after every round; empty where not recorded."""
        algorithms, noises = self._labels
        kept = dict(zip(algorithms, self._kept, strict=False))
        return {(a, n): np.moveaxis(kept[a][:, :, :, s], -1, 0) for a in kept for s, n in enumerate(noises)}

    def _whole(self) -> Any:
        return jax.tree.map(lambda *parts: np.concatenate([np.asarray(p) for p in parts], axis=-1), *self._states)


def chunks(
    problem: Any,
    topology: Topology,
    algorithms: Mapping[Any, Algorithm],
    noises: Mapping[Any, Noise],
    settings: Settings,
    *,
    record: Sequence[str] | None = None,
    test: tuple[Any, Any] | None = None,
    start: Start = None,
) -> Iterator[Chunk]:
    """Run every algorithm with every noise scheme and yield the chunks in order; what cannot run is refused at once.

    Args:
        problem: the data and the loss.
        topology: who talks to whom.
        algorithms: by label.
        noises: by label.
        settings: the numbers of the run; a chunk size or repeats together that are left open are chosen by work and memory.
        record: names of the metrics to measure, None for all the problem has; with "models" every agent's model of every round too.
        test: (features, labels) for the accuracy; None for the training records.
        start: (round, state) of an earlier chunk to go on from, or the models to begin with (`checks.first_models`); None: the problem's.

    Raises:
        Diverged: a model left the finite numbers.
    """
    check_parts(problem=problem, topology=topology, algorithm=algorithms, noise=noises)
    if not algorithms or not noises:
        raise ConfigError("give at least one algorithm and one noise scheme (sv.noise.none() for none).")
    metrics = choose_metrics(record, problem)
    run = size_of_run(
        problem, topology, tuple(algorithms.values()), settings, schemes=len(noises), metrics=len(metrics)
    )
    if keeps_models(record):  # on the device, on the host, and as the caller takes them
        run = replace(run, kept_rounds=3 * min(_chunk_rounds(run, settings, keeps=True), settings.rounds))
    check_run_size(run)  # before any list over rounds
    for algorithm in algorithms.values():
        check_algorithm(problem, topology, algorithm, tuple(noises.values()), settings)
    run = replace(run, blocks=run.blocks + len(algorithms) * most_lags(tuple(noises.values())))
    check_run_size(run)  # with the noise of earlier rounds, whose shape is known to be right by now
    measured = Measured(metrics, _test_records(problem, metrics, test), keeps_models(record))
    return _chunks(problem, topology, algorithms, noises, settings, run, measured, start)


def _chunks(
    problem: Any,
    topology: Topology,
    algorithms: Mapping[Any, Algorithm],
    noises: Mapping[Any, Noise],
    settings: Settings,
    run: RunSize,
    measured: Measured,
    start: Start,
) -> Iterator[Chunk]:
    rounds, dtype = settings.rounds, settings.dtype
    done, held = start if isinstance(start, tuple) else (0, None)
    size = _chunk_rounds(run, settings, keeps=measured.models)
    with precision(dtype):
        plan, arrays = plan_comparison(problem, topology, algorithms, noises, settings, measured)
        plan = plan._replace(first=start if isinstance(start, np.ndarray) else None)
        runner = _Runner(plan, arrays, capacity=min(size, rounds), run=run)
        states = runner.start(held, done, rounds)
    count = 1 if settings.chunk is None else size
    while done < rounds:
        count, began = min(count, rounds - done), perf_counter()
        with precision(dtype):
            new_states, values, kept = runner.advance(states, done, count)
            if not (runner.finite(new_states) and all(np.isfinite(found).all() for found in values)):
                raise _diverged(runner, topology, states, done, count)
            states = new_states
        done += count
        if settings.chunk is None:
            count = next_rounds(count, perf_counter() - began, most=size)
        yield _chunk(plan, tuple(algorithms), tuple(noises), done, states, values, kept)


def _chunk_rounds(run: RunSize, settings: Settings, *, keeps: bool) -> int:
    """Rounds of the longest chunk: those asked for, or as many as take a moment and, where models are kept, little memory."""
    if settings.chunk is not None:
        return settings.chunk
    lanes = run.agents * run.dimension * run.algorithms * run.schemes * run.repeats
    moment = int(np.clip(CHUNK_WORK / lanes, 1, 512))
    return min(moment, max(1, int(KEPT_BYTES / (run.itemsize * lanes)))) if keeps else moment


def size_of_run(
    problem: Any, topology: Topology, algorithms: tuple[Algorithm, ...], settings: Settings, *, schemes: int, metrics: int
) -> RunSize:  # fmt: skip
    """The numbers of a run, with how many repeats go together: those asked for, or as many as keep a group small.

    Args:
        problem: the data and the loss.
        topology: who talks to whom.
        algorithms: those that run in one program.
        settings: the numbers of the run.
        schemes: how many noise schemes each of them runs with.
        metrics: how many are measured after every round.
    """
    repeats = settings.repeats
    b, lanes = np.dtype(settings.dtype).itemsize, problem.num_agents * problem.dimension * schemes
    afford = int(GROUP_BYTES / (b * lanes * len(algorithms)))
    working = 1 if any(one.walks for one in algorithms) else problem.num_agents
    if holds_record_gradients(problem):
        held = b * lanes * settings.most_records(problem.sizes) * working / problem.num_agents
        afford = min(afford, int(RECORD_BYTES / held))
    together = settings.repeats_together or max(1, min(repeats, afford))
    together = -(-repeats // -(-repeats // together))  # equal groups: a smaller last one would be compiled again
    grouped = replace(settings, repeats_together=together)
    return replace(run_size(problem, topology, algorithms, grouped, schemes=schemes, metrics=metrics), working=working)


def _test_records(
    problem: Any, metrics: tuple[str, ...], test: tuple[Any, Any] | None
) -> tuple[np.ndarray, np.ndarray] | None:
    """The records of the accuracies: those given, else all agents' own; None where no accuracy is measured."""
    given = None if test is None else check_test_records(problem, test)
    if not any(name in NEEDS_LABELS for name in metrics):
        return None
    return _training_records(problem) if given is None else given


def _training_records(problem: Any) -> tuple[np.ndarray, np.ndarray]:
    """All agents' records in one pile."""
    rows = [(problem.arrays["features"][k, :n], problem.arrays["targets"][k, :n]) for k, n in enumerate(problem.sizes)]
    return np.concatenate([features for features, _ in rows]), np.concatenate([labels for _, labels in rows])


class _Runner:
    """The compiled program with its arrays on the devices; repeats are cut into groups, dealt out to the devices in turn.

    The groups do not depend on how many devices there are, so neither do the results.
    """

    def __init__(self, plan: Plan, arrays: Any, *, capacity: int, run: RunSize) -> None:
        self.plan, self.run = plan, run
        repeats, together = run.repeats, run.together
        self.groups = [np.arange(first, min(first + together, repeats)) for first in range(0, repeats, together)]
        used = jax.devices()[: len(self.groups)]
        self.devices = [used[i % len(used)] for i in range(len(self.groups))]
        self.arrays = {device: jax.device_put(arrays, device) for device in used}
        self.program: Any = compile_advance(plan, capacity)
        self.compiled: dict[tuple[Any, int], Any] = {}  # by device and number of repeats

    def start(self, held: dict[str, np.ndarray] | None, done: int, rounds: int) -> list[Any]:
        states = initial_state(self.plan, self.run.repeats)
        if held is not None:
            leaves, tree = jax.tree.flatten(states)
            check_resumed(held, leaves, done, rounds)
            states = jax.tree.unflatten(tree, [held[str(i)] for i in range(len(leaves))])
        placed = [
            jax.device_put(jax.tree.map(lambda x, g=group: x[..., g], states), device)
            for group, device in zip(self.groups, self.devices, strict=True)
        ]
        compiled = self._compiled(self.devices[0], *self._arguments(self.groups[0], self.devices[0], placed[0], 0, 0))
        check_compiled(self.run, compiled)
        return placed

    def _arguments(self, group: np.ndarray, device: Any, state: Any, done: int, count: int) -> tuple[Any, ...]:
        ids = np.asarray(group, np.uint32)
        return self.arrays[device], ids, state, np.int32(done), np.int32(count), np.bool_(True)

    def _compiled(self, device: Any, *arguments: Any) -> Any:
        """The program for this device and as many repeats; compiled ahead, so that its memory is known before it runs."""
        key = (device, len(arguments[1]))
        if key not in self.compiled:
            self.compiled[key] = self.program.lower(*arguments).compile()
        return self.compiled[key]

    def advance(self, states: list[Any], done: int, count: int) -> tuple[list[Any], list[np.ndarray], list[np.ndarray]]:
        """Run `count` rounds; metrics come back as one [metrics, count, S, repeats] array per algorithm, models as [count, K, d, S, repeats]."""
        results = []  # all devices are given their work before any result is waited for
        for group, device, state in zip(self.groups, self.devices, states, strict=True):
            arguments = self._arguments(group, device, state, done, count)
            results.append(self._compiled(device, *arguments)(*arguments))
        values = [
            np.concatenate([np.asarray(measured[a])[:, :count] for _, measured, _ in results], axis=-1)
            for a in range(len(self.plan.algorithms))
        ]
        kept = [
            np.concatenate([np.asarray(models[a])[:count] for *_, models in results], axis=-1)
            for a in range(len(self.plan.algorithms) if self.plan.keeps_models else 0)
        ]
        return [state for state, *_ in results], values, kept

    @staticmethod
    def finite(states: list[Any]) -> bool:
        """Whether every number of every state is finite."""
        return all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(states))


def _chunk(
    plan: Plan, algorithms: tuple[Any, ...], noises: tuple[Any, ...], done: int, states: list[Any], values: Any, kept: Any
) -> Chunk:  # fmt: skip
    metrics = {
        (algorithm, noise): {name: values[a][m, :, s].T.copy() for m, name in enumerate(plan.metrics)}
        for a, algorithm in enumerate(algorithms)
        for s, noise in enumerate(noises)
    }
    return Chunk(done, metrics, plan, (algorithms, noises), states, kept)


def _diverged(runner: _Runner, topology: Topology, states: list[Any], done: int, count: int) -> Diverged:
    """Find the first bad round by bisection (chunks can be replayed exactly) and say who and why."""
    good, bad = 0, count
    while bad - good > 1:
        middle = (good + bad) // 2
        found, values, _ = runner.advance(states, done, middle)
        fine = runner.finite(found) and all(np.isfinite(value).all() for value in values)
        good, bad = (middle, bad) if fine else (good, middle)
    broken, values, _ = runner.advance(states, done, bad)
    plan, worst = runner.plan, (-1.0, 0, 0, 0, 0)
    for group, state in zip(runner.groups, broken, strict=True):
        for a, leaves in enumerate(state[: len(plan.algorithms)]):
            for leaf in jax.tree.leaves(leaves):
                # The largest entry names the agent; anything not finite counts as larger than every number.
                size = np.nan_to_num(np.abs(np.asarray(leaf, dtype=float)), nan=np.inf, posinf=np.inf)
                k, _, s, r = np.unravel_index(int(size.argmax()), size.shape)
                worst = max(worst, (float(size.max()), a, int(k), int(s), int(group[r])))
    largest, a, agent, scheme, repeat = worst
    if np.isfinite(largest):  # every model is finite, a metric is not
        a, scheme, repeat = next(
            (i, *np.argwhere(~np.isfinite(v))[0][2:]) for i, v in enumerate(values) if not np.isfinite(v).all()
        )
    before, *_ = runner.advance(states, done, bad - 1)
    guilty = _failing_agent(runner, before, broken, (a, scheme, repeat))
    agent, algorithm = agent if guilty is None else guilty, plan.algorithms[a]
    return Diverged(
        f"learning left the finite numbers in round {done + bad}, first at agent {agent} ('{algorithm.name}' with noise "
        f"'{plan.noises[scheme].name}', repeat {repeat}). {cause_of(plan, topology, algorithm, done + bad)}"
    )


def _failing_agent(runner: _Runner, before: list[Any], after: list[Any], lane: tuple[int, int, int]) -> int | None:
    """Whose gradient or risk failed in this lane (algorithm, scheme, repeat), from the states around the bad round."""
    a, scheme, repeat = lane
    g = next(i for i, group in enumerate(runner.groups) if repeat in group)
    column = int(repeat - runner.groups[g][0])
    arrays = runner.arrays[runner.devices[g]]
    models = [models_of(runner.plan, states[g])[a][:, :, scheme, column] for states in (before, after)]
    return failing_agent(runner.plan.problem, arrays["data"], arrays["perron"][a], before=models[0], after=models[1])
