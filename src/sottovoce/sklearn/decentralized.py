"""What all estimators share: their parameters, and how a table becomes the records of agents."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from sottovoce.numbers import checked
from sottovoce.problems import ConvexSmooth, Problem, person_keys, scale_features
from sottovoce.sklearn.demands import Demands, demands_of
from sottovoce.sklearn.owners import features_of, numbered, owned_records, taken_apart
from sottovoce.sklearn.scaling import ranges
from sottovoce.sklearn.statement import INVENTED, FitGuarantee
from sottovoce.sklearn.training import Choices, Known, train
from sottovoce.topologies import Topology

Floats = NDArray[np.float64]
Bounds = tuple[float, float] | list[tuple[float, float]] | dict[str, tuple[float, float]]


class Records(NamedTuple):
    """A table as a fit uses it."""

    features: Floats  # [N, d] scaled to [-1, 1]
    targets: NDArray[Any]  # [N] as they were given
    rows: tuple[NDArray[np.intp], ...]  # of each agent
    persons: NDArray[np.intp] | None  # [N] about whom, as numbers; None where the person is not the unit
    demands: Demands

    def by_agent(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """Rows of an array, agent by agent."""
        return [values[rows] for rows in self.rows]


@dataclass(kw_only=True, eq=False, repr=False)
class Decentralized(BaseEstimator):
    """Parameters of every estimator, and its fitted attributes.

    Args:
        epsilon: how much the observer may learn; the noise is calibrated to it.
        delta: the probability with which it may learn more.
        clip: the largest l2 norm of one record's gradient.
        bounds: the public range of the columns: (low, high) for all, a list with one for each, or a dict by column name. Values outside are
            clipped, then columns are scaled to [-1, 1].
        observer: who looks, as in files: "eavesdropper", "server", "final_model", "curious_agent:3". Of a list the first is calibrated for.
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
        step_size: None: the estimator's own rule, which looks at no record.
        ridge: weight of the squared model, intercept included.
    """

    epsilon: float | None = None
    delta: float | None = None
    clip: float | None = None
    bounds: Bounds | None = None
    observer: str | list[str] | None = None
    unit: str | None = None
    adjacency: str | None = None
    rounds: int | None = None
    random_state: int | None = None
    owner: str | int | None = None
    agents: int | None = None
    person: str | int | None = None
    records_per_person: int | None = None
    topology: str | Topology = "federation"
    algorithm: str = "atc"
    noise: str = "independent"
    step_size: float | None = None
    ridge: float = 0.001

    n_features_in_: int = field(init=False)
    feature_names_in_: NDArray[Any] = field(init=False)
    agents_: NDArray[Any] = field(init=False)
    noise_std_: float = field(init=False)
    guarantees_: list[FitGuarantee] = field(init=False)

    def _records(self, X: Any, y: Any, groups: ArrayLike | None, *, numeric: bool) -> Records:
        """Check everything that is asked and given, and take the table apart."""
        demands = demands_of(self.get_params(deep=False), type(self).__name__)
        checked("ridge", self.ridge, "[0, inf)")
        table = taken_apart(X, owner=self.owner, person=self.person)
        rows, targets = validate_data(self, table.features, y, dtype=np.float64, y_numeric=numeric)
        limits = ranges(self.bounds, rows.shape[1], getattr(self, "feature_names_in_", None))
        owned = owned_records(table.owners, groups, self.agents, count=len(rows), seed=demands.seed)
        self._limits, self.agents_ = limits, owned.names
        persons = None
        if demands.unit == "person" and table.persons is not None:
            names, codes = numbered(table.persons, "person=", len(rows))
            persons = np.unique(person_keys(names.tolist()), return_inverse=True)[1][codes]
        return Records(scale_features(rows, limits), targets, owned.rows, persons, demands)

    def _inputs(self, X: Any) -> Floats:
        """[N, d] the columns for a prediction, scaled; a column of owners is left out if it is there."""
        check_is_fitted(self)
        besides = [column for column in (self.owner, self.person) if column is not None]
        features = features_of(X, besides, self.n_features_in_)
        rows = validate_data(self, features, dtype=np.float64, reset=False)
        return scale_features(rows, self._limits)

    def _learned(
        self, problem: Problem, records: Records, *, step: float, losses: ConvexSmooth | None, premises: tuple[str, ...]
    ) -> Floats:
        """[d] the model that the agents learn; `step` where none was given."""
        if records.persons is not None and self.records_per_person is not None:
            problem = problem.with_persons(self.records_per_person, records.by_agent(records.persons))
        if self.agents is not None:
            premises = (*premises, INVENTED.format(agents=self.agents))
        size = step if self.step_size is None else checked("step_size", self.step_size, "(0, inf)")
        choices = Choices(self.topology, self.algorithm, self.noise, size)
        trained = train(problem, records.demands, choices, Known(losses, premises))
        self.guarantees_, self.noise_std_ = trained.guarantees, trained.noise.std
        return trained.model
