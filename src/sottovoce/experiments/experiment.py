"""An experiment: everything that a run and its account need, made and checked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.errors import IncompatibleChoice
from sottovoce.experiments.config.problem import Test
from sottovoce.experiments.protection import Privacy
from sottovoce.noise import Noise
from sottovoce.problems import Batch, Preparation, Problem, Schema
from sottovoce.reprs import short_repr
from sottovoce.simulation import GENERATOR, Settings
from sottovoce.topologies import Topology


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
    record: Sequence[str] | None
    batch_size: int | None
    privacy: Privacy | None  # None: nothing was said about it
    test: Test
    schema: Schema | None = None  # what the columns of the data mean; None where nothing is declared about them
    agents: tuple[str, ...] | None = None  # names of the agents; None: they have none but their numbers
    preparation: Preparation | None = (
        None  # of plain numbers before a model takes them; None where columns are declared
    )
    batch: Batch | None = None  # whose turn it is in every round, in place of batch_size

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def accuracy_test(self) -> Test:
        """The records on which accuracy is measured in every round; None where a problem has no accuracy, or no such records."""
        return self.test if self.problem.has_accuracy else None

    @property
    def settings(self) -> Settings:
        """The numbers of the run."""
        return Settings(
            rounds=self.rounds, repeats=self.repeats, seed=self.seed, batch_size=self.batch_size, dtype=self.dtype, chunk=self.chunk,
            batch=self.batch,
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
            "generator": GENERATOR,
            "dtype": self.dtype,
            "batch_size": self.batch_size,
            "privacy": None if self.privacy is None else self.privacy.describe(),
            "test_records": 0 if self.test is None else len(self.test[1]),
            **({} if self.batch is None else {"batch": self.batch.describe()}),
            **self._names(),
        }

    def _names(self) -> dict[str, Any]:
        """Names of agents and features, where the data have such, and how records become inputs of the model."""
        found: dict[str, Any] = {} if self.agents is None else {"agents": list(self.agents)}
        if self.schema is not None:
            found |= {"features": list(self.schema.features), "schema": self.schema.as_dict()}
        return found if self.preparation is None else found | {"preparation": self.preparation.as_dict()}

    @property
    def records(self) -> dict[str, np.ndarray]:
        """All that is learnt from and tested on, by name: what makes a run another one though its file is the same."""
        test = {} if self.test is None else {"test features": self.test[0], "test targets": self.test[1]}
        return {**self.problem.arrays, **test}


def refuse_turns(batch: Batch | None, what: str) -> None:
    """Refuse records in turns where nothing is made for them.

    Args:
        batch: of the experiment.
        what: what was asked for, as the subject of a sentence.

    Raises:
        IncompatibleChoice: naming the key of the file.
    """
    if batch is not None:
        raise IncompatibleChoice(
            f"[algorithm] batch takes records in turns, and {what} is not made for that; `sottovoce run`, `account`, `calibrate` and `check` are. "
            f"Remove batch."
        )
