"""Recorded views: what an observer really sees of simulated runs, for attacks and audits.

    views      the messages and known sources of an observer, streamed in chunks of rounds
    observe    the same of all rounds at once, for short runs
    measure    something computed from every view while it arises, for many runs in neighbouring worlds

The observer is the accountant's own: the rows are those of `linear/network.py`, before repeated ones are left out. In symbols, round t gives

    y_t = (psi_l + (link_map z_t)_(l, k))  for the links (l, k) that are read and used,      known: z_t,s  for the sources s of members

and, in a federation, all uplinks for who reads them, else the average that the relay sends out. A relay's own noise is added after the uplinks; whoever
reads them all knows it. Beside the messages, members know their data and models, which follow from the problem.

Under masked averages every observer of messages reads the board: what is left of it when known masks are taken away, as masks.py says,
and the average that comes out. Members without names are drawn for every run; their data and noise are not recorded, and nothing
else in the view depends on them but the average.

Randomness is addressed by (seed, world, repeat, round, id): chunks and groups of repeats do not change it, and all runs are independent.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.errors import ConfigError
from sottovoce.linear import check_parts, check_together
from sottovoce.noise import Noise
from sottovoce.observers import Observer
from sottovoce.problems import Batch
from sottovoce.reprs import short_repr
from sottovoce.simulation.rounds.precision import precision
from sottovoce.simulation.settings import Settings
from sottovoce.simulation.views.masks import Board
from sottovoce.simulation.views.plan import Layout, plan_view
from sottovoce.simulation.views.program import Statistic, compile_record
from sottovoce.simulation.views.recorder import Recorder, checked_worlds, keep_all
from sottovoce.topologies import Topology

OBSERVE_BYTES = 2**30  # the most that is returned at once; while it arises, up to three times as much is held
CHUNK_BYTES = 2**26  # what one chunk holds when its size is left open


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Views:
    """What an observer saw in consecutive rounds of independent runs; `layout` names the rows.

    Attributes:
        observer: who looked.
        layout: the (sender, receiver) of every message and the owners of every source.
        first_round: the number of the first round here, from 1.
        messages: per exchange [repeats, rounds, E_o, d].
        active: per exchange [repeats, rounds, E_o] bool; messages of links that were not used are zero.
        broadcast: per exchange [repeats, rounds, d] what a relay sent out; () unless the layout has it.
        sources: per exchange [repeats, rounds, S_o, d] the sources that members know, as they were added, then the sums that a generator has
            told them; with noise in gradients one more.
        final_model: [repeats, d] the centroid of the final models, in the last chunk for who gets it; else None.
        board: what is public of masked averages, its arrays [repeats, rounds, ...]; None where nothing is masked.
    """

    observer: Observer
    layout: Layout
    first_round: int
    messages: tuple[np.ndarray, ...]
    active: tuple[np.ndarray, ...]
    broadcast: tuple[np.ndarray, ...]
    sources: tuple[np.ndarray, ...]
    final_model: np.ndarray | None
    board: Board | None = None

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def repeats(self) -> int:
        """How many runs."""
        return int(self.messages[0].shape[0])

    @property
    def rounds(self) -> int:
        """How many rounds are here."""
        return int(self.messages[0].shape[1])


def layout(topology: Topology, algorithm: Algorithm, noise: Noise, observer: Observer) -> Layout:
    """The names of the rows that an observer sees.

    Args:
        topology: who talks to whom.
        algorithm: what an agent does in a round.
        noise: how messages are perturbed.
        observer: who looks.

    Raises:
        ConfigError: the observer does not fit the topology.
        IncompatibleChoice: algorithm, noise, topology and observer do not fit together.
    """
    check_parts(topology=topology, algorithm=algorithm, noise=noise, observer=observer)
    check_together(topology, algorithm, noise, rounds=1, remembers=True)
    return plan_view(topology, algorithm, noise, observer).layout


def views(
    problem: Any,
    topology: Topology,
    algorithm: Algorithm,
    noise: Noise,
    observer: Observer,
    *,
    rounds: int,
    repeats: int = 1,
    seed: int = 0,
    batch_size: int | None = None,
    dtype: str = "float64",
    chunk: int | None = None,
    honest: int | None = None,
    batch: Batch | None = None,
) -> Iterator[Views]:
    """Run and yield what the observer sees, in consecutive chunks of rounds.

    Args:
        problem: the data and the loss.
        topology: who talks to whom.
        algorithm: what agents do.
        noise: what perturbs their messages.
        observer: who looks.
        rounds: how many rounds in all.
        repeats: independent runs; run r is the same whatever `repeats` is.
        seed: of all random numbers.
        batch_size: records per agent and round; None for all of them.
        dtype: "float32" or "float64".
        chunk: rounds per chunk; None chooses by memory. It does not change what is seen.
        honest: an agent that is none of an observer's members without names; None: all may be.
        batch: in place of batch_size, records in turns: `sv.problems.cyclic_batch(gap)`.

    Raises:
        ConfigError: a malformed argument, or a chunk that is too large to hold.
        IncompatibleChoice: the parts do not fit together.
        Diverged: a model left the finite numbers.
    """
    settings = Settings(
        rounds=rounds, repeats=repeats, seed=seed, batch_size=batch_size, dtype=dtype, chunk=chunk, batch=batch
    )
    recorder = Recorder([problem], topology, algorithm, noise, observer, settings, honest)
    per_round = recorder.round_bytes * repeats
    size = min(rounds, chunk or max(1, int(CHUNK_BYTES / max(per_round, 1))))
    if per_round * size > OBSERVE_BYTES:
        raise ConfigError(
            f"{size} round(s) of {repeats} run(s) are {per_round * size / 2**30:.1f} GiB of messages; at most {OBSERVE_BYTES / 2**30:g} GiB "
            f"are returned at once. Ask for smaller chunks or fewer repeats, or use measure(), which holds no messages."
        )
    return _stream(recorder, observer, size)


def observe(
    problem: Any,
    topology: Topology,
    algorithm: Algorithm,
    noise: Noise,
    observer: Observer,
    *,
    rounds: int,
    repeats: int = 1,
    seed: int = 0,
    batch_size: int | None = None,
    dtype: str = "float64",
    chunk: int | None = None,
    honest: int | None = None,
    batch: Batch | None = None,
) -> Views:
    """Run and return what the observer sees in all rounds.

    Args:
        problem: the data and the loss.
        topology: who talks to whom.
        algorithm: what agents do.
        noise: what perturbs their messages.
        observer: who looks.
        rounds: how many.
        repeats: independent runs; run r is the same whatever `repeats` is.
        seed: of all random numbers.
        batch_size: records per agent and round; None for all of them.
        dtype: "float32" or "float64".
        chunk: rounds that are computed at once; it does not change what is seen.
        honest: an agent that is none of an observer's members without names; None: all may be.
        batch: in place of batch_size, records in turns: `sv.problems.cyclic_batch(gap)`.

    Raises:
        ConfigError: a malformed argument, or views that are too large to hold.
        IncompatibleChoice: the parts do not fit together.
        Diverged: a model left the finite numbers.
    """
    settings = Settings(
        rounds=rounds, repeats=repeats, seed=seed, batch_size=batch_size, dtype=dtype, chunk=chunk, batch=batch
    )
    recorder = Recorder([problem], topology, algorithm, noise, observer, settings, honest)
    total = recorder.round_bytes * repeats * rounds
    if total > OBSERVE_BYTES:
        raise ConfigError(
            f"all that '{observer.name}' sees in {rounds} rounds of {repeats} run(s) is {total / 2**30:.1f} GiB; at most "
            f"{OBSERVE_BYTES / 2**30:g} GiB are returned at once. Use views(), which yields chunks of rounds, or measure()."
        )
    parts = list(_stream(recorder, observer, min(rounds, chunk or rounds)))
    if len(parts) == 1:
        return parts[0]

    def joined(name: str) -> tuple[np.ndarray, ...]:
        return tuple(
            np.concatenate(of_exchange, axis=1) for of_exchange in zip(*(getattr(p, name) for p in parts), strict=True)
        )

    return Views(
        observer=observer,
        layout=recorder.view_plan.layout,
        first_round=1,
        messages=joined("messages"),
        active=joined("active"),
        broadcast=joined("broadcast"),
        sources=joined("sources"),
        final_model=parts[-1].final_model,
        board=None if parts[0].board is None else Board(*joined("board")),
    )


def measure(
    problems: Sequence[Any],
    topology: Topology,
    algorithm: Algorithm,
    noise: Noise,
    observer: Observer,
    statistic: Statistic,
    *,
    rounds: int,
    repeats: int,
    seed: int = 0,
    batch_size: int | None = None,
    dtype: str = "float64",
    together: int | None = None,
    honest: int | None = None,
    batch: Batch | None = None,
) -> Any:
    """Run neighbouring worlds many times and compute a statistic of every view, in one compiled program.

    Args:
        problems: one per world: the same problem with other records. All runs have noise, batches and links of their own.
        topology: who talks to whom.
        algorithm: what agents do.
        noise: what perturbs their messages.
        observer: who looks.
        statistic: what to compute, one round after the other.
        rounds: how many rounds.
        repeats: independent runs of every world; run r is the same whatever `repeats` is.
        seed: of all random numbers.
        batch_size: records per agent and round; None for all of them.
        dtype: "float32" or "float64".
        together: runs of every world side by side; None chooses by memory.
        honest: an agent that is none of an observer's members without names; None: all may be.
        batch: in place of batch_size, records in turns: `sv.problems.cyclic_batch(gap)`.

    Returns:
        What `statistic.finish` returns, its arrays [worlds, repeats, ...].

    Raises:
        ConfigError: a malformed argument, or worlds that differ in more than their records.
        IncompatibleChoice: the parts do not fit together.
        Diverged: a model left the finite numbers.
    """
    worlds = checked_worlds(problems)
    settings = Settings(
        rounds=rounds,
        repeats=repeats,
        seed=seed,
        batch_size=batch_size,
        dtype=dtype,
        repeats_together=together,
        batch=batch,
    )
    recorder = Recorder(worlds, topology, algorithm, noise, observer, settings, honest)
    return recorder.measure(statistic)


def _stream(recorder: Recorder, observer: Observer, size: int) -> Iterator[Views]:
    n, rows = recorder.settings, recorder.view_plan.layout
    with precision(n.dtype):
        program = compile_record(recorder.plan, recorder.view_plan, keep_all(recorder, size))
        states = recorder.start(n.repeats)
    for done in range(0, n.rounds, size):
        count = min(size, n.rounds - done)
        with precision(n.dtype):
            states, results = recorder.advance(program, np.arange(n.repeats), states, done, count)
            seen, final = jax.tree.map(lambda x: np.asarray(x)[0], results)
        seen = jax.tree.map(lambda x, count=count: x[:, :count], seen)
        last = done + count == n.rounds
        yield Views(
            observer=observer, layout=rows, first_round=done + 1, messages=seen.messages, active=seen.active,
            broadcast=seen.broadcast, sources=seen.sources, final_model=final if last and rows.final_model else None,
            board=seen.board,
        )  # fmt: skip
