"""Whether a file will run, and everything that is in the way: lines to complete, mistakes of the file, and problems of its data.

Everything is looked at, whatever else is wrong, so that one answer is enough. Nothing of it repeats a cell of the data.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sottovoce.accounting import Guarantee
from sottovoce.errors import ConfigError, SottovoceError
from sottovoce.experiments.build import build
from sottovoce.experiments.config.config import Config
from sottovoce.experiments.config.design_file import with_numbers
from sottovoce.experiments.config.overrides import silent
from sottovoce.experiments.config.problem import ProblemSection, ProblemTable
from sottovoce.experiments.config.toml_file import read_toml, validated
from sottovoce.experiments.config.unfilled import FILL_IN, Unfilled, without_unfilled
from sottovoce.experiments.experiment import Experiment
from sottovoce.experiments.privacy import guarantees, statement, within_budget
from sottovoce.problems import BadTable, Column, Complaint, Schema, read_records


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Checked:
    """What was found in a file.

    Attributes:
        unfilled: lines that are still to be completed.
        wrong: mistakes of the file, and parts that do not go together, in sentences.
        complaints: what does not fit in the data.
        experiment: what will run; None where something is in the way.
        stated: what every observer learns of it; None without observers, or where something is in the way.
    """

    unfilled: Sequence[Unfilled]
    wrong: Sequence[str]
    complaints: Sequence[Complaint]
    experiment: Experiment | None = None
    stated: Mapping[str, Any] | None = None

    @property
    def runs(self) -> bool:
        """Whether `sottovoce run` would."""
        return self.experiment is not None

    def describe(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "runs": self.runs,
            "to_complete": [
                {"key": ".".join(each.path), "place": each.place, "needed": each.hint} for each in self.unfilled
            ],
            "mistakes": list(self.wrong),
            "data": [each.describe() for each in self.complaints],
            "will_run": None if self.experiment is None else _will_run(self.experiment),
            **(self.stated or {}),
        }


def check_file(path: Path, overrides: Sequence[str] = (), *, say: Callable[[str], None] = silent) -> Checked:
    """Look at a file and, where they are there, at its data.

    Args:
        path: of the file.
        overrides: `section.key=value`, used instead of what the file says.
        say: told what of the file was left out because another kind was chosen.

    Raises:
        ConfigError: no file, or one that is not TOML.
    """
    data, unfilled = without_unfilled(with_numbers(read_toml(path, overrides, say=say)))
    config, wrong = validated(data)
    problem = config.problem if config is not None else _problem_alone(data)
    complaints, unreadable = ([], []) if problem is None else _data_problems(problem, unfilled)
    wrong = [*wrong, *unreadable]
    if config is None or unfilled or wrong or complaints:
        return Checked(unfilled=unfilled, wrong=wrong, complaints=complaints)
    return _built(config)


def _will_run(experiment: Experiment) -> dict[str, Any]:
    """What will run. How many records somebody has is an exact fact about the data, so that it stands apart."""
    agents = range(experiment.topology.num_agents) if experiment.agents is None else experiment.agents
    sizes = [int(size) for size in experiment.problem.sizes]
    return {
        "agents": list(agents),
        "features": None if experiment.schema is None else list(experiment.schema.features),
        "classes": None
        if experiment.schema is None or experiment.schema.classes is None
        else list(experiment.schema.classes),
        "rounds": experiment.rounds,
        "repeats": experiment.repeats,
        "for_the_owner_only": {
            "records": {str(name): size for name, size in zip(agents, sizes, strict=True)},
            "test_records": 0 if experiment.test is None else len(experiment.test[1]),
        },
    }


def _built(config: Config) -> Checked:
    """The parts together: they may refuse each other, and their budget."""
    try:
        experiment = within_budget(build(config))
        observed = experiment.privacy is not None and experiment.privacy.observers
        found: list[Guarantee] = guarantees(experiment) if observed else []
        stated = statement(experiment, found) if observed else None
    except SottovoceError as error:
        return Checked(unfilled=(), wrong=[str(error)], complaints=())
    return Checked(unfilled=(), wrong=(), complaints=(), experiment=experiment, stated=stated)


def _problem_alone(data: Mapping[str, Any]) -> ProblemSection | None:
    """The [problem] table, where other tables are wrong but not this one."""
    checked: TypeAdapter[ProblemSection] = TypeAdapter(ProblemTable)
    try:
        return checked.validate_python(data.get("problem"))
    except ValidationError:
        return None


def _data_problems(problem: ProblemSection, unfilled: Sequence[Unfilled]) -> tuple[list[Complaint], list[str]]:
    """What does not fit in own files, and what keeps them from being read.

    Where something is still to be declared, whatever is found there counts as declared, so that only what stays true is said.
    """
    declared = problem.declared_schema()
    if declared is None:
        return [], []
    places = [each.path[1:] for each in unfilled if each.path[0] == "problem"]
    schema = _lenient(declared, places)
    undeclared = {place[1] for place in places if place[0] == "categories"}
    try:
        found = [each for each in _complaints(problem, schema) if each.column not in undeclared]
        if undeclared:
            everything = _complaints(problem, replace(schema, unknown="other"))
            found += [each for each in everything if each.column in undeclared]
    except ConfigError as error:
        return [], [str(error)]
    return found, []


def _lenient(schema: Schema, places: Sequence[tuple[str, ...]]) -> Schema:
    """A schema that takes any label, any number of records of a person, and empty cells where these are still to be declared."""
    if ("labels",) in places:
        schema = replace(schema, labels=None, positive=FILL_IN)
    if ("records_per_person",) in places:
        schema = replace(schema, records_per_person=2**31)
    waiting = {place[1] for place in places if place[0] == "missing"}
    fills = {each.name: _fill_in(each) for each in schema.columns if each.name in waiting}
    return replace(schema, missing={**schema.missing, **fills})


def _fill_in(column: Column) -> str | bool | int | float:
    return {"number": 0.0, "boolean": False}.get(column.kind, next(iter(column.categories), 0.0))


def _complaints(problem: ProblemSection, schema: Schema) -> Sequence[Complaint]:
    data = problem.data if isinstance(problem.data, str) else list(problem.data)
    try:
        read_records(data, schema, test=problem.test)
    except BadTable as error:
        return error.complaints
    return ()
