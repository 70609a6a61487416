"""The one way every command speaks: JSON for programs, tables and wrapped text for people.

    table(header, rows, words=...)   fits the width: words wrap, numbers stay whole, and what is too wide becomes two tables
    wrapped(text)                    a paragraph on lines of readable length; names and paths stay whole
    verbatim(text)                   what is meant to be copied, never wrapped
    percent(share)                   a share as people say it
    show(value, ...)                 prints one or the other
    complain(text)                   prints on the error stream

Everything fits 80 columns, and uses more where there are more.
"""

import contextlib
import json
import math
import re
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markup import escape
from rich.table import Table
from rich.text import Text

OverridesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[SECTION.KEY=VALUE]...", help="Values to use instead; SECTION.KEY=~ removes a key."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
ExplainOption = Annotated[bool, typer.Option("--explain", help="Add mu and how exact the numbers are.")]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print the result and what it means for privacy, nothing else.")
]

_GAP = 2  # between two columns
_LONGEST_WORD = 30  # in a table; a longer word, such as a path, is broken over lines
_LONGEST_LINE = 100  # of prose: longer lines are hard to read, however wide the terminal


def table(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, words: Collection[str] = (), title: str = "", keys: int = 1
) -> RenderableType:
    """A table that fits the terminal, whose numbers are never cut or wrapped.

    Columns named in `words` hold text, which wraps. If the table is too wide even so, its columns are divided among
    several tables that repeat the first ones.

    Args:
        header: names of the columns; a line break in one is kept.
        rows: cells as text, in which nothing is markup.
        words: the columns whose cells may wrap; all others are numbers, aligned to the right.
        title: a line above.
        keys: how many first columns say what a row is about.
    """
    return _FittingTable(
        header=tuple(header),
        rows=tuple(tuple(row) for row in rows),
        words=frozenset(position for position, name in enumerate(header) if name in words),
        title=title,
        keys=keys,
    )


def wrapped(text: str, *, style: str = "") -> RenderableType:
    """Text on lines that are read with ease, its own line breaks kept; what has no blank in it, such as a path, stays whole."""
    return _Prose(text, style)


def verbatim(text: str) -> RenderableType:
    """What is meant to be copied, such as a command: never wrapped."""
    return Text(text, no_wrap=True, overflow="ignore")


def percent(share: float | None, digits: int = 1) -> str:
    """A share as people say it, such as 91.4 %; empty where there is none."""
    return "" if share is None or math.isnan(share) else f"{100 * share:.{digits}f} %"


@dataclass(frozen=True, slots=True)
class _Prose:
    text: str
    style: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        filled = _filled(self.text, min(options.max_width, _LONGEST_LINE))
        yield Text(filled, style=self.style, no_wrap=True, overflow="ignore")


@dataclass(frozen=True, slots=True, kw_only=True)
class _FittingTable:
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: frozenset[int]  # positions of the columns that may wrap
    title: str
    keys: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.title:
            yield _Prose(self.title, "bold")
        for columns in self._divided(options.max_width):
            yield self._part(columns, self._widths(columns, options.max_width))
            yield Text("")

    def _divided(self, room: int) -> list[list[int]]:
        """Columns of each table: as many beside the first ones as fit at their narrowest."""
        first = list(range(self.keys))
        parts = [list(first)]
        for column in range(self.keys, len(self.header)):
            wider = [*parts[-1], column]
            if len(parts[-1]) > self.keys and sum(map(self._least, wider)) + _GAP * (len(wider) - 1) > room:
                wider = [*first, column]
                parts.append(wider)
            parts[-1] = wider
        return parts

    def _widths(self, columns: list[int], room: int) -> list[int]:
        """The width of each column; where they do not fit, the widest column of words gives way first."""
        widths = [max(cell_len(line) for line in self._lines(column)) for column in columns]
        room -= _GAP * (len(columns) - 1)
        while sum(widths) > room:
            yielding = [
                (width, i) for i, width in enumerate(widths) if columns[i] in self.words and width > self._least(columns[i])
            ]  # fmt: skip
            if not yielding:
                break
            widths[max(yielding)[1]] -= 1
        return widths

    def _least(self, column: int) -> int:
        pieces = [line.split() or [""] if column in self.words else [line] for line in self._lines(column)]
        longest = max(cell_len(piece) for line in pieces for piece in line)
        return min(longest, _LONGEST_WORD) if column in self.words else longest

    def _lines(self, column: int) -> list[str]:
        return [
            line for cell in (self.header[column], *(row[column] for row in self.rows)) for line in cell.split("\n")
        ]

    def _part(self, columns: list[int], widths: list[int]) -> Table:
        drawn = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, _GAP - 1, 0, 0))
        for column, width in zip(columns, widths, strict=True):
            justify: Any = "left" if column in self.words else "right"
            drawn.add_column(Text(self.header[column]), width=width, justify=justify, overflow="fold")
        for row in self.rows:
            drawn.add_row(*(Text(row[column]) for column in columns))
        return drawn


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


def complain(text: str) -> None:
    """Print a message on the error stream; wrapped on a terminal, while a file or a program gets it as it is."""
    said = paragraph(text)
    if sys.stderr.isatty():
        said = _filled(said, min(Console(stderr=True).width, _LONGEST_LINE))
    typer.echo(said, err=True)


class Notes:
    """What a command says beside its result: at once on stderr, and kept for the notes of its JSON."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def __call__(self, note: str) -> None:
        """Say one note."""
        self.said.append(note)
        complain(f"sottovoce: {note}")


def show(value: dict[str, Any], *, as_json: bool, text: RenderableType, notes: Notes | None = None) -> None:
    """Print the result of a command on stdout; JSON with what was said beside it."""
    if notes is not None and notes.said:
        value = {**value, "notes": [*notes.said, *value.get("notes", ())]}
    if as_json:
        typer.echo(json.dumps(value, indent=2, allow_nan=False))
    else:
        Console(emoji=False, highlight=False).print(wrapped(text) if isinstance(text, str) else text, crop=False)


def _filled(text: str, width: int) -> str:
    """Text with line breaks; a line that begins with blanks goes on below its own beginning."""
    lines = []
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        lines.append(
            textwrap.fill(
                line.strip(), width, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
            )
        )  # fmt: skip
    return "\n".join(lines)
