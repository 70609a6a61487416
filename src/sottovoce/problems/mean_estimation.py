"""Estimation of the mean of points in a box: the simplest strongly convex problem.

    J_k(w) = (1/n_k) sum_i ||w - x_i||^2 / 2,   x_i in [-R, R]^d
    grad of record i:  w - x_i;   full gradient:  w - mean_k

With l2 clipping, w - x_i is projected onto the ball of radius C: the gradient of a Huber loss of ||w - x_i||, convex
and 1-smooth. With l1 clipping, w - x_i is scaled into the l1 ball, which is no gradient of a convex function: nothing
is promised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.clipping import Clip, Norm, clip_vector
from sottovoce.errors import ConfigError
from sottovoce.numbers import checked
from sottovoce.problems.agent_data import agent_weights, pad_features, record_mask
from sottovoce.problems.batches import Batch
from sottovoce.problems.clipped_gradients import ClippedGradients, clip_gradients
from sottovoce.problems.constants import Constants, ConvexSmooth, QuadraticRecords
from sottovoce.problems.persons import Persons, declared_persons
from sottovoce.problems.problem import Array, Data, Floats, describe
from sottovoce.problems.sensitivity import (
    Adjacency,
    Compares,
    Sensitivity,
    Unit,
    box_diameter,
    clipped_diameter,
    effective_clip,
    gradient_sensitivity,
)
from sottovoce.reprs import short_repr


@dataclass(frozen=True, kw_only=True, eq=False)
class MeanEstimation:
    """Mean estimation over agents; make it with `mean_estimation`.

    Attributes:
        points: padded with zeros, [K, n, d].
        sizes: records of each agent, [K].
        radius: R, half the side of the box.
        clip: how each record's gradient is clipped, or None.
        persons: how many records one person may have; None: nothing is known of persons.
    """

    points: Floats
    sizes: NDArray[np.int64]
    radius: float
    clip: Clip | None = None
    persons: Persons | None = None

    kind: ClassVar[str] = "mean_estimation"
    has_accuracy: ClassVar[bool] = False
    label_sets: ClassVar[tuple[tuple[float, ...], ...]] = ()
    accuracy: ClassVar[None] = None

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def num_agents(self) -> int:
        """K."""
        return int(self.points.shape[0])

    @property
    def dimension(self) -> int:
        """The number d of parameters."""
        return int(self.points.shape[2])

    @property
    def box(self) -> float:
        """R: the mean lies in [-R, R]^d, so models may be projected there."""
        return self.radius

    @property
    def initial_model(self) -> Floats:
        """Where every agent starts, [d]: zero."""
        return np.zeros(self.dimension)

    @cached_property
    def arrays(self) -> dict[str, Floats]:
        """The points [K, n, d], count [K], mean [K, d] and spread [K]; clipped also present [K, n].

        The spread is the risk at the mean; present is 1 for a record and 0 for padding.
        """
        present = record_mask(self.sizes, self.points.shape[1]).astype(np.float64)
        count = self.sizes.astype(np.float64)
        mean = self.points.sum(1) / count[:, None]
        deviations = (self.points - mean[:, None, :]) * present[:, :, None]
        arrays = {
            "points": self.points,
            "count": count,
            "mean": mean,
            "spread": 0.5 * (deviations**2).sum((1, 2)) / count,
        }
        if self.clip is not None:
            arrays["present"] = present
        return arrays

    def gradient(self, model: Array, data: Data) -> Array:
        """One agent's full gradient, [d]."""
        if self.clip is None:
            return model - data["mean"]
        clipped = clip_vector(model - data["points"], self.clip)
        return (data["present"] @ clipped) / data["count"]

    def records(self, data: Data, indices: Array) -> tuple[Array, ...]:
        """The points at these indices, [B, d]."""
        return (data["points"][indices],)

    def batch_gradient(self, model: Array, records: tuple[Array, ...]) -> Array:
        """The average gradient of these points, [d]."""
        (points,) = records
        differences = model - points
        if self.clip is not None:
            differences = clip_vector(differences, self.clip)
        return differences.sum(0) / points.shape[0]

    def weighted_gradient(self, model: Array, records: tuple[Array, ...], weights: Array) -> Array:
        """The (clipped) gradients of these records, summed with weights [B], [d]."""
        (points,) = records
        differences = model - points
        if self.clip is not None:
            differences = clip_vector(differences, self.clip)
        return (weights[:, None] * differences).sum(0)

    def local_risk(self, model: Array, data: Data) -> Array:
        """One agent's (unclipped) risk: ||w - mean_k||^2 / 2 plus the spread of its points."""
        error = model - data["mean"]
        return 0.5 * (error * error).sum(-1) + data["spread"]

    def risk(self, model: Array, arrays: Data) -> Array:
        """The uniform average of the agents' (unclipped) risks."""
        return self.local_risk(model, arrays).mean()

    @cached_property
    def optimum(self) -> Floats:
        """The uniform average of the agents' means, [d]."""
        average: Floats = self.arrays["mean"].mean(0)
        return average

    def weighted_optimum(self, weights: Any) -> Floats:
        """The weighted average of the agents' means, [d]."""
        average: Floats = agent_weights(weights, self.num_agents) @ self.arrays["mean"]
        return average

    @cached_property
    def constants(self) -> Constants:
        """All 1: the Hessian is the identity."""
        ones = np.ones(self.num_agents)
        return Constants(
            local_smoothness=ones,
            local_strong_convexity=ones,
            smoothness=1.0,
            strong_convexity=1.0,
            record_smoothness=1.0,
        )

    @cached_property
    def losses(self) -> ConvexSmooth | None:
        """1-smooth and 1-strongly convex; l2-clipped only convex; l1-clipped nothing."""
        if self.clip is None:
            return ConvexSmooth(1.0, 1.0)
        return ConvexSmooth(1.0) if self.clip.norm == "l2" else None

    @cached_property
    def quadratic(self) -> QuadraticRecords | None:
        """The affine gradients; None when clipped."""
        if self.clip is not None:
            return None
        return QuadraticRecords(statistics=self._statistics, record_maps=self._record_maps)

    def with_clipping(self, clip: float, norm: Norm) -> MeanEstimation:
        """The same problem with every record's gradient clipped before averaging."""
        return replace(self, clip=Clip(clip, norm))

    def with_persons(self, records_per_person: int, persons: Sequence[Any] | None = None) -> MeanEstimation:
        """The same problem, in which a person has at most this many records, all at one agent; see `Problem.with_persons`."""
        return replace(self, persons=declared_persons(records_per_person, persons, self.sizes))

    def with_gradient_clipping(self, clip: float, norm: Norm) -> ClippedGradients:
        """The same problem with every agent's whole gradient clipped, ridge and all; the agent is then what can be protected."""
        return clip_gradients(self, clip, norm)

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
        """The largest change of one agent's gradient, in `norm`, when the protected unit changes.

        Derived in the module `sensitivity`: agent 2C (replace) or C (add-remove); record 2C/n_k, or 2C/B for batches
        of B distinct records; person as many times as much as it has records there.

        Without clipping the box takes the place of 2C: at the same model ||x - x'||_2 <= 2 R sqrt(d) and ||x - x'||_1
        <= 2 R d.

        Args:
            unit: "record" or "person" (at the same model), or "agent" (between any two models).
            adjacency: "replace" or "add-remove".
            norm: of the noise's law: "l1" for Laplace, "l2" for Gaussian and L2Laplace.
            clip: a bound applied elsewhere; None is the problem's own.
            batch_size: distinct records per batch; None is the full gradient.
            agent: None is the worst agent.
            batch: whose turn it is in every round; None where batches are not fixed in advance.

        Raises:
            ConfigError: the request contradicts the problem.
            UnsupportedClaim: unit="agent" without clipping, or a person whose records an agent cannot do without.
        """
        used = effective_clip(clip, self.clip, norm)
        if used is None:
            diameter = box_diameter(self.radius, unit=unit, norm=norm, dimension=self.dimension)
        else:
            diameter = clipped_diameter(used, norm=norm, dimension=self.dimension)
        persons = self.persons if unit == "person" else None
        value = gradient_sensitivity(
            diameter=diameter, unit=unit, adjacency=adjacency, sizes=self.sizes, batch_size=batch_size, agent=agent, persons=persons, batch=batch
        )  # fmt: skip
        compares: Compares = "any two models" if unit == "agent" else "same model"
        return Sensitivity(value, unit=unit, adjacency=adjacency, norm=norm, compares=compares, persons=persons)

    def describe(self) -> dict[str, Any]:
        """What names this problem, JSON-able."""
        return describe(self, radius=self.radius)

    def _statistics(self) -> tuple[Floats, Floats]:
        identity = np.broadcast_to(np.eye(self.dimension), (self.num_agents, self.dimension, self.dimension))
        return identity, self.arrays["mean"]

    def _record_maps(self, agent: int) -> Floats:
        points = self.points[agent, : self.sizes[agent]]
        identity = np.broadcast_to(np.eye(self.dimension), (len(points), self.dimension, self.dimension))
        return np.concatenate([identity, -points[:, :, None]], axis=2)


def mean_estimation(points: Any, *, radius: float) -> MeanEstimation:
    """Mean estimation: (1/n) sum ||w - x||^2 / 2 at every agent, points in the box [-radius, radius]^d.

    Args:
        points: [K, n, d], or a list of K arrays [n_k, d].
        radius: R > 0, a public bound on every coordinate.

    Returns:
        The problem.

    Raises:
        ConfigError: malformed data, or a point outside the box (agent, record and coordinate are named).
    """
    bound = checked("radius", radius, "(0, inf)")
    padded, sizes = pad_features(points, name="points")
    outside = np.argwhere(np.abs(padded) > bound)
    if len(outside):
        k, i, j = (int(index) for index in outside[0])
        raise ConfigError(
            f"Points must lie in the box [-{bound:g}, {bound:g}]^{padded.shape[2]}; agent {k}, record {i}, coordinate "
            f"{j} does not. Give a larger public radius, or clip the points to the box."
        )
    return MeanEstimation(points=padded, sizes=sizes, radius=bound)
