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

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from matplotlib.figure import Figure
from pydantic import Field, model_validator

from sottovoce.errors import ConfigError
from sottovoce.experiments import (
    Config,
    Experiment,
    Section,
    ShownLabel,
    build,
    checked_label,
    parse,
    refuse_turns,
    refuse_unkept_promises,
)
from sottovoce.reports import curve_grid, describe, pictures, save, scaling, with_test_error
from sottovoce.simulation import Run, simulate
from sottovoce.studies.cells import CONFIG, Cell, Cells, Say, changed_tables, empty_cells, sets_key
from sottovoce.theory import expected_msd

AGENT_ERROR = "error_of_agent_0"
TEST_ERROR = "test_error"
NO_EPSILON = "epsilon: this study states none"
SMOOTHED_SHARE = 50  # lines are running means over one fiftieth of the run

Label = tuple[str, str]  # (series, across)


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

    def places(self) -> list[str]:
        """The labels along the axis, in order."""
        return list(self.across.items())

    def labels(self) -> list[Label]:
        """Every cell, line by line."""
        return [(line, place) for line in self.lines() for place in self.places()]

    def stands_for(self, label: Label) -> Label:
        """The cell whose run this one shows: a reference is run once, at the first place."""
        return (label[0], self.places()[0]) if label[0] in self.references else label

    @property
    def axis(self) -> str:
        """What is swept."""
        return self.across.label or self.across.key

    def words(self, measure: str) -> str:
        """What a measure is."""
        return pictures.words.metric(measure) + (" over the squared norm of the optimum" if self.relative else "")

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


class Built(NamedTuple):
    """The configuration of a cell, and what was made from it."""

    config: Config
    experiment: Experiment

    @property
    def algorithm_key(self) -> str:
        """Equal for equal algorithms."""
        return json.dumps(self.config.as_dict()["algorithm"], sort_keys=True)

    @property
    def noise_key(self) -> str:
        """Equal for equal noise as it came out: one epsilon is different noise for different algorithms and observers."""
        return json.dumps(self.experiment.noise.describe(self.experiment.rounds), sort_keys=True)

    @property
    def shared_key(self) -> str:
        """Equal for cells that may run as one program, because they differ in algorithm and noise alone."""
        config = self.config.as_dict()
        # Observers and epsilon decide how much noise there is, which is then in the noise itself.
        shared = {name: table for name, table in config.items() if name not in ("noise", "algorithm", "privacy")}
        clipping = {key: config.get("privacy", {}).get(key) for key in ("clip", "clip_norm", "clips")}
        return json.dumps([shared, clipping, self.experiment.batch_size], sort_keys=True)


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
    progress: Say = lambda text: None,
) -> StudyResult:
    """Run every cell of a study.

    Args:
        section: what to vary.
        base: the configuration of the file, which the cells change.
        source: the name of the file in messages.
        progress: told what comes next.
    """
    made: dict[Label, Built] = {}
    for label in section.labels():
        if section.stands_for(label) not in made:
            progress(f"study {section.name}: prepare {label[0]} at {label[1]}")
            made[label] = _built(section, base, label, source)
    runs = _run_cells(made, section, progress)
    curves = {label: _exact(each.experiment) for label, each in made.items()} if section.theory else {}
    cells = empty_cells(section.measures, section.lines())
    for measure in section.measures:
        for label in section.labels():
            own = section.stands_for(label)
            cell = _cell(section, measure, runs[own], made[own].experiment, curves.get(own))
            cells[measure][label[0]][label[1]] = cell
    return StudyResult(section=section, cells=cells, runs=runs, curves=curves)


def _built(section: StudySection, base: Mapping[str, Any], label: Label, source: str) -> Built:
    """One cell's configuration and what it names."""
    data = changed_tables(base, section.changes(*label))
    config = parse(data, source=f"{source}, study {section.name!r}, {label[0]} at {label[1]}")
    if config.privacy is not None and config.privacy.budget is not None:
        raise ConfigError(f"{source}: a study runs many variants and keeps no budget. Remove [privacy] budget.")
    if section.tail > config.experiment.rounds:
        raise ConfigError(
            f"{source}: study {section.name!r} averages over the last {section.tail} of only {config.experiment.rounds} rounds."
        )
    refuse_turns(config.algorithm.turns, "a study")
    experiment = build(config)
    refuse_unkept_promises(experiment)
    return Built(config, experiment)


def _run_cells(made: Mapping[Label, Built], section: StudySection, progress: Say) -> dict[Label, Run]:
    """Run cells that share everything but noise and algorithm together, one program per group."""
    groups: dict[str, dict[Label, Built]] = {}
    for label, cell in made.items():
        groups.setdefault(cell.shared_key, {})[label] = cell
    runs: dict[Label, Run] = {}
    for together in [part for group in groups.values() for part in _products(group)]:
        last = len(runs) + len(together)
        done = f"{len(runs) + 1} to {last}" if len(together) > 1 else f"{last}"
        progress(f"study {section.name}: run {done} of {len(made)}")
        first = next(iter(together.values())).experiment
        found = simulate(
            first.problem,
            first.topology,
            {cell.algorithm_key: cell.experiment.algorithm for cell in together.values()},
            {cell.noise_key: cell.experiment.noise for cell in together.values()},
            rounds=first.rounds,
            repeats=first.repeats,
            seed=first.seed,
            batch_size=first.batch_size,
            dtype=first.dtype,
            record=_metrics(section),
            test=first.accuracy_test,
            progress=False,
        )
        runs |= {label: found[cell.algorithm_key, cell.noise_key] for label, cell in together.items()}
    return runs


def _products(cells: dict[Label, Built]) -> list[dict[Label, Built]]:
    """All at once when the cells are a full product of algorithms and noises, else one group per algorithm."""
    by_algorithm: dict[str, dict[Label, Built]] = {}
    for label, cell in cells.items():
        by_algorithm.setdefault(cell.algorithm_key, {})[label] = cell
    noises = {frozenset(cell.noise_key for cell in group.values()) for group in by_algorithm.values()}
    return [cells] if len(noises) == 1 else list(by_algorithm.values())


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


def draw_study(result: StudyResult, folder: str | Path, document: str) -> list[Path]:
    """Write one picture per measure; returns the files."""
    paths: list[Path] = []
    draw = _draw_scaling if result.section.figure == "scaling" else _draw_curves
    for measure in result.section.measures:
        figure, caption = draw(result, measure)
        name = f"{result.section.name}-{measure}".replace("_", "-")
        paths += save(figure, folder, name, caption=f"{document}. {caption}")
    return paths


def _draw_curves(result: StudyResult, measure: str) -> tuple[Figure, str]:
    """Curves against rounds, a panel for every place, and their caption."""
    section = result.section
    example = next(iter(result.runs.values()))
    swept = section.across.label or section.across.key.split(".")[-1]
    panels: dict[str, dict[str, Run]] = {f"{swept}: {across}": {} for across in section.places()}
    exact: dict[str, dict[str, np.ndarray]] = {panel: {} for panel in panels}
    for line, across in section.labels():
        own = section.stands_for((line, across))
        run = result.runs[own]
        panels[f"{swept}: {across}"][line] = with_test_error(run) if measure == TEST_ERROR else run
        if measure in result.curves.get(own, {}):
            exact[f"{swept}: {across}"][line] = result.curves[own][measure]
    same = not section.across.key.startswith("problem")  # errors on different data have no common scale
    window = max(example.rounds // SMOOTHED_SHARE, 1)
    figure = curve_grid(panels, measure, theory=exact, smooth=window, same_scale=same, privacy=NO_EPSILON)
    caption = (
        f"First line: {describe(example)} Each repeat is drawn as its mean over the last {window} rounds; lines are means over "
        f"repeats, bands go from the 10th to the 90th percentile."
    )
    return figure, caption


def _draw_scaling(result: StudyResult, measure: str) -> tuple[Figure, str]:
    """A measure against what is swept, and its caption."""
    section = result.section
    x = [float(across) for across in section.places()]
    lines = {
        series: (x, [cell.value for cell in row.values()], [cell.error for cell in row.values()])
        for series, row in result.cells[measure].items()
    }
    figure = scaling(
        lines,
        x_label=section.axis,
        y_label=("relative " if section.relative else "") + pictures.words.axis_label(measure),
        percent=measure == TEST_ERROR,
        reference_slopes=section.slopes or None,
        title=pictures.words.sentence(pictures.words.metric(measure)),
        subtitle="" if "epsilon" in section.axis else NO_EPSILON,
    )
    example = next(iter(result.runs.values()))
    caption = (
        f"{'After the last round' if section.tail == 1 else f'Mean over the last {section.tail} rounds'}, against {section.axis}; "
        f"error bars of one standard error over repeats. "
        f"First point: {describe(example)}"
    )
    return figure, caption
