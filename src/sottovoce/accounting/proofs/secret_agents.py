"""A secret sample of agents, whose average a trusted relay perturbs.

Everybody who takes part adds at most C times its weight (its whole update is clipped), and noise of one scale is added whoever takes part. An
observer who does not see who took part faces, in every round, the Gaussian mechanism on a random sample:

    Poisson       subsampled.py, for an agent added or removed, or replaced; members of the observer know their own coins only
    fixed size    fixed_size.py, for an agent replaced; a member who knows whether it was drawn itself knows more about the others: of the K - s
                  agents outside a coalition of s, at most m are drawn, so the rate is m / (K - s)

Adaptive composition: the relay's averages determine every state, so each round is such a mechanism given the rounds before.
"""

import math

from sottovoce.accounting.proofs.evidence import Evidence
from sottovoce.accounting.proofs.proof import Proof, Statement
from sottovoce.accounting.proofs.sent_messages import rests_on_others, why_sent
from sottovoce.accounting.tradeoff import FixedSizeTradeoff, SubsampledTradeoff, Tradeoff
from sottovoce.algorithms import FixedAgents, PoissonAgents


def states(evidence: Evidence, agent: int) -> Statement | None:
    """The averages of a secret sample of agents, of whom nobody adds more than C; None where rounds differ, or nothing is hidden."""
    asked = evidence.asked
    value = float(evidence.sent.values[agent]) * float(asked.sensitivity[agent])
    if math.isinf(value) or not evidence.same_rounds:
        return None
    return Statement(
        tradeoff=_sampled(evidence, agent),
        value=value,
        validity="sent-messages",
        reason=why_sent(evidence, agent),
        section="Sent messages",
        others=rests_on_others(evidence),
        premises=(
            f"agents take part by a draw that does not depend on data ({asked.sampling}); nobody but the relay knows who else took part",
        ),
    )


def _sampled(evidence: Evidence, agent: int) -> Tradeoff:
    asked, rounds = evidence.asked, evidence.rounds
    assert rounds is not None
    assert asked.clip is not None
    assert asked.sampling is not None
    weights = rounds.distinct[0].exchanges[0].links.self_weights
    # Of a fixed number of agents, another one stands where p is not drawn, and may weigh more than p.
    weight = float(weights.max() if isinstance(asked.sampling, FixedAgents) else weights[agent])
    largest, scale = weight * asked.sampling.weight(len(weights)) * asked.clip.bound, float(rounds.scales[0])
    adjacency = asked.adjacency if asked.unit == "agent" else "replace"
    if isinstance(asked.sampling, PoissonAgents):
        return SubsampledTradeoff(
            noise_multiplier=scale / largest,
            sampling_rate=asked.sampling.rate,
            rounds=len(rounds),
            adjacency=adjacency,
        )
    assert isinstance(asked.sampling, FixedAgents)  # silent agents are accounted with their masks
    assert adjacency == "replace"  # with one agent more or less the sample would be drawn from another number
    rate = min(1.0, asked.sampling.size / (len(weights) - int(asked.view.members.sum())))
    return FixedSizeTradeoff(noise_multiplier=scale / (2.0 * largest), sampling_rate=rate, rounds=len(rounds))


PROOF = Proof("secret agents", where=frozenset({"secret agents"}), states=states, alone=True)
