"""What a run's result is worth, beside what can be had without it.

    without learning           the most frequent class, or the mean of the targets
    each agent alone           its own best model, from its own records
    together, in clear         the same learning without noise and without clipping, once
    together                   what was run

All of it is measured on the test records where there are any, else on the training records. These are exact statistics of the records, which no
guarantee covers: they are for whoever has the data. They are kept apart from the run (`owner-only.json`, mode 0600) and never in a model.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sottovoce.durable_files import write_json
from sottovoce.errors import ConfigError, SottovoceError
from sottovoce.experiments.alone import models_alone
from sottovoce.experiments.build import build
from sottovoce.experiments.config.config import Config
from sottovoce.experiments.experiment import Experiment
from sottovoce.experiments.hints import hints
from sottovoce.experiments.results_folder import check_folder
from sottovoce.experiments.run import run_built
from sottovoce.experiments.scores import Measure, measure_of, unclipped
from sottovoce.noise import none
from sottovoce.simulation import Run, common_models, simulate

OWNER_ONLY = "owner-only.json"
HEADING = "for the data's owner only: exact statistics of the records, covered by no guarantee"
STOPPED = "the run is complete and stored; stopped while its worth was measured, which the same command does again."
MOST_MODELS = 20_000  # agents' models whose scores are computed
MOST_PRODUCTS = 5e8  # multiplications that those scores may take


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Scores of one way to get a model; None where there is no such model, or too many to score."""

    common: float | None = None  # of the common model, mean over repeats
    average: float | None = None  # of the agents' own models
    worst: float | None = None
    best: float | None = None

    def describe(self) -> dict[str, float]:
        """Plain values for JSON, without those that do not exist."""
        values = {"common": self.common, "average": self.average, "worst": self.worst, "best": self.best}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """What a run reached, beside what can be had without it.

    Attributes:
        measure: what the scores are, and on which records.
        rows: "without learning", "alone", "in clear", "together": those that exist.
        alone: [K] the score of each agent's own best model; of at most a hundred of them.
        notes: what to know, and what to try.
    """

    measure: Measure
    rows: Mapping[str, Row]
    alone: np.ndarray
    notes: tuple[str, ...]

    def describe(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "heading": HEADING,
            **self.measure.describe(),
            "rows": {name: {**row.describe(), **self._explained(row)} for name, row in self.rows.items()},
            "notes": list(self.notes),
        }

    def _explained(self, row: Row) -> dict[str, float]:
        """The share of the variance that the common model explains, or the agents' on average."""
        score = row.average if row.common is None else row.common
        share = None if score is None else self.measure.explained(score)
        return {} if share is None else {"explained": share}


def run_and_weigh(config: Config, folder: str | Path, *, progress: bool = True) -> tuple[Run, dict[str, Any]]:
    """Run an experiment, and say what its result is worth; what was said before is read back.

    Args:
        config: what to run.
        folder: of the run; it gets `owner-only.json` beside the run's own files.
        progress: show a bar.

    Raises:
        ConfigError: what was said before cannot be read.
    """
    folder = Path(folder)
    check_folder(folder)
    experiment = build(config)
    run = run_built(config, experiment, folder, progress=progress)
    stored = folder / OWNER_ONLY
    if stored.exists():
        return run, read_worth(stored)
    try:
        clear = None if _runs_in_clear(experiment) else run_in_clear(config, experiment, run.rounds, progress=progress)
        described = weigh(experiment, run, clear).describe()
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(STOPPED) from stop
    write_json(stored, described, private=True)
    return run, described


def read_worth(path: Path) -> dict[str, Any]:
    """What was said about a run's worth."""
    try:
        told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(told, dict) or not {"heading", "rows", "notes"} <= told.keys():
            raise ValueError("entries are missing")
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path} is damaged ({type(error).__name__}); remove it and give the command again."
        ) from error
    return told


def run_in_clear(config: Config, experiment: Experiment, rounds: int, *, progress: bool = True) -> Run | None:
    """The same learning without noise and without clipping, once; None where it cannot run so.

    Args:
        config: the experiment's.
        experiment: made of it.
        rounds: of the run to compare with, which a budget may have cut short.
        progress: show a bar.
    """
    try:
        clear: Run = simulate(
            unclipped(experiment.problem),
            experiment.topology,
            config.algorithm.algorithm(experiment.topology, None),
            none(),
            rounds=rounds,
            seed=experiment.seed,
            batch_size=experiment.batch_size,
            batch=experiment.batch,
            dtype=experiment.dtype,
            record=["loss"],
            progress=progress,
        )
    except SottovoceError:  # learning that stays finite only because it is clipped, or masks that need noise
        return None
    return clear


def weigh(experiment: Experiment, run: Run, clear: Run | None) -> Worth:
    """Score a run, and what can be had without it.

    Args:
        experiment: what was run.
        run: what it gave.
        clear: the same without noise and clipping; None where the run itself is that, or where there is none.
    """
    measure = measure_of(experiment)
    own, learnt = models_alone(experiment, run.rounds)
    alone = np.array([measure.score(model) for model in own])
    rows = {"alone": _of_agents(measure, alone)} if len(alone) else {}
    if measure.without_learning is not None:
        rows = {"without learning": Row(common=measure.without_learning), **rows}
    if clear is not None:
        rows["in clear"] = _row(measure, clear, experiment)
    rows["together"] = _row(measure, run, experiment)
    reached = {name: row.average if name == "alone" else row.common for name, row in rows.items()}
    said = hints(experiment, run, measure, reached)
    return Worth(measure=measure, rows=rows, alone=alone, notes=(*learnt, *said))


def _runs_in_clear(experiment: Experiment) -> bool:
    return experiment.noise.law is None and experiment.privacy is None


def _row(measure: Measure, run: Run, experiment: Experiment) -> Row:
    common = run.common
    if common is None:  # a folder of version 0.1.0
        common = common_models(
            run.models, experiment.topology, experiment.algorithm, rounds=run.rounds, seed=experiment.seed
        )
    score = float(np.mean([measure.score(model) for model in common]))
    repeats, agents, d = run.models.shape
    if repeats * agents > MOST_MODELS or repeats * agents * d * measure.records > MOST_PRODUCTS:
        return Row(common=score)
    scores = np.array([[measure.score(model) for model in models] for models in run.models])  # [repeats, K]
    worst, best = measure.worst(scores, axis=1), measure.best(scores, axis=1)
    return Row(common=score, average=float(scores.mean()), worst=float(worst.mean()), best=float(best.mean()))


def _of_agents(measure: Measure, scores: np.ndarray) -> Row:
    return Row(
        average=float(scores.mean()),
        worst=float(measure.worst(scores, axis=0)),
        best=float(measure.best(scores, axis=0)),
    )
