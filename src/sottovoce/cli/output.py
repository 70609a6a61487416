"""The one way every command speaks: JSON for programs, text or a table for people."""

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType
from rich.markup import escape

OverridesArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[SECTION.KEY=VALUE]...", help="Values to use instead.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


@contextlib.contextmanager
def telling(title: str, *, shown: bool) -> Iterator[Callable[[str], None]]:
    """Say what is being done: in one line that changes on a terminal, else line by line."""
    console = Console(stderr=True)
    if not shown:
        yield lambda text: None
    elif console.is_terminal:
        with console.status(escape(f"{title}: start")) as status:
            yield lambda text: status.update(escape(f"{title}: {text}"))
    else:
        yield lambda text: console.print(escape(f"{title}: {text}"))


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
