"""The one way every command speaks: JSON for programs, text or a table for people."""

import json
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def show(value: dict[str, Any], *, as_json: bool, text: RenderableType) -> None:
    """Print the result of a command on stdout."""
    if as_json:
        typer.echo(json.dumps(value, indent=2, allow_nan=False))
    elif isinstance(text, str):
        typer.echo(text)
    else:
        Console().print(text)
