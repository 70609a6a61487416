"""From cells to numbers, by what was declared: numbers, yes and no, one of several categories. What does not fit is a complaint."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sottovoce.problems.columns.table import Cells, Table
from sottovoce.problems.complaints import Complaint, of_cells

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Value = str | bool | int | float  # of a category or a label, as a file declares it

_EMPTY_NUMBERS = frozenset({"", "na", "n/a", "nan", "null", "none"})  # how programs write that a number is not there
_YES = {"true": 1.0, "yes": 1.0, "y": 1.0, "t": 1.0, "1": 1.0, "false": 0.0, "no": 0.0, "n": 0.0, "f": 0.0, "0": 0.0}
LARGEST = 1e15  # the squares of a million such numbers add up to less than the largest float32, 3.4e38


def numbers(table: Table, name: str, complaints: list[Complaint]) -> tuple[Floats, Mask]:
    """A column of numbers [N], 0 where a cell is empty, and which cells are."""
    cells = table.columns[name]
    if cells.dtype.kind == "b":
        cells = cells.astype(np.float64)
    values = cells if cells.dtype.kind == "f" else _parsed(cells)
    empty = np.isnan(values) if cells.dtype.kind == "f" else _is_empty(cells)
    complaints += of_cells(
        table.source, name, np.isnan(values) & ~empty, table.rows, problem="text where a number is needed",
        advice="write plain numbers with a decimal point, or declare the column as a category or drop it",
    )  # fmt: skip
    complaints += of_cells(
        table.source, name, np.abs(values) > LARGEST, table.rows, problem=f"infinite, or above {LARGEST:g} in size",
        advice="correct them, or give the column in other units",
    )  # fmt: skip
    return np.where(np.isfinite(values), values, 0.0), empty


def yes_or_no(table: Table, name: str, complaints: list[Complaint]) -> tuple[Floats, Mask]:
    """A column of yes and no as 1 and 0 [N], and which cells are empty."""
    cells = table.columns[name]
    if cells.dtype.kind == "b":
        return cells.astype(np.float64), np.zeros(len(cells), dtype=bool)
    if cells.dtype.kind == "f":
        values, empty = cells, np.isnan(cells)
        wrong = ~empty & (values != 0) & (values != 1)
    else:
        values = np.array([_YES.get(cell.casefold(), math.nan) for cell in cells])
        empty = cells == ""
        wrong = np.isnan(values) & ~empty
    complaints += of_cells(
        table.source, name, wrong, table.rows, problem="neither yes nor no",
        advice="write true and false, yes and no, or 1 and 0; or declare the column as a category",
    )  # fmt: skip
    return np.where(wrong | empty, 0.0, values), empty


def positions(table: Table, name: str, values: Sequence[Value]) -> tuple[NDArray[np.int64], Mask]:
    """Where in the declared values each cell stands [N], -1 for none of them, and which cells are empty."""
    cells = table.columns[name]
    texts, sizes = _lookups(values)
    if cells.dtype.kind == "b":
        found = [sizes.get(float(cell), texts.get("true" if cell else "false", -1)) for cell in cells.tolist()]
        return np.array(found, dtype=np.int64), np.zeros(len(cells), dtype=bool)
    if cells.dtype.kind == "f":
        whole = [sizes.get(cell, texts.get(_digits(cell), -1)) for cell in cells.tolist()]
        return np.array(whole, dtype=np.int64), np.isnan(cells)
    held = {text: _position(text, texts, sizes) for text in set(cells.tolist())}
    return np.array([held[cell] for cell in cells.tolist()], dtype=np.int64), cells == ""


def _lookups(values: Sequence[Value]) -> tuple[dict[str, int], dict[float, int]]:
    """Declared text is met by that very text, "007" not by 7; a declared number by however it is written."""
    texts = {value: place for place, value in enumerate(values) if isinstance(value, str)}
    texts |= {str(value).lower(): place for place, value in enumerate(values) if isinstance(value, bool)}
    sizes = {float(value): place for place, value in enumerate(values) if not isinstance(value, str)}
    return texts, sizes


def _position(text: str, texts: Mapping[str, int], sizes: Mapping[float, int]) -> int:
    if text in texts:
        return texts[text]
    if text.lower() in ("true", "false"):
        return texts.get(text.lower(), -1)
    number = _number(text)
    return -1 if math.isnan(number) else sizes.get(number, -1)


def _digits(number: float) -> str:
    """A number of a frame as a file would write it."""
    return str(int(number)) if math.isfinite(number) and number == int(number) else repr(number)


def _is_empty(cells: Cells) -> Mask:
    return np.array([cell.casefold() in _EMPTY_NUMBERS for cell in cells.tolist()])


def _parsed(cells: Cells) -> Floats:
    """Text as numbers; NaN where it is none, or empty."""
    try:
        values = cells.astype(np.float64)
    except ValueError:
        return np.array([_number(cell) for cell in cells.tolist()])
    if "_" in "".join(cells.tolist()):  # Python reads 1_000 as a thousand, and people do not write that
        return np.array([_number(cell) for cell in cells.tolist()])
    return values


def _number(text: str) -> float:
    try:
        return float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        return math.nan
