"""Guarantees between two bounds: what attacks show and what is promised, for many schemes and observers, as a picture and as one table."""

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sottovoce.attacks.audit import Audit
from sottovoce.errors import ConfigError
from sottovoce.reports import style
from sottovoce.reports.caption import put_caption
from sottovoce.rounding import shown

SHOWN, PROMISED, BETWEEN = "#D55E00", "#0072B2", "#9FC5DE"
HEADER = [
    "scheme, observer", "variant", "promised epsilon", "shown >=", "shown / promised", "attack", "mu computed", "mu measured", "AUC",
    "valid as, or why not",
]  # fmt: skip


def sandwiches(
    audits: Mapping[str, Mapping[str, Audit]], *, caption: str | None = None, title: str | None = None
) -> Figure:
    """One row for every scheme and observer, one panel for every variant: from what is shown to what is promised.

    Args:
        audits: line -> variant -> audit; the same variants in every line.
        caption: what was run, under the picture.
        title: above the picture.

    Raises:
        ConfigError: nothing to draw, or lines with different variants.
    """
    places = list(next(iter(audits.values()), {}))
    if not places or any(list(row) != places for row in audits.values()):
        raise ConfigError("give audits of one or more lines, each with the same variants in the same order.")
    lines, every = list(audits), [audit for row in audits.values() for audit in row.values()]
    finite = list(filter(math.isfinite, (audit.epsilon for audit in every)))
    most = 1.3 * max(finite or [audit.lower.epsilon or 1.0 for audit in every])
    with style.applied():
        figure, picture = style.new_figure(4.2 + 3.2 * len(places), 1.5 + 0.3 * len(lines))
        panels = picture.subplots(1, len(places), sharey=True, squeeze=False)[0]
        for axes, place in zip(panels, places, strict=True):
            _panel(axes, place, [audits[line][place] for line in lines], most)
        panels[0].set_yticks(range(len(lines)), lines)
        panels[0].set_ylim(len(lines) - 0.5, -0.5)
        handles = [
            Line2D([], [], color=SHOWN, marker="o", linestyle="", label="shown by an attack (lower bound)"),
            Line2D(
                [], [], color=PROMISED, marker="|", markersize=12, markeredgewidth=2.4, linestyle="", label="promised"
            ),
            Line2D([], [], color=SHOWN, marker=">", linestyle="-", label="no promise; shown is the number"),
        ]
        picture.legend(handles=handles, loc="outside lower center", ncols=3)
        style.put_title(picture, title)
        put_caption(figure, caption)
    return figure


def audit_table(audits: Mapping[str, Mapping[str, Audit]]) -> str:
    """Every audit as one row of a Markdown table."""
    rows = [HEADER, ["---"] * len(HEADER)]
    for line, row in audits.items():
        for place, found in row.items():
            infinite = math.isinf(found.epsilon)
            estimate = None if found.gaussian is None else found.gaussian.estimate
            rows.append([
                line, place, "inf" if infinite else shown(found.epsilon, 4), f"{found.lower.epsilon:.3g}",
                "" if infinite else f"{found.ratio:.2f}", found.attack, _number(found.computed_mu), _number(estimate),
                f"{found.auc.value:.4f}", _standing(found),
            ])  # fmt: skip
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def _panel(axes: Axes, place: str, found: Sequence[Audit], most: float) -> None:
    """The rows of one variant, on an axis up to `most`."""
    for y, audit in enumerate(found):
        _row(axes, y, audit, most)
    axes.set_xlim(0.0, most)
    axes.set_title(place)
    axes.set_xlabel("epsilon")
    axes.grid(False, axis="y")


def _row(axes: Axes, y: int, found: Audit, most: float) -> None:
    low = found.lower.epsilon or 0.0
    if math.isinf(found.epsilon):
        axes.plot([0.0, 0.9 * most], [y, y], color=SHOWN, linewidth=1.4, zorder=1)
        axes.plot([0.9 * most], [y], color=SHOWN, marker=">", linestyle="", zorder=2)
        axes.annotate(f"≥ {low:.2g}", (0.92 * most, y), va="center", fontsize=8.5, color=SHOWN)
        return
    axes.plot([low, found.epsilon], [y, y], color=BETWEEN, linewidth=4.0, solid_capstyle="butt", zorder=1)
    axes.plot([found.epsilon], [y], color=PROMISED, marker="|", markersize=12, markeredgewidth=2.4, zorder=2)
    axes.plot([low], [y], color=SHOWN, marker="o", markersize=5.5, linestyle="", zorder=3)


def _standing(found: Audit) -> str:
    """Why nothing is promised, or as what the promise holds."""
    return str(found.guarantee.reason if math.isinf(found.epsilon) else found.guarantee.validity)


def _number(value: float | None) -> str:
    return "" if value is None else "inf" if math.isinf(value) else f"{value:.3f}"
