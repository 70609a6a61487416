"""Learning curves as pictures: a metric against rounds, mean and spread over repeats, with exact theory on top.

With x[r, t] the metric of repeat r after round t, the line is the mean over r and the band reaches from the 10 % to the
90 % quantile over r. Decibels are taken last, 10 log10(mean_r x): the mean of decibels would be another, lower curve.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sottovoce.errors import ConfigError
from sottovoce.reports.pictures import colours, words
from sottovoce.reports.pictures.picture import MAX_LINES, Axis, Key, Line, Panel, Picture, chunks, floats
from sottovoce.reports.pictures.run_picture import QUANTILES, shown_rounds

if TYPE_CHECKING:
    from sottovoce.simulation import Run

Theory = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """What is drawn of a run: a metric, in decibels or not, each repeat as its mean over so many last rounds."""

    metric: str
    decibel: bool
    smooth: int = 1

    @property
    def share(self) -> bool:
        """Whether it is written in percent."""
        return self.metric in words.SHARES and not self.decibel

    @property
    def axis(self) -> Axis:
        """The vertical axis."""
        unit = ", in decibels (10 less: a tenth)" if self.decibel else ""
        label = (
            words.axis_label(self.metric)
            if not self.decibel
            else words.axis_label(self.metric).removesuffix(", in percent")
        )
        return Axis(label=label + unit, percent=self.share)


class Curve(NamedTuple):
    """What is drawn of one run, in the units of the axis."""

    rounds: np.ndarray  # [n]
    mean: np.ndarray  # [n]
    low: np.ndarray  # [n]
    high: np.ndarray  # [n]
    theory: np.ndarray | None  # [n]
    has_band: bool


def curves_picture(
    panels: Mapping[str, Mapping[str, Run]],
    measure: Measure,
    *,
    theory: Mapping[str, Theory] | None = None,
    title: str | None = None,
    privacy: str = "",
) -> Picture:
    """One line per run, named at its end; a label looks the same in every panel, and more than six lines get several panels.

    Args:
        panels: panel -> label -> run.
        measure: what is drawn of every run.
        theory: panel -> label -> exact expectation [rounds] in plain units, for some or all runs.
        title: above the picture; None: what the metric is.
        privacy: what is said about epsilon, below the picture.

    Raises:
        ConfigError: no runs, an unknown metric, values that are not finite (or not positive, in decibels), or theory of no run or length.
    """
    _require_some(panels, "panels")
    exact = theory or {}
    if unknown := [panel for panel in exact if panel not in panels]:
        raise ConfigError(f"theory has curves for panel {unknown[0]!r}, which is not among {', '.join(panels)}.")
    labels = dict.fromkeys(chain.from_iterable(panels.values()))
    looks = colours.looks(labels, colours.GROUPS, colours.SCHEMES)
    drawn: list[Panel] = []
    for name, runs in panels.items():
        _require_some(runs, f"panel {name!r}")
        drawn += _panels(name, _curves(runs, measure, exact.get(name, {})), looks, measure)
    return Picture(
        title=words.sentence(words.metric(measure.metric)) if title is None else title,
        panels=tuple(drawn),
        keys=tuple(_keys([line for panel in drawn for line in panel.lines])),
        facts_title=privacy,
        panel_size=(8.4, 4.2) if len(drawn) == 1 else (4.9, 3.3),
    )


def _keys(lines: Sequence[Line]) -> Iterator[Key]:
    """What theory and bands are, where there are any."""
    if any(line.colour == colours.THEORY for line in lines):
        yield Key(name="exact expectation", colour=colours.THEORY, dash="dashed")
    if any(line.low is not None for line in lines):
        yield Key(name="10–90 % of repeats", colour=colours.GREY, band=True)


def _panels(name: str, curves: Mapping[str, Curve], looks: Mapping[str, colours.Look], measure: Measure) -> list[Panel]:
    groups = chunks(list(curves), MAX_LINES)
    found = []
    for number, group in enumerate(groups, start=1):
        lines = [_line(label, curves[label], looks[label], measure) for label in group]
        # Theory comes last, so that it is drawn on top of what it explains.
        lines += [_theory(label, curves[label]) for label in group if curves[label].theory is not None]
        part = f"{number} of {len(groups)}" if len(groups) > 1 else ""
        found.append(
            Panel(
                title=" ".join(filter(None, (name, f"({part})" if part and name else part))),
                x=Axis(label="round", whole=True),
                y=measure.axis,
                lines=tuple(lines),
            )
        )
    return found


def _line(label: str, curve: Curve, look: colours.Look, measure: Measure) -> Line:
    return Line(
        name=label,
        x=floats(curve.rounds),
        y=floats(curve.mean),
        low=floats(curve.low) if curve.has_band else None,
        high=floats(curve.high) if curve.has_band else None,
        colour=look.colour,
        dash=look.dash,
        marker=look.marker,
        label=f"{label}: {words.percent(float(curve.mean[-1]))}" if measure.share else label,
    )


def _theory(label: str, curve: Curve) -> Line:
    assert curve.theory is not None
    return Line(
        name=f"theory {label}",
        x=floats(curve.rounds),
        y=floats(curve.theory),
        colour=colours.THEORY,
        dash="dashed",
        width=0.9,
    )


def _require_some(given: Mapping[str, object], name: str) -> None:
    if not given:
        raise ConfigError(f"{name} is empty; there is nothing to draw. Give at least one run.")


def _curves(runs: Mapping[str, Run], measure: Measure, theory: Theory) -> dict[str, Curve]:
    unknown = [label for label in theory if label not in runs]
    if unknown:
        raise ConfigError(f"theory has a curve for {unknown[0]!r}, which is not among the runs {', '.join(runs)}.")
    return {label: _curve(label, run, measure, theory.get(label)) for label, run in runs.items()}


def _curve(label: str, run: Run, measure: Measure, theory: np.ndarray | None) -> Curve:
    metric, decibel, smooth = measure.metric, measure.decibel, measure.smooth
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
    shown = shown_rounds(rounds)
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
