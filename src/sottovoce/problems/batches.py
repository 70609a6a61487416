"""Which records enter which round, where that is fixed in public before the run: simulator and accountant read it off one value.

    cyclic_batch(gap)     record i of an agent enters exactly the rounds t with (t - 1) mod gap = i mod gap

The gradient of a round is the weighted sum of the (clipped) gradients of its records,

    g_t(w) = (gap / n_k) sum over the records i of the round of g_i(w)  +  the gradient of the ridge, whole

The divisor n_k / gap is the same in every round. It and the order of the records are public, so they tell nothing: a guarantee for a record
compares data in which one record is another one, at the same place (taking one away would move all that come after it). Over `gap` rounds in a row every record enters once, and the gradients of those rounds, taken at
one model, have the full gradient as their mean. A round with more records than n_k / gap, where gap does not divide n_k, has the larger gradient.

One record changes the gradient of a round at the same model by gap times as much as it changes the full one, and only in its rounds: it takes
part ceil(T / gap) times or once less, gap apart (`CyclicBatch.participation`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError
from sottovoce.numbers import whole
from sottovoce.problems.constants import ConvexSmooth

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Cyclic:
    """The unit takes part at most `times` times, every `gap` rounds, starting anywhere."""

    times: int
    gap: int

    def __post_init__(self) -> None:
        whole("times", self.times), whole("gap", self.gap)


@dataclass(frozen=True, slots=True)
class CyclicBatch:
    """Records in turns, in the order in which an agent has them; make it with `cyclic_batch`.

    Attributes:
        gap: rounds from one turn of a record to its next.
    """

    gap: int

    def __post_init__(self) -> None:
        whole("gap", self.gap)

    def describe(self) -> dict[str, Any]:
        """What was chosen, as plain values for a saved run."""
        return {"kind": "cyclic", "gap": self.gap}

    def turn_of_round(self, round_: Any) -> Any:
        """Which records have their turn in a round, counted from 1: those of this turn number; for arrays of any kind."""
        return (round_ - 1) % self.gap

    def turn_of_record(self, record: Any) -> Any:
        """The turn number of a record, counted from 0 in the order of its agent."""
        return record % self.gap

    def takes_part(self, records: int, rounds: int) -> NDArray[np.bool_]:
        """[n, T]: whether record i of an agent with n of them enters round t + 1."""
        turns = self.turn_of_round(np.arange(1, rounds + 1))
        return np.asarray(self.turn_of_record(np.arange(records))[:, None] == turns)

    def participation(self, rounds: int) -> Cyclic:
        """What a guarantee for one record may count on in a run of this many rounds: `sv.accounting.cyclic(times, gap)`."""
        return Cyclic(-(-whole("rounds", rounds) // self.gap), self.gap)

    def check(self, sizes: Any) -> None:
        """Refuse agents with fewer records than turns, who would have rounds without any.

        Raises:
            ConfigError: naming the agent.
        """
        smallest = int(np.argmin(sizes))
        if sizes[smallest] < self.gap:
            raise ConfigError(
                f"cyclic_batch(gap={self.gap}), but agent {smallest} has {int(sizes[smallest])} record(s), so that some of its rounds would be "
                f"without any. Use a gap of at most {int(sizes[smallest])}, or agents with more records."
            )

    def most_records(self, sizes: Any) -> int:
        """The most records of one agent in one round."""
        return -(-int(np.max(sizes)) // self.gap)

    def largest_share(self, sizes: Any) -> Floats:
        """[K] the sum of the weights of an agent's records in its fullest round: 1 where gap divides n_k, else between 1 and 2."""
        n = np.asarray(sizes, dtype=np.int64)
        return np.asarray(-(-n // self.gap) * self.gap / n)

    def smallest_share(self, sizes: Any) -> Floats:
        """[K] the sum of the weights of an agent's records in its emptiest round: 1 where gap divides n_k, else less."""
        n = np.asarray(sizes, dtype=np.int64)
        return np.asarray(n // self.gap * self.gap / n)

    def losses(self, known: ConvexSmooth, sizes: Any) -> ConvexSmooth:
        """What may be promised of the loss of every round, from what holds for the loss of every record with the ridge."""
        most, least = float(self.largest_share(sizes).max()), float(self.smallest_share(sizes).min())
        return ConvexSmooth(known.beta * most, known.nu * least)

    def table(self, sizes: Any) -> tuple[Integers, Floats]:
        """Positions and weights [gap, K, B] of the records of every turn; a place that is left over has position 0 and weight 0.

        Args:
            sizes: [K] records of every agent.

        Raises:
            ConfigError: an agent with fewer records than turns.
        """
        n = np.asarray(sizes, dtype=np.int64)
        self.check(n)
        positions = np.zeros((self.gap, len(n), self.most_records(n)), dtype=np.int64)
        weights = np.zeros(positions.shape)
        for agent, size in enumerate(n):
            for turn in range(self.gap):
                own = np.flatnonzero(self.turn_of_record(np.arange(size)) == turn)
                positions[turn, agent, : len(own)] = own
                weights[turn, agent, : len(own)] = self.gap / size
        return positions, weights


Batch = CyclicBatch  # what `batch=` takes


def cyclic_batch(gap: int) -> CyclicBatch:
    """Records in turns: record i of an agent enters exactly the rounds t (from 1) with (t - 1) mod gap = i mod gap.

    The order is that in which the agent has its records, and public. `problem.sensitivity(..., batch=cyclic_batch(gap))` and
    `cyclic_batch(gap).participation(rounds)` are what a guarantee for one record of such a run takes.

    Args:
        gap: rounds from one turn of a record to its next; 1 is the full gradient. No agent may have fewer records.

    Raises:
        ConfigError: no whole number of at least 1.
    """
    return CyclicBatch(gap)


def check_batch(batch: Any, batch_size: Any) -> None:
    """Refuse something that is no batch, and batches that are given twice.

    Raises:
        ConfigError: saying which.
    """
    if batch is None:
        return
    if not isinstance(batch, CyclicBatch):
        raise ConfigError(f"batch = {batch!r}; use sv.problems.cyclic_batch(gap), or None.")
    if batch_size is not None:
        raise ConfigError(
            f"batch_size = {batch_size!r} draws records at random and batch = {batch!r} takes them in turns. Give one of them."
        )
