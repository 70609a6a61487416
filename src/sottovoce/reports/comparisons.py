"""Figures of a comparison at equal privacy: the error of every scheme against epsilon, painted and written with captions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from sottovoce.reports.files import save
from sottovoce.reports.painting import paint, titled
from sottovoce.reports.pictures.comparison_picture import comparison_picture

if TYPE_CHECKING:
    from sottovoce.experiments import Comparison


def frontier(
    comparison: Comparison,
    measure: str | None = None,
    *,
    algorithm: str | None = None,
    caption: str | None = None,
    title: str | None = None,
) -> Figure:
    """The error of every scheme against epsilon, both logarithmic, in a panel for every observer and algorithm.

    Every line is named at its end, a scheme has one colour in all figures, bars are one standard error, and the green line is the run
    without noise. What has no guarantee is listed below the panel.

    Args:
        comparison: from `sv.compare`.
        measure: one of its measures; None is the first.
        algorithm: draw this one only; None: all, each in panels of its own.
        caption: what was run, under the picture.
        title: in place of the one that names the measure.

    Raises:
        ConfigError: an unknown measure or algorithm, or a value that has no logarithm.
    """
    return paint(titled(comparison_picture(comparison, measure, algorithm=algorithm), title), caption=caption)


def comparison_figures(comparison: Comparison, folder: str | Path) -> list[Path]:
    """Draw one frontier per measure and algorithm with a caption that says what was run; returns the files written."""
    paths: list[Path] = []
    algorithms = [row.algorithm for row in comparison.references]
    for measure in comparison.measures:
        for algorithm in algorithms:
            end = f"-{algorithm}" if len(algorithms) > 1 else ""
            name = re.sub(r"[^A-Za-z0-9]+", "-", f"frontier-{measure}{end}").strip("-")
            figure = frontier(comparison, measure, algorithm=algorithm)
            paths += save(figure, folder, name, caption=frontier_caption(comparison))
    return paths


def frontier_caption(comparison: Comparison) -> str:
    """What was run, what the axes mean, and what has no guarantee."""
    given = comparison.description
    network, batch = given["topology"], given["batch_size"]
    shown = "after the last round" if comparison.tail == 1 else f"averaged over the last {comparison.tail} rounds"
    parts = [
        given["problem"]["kind"].replace("_", " "),
        f"{network['name'].replace('_', ' ')} network of {network['num_agents']:,} agents",
        f"{given['rounds']:,} rounds",
        f"{given['repeats']:,} repeats",
        "full gradients" if batch is None else f"batch size {batch:,}",
        f"seed {given['seed']}",
    ]
    return (
        f"Error {shown} at equal epsilon: {', '.join(parts)}. Every scheme has the noise that it needs for this observer and epsilon. "
        f"Bars are one standard error over repeats. {' '.join(comparison.notes)}"
    )
