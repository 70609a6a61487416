"""Learning curves: a metric against rounds, mean and spread over repeats, with exact theory on top.

With x[r, t] the metric of repeat r after round t, the line is the mean over r and the band reaches from the 10 % to the
90 % quantile over r. Decibels are taken last, 10 log10(mean_r x): the mean of decibels would be another, lower curve.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from sottovoce.errors import ConfigError
from sottovoce.reports import style
from sottovoce.reports.caption import put_caption

if TYPE_CHECKING:
    from sottovoce.simulation import Run

MAX_POINTS = 2000  # per line, so that an SVG stays small
QUANTILES = (0.1, 0.9)
LABEL_GAP = 1.25  # least distance of two labels at line ends, in font sizes
NAMES = {
    "msd_centroid": "mean-square deviation of the centroid",
    "msd_average": "mean-square deviation, mean over agents",
    "disagreement": "disagreement between agents",
    "loss": "loss of the centroid",
    "accuracy": "accuracy of the centroid",
    "test_error": "test error of the centroid",
    "error_of_agent_0": "squared error of agent 0",
}


class Curve(NamedTuple):
    """What is drawn of one run, in the units of the axis."""

    rounds: np.ndarray  # [n], n <= MAX_POINTS
    mean: np.ndarray  # [n]
    low: np.ndarray  # [n]
    high: np.ndarray  # [n]
    theory: np.ndarray | None  # [n]
    has_band: bool


def learning_curves(
    runs: Mapping[str, Run],
    metric: str = "msd_centroid",
    *,
    theory: Mapping[str, np.ndarray] | None = None,
    decibel: bool | None = None,
    smooth: int = 1,
    caption: str | None = None,
    title: str | None = None,
) -> Figure:
    """One line per run: the mean over repeats against rounds, with a band over the repeats.

    Lines are named at their ends where these lie apart, otherwise in a legend below. Of a long run evenly spaced rounds
    are drawn, the first and the last among them.

    Args:
        runs: label -> run.
        metric: a metric that every run has.
        theory: label -> exact expectation [rounds] in plain units, for some or all runs.
        decibel: draw 10 log10 of the metric; None: for mean-square deviations.
        smooth: draw each repeat as its mean over this many last rounds; say so in the caption.
        caption: what was run, under the picture.
        title: above the picture.

    Raises:
        ConfigError: no runs, an unknown metric, values that are not finite (or not positive, in decibels), or a theory
            curve of no run or of another length.
    """
    _require_some(runs, "runs")
    decibel = _decibel(metric, decibel)
    curves = _curves(runs, metric, theory or {}, decibel, smooth)
    looks = style.line_looks(list(runs))
    with style.applied():
        figure, picture = style.new_figure(7.5, 4.5)
        axes = picture.subplots()
        _draw(axes, curves, looks)
        axes.set_xlabel("round")
        axes.set_ylabel(_axis_label(metric, decibel))
        style.put_title(axes, title)
        named = _name_line_ends(figure, axes, curves, looks)
        _legend(picture, {} if named else looks, list(curves.values()))
        put_caption(figure, caption)
    return figure


def curve_grid(
    panels: Mapping[str, Mapping[str, Run]],
    metric: str = "msd_centroid",
    *,
    theory: Mapping[str, Mapping[str, np.ndarray]] | None = None,
    decibel: bool | None = None,
    smooth: int = 1,
    same_scale: bool = True,
    caption: str | None = None,
    title: str | None = None,
) -> Figure:
    """Learning curves side by side on the same axes, for instance one panel per algorithm and one line per scheme.

    A label looks the same in every panel.

    Args:
        panels: panel -> label -> run.
        metric: a metric that every run has.
        theory: panel -> label -> exact expectation [rounds] in plain units, for some or all runs.
        decibel: draw 10 log10 of the metric; None: for mean-square deviations.
        smooth: draw each repeat as its mean over this many last rounds; say so in the caption.
        same_scale: the same vertical axis in all panels.
        caption: what was run, under the picture.
        title: above the picture.

    Raises:
        ConfigError: as `learning_curves`, or theory for a panel that does not exist.
    """
    _require_some(panels, "panels")
    exact = theory or {}
    if unknown := [panel for panel in exact if panel not in panels]:
        raise ConfigError(f"theory has curves for panel {unknown[0]!r}, which is not among {', '.join(panels)}.")
    decibel = _decibel(metric, decibel)
    curves = {}
    for panel, runs in panels.items():
        _require_some(runs, f"panel {panel!r}")
        curves[panel] = _curves(runs, metric, exact.get(panel, {}), decibel, smooth)
    looks = style.line_looks(list(dict.fromkeys(chain.from_iterable(panels.values()))))
    columns = 2 if len(panels) in (2, 4) else min(len(panels), 3)
    rows = -(-len(panels) // columns)
    with style.applied():
        figure, picture = style.new_figure(max(3.4 * columns, 6.0), 3.1 * rows + 0.7)
        grid = picture.subplots(rows, columns, sharex=True, sharey=same_scale, squeeze=False)
        for axes, (panel, lines) in zip(grid.flat, curves.items(), strict=False):
            _draw(axes, lines, looks, ticks=5)
            axes.set_title(panel)
        for position in range(len(panels), rows * columns):
            grid.flat[position - columns].tick_params(labelbottom=True)
            grid.flat[position].remove()
        for axes in grid.flat[max(len(panels) - columns, 0) : len(panels)]:
            axes.set_xlabel("round")
        picture.supylabel(_axis_label(metric, decibel), fontsize=10)
        style.put_title(picture, title)
        _legend(picture, looks, list(chain.from_iterable(lines.values() for lines in curves.values())))
        put_caption(figure, caption)
    return figure


def with_test_error(run: Run) -> Run:
    """The run with `test_error` = 1 - accuracy among its metrics."""
    return replace(run, metrics={**run.metrics, "test_error": 1.0 - run.metrics["accuracy"]})


def _require_some(given: Mapping[str, object], name: str) -> None:
    if not given:
        raise ConfigError(f"{name} is empty; there is nothing to draw. Give at least one run.")


def _decibel(metric: str, decibel: bool | None) -> bool:
    return metric.startswith("msd_") if decibel is None else decibel


def _axis_label(metric: str, decibel: bool) -> str:
    return NAMES.get(metric, metric.replace("_", " ")) + (" (dB)" if decibel else "")


def _curves(
    runs: Mapping[str, Run], metric: str, theory: Mapping[str, np.ndarray], decibel: bool, smooth: int
) -> dict[str, Curve]:  # fmt: skip
    unknown = [label for label in theory if label not in runs]
    if unknown:
        raise ConfigError(f"theory has a curve for {unknown[0]!r}, which is not among the runs {', '.join(runs)}.")
    return {label: _curve(label, run, metric, theory.get(label), decibel, smooth) for label, run in runs.items()}


def _curve(label: str, run: Run, metric: str, theory: np.ndarray | None, decibel: bool, smooth: int) -> Curve:
    if metric not in run.metrics:
        raise ConfigError(f"run {label!r} has no metric {metric!r}. Choose from {', '.join(run.metrics)}.")
    values = np.asarray(run.metrics[metric], dtype=float)  # [repeats, rounds]
    if values.ndim != 2 or values.size == 0:
        raise ConfigError(
            f"{metric} of run {label!r} has shape {values.shape}; it must be [repeats, rounds], not empty."
        )
    rounds = values.shape[1]
    _require_drawable(values, f"{metric} of run {label!r}", decibel)
    if theory is not None:
        theory = np.asarray(theory, dtype=float)
        if theory.shape != (rounds,):
            raise ConfigError(f"the theory curve of {label!r} has shape {theory.shape}; the run has {rounds} rounds.")
        _require_drawable(theory[None], f"the theory curve of {label!r}", decibel)
    values = _running_mean(values, smooth)
    theory = None if theory is None else _running_mean(theory[None], smooth)[0]
    shown = np.unique(np.linspace(0, rounds - 1, min(rounds, MAX_POINTS)).round().astype(int))
    values = values[:, shown]
    low, high = np.quantile(values, QUANTILES, axis=0)
    lines = [values.mean(axis=0), low, high, None if theory is None else theory[shown]]
    mean, low, high, exact = (10 * np.log10(line) if decibel and line is not None else line for line in lines)
    return Curve(shown + 1, mean, low, high, exact, values.shape[0] > 1)


def _running_mean(values: np.ndarray, window: int) -> np.ndarray:
    """The mean over the last `window` rounds, over fewer at the start; [repeats, rounds]."""
    if not 1 <= window <= values.shape[1]:
        raise ConfigError(f"smooth = {window}; it must be from 1 to the number of rounds, {values.shape[1]}.")
    sums = np.cumsum(np.concatenate([np.zeros((len(values), 1)), values], axis=1), axis=1)
    last = np.arange(1, values.shape[1] + 1)
    first = np.maximum(last - window, 0)
    return np.asarray((sums[:, last] - sums[:, first]) / (last - first))


def _require_drawable(values: np.ndarray, what: str, decibel: bool) -> None:
    bad = ~np.isfinite(values) | ((values <= 0) if decibel else False)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        need = "finite and above 0 for decibels; use decibel=False" if decibel else "finite"
        raise ConfigError(f"{what} is {values[row, column]} after round {column + 1}; it must be {need}.")


def _draw(axes: Axes, curves: Mapping[str, Curve], looks: Mapping[str, style.LineLook], ticks: int = 7) -> None:
    for position, (label, curve) in enumerate(curves.items()):
        look, length = looks[label], len(curve.rounds)
        if curve.has_band:
            axes.fill_between(curve.rounds, curve.low, curve.high, color=look.color, alpha=0.18, linewidth=0)
        # Markers of different lines stand at different rounds, so that lines on top of each other both show.
        every = max(length // 8, 1)
        start = min((every * position) // max(len(curves), 1), length - 1)
        axes.plot(
            curve.rounds, curve.mean, label=label, linewidth=1.7, markersize=5, markeredgecolor="white",
            markeredgewidth=0.6, markevery=(start, every), zorder=5 if length == 1 else 3, **look._asdict(),
        )  # fmt: skip
    for label, curve in curves.items():
        if curve.theory is not None:
            axes.plot(curve.rounds, curve.theory, label=f"_theory {label}", **style.THEORY)  # type: ignore[arg-type]
    axes.xaxis.set_major_locator(MaxNLocator(ticks, integer=True, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.margins(x=0.02)


def _name_line_ends(
    figure: Figure, axes: Axes, curves: Mapping[str, Curve], looks: Mapping[str, style.LineLook]
) -> bool:
    """Write each line's label at its end, unless two would collide; whether it was done."""
    if len({curve.rounds[-1] for curve in curves.values()}) > 1:
        return False
    names = [
        axes.annotate(
            label, (curve.rounds[-1], curve.mean[-1]), xytext=(7, 0), textcoords="offset points", va="center",
            fontsize=9, color=looks[label].color, annotation_clip=False, gid="line-end",
        )
        for label, curve in curves.items()
    ]  # fmt: skip
    figure.draw_without_rendering()
    boxes = [name.get_window_extent() for name in names]
    heights = np.sort([(box.y0 + box.y1) / 2 for box in boxes])
    apart = np.diff(heights).min(initial=np.inf) >= LABEL_GAP * 9 * figure.dpi / 72
    if apart and max(box.width for box in boxes) <= 0.3 * figure.bbox.width:
        return True
    for name in names:
        name.remove()
    return False


def _legend(picture: SubFigure, looks: Mapping[str, style.LineLook], curves: list[Curve]) -> None:
    handles: list[Line2D | Patch] = [
        Line2D([], [], label=label, linewidth=1.7, markersize=5, markeredgecolor="white", markeredgewidth=0.6, **look._asdict())
        for label, look in looks.items()
    ]  # fmt: skip
    if any(curve.theory is not None for curve in curves):
        handles.append(Line2D([], [], label="exact expectation", **style.THEORY))  # type: ignore[arg-type]
    if any(curve.has_band for curve in curves):
        handles.append(Patch(color="#4D4D4D", alpha=0.18, linewidth=0, label="10–90 % of repeats"))
    if not handles:
        return
    # A legend entry takes about 0.07 inch per letter and 0.8 inch for the line and the gap.
    widest = 0.8 + 0.07 * max(len(str(handle.get_label())) for handle in handles)
    width = picture.bbox.width / picture.figure.dpi  # inches
    columns = int(np.clip(width // widest, 1, len(handles)))
    rows = -(-len(handles) // columns)
    picture.legend(handles=handles, loc="outside lower center", ncols=-(-len(handles) // rows))
