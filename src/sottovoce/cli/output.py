"""The one way every command speaks: JSON for programs, text or a table for people."""

import json
import re
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def paragraph(text: str) -> str:
    """Text for a terminal, with no blank line in it and no character that would do something to the terminal.

    Names of files and what stands in them may hold any.
    """
    shown = "".join(each if each.isprintable() or each == "\n" else ascii(each)[1:-1] for each in text)
    return re.sub(r"\n\s*\n", "\n", shown).strip()


def show(value: dict[str, Any], *, as_json: bool, text: RenderableType) -> None:
    """Print the result of a command on stdout."""
    if as_json:
        typer.echo(json.dumps(value, indent=2, allow_nan=False))
    elif isinstance(text, str):
        typer.echo(text)
    else:
        Console(emoji=False).print(text)
