"""The linear view as a guarantee: exact where what the observer reads fixes the points at which gradients are taken.

That is so for readers of every message or of a relay's averages if no noise stays hidden from them, and for values that do not react to what
agents hear, as in gossip, whoever looks. Elsewhere the linear view stands beside a guarantee and is none.
"""

from sottovoce.accounting.proofs.evidence import Evidence
from sottovoce.accounting.proofs.proof import Proof, Statement
from sottovoce.accounting.proofs.sent_messages import rests_on_others, why_exact
from sottovoce.accounting.tradeoff import GaussianTradeoff


def states(evidence: Evidence, agent: int) -> Statement | None:
    """The linear view of the agent, where it is a guarantee."""
    asked, fixed = evidence.asked, evidence.rounds is not None and evidence.rounds.values_are_fixed
    if not (fixed or asked.view.broadcast or asked.view.every_message) or evidence.sent.attained(agent):
        return None
    linear = evidence.linear_value(agent)
    if linear is None or evidence.linear_validity(linear) != "adaptive":
        return None
    reason = why_exact(evidence, agent)
    if fixed:
        reason = (
            f"Values do not react to what agents hear, so the observer ({asked.observer}) sees a fixed linear map of them and of the noise, at "
            f"exactly this distance."
        )
    return Statement(
        tradeoff=GaussianTradeoff(linear.mu),
        value=linear.mu,
        validity="exact",
        reason=reason,
        section="The linear view" if fixed else "Readers of every message",
        promised=asked.growth_is_promised,
        others=fixed or rests_on_others(evidence),
    )


PROOF = Proof(
    "whole view",
    where=frozenset({"Gaussian", "bound rounds", "tight rounds", "more than messages may be known", "fresh noise"}),
    states=states,
)
