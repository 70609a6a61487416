"""Guarantees between two bounds: what attacks show and what is promised, for many schemes and observers, as a picture and as one table."""

import math
from collections.abc import Mapping

from matplotlib.figure import Figure

from sottovoce.attacks.audit import Audit
from sottovoce.reports.painting import paint, titled
from sottovoce.reports.pictures.audit_pictures import sandwich_picture
from sottovoce.rounding import shown

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
    return paint(titled(sandwich_picture(audits), title), caption=caption)


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


def _standing(found: Audit) -> str:
    """Why nothing is promised, or as what the promise holds."""
    return str(found.guarantee.reason if math.isinf(found.epsilon) else found.guarantee.validity)


def _number(value: float | None) -> str:
    return "" if value is None else "inf" if math.isinf(value) else f"{value:.3f}"
