"""Privacy loss against graph distance, or another place, as a picture: one line per network, and beside it what it is compared with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.errors import ConfigError
from sottovoce.reports.pictures import colours
from sottovoce.reports.pictures.picture import MAX_LINES, Axis, Level, Line, Panel, Picture, chunks, floats
from sottovoce.reprs import short_repr

MAX_TICKS = 14


class LossLine(NamedTuple):
    """Loss at every distance: a middle value, and the least and largest where a band is wanted."""

    distances: ArrayLike
    middle: ArrayLike
    low: ArrayLike | None = None
    high: ArrayLike | None = None

    def __repr__(self) -> str:
        return short_repr(self)


class _Arrays(NamedTuple):
    """A line as arrays of one length; low and high are the middle where there is no band."""

    x: np.ndarray
    middle: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """How losses are shown: the words on the axes, and the scale."""

    y_label: str
    x_label: str = "links between the two agents"
    log_y: bool = True
    percent: bool = False
    least: float | None = None  # where a logarithmic axis begins
    names: tuple[str, str] = ("exact", "compared")  # of a line and of what it is compared with
    local: tuple[str, float] | None = None  # name and value of the loss without a network


def distance_picture(
    lines: Mapping[str, LossLine], shown: Shown, *, compared: Mapping[str, LossLine] | None = None, title: str = ""
) -> Picture:
    """Lines over distance; what a line is compared with has its colour and is dotted. More than six lines get panels of their own.

    Args:
        lines: label -> loss; a band is drawn from low to high.
        shown: words and scale.
        compared: label -> loss to be compared with the line of the same label.
        title: above the picture.

    Raises:
        ConfigError: nothing to draw, arrays of different lengths, values that are not finite or below 0, or a comparison without its line.
    """
    beside = compared or {}
    if not lines:
        raise ConfigError("lines is empty; there is nothing to draw. Give at least one line.")
    if unknown := [label for label in beside if label not in lines]:
        raise ConfigError(f"{unknown[0]!r} is compared with no line; the lines are {', '.join(lines)}.")
    solid, dotted = (
        {label: _checked(label, line, shown.log_y) for label, line in each.items()} for each in (lines, beside)
    )
    looks = colours.looks(lines, colours.OBSERVERS)
    panels = [_panel(group, solid, dotted, shown, looks) for group in _groups(list(lines), len(dotted))]
    return Picture(
        title=title,
        panels=tuple(panels),
        panel_size=(8.0, 4.2) if len(panels) == 1 else (5.2, 3.3),
        columns=1 if len(panels) == 1 else 2,
    )


def _groups(labels: list[str], compared: int) -> list[list[str]]:
    """Labels by panel, so that none has more than six lines: a label and what it is compared with stay together."""
    if len(labels) + compared <= MAX_LINES:
        return [labels]
    return [[label] for label in labels] if compared else chunks(labels, MAX_LINES)


def _panel(
    group: list[str],
    solid: Mapping[str, _Arrays],
    dotted: Mapping[str, _Arrays],
    shown: Shown,
    looks: Mapping[str, colours.Look],
) -> Panel:
    """The lines of one panel: named by themselves, and where there is only one with its comparison, by what they are."""
    alone = len(group) == 1 and group[0] in dotted
    lines = []
    for label in group:
        look = looks[label]
        kinds = [(solid[label], shown.names[0], "solid")]
        kinds += [(dotted[label], shown.names[1], "dotted")] if label in dotted else []
        for values, name, dash in kinds:
            text = name if alone else f"{label}, {name}" if len(dotted) else label
            lines.append(_line(values, text, look, dash))
    places = np.unique(np.concatenate([solid[label].x for label in group]))
    local = shown.local
    return Panel(
        title=group[0] if alone and len(solid) > 1 else "",
        x=_places(places, shown.x_label),
        y=Axis(
            label=shown.y_label, scale="log" if shown.log_y else "linear", percent=shown.percent, limits=_limits(lines, local, shown)
        ),
        lines=tuple(lines),
        levels=() if local is None else (
            Level(name=local[0], value=local[1], colour=colours.REFERENCE, dash="dashed", label=local[0]),
        ),
    )  # fmt: skip


def _line(values: _Arrays, text: str, look: colours.Look, dash: str) -> Line:
    band = ((values.low < values.middle) | (values.high > values.middle)).any()
    return Line(
        name=text,
        x=floats(values.x),
        y=floats(values.middle),
        low=floats(values.low) if band else None,
        high=floats(values.high) if band else None,
        colour=look.colour,
        dash=dash,
        marker=look.marker if dash == "solid" else "",
        label=text,
    )


def _limits(lines: list[Line], local: tuple[str, float] | None, shown: Shown) -> tuple[float, float] | None:
    """Limits where an axis must begin at a given value."""
    tops = [max(line.high or line.y) for line in lines] + ([] if local is None else [local[1]])
    if shown.percent:
        return None
    if not shown.log_y:
        return (0.0, 1.05 * max(tops))
    lowest = min(min(line.low or line.y) for line in lines)
    return None if shown.least is None or lowest >= shown.least else (shown.least, 1.3 * max(tops))


def _places(places: np.ndarray, label: str) -> Axis:
    """Ticks at the places, unless there are too many to be read; a sweep over decades is logarithmic."""
    log = len(places) > 2 and places[0] > 0 and places[-1] / places[0] >= 16 and len(places) <= 8
    ticks = tuple((float(place), f"{place:g}") for place in places) if len(places) <= MAX_TICKS else None
    return Axis(label=label, scale="log" if log else "linear", ticks=ticks)


def _checked(label: str, line: LossLine, log_y: bool) -> _Arrays:
    x, y = np.asarray(line.distances, dtype=float), np.asarray(line.middle, dtype=float)
    low, high = (y if values is None else np.asarray(values, dtype=float) for values in (line.low, line.high))
    given = (x, y, low, high)
    if x.ndim != 1 or x.size == 0 or any(values.shape != x.shape for values in given):
        raise ConfigError(f"line {label!r} needs one value for every distance, and at least one distance.")
    drawn = np.concatenate(given)
    if not (right := np.isfinite(drawn) & (drawn >= 0)).all():
        raise ConfigError(
            f"line {label!r} has the value {drawn[~right][0]}; a loss to be drawn is finite and not negative."
        )
    kept = y > 0 if log_y else np.ones(len(y), dtype=bool)
    if not kept.any():
        raise ConfigError(f"line {label!r} is 0 everywhere, which a logarithmic axis cannot show. Use log_y=False.")
    return _Arrays(x[kept], y[kept], low[kept], high[kept])
