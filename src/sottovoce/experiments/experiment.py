"""An experiment: everything that a run and its account need, made and checked."""

import hashlib
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sottovoce.accounting import Participation
from sottovoce.algorithms import Algorithm
from sottovoce.experiments.config.problem import Test
from sottovoce.noise import Noise
from sottovoce.observers import Observer
from sottovoce.problems import Adjacency, ConvexSmooth, Problem, Unit
from sottovoce.simulation import Settings
from sottovoce.topologies import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The most that one observer may learn."""

    epsilon: float
    observer: Observer
    until_spent: bool  # run as many rounds as fit instead of refusing the run

    def describe(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"epsilon": self.epsilon, "observer": self.observer.name, "until_spent": self.until_spent}


@dataclass(frozen=True, slots=True, kw_only=True)
class Privacy:
    """What is protected, from whom, and under which promises."""

    unit: Unit
    adjacency: Adjacency
    delta: float | None  # None: epsilon is stated for delta = 0, which the Laplace laws allow
    observers: tuple[Observer, ...]  # who is answered for, in this order; empty: nobody
    losses: ConvexSmooth | None
    participation: Participation
    same_model: bool | None  # passed on to `account`
    budget: Budget | None
    premises: tuple[str, ...]  # what a guarantee rests on beyond what the accountant says itself

    def describe(self) -> dict[str, Any]:
        """Plain values for JSON."""
        takes_part = self.participation if isinstance(self.participation, str) else asdict(self.participation)
        return {
            "unit": self.unit,
            "adjacency": self.adjacency,
            "delta": self.delta,
            "observers": [observer.name for observer in self.observers],
            "losses": None if self.losses is None else {"beta": self.losses.beta, "nu": self.losses.nu},
            "participation": takes_part,
            "budget": None if self.budget is None else self.budget.describe(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Everything that a simulation needs, made and checked."""

    problem: Problem
    topology: Topology
    algorithm: Algorithm
    noise: Noise
    rounds: int
    repeats: int
    seed: int
    dtype: str
    chunk: int | None
    record: tuple[str, ...] | None
    batch_size: int | None
    privacy: Privacy | None  # None: nothing was said about it
    test: Test

    @property
    def settings(self) -> Settings:
        """The numbers of the run."""
        return Settings(
            rounds=self.rounds, repeats=self.repeats, seed=self.seed, batch_size=self.batch_size, dtype=self.dtype, chunk=self.chunk
        )  # fmt: skip

    def describe(self) -> dict[str, Any]:
        """What will be run, as plain values for JSON."""
        return {
            "problem": self.problem.describe(),
            "topology": self.topology.describe(),
            "algorithm": self.algorithm.describe(),
            "noise": self.noise.describe(self.rounds),
            "rounds": self.rounds,
            "repeats": self.repeats,
            "seed": self.seed,
            "dtype": self.dtype,
            "batch_size": self.batch_size,
            "privacy": None if self.privacy is None else self.privacy.describe(),
            "data_digest": _digest(self.problem, self.test),
            "test_records": 0 if self.test is None else len(self.test[1]),
        }


def _digest(problem: Problem, test: Test) -> str:
    """A fingerprint of the records, so that a run is not continued on other data."""
    digest = hashlib.sha256()
    for array in (*problem.arrays.values(), *(test or ())):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]
