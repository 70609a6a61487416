"""Privacy numbers: one accountant for every algorithm, noise scheme and observer, and the basic mechanisms it rests on."""

from sottovoce.accounting import (
    closed_forms,
    composition,
    documents,
    fixed_size,
    gaussian,
    gopa,
    gossip,
    message_change,
    pure,
    randomized_response,
    subsampled,
    walk,
)
from sottovoce.accounting.account import account, account_each, sent_by_round
from sottovoce.accounting.calibration import calibrate, noise_factor
from sottovoce.accounting.guarantee import Guarantee
from sottovoce.accounting.pairwise import pairwise_linear_mu
from sottovoce.accounting.participation import cyclic, poisson
from sottovoce.accounting.repeats import repeated
from sottovoce.accounting.ring_sum import ring_sum_mu
from sottovoce.problems import ConvexSmooth

__all__ = [
    "ConvexSmooth",
    "Guarantee",
    "account",
    "account_each",
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
    "subsampled",
    "walk",
]
