"""Logistic regression of records that several agents own.

Two classes: ln(1 + exp(-y x.w)) with y = 1 for `classes_[1]`. More: softmax cross-entropy of one linear score for each class.
"""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin

from sottovoce.problems import ConvexSmooth, add_intercept, classification, logistic_regression
from sottovoce.sklearn.decentralized import Decentralized, Floats, Records
from sottovoce.sklearn.labels import Labels, labels_of
from sottovoce.sklearn.scaling import in_given_columns


@dataclass(kw_only=True, eq=False, repr=False)
class DecentralizedLogisticRegression(ClassifierMixin, Decentralized):
    """Logistic regression by agents who exchange noisy models; epsilon, delta, clip, bounds, observer, unit, adjacency, rounds must be given.

    `step_size=None` is 2 / beta with beta = (d + 1) / 4 + ridge for two classes and (d + 1) / 2 + ridge for more, with d columns: beta is the
    largest curvature that the loss of a record within the bounds can have.

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
        classes: all labels there may be; None takes those that occur, which are then said to be public.

    Attributes:
        classes_: [C] the labels, sorted.
        coef_: [1, d] for two classes, else [C, d]: of the columns as they were given; exact for values within the bounds.
        intercept_: [1] or [C].
        n_features_in_: how many columns are features, the owners' not among them.
        feature_names_in_: their names, where X is a data frame.
        agents_: names of the agents, in the order in which observers number them.
        noise_std_: standard deviation of the noise in every coordinate of a message.
        guarantees_: what is proven, for each observer.
    """

    classes: list[Any] | tuple[Any, ...] | None = None

    classes_: NDArray[Any] = field(init=False)
    coef_: Floats = field(init=False)
    intercept_: Floats = field(init=False)

    def fit(self, X: Any, y: Any, groups: ArrayLike | None = None) -> Self:
        """Learn from the agents' records.

        Args:
            X: a data frame or an array, [N, d], with the column of owners if `owner` names one.
            y: [N] labels.
            groups: [N] the owner of every record, where `owner` names no column.
        """
        records = self._records(X, y, groups, numeric=False)
        labels = labels_of(records.targets, self.classes)
        learn = self._two_classes if len(labels.classes) == 2 else self._several_classes
        self._weights, self._intercepts = learn(records, labels)
        self.classes_ = labels.classes
        self.coef_, self.intercept_ = in_given_columns(self._weights, self._intercepts, self._limits)
        return self

    def decision_function(self, X: Any) -> Floats:
        """[N] scores of `classes_[1]`, or [N, C] of all classes where there are more than two."""
        scores: Floats = self._inputs(X) @ self._weights.T + self._intercepts
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: Any) -> Floats:
        """[N, C] the probability of every class."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.stack([expit(-scores), expit(scores)], axis=1)
        return np.asarray(softmax(scores, axis=1))

    def predict(self, X: Any) -> NDArray[Any]:
        """[N] the most probable label."""
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[chosen])

    def _two_classes(self, records: Records, labels: Labels) -> tuple[Floats, Floats]:
        features = add_intercept(records.features)
        beta = features.shape[1] / 4.0 + self.ridge
        problem = logistic_regression(
            records.by_agent(features), records.by_agent(2.0 * labels.codes - 1.0), ridge=self.ridge
        )
        model = self._learned(
            problem, records, step=2.0 / beta, losses=ConvexSmooth(beta, self.ridge), premises=labels.premises
        )
        return model[None, :-1], model[-1:]

    def _several_classes(self, records: Records, labels: Labels) -> tuple[Floats, Floats]:
        problem = classification(
            records.by_agent(records.features), records.by_agent(labels.codes), model="linear", classes=len(labels.classes),
            seed=records.demands.seed, ridge=self.ridge,
        )  # fmt: skip
        # The Hessian of the cross-entropy in the scores is at most 1/2.
        beta = (records.features.shape[1] + 1) / 2.0 + self.ridge
        # No promise about the losses: a gradient clipped as a vector need not be that of a convex function.
        model = self._learned(problem, records, step=2.0 / beta, losses=None, premises=labels.premises)
        (layer,) = problem.parameters(model)
        return np.asarray(layer.weights).T, np.asarray(layer.bias)
