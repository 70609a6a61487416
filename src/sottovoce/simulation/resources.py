"""What a simulated run will need, estimated before its first round: memory by its largest parts, and time.

With K agents, n records each, d parameters, A algorithms, S noise schemes, R repeats of which r run together, T rounds, M metrics and b
bytes per number:

    records      2 b (numbers in all records)               as the program takes them, and on its device
    models       4 b K d A S R                              states before and after a chunk, and the final models
    a round      8 b K d A S r                              messages, noise, gradients
    gradients    3 b K n d S r                              where every record's gradient is clipped as a vector; n: of the batch, if there is one;
                                                            1 for K on a walk that is not recorded
    metrics      2 b T R M A S                              in chunks and joined
    all models   b K d A S R (T + 3 rounds of a chunk)      where models are recorded; T only where they are not streamed to a disk
    rounds       40 T A S

and once the program is compiled, what the compiler says it needs instead of the third and fourth. Time is operations over a cautious speed.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.linear import exchange_topologies, state_blocks
from sottovoce.resources import ROUND_BYTES, in_bytes, refuse_too_large, refuse_too_long
from sottovoce.simulation.settings import Settings
from sottovoce.topologies import Topology

PROGRAM_BYTES = 2.0**26  # code, compiler and what JAX keeps for itself
# A clipped gradient, its size in every coordinate, and the sum that is being formed: as measured.
RECORD_GRADIENT_COPIES = 3
CPU_SPEED = 1e9  # operations per second and core, below what small rounds reach
ACCELERATOR_SPEED = 1e12
LAUNCH_SECONDS = 1e-5  # what starting a round costs, however little it does
HOP_SECONDS = 2e-6  # drawing one hop of a walk, which Python does

_PARTS = {  # what takes memory: in words, and what to do about it
    "records": ("records (agents x records x dimension)", "Lower agents, records or their dimension."),
    "models": ("models (agents x parameters x repeats x schemes)", "Lower agents, parameters or repeats."),
    "messages": ("messages (agents x parameters x schemes)", "Lower agents, parameters or the number of schemes."),
    "gradients": (
        "gradients of single records, which are clipped (agents x records x parameters)",
        "Set batch_size, or lower records, parameters or repeats_together.",
    ),
    "metrics": ("metrics (rounds x repeats x schemes)", "Lower rounds or repeats, or record fewer metrics."),
    "all models": (
        "models of all rounds, which were to be recorded (rounds x agents x parameters x repeats x schemes)",
        "Lower rounds, repeats or schemes, leave 'models' out of record, or run a file, which streams them to its folder.",
    ),
    "rounds": ("lists of rounds", "Lower rounds."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSize:
    """The numbers that decide how much a run needs."""

    agents: int
    records: int  # that enter a gradient, per agent
    dimension: int
    numbers: int  # in all arrays of the problem
    blocks: int  # vectors in the states of all algorithms together
    gradients: int  # per round, of all algorithms together
    links: int  # over which messages pass in a round, of all algorithms together
    schemes: int
    algorithms: int
    repeats: int
    together: int
    rounds: int
    metrics: int
    itemsize: int
    clipped: bool  # whether gradients are clipped as vectors, so that every record's is held
    walks: bool
    working: int  # agents that take gradients in a round: all, or the holder of a token
    kept_rounds: int = 0  # whose models are held at once

    @property
    def parts(self) -> dict[str, float]:
        """Bytes of each part."""
        b, lanes = self.itemsize, float(self.agents) * self.dimension * self.schemes
        values = float(self.rounds) * self.repeats * self.metrics * self.algorithms * self.schemes
        walk, busy = 16.0 * self.rounds * self.repeats * self.walks, self.working / self.agents
        return {
            "records": 2.0 * b * self.numbers,
            "models": 4.0 * b * lanes * self.blocks * self.repeats,
            "messages": 8.0 * b * lanes * self.algorithms * self.together,
            "gradients": RECORD_GRADIENT_COPIES * b * lanes * busy * self.records * self.together * self.clipped,
            "metrics": 2.0 * b * values,
            "all models": b * lanes * self.algorithms * self.repeats * float(self.kept_rounds),
            "rounds": ROUND_BYTES * self.rounds * self.algorithms * self.schemes + walk,
        }

    @property
    def bytes(self) -> float:
        """All parts together."""
        return PROGRAM_BYTES + sum(self.parts.values())

    @property
    def seconds(self) -> float:
        """About how long the run takes on this machine."""
        lanes = float(self.schemes) * self.repeats
        work = 4.0 * self.gradients * self.working * self.records + 20.0 * self.working * self.algorithms
        work += 2.0 * self.links if self.working == self.agents else 0.0
        groups = -(-self.repeats // self.together)
        walking = HOP_SECONDS * self.repeats * self.walks
        return self.rounds * (groups * LAUNCH_SECONDS + lanes * work * self.dimension / speed() + walking)

    def __str__(self) -> str:
        """The numbers, as the subject of a sentence."""
        of = [f"{self.rounds:,} rounds", f"{self.repeats:,} repeat(s)", f"{self.agents:,} agents"]
        kinds = f"{self.algorithms} algorithm(s), {self.schemes} scheme(s)"
        return f"a run of {', '.join(of)}, {kinds}, {self.records:,} record(s) per gradient and {self.dimension:,} parameters"


def run_size(
    problem: Any, topology: Topology, algorithms: Sequence[Algorithm], settings: Settings, *, schemes: int, metrics: int, worlds: int = 1
) -> RunSize:  # fmt: skip
    """Read the numbers off the parts; nothing is allocated.

    Args:
        problem: the data and the loss.
        topology: who talks to whom.
        algorithms: those that run in one program.
        settings: the numbers of the run; one repeat at a time unless it says how many go together.
        schemes: how many noise schemes each of them runs with.
        metrics: how many are measured after every round.
        worlds: how many problems run side by side.
    """
    links = [sum(len(used.links) for used in exchange_topologies(one, topology)) for one in algorithms]
    return RunSize(
        agents=problem.num_agents,
        records=int(settings.most_records(problem.sizes)),
        dimension=problem.dimension,
        numbers=worlds * sum(int(np.size(array)) for array in problem.arrays.values()),
        blocks=sum(len(state_blocks(one.init(np.zeros(1)))) for one in algorithms),
        gradients=sum(one.gradients_per_round for one in algorithms),
        links=sum(links),
        schemes=schemes,
        algorithms=len(algorithms),
        repeats=worlds * settings.repeats,
        together=worlds * min(settings.repeats_together or 1, settings.repeats),
        rounds=settings.rounds,
        metrics=metrics,
        itemsize=np.dtype(settings.dtype).itemsize,
        clipped=holds_record_gradients(problem),
        walks=any(one.walks for one in algorithms),
        working=problem.num_agents,
    )


def holds_record_gradients(problem: Any) -> bool:
    """Whether a gradient is summed from clipped vectors, one per record; linear models clip one number per record instead."""
    return getattr(problem, "clip", None) is not None and "derivative_bound" not in problem.arrays


def check_run_size(size: RunSize) -> None:
    """Refuse a run that cannot fit into memory, or would not end within a year.

    Raises:
        ConfigError: with the estimate, what is free, and what to lower.
    """
    part, most = max(size.parts.items(), key=lambda item: item[1])
    what, remedy = _PARTS[part]
    refuse_too_large(str(size), size.bytes, f"Most of it, {in_bytes(most)}, are {what}. {remedy}")
    refuse_too_long(str(size), size.seconds, "Lower rounds, repeats, agents or parameters, or use batches.")


def check_compiled(size: RunSize, compiled: Any) -> None:
    """Refuse a program whose working memory, as its compiler states it, does not fit beside what is held already.

    Raises:
        ConfigError: with what it needs, what is free, and what to lower.
    """
    said = compiled.memory_analysis()
    if said is None:  # some devices do not state what a program needs
        return
    still = (
        size.parts["metrics"] + size.parts["all models"] + size.parts["models"] / 2.0
    )  # is held on top of it while the run goes on
    needed = float(said.temp_size_in_bytes + said.output_size_in_bytes) + still
    remedy = "Set batch_size, or lower repeats_together, records, parameters or agents."
    refuse_too_large(f"a round of {size}", needed, remedy)


def speed() -> float:
    """Operations per second, cautiously."""
    used = jax.devices()
    if used[0].platform == "cpu":
        return CPU_SPEED * (os.cpu_count() or 1)
    return ACCELERATOR_SPEED * len(used)
