"""Averages with pairwise masks: what the relay's coalition learns of an agent among others that mask each other.

If the agent's messages would be `local`-GDP without masks, `gopa.masked_rounds` gives what remains on average over the random graph of masks.
"""

from sottovoce.accounting.guarantee import TOGETHER
from sottovoce.accounting.proofs.evidence import Evidence
from sottovoce.accounting.proofs.proof import Proof, Statement


def states(evidence: Evidence, agent: int) -> Statement:
    """One agent among those outside the observer."""
    from sottovoce.accounting.gopa.masked_rounds import MaskedTradeoff

    asked, sent, n = evidence.asked, evidence.sent, len(evidence.asked.sensitivity)
    assert asked.aggregation is not None
    local = float(sent.values[agent] * asked.sensitivity[agent])
    published, corrupted = asked.aggregation.least_published(n), asked.observer.corrupted(n)
    found = MaskedTradeoff(
        local=local,
        num_agents=n,
        partners=asked.aggregation.partners,
        corrupted=corrupted,
        published=published,
        ratio=asked.aggregation.pairwise_ratio,
        rounds=asked.rounds,
    )
    return Statement(
        tradeoff=found,
        value=local,
        validity="sent-messages",
        reason=f"What the observer ({asked.observer}) reads of agent {agent} is hidden by masks and by the noise of the agents outside it, as far as "
        f"they are connected.",
        section="Masked averages",
        promised=bool(sent.promised[agent]) or asked.growth_is_promised,
        others=asked.view.broadcast and not asked.noise.needs_relay,
        premises=(
            f"every sum that is released holds at least {max(published - corrupted, 1)} agents outside the observer; who is silent and who "
            "belongs to the observer does not depend on data, nor on the graph of masks, which is drawn after the agents are known",
            "masks are fresh in every round and secret to the pairs who share them, and those of a silent agent are revealed only if it has "
            "not published; delta includes the risk of a badly connected graph",
        ),
        meaning=TOGETHER,
        details=(("honest", max(found.honest, 1)), ("graph_risk", found.graph_risk), ("mu_without_masks", local)),
    )


PROOF = Proof("masked averages", where=frozenset({"masks"}), states=states, alone=True)
