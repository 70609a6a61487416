"""Rounds of Laplace noise together: what all that an agent sends gives away at delta > 0, which is far less than the sum of epsilons.

Every message is hidden by noise of density ~ exp(-norm), and in every round changes by at most `most` in that norm, in all rounds together by at
most the value of sent messages. So the rounds are dominated by one-dimensional Laplace mechanisms with these values, the largest first until
their sum is reached (`mechanisms.laplace`, which proves it for adaptive changes). At delta = 0 that is the value of sent messages.

It is exact where a pair of worlds attains it: a change of one coordinate under the Laplace law that reaches what every round allows.
"""

import numpy as np

from sottovoce.accounting.proofs.evidence import ALIKE, Evidence
from sottovoce.accounting.proofs.laplace_tradeoff import LaplaceTradeoff
from sottovoce.accounting.proofs.proof import Proof, Statement
from sottovoce.accounting.proofs.sent_messages import rests_on_others, why_exact, why_sent
from sottovoce.accounting.proofs.words import known_draw
from sottovoce.accounting.tradeoff import Tradeoff
from sottovoce.noise import Laplace

AT_ZERO = "an upper bound, attained by an attack at delta = 0: what the agent sends, given away to somebody who knows everything else"


def states(evidence: Evidence, agent: int) -> Statement | None:
    """All rounds of the agent, composed by their losses."""
    asked, sent = evidence.asked, evidence.sent
    if not sent.supported[agent] or not np.isfinite(sent.values[agent]):
        return None
    tradeoff = composed_rounds(evidence, agent)
    attained = bool(sent.exact[agent]) and asked.tight
    exact = attained and isinstance(asked.noise.law, Laplace) and _every_round_is_full(evidence, agent)
    return Statement(
        tradeoff=tradeoff,
        value=tradeoff.pure_epsilon,
        validity="exact" if exact else "sent-messages",
        reason=why_exact(evidence, agent) if exact else why_sent(evidence, agent),
        section="Readers of every message" if exact else "Sent messages",
        promised=bool(sent.promised[agent]) or asked.growth_is_promised,
        others=rests_on_others(evidence),
        premises=known_draw(asked),
        meaning=AT_ZERO if attained and not exact else None,
    )


def composed_rounds(evidence: Evidence, agent: int) -> LaplaceTradeoff:
    """The rounds that dominate all that the agent sends."""
    sent, size = evidence.sent, float(evidence.asked.sensitivity[agent])
    total = float(sent.values[agent]) * size
    if sent.most is None:
        return LaplaceTradeoff.of_total(total)
    parts = max(1, int(sent.parts[agent]))
    return LaplaceTradeoff.of_total(total, np.repeat(sent.most[:, agent] * size / parts, parts))


def laplace_by_round(evidence: Evidence) -> list[Tradeoff]:
    """What every agent has given away at most after each round: the largest total, in rounds that are as large as any agent's."""
    sent, p, sizes = evidence.sent, evidence.agents, evidence.asked.sensitivity[evidence.agents]
    assert sent.spent is not None
    totals = (sent.spent[:, p] * sizes).max(axis=1)
    if sent.most is None:
        return [LaplaceTradeoff.of_total(float(total)) for total in totals]
    parts = max(1, int(sent.parts[p].min()))
    most = (sent.most[:, p] * sizes).max(axis=1) / parts
    return [LaplaceTradeoff.of_total(float(total), np.repeat(most[: t + 1], parts)) for t, total in enumerate(totals)]


def _every_round_is_full(evidence: Evidence, agent: int) -> bool:
    """Whether all rounds reach the most they allow at once, in sources whose shares are known."""
    sent = evidence.sent
    if sent.most is None or sent.parts[agent] == 0:
        return False
    return bool(float(sent.most[:, agent].sum()) <= float(sent.values[agent]) * (1 + ALIKE))


PROOF = Proof("Laplace rounds", where=frozenset({"noise", "pure"}), states=states)
