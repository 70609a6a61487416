"""What the parties of a run agree on before it: its public parts, resolved to numbers, and the digest that stands for them."""

from sottovoce.deployment.terms.agreement import (
    Agreement,
    Continuation,
    Learning,
    Member,
    Network,
    NoiseTerms,
    Promise,
    Protection,
    RoundLinks,
)
from sottovoce.deployment.terms.canonical_bytes import Plain
from sottovoce.deployment.terms.coin import Coin, PublicCoin
from sottovoce.deployment.terms.differences import differences
from sottovoce.deployment.terms.pair_sources import bind_among_parties, refuse_unlike_rounds
from sottovoce.deployment.terms.public_run import PublicRun, without_masks
from sottovoce.deployment.terms.rebuilding import topology_of
from sottovoce.deployment.terms.resolving import Declared, agreement_of, model_digest
from sottovoce.deployment.terms.succession import check_exclusion, successor
from sottovoce.deployment.terms.whole_multiples import MOST_MULTIPLE, in_whole_multiples, multiples

__all__ = [
    "MOST_MULTIPLE",
    "Agreement",
    "Coin",
    "Continuation",
    "Declared",
    "Learning",
    "Member",
    "Network",
    "NoiseTerms",
    "Plain",
    "Promise",
    "Protection",
    "PublicCoin",
    "PublicRun",
    "RoundLinks",
    "agreement_of",
    "bind_among_parties",
    "check_exclusion",
    "differences",
    "in_whole_multiples",
    "model_digest",
    "multiples",
    "refuse_unlike_rounds",
    "successor",
    "topology_of",
    "without_masks",
]


def __dir__() -> list[str]:
    return [*__all__]
