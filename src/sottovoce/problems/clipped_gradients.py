"""Any problem with the agents' whole gradients clipped: the agent is the protected unit, whatever its loss and its records are.

    g_k(w) <- g_k(w) min(1, C / ||g_k(w)||),   g_k the average over all records, or over a batch, ridge and all

The clip is the last thing that happens to a gradient, so that any two gradients of an agent lie in one ball: they differ by at most 2C, at any two
models, with any number of records. One record of many may turn its agent's clipped gradient round, so for a record nothing better than its
agent's 2C is true, and that question is refused. Scaling a whole gradient does not keep it the gradient of a convex loss, and steps along it may
drive two models apart: a promise of convex, smooth losses does not survive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Never

import numpy as np
from numpy.typing import NDArray

from sottovoce.clipping import Clip, Norm, clip_vector
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.problems.batches import Batch, check_batch
from sottovoce.problems.constants import Constants
from sottovoce.problems.persons import Persons
from sottovoce.problems.problem import Array, Data, Floats, Problem
from sottovoce.problems.sensitivity import Adjacency, Sensitivity, Unit, clipped_diameter, gradient_sensitivity
from sottovoce.reprs import short_repr


@dataclass(frozen=True, kw_only=True, eq=False)
class ClippedGradients:
    """A problem whose agents clip their whole gradients; make it with `problem.with_gradient_clipping(clip, norm)`.

    Attributes:
        problem: the same without clipping.
        gradient_clip: the bound on an agent's gradient, and its norm.
    """

    problem: Any
    gradient_clip: Clip

    clip: ClassVar[None] = None
    losses: ClassVar[None] = None
    quadratic: ClassVar[None] = None

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def kind(self) -> str:
        """The name of the problem."""
        return str(self.problem.kind)

    @property
    def num_agents(self) -> int:
        """K."""
        return int(self.problem.num_agents)

    @property
    def dimension(self) -> int:
        """The number d of parameters."""
        return int(self.problem.dimension)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The number of records of each agent, [K]."""
        return np.asarray(self.problem.sizes)

    @property
    def box(self) -> float | None:
        """R when models belong in the box [-R, R]^d, for projection; None when anywhere."""
        found: float | None = self.problem.box
        return found

    @property
    def initial_model(self) -> Floats:
        """Where every agent starts, [d]."""
        return np.asarray(self.problem.initial_model)

    @property
    def arrays(self) -> dict[str, Floats]:
        """All that the agents need; every array has leading axis K."""
        found: dict[str, Floats] = self.problem.arrays
        return found

    def gradient(self, model: Array, data: Data) -> Array:
        """One agent's full gradient, clipped as a whole, [d]."""
        return clip_vector(self.problem.gradient(model, data), self.gradient_clip)

    def records(self, data: Data, indices: Array) -> tuple[Array, ...]:
        """The records of one agent at these indices, each array with leading axis B."""
        found: tuple[Array, ...] = self.problem.records(data, indices)
        return found

    def batch_gradient(self, model: Array, records: tuple[Array, ...]) -> Array:
        """The gradient of these records, clipped as a whole, [d]."""
        return clip_vector(self.problem.batch_gradient(model, records), self.gradient_clip)

    def weighted_gradient(self, model: Array, records: tuple[Array, ...], weights: Array) -> Array:
        """The weighted sum of the gradients of these records, clipped as a whole, [d]."""
        return clip_vector(self.problem.weighted_gradient(model, records, weights), self.gradient_clip)

    def local_risk(self, model: Array, data: Data) -> Array:
        """One agent's (unclipped) risk J_k(model)."""
        return self.problem.local_risk(model, data)

    def risk(self, model: Array, arrays: Data) -> Array:
        """The uniform average J(model) of the agents' (unclipped) risks."""
        return self.problem.risk(model, arrays)

    @property
    def has_accuracy(self) -> bool:
        """Whether `accuracy` can be called."""
        return bool(self.problem.has_accuracy)

    @property
    def accuracy(self) -> Callable[[Array, Array, Array], Array] | None:
        """(model, features [N, ...], labels [N]) -> fraction classified right; None for problems without labels."""
        found: Callable[[Array, Array, Array], Array] | None = self.problem.accuracy
        return found

    @property
    def label_sets(self) -> tuple[tuple[float, ...], ...]:
        """The sets of labels that the records of an accuracy may come from, each set on its own; empty is any number."""
        found: tuple[tuple[float, ...], ...] = self.problem.label_sets
        return found

    @property
    def optimum(self) -> Floats:
        """The minimiser of J, [d]."""
        return np.asarray(self.problem.optimum)

    def weighted_optimum(self, weights: Any) -> Floats:
        """The minimiser of sum_k weights_k J_k, [d]."""
        return np.asarray(self.problem.weighted_optimum(weights))

    @property
    def constants(self) -> Constants:
        """Smoothness and strong convexity of the (unclipped) risks."""
        found: Constants = self.problem.constants
        return found

    def parameters(self, model: Array) -> Any:
        """The vector [d] as parameters, where the problem has a structure of them."""
        return self.problem.parameters(model)

    def flatten(self, parameters: Any) -> Floats:
        """Parameters as one vector [d], where the problem has a structure of them."""
        return np.asarray(self.problem.flatten(parameters))

    def with_clipping(self, clip: float, norm: Norm) -> Never:
        """Refused: gradients are clipped once.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            f"the gradients of this problem are clipped as a whole already, to {self.gradient_clip.bound:g} ({self.gradient_clip.norm}). Clip "
            f"every record's gradient instead: with_clipping(clip, norm) of the problem without clipping."
        )

    def with_gradient_clipping(self, clip: float, norm: Norm) -> ClippedGradients:
        """The same problem with another clip of whole gradients."""
        return ClippedGradients(problem=self.problem, gradient_clip=Clip(clip, norm))

    @property
    def persons(self) -> Persons | None:
        """How many records one person may have; known, though only the agent can be protected."""
        found: Persons | None = self.problem.persons
        return found

    def with_persons(self, records_per_person: int, persons: Sequence[Any] | None = None) -> ClippedGradients:
        """The same problem, in which a person has at most this many records, all at one agent; see `Problem.with_persons`."""
        return ClippedGradients(
            problem=self.problem.with_persons(records_per_person, persons), gradient_clip=self.gradient_clip
        )

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
        """The largest change of one agent's gradient, between any two models: 2C, or C where its data appear or go.

        Args:
            unit: "agent"; for anything smaller nothing better is true.
            adjacency: "replace" or "add-remove".
            norm: "l1" or "l2", that of the noise law.
            clip: None; the problem has its own.
            batch_size: records per agent and round; None for all of them. It changes nothing.
            agent: whose; None for any.
            batch: whose turn it is in every round; None where batches are not fixed in advance. It changes nothing.

        Raises:
            ConfigError: a clip, or an agent or a batch that does not exist.
            UnsupportedClaim: another unit than the agent.
        """
        if clip is not None:
            raise ConfigError(f"clip = {clip!r}, but this problem clips whole gradients itself. Omit clip.")
        if unit != "agent":
            raise UnsupportedClaim(
                f"unit='{unit}' was asked of gradients that are clipped as a whole: one record may turn the clipped gradient of its agent round, "
                f"so that it is worth as much as the agent, {2 * self.gradient_clip.bound:g}. Ask for unit='agent', or clip every record's "
                f"gradient: problem.with_clipping(clip, norm)."
            )
        check_batch(batch, batch_size)
        if batch is not None:  # the whole gradient is clipped, however its records are weighted
            batch.check(self.sizes)
        diameter = clipped_diameter(self.gradient_clip, norm=norm, dimension=self.dimension)
        value = gradient_sensitivity(
            diameter=diameter, unit=unit, adjacency=adjacency, sizes=self.sizes, batch_size=batch_size, agent=agent
        )
        return Sensitivity(
            value, unit=unit, adjacency=adjacency, norm=norm, compares="any two models", whole_gradient=True
        )

    def describe(self) -> dict[str, Any]:
        """What names this problem, JSON-able."""
        clip = self.gradient_clip
        return {**self.problem.describe(), "gradient_clip": {"bound": clip.bound, "norm": clip.norm}}


def clip_gradients(problem: Problem, clip: float, norm: Norm) -> ClippedGradients:
    """The problem with every agent's whole gradient clipped.

    Raises:
        ConfigError: every record's gradient is clipped already.
    """
    if problem.clip is not None:
        raise ConfigError(
            f"every record's gradient is clipped already, to {problem.clip.bound:g} ({problem.clip.norm}), and whole gradients were to be clipped "
            f"too. Choose one: with_gradient_clipping(clip, norm) of the problem without clipping protects agents, with_clipping records."
        )
    return ClippedGradients(problem=problem, gradient_clip=Clip(clip, norm))


def gradient_clip_of(problem: Any) -> Clip | None:
    """The clip of whole gradients; None where a problem has none, or knows of none."""
    found: Clip | None = getattr(problem, "gradient_clip", None)
    return found
