"""Records that enter batches by coin flips: every message is a Gaussian mechanism on a random sample.

It needs gradients at points that the messages determine, and the same step and noise in every round (docs/guarantees.md).
"""

import math

from sottovoce.accounting.proofs.evidence import Evidence
from sottovoce.accounting.proofs.proof import Proof, Statement
from sottovoce.accounting.proofs.sent_messages import rests_on_others, why_sent
from sottovoce.accounting.proofs.words import known_draw, unsupported
from sottovoce.accounting.question.participation import Poisson
from sottovoce.accounting.tradeoff import GaussianTradeoff, SubsampledTradeoff, Tradeoff
from sottovoce.errors import UnsupportedClaim


def states(evidence: Evidence, agent: int) -> Statement:
    """All messages of the agent, amplified one by one.

    Raises:
        UnsupportedClaim: gradients at points that the messages do not determine, or rounds that differ.
    """
    asked, sent = evidence.asked, evidence.sent
    if not sent.public_point[agent]:
        raise UnsupportedClaim(unsupported(evidence))
    value = float(sent.plain[agent]) * float(asked.sensitivity[agent])
    tradeoff: Tradeoff = GaussianTradeoff(value) if math.isinf(value) else _sampled(evidence, agent)
    return Statement(
        tradeoff=tradeoff,
        value=value,
        validity="sent-messages",
        reason=why_sent(evidence, agent),
        section="Sent messages",
        others=rests_on_others(evidence),
        premises=known_draw(asked),
    )


def _sampled(evidence: Evidence, agent: int) -> SubsampledTradeoff:
    asked, per_round = evidence.asked, evidence.sent.equal_rounds(agent)
    assert isinstance(asked.participation, Poisson)
    if per_round is None:
        raise UnsupportedClaim(
            "Poisson sampling amplifies privacy only where every gradient is taken at a point that the messages determine, with the "
            "same step and noise in every round. Use ATC or CTA with sv.noise.independent(law, self_noise=True), or another participation."
        )
    mu_one, visible = per_round
    if asked.noise.in_gradients:  # every gradient of a round draws its own records
        times = asked.algorithm.gradients_per_round
        mu_one, visible = mu_one / math.sqrt(times), visible * times
    record = float(asked.sensitivity[agent])  # norm of one record's part
    if asked.adjacency == "replace":
        assert asked.participation.record_norm is not None  # checked with the question
        record = asked.participation.record_norm
    return SubsampledTradeoff(
        noise_multiplier=1.0 / (mu_one * record),
        sampling_rate=asked.participation.rate,
        rounds=visible,
        adjacency=asked.adjacency,
    )


PROOF = Proof("secret records", where=frozenset({"coins for records"}), states=states, alone=True)
