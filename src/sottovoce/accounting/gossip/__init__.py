"""Gossip of values that do not react: what every agent learns about every other."""

from sottovoce.accounting.gossip.extended import pairwise_extended
from sottovoce.accounting.gossip.pairwise_loss import (
    PairwiseLoss,
    pairwise,
    pairwise_mu,
    pairwise_of_path,
    random_activations,
)

__all__ = [
    "PairwiseLoss",
    "pairwise",
    "pairwise_extended",
    "pairwise_mu",
    "pairwise_of_path",
    "random_activations",
]


def __dir__() -> list[str]:
    return [*__all__]
