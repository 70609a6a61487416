"""Utility against privacy: the error of every scheme against epsilon, one panel per observer.

Within a panel all points at one epsilon have the same guarantee, so the lowest one is the best choice there. A scheme without a
guarantee for an observer has no point in its panel; it is listed below it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from sottovoce.errors import ConfigError
from sottovoce.reports import style
from sottovoce.reports.caption import put_caption
from sottovoce.reports.curves import NAMES
from sottovoce.reports.files import save

if TYPE_CHECKING:
    from sottovoce.experiments import Comparison, Row

LINE: dict[str, Any] = {"linewidth": 1.6, "markersize": 5.5}
BAR: dict[str, Any] = {"capsize": 3, "elinewidth": 1.0}
REFERENCE = "#6A6A6A"
SPREAD = 1.06  # points at one epsilon stand side by side within this factor, so that their bars show
LETTERS = 52  # on each line of the list below a panel


class _Looks(NamedTuple):
    """How schemes and algorithms are told apart."""

    schemes: Mapping[str, style.LineLook]
    dashes: Mapping[str, Any]  # algorithm -> line style


def frontier(
    comparison: Comparison, measure: str | None = None, *, caption: str | None = None, title: str | None = None
) -> Figure:
    """The error of every scheme against epsilon, both logarithmic, one panel per observer.

    Colours and markers are schemes, line styles algorithms. Bars are one standard error; thin dashed lines the exact
    expectation where there is one; grey lines the run without noise. What has no guarantee is listed below the panel.

    Args:
        comparison: from `sv.compare`.
        measure: one of its measures; None is the first.
        caption: what was run, under the picture.
        title: above the picture.

    Raises:
        ConfigError: an unknown measure, too many schemes or algorithms, or a value that has no logarithm.
    """
    measure = comparison.measures[0] if measure is None else measure
    if measure not in comparison.measures:
        raise ConfigError(f"{measure!r} was not measured; choose from {', '.join(comparison.measures)}.")
    algorithms = [row.algorithm for row in comparison.references]
    if len(algorithms) > len(style.LINE_STYLES):
        raise ConfigError(
            f"{len(algorithms)} algorithms; at most {len(style.LINE_STYLES)} can be told apart. Draw fewer."
        )
    schemes = style.line_looks(list(dict.fromkeys(row.scheme for row in comparison.rows)))
    looks = _Looks(schemes, dict(zip(algorithms, style.LINE_STYLES, strict=False)))
    _require_positive(comparison, measure)
    columns = 2 if len(comparison.observers) in (2, 4) else min(len(comparison.observers), 3)
    rows = -(-len(comparison.observers) // columns)
    width = max(3.9 * columns, 6.4)
    with style.applied():
        handles, lines = _legend(comparison, measure, looks, width)
        figure, picture = style.new_figure(width, 3.9 * rows + 0.22 * lines)
        grid = picture.subplots(rows, columns, sharey=True, squeeze=False)
        for axes, observer in zip(grid.flat, comparison.observers, strict=False):
            _panel(axes, comparison, observer, measure, looks)
        for axes in grid.flat[len(comparison.observers) :]:
            axes.remove()
        name = NAMES.get(measure, measure.replace("_", " "))
        for axes in grid[:, 0]:
            axes.set_ylabel("\n".join(textwrap.wrap(name, 28, break_on_hyphens=False)))
        style.put_title(picture, title)
        picture.legend(handles=handles, loc="outside lower center", ncols=-(-len(handles) // lines))
        put_caption(figure, caption)
    return figure


def comparison_figures(comparison: Comparison, folder: str | Path) -> list[Path]:
    """Draw one frontier per measure with a caption that says what was run; returns the files written."""
    paths: list[Path] = []
    for measure in comparison.measures:
        name = f"frontier-{measure}".replace("_", "-")
        paths += save(frontier(comparison, measure), folder, name, caption=frontier_caption(comparison))
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


def _require_positive(comparison: Comparison, measure: str) -> None:
    for row in (*comparison.rows, *comparison.references):
        if row.possible and not 0 < row.measured[measure].value < np.inf:
            raise ConfigError(
                f"{measure} of {row.scheme!r} with {row.algorithm!r} is {row.measured[measure].value}; a logarithmic axis needs it above 0."
            )


def _panel(axes: Axes, comparison: Comparison, observer: str, measure: str, looks: _Looks) -> None:
    """Everything that one observer's schemes cost."""
    axes.set_xscale("log")
    axes.set_yscale("log", nonpositive="clip")
    lines: dict[tuple[str, str], list[Row]] = {}
    for row in comparison.rows:
        if row.observer == observer and row.possible:
            lines.setdefault((row.algorithm, row.scheme), []).append(row)
    for position, rows in enumerate(lines.values()):
        _line(axes, rows, measure, looks, SPREAD ** (position / max(len(lines) - 1, 1) - 0.5))
    for row in comparison.references:
        axes.axhline(
            row.measured[measure].value, color=REFERENCE, linewidth=1.0, linestyle=looks.dashes[row.algorithm], zorder=1,
            label=f"_noise-free {row.algorithm}",
        )  # fmt: skip
    axes.set_title(observer)
    _ticks(axes, comparison.epsilons)
    axes.set_xlabel(f"epsilon at delta = {comparison.delta:g}")
    missing = without_guarantee(comparison, observer)
    if missing:
        text = "\n".join(textwrap.wrap(f"no guarantee: {'; '.join(missing)}", LETTERS, break_on_hyphens=False))
        axes.annotate(
            text, (0.5, 0), xycoords="axes fraction", xytext=(0, -34), textcoords="offset points", ha="center", va="top",
            fontsize=8, color="#4A4A4A", gid="no-guarantee",
        )  # fmt: skip
    if not lines:
        axes.text(0.5, 0.5, "nothing to draw", transform=axes.transAxes, ha="center", va="center", color="#4A4A4A")


def _line(axes: Axes, rows: Sequence[Row], measure: str, looks: _Looks, beside: float) -> None:
    """One scheme with one algorithm, its points moved aside by a factor, and the exact expectation where there is one."""
    algorithm, scheme = rows[0].algorithm, rows[0].scheme
    look, x = looks.schemes[scheme], np.array([row.epsilon for row in rows]) * beside
    found = [row.measured[measure] for row in rows]
    axes.errorbar(
        x, np.array([each.value for each in found]), yerr=np.array([each.standard_error or 0.0 for each in found]),
        color=look.color, marker=look.marker, linestyle=looks.dashes[algorithm], label=f"_{algorithm} {scheme}", **LINE, **BAR,
    )  # fmt: skip
    exact = [each.theory for each in found]
    if all(value is not None for value in exact):
        axes.plot(x, exact, label=f"_theory {algorithm} {scheme}", **style.THEORY)  # type: ignore[arg-type]


def _ticks(axes: Axes, epsilons: Sequence[float]) -> None:
    """The epsilons compared, and no others."""
    axes.xaxis.set_major_locator(FixedLocator(list(epsilons)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlim(epsilons[0] / 1.25, epsilons[-1] * 1.25)


def without_guarantee(comparison: Comparison, observer: str) -> list[str]:
    """What has no guarantee for an observer at any epsilon: schemes, with the algorithms where it is not all of them."""
    algorithms = [row.algorithm for row in comparison.references]
    possible: dict[str, set[str]] = {
        row.scheme: set() for row in comparison.rows
    }  # scheme -> algorithms with which it has one
    for row in comparison.rows:
        if row.observer == observer and row.possible:
            possible[row.scheme].add(row.algorithm)
    with_some = set().union(*possible.values())
    if not with_some:
        return ["all schemes"]
    said = [f"all schemes with {name}" for name in algorithms if name not in with_some]
    for scheme, has in possible.items():
        if lacking := sorted(with_some - has, key=algorithms.index):
            said.append(f"{scheme} with {', '.join(lacking)}" if has else scheme)
    return said


def _legend(comparison: Comparison, measure: str, looks: _Looks, width: float) -> tuple[list[Line2D], int]:
    """The entries of the legend, and on how many lines they fit into this width, in inches."""
    handles = [
        Line2D([], [], label=scheme, color=look.color, marker=look.marker, linestyle="-", **LINE)
        for scheme, look in looks.schemes.items()
    ]
    if len(looks.dashes) > 1:
        handles += [Line2D([], [], label=name, color="black", linestyle=dash) for name, dash in looks.dashes.items()]
    handles.append(Line2D([], [], label="without noise", color=REFERENCE, linewidth=1.0))
    if any(row.possible and row.measured[measure].theory is not None for row in comparison.rows):
        handles.append(Line2D([], [], label="exact expectation", **style.THEORY))  # type: ignore[arg-type]
    widest = 0.8 + 0.07 * max(len(str(handle.get_label())) for handle in handles)
    return handles, -(-len(handles) // int(np.clip(width // widest, 1, len(handles))))
