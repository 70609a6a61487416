"""Studies: one configuration varied along two directions, run, and reduced to a table of numbers.

    [[study]]
    name = "regression"
    series = { key = "noise", values = { "noise-free" = { kind = "none" }, ... } }      # the lines of a figure
    across = { key = "algorithm.kind", values = ["consensus", "cta", "atc"] }            # its panels or its horizontal axis
    measures = ["msd_centroid", "msd_average"]
    tail = 500                                                                           # average over the last 500 rounds
    theory = true                                                                        # exact values beside the measured ones

Every cell is an ordinary configuration: the base with the two keys replaced, `set` first, then the series, then `across`. With
`key = "config"` a value is a table of sections, which changes several of them at once:

    series = { key = "config", values = { "central" = { noise = { kind = "central", ... }, privacy = { observers = [...] } }, ... } }

`references` are further lines that do not follow `across`: they are run once, and their value stands at every place.

    references = { "noise-free" = { noise = { kind = "none" } } }

Cells that differ only in algorithm and noise run as one program. A measure is a metric of the run, `test_error` (one minus the accuracy), or
`error_of_agent_0` (squared distance of one agent's final model to the optimum); `relative` divides by the squared norm of the optimum.
"""

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from sottovoce.errors import ConfigError
from sottovoce.experiments.build import Experiment, build
from sottovoce.experiments.config.config import Section
from sottovoce.experiments.config.toml_file import parse
from sottovoce.experiments.config.values import ShownLabel, brief_value, checked_label
from sottovoce.experiments.privacy import refuse_unkept_promises
from sottovoce.simulation import Run, simulate
from sottovoce.theory import expected_msd

AGENT_ERROR = "error_of_agent_0"
TEST_ERROR = "test_error"
CONFIG = "config"  # the key of a direction whose values change several sections

Label = tuple[str, str]  # (series, across)
Cells = dict[str, dict[str, dict[str, "Cell"]]]  # [measure][series][across]
_Built = dict[Label, tuple[dict[str, Any], Experiment]]  # the configuration of a cell and what was made from it


class Direction(Section):
    """A key of the configuration and the values it takes; a table gives each value a label."""

    key: str
    values: dict[ShownLabel, Any] | list[Any]
    label: ShownLabel | None = None  # what to call the key in tables and figures

    def items(self) -> dict[str, Any]:
        """Label -> value."""
        return dict(self.values) if isinstance(self.values, dict) else {f"{value}": value for value in self.values}

    def sets(self, key: str) -> bool:
        """Whether every value of this direction gives "section.key", or a whole section, a value of its own."""
        return all(sets_key(self.key, value, key) for value in self.items().values())

    @model_validator(mode="after")
    def _values_fit_the_key(self) -> Self:
        if not self.items():
            raise ValueError(f"values of {self.key!r} are empty; give at least one")
        for label in self.items():
            checked_label(label)
        if self.key == CONFIG:
            _require_tables(self.items())
        else:
            for value in self.items().values():
                _require_section(self.key, value)
        return self


class StudySection(Section):
    """One study of a reproduction file."""

    name: ShownLabel
    series: Direction
    across: Direction
    references: dict[ShownLabel, dict[str, Any]] = Field(
        default_factory=dict
    )  # label -> sections; lines that ignore `across`
    measures: list[str] = Field(min_length=1)
    set: dict[str, Any] = Field(default_factory=dict)  # further keys replaced in every cell
    tail: int = Field(default=1, ge=1)
    theory: bool = False
    relative: bool = False
    figure: Literal["curves", "scaling"] = "curves"
    slopes: list[float] = Field(default_factory=list)  # reference slopes drawn in a scaling figure

    @model_validator(mode="after")
    def _figure_fits(self) -> Self:
        if self.figure == "curves" and AGENT_ERROR in self.measures:
            raise ValueError(f"{AGENT_ERROR} is known after the last round only; use figure = 'scaling'")
        if self.figure == "scaling":
            for place in self.across.items():
                try:
                    float(place)
                except ValueError:
                    raise ValueError(
                        f"across has {place!r}, which is no place on an axis; use numbers, or figure = 'curves'"
                    ) from None
        return self

    @model_validator(mode="after")
    def _references_fit(self) -> Self:
        _require_tables(self.references)
        for key, value in self.set.items():
            _require_section(key, value)
        if both := self.references.keys() & self.series.items().keys():
            raise ValueError(f"{sorted(both)[0]!r} is both a series and a reference; give it one name")
        return self

    def lines(self) -> list[str]:
        """The labels of all series and references, in the order in which they are shown."""
        return [*self.series.items(), *self.references]

    def changes(self, line: str, across: str) -> dict[str, Any]:
        """{key: value} to replace in the base configuration for one cell, in this order."""
        if line in self.references:
            return {**self.set, CONFIG: self.references[line]}
        own, place = self.series.items()[line], self.across.items()[across]
        return {**self.set, self.series.key: own, self.across.key: place}

    def sets(self, key: str) -> bool:
        """Whether every cell gives this key a value of its own, whatever the base says."""
        if any(sets_key(own, value, key) for own, value in self.set.items()):
            return True
        referred = all(sets_key(CONFIG, value, key) for value in self.references.values())
        return referred and (self.series.sets(key) or self.across.sets(key))

    @model_validator(mode="after")
    def _two_keys(self) -> Self:
        if self.series.key == self.across.key:
            raise ValueError(f"series and across both replace {self.series.key!r}, so that one of them has no effect")
        return self


def _require_tables(values: Mapping[str, Any]) -> None:
    for label, value in values.items():
        if not isinstance(value, dict) or not all(isinstance(table, dict) for table in value.values()):
            raise ValueError(
                f"{label!r} is {value!r}; give a table of sections, such as {{ noise = {{ kind = 'none' }} }}"
            )


def _require_section(key: str, value: Any) -> None:
    """What replaces a whole section is a table; "section.key" takes anything."""
    if "." not in key and not isinstance(value, dict):
        raise ValueError(f"{key!r} names a section, and {value!r} is no table; write section.key, or give a table")


def sets_key(own: str, value: Any, key: str) -> bool:
    """Whether replacing `own` by `value` leaves nothing of what the base says at `key`, a section or "section.key"."""
    if own == CONFIG:
        return any(sets_key(section, table, key) for section, table in value.items())
    section, _, name = key.partition(".")
    if "." in own:
        return own == key
    return own == section and ("kind" in value or (bool(name) and name in value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One number of a study."""

    value: float
    error: float  # standard error over repeats; 0 for a single repeat
    theory: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StudyResult:
    """Everything a study found: cells[measure][series][across], and the runs behind them."""

    section: StudySection
    cells: Cells
    runs: dict[Label, Run] = field(default_factory=dict)
    curves: dict[Label, dict[str, np.ndarray]] = field(default_factory=dict)  # exact curves, same labels


def run_study(
    section: StudySection,
    base: Mapping[str, Any],
    *,
    source: str,
    progress: Callable[[str], None] = lambda text: None,
) -> StudyResult:
    """Run every cell of a study on top of a base configuration; `progress` is told what comes next."""
    experiments: _Built = {}
    places = list(section.across.items())
    for line in section.lines():
        for across in places[:1] if line in section.references else places:
            progress(f"study {section.name}: prepare {line} at {across}")
            experiments[line, across] = _built(section, base, (line, across), source)
    runs = _run_cells(experiments, section, progress)
    curves = {label: _exact(experiment) for label, (_, experiment) in experiments.items()} if section.theory else {}
    for line in section.references:
        for across in places[1:]:
            runs[line, across] = runs[line, places[0]]
            experiments[line, across] = experiments[line, places[0]]
            if section.theory:
                curves[line, across] = curves[line, places[0]]
    cells: Cells = {measure: {line: {} for line in section.lines()} for measure in section.measures}
    for measure in section.measures:
        for label, (_, experiment) in experiments.items():
            line, across = label
            cells[measure][line][across] = _cell(section, measure, runs[label], experiment, curves.get(label))
    return StudyResult(section=section, cells=cells, runs=runs, curves=curves)


def _built(
    section: StudySection, base: Mapping[str, Any], label: Label, source: str
) -> tuple[dict[str, Any], Experiment]:
    """One cell's configuration and what it names."""
    data = copy.deepcopy(dict(base))
    for key, value in section.changes(*label).items():
        replace_key(data, key, value)
    config = parse(data, source=f"{source}, study {section.name!r}, {label[0]} at {label[1]}")
    if config.privacy is not None and config.privacy.budget is not None:
        raise ConfigError(f"{source}: a study runs many variants and keeps no budget. Remove [privacy] budget.")
    if section.tail > config.experiment.rounds:
        raise ConfigError(
            f"{source}: study {section.name!r} averages over the last {section.tail} of only {config.experiment.rounds} rounds."
        )
    experiment = build(config)
    refuse_unkept_promises(experiment)
    return config.as_dict(), experiment


def replace_key(data: dict[str, Any], key: str, value: Any) -> None:
    """Set "section.key", or merge a table into a section; a table with its own `kind` replaces the section.

    The key "config" does this for every section of a table of sections.
    """
    if key == CONFIG:
        for own, table in value.items():
            replace_key(data, own, table)
        return
    section, _, name = key.partition(".")
    if not isinstance(data.get(section, {}), dict):
        raise ConfigError(f"[{section}] is {brief_value(data[section])}, no table, so {key!r} cannot be set in it.")
    if name:
        data.setdefault(section, {})[name] = copy.deepcopy(value)
    elif "kind" in value:
        data[section] = copy.deepcopy(value)
    else:
        data[section] = {**data.get(section, {}), **copy.deepcopy(value)}


def _run_cells(experiments: _Built, section: StudySection, progress: Callable[[str], None]) -> dict[Label, Run]:
    """Run cells that share everything but noise and algorithm together, one program per group."""
    groups: dict[str, list[Label]] = {}
    for label, (config, experiment) in experiments.items():
        # Observers and epsilon decide how much noise there is, which is then in the noise itself.
        shared = {name: table for name, table in config.items() if name not in ("noise", "algorithm", "privacy")}
        clipping = {key: config.get("privacy", {}).get(key) for key in ("clip", "clip_norm", "clips")}
        groups.setdefault(json.dumps([shared, clipping, experiment.batch_size], sort_keys=True), []).append(label)
    runs: dict[Label, Run] = {}
    for labels in groups.values():
        for chosen in _products(labels, experiments):
            done = f"{len(runs) + 1} to {len(runs) + len(chosen)}" if len(chosen) > 1 else f"{len(runs) + 1}"
            progress(f"study {section.name}: run {done} of {len(experiments)}")
            first = experiments[chosen[0]][1]
            keys = {label: (_algorithm_key(experiments[label]), _noise_key(experiments[label])) for label in chosen}
            found = simulate(
                first.problem,
                first.topology,
                {keys[label][0]: experiments[label][1].algorithm for label in chosen},
                {keys[label][1]: experiments[label][1].noise for label in chosen},
                rounds=first.rounds,
                repeats=first.repeats,
                seed=first.seed,
                batch_size=first.batch_size,
                dtype=first.dtype,
                record=_metrics(section),
                test=first.test,
                progress=False,
            )
            runs |= {label: found[keys[label]] for label in chosen}
    return runs


def _algorithm_key(cell: tuple[dict[str, Any], Experiment]) -> str:
    return json.dumps(cell[0]["algorithm"], sort_keys=True)


def _noise_key(cell: tuple[dict[str, Any], Experiment]) -> str:
    """The noise as it came out: one epsilon is different noise for different algorithms and observers."""
    return json.dumps(cell[1].noise.describe(cell[1].rounds), sort_keys=True)


def _products(labels: list[Label], experiments: _Built) -> list[list[Label]]:
    """One list when the cells are a full product of algorithms and noises, else one per algorithm."""
    by_algorithm: dict[str, list[Label]] = {}
    noises: dict[str, set[str]] = {}
    for label in labels:
        key = _algorithm_key(experiments[label])
        by_algorithm.setdefault(key, []).append(label)
        noises.setdefault(key, set()).add(_noise_key(experiments[label]))
    same = len({frozenset(found) for found in noises.values()}) == 1
    return [labels] if same else list(by_algorithm.values())


def _metrics(section: StudySection) -> tuple[str, ...]:
    renamed = {TEST_ERROR: "accuracy", AGENT_ERROR: "msd_average"}
    return tuple(dict.fromkeys(renamed.get(measure, measure) for measure in section.measures))


def _exact(experiment: Experiment) -> dict[str, np.ndarray]:
    return expected_msd(
        experiment.problem,
        experiment.topology,
        experiment.algorithm,
        experiment.noise,
        rounds=experiment.rounds,
        batch_size=experiment.batch_size,
    )


def _cell(
    section: StudySection, measure: str, run: Run, experiment: Experiment, curve: dict[str, np.ndarray] | None
) -> Cell:
    if measure == AGENT_ERROR:
        per_repeat = ((run.models[:, 0] - experiment.problem.optimum) ** 2).sum(axis=-1)
    elif measure == TEST_ERROR:
        per_repeat = 1.0 - run.metrics["accuracy"][:, -section.tail :].astype(float).mean(axis=1)
    else:
        per_repeat = run.metrics[measure][:, -section.tail :].astype(float).mean(axis=1)
    exact = float(curve[measure][-section.tail :].mean()) if curve is not None and measure in curve else None
    size = float(experiment.problem.optimum @ experiment.problem.optimum) if section.relative else 1.0
    repeats = len(per_repeat)
    error = float(per_repeat.std(ddof=1)) / repeats**0.5 if repeats > 1 else 0.0
    return Cell(
        value=float(per_repeat.mean()) / size, error=error / size, theory=None if exact is None else exact / size
    )
