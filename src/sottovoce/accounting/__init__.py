"""Privacy numbers: one accountant for every algorithm, noise scheme and observer, and the basic mechanisms it rests on.

Gossip, GOPA, walks and the bounds of documents are imported when first used.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sottovoce.accounting import space_time
from sottovoce.accounting.account import account, account_each, sent_by_round
from sottovoce.accounting.asked_walk import AskedWalk, asked_walk
from sottovoce.accounting.calibration import calibrate, noise_factor
from sottovoce.accounting.guarantee import Guarantee, LinearValidity
from sottovoce.accounting.linear_view.pairwise import pairwise_linear_mu
from sottovoce.accounting.mechanisms import (
    closed_forms,
    composition,
    fixed_size,
    gaussian,
    pure,
    randomized_response,
    subsampled,
)
from sottovoce.accounting.proofs import absorption
from sottovoce.accounting.question import message_change
from sottovoce.accounting.question.clipped_updates import update_sensitivity
from sottovoce.accounting.question.participation import (
    Cyclic,
    Participation,
    Poisson,
    cyclic,
    describe_participation,
    poisson,
)
from sottovoce.accounting.question.question import ADJACENCY, PARTICIPATION, UNIT, Question, the_question
from sottovoce.accounting.tradeoff import FixedSizeTradeoff, GaussianTradeoff, SubsampledTradeoff, Tradeoff, repeated
from sottovoce.problems import ConvexSmooth

if TYPE_CHECKING:
    from sottovoce.accounting import documents, gopa, gossip, walk
    from sottovoce.accounting.gossip.ring_sum import ring_sum_mu

# Modules that moved into rooms stay importable by their first name too: `import sottovoce.accounting.gaussian`.
for _moved in (
    absorption, closed_forms, composition, fixed_size, gaussian, message_change, pure, randomized_response, subsampled,
):  # fmt: skip
    sys.modules[f"{__name__}.{_moved.__name__.rpartition('.')[2]}"] = _moved

__all__ = [
    "AskedWalk",
    "ConvexSmooth",
    "Guarantee",
    "Question",
    "account",
    "account_each",
    "asked_walk",
    "calibrate",
    "closed_forms",
    "composition",
    "cyclic",
    "documents",
    "fixed_size",
    "gaussian",
    "gopa",
    "gossip",
    "message_change",
    "noise_factor",
    "pairwise_linear_mu",
    "poisson",
    "pure",
    "randomized_response",
    "repeated",
    "ring_sum_mu",
    "sent_by_round",
    "space_time",
    "subsampled",
    "walk",
]


def __getattr__(name: str) -> Any:
    if name in ("documents", "gopa", "gossip", "walk"):
        return import_module(f"{__name__}.{name}")
    if name == "ring_sum_mu":
        return import_module(f"{__name__}.gossip.ring_sum").ring_sum_mu
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
