"""How much of a record an observer rebuilds: similarity against epsilon, and what is exact without noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from sottovoce.errors import ConfigError
from sottovoce.reports import style
from sottovoce.reports.caption import put_caption
from sottovoce.reports.save import save
from sottovoce.studies.leak_direction import LEAST_ERROR
from sottovoce.studies.leaks import ALL_OF_IT, ALLOWED, NO_NOISE, DirectionSection, ExactSection
from sottovoce.studies.privacy_study import PrivacyStudyResult

CHANCE = "#6A6A6A"
SPREAD = 0.035  # of a power of ten, between neighbouring lines
Points = tuple[Sequence[float], Sequence[float]]  # means and standard errors


def similarity_curves(
    epsilons: Sequence[float],
    lines: Mapping[str, Points],
    *,
    chance: float | None = None,
    theory: Mapping[str, Sequence[float]] | None = None,
    x_label: str = "epsilon",
    y_label: str = "similarity",
    caption: str | None = None,
    title: str | None = None,
) -> Figure:
    """Similarity in [0, 1] against epsilon, one line for every scheme and observer; less noise is to the right.

    Args:
        epsilons: from the largest down; infinity is no noise, and stands apart at the right end.
        lines: label -> (means, standard errors), one of each per epsilon.
        chance: what guessing attains, a grey line.
        theory: label -> exact means, drawn thin.
        x_label: of the axis, with its delta.
        y_label: which similarity.
        caption: what is shown, under the picture.
        title: above the picture.

    Raises:
        ConfigError: epsilons that do not fall, a line of another length, or a similarity outside [0, 1].
    """
    x, ticks = _places(epsilons)
    for label, (means, errors) in lines.items():
        if len(means) != len(x) or len(errors) != len(x) or not all(0 <= mean <= 1 + 1e-9 for mean in means):
            raise ConfigError(f"{label!r} needs {len(x)} similarities in [0, 1], one per epsilon, and as many errors.")
    looks = style.line_looks(list(lines))
    with style.applied():
        figure, picture = style.new_figure(7.4, 4.9)
        axes = picture.subplots()
        for position, (label, look) in enumerate(looks.items()):
            means, errors = lines[label]
            beside = SPREAD * (position - (len(looks) - 1) / 2)  # lines that lie on each other all show
            axes.errorbar(
                x + beside, means, yerr=[2 * error for error in errors], color=look.color, marker=look.marker, linestyle=look.linestyle,
                linewidth=1.6, markersize=5.5, capsize=3, elinewidth=1.0, label=label,
            )  # fmt: skip
            if theory is not None and label in theory:
                axes.plot(x + beside, theory[label], label=f"_theory {label}", **style.THEORY)  # type: ignore[arg-type]
        if chance is not None:
            axes.axhline(chance, color=CHANCE, linewidth=1.0, linestyle=(0, (1.2, 1.2)), label="_chance", zorder=1)
            axes.annotate(
                "guessing", (0.005, chance), xycoords=("axes fraction", "data"), xytext=(0, -3),
                textcoords="offset points", va="top", fontsize=8.5, color=CHANCE,
            )  # fmt: skip
        _finish(axes, x, ticks, x_label, y_label)
        handles = axes.get_legend_handles_labels()
        extra = [Line2D([], [], label="exact expectation", **style.THEORY)] if theory else []  # type: ignore[arg-type]
        picture.legend([*handles[0], *extra], [*handles[1], *(str(e.get_label()) for e in extra)],
                       loc="outside lower center", ncols=2)  # fmt: skip
        if title is not None:
            axes.set_title(title)
        put_caption(figure, caption)
    return figure


def draw_directions(result: PrivacyStudyResult, folder: str | Path, document: str) -> list[Path]:
    """Write the similarity of all rounds, and of the first round with exact theory; returns the files."""
    section, given = result.section, result.pictures
    assert isinstance(section, DirectionSection)
    epsilons = [math.inf if place == NO_NOISE else float(place) for place in section.places()]
    told = (
        f"{document}. |cos| of the angle between the feature vector of agent {section.agent} and what is rebuilt of "
        f"it, mean over {section.repeats:,} runs with bars of two standard errors; {given['about']}. Noise is "
        f"calibrated to epsilon (of an agent, at delta = {given['delta']:g}) for the very observer who looks. "
    )
    unsized = [line for line, leak in section.series.items() if leak.sized_as is not None]
    if unsized:
        told += f"No epsilon holds for '{unsized[0]}': its noise has the size that {unsized_as(section, unsized[0])} noise needs. "
    told += "A reader of averages and a neighbour see a sum over several agents, which is like each of them in part. "
    paths: list[Path] = []
    for measure in section.measures:
        table = {line: row for line, row in result.cells[measure].items() if line != ALL_OF_IT}
        lines = {
            line: ([c.value for c in row.values()], [c.error for c in row.values()]) for line, row in table.items()
        }
        exact = {
            line: [cell.theory for cell in row.values() if cell.theory is not None]
            for line, row in table.items()
            if all(cell.theory is not None for cell in row.values())
        }
        figure = similarity_curves(
            epsilons, lines, chance=chance_of(given["dimension"]), theory=exact or None,
            x_label=f"epsilon at delta = {given['delta']:g}", y_label="|cos| of the angle to the true feature vector",
            title={"similarity": "all rounds together", "first": "the first round alone"}[measure],
        )  # fmt: skip
        paths += save(figure, folder, f"{section.name}-{measure}", caption=told)
    return paths


def draw_exact(result: PrivacyStudyResult, folder: str | Path, document: str) -> list[Path]:
    """Write the errors of what is rebuilt, one panel per quantity; returns the files."""
    section = result.section
    assert isinstance(section, ExactSection)
    lines = list(section.series)
    looks = style.line_looks(section.places())
    with style.applied():
        figure, picture = style.new_figure(10.6, 1.6 + 0.42 * len(lines))
        panels = picture.subplots(1, len(section.measures), sharey=True)
        for axes, measure in zip(panels, section.measures, strict=True):
            table = result.cells[measure]
            for position, (place, look) in enumerate(looks.items()):
                y = np.arange(len(lines)) + 0.24 * (position - (len(looks) - 1) / 2)
                axes.plot(
                    [table[line][place].value for line in lines], y, linestyle="", marker=look.marker, color=look.color,
                    markersize=7, label=place,
                )  # fmt: skip
            axes.axvline(next(iter(table[ALLOWED].values())).value, color="black", linewidth=1.0, linestyle=(0, (4, 2)))
            axes.set_xscale("log")
            axes.set_xlim(LEAST_ERROR / 5, 1e4)
            axes.set_title({"gradient": "gradient", "direction": "feature vector", "sum": "sum at a receiver"}[measure])
            axes.set_xlabel("1 - |cos|" if measure == "direction" else "relative error")
        panels[0].set_yticks(range(len(lines)), lines)
        panels[0].invert_yaxis()
        handles = panels[0].get_legend_handles_labels()[0]
        limit = Line2D([], [], color="black", linewidth=1.0, linestyle=(0, (4, 2)), label="counts as exact to the left")
        picture.legend(handles=[*handles, limit], loc="outside lower center", ncols=3)
    caption = (
        f"{document}. What an eavesdropper (or the server) rebuilds of agent {section.agent}'s gradients and record, "
        f"and agent {section.receiver} of the sum of its neighbours' messages, in double precision; errors below "
        f"{LEAST_ERROR:g} are drawn there. Left of the dashed line: exact. Noise that cancels at receivers hides "
        f"gradients from readers of single links, and nothing of the sum."
    )
    return save(figure, folder, section.name, caption=caption)


def chance_of(dimension: int) -> float:
    """The mean |cos| of the angle between a vector and one drawn uniformly on the sphere."""
    return math.exp(math.lgamma(dimension / 2) - math.lgamma((dimension + 1) / 2)) / math.sqrt(math.pi)


def unsized_as(section: DirectionSection, line: str) -> str:
    """The name of the scheme from which a line takes the size of its noise."""
    return str((section.series[line].sized_as or {}).get("kind", "")).replace("_", " ")


def _places(epsilons: Sequence[float]) -> tuple[np.ndarray, list[str]]:
    """Where every epsilon stands: powers of ten at equal distances, and infinity apart."""
    values = np.asarray(epsilons, dtype=float)
    finite = values[np.isfinite(values)]
    if values.ndim != 1 or len(finite) < 2 or not (np.diff(values) < 0).all() or finite.min() <= 0:
        raise ConfigError(f"epsilons = {list(epsilons)}; they must fall, and two or more be finite and above 0.")
    logs = np.log10(finite)
    gap = 0.9 * max(float((logs[0] - logs[-1]) / (len(logs) - 1)), 0.1)
    x = np.append(logs[0] + gap, logs) if len(finite) < len(values) else logs
    names = [f"{value:,.10g}" for value in finite]
    return x, ["no noise", *names] if len(finite) < len(values) else names


def _finish(axes: Axes, x: np.ndarray, ticks: list[str], x_label: str, y_label: str) -> None:
    axes.xaxis.set_major_locator(FixedLocator(list(x)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(list(x), ticks)
    axes.set_ylim(0.0, 1.05)
    axes.set_xlabel(f"{x_label} (less privacy to the right)")
    axes.set_ylabel(y_label)
