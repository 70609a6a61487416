"""What an audit saw: the scores of its attack in the two worlds, and where it decided."""

import math
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from sottovoce.attacks.audit import Audit
from sottovoce.reports.files import save
from sottovoce.reports.painting import paint, titled
from sottovoce.reports.pictures.audit_pictures import score_picture


def score_histograms(audit: Audit, *, caption: str | None = None, title: str | None = None) -> Figure:
    """The scores of both worlds as histograms in percent of the runs, with the threshold at which the most is shown.

    Args:
        audit: from `sv.audit`.
        caption: what was run, under the picture.
        title: in place of the one that names the observer.

    Raises:
        ConfigError: no finite scores to draw.
    """
    return paint(titled(score_picture(audit), title), caption=caption)


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
