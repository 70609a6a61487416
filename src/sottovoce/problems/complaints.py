"""What is wrong with a table, gathered column by column and said in one answer.

A complaint names the column, the kind of problem, how many cells have it and the first row, and says what to do. It never
repeats what stands in a cell: messages are copied into tickets and logs, and a cell may be somebody's diagnosis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError
from sottovoce.wording import brief

MOST_LINES = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """One kind of problem in one column.

    Attributes:
        source: the file, or what else the table came from.
        column: its name; None when the whole table is meant.
        problem: what is wrong, in a few words.
        count: cells that have it, or rows where no column is named; 0 where the column as such is wrong.
        first: the first such row as the source counts them, in words; empty where there is none.
        advice: what to do.
    """

    source: str
    column: str | None
    problem: str
    count: int
    first: str
    advice: str

    def sentence(self) -> str:
        """The complaint without its source."""
        place = "" if self.column is None else f"column {brief(self.column)!r}: "
        if not self.count:
            return f"{place}{self.problem}; {self.advice}"
        thing = "row" if self.column is None else "cell"
        where = f"1 {thing}, {self.first}" if self.count == 1 else f"{self.count} {thing}s, the first in {self.first}"
        return f"{place}{self.problem} ({where}); {self.advice}"

    def describe(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "source": self.source,
            "column": self.column,
            "problem": self.problem,
            "cells": self.count,
            "first": self.first or None,
            "advice": self.advice,
        }


class BadTable(ConfigError):
    """A table that does not fit its schema; `complaints` lists everything that is wrong with it."""

    def __init__(self, complaints: Sequence[Complaint]) -> None:
        self.complaints = tuple(complaints)
        super().__init__(_message(self.complaints))


def refuse(complaints: Sequence[Complaint]) -> None:
    """Raise everything that was found, if anything was.

    Raises:
        BadTable: there is at least one complaint.
    """
    if complaints:
        raise BadTable(complaints)


def of_cells(
    source: str, column: str, wrong: NDArray[np.bool_], rows: Sequence[str] | RowNames, *, problem: str, advice: str
) -> list[Complaint]:
    """A complaint about the cells that a mask marks; none when it marks none."""
    count = int(wrong.sum())
    if not count:
        return []
    first = rows[int(np.argmax(wrong))]
    return [Complaint(source=source, column=column, problem=problem, count=count, first=first, advice=advice)]


def of_column(source: str, column: str | None, *, problem: str, advice: str) -> Complaint:
    """A complaint about a column as such, or about the whole table."""
    return Complaint(source=source, column=column, problem=problem, count=0, first="", advice=advice)


@dataclass(frozen=True, slots=True)
class RowNames:
    """How a table's rows are called: "row 17" of a file as an editor counts lines, "record 4" of a frame, counted from 0."""

    word: str
    numbers: NDArray[np.int64]

    def __getitem__(self, position: int) -> str:
        return f"{self.word} {self.numbers[position]}"


def _message(complaints: Sequence[Complaint]) -> str:
    sources = list(dict.fromkeys(each.source for each in complaints))
    if len(complaints) == 1:
        return f"{brief(sources[0], 200)}: {complaints[0].sentence()}."
    lines = [f"{len(complaints)} problems with the data; nothing was read:"]
    for source in sources:
        lines.append(f"{brief(source, 200)}:")
        lines += [f"  - {each.sentence()}" for each in complaints if each.source == source]
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], f"and {len(lines) - MOST_LINES} more lines like these."]
    return "\n".join(lines)
