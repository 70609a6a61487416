"""`sottovoce predict`: answers of a model for a file of new records."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group

from sottovoce.cli.output import JsonOption, QuietOption, show, wrapped
from sottovoce.errors import ConfigError

TRAINED = (
    "The model may be released by what its guarantee says, and what it answers tells no more about the records it learnt from. About the new records "
    "nothing is promised."
)
SIMULATED = "The model was simulated, and what it answers tells about it: like the model, these predictions are not for release."
KEPT = (
    "The model may not be released (model.json says why), and what it answers tells about it: like the model, these predictions are for those alone who "
    "have it."
)


def predict(
    run: Annotated[Path, typer.Argument(help="Folder of a run, or one with model.json and model.safetensors.")],
    file: Annotated[Path, typer.Argument(help="New records: the columns of learning, with or without the target.")],
    out: Annotated[Path, typer.Option("--out", help="Where to write the predictions (.csv).")],
    agent: Annotated[
        str | None, typer.Option("--agent", help="Name or number of an agent whose own model to use.")
    ] = None,
    proba: Annotated[bool, typer.Option("--proba", help="Add the probability of every class.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Predict for new records with the model of a run."""
    from sottovoce.experiments import model_in, predict_file, write_predictions

    if out.exists() and out.resolve() == file.resolve():
        raise ConfigError(
            f"{out} holds the records; the predictions would replace them. Choose another name with --out."
        )
    found = predict_file(model_in(run, agent), file, probabilities=proba)
    write_predictions(found, out, force=force)
    note = _note(run) if agent is None and (run / "model.json").is_file() else SIMULATED
    whose = "the common model" if agent is None else f"the model of agent {agent}"
    said = f"{len(found.answers)} predictions by {whose} written to {out}."
    show(
        {"file": str(out), "records": len(found.answers), "agent": agent, "note": note},
        as_json=as_json,
        text=Group(*([] if quiet else [wrapped(said)]), wrapped(note)),
    )


def _note(run: Path) -> str:
    """What the predictions of a model file are worth for others."""
    from sottovoce.experiments import may_be_released

    if may_be_released(run):
        return TRAINED
    why = json.loads((run / "model.json").read_text(encoding="utf-8"))["why"]
    return SIMULATED if why.startswith("simulated") else KEPT
