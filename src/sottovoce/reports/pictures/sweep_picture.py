"""An error against a swept quantity as a picture, with error bars and reference slopes."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.errors import ConfigError
from sottovoce.reports.pictures import colours
from sottovoce.reports.pictures.picture import MAX_LINES, Axis, Level, Line, Panel, Picture, Text, chunks, floats

MAX_TICKS = 8
_ALLOWED: dict[
    bool | None, tuple[Callable[[np.ndarray], np.ndarray], str]
] = {  # values on a logarithmic axis, a linear one, and lengths of bars
    True: (lambda values: values > 0, "above 0 on a logarithmic axis"),
    False: (np.isfinite, "finite"),
    None: (lambda values: values >= 0, "not negative"),
}
Points = tuple[np.ndarray, np.ndarray, np.ndarray | None]  # x, y, y_error, each [n]
Series = Mapping[str, tuple[ArrayLike, ArrayLike, ArrayLike | None]]


def sweep_picture(
    series: Series, x: Axis, y: Axis, *, slopes: Sequence[float] = (), title: str = "", subtitle: str = ""
) -> Picture:
    """One line with error bars per series, named at its end; more than six get several panels.

    A reference slope s is the line y = c x^s on logarithmic axes, with c such that it runs below the series whose own slope is nearest to s.

    Args:
        series: label -> (x, y, y_error), one entry per point; y_error is the half-length of the bar, or None.
        x: the swept quantity; a logarithmic axis of few values has its ticks there.
        y: what was measured.
        slopes: exponents s to compare with.
        title: above the picture.
        subtitle: below the title.

    Raises:
        ConfigError: no series, arrays of different lengths, values that are not finite (or not positive on a logarithmic
            axis), or reference slopes without two logarithmic axes.
    """
    if not series:
        raise ConfigError("series is empty; there is nothing to draw. Give at least one (x, y, y_error).")
    log_x, log_y = x.scale == "log", y.scale == "log"
    if slopes and not (log_x and log_y):
        raise ConfigError("reference slopes are powers of x and need log_x and log_y both true.")
    points = {label: _checked(label, given, log_x, log_y) for label, given in series.items()}
    panels = _panels(points, _ticks(x, points), y, slopes)
    return Picture(
        title=title,
        subtitle=subtitle,
        panels=tuple(panels),
        panel_size=(8.0, 4.3) if len(panels) == 1 else (5.4, 3.6),
    )


def _panels(points: Mapping[str, Points], x: Axis, y: Axis, slopes: Sequence[float]) -> list[Panel]:
    looks = colours.looks(points, colours.STANDINGS, colours.SCHEMES, colours.GROUPS)
    # What is the same everywhere because it has no noise is a level that every panel shows, not one of its lines.
    flat = [label for label in points if looks[label].colour == colours.GREEN and np.ptp(points[label][1]) == 0]
    if len(flat) == len(points):
        flat = []
    levels = tuple(_level(label, points[label], looks[label]) for label in flat)
    panels = []
    for group in chunks([label for label in points if label not in flat], MAX_LINES):
        slanted = tuple(_slope_line([points[label] for label in group], slope) for slope in slopes)
        panels.append(
            Panel(
                x=x,
                y=y,
                lines=(*(_line(label, points[label], looks[label]) for label in group), *slanted),
                levels=levels,
                texts=tuple(map(_slope_text, slanted)),
            )
        )
    return panels


def _slope_text(line: Line) -> Text:
    return Text(x=line.x[-1], y=line.y[-1], text=line.name.replace("-", "−"), colour=line.colour, side="left")


def _ticks(x: Axis, points: Mapping[str, Points]) -> Axis:
    """Ticks at the values themselves on a logarithmic axis, unless there are too many to be read."""
    values = np.unique(np.concatenate([each[0] for each in points.values()]))
    if x.scale != "log" or len(values) > MAX_TICKS:
        return x
    return Axis(label=x.label, scale="log", ticks=tuple((float(value), f"{value:,.10g}") for value in values))


def _line(label: str, points: Points, look: colours.Look) -> Line:
    x, y, error = points
    return Line(
        name=label,
        x=floats(x),
        y=floats(y),
        low=None if error is None else floats(y - error),
        high=None if error is None else floats(y + error),
        bars=error is not None,
        colour=look.colour,
        dash=look.dash,
        marker=look.marker,
        label=label,
    )


def _level(label: str, points: Points, look: colours.Look) -> Level:
    return Level(name=label, value=float(points[1][0]), colour=look.colour, label=label)


def _slope(points: Points) -> float:
    x, y, _ = points
    return float(np.polyfit(np.log(x), np.log(y), 1)[0]) if len(set(x.tolist())) > 1 else 0.0


def _slope_line(series: Sequence[Points], slope: float) -> Line:
    if not np.isfinite(slope):
        raise ConfigError(f"reference slope {slope} must be a finite number.")
    x, y, _ = min(series, key=lambda points: abs(_slope(points) - slope))
    ends = np.array([x[0], x[-1]])
    line = 0.6 * np.min(y / x**slope) * ends**slope
    return Line(
        name=f"slope {slope:g}", x=floats(ends), y=floats(line), colour=colours.REFERENCE, dash="dotted", width=1.0
    )


def _checked(
    label: str, given: tuple[ArrayLike, ArrayLike, ArrayLike | None], log_x: bool, log_y: bool
) -> Points:  # fmt: skip
    named = dict(zip(("x", "y", "y_error"), given, strict=True))
    arrays = {name: np.asarray(values, dtype=float) for name, values in named.items() if values is not None}
    x, y, error = arrays["x"], arrays["y"], arrays.get("y_error")
    if x.ndim != 1 or x.size == 0 or any(array.shape != x.shape for array in arrays.values()):
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ConfigError(f"series {label!r} has shapes {shapes}; give vectors of one length, not empty.")
    needed = {"x": log_x, "y": log_y, "y_error": None}
    for name, array in arrays.items():
        allowed, need = _ALLOWED[needed[name]]
        bad = ~(np.isfinite(array) & allowed(array))
        if bad.any():
            raise ConfigError(
                f"{name} of series {label!r} has the value {array[bad][0]}; it must be finite and {need}."
            )
    order = np.argsort(x, kind="stable")
    return x[order], y[order], None if error is None else error[order]
