"""Privacy numbers: one accountant for every algorithm, noise scheme and observer, and the basic mechanisms it rests on."""

from sottovoce.accounting import composition, documents, gaussian, pure, randomized_response, subsampled
from sottovoce.accounting.account import account, account_each
from sottovoce.accounting.guarantee import Guarantee
from sottovoce.accounting.participation import cyclic, poisson
from sottovoce.problems import ConvexSmooth

__all__ = [
    "ConvexSmooth",
    "Guarantee",
    "account",
    "account_each",
    "composition",
    "cyclic",
    "documents",
    "gaussian",
    "poisson",
    "pure",
    "randomized_response",
    "subsampled",
]
