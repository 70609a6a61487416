"""A walking token in the accountant: what all contributions give away in clear sight.

Whoever reads every hop sees each contribution of agent p behind the noise of that hop alone: N contributions cost N times one, at most those in
the N rounds with the least noise. Steps and noise are those of the functions that run: a hop must be w - step g(w) and nothing else, or every
gradient must carry noise of its own. Agents who see the token only when they hold it learn less (`walk_blocks`).
"""

import heapq

import numpy as np

from sottovoce.accounting.proofs.evidence import Evidence, SentValues, Way, values_at_public_points
from sottovoce.accounting.proofs.laplace_rounds import composed_rounds
from sottovoce.accounting.proofs.proof import Proof, Statement
from sottovoce.accounting.proofs.sent_messages import why_sent
from sottovoce.accounting.question.asked import Asked
from sottovoce.accounting.tradeoff import GaussianTradeoff, Tradeoff
from sottovoce.algorithms import Algorithm
from sottovoce.errors import UnsupportedClaim
from sottovoce.linear import check_walk, diffusion_step, linear_rounds
from sottovoce.noise import Noise
from sottovoce.numbers import within_range


def contributions_of(algorithm: Algorithm, rounds: int) -> int:
    """N, the most gradients that one agent adds in this many hops."""
    return rounds if algorithm.contributions is None else min(rounds, algorithm.contributions)


def hop_prices(algorithm: Algorithm, noise: Noise, rounds: int) -> np.ndarray:
    """[T] mu of one contribution of sensitivity one in every hop, or epsilon for the Laplace laws; inf where no noise is added."""
    if noise.law is None:
        return np.full(rounds, np.inf)
    scales = noise.law.scale * noise.factors(rounds) * algorithm.noisy_rounds(rounds)
    steps = np.ones(rounds) if noise.in_gradients else hop_steps(algorithm, rounds)
    within_range("a step", steps)
    within_range("the scale of the noise", scales)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(steps > 0, steps / scales, 0.0)


def walk_values(evidence: Evidence) -> SentValues:
    """What every agent's contributions give away to somebody who sees each of them, at sensitivity one.

    Raises:
        UnsupportedClaim: somebody but the holder of the token acts, or the holder does more than a gradient step.
    """
    algorithm, noise, pure = evidence.asked.algorithm, evidence.asked.noise, evidence.asked.pure
    rounds, num_agents = evidence.asked.rounds, len(evidence.asked.sensitivity)
    check_walk(algorithm, rounds)
    prices = hop_prices(algorithm, noise, rounds) ** (1 if pure else 2)
    if noise.in_gradients:  # each gradient of a hop has noise of its own
        prices = algorithm.gradients_per_round * prices
    most = contributions_of(algorithm, rounds)
    spent = prices[0] * np.minimum(np.arange(1, rounds + 1), most)
    if not np.all(prices == prices[0]):
        spent = _largest_so_far(prices, most)
    spent, each = (np.repeat(one[:, None], num_agents, axis=1) for one in (spent, prices))
    parts = algorithm.gradients_per_round if noise.in_gradients else 1
    return values_at_public_points(spent, pure=pure, each=each, parts=parts)


def hop_steps(algorithm: Algorithm, rounds: int) -> np.ndarray:
    """[T] the step size of every hop, read off what the holder of the token does.

    Raises:
        UnsupportedClaim: it does something else than one gradient step at the token.
    """
    forms = linear_rounds(algorithm, rounds)
    kinds = [diffusion_step(form) for form in forms.forms]
    for t in range(rounds):
        step = kinds[forms.which[t]]
        if step is None or step.kind not in ("atc", "average"):
            raise UnsupportedClaim(
                f"a token is accounted for when its holder hands on w - step g(w), one gradient at the token itself; in round {t + 1} "
                f"'{algorithm.name}' does something else. Use sv.algorithms.random_walk, or noise in every gradient, sv.noise.gradient(law)."
            )
    sizes = np.array([0.0 if step is None else step.size for step in kinds])
    return np.asarray(sizes[forms.which])


def _largest_so_far(prices: np.ndarray, most: int) -> np.ndarray:
    """[T] the sum of the `most` largest of the first t prices."""
    held: list[float] = []
    sums = np.empty(len(prices))
    for t, price in enumerate(prices):
        if len(held) < most:
            heapq.heappush(held, float(price))
        else:
            heapq.heappushpop(held, float(price))
        sums[t] = sum(held)
    return sums


def states(evidence: Evidence, agent: int) -> Statement:
    """All contributions in clear sight."""
    asked = evidence.asked
    local = float(evidence.sent.values[agent]) * float(asked.sensitivity[agent])
    tradeoff: Tradeoff = composed_rounds(evidence, agent) if asked.pure else GaussianTradeoff(local)
    return Statement(
        tradeoff, local, "sent-messages", why_sent(evidence, agent), "Walks",
        premises=(f"{adds_at_most(asked)}, and the way of the token, which the observer may know, does not depend on data",),
    )  # fmt: skip


def adds_at_most(asked: Asked) -> str:
    """How often an agent contributes, in words."""
    return f"the agent adds at most {contributions_of(asked.algorithm, asked.rounds)} gradients"


WAY = Way(where=frozenset({"walk"}), values=walk_values)
PROOF = Proof("walk hops", where=frozenset({"walk"}), states=states, alone=True)
