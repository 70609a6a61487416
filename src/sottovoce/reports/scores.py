"""What an audit saw: the scores of its attack in the two worlds, and where it decided."""

import math
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from sottovoce.attacks.audit import Audit
from sottovoce.errors import ConfigError
from sottovoce.reports import style
from sottovoce.reports.caption import put_caption
from sottovoce.reports.files import save
from sottovoce.rounding import shown

BINS = 60


def score_histograms(audit: Audit, *, caption: str | None = None, title: str | None = None) -> Figure:
    """The scores of both worlds as histograms, with the threshold at which the most is shown.

    Args:
        audit: from `sv.audit`.
        caption: what was run, under the picture.
        title: in place of the one that names the observer, what is shown and what is promised.

    Raises:
        ConfigError: no finite scores to draw.
    """
    finite = [scores[np.isfinite(scores)] for scores in audit.scores]
    if not all(len(scores) for scores in finite):
        raise ConfigError("all scores of a world are infinite, so there is nothing to draw; the attacker is certain.")
    together = np.concatenate(finite)
    low, high = float(together.min()), float(together.max())
    margin = 0.02 * (high - low) or max(abs(high), 1.0) * 1e-3
    edges = np.linspace(low - margin, high + margin, BINS + 1).tolist()
    with style.applied():
        figure, picture = style.new_figure(7.0, 4.3)
        axes = picture.subplots()
        for scores, label, position in zip(finite, ("first world", "second world"), (0, 1), strict=True):
            colour = style.PALETTE[position]
            axes.hist(
                scores, edges, histtype="stepfilled", color=colour, alpha=0.35, hatch=style.HATCHES[position],
                edgecolor=colour, linewidth=1.2, label=label,
            )  # fmt: skip
        if np.isfinite(audit.threshold):
            axes.axvline(audit.threshold, color="black", linewidth=1.2, linestyle=(0, (4, 2)), label="threshold")
            right = audit.threshold > (edges[0] + 2 * edges[-1]) / 3
            axes.annotate(
                'from here on it says\n"second world"', (audit.threshold, 1.0), xycoords=("data", "axes fraction"),
                xytext=(-5 if right else 5, -4), textcoords="offset points", va="top", ha="right" if right else "left",
                fontsize=8.5, color="#333333",
            )  # fmt: skip
        axes.set_xlabel(f"score of the attack '{audit.attack}'")
        axes.set_ylabel("runs")
        axes.set_title(audit_title(audit) if title is None else title)
        picture.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)
        put_caption(figure, caption)
    return figure


def audit_title(audit: Audit) -> str:
    """Observer, what is shown and what is promised, on two lines."""
    assert audit.lower.epsilon is not None
    promise = "nothing is promised" if math.isinf(audit.epsilon) else f"promised: {shown(audit.epsilon, 3)}"
    verdict = "" if audit.passed else "  -  THE PROMISE IS FALSE"
    return f"{audit.guarantee.observer}, about agent {audit.agent}\nshown: epsilon ≥ {audit.lower.epsilon:.3g}; {promise}{verdict}"


def audit_caption(audit: Audit) -> str:
    """What was played, and what it can and cannot show."""
    why = f" Nothing is promised: {audit.guarantee.reason}" if math.isinf(audit.epsilon) else ""
    left_out = sum(int((~np.isfinite(scores)).sum()) for scores in audit.scores)
    missing = f" {left_out} infinite scores are not drawn." if left_out else ""
    computed = (
        "" if audit.computed_mu is None or math.isinf(audit.computed_mu) else f", {audit.computed_mu:.3g} computed"
    )
    estimate = None if audit.gaussian is None else audit.gaussian.estimate
    measured = (
        ""
        if estimate is None
        else f" Distance of the scores in standard deviations: {estimate:.3g} measured{computed}."
    )
    return (
        f"Scores of {audit.pairs:,} runs of each of two worlds that differ in the data of agent {audit.agent}. delta = "
        f"{audit.delta:g}, confidence {audit.confidence:g}, AUC {audit.auc.value:.3f}.{measured}{missing}{why} A lower "
        f"bound proves a promise false or proves nothing; it never proves one true."
    )


def audit_figures(found: Sequence[Audit], folder: str | Path) -> list[Path]:
    """Write one histogram for every audit, named after its observer; returns the files."""
    paths: list[Path] = []
    names: set[str] = set()
    for audit in found:
        name = "scores-" + re.sub(r"[^a-z0-9]+", "-", audit.guarantee.observer.lower()).strip("-")[:60]
        while name in names:
            name += "x"
        names.add(name)
        paths += save(score_histograms(audit), folder, name, caption=audit_caption(audit))
    return paths
