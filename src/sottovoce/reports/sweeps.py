"""An error against a swept quantity, with error bars and reference slopes."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator
from numpy.typing import ArrayLike

from sottovoce.errors import ConfigError
from sottovoce.reports import style
from sottovoce.reports.caption import put_caption

MAX_TICKS = 8
_ALLOWED: dict[
    bool | None, tuple[Callable[[np.ndarray], np.ndarray], str]
] = {  # values on a logarithmic axis, a linear one, and lengths of bars
    True: (lambda values: values > 0, "above 0 on a logarithmic axis"),
    False: (np.isfinite, "finite"),
    None: (lambda values: values >= 0, "not negative"),
}
Points = tuple[np.ndarray, np.ndarray, np.ndarray | None]  # x, y, y_error, each [n]


def scaling(
    series: Mapping[str, tuple[ArrayLike, ArrayLike, ArrayLike | None]],
    *,
    x_label: str,
    y_label: str,
    log_x: bool = True,
    log_y: bool = True,
    reference_slopes: Sequence[float] | None = None,
    caption: str | None = None,
    title: str | None = None,
) -> Figure:
    """One line with error bars per series.

    A reference slope s is the line y = c x^s on logarithmic axes, with c such that it runs below the series whose own slope is nearest to s.
    A logarithmic x axis of few values has its ticks there; short logarithmic axes have plain numbers.

    Args:
        series: label -> (x, y, y_error), one entry per point; y_error is the half-length of the bar, or None.
        x_label: the swept quantity, with its unit.
        y_label: what was measured, with its unit.
        log_x: logarithmic x axis.
        log_y: logarithmic y axis.
        reference_slopes: exponents s to compare with.
        caption: what was run, under the picture.
        title: above the picture.

    Raises:
        ConfigError: no series, arrays of different lengths, values that are not finite (or not positive on a logarithmic
            axis), or reference slopes without two logarithmic axes.
    """
    if not series:
        raise ConfigError("series is empty; there is nothing to draw. Give at least one (x, y, y_error).")
    if reference_slopes and not (log_x and log_y):
        raise ConfigError("reference slopes are powers of x and need log_x and log_y both true.")
    points = {label: _checked(label, given, log_x, log_y) for label, given in series.items()}
    looks = style.line_looks(list(series))
    with style.applied():
        figure, picture = style.new_figure(6.8, 4.5)
        axes = picture.subplots()
        if log_x:
            axes.set_xscale("log")
        if log_y:
            axes.set_yscale("log", nonpositive="clip")
        for label, (x, y, error) in points.items():
            axes.errorbar(
                x, y, yerr=error, label=label, linewidth=1.6, markersize=5.5, capsize=3, elinewidth=1.0,
                **looks[label]._asdict(),
            )  # fmt: skip
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        style.put_title(axes, title)
        _draw_slopes(axes, list(points.values()), reference_slopes or ())
        _label_logarithms(axes, points, log_x, log_y)
        picture.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=min(len(series), 3))
        put_caption(figure, caption)
    return figure


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


def _label_logarithms(axes: Axes, points: Mapping[str, Points], log_x: bool, log_y: bool) -> None:
    if log_x:
        _label_swept_values(axes, np.unique(np.concatenate([x for x, _, _ in points.values()])))
    if log_y:
        _label_short_axis(axes)


def _label_swept_values(axes: Axes, values: np.ndarray) -> None:
    """Ticks at the values themselves, unless there are too many to be read."""
    if len(values) <= MAX_TICKS:
        axes.xaxis.set_major_locator(FixedLocator(values.tolist()))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_locator(NullLocator())


def _label_short_axis(axes: Axes) -> None:
    """Plain numbers on a vertical axis of less than two decades, where powers of ten would be one or two."""
    low, high = axes.get_ylim()
    if high / low < 100:
        axes.yaxis.set_major_locator(
            LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if high / low < 10 else (1.0, 2.0, 5.0))
        )
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_locator(NullLocator())


def _slope(points: Points) -> float:
    x, y, _ = points
    return float(np.polyfit(np.log(x), np.log(y), 1)[0]) if len(set(x.tolist())) > 1 else 0.0


def _draw_slopes(axes: Axes, series: Sequence[Points], slopes: Sequence[float]) -> None:
    for slope in slopes:
        if not np.isfinite(slope):
            raise ConfigError(f"reference slope {slope} must be a finite number.")
        x, y, _ = min(series, key=lambda points: abs(_slope(points) - slope))
        ends = np.array([x[0], x[-1]])
        constant = 0.6 * np.min(y / x**slope)
        line = constant * ends**slope
        axes.plot(
            ends, line, color="#6A6A6A", linewidth=1.0, linestyle=(0, (1, 2)), label=f"_slope {slope:g}", zorder=1
        )
        axes.annotate(
            f"slope {slope:g}".replace("-", "−"), (ends[1], line[1]), xytext=(5, 0), textcoords="offset points",
            va="center", fontsize=9, color="#4A4A4A", annotation_clip=False,
        )  # fmt: skip
