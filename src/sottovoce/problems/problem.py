"""The contract of a problem: data split over agents, and a loss.

    minimise  J(w) = (1/K) sum_k J_k(w),   J_k(w) = (1/n_k) sum_i loss(w; record_i) + ridge term

The per-agent functions (gradient, records, batch_gradient, weighted_gradient, local_risk) take ONE agent's `data`, that is row k of every
array in `arrays`, and use only operators and the namespace of the model they get: a simulator maps them over agents in
JAX, a party calls them on NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sottovoce.clipping import Clip, Norm
from sottovoce.problems.batches import Batch
from sottovoce.problems.constants import Constants, ConvexSmooth, QuadraticRecords
from sottovoce.problems.persons import Persons
from sottovoce.problems.sensitivity import Adjacency, Sensitivity, Unit

Array = Any  # a NumPy or JAX array
Data = Mapping[str, Array]
Floats = NDArray[np.float64]


class Problem(Protocol):
    """What every problem offers; see the module for the shapes."""

    @property
    def kind(self) -> str:
        """The name in PROBLEMS."""

    @property
    def num_agents(self) -> int:
        """K."""

    @property
    def dimension(self) -> int:
        """The number d of parameters."""

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The number of records of each agent, [K]."""

    @property
    def clip(self) -> Clip | None:
        """How each record's gradient is clipped before averaging; None is not at all."""

    @property
    def box(self) -> float | None:
        """R when models belong in the box [-R, R]^d, for projection; None when anywhere."""

    @property
    def initial_model(self) -> Floats:
        """Where every agent starts, [d]: zero, unless the problem has reasons of its own. It may not depend on data."""

    @property
    def arrays(self) -> dict[str, Floats]:
        """All that the agents need; every array has leading axis K."""

    def gradient(self, model: Array, data: Data) -> Array:
        """One agent's full gradient, [d]: the average of its (clipped) record gradients, plus the unclipped ridge's."""

    def records(self, data: Data, indices: Array) -> tuple[Array, ...]:
        """The records of one agent at these indices, each array with leading axis B."""

    def batch_gradient(self, model: Array, records: tuple[Array, ...]) -> Array:
        """The average of the (clipped) gradients of these records, plus the unclipped ridge gradient, [d]."""

    def weighted_gradient(self, model: Array, records: tuple[Array, ...], weights: Array) -> Array:
        """The (clipped) gradients of these records, summed with weights [B], plus the whole unclipped ridge gradient, [d]."""

    def local_risk(self, model: Array, data: Data) -> Array:
        """One agent's (unclipped) risk J_k(model)."""

    def risk(self, model: Array, arrays: Data) -> Array:
        """The uniform average J(model) of the agents' (unclipped) risks."""

    @property
    def has_accuracy(self) -> bool:
        """Whether `accuracy` can be called."""

    @property
    def accuracy(self) -> Callable[[Array, Array, Array], Array] | None:
        """(model, features [N, ...], labels [N]) -> fraction classified right; None for problems without labels."""

    @property
    def label_sets(self) -> tuple[tuple[float, ...], ...]:
        """The sets of labels that the records of an accuracy may come from, each set on its own; empty is any number."""

    @property
    def optimum(self) -> Floats:
        """The minimiser of J, [d]."""

    def weighted_optimum(self, weights: Any) -> Floats:
        """The minimiser of sum_k weights_k J_k, [d]."""

    @property
    def constants(self) -> Constants:
        """Smoothness and strong convexity of the risks."""

    @property
    def losses(self) -> ConvexSmooth | None:
        """What may be promised of every full or batch loss whose gradient this problem returns; None is nothing."""

    @property
    def quadratic(self) -> QuadraticRecords | None:
        """The affine gradients; None when the problem is clipped or its loss not quadratic."""

    def with_clipping(self, clip: float, norm: Norm) -> Problem:
        """The same problem with every record's gradient clipped before averaging; the ridge is added after."""

    @property
    def persons(self) -> Persons | None:
        """How many records one person may have, all at one agent; None: nothing is known of persons."""

    def with_persons(self, records_per_person: int, persons: Sequence[Any] | None = None) -> Problem:
        """The same problem, in which a person has at most this many records, all at one agent: what unit="person" protects.

        Args:
            records_per_person: m, the most records of one person, declared and public.
            persons: K arrays of whole numbers, whose record each one is, [n_k]. They are held against m and against each other, and
                not kept. None: m is promised, and guarantees say that it was not checked.

        Raises:
            ConfigError: a person with more records, or with records at two agents.
        """

    def with_gradient_clipping(self, clip: float, norm: Norm) -> Problem:
        """The same problem with every agent's whole gradient clipped, ridge and all; the agent is then what can be protected."""

    def sensitivity(
        self,
        *,
        unit: Unit,
        adjacency: Adjacency,
        norm: Norm,
        clip: float | Clip | None = None,
        batch_size: int | None = None,
        agent: int | None = None,
        batch: Batch | None = None,
    ) -> Sensitivity:
        """The largest change of one agent's gradient when the protected unit changes, marked with what it compares.

        Args:
            unit: "agent", "person" or "record": what is protected.
            adjacency: "replace" or "add-remove".
            norm: "l1" or "l2", that of the noise law.
            clip: the bound on a record's gradient; None for that of the problem.
            batch_size: records per agent and round; None for all of them.
            agent: whose; None for the largest of all agents.
            batch: whose turn it is in every round; None where batches are not fixed in advance.
        """

    def describe(self) -> dict[str, Any]:
        """What a report or a saved run needs to name this problem, JSON-able."""


def describe(problem: Problem, **parameters: float) -> dict[str, Any]:
    """Return the JSON-able description shared by all problems, with the problem's own parameters added."""
    clip = problem.clip
    persons = {} if problem.persons is None else {"records_per_person": problem.persons.records}
    return {
        "kind": problem.kind,
        "num_agents": problem.num_agents,
        "dimension": problem.dimension,
        "sizes": [int(size) for size in problem.sizes],
        "clip": None if clip is None else {"bound": clip.bound, "norm": clip.norm},
        **persons,
        **parameters,
    }
