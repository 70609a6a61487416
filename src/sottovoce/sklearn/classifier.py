"""A network with hidden layers, learned from records that several agents own."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import ClassifierMixin

from sottovoce.problems import NETWORKS, classification
from sottovoce.sklearn.decentralized import Decentralized, Floats
from sottovoce.sklearn.labels import labels_of

STEP_SIZE = 0.5  # of a gradient of norm one, what clipping leaves of most records at clip = 1


@dataclass(kw_only=True, eq=False, repr=False)
class DecentralizedClassifier(ClassifierMixin, Decentralized):
    """A multilayer perceptron learned by agents who exchange noisy models.

    epsilon, delta, clip, bounds, observer, unit, adjacency and rounds must be given. `step_size=None` is 0.5.

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
        step_size: None: 0.5.
        ridge: weight of the squared parameters.
        classes: all labels there may be; None takes those that occur, which are then said to be public.
        hidden: widths of the hidden layers.

    Attributes:
        classes_: [C] the labels, sorted.
        coefs_: weights of every layer [inputs, outputs], for columns scaled to [-1, 1] by the bounds.
        intercepts_: biases of every layer.
        n_features_in_: how many columns are features, the owners' not among them.
        feature_names_in_: their names, where X is a data frame.
        agents_: names of the agents, in the order in which observers number them.
        noise_std_: standard deviation of the noise in every coordinate of a message.
        guarantees_: what is proven, for each observer.
    """

    classes: list[Any] | tuple[Any, ...] | None = None
    hidden: int | tuple[int, ...] = 32

    classes_: NDArray[Any] = field(init=False)
    coefs_: list[Floats] = field(init=False)
    intercepts_: list[Floats] = field(init=False)

    def fit(self, X: Any, y: Any, groups: ArrayLike | None = None) -> Self:
        """Learn from the agents' records.

        Args:
            X: a data frame or an array, [N, d], with the column of owners if `owner` names one.
            y: [N] labels.
            groups: [N] the owner of every record, where `owner` names no column.
        """
        records = self._records(X, y, groups, numeric=False)
        labels = labels_of(records.targets, self.classes)
        problem = classification(
            records.by_agent(records.features), records.by_agent(labels.codes), model="mlp", hidden=self.hidden,
            classes=len(labels.classes), seed=records.demands.seed, ridge=self.ridge,
        )  # fmt: skip
        model = self._learned(problem, records, step=STEP_SIZE, losses=None, premises=labels.premises)
        self._layers = problem.parameters(model)
        self.coefs_ = [np.asarray(layer.weights) for layer in self._layers]
        self.intercepts_ = [np.asarray(layer.bias) for layer in self._layers]
        self.classes_ = labels.classes
        return self

    def predict_proba(self, X: Any) -> Floats:
        """[N, C] the probability of every class."""
        features = self._inputs(X)
        return np.asarray(softmax(NETWORKS["mlp"].logits(self._layers, features), axis=1))

    def predict(self, X: Any) -> NDArray[Any]:
        """[N] the most probable label."""
        chosen = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[chosen])
