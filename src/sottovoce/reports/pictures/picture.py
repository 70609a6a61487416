"""A picture as a plain value: panels, lines, labels, colours, units and the numbers to draw, for whatever draws them.

`Picture.as_dict()` has nothing but texts, numbers, lists and dictionaries. Matplotlib paints such a value (`reports.paint`), and a page may draw
the same one. Numbers are in the units of their axis; a share stays a share, and its axis says that it is written in percent.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.errors import ConfigError

MAX_LINES = 6  # that one panel shows; more are drawn in several panels
Dash = Literal["solid", "dashed", "dotted", "dashdot"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis; without limits or ticks they follow from the numbers."""

    label: str
    scale: Literal["linear", "log"] = "linear"
    limits: tuple[float, float] | None = None
    ticks: tuple[tuple[float, str], ...] | None = None
    percent: bool = False
    whole: bool = False  # only whole numbers are marked


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Points joined by a line (dash "none": points alone), with what is written at its end.

    `low` and `high` are a band, or bars where `bars` is true. `area` draws steps, filled down to zero: a histogram.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    colour: str
    dash: str = "solid"
    marker: str = ""
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None
    bars: bool = False
    area: bool = False
    width: float = 1.8
    label: str = ""
    label_at: Literal["end", "left of peak", "right of peak"] = "end"

    def __post_init__(self) -> None:
        for values in (self.x, self.y, self.low, self.high):
            if values is not None and (len(values) != len(self.x) or not all(map(math.isfinite, values))):
                raise ConfigError(f"line {self.name!r} needs as many finite numbers in y as in x, and no others.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A straight line across a panel at one value of its y axis (of its x axis where `upright`), with a range around it where one is given."""

    name: str
    value: float
    colour: str
    dash: str = "dashed"
    low: float | None = None
    high: float | None = None
    upright: bool = False
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Words at a place in the units of the axes, to its right or left, or around it."""

    x: float
    y: float
    text: str
    colour: str
    side: Literal["right", "left", "middle"] = "right"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """A table of coloured squares, row by row from the top: numbers on one scale of colours, or colours of their own.

    Where there is no number (None) the square has `empty`'s colour, and where it is infinite that of `infinite`.
    """

    values: tuple[tuple[float | None, ...], ...]
    limits: tuple[float, float] = (0.0, 1.0)
    label: str = ""  # of the scale of colours; no scale where empty
    percent: bool = False
    colours: tuple[tuple[str, ...], ...] | None = None
    texts: tuple[tuple[str, ...], ...] | None = None
    infinite: tuple[tuple[int, int], ...] = ()  # (row, column)


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One pair of axes; `note` is written below it."""

    x: Axis
    y: Axis
    lines: tuple[Line, ...] = ()
    levels: tuple[Level, ...] = ()
    texts: tuple[Text, ...] = ()
    cells: Cells | None = None
    title: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        named = {line.name for line in self.lines if line.label}
        if len(named) > MAX_LINES:
            raise ConfigError(f"{len(named)} lines in one panel; at most {MAX_LINES} are read. Draw several panels.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """An entry of the legend, for what no label beside a line can say."""

    name: str
    colour: str
    dash: str = "solid"
    marker: str = ""
    band: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Panels with a title; `facts` are pairs of text and value below them, under `facts_title`, epsilon per observer for instance."""

    panels: tuple[Panel, ...]
    title: str = ""
    subtitle: str = ""
    keys: tuple[Key, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    facts_title: str = ""
    same_y: bool = True
    columns: int | None = None
    panel_size: tuple[float, float] = (8.4, 4.0)  # inches of one panel's axes, about

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    def texts(self) -> list[str]:
        """Everything that is written, for whoever searches it."""
        return list(_texts(self.as_dict()))


def floats(values: ArrayLike) -> tuple[float, ...]:
    """An array as plain numbers."""
    return tuple(float(value) for value in np.asarray(values, dtype=float).ravel())


def chunks(names: Sequence[str], most: int) -> list[list[str]]:
    """Names in groups of about equal size, none with more than `most`."""
    count = -(-len(names) // most)
    return [list(part) for part in np.array_split(np.array(names, dtype=object), count)] if count else []


def spread(places: Sequence[float], gap: float) -> list[float]:
    """The places moved as little as it takes for each to be at least `gap` from the next, order kept.

    Least squares under x_(i+1) - x_i >= gap: with y_i = x_i - i gap the order alone is left, which pooling neighbours that violate it solves.
    """
    order = sorted(range(len(places)), key=lambda index: places[index])
    groups: list[tuple[float, int]] = []  # sum and count of places that share one y
    for rank, index in enumerate(order):
        total, count = places[index] - rank * gap, 1
        while groups and groups[-1][0] / groups[-1][1] > total / count:
            before = groups.pop()
            total, count = total + before[0], count + before[1]
        groups.append((total, count))
    moved = [total / count for total, count in groups for _ in range(count)]
    found = [0.0] * len(places)
    for rank, index in enumerate(order):
        found[index] = moved[rank] + rank * gap
    return found


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)
