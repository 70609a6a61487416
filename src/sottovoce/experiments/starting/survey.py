"""What kinds of columns somebody's files have: a first guess, for the draft of a configuration.

Only names and kinds leave this module for a file. The values that were found are for the eyes of the data's owner (`--show-values`): one rare
diagnosis, or the age of the oldest patient, tells about a person.

number        plain numbers                                   date          days or times
yes or no     true and false, yes and no, 1 and 0             identifier    another value in every row
category      text of few values                              text          any other text
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sottovoce.errors import ConfigError
from sottovoce.problems import Table, files_of, read_table
from sottovoce.wording import brief, suggest

Kind = Literal["number", "yes or no", "category", "date", "identifier", "text"]

_YES_OR_NO = frozenset({"true", "false", "yes", "no", "y", "n", "t", "f", "0", "1", "0.0", "1.0"})
_EMPTY = frozenset({"", "na", "n/a", "nan", "null", "none"})
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([ T].*)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}( .*)?|\d{4}/\d{1,2}/\d{1,2}( .*)?")
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")
_WHOLE = re.compile(r"[+-]?\d+")
_CODE = re.compile(r"0\d+")  # no number that somebody measured
_MOST = 0.9  # a column is of a kind if this share of its cells is; `sottovoce check` tells about the others
_FEW = 50  # values of a category
_ENOUGH = 20  # rows before a column without repetitions is taken for an identifier


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Surveyed:
    """One column of somebody's files.

    Attributes:
        name: of the column.
        kind: as guessed.
        empty: cells without a value; for the data's owner only.
        cells: all others as text; for the data's owner only.
    """

    name: str
    kind: Kind
    empty: int
    cells: tuple[str, ...]

    def values(self) -> str:
        """What was found, for the data's owner: the range of numbers, the values of categories, nothing of what names a person."""
        if self.kind == "number":
            numbers = [float(cell.replace(",", ".")) for cell in self.cells if _NUMBER.fullmatch(cell)]
            return f"{min(numbers):g} to {max(numbers):g}" if numbers else ""
        distinct = sorted(set(self.cells))
        return ", ".join(map(brief, distinct)) if self.kind in ("yes or no", "category") else f"{len(distinct)} values"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Survey:
    """The columns of somebody's files, in their order."""

    columns: Mapping[str, Surveyed]
    files: int

    def role(self, option: str, name: str) -> Surveyed:
        """The column that an option names.

        Raises:
            ConfigError: there is none of this name.
        """
        if name not in self.columns:
            known = suggest(name, [*self.columns][:40])
            raise ConfigError(
                f"{option} {brief(name)!r}: no column has this name{known}{'' if known.endswith('?') else '.'}"
            )
        return self.columns[name]


def survey(data: Sequence[str]) -> Survey:
    """Look at files, folders or patterns of .csv and .parquet files.

    Raises:
        ConfigError: nothing there, a file that cannot be read, or files with other columns than the first.
    """
    tables = [read_table(path) for path in files_of(list(data))]
    first = tables[0]
    for other in tables[1:]:
        if different := sorted(set(first.columns) ^ set(other.columns)):
            raise ConfigError(
                f"{brief(other.source, 200)} and {brief(first.source, 200)} do not have the same columns; only one of them has "
                f"{', '.join(brief(name) for name in different[:10])}. Give all files the same columns."
            )
    return Survey(columns={name: _surveyed(name, tables) for name in first.columns}, files=len(tables))


def _surveyed(name: str, tables: Sequence[Table]) -> Surveyed:
    texts = [_text(cell) for table in tables for cell in table.columns[name].tolist()]
    cells = tuple(text for text in texts if text.casefold() not in _EMPTY)
    kind = _kind(cells, empty=len(texts) - len(cells))
    if kind != "number":  # elsewhere NA is a text like others, which may well be a code
        cells = tuple(filter(None, texts))
    return Surveyed(name=name, kind=kind, empty=len(texts) - len(cells), cells=cells)


def _text(cell: Any) -> str:
    """A cell as a file would write it, also where the file holds numbers."""
    if isinstance(cell, float):
        return "" if np.isnan(cell) else f"{int(cell)}" if cell.is_integer() else repr(cell)
    return str(cell)


def _kind(cells: Sequence[str], *, empty: int = 0) -> Kind:
    distinct, rows = set(cells), len(cells)
    if {cell.casefold() for cell in distinct} <= _YES_OR_NO:
        return "yes or no"
    if _share(_DATE, cells) >= _MOST:
        return "date"
    unrepeated = len(distinct) == rows >= _ENOUGH and not empty
    if _share(_NUMBER, cells) >= _MOST and not _share(_CODE, cells):
        return "identifier" if unrepeated and _share(_WHOLE, cells) == 1 else "number"
    if unrepeated:
        return "identifier"
    return "category" if len(distinct) <= min(_FEW, max(2, rows / 2)) else "text"


def _share(pattern: re.Pattern[str], cells: Sequence[str]) -> float:
    return sum(pattern.fullmatch(cell) is not None for cell in cells) / max(1, len(cells))
