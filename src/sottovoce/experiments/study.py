"""Studies: one configuration varied along two directions, run, and reduced to a table of numbers.

    [[study]]
    name = "regression"
    series = { key = "noise", values = { "noise-free" = { kind = "none" }, ... } }      # the lines of a figure
    across = { key = "algorithm.kind", values = ["consensus", "cta", "atc"] }            # its panels or its horizontal axis
    measures = ["msd_centroid", "msd_average"]
    tail = 500                                                                           # average over the last 500 rounds
    theory = true                                                                        # exact values beside the measured ones

Every cell is an ordinary configuration: the base with the two keys replaced. Cells that differ only in algorithm and noise run as
one program. A measure is a metric of the run, `test_error` (one minus the accuracy), or `error_of_agent_0` (squared distance of one
agent's final model to the optimum); `relative` divides by the squared norm of the optimum.
"""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from sottovoce.errors import ConfigError
from sottovoce.experiments.build import Experiment, build
from sottovoce.experiments.config import parse
from sottovoce.experiments.sections import Section
from sottovoce.experiments.simulate import simulate
from sottovoce.simulation.run import Run
from sottovoce.theory import expected_msd

AGENT_ERROR = "error_of_agent_0"
TEST_ERROR = "test_error"


class Direction(Section):
    """A key of the configuration and the values it takes; a table gives each value a label."""

    key: str
    values: dict[str, Any] | list[Any]
    label: str | None = None  # what to call the key in tables and figures

    def items(self) -> dict[str, Any]:
        """Label -> value."""
        return dict(self.values) if isinstance(self.values, dict) else {f"{value}": value for value in self.values}


class StudySection(Section):
    """One study of a reproduction file."""

    name: str
    series: Direction
    across: Direction
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
        return self


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
    cells: dict[str, dict[str, dict[str, Cell]]]
    runs: dict[tuple[str, str], Run] = field(default_factory=dict)  # {(series, across): Run}
    curves: dict[tuple[str, str], dict[str, np.ndarray]] = field(default_factory=dict)  # exact curves, same labels


def run_study(section: StudySection, base: Mapping[str, Any], *, source: str, progress: bool = False) -> StudyResult:
    """Run every cell of a study on top of a base configuration."""
    experiments = {}
    for series, series_value in section.series.items().items():
        for across, across_value in section.across.items().items():
            data = copy.deepcopy(dict(base))
            for key, value in {
                **section.set,
                section.series.key: series_value,
                section.across.key: across_value,
            }.items():
                replace_key(data, key, value)
            config = parse(data, source=f"{source}, study {section.name!r}, {series} at {across}")
            if config.privacy is not None and config.privacy.budget is not None:
                raise ConfigError(f"{source}: a study runs many variants and keeps no budget. Remove [privacy] budget.")
            if section.tail > config.experiment.rounds:
                raise ConfigError(
                    f"{source}: study {section.name!r} averages over the last {section.tail} of only {config.experiment.rounds} rounds."
                )
            experiments[series, across] = (config.as_dict(), build(config))
    runs = _run_cells(experiments, section, progress)
    curves = {label: _exact(experiment) for label, (_, experiment) in experiments.items()} if section.theory else {}
    cells: dict[str, dict[str, dict[str, Cell]]] = {
        measure: {series: {} for series in section.series.items()} for measure in section.measures
    }
    for (series, across), run in runs.items():
        experiment = experiments[series, across][1]
        for measure in section.measures:
            cells[measure][series][across] = _cell(section, measure, run, experiment, curves.get((series, across)))
    return StudyResult(section=section, cells=cells, runs=runs, curves=curves)


def replace_key(data: dict[str, Any], key: str, value: Any) -> None:
    """Set "section.key", or merge a table into a section; a table with its own `kind` replaces the section."""
    section, _, name = key.partition(".")
    if name:
        data.setdefault(section, {})[name] = copy.deepcopy(value)
    elif "kind" in value:
        data[section] = copy.deepcopy(value)
    else:
        data[section] = {**data.get(section, {}), **copy.deepcopy(value)}


def _run_cells(
    experiments: dict[tuple[str, str], tuple[dict[str, Any], Experiment]], section: StudySection, progress: bool
) -> dict[tuple[str, str], Run]:
    """Run cells that share everything but noise and algorithm together, one program per group."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for label, (config, experiment) in experiments.items():
        shared = {name: table for name, table in config.items() if name not in ("noise", "algorithm")}
        groups.setdefault(json.dumps([shared, experiment.batch_size], sort_keys=True), []).append(label)
    metrics = _metrics(section)
    runs: dict[tuple[str, str], Run] = {}
    for labels in groups.values():
        for chosen in _products(labels, experiments):
            first = experiments[chosen[0]][1]
            algorithms = {
                json.dumps(experiments[label][0]["algorithm"], sort_keys=True): experiments[label][1].algorithm
                for label in chosen
            }
            noises = {
                json.dumps(experiments[label][0]["noise"], sort_keys=True): experiments[label][1].noise
                for label in chosen
            }
            found = simulate(
                first.problem,
                first.topology,
                algorithms,
                noises,
                rounds=first.rounds,
                repeats=first.repeats,
                seed=first.seed,
                batch_size=first.batch_size,
                dtype=first.dtype,
                record=metrics,
                test=first.test,
                progress=progress,
            )
            for label in chosen:
                config = experiments[label][0]
                runs[label] = found[
                    json.dumps(config["algorithm"], sort_keys=True), json.dumps(config["noise"], sort_keys=True)
                ]
    return runs


def _products(
    labels: list[tuple[str, str]], experiments: dict[tuple[str, str], tuple[dict[str, Any], Experiment]]
) -> list[list[tuple[str, str]]]:
    """One list when the cells are a full product of algorithms and noises, else one per algorithm."""
    by_algorithm: dict[str, list[tuple[str, str]]] = {}
    noises: dict[str, set[str]] = {}
    for label in labels:
        config = experiments[label][0]
        key = json.dumps(config["algorithm"], sort_keys=True)
        by_algorithm.setdefault(key, []).append(label)
        noises.setdefault(key, set()).add(json.dumps(config["noise"], sort_keys=True))
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
