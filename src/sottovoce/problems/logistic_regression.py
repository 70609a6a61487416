"""Logistic regression with a ridge.

    J_k(w) = (1/n_k) sum_i ln(1 + exp(-y_i x_i.w)) + (ridge/2) ||w||^2,   y_i in {-1, 1}
    grad of record i:  -y_i s(-y_i x_i.w) x_i + ridge w,   s(z) = 1 / (1 + exp(-z))

With clipping, the scalar -y_i s(-y_i x_i.w) is clipped so that the record's gradient has norm at most C; the ridge is
added after the average, unclipped. As s' <= 1/4, agent k's risk is (lmax(X_k' X_k)/(4 n_k) + ridge)-smooth; only the
ridge makes it strongly convex everywhere.
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
from sottovoce.problems.agent_data import (
    agent_weights,
    pad_features,
    pad_targets,
    record_weights,
    signed_labels,
)
from sottovoce.problems.batches import Batch
from sottovoce.problems.clipped_gradients import ClippedGradients, clip_gradients
from sottovoce.problems.constants import Constants, ConvexSmooth, gram_extremes
from sottovoce.problems.newton import minimise_logistic
from sottovoce.problems.persons import Persons, declared_persons
from sottovoce.problems.problem import Array, Data, Floats, describe
from sottovoce.problems.products import batch_average, batch_margins, batch_sum
from sottovoce.problems.sensitivity import Adjacency, Sensitivity, Unit, clipped_sensitivity
from sottovoce.reprs import short_repr


@dataclass(frozen=True, kw_only=True, eq=False)
class LogisticRegression:
    """Logistic regression over agents; make it with `logistic_regression`.

    Attributes:
        features: padded with zeros, [K, n, d].
        labels: -1 or 1, padded with zeros, [K, n].
        sizes: records of each agent, [K].
        ridge: weight of ||w||^2 / 2.
        clip: how each record's gradient is clipped, or None.
        persons: how many records one person may have; None: nothing is known of persons.
    """

    features: Floats
    labels: Floats
    sizes: NDArray[np.int64]
    ridge: float
    clip: Clip | None = None
    persons: Persons | None = None

    kind: ClassVar[str] = "logistic_regression"
    box: ClassVar[float | None] = None
    has_accuracy: ClassVar[bool] = True
    label_sets: ClassVar[tuple[tuple[float, ...], ...]] = ((-1.0, 1.0), (0.0, 1.0))
    quadratic: ClassVar[None] = None

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
        """The features [K, n, d], targets [K, n] (the labels), count [K]; clipped also derivative_bound [K, n]."""
        arrays = {"features": self.features, "targets": self.labels, "count": self.sizes.astype(np.float64)}
        if self.clip is not None:
            arrays["derivative_bound"] = largest_derivative(self.features, self.clip)
        return arrays

    def gradient(self, model: Array, data: Data) -> Array:
        """One agent's full gradient, [d]."""
        derivative = _derivative(data["features"] @ model, data["targets"])
        if self.clip is not None:
            derivative = clip_to(derivative, data["derivative_bound"])
        return (derivative @ data["features"]) / data["count"] + self.ridge * model

    def records(self, data: Data, indices: Array) -> tuple[Array, ...]:
        """Features [B, d] and labels [B] at these indices; clipped also the bounds [B] on the derivative."""
        names = ("features", "targets") if self.clip is None else ("features", "targets", "derivative_bound")
        return tuple(data[name][indices] for name in names)

    def batch_gradient(self, model: Array, records: tuple[Array, ...]) -> Array:
        """The average gradient of these records, plus the ridge, [d]."""
        features, labels, *bounds = records
        derivative = _derivative(batch_margins(features, model), labels)
        if bounds:
            derivative = clip_to(derivative, bounds[0])
        return batch_average(derivative, features) + self.ridge * model

    def weighted_gradient(self, model: Array, records: tuple[Array, ...], weights: Array) -> Array:
        """The (clipped) gradients of these records, summed with weights [B], plus the whole ridge, [d]."""
        features, labels, *bounds = records
        derivative = _derivative(batch_margins(features, model), labels)
        if bounds:
            derivative = clip_to(derivative, bounds[0])
        return batch_sum(weights * derivative, features) + self.ridge * model

    def local_risk(self, model: Array, data: Data) -> Array:
        """One agent's (unclipped) risk."""
        xp = model.__array_namespace__()
        labels = data["targets"]
        margins = labels * (data["features"] @ model)
        # logaddexp(0, -m) = ln(1 + exp(-m)) without overflow; labels^2 is 0 on padded records, whose loss would be ln
        # 2.
        losses = xp.logaddexp(xp.zeros_like(margins), -margins) * (labels * labels)
        return losses.sum(-1) / data["count"] + 0.5 * self.ridge * (model * model).sum()

    def risk(self, model: Array, arrays: Data) -> Array:
        """The uniform average of the agents' (unclipped) risks."""
        return self.local_risk(model, arrays).mean()

    def accuracy(self, model: Array, features: Array, labels: Array) -> Array:
        """The fraction of labels (-1/1 or 0/1) that the sign of features.model hits.

        A margin of exactly 0 counts as the negative class.
        """
        xp = model.__array_namespace__()
        return xp.mean(xp.astype((features @ model > 0) == (labels > 0), model.dtype))

    @cached_property
    def optimum(self) -> Floats:
        """The minimiser of the uniform average of the risks, [d].

        Raises:
            UnsupportedClaim: without a ridge, separable data have no minimiser.
        """
        return self._minimiser(None)

    def weighted_optimum(self, weights: Any) -> Floats:
        """The minimiser of sum_k weights_k J_k, [d]."""
        return self._minimiser(agent_weights(weights, self.num_agents))

    def _minimiser(self, weights: Floats | None) -> Floats:
        rows, row_weights = self._rows(weights)
        counted = row_weights > 0.0
        signed = rows[counted] * self.labels.ravel()[counted][:, None]
        return minimise_logistic(signed, row_weights[counted], ridge=self.ridge)

    @cached_property
    def constants(self) -> Constants:
        """lmax(X'X)/(4n) + ridge and ridge; of one record, ||x||^2/4 + ridge."""
        local = np.array(
            [gram_extremes(x[:n], np.full(n, 0.25 / n))[0] for x, n in zip(self.features, self.sizes, strict=True)]
        )
        rows, weights = self._rows(None)
        return Constants(
            local_smoothness=local + self.ridge,
            local_strong_convexity=np.full(self.num_agents, self.ridge),
            smoothness=gram_extremes(rows, 0.25 * weights)[0] + self.ridge,
            strong_convexity=self.ridge,
            record_smoothness=0.25 * float((rows * rows).sum(-1).max()) + self.ridge,
        )

    @cached_property
    def losses(self) -> ConvexSmooth | None:
        """Convex and smooth, clipped or not.

        Clipping a record clips its scalar derivative, which stays monotone and no steeper; the ridge is added after.
        beta is computed from the features: it is a promise about THESE data. It is public only if a bound on ||x|| is
        (e.g. unit_norm).
        """
        beta = self.constants.record_smoothness
        return ConvexSmooth(beta, self.ridge) if beta > 0.0 else None

    def with_clipping(self, clip: float, norm: Norm) -> LogisticRegression:
        """The same problem with every record's gradient clipped before averaging; the ridge is added after."""
        return replace(self, clip=Clip(clip, norm))

    def with_persons(self, records_per_person: int, persons: Sequence[Any] | None = None) -> LogisticRegression:
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


def _derivative(margins: Array, labels: Array) -> Array:
    """Return -y s(-y m), the derivative of ln(1 + exp(-y m)) with respect to m, through tanh, which cannot overflow."""
    xp = margins.__array_namespace__()
    return 0.5 * labels * (xp.tanh(0.5 * labels * margins) - 1.0)


def logistic_regression(
    features: Any, labels: Any, *, ridge: float = 0.0, both_classes: bool = True
) -> LogisticRegression:
    """Logistic regression: (1/n) sum ln(1 + exp(-y x.w)) + (ridge/2) ||w||^2 at every agent.

    Args:
        features: [K, n, d], or a list of K arrays [n_k, d].
        labels: -1/1 or 0/1, [K, n], or a list of K arrays [n_k].
        ridge: non-negative weight of ||w||^2 / 2.
        both_classes: whether records of one class only are refused, as a mistake. One party among others may hold a single class.

    Returns:
        The problem.

    Raises:
        ConfigError: malformed data (the agent and record are named), one class only, or a negative ridge.
    """
    padded, sizes = pad_features(features)
    signed = signed_labels(pad_targets(labels, sizes, name="labels"), sizes, both_classes=both_classes)
    return LogisticRegression(features=padded, labels=signed, sizes=sizes, ridge=checked("ridge", ridge, "[0, inf)"))
