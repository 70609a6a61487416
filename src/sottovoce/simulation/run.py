"""Run: the result of one simulated run, as plain arrays with a description of what was run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from sottovoce.errors import ConfigError
from sottovoce.numbers import is_whole
from sottovoce.problems import Architecture, Model, Preparation, Schema
from sottovoce.wording import brief, brief_value


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """Metrics and final models of one algorithm with one noise scheme.

    Attributes:
        metrics: name -> [repeats, rounds]; entry t is the state after round t + 1.
        models: [repeats, K, d] final model of every agent.
        models_by_round: [repeats, rounds, K, d] every agent's model after every round, where it was recorded; else None.
        description: what was run: problem, topology, algorithm, noise, rounds, seed; plain values.
        common: [repeats, d] what the agents have in common in the end, the centroid or a walking token; None in runs of version 0.1.0.
        structure: a pytree of the shape of a user's own parameters, where the problem has one and the run was not read from a folder.
    """

    metrics: dict[str, np.ndarray]
    models: np.ndarray
    description: dict[str, Any]
    models_by_round: np.ndarray | None = None
    common: np.ndarray | None = None
    structure: Any = None

    def __repr__(self) -> str:
        """What was run and what was measured, without the numbers."""
        algorithm, noise = self.description["algorithm"]["name"], self.description["noise"]["name"]
        _, agents, parameters = self.models.shape
        counts = {"round": self.rounds, "repeat": self.repeats, "agent": agents, "parameter": parameters}
        sizes = ", ".join(f"{count:,} {what}{'' if count == 1 else 's'}" for what, count in counts.items())
        return f"<Run of {algorithm} with noise {noise}: {sizes}\n     metrics: {', '.join(self.metrics)}>"

    @property
    def rounds(self) -> int:
        """How many rounds were run."""
        return int(self.description["rounds"])

    @property
    def repeats(self) -> int:
        """How many independent repetitions."""
        return int(self.models.shape[0])

    def model(self, agent: int | str | None = None) -> Model:
        """One model of the first repeat, ready to be used: what the agents have in common, or the model of one agent.

        Every repeat is one more run on the same records; only one of them could ever be used.

        Args:
            agent: its number or its name; None for the common model.

        Raises:
            ConfigError: no such agent, or a run of version 0.1.0, which does not say enough about its model.
        """
        if agent is None and self.common is None:
            raise ConfigError(
                "this run was made by version 0.1.0, which did not keep the common model. Name an agent, or run it again."
            )
        parameters = self.models[0, self._number(agent)] if agent is not None else self.common[0]  # type: ignore[index]
        return model_of(self.description, parameters, self.structure)

    def with_schema(self, schema: Schema, agents: Sequence[str] | None = None) -> Self:
        """The same run, which knows the columns that it learnt from: it then answers for tables, and its coefficients have names.

        Args:
            schema: of the records, such as `records.schema` of `sv.problems.read_records`.
            agents: their names, such as `records.names`.

        Raises:
            ConfigError: another number of features or agents than the run has.
        """
        taken, count = len(self.model(0).features), self.models.shape[1]
        if len(schema.features) != taken:
            raise ConfigError(
                f"the schema makes {len(schema.features)} inputs of a record, and the models of this run take {taken}. Give the schema of its "
                f"records."
            )
        if agents is not None and len(agents) != count:
            raise ConfigError(f"{len(agents)} names were given, and the run has {count} agents. Give one for each.")
        named = {} if agents is None else {"agents": [str(name) for name in agents]}
        described = {**self.description, **named, "features": list(schema.features), "schema": schema.as_dict()}
        return replace(self, description={key: value for key, value in described.items() if key != "preparation"})

    def predict(self, data: Any, agent: int | str | None = None) -> np.ndarray:
        """The answer of a model for every record: the most probable class, or a number in the target's units.

        Args:
            data: a DataFrame or a dict of columns where columns were declared, else an array [N, d].
            agent: whose model; None for the common one.
        """
        return self.model(agent).predict(data)

    def predict_proba(self, data: Any, agent: int | str | None = None) -> np.ndarray:
        """The probability of every class, [N, classes], in the order of `run.model().classes`.

        Args:
            data: as for `predict`.
            agent: whose model; None for the common one.
        """
        return self.model(agent).predict_proba(data)

    def coefficients(self, agent: int | str | None = None) -> Any:
        """The parameters of a model by name: a frame where pandas is there, else a dict; of a network its layers.

        Args:
            agent: whose model; None for the common one.
        """
        return self.model(agent).coefficients()

    def _number(self, agent: int | str) -> int:
        names, count = self.description.get("agents"), self.models.shape[1]
        if isinstance(agent, str) and names is not None and agent in names:
            return int(names.index(agent))
        if is_whole(agent, 0, count - 1):
            return int(agent)
        known = f"one of {brief(', '.join(names), 200)}, or " if names else ""
        raise ConfigError(f"agent = {brief_value(agent)}; give {known}a whole number from 0 to {count - 1}.")

    def to_pandas(self) -> Any:
        """A table with one row per repeat and round (needs pandas)."""
        import pandas

        rounds, repeats = np.arange(1, self.rounds + 1), np.arange(self.repeats)
        index = pandas.MultiIndex.from_product([repeats, rounds], names=["repeat", "round"])
        return pandas.DataFrame({name: values.ravel() for name, values in self.metrics.items()}, index=index)


def model_of(description: Mapping[str, Any], parameters: np.ndarray, structure: Any = None) -> Model:
    """A model with all that its run says about using it.

    Args:
        description: of the run.
        parameters: of the model, [d].
        structure: of a user's own parameters.

    Raises:
        ConfigError: the description does not say enough.
    """
    problem = description["problem"]
    architecture = None
    if problem["kind"] == "classification":
        if "shape" not in problem:
            raise ConfigError(
                "this run was made by version 0.1.0, which did not keep the shape of its records. Run it again."
            )
        architecture = Architecture(
            problem["model"], tuple(problem["hidden"]), problem["classes"], tuple(problem["shape"])
        )
    declared, prepared = description.get("schema"), description.get("preparation")
    return Model(
        kind=problem["kind"],
        parameters=parameters,
        schema=None if declared is None else Schema.from_dict(declared),
        preparation=Preparation() if prepared is None else Preparation.from_dict(prepared),
        architecture=architecture,
        structure=structure,
    )


def join(parts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Put the metrics of consecutive chunks, each [repeats, rounds in the chunk], one after the other."""
    return {name: np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]}
