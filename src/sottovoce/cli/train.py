"""`sottovoce train`: one model that may be released, for whoever holds all records on one machine."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group

from sottovoce.cli.guarantees import guarantee_table
from sottovoce.cli.output import JsonOption, Notes, OverridesArgument, QuietOption, show, wrapped
from sottovoce.cli.worth import worth_table
from sottovoce.errors import ConfigError
from sottovoce.rounding import shown

if TYPE_CHECKING:
    from sottovoce.experiments import Config, Trained


def train(
    file: Annotated[Path, typer.Argument(help="A TOML configuration; `sottovoce new` writes one.")],
    overrides: OverridesArgument = None,
    out: Annotated[Path | None, typer.Option("--out", help="New folder for the model (default: trained/NAME).")] = None,
    ledger: Annotated[
        Path | None, typer.Option("--ledger", help="File of the data set's ledger, in place of the file's.")
    ] = None,
    dataset: Annotated[
        str | None, typer.Option("--dataset", help="What you call the data set, in place of the file's name.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option("--budget", help='The most epsilon of a new ledger, or "unlimited".')
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Train one model that may be released: secret noise, whole numbers, counted in a ledger."""
    from sottovoce.experiments import default_training_folder, read, train_model

    notes = Notes()
    config = _with_ledger(read(file, overrides or (), say=notes), ledger, dataset, budget)
    done = train_model(config, out or default_training_folder(config), progress=not (as_json or quiet))
    show(
        {
            "folder": str(done.folder),
            "releasable": done.releasable,
            "ledger": done.ledger,
            "owner_only": done.owner_only,
            **done.stated,
            "notes": [*done.notes, *done.stated["notes"]],
        },
        as_json=as_json,
        text=Group(
            worth_table(done.owner_only),
            guarantee_table(done.stated),
            *([] if quiet else [wrapped(note) for note in done.notes]),
            wrapped(_counted(done.ledger)),
            wrapped(_where(done)),
        ),
        notes=notes,
    )


def _with_ledger(config: "Config", store: Path | None, name: str | None, budget: str | None) -> "Config":
    """The configuration with what the command line says of the ledger instead."""
    from sottovoce.experiments import parse

    given: dict[str, Any] = {"store": store and str(store), "name": name, "budget": _number(budget)}
    given = {key: value for key, value in given.items() if value is not None}
    if not given:
        return config
    tables = config.as_dict()
    return parse({**tables, "ledger": {**tables.get("ledger", {}), **given}}, source="the command line")


def _number(budget: str | None) -> float | str | None:
    if budget is None or budget == "unlimited":
        return budget
    try:
        return float(budget)
    except ValueError:
        raise ConfigError(f'--budget {budget!r}: give an epsilon above 0, or "unlimited".') from None


def _counted(ledger: Mapping[str, Any]) -> str:
    spent = "infinite" if ledger["reserved"] is None else shown(ledger["reserved"], 4)
    budget = ledger["budget"] if isinstance(ledger["budget"], str) else f"{ledger['budget']:g}"
    trainings = "1 run" if ledger["runs"] == 1 else f"{ledger['runs']} runs"
    return (
        f"Ledger of {ledger['name']}: {trainings}, epsilon {spent} at delta = {ledger['delta']:g}; the budget is {budget}. Every training counts, also "
        f"one whose model is thrown away."
    )


def _where(done: "Trained") -> str:
    may = "may be released" if done.releasable else "must not be released: nothing is hidden from whoever gets it"
    return (
        f"model.json and model.safetensors in {done.folder} {may}; owner-only.json there is for the data's owner. For new records:\n"
        f"  sottovoce predict {done.folder} NEW.csv --out predictions.csv"
    )
