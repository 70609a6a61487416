"""Random numbers of parties from a simulation, so that both play the same run: for rehearsals and tests, never for a release.

    drawn = sv.simulation.drawn(problem, topology, algorithm, noise, rounds=..., seed=..., fraction_bits=f)
    play(run, Lattice(f), problem, lambda agent: Rehearsed(run, lattice, drawn, agent), RehearsedCoin(run, drawn))

Numbers that follow from a seed protect nobody. A source that links carry in a multiple v is drawn by parties at |v| times its scale
(`perturbation`); here that is v times the simulation's source, rounded, half a unit apart at most. Masks cancel, so that a simulation draws none and
they are made up here; both ends of a pair make up the same ones.
"""

from typing import Protocol

import numpy as np

from sottovoce.algorithms import AgentSampling
from sottovoce.deployment.integers import Lattice
from sottovoce.deployment.terms import PublicRun
from sottovoce.topologies import ActiveLinks


class Draws(Protocol):
    """What one repeat of a simulation drew, as `sv.simulation.drawn` reads it."""

    def weights(self, round_: int, exchange: int) -> ActiveLinks:
        """The weights of the links in one exchange."""

    def sources(self, round_: int, exchange: int) -> np.ndarray:
        """[S, d] every source of an exchange, scaled and on the lattice."""

    def gradient_noise(self, round_: int, step: int) -> np.ndarray:
        """[K, d] what every agent adds to one gradient of a round."""

    def batch(self, round_: int, step: int) -> np.ndarray:
        """[K, B] positions of the records of one gradient of a round."""

    def counts(self, round_: int) -> np.ndarray:
        """[K] how much every agent counts in a round."""


class Rehearsed:
    """What one party draws in a rehearsal."""

    def __init__(self, run: PublicRun, lattice: Lattice, draws: Draws, agent: int) -> None:
        """Take one party's numbers from a simulation.

        Args:
            run: what is rehearsed.
            lattice: on which parties compute.
            draws: of the simulation.
            agent: whose; K for the relay.
        """
        self._run, self._lattice, self._draws, self._agent = run, lattice, draws, agent
        factors = run.noise.factors(run.rounds) * run.algorithm.noisy_rounds(run.rounds)
        self._scales = run.noise.std / lattice.unit * factors

    def source(self, position: int, source: int, scale: float) -> np.ndarray:
        """[d] int64: the simulation's source, in units."""
        round_, exchange = self._run.at(position)
        multiple = scale / self._scales[round_ - 1]
        return self._units(multiple * self._draws.sources(round_, exchange)[source])

    def shared(self, position: int, source: int, other: int, scale: float) -> np.ndarray:
        """[d] int64: the same for both owners."""
        return self.source(position, source, scale)

    def gradient_noise(self, round_: int, step: int, scale: float) -> np.ndarray:
        """[d] int64: the simulation's noise in a gradient, in units."""
        return self._units(self._draws.gradient_noise(round_, step)[self._agent])

    def mask(self, position: int, source: int, other: int) -> np.ndarray:
        """[d] uint64: uniform words, the same for both owners."""
        generator = np.random.default_rng([position, source])
        return np.asarray(generator.integers(0, 2**64, size=self._run.dimension, dtype=np.uint64))

    def batch(self, round_: int, step: int, records: int, size: int) -> np.ndarray:
        """[size] int64: the simulation's batch."""
        return np.asarray(self._draws.batch(round_, step)[self._agent], dtype=np.int64)

    def _units(self, values: np.ndarray) -> np.ndarray:
        return np.asarray(np.rint(values / self._lattice.unit), dtype=np.int64)


class RehearsedCoin:
    """What a simulation drew in public: links and participants."""

    def __init__(self, run: PublicRun, draws: Draws) -> None:
        self._run, self._draws = run, draws

    def _pairs(self, round_: int) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
        """All pairs of a run, and those that exchange in a round."""
        every: set[tuple[int, int]] = set()
        active: set[tuple[int, int]] = set()
        for exchange in range(self._run.exchanges):
            links = self._draws.weights(round_, exchange)
            ends = np.sort(np.stack([links.senders, links.receivers], axis=1), axis=1)
            every.update(map(tuple, ends.tolist()))
            active.update(map(tuple, ends[links.weights > 0].tolist()))
        return every, active

    def kept_pairs(self, round_: int, pairs: np.ndarray, probability: float) -> np.ndarray:
        """[P] bool: which pairs exchange."""
        _, active = self._pairs(round_)
        return np.array([tuple(pair) in active for pair in pairs.tolist()])

    def pair(self, round_: int, num_pairs: int) -> int:
        """The pair that is awake."""
        every, active = self._pairs(round_)
        (awake,) = active
        return sorted(every).index(awake)

    def takes_part(self, round_: int, sampling: AgentSampling, num_agents: int) -> np.ndarray:
        """[K] how much every agent counts."""
        return self._draws.counts(round_)
