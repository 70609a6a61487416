"""How much of a record an observer rebuilds: similarity against epsilon, and what is exact without noise."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from sottovoce.errors import ConfigError
from sottovoce.reports import style
from sottovoce.reports.caption import put_caption

CHANCE = "#6A6A6A"
SPREAD = 0.035  # neighbouring lines are drawn this part of a power of ten apart
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
        _check_line(label, means, errors, len(x))
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
        style.put_title(axes, title)
        put_caption(figure, caption)
    return figure


def _check_line(label: str, means: Sequence[float], errors: Sequence[float], count: int) -> None:
    if len(means) != count or len(errors) != count or not all(0 <= mean <= 1 + 1e-9 for mean in means):
        raise ConfigError(f"{label!r} needs {count} similarities in [0, 1], one per epsilon, and as many errors.")


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
