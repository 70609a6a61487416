"""Comma-separated files: a header that names the columns, then one record of numbers per row.

Rows are counted as an editor counts lines: the header is row 1. Blank lines are skipped. Files are converted in blocks;
a file with a block that does not convert is gone through cell by cell, only to say all that is wrong with it.
"""

from __future__ import annotations

import csv
import difflib
import io
import math
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError
from sottovoce.problems.complaints import BadTable, Complaint
from sottovoce.problems.loaders.text import brief, quoted, read_text, to_float

Floats = NDArray[np.float64]

_BLOCK = 4096  # rows held as text at a time


def read_csv(path: Path) -> tuple[list[str], Floats]:
    """Read a table of numbers.

    Returns:
        (the names of the columns, the table [N, columns]).

    Raises:
        ConfigError: an unreadable or empty file, a missing header, rows of different lengths, or a cell that is not a
            finite number; names the file, the row and the column.
    """
    stream = io.StringIO(read_text(path), newline="")
    reader = csv.reader(stream, strict=True)
    try:
        names = _header(path, reader)
        blocks = [_converted(names, rows) for _, rows in _blocks(reader)]
    except csv.Error as error:
        raise ConfigError(f"{path}, row {reader.line_num}: not valid CSV ({error}); correct that row.") from error
    if not blocks:
        raise ConfigError(f"{path}, row {reader.line_num}: no record follows the header; add at least one.")
    whole = [block for block in blocks if block is not None]
    if len(whole) < len(blocks):
        raise _everything_wrong(path, names)
    return names, np.concatenate(whole)


def pick_target(path: Path, names: list[str], table: Floats, *, target: str | None) -> tuple[Floats, Floats]:
    """Split a table into features [N, columns - 1] and the target column [N]; None is the last column."""
    if target is not None and target not in names:
        near = difflib.get_close_matches(target, names, n=1)
        shown = ", ".join(map(brief, names[:20])) + (", ..." if len(names) > 20 else "")
        raise ConfigError(
            f"{path}, row 1: no column is named {quoted(target)}; "
            + (f"did you mean {quoted(near[0])}?" if near else f"columns are {shown}.")
        )
    if len(names) < 2:
        raise ConfigError(
            f"{path}, row 1: {quoted(names[0])} is the only column; at least one feature and one target are needed, separated "
            "by commas."
        )
    column = len(names) - 1 if target is None else names.index(target)
    return np.delete(table, column, axis=1), np.ascontiguousarray(table[:, column])


def _header(path: Path, reader: Iterator[list[str]]) -> list[str]:
    names = [name.strip() for name in next((row for row in reader if row), [])]
    if not names:
        raise ConfigError(f"{path}, row 1: the file is empty; a header and at least one record are needed.")
    if all(to_float(name) is not None for name in names):
        raise ConfigError(
            f"{path}, row 1: the header is missing, all cells are numbers; write the names of the columns in a first row."
        )
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        raise ConfigError(
            f"{path}, row 1: one column, with marks that may separate several; separate columns by commas, and write numbers with a decimal "
            f"point."
        )
    _check_names(path, names)
    return names


def _check_names(path: Path, names: list[str]) -> None:
    for number, name in enumerate(names, start=1):
        if not name:
            raise ConfigError(f"{path}, row 1: column {number} has no name; name it, or remove it if it is an index.")
        if name in names[: number - 1]:
            raise ConfigError(f"{path}, row 1: two columns are named {quoted(name)}; rename or remove one.")


def _blocks(reader: Iterator[list[str]]) -> Iterator[tuple[list[int], list[list[str]]]]:
    """Yield the numbers and the cells of a few thousand rows at a time."""
    numbers: list[int] = []
    rows: list[list[str]] = []
    for row in reader:
        if not row:
            continue
        numbers.append(reader.line_num)  # type: ignore[attr-defined]
        rows.append(row)
        if len(rows) == _BLOCK:
            yield numbers, rows
            numbers, rows = [], []
    if rows:
        yield numbers, rows


def _converted(names: list[str], rows: list[list[str]]) -> Floats | None:
    """Convert a block; None where something is no plain number, also what `float` takes all the same (1_000, nan)."""
    if set(map(len, rows)) == {len(names)}:
        text = "".join(chain.from_iterable(rows))
        try:
            table = np.fromiter(map(float, chain.from_iterable(rows)), np.float64).reshape(len(rows), len(names))
        except ValueError:
            table = np.full((1, 1), math.nan)
        if np.isfinite(table).all() and "_" not in text and text.isascii():
            return table
    return None


def _everything_wrong(path: Path, names: list[str]) -> ConfigError:
    """Go through the whole file again, only to say all that is wrong with it; no message repeats a cell."""
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    _header(path, reader)
    found: dict[tuple[str | None, str, str], list[int]] = {}
    for numbers, rows in _blocks(reader):
        for number, row in zip(numbers, rows, strict=True):
            for wrong in _wrong_in(names, row):
                found.setdefault(wrong, []).append(number)
    complaints = [
        Complaint(
            source=str(path), column=column, problem=problem, count=len(rows), first=f"row {rows[0]}", advice=advice
        )
        for (column, problem, advice), rows in found.items()
    ]
    return BadTable(complaints)


def _wrong_in(names: list[str], row: list[str]) -> Iterator[tuple[str | None, str, str]]:
    """(column, problem, advice) of everything that is wrong with a row."""
    if len(row) != len(names):
        yield None, "too few or too many cells", f"every row needs {len(names)}, as the header has"
        return
    for name, cell in zip(names, row, strict=True):
        value = to_float(cell)
        if not cell.strip():
            yield name, "empty", "fill it in, declare what stands for it (missing), or remove the row"
        elif value is None:
            yield (
                name,
                "text where a number is needed",
                "declare what it means (categories, booleans, drop), or write numbers",
            )
        elif not math.isfinite(value):
            yield name, "not finite", "fill it in or remove the row"
