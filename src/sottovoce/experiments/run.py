"""Run an experiment into a folder, from its beginning or from where it was interrupted."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sottovoce.experiments.build import build
from sottovoce.experiments.config.config import Config
from sottovoce.experiments.experiment import Experiment
from sottovoce.experiments.privacy import (
    guarantees,
    refuse_unkept_promises,
    simulated_statement,
    spending,
    within_budget,
)
from sottovoce.experiments.record import is_finished, load_run, open_record, rounds_stored
from sottovoce.experiments.results_folder import check_folder
from sottovoce.experiments.trajectory import add_models, check_room, open_models
from sottovoce.simulation import (
    Run,
    check_run_size,
    choose_metrics,
    chunks,
    common_models,
    expected_seconds,
    keeps_models,
    round_bar,
    size_of_run,
    working_on,
)


def default_folder(config: Config) -> Path:
    """`runs/NAME-DIGEST`: the same configuration finds its folder again, another one gets another."""
    digest = hashlib.sha256(json.dumps(config.as_dict(), sort_keys=True).encode()).hexdigest()
    return Path("runs") / f"{config.experiment.name}-{digest[:8]}"


class Stopped(KeyboardInterrupt):
    """Somebody stopped a run; says after which round, and that nothing is lost."""

    def __init__(self, *, saved: int, rounds: int) -> None:
        """Say where.

        Args:
            saved: the last round that is stored.
            rounds: of the whole run.
        """
        ends = (
            f"stopped after round {saved:,} of {rounds:,}; the same command goes on from there."
            if saved
            else f"stopped before the first of {rounds:,} rounds was stored; the same command starts again."
        )
        super().__init__(ends)
        self.saved = saved


def run_experiment(config: Config, folder: str | Path, *, progress: bool = True) -> Run:
    """Simulate what the configuration says and keep everything in `folder`; a finished run is only read back.

    What is to be guaranteed is settled before the first round. With a budget, the run has the metrics `epsilon_spent` and `epsilon_left`.

    Raises:
        BudgetExhausted: if the run would exceed its budget.
        ConfigError: if the folder belongs to something else.
        IncompatibleChoice: if the parts do not fit together.
        Stopped: if somebody interrupts it; given the same folder again, it goes on.
        UnsupportedClaim: if nothing is proved for one of the observers.
    """
    check_folder(Path(folder))
    return run_built(config, build(config), Path(folder), progress=progress)


def run_built(config: Config, experiment: Experiment, folder: Path, *, progress: bool = True) -> Run:
    """`run_experiment` of an experiment that is already made of its configuration.

    Args:
        config: what names the run.
        experiment: made of it.
        folder: of the run.
        progress: show a bar.
    """
    check_folder(folder)
    stated: dict[str, Any] | None = None
    spent: dict[str, np.ndarray] = {}
    if not is_finished(folder):
        _check_size(experiment)
        _check_room(experiment, folder)
        with working_on("working out what every observer can learn", shown=progress):
            experiment, stated, spent = _accounted(experiment)
    try:
        return _run_into(config, experiment, folder, stated=stated, spent=spent, progress=progress)
    except KeyboardInterrupt as stop:
        raise Stopped(saved=rounds_stored(folder), rounds=experiment.rounds) from stop


def _run_into(
    config: Config,
    experiment: Experiment,
    folder: Path,
    *,
    stated: dict[str, Any] | None,
    spent: Mapping[str, np.ndarray],
    progress: bool,
) -> Run:
    """Run the rounds that are left, chunk by chunk into the folder."""
    description, records = experiment.describe(), experiment.records
    with open_record(folder, config=config.as_dict(), description=description, records=records) as record:
        if record.finished:
            return load_run(folder)
        done = record.start[0] if record.start else 0
        if done < experiment.rounds:
            algorithm, noise, settings = config.algorithm.kind, config.noise.kind, experiment.settings
            steps = chunks(
                experiment.problem,
                experiment.topology,
                {algorithm: experiment.algorithm},
                {noise: experiment.noise},
                settings,
                record=experiment.record,
                test=experiment.accuracy_test,
                start=record.start,
            )
            seconds = expected_seconds(
                experiment.problem,
                experiment.topology,
                (experiment.algorithm,),
                replace(settings, rounds=experiment.rounds - done),
                schemes=1,
            )
            every_round = _models_to_fill(experiment, folder, resumed=done > 0)
            with round_bar(experiment.rounds, done=done, shown=progress, expected=seconds) as advance_to:
                for chunk in steps:
                    last = chunk.round == experiment.rounds
                    measured = chunk.metrics[algorithm, noise]
                    if every_round is not None:
                        add_models(every_round, chunk.round, chunk.models_by_round[algorithm, noise])
                    record.add_chunk(
                        chunk.round,
                        {**measured, **_columns(spent, chunk.round, measured)},
                        chunk.state,
                        final_models=_final(experiment, chunk.models[algorithm, noise]) if last else None,
                    )
                    advance_to(chunk.round)
        return record.finish(stated)


def _shape_of_models(experiment: Experiment) -> tuple[int, int, int, int]:
    return experiment.repeats, experiment.rounds, experiment.problem.num_agents, experiment.problem.dimension


def _check_room(experiment: Experiment, folder: Path) -> None:
    """Refuse models of all rounds that the disk cannot hold."""
    if keeps_models(experiment.record):
        check_room(folder, _shape_of_models(experiment), experiment.dtype)


def _models_to_fill(experiment: Experiment, folder: Path, *, resumed: bool) -> Any:
    """The file of models of all rounds; None where they are not recorded."""
    if not keeps_models(experiment.record):
        return None
    return open_models(folder, _shape_of_models(experiment), experiment.dtype, resumed=resumed)


def _accounted(experiment: Experiment) -> tuple[Experiment, dict[str, Any] | None, dict[str, np.ndarray]]:
    """The experiment within its budget, its guarantees, and what is spent and left after each round."""
    privacy = experiment.privacy
    if privacy is None or not privacy.observers:
        return experiment, None, {}
    refuse_unkept_promises(experiment)
    experiment = within_budget(experiment)
    stated = simulated_statement(experiment, guarantees(experiment))
    if privacy.budget is None:
        return experiment, stated, {}
    spent = spending(experiment)
    return experiment, stated, {"epsilon_spent": spent, "epsilon_left": privacy.budget.epsilon - spent}


def _final(experiment: Experiment, models: np.ndarray) -> dict[str, np.ndarray]:
    """What is kept when a run ends: every agent's model, and what they have in common."""
    common = common_models(
        models, experiment.topology, experiment.algorithm, rounds=experiment.rounds, seed=experiment.seed
    )
    return {"models": models, "common": common}


def _columns(
    per_round: Mapping[str, np.ndarray], last_round: int, measured: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The entries of one chunk, repeated for every repeat as its metrics are: [repeats, rounds of the chunk]."""
    repeats, rounds = next(iter(measured.values())).shape
    return {name: np.tile(values[last_round - rounds : last_round], (repeats, 1)) for name, values in per_round.items()}


def final_metrics(run: Run) -> dict[str, dict[str, float | None]]:
    """Each metric after the last round: mean over repeats, its standard error, and decibels where the metric is a deviation."""
    result: dict[str, dict[str, float | None]] = {}
    for name, values in run.metrics.items():
        last = values[:, -1].astype(np.float64)
        mean = float(last.mean())
        error = float(last.std(ddof=1) / math.sqrt(len(last))) if len(last) > 1 else None
        decibels = 10 * math.log10(mean) if name.startswith("msd") and mean > 0 else None
        result[name] = {"mean": mean, "standard_error": error, "decibels": decibels}
    return result


def _check_size(experiment: Experiment) -> None:
    """Refuse what cannot fit before anything is accounted or written."""
    size = size_of_run(
        experiment.problem,
        experiment.topology,
        (experiment.algorithm,),
        experiment.settings,
        schemes=1,
        metrics=len(choose_metrics(experiment.record, experiment.problem)),
    )
    check_run_size(size)
