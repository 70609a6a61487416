"""Privacy loss against graph distance: one line per network, and beside each what it is compared with."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator
from numpy.typing import ArrayLike

from sottovoce.errors import ConfigError
from sottovoce.reports import style
from sottovoce.reports.caption import put_caption

COMPARED = (0, (1.5, 1.5))
LOCAL = "#6A6A6A"
MAX_TICKS = 14

_Arrays = tuple[
    np.ndarray, np.ndarray, np.ndarray, np.ndarray
]  # distances, middle, low and high: the middle where there is no band


class LossLine(NamedTuple):
    """Loss at every distance: a middle value, and the least and largest where a band is wanted."""

    distances: ArrayLike
    middle: ArrayLike
    low: ArrayLike | None = None
    high: ArrayLike | None = None


def loss_by_distance(
    lines: Mapping[str, LossLine],
    *,
    y_label: str,
    compared: Mapping[str, LossLine] | None = None,
    names: tuple[str, str] = ("exact", "compared"),
    local: tuple[str, float] | None = None,
    x_label: str = "graph distance (links)",
    least: float | None = None,
    log_y: bool = True,
) -> Figure:
    """Lines over distance; what a line is compared with has its colour, dotted with open markers.

    Args:
        lines: label -> loss; a band is drawn from low to high.
        y_label: which loss, with its unit.
        compared: label -> loss to be compared with the line of the same label.
        names: what solid and dotted lines are called, where there are dotted ones.
        local: name and value of the loss without a network, a grey line.
        x_label: what the places are.
        least: where a logarithmic axis begins; None: below the smallest value.
        log_y: a logarithmic vertical axis, on which zeros are left out.

    Raises:
        ConfigError: nothing to draw, arrays of different lengths, values that are not finite or below 0, or a comparison without its line.
    """
    solid, dotted = _drawable(lines, compared or {}, log_y)
    looks = style.line_looks(list(lines))
    with style.applied():
        figure, picture = style.new_figure(7.0, 4.8)
        axes = picture.subplots()
        if log_y:
            axes.set_yscale("log", nonpositive="clip")
        if local is not None:
            axes.axhline(local[1], color=LOCAL, linewidth=1.2, zorder=1, label="_local")
        for label, line in solid.items():
            _draw(axes, line, label, looks[label], band=True)
        for label, line in dotted.items():
            _draw(axes, line, f"_{label} compared", looks[label], band=False)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        _ticks(axes, np.unique(np.concatenate([line[0] for line in solid.values()])))
        _limit(axes, least, log_y)
        handles = _legend(looks, names if dotted else None, local)
        picture.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 4))
        put_caption(figure, None)
    return figure


def _drawable(
    lines: Mapping[str, LossLine], compared: Mapping[str, LossLine], log_y: bool
) -> tuple[dict[str, _Arrays], dict[str, _Arrays]]:
    """Lines and what they are compared with, as arrays that fit together."""
    if not lines:
        raise ConfigError("lines is empty; there is nothing to draw. Give at least one line.")
    if unknown := [label for label in compared if label not in lines]:
        raise ConfigError(f"{unknown[0]!r} is compared with no line; the lines are {', '.join(lines)}.")
    solid, dotted = (
        {label: _checked(label, line, log_y) for label, line in each.items()} for each in (lines, compared)
    )
    return solid, dotted


def _limit(axes: Axes, least: float | None, log_y: bool) -> None:
    """Where the vertical axis begins, and plain numbers on a short logarithmic one."""
    if not log_y:
        axes.set_ylim(bottom=0.0)
        return
    if least is not None and axes.get_ylim()[0] < least:
        axes.set_ylim(bottom=least)
    _plain_numbers(axes)


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
    return x[kept], y[kept], low[kept], high[kept]


def _draw(axes: Axes, line: _Arrays, label: str, look: style.LineLook, *, band: bool) -> None:
    x, y, low, high = line
    if band and ((low < y) | (high > y)).any():
        axes.fill_between(x, low, high, color=look.color, alpha=0.18, linewidth=0, label=f"_band {label}")
    shown = (
        {"linestyle": "-", "markersize": 5.5}
        if band
        else {"linestyle": COMPARED, "markerfacecolor": "white", "markersize": 5.5}
    )
    axes.plot(x, y, label=label, color=look.color, marker=look.marker, linewidth=1.6, **shown)  # type: ignore[arg-type]


def _ticks(axes: Axes, places: np.ndarray) -> None:
    """Ticks at the places, unless there are too many to be read; a sweep over decades is logarithmic."""
    if len(places) > 2 and places[0] > 0 and places[-1] / places[0] >= 16 and len(places) <= 8:
        axes.set_xscale("log")
    if len(places) <= MAX_TICKS:
        axes.xaxis.set_major_locator(FixedLocator(places.tolist()))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter("{x:g}")


def _plain_numbers(axes: Axes) -> None:
    """Plain numbers on a vertical axis of few decades; powers of ten would be one or two on a short one."""
    low, high = axes.get_ylim()
    if high / low < 100:
        axes.yaxis.set_major_locator(
            LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if high / low < 10 else (1.0, 2.0, 5.0))
        )
        axes.yaxis.set_minor_locator(NullLocator())
    if high / low < 1e4:
        axes.yaxis.set_major_formatter("{x:g}")


def _legend(
    looks: Mapping[str, style.LineLook], names: tuple[str, str] | None, local: tuple[str, float] | None
) -> list[Line2D]:
    found = [
        Line2D([], [], label=label, color=look.color, marker=look.marker, linestyle="-", linewidth=1.6, markersize=5.5)
        for label, look in looks.items()
    ]
    if names is not None:
        found.append(Line2D([], [], label=names[0], color="black", linestyle="-"))
        found.append(
            Line2D([], [], label=names[1], color="black", linestyle=COMPARED, marker="o", markerfacecolor="white")
        )
    if local is not None:
        found.append(Line2D([], [], label=local[0], color=LOCAL, linewidth=1.2))
    return found
