"""Linear regression with squared error and a ridge.

    J_k(w) = (1/n_k) sum_i (target_i - x_i.w)^2 + ridge ||w||^2
    grad of record i:  -2 x_i (target_i - x_i.w) + 2 ridge w

There is no factor 1/2, as in Rizk et al. 2023, eq. 56. With clipping, the scalar -2 (target_i - x_i.w) is clipped so
that the record's gradient has norm at most C; the ridge is added after the average, unclipped. Unclipped, the full
gradient is hessian_k w - linear_k with hessian_k = (2/n_k) X_k' X_k + 2 ridge I and linear_k = (2/n_k) X_k' targets_k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.clipping import Clip, Norm, clip_to, largest_derivative
from sottovoce.numbers import checked
from sottovoce.problems.agent_data import agent_weights, pad_features, pad_targets, record_weights
from sottovoce.problems.batches import Batch
from sottovoce.problems.clipped_gradients import ClippedGradients, clip_gradients
from sottovoce.problems.constants import Constants, ConvexSmooth, QuadraticRecords, gram_extremes
from sottovoce.problems.persons import Persons, declared_persons
from sottovoce.problems.problem import Array, Data, Floats, describe
from sottovoce.problems.products import batch_average, batch_margins, batch_sum
from sottovoce.problems.sensitivity import Adjacency, Sensitivity, Unit, clipped_sensitivity
from sottovoce.reprs import short_repr

# Above this a Hessian per agent costs more memory than it saves time.
_LARGEST_HESSIAN = 512


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearRegression:
    """Linear regression over agents; make it with `linear_regression`.

    Attributes:
        features: padded with zeros, [K, n, d].
        targets: padded with zeros, [K, n].
        sizes: records of each agent, [K].
        ridge: weight of ||w||^2.
        clip: how each record's gradient is clipped, or None.
        persons: how many records one person may have; None: nothing is known of persons.
    """

    features: Floats
    targets: Floats
    sizes: NDArray[np.int64]
    ridge: float
    clip: Clip | None = None
    persons: Persons | None = None

    kind: ClassVar[str] = "linear_regression"
    box: ClassVar[float | None] = None
    has_accuracy: ClassVar[bool] = False
    label_sets: ClassVar[tuple[tuple[float, ...], ...]] = ()
    accuracy: ClassVar[None] = None

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def num_agents(self) -> int:
        """K."""
        return int(self.features.shape[0])

    @property
    def dimension(self) -> int:
        """The number d of parameters."""
        return int(self.features.shape[2])

    @property
    def initial_model(self) -> Floats:
        """Where every agent starts, [d]: zero."""
        return np.zeros(self.dimension)

    @cached_property
    def arrays(self) -> dict[str, Floats]:
        """The features [K, n, d], targets [K, n] and count [K].

        Unclipped, where it saves work, also hessian [K, d, d] and linear [K, d]; clipped also derivative_bound [K, n].
        """
        arrays = {"features": self.features, "targets": self.targets, "count": self.sizes.astype(np.float64)}
        if self.clip is not None:
            arrays["derivative_bound"] = largest_derivative(self.features, self.clip)
        elif self.dimension <= min(_LARGEST_HESSIAN, self.features.shape[1]):
            arrays["hessian"], arrays["linear"] = self._statistics()
        return arrays

    def gradient(self, model: Array, data: Data) -> Array:
        """One agent's full gradient, [d]."""
        if "hessian" in data:
            return data["hessian"] @ model - data["linear"]
        derivative = 2.0 * (data["features"] @ model - data["targets"])
        if self.clip is not None:
            derivative = clip_to(derivative, data["derivative_bound"])
        return (derivative @ data["features"]) / data["count"] + 2.0 * self.ridge * model

    def records(self, data: Data, indices: Array) -> tuple[Array, ...]:
        """Features [B, d] and targets [B] at these indices; clipped also the bounds [B] on the derivative."""
        names = ("features", "targets") if self.clip is None else ("features", "targets", "derivative_bound")
        return tuple(data[name][indices] for name in names)

    def batch_gradient(self, model: Array, records: tuple[Array, ...]) -> Array:
        """The average gradient of these records, plus the ridge, [d]."""
        features, targets, *bounds = records
        derivative = 2.0 * (batch_margins(features, model) - targets)
        if bounds:
            derivative = clip_to(derivative, bounds[0])
        return batch_average(derivative, features) + 2.0 * self.ridge * model

    def weighted_gradient(self, model: Array, records: tuple[Array, ...], weights: Array) -> Array:
        """The (clipped) gradients of these records, summed with weights [B], plus the whole ridge, [d]."""
        features, targets, *bounds = records
        derivative = 2.0 * (batch_margins(features, model) - targets)
        if bounds:
            derivative = clip_to(derivative, bounds[0])
        return batch_sum(weights * derivative, features) + 2.0 * self.ridge * model

    def local_risk(self, model: Array, data: Data) -> Array:
        """One agent's (unclipped) risk."""
        # A padded record has zero features and target, hence no error.
        errors = data["targets"] - data["features"] @ model
        return (errors * errors).sum(-1) / data["count"] + self.ridge * (model * model).sum()

    def risk(self, model: Array, arrays: Data) -> Array:
        """The uniform average of the agents' (unclipped) risks.

        Computed as J(w*) + (w - w*)' H (w - w*) / 2 from the problem's own data, which float32 resolves near w*. Only
        for dimensions above 512 is `arrays` used.
        """
        if self.dimension > _LARGEST_HESSIAN:
            return self.local_risk(model, arrays).mean()
        xp = model.__array_namespace__()
        optimum, hessian, smallest = self._expansion
        error = model - xp.asarray(optimum, dtype=model.dtype)
        return smallest + 0.5 * (error @ (xp.asarray(hessian, dtype=model.dtype) @ error))

    @cached_property
    def _expansion(self) -> tuple[Floats, Floats, float]:
        hessian, _ = self._weighted_statistics(None)
        data = {"features": self.features, "targets": self.targets, "count": self.sizes}
        return self.optimum, hessian, float(self.local_risk(self.optimum, data).mean())

    @cached_property
    def optimum(self) -> Floats:
        """The minimiser of the uniform average of the risks, [d]; the shortest one when it is not unique."""
        return self._minimiser(None)

    def weighted_optimum(self, weights: Any) -> Floats:
        """The minimiser of sum_k weights_k J_k, [d]; the shortest one when it is not unique."""
        return self._minimiser(agent_weights(weights, self.num_agents))

    def _minimiser(self, weights: Floats | None) -> Floats:
        hessian, linear = self._weighted_statistics(weights)
        model = np.linalg.lstsq(hessian, linear, rcond=None)[0]
        # One step of refinement removes what the condition number cost.
        refined: Floats = model + np.linalg.lstsq(hessian, linear - hessian @ model, rcond=None)[0]
        return refined

    @cached_property
    def constants(self) -> Constants:
        """Eigenvalues of the Hessians; of one record, 2 ||x||^2 + 2 ridge."""
        local = np.array(
            [gram_extremes(x[:n], np.full(n, 2.0 / n)) for x, n in zip(self.features, self.sizes, strict=True)]
        )
        rows, weights = self._rows(None)
        largest, smallest = gram_extremes(rows, 2.0 * weights)
        curvature = 2.0 * self.ridge
        return Constants(
            local_smoothness=local[:, 0] + curvature,
            local_strong_convexity=local[:, 1] + curvature,
            smoothness=largest + curvature,
            strong_convexity=smallest + curvature,
            record_smoothness=2.0 * float((rows * rows).sum(-1).max()) + curvature,
        )

    @cached_property
    def losses(self) -> ConvexSmooth | None:
        """Convex and smooth, clipped or not.

        Clipping a record clips its scalar derivative, which stays monotone and no steeper; the ridge is added after.
        beta is computed from the features: it is a promise about THESE data. It is public only if a bound on ||x|| is
        (e.g. unit_norm).
        """
        beta = self.constants.record_smoothness
        return ConvexSmooth(beta, 2.0 * self.ridge) if beta > 0.0 else None

    @cached_property
    def quadratic(self) -> QuadraticRecords | None:
        """The affine gradients; None when clipped."""
        if self.clip is not None:
            return None
        return QuadraticRecords(statistics=self._statistics, record_maps=self._record_maps)

    def with_clipping(self, clip: float, norm: Norm) -> LinearRegression:
        """The same problem with every record's gradient clipped before averaging; the ridge is added after."""
        return replace(self, clip=Clip(clip, norm))

    def with_persons(self, records_per_person: int, persons: Sequence[Any] | None = None) -> LinearRegression:
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
        """The largest change of one agent's gradient; see `sottovoce.problems.sensitivity.clipped_sensitivity`.

        Args:
            unit: "agent", "person" or "record": what is protected.
            adjacency: "replace" or "add-remove".
            norm: "l1" or "l2", that of the noise law.
            clip: the bound on a record's gradient; None for that of the problem.
            batch_size: records per agent and round; None for all of them.
            agent: whose; None for the largest of all agents.
            batch: whose turn it is in every round; None where batches are not fixed in advance.
        """
        return clipped_sensitivity(
            self, unit=unit, adjacency=adjacency, norm=norm, clip=clip, batch_size=batch_size, agent=agent, batch=batch
        )

    def describe(self) -> dict[str, Any]:
        """What names this problem, JSON-able."""
        return describe(self, ridge=self.ridge)

    def _rows(self, weights: Floats | None) -> tuple[Floats, Floats]:
        """All agents' rows, padding included with weight 0, and the weight of each in the (weighted) average risk."""
        rows = self.features.reshape(-1, self.dimension)
        return rows, record_weights(self.sizes, self.features.shape[1], weights).ravel()

    def _weighted_statistics(self, weights: Floats | None) -> tuple[Floats, Floats]:
        rows, row_weights = self._rows(weights)
        weighted = 2.0 * rows * row_weights[:, None]
        hessian: Floats = weighted.T @ rows + 2.0 * self.ridge * np.eye(self.dimension)
        linear: Floats = weighted.T @ self.targets.ravel()
        return hessian, linear

    def _statistics(self) -> tuple[Floats, Floats]:
        transposed = self.features.transpose(0, 2, 1) * (2.0 / self.sizes)[:, None, None]
        hessian = transposed @ self.features + 2.0 * self.ridge * np.eye(self.dimension)
        return hessian, (transposed @ self.targets[:, :, None])[:, :, 0]

    def _record_maps(self, agent: int) -> Floats:
        size = self.sizes[agent]
        x, y = self.features[agent, :size], self.targets[agent, :size]
        hessians = 2.0 * x[:, :, None] * x[:, None, :] + 2.0 * self.ridge * np.eye(self.dimension)
        return np.concatenate([hessians, -2.0 * (x * y[:, None])[:, :, None]], axis=2)


def linear_regression(features: Any, targets: Any, *, ridge: float = 0.0) -> LinearRegression:
    """Linear regression: (1/n) sum (target - features.w)^2 + ridge ||w||^2 at every agent.

    Args:
        features: [K, n, d], or a list of K arrays [n_k, d].
        targets: [K, n], or a list of K arrays [n_k].
        ridge: non-negative weight of ||w||^2.

    Returns:
        The problem.

    Raises:
        ConfigError: malformed data (the agent and record are named) or a negative ridge.
    """
    padded, sizes = pad_features(features)
    return LinearRegression(
        features=padded, targets=pad_targets(targets, sizes), sizes=sizes, ridge=checked("ridge", ridge, "[0, inf)")
    )
