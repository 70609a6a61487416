"""One column of a table: what kind it is, what is declared about it, and the inputs of a model that it becomes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sottovoce.problems.columns.coding import Value, numbers, positions, yes_or_no
from sottovoce.problems.columns.table import Table
from sottovoce.problems.complaints import Complaint, of_cells
from sottovoce.reprs import short_repr
from sottovoce.wording import brief, brief_value

Floats = NDArray[np.float64]
Kind = Literal["number", "boolean", "category"]

OTHER = "other"  # the category of values that were not declared


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column that a table must have for a model's inputs.

    Attributes:
        name: of the column.
        kind: "number", "boolean" or "category".
        bounds: public range of a number; None: taken as it is.
        categories: declared values of a category.
        other: whether undeclared values of a category count as "other".
        missing: what stands for an empty cell; None: empty cells are refused.
        indicator: whether the model is told that the cell was empty.
    """

    name: str
    kind: Kind
    bounds: tuple[float, float] | None = None
    categories: tuple[Value, ...] = ()
    other: bool = False
    missing: Value | None = None
    indicator: bool = False

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the model's inputs that come from this column."""
        names: tuple[str, ...] = (self.name,)
        if self.kind == "category":
            names = tuple(
                f"{self.name} = {shown(value)}" for value in (*self.categories, *([OTHER] if self.other else []))
            )
        return (*names, f"{self.name} is missing") if self.indicator else names

    def coded(self, held: Table, complaints: list[Complaint]) -> Floats:
        """The column as inputs of a model [N, len(features)]."""
        coders: dict[Kind, Callable[[Table, list[Complaint]], tuple[Floats, NDArray[np.bool_]]]] = {
            "number": self._numbers,
            "boolean": self._booleans,
            "category": self._categories,
        }
        values, empty = coders[self.kind](held, complaints)
        if self.missing is None:
            complaints += of_cells(
                held.source, self.name, empty, held.rows, problem="empty",
                advice=f"fill them in, drop the column, or declare what stands for them: missing = {{ {_key(self.name)} = .. }}",
            )  # fmt: skip
        return np.column_stack([values, empty.astype(np.float64)]) if self.indicator else values

    def _numbers(self, held: Table, complaints: list[Complaint]) -> tuple[Floats, NDArray[np.bool_]]:
        values, empty = numbers(held, self.name, complaints)
        if self.missing is not None:
            values = np.where(empty, float(self.missing), values)
        return (values if self.bounds is None else scaled(values, self.bounds))[:, None], empty

    def _booleans(self, held: Table, complaints: list[Complaint]) -> tuple[Floats, NDArray[np.bool_]]:
        values, empty = yes_or_no(held, self.name, complaints)
        return np.where(empty, float(self.missing or 0), values)[:, None], empty

    def _categories(self, held: Table, complaints: list[Complaint]) -> tuple[Floats, NDArray[np.bool_]]:
        places, empty = positions(held, self.name, self.categories)
        known = len(self.categories)
        if self.missing is not None:
            fill = (
                known if self.missing == OTHER and OTHER not in self.categories else self.categories.index(self.missing)
            )
            places = np.where(empty, fill, places)
        strange = (places < 0) & ~empty
        if self.other:
            places = np.where(strange, known, places)
        else:
            complaints += of_cells(
                held.source, self.name, strange, held.rows, problem="not among the declared categories",
                advice='correct them, declare the value, or let it count as "other": unknown = "other"',
            )  # fmt: skip
        width = known + self.other
        return np.eye(width + 1)[np.where(places < 0, width, places)][:, :width], empty


def scaled(values: Floats, bounds: tuple[float, float]) -> Floats:
    """Numbers clipped to their bounds, and those mapped to [-1, 1]."""
    low, high = bounds
    result: Floats = 2.0 * ((np.clip(values, low, high) - low) / (high - low)) - 1.0
    return result


def fill_in_wrong(column: Column, value: Value) -> str | None:
    """What is wrong with a value that shall stand for empty cells; None where nothing is."""
    if column.kind == "number":
        finite = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        return None if finite else f"a number is needed; given {brief_value(value)}"
    if column.kind == "boolean":
        return None if isinstance(value, bool) else f"true or false is needed; given {brief_value(value)}"
    known = value in column.categories or (column.other and value == OTHER)
    return None if known else f"one of its categories is needed; given {brief_value(value)}"


def shown(value: Value) -> str:
    """A declared value as tables and files show it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _key(name: str) -> str:
    """A name as a key of a TOML file."""
    plain = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if plain else f'"{brief(name)}"'
