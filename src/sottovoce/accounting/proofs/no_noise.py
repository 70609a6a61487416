"""Without noise nothing is hidden, whoever looks."""

import math

from sottovoce.accounting.proofs.evidence import Evidence
from sottovoce.accounting.proofs.proof import Proof, Statement
from sottovoce.accounting.tradeoff import GaussianTradeoff


def states(evidence: Evidence, agent: int) -> Statement:
    """Infinity, about every agent."""
    return Statement(GaussianTradeoff(math.inf), math.inf, "infinite", "No noise is added.", "When nothing is hidden")


PROOF = Proof("no noise", where=frozenset({"no noise"}), states=states, alone=True)
