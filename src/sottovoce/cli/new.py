"""`sottovoce new`: write a commented configuration to start from."""

from pathlib import Path
from typing import Annotated

import typer

from sottovoce.cli.output import JsonOption, QuietOption, show
from sottovoce.errors import ConfigError


def new(
    file: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("experiment.toml"),
    template: Annotated[
        str, typer.Option("--template", help="One of peers, federation, gopa, gossip, walk.")
    ] = "peers",
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a commented configuration to start from."""
    from sottovoce.experiments import template as template_named

    _write(file, template_named(template), force=force)
    uses = {"gossip": "pairwise"}
    show(
        {"file": str(file)},
        as_json=as_json,
        text=f"{file} written." + ("" if quiet else f" Next: sottovoce {uses.get(template, 'run')} {file}"),
    )


def _write(file: Path, text: str, *, force: bool) -> None:
    try:
        if file.exists() and not file.is_file():
            raise ConfigError(f"{file} exists and is no plain file; choose another name.")
        with file.open("w" if force else "x", encoding="utf-8") as target:
            target.write(text)
    except FileExistsError as error:
        raise ConfigError(f"{file} exists; choose another name, or overwrite it with --force.") from error
    except (OSError, ValueError) as error:  # a name with a zero byte is a ValueError
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{file} cannot be written ({reason}); choose another place.") from error
