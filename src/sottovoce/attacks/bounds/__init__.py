"""Statistics of an audit: what the scores of an attack prove about epsilon and mu, and with which confidence.

method             needs                              holds for
clopper_pearson    scores of many runs, two worlds    any scores; epsilon at one delta
tradeoff_mu        the same                           any scores; mu
one_run            guesses about many canaries        one run, fair coins; epsilon at one delta
gaussian_dp        scores of many runs, two worlds    NORMAL scores of equal variance; mu, hence any delta
auc, tpr_at_fpr    the same                           descriptions, no bounds
"""

from sottovoce.attacks.bounds.clopper_pearson import clopper_pearson, tradeoff_mu
from sottovoce.attacks.bounds.gaussian_dp import gaussian_dp
from sottovoce.attacks.bounds.lower_bound import LowerBound
from sottovoce.attacks.bounds.one_run import count_guesses, one_run
from sottovoce.attacks.bounds.roc import Auc, Curve, OperatingPoint, auc, curve, tpr_at_fpr

__all__ = [
    "Auc",
    "Curve",
    "LowerBound",
    "OperatingPoint",
    "auc",
    "clopper_pearson",
    "count_guesses",
    "curve",
    "gaussian_dp",
    "one_run",
    "tpr_at_fpr",
    "tradeoff_mu",
]


def __dir__() -> list[str]:
    return [*__all__]
