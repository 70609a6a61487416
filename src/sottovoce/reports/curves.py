"""Learning curves, painted: a metric against rounds, mean and spread over repeats, with exact theory on top."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from sottovoce.errors import ConfigError
from sottovoce.reports.painting import paint
from sottovoce.reports.pictures import words
from sottovoce.reports.pictures.curve_pictures import Measure, curves_picture

if TYPE_CHECKING:
    from sottovoce.simulation import Run

NAMES = words.METRICS


def learning_curves(
    runs: Mapping[str, Run],
    metric: str = "msd_centroid",
    *,
    theory: Mapping[str, np.ndarray] | None = None,
    decibel: bool | None = None,
    smooth: int = 1,
    privacy: str = "",
    caption: str | None = None,
    title: str | None = None,
) -> Figure:
    """One line per run: the mean over repeats against rounds, with a band over the repeats.

    Lines are named at their ends; more than six get several panels. Of a long run evenly spaced rounds are drawn, the first
    and the last among them.

    Args:
        runs: label -> run.
        metric: a metric that every run has.
        theory: label -> exact expectation [rounds] in plain units, for some or all runs.
        decibel: draw 10 log10 of the metric; None: for mean-square deviations.
        smooth: draw each repeat as its mean over this many last rounds; say so in the caption.
        privacy: what is said about epsilon, below the picture.
        caption: what was run, under the picture.
        title: above the picture; None: what the metric is.

    Raises:
        ConfigError: no runs, an unknown metric, values that are not finite (or not positive, in decibels), or a theory
            curve of no run or of another length.
    """
    if not runs:
        raise ConfigError("runs is empty; there is nothing to draw. Give at least one run.")
    picture = curves_picture(
        {"": runs}, _measure(metric, decibel, smooth), theory={"": theory or {}}, title=title, privacy=privacy
    )
    return paint(picture, caption=caption)


def curve_grid(
    panels: Mapping[str, Mapping[str, Run]],
    metric: str = "msd_centroid",
    *,
    theory: Mapping[str, Mapping[str, np.ndarray]] | None = None,
    decibel: bool | None = None,
    smooth: int = 1,
    same_scale: bool = True,
    privacy: str = "",
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
        privacy: what is said about epsilon, below the picture.
        caption: what was run, under the picture.
        title: above the picture; None: what the metric is.

    Raises:
        ConfigError: as `learning_curves`, or theory for a panel that does not exist.
    """
    picture = curves_picture(panels, _measure(metric, decibel, smooth), theory=theory, title=title, privacy=privacy)
    return paint(replace(picture, same_y=same_scale), caption=caption)


def with_test_error(run: Run) -> Run:
    """The run with `test_error` = 1 - accuracy among its metrics."""
    return replace(run, metrics={**run.metrics, "test_error": 1.0 - run.metrics["accuracy"]})


def _measure(metric: str, decibel: bool | None, smooth: int) -> Measure:
    """Mean-square deviations are drawn in decibels unless told otherwise."""
    return Measure(metric=metric, decibel=metric.startswith("msd_") if decibel is None else decibel, smooth=smooth)
