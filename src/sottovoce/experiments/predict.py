"""Predictions for a file of new records: read as the model's schema says, answered, and written row by row."""

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sottovoce.durable_files import write
from sottovoce.errors import ConfigError
from sottovoce.experiments.model_file import MODEL_JSON, load_model
from sottovoce.experiments.record import load_run
from sottovoce.problems import BadTable, Complaint, Model, load_points, read_table
from sottovoce.wording import brief


class Predicted(NamedTuple):
    """Answers for a file."""

    rows: np.ndarray  # [N] what the file calls its rows: their number in a table whose header is row 1, else from 0
    answers: np.ndarray  # [N]
    probabilities: np.ndarray | None  # [N, classes]
    classes: tuple[Any, ...] | None


def model_in(folder: str | Path, agent: int | str | None = None) -> Model:
    """The model of a folder: the common one, which needs model.json and model.safetensors alone, or one agent's, which needs the whole run.

    Args:
        folder: of a run, or with the two files.
        agent: its name, or its number; None for the common model.

    Raises:
        ConfigError: there is no such model.
    """
    place = Path(folder)
    if agent is None and (place / MODEL_JSON).is_file():
        return load_model(place)
    if agent is not None and not (place / "run.json").is_file() and (place / MODEL_JSON).is_file():
        raise ConfigError(
            f"{place} holds the common model alone; the agents' own models stay with their run. Leave the agent out, or give the run's folder."
        )
    run = load_run(place)
    names = run.description.get("agents") or ()
    by_number = isinstance(agent, str) and agent not in names and agent.isascii() and agent.isdigit()
    return run.model(int(agent) if by_number and agent is not None else agent)


def predict_file(model: Model, file: str | Path, *, probabilities: bool = False) -> Predicted:
    """Answers for every record of a file.

    Args:
        model: that answers.
        file: with the columns that were declared (.csv, .parquet); without a schema plain numbers, the features in the order of learning.
        probabilities: of the classes, too.

    Raises:
        ConfigError: other columns, or values that do not fit: all of them in one answer.
    """
    data: Any
    if model.schema is not None:
        data = read_table(file)
        rows = np.asarray(data.rows.numbers)
    else:
        data, _ = load_points(file)
        rows = np.arange(len(data))
    try:
        shares = model.predict_proba(data) if probabilities else None
        return Predicted(rows, model.predict(data), shares, model.classes)
    except BadTable as error:
        raise BadTable([_for_predictions(each) for each in error.complaints]) from error


def _for_predictions(found: Complaint) -> Complaint:
    """What a file of learning could declare, a file of new records can only correct."""
    if "declare" not in found.advice:
        return found
    return replace(found, advice="correct the file; the model answers for nothing that it was not made for")


def write_predictions(found: Predicted, path: str | Path, *, force: bool = False) -> None:
    """Write a .csv with one line per record: its row, the answer, and the probability of every class if asked for.

    Args:
        found: the answers.
        path: where.
        force: overwrite a file that is there.

    Raises:
        ConfigError: the file exists, or cannot be written.
    """
    place = Path(path)
    if place.exists() and not (force and place.is_file()):
        raise ConfigError(f"{brief(str(place), 200)} exists; choose another name, or overwrite it with --force.")
    text = io.StringIO(newline="")
    out = csv.writer(text, lineterminator="\n")
    named = [] if found.probabilities is None else [f"probability of {name}" for name in found.classes or ()]
    out.writerow(["row", "prediction", *named])
    shares = np.empty((len(found.rows), 0)) if found.probabilities is None else found.probabilities
    for row, answer, each in zip(found.rows.tolist(), found.answers.tolist(), shares.tolist(), strict=True):
        out.writerow([row, _cell(answer), *(f"{share:.6g}" for share in each)])
    try:
        write(place, text.getvalue().encode(), private=True)
    except OSError as error:
        raise ConfigError(
            f"{brief(str(place), 200)} cannot be written ({error.strerror}); choose another place."
        ) from error


def _cell(answer: Any) -> Any:
    return f"{answer:.9g}" if isinstance(answer, float) else answer
