"""Linear regression with a ridge, of records that several agents own: (1/n) sum (y - x.w)^2 + ridge ||w||^2 at every agent."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin

from sottovoce.errors import ConfigError
from sottovoce.numbers import is_number
from sottovoce.problems import ConvexSmooth, add_intercept, linear_regression, scale_features
from sottovoce.sklearn.decentralized import Decentralized, Floats
from sottovoce.sklearn.scaling import in_given_columns
from sottovoce.wording import brief_value


@dataclass(kw_only=True, eq=False, repr=False)
class DecentralizedRidge(RegressorMixin, Decentralized):
    """Ridge regression by agents who exchange noisy models; epsilon, delta, clip, bounds, observer, unit, adjacency, rounds must be given.

    `step_size=None` is 2 / beta with beta = 2 (d + 1) + 2 ridge and d columns: beta is the largest curvature that the loss of a record within
    the bounds can have.

    Args:
        epsilon: how much the observer may learn; the noise is calibrated to it.
        delta: the probability with which it may learn more.
        clip: the largest l2 norm of one record's gradient.
        bounds: public range of the columns: (low, high) for all, a list with one for each, or a dict by column name.
        observer: who looks: "eavesdropper", "server", "final_model", "curious_agent:3"; of a list the first is calibrated for.
        unit: what is protected, "record", "person" or "agent".
        adjacency: how two worlds differ, "replace" or "add-remove".
        rounds: how often the agents exchange what they learned.
        random_state: a whole number: the fit is a simulation, whose model must not be released. None is refused.
        owner: the column of X that says who owns a record: its name, or its position in an array.
        agents: in place of owners: deal the records out to so many agents, at random.
        person: for unit="person": the column of X that says about whom a record is.
        records_per_person: for unit="person": the most records that one person has, which is checked.
        topology: "federation" (through a relay without data), "complete", "ring", "path", "star", or one of `sv.topologies`.
        algorithm: "atc", "cta", "consensus" or "fedavg".
        noise: "independent" (every agent adds its own) or "central" (a trusted relay adds it to the average).
        step_size: None: the rule above.
        ridge: weight of the squared model, intercept included.
        target_bounds: public (low, high) of y, which is clipped to it and learned on [-1, 1]; None learns y as it is. It decides no guarantee,
            but gradients of a wide y are mostly clipped away.

    Attributes:
        coef_: [d] of the columns as they were given; exact for values within the bounds.
        intercept_: a number.
        n_features_in_: how many columns are features, the owners' not among them.
        feature_names_in_: their names, where X is a data frame.
        agents_: names of the agents, in the order in which observers number them.
        noise_std_: standard deviation of the noise in every coordinate of a message.
        guarantees_: what is proven, for each observer.
    """

    target_bounds: tuple[float, float] | None = None

    coef_: Floats = field(init=False)
    intercept_: float = field(init=False)

    def fit(self, X: Any, y: Any, groups: ArrayLike | None = None) -> Self:
        """Learn from the agents' records.

        Args:
            X: a data frame or an array, [N, d], with the column of owners if `owner` names one.
            y: [N] numbers.
            groups: [N] the owner of every record, where `owner` names no column.
        """
        records = self._records(X, y, groups, numeric=True)
        middle, half = _middle_and_half(self.target_bounds)
        targets = np.asarray(records.targets, dtype=np.float64)
        if self.target_bounds is not None:
            targets = scale_features(targets[:, None], self.target_bounds)[:, 0]
        features = add_intercept(records.features)
        problem = linear_regression(records.by_agent(features), records.by_agent(targets), ridge=self.ridge)
        beta = 2.0 * features.shape[1] + 2.0 * self.ridge
        model = self._learned(
            problem, records, step=2.0 / beta, losses=ConvexSmooth(beta, 2.0 * self.ridge), premises=()
        )
        self._weights, self._intercept = half * model[:-1], middle + half * float(model[-1])
        coef, intercept = in_given_columns(self._weights[None], np.array([self._intercept]), self._limits)
        self.coef_, self.intercept_ = coef[0], float(intercept[0])
        return self

    def predict(self, X: Any) -> Floats:
        """[N] the expected target, in its own unit."""
        return np.asarray(self._inputs(X) @ self._weights + self._intercept)


def _middle_and_half(bounds: Any) -> tuple[float, float]:
    """Of the range of the target; 0 and 1 where it is learned as it is."""
    if bounds is None:
        return 0.0, 1.0
    given = list(bounds) if np.iterable(bounds) else []
    if len(given) != 2 or not all(is_number(end) for end in given) or not given[0] < given[1]:
        raise ConfigError(
            f"target_bounds = {brief_value(bounds)}; give (low, high) with low < high, from knowledge of the field and not from the data."
        )
    return (given[0] + given[1]) / 2.0, (given[1] - given[0]) / 2.0
