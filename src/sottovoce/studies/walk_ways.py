"""What a walking token really tells whoever knows its way, for gradients that do not react to it: what no account may state less than.

Such gradients (those of linear losses) are convex and smooth. Between two looks of v the token moves by the sum of what the others add, k
contributions of u among m noises: a Gaussian shift of mu^2 = k^2 / m in units of (Delta / sigma)^2. Later blocks have noise of their own, so that a
way costs the sum over its blocks, and delta is the average over ways, exactly:

    delta(epsilon) = E delta_G(sqrt(C) / multiplier, epsilon),      C = sum over blocks of k^2 / m

    exact_costs     the law of C for few agents and hops, from all ways
    drawn_costs     C of ways that are drawn
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from sottovoce.accounting import gaussian
from sottovoce.studies.cells import Cell

SHOWN = "shown, gradients that do not react"
Array = NDArray[np.float64]


def exact_costs(transition: Array, *, agent: int, observer: int, hops: int, contributions: int) -> tuple[Array, Array]:
    """([M] costs, [M] their probabilities) over all ways from a uniform start; what costs nothing is left out.

    Args:
        transition: [K, K] W.
        agent: u, who contributes.
        observer: v, who looks and knows its own noise.
        hops: T.
        contributions: of u, at most.
    """
    K = len(transition)
    # Ways that agree in holder, contributions made, those of the present block, its noises and the cost so far go on alike.
    now: dict[tuple[int, int, int, int, Fraction], float] = {(k, 0, 0, 0, Fraction(0)): 1.0 / K for k in range(K)}
    for _ in range(hops):
        after: dict[tuple[int, int, int, int, Fraction], float] = defaultdict(float)
        for (holder, made, seen, noises, cost), probability in now.items():
            adds = int(holder == agent and made < contributions)
            made, seen, noises = made + adds, seen + adds, noises + (holder != observer)
            for receiver in np.flatnonzero(transition[holder]).tolist():
                state = (receiver, made, seen, noises, cost)
                if receiver == observer:
                    state = (receiver, made, 0, 0, cost + (Fraction(seen**2, noises) if seen else 0))
                after[state] += probability * float(transition[holder, receiver])
        now = after
    law: dict[Fraction, float] = defaultdict(float)
    for (*_, cost), probability in now.items():
        law[cost] += probability
    law.pop(Fraction(0), None)
    return np.array([float(cost) for cost in law]), np.array(list(law.values()))


def drawn_costs(
    transition: Array, pairs: Sequence[tuple[int, int]], *, hops: int, contributions: int, ways: int, seed: int
) -> list[Array]:
    """[ways] costs of ways drawn from a uniform start, for every pair (u, v); the ways are the same for all pairs.

    Args:
        transition: [K, K] W.
        pairs: who contributes, and who looks.
        hops: T.
        contributions: of an agent, at most.
        ways: how many are drawn.
        seed: of the draws.
    """
    generator, K = np.random.default_rng(seed), len(transition)
    # Row k of the table lies between k and k + 1, so that one search finds the next holder of every way.
    reached = np.minimum(np.cumsum(transition, axis=1), 1.0)
    reached[:, -1] = 1.0
    table = (reached + np.arange(K)[:, None]).ravel()
    holder = generator.integers(0, K, ways)
    blocks = [_Blocks(u, v, ways, contributions) for u, v in pairs]
    for _ in range(hops):
        chosen = np.searchsorted(table, holder + generator.random(ways), side="right")
        receiver = np.minimum(chosen - holder * K, K - 1)
        for block in blocks:
            block.hop(holder, receiver)
        holder = receiver
    return [block.costs for block in blocks]


class _Blocks:
    """The present block of every way and the costs of the earlier ones, for one pair."""

    def __init__(self, agent: int, observer: int, ways: int, contributions: int) -> None:
        self.agent, self.observer, self.most = agent, observer, contributions
        self.made, self.seen, self.noises = (np.zeros(ways, dtype=np.int64) for _ in range(3))
        self.costs = np.zeros(ways)

    def hop(self, holder: NDArray[np.int64], receiver: NDArray[np.int64]) -> None:
        """The holder adds what it adds, and the receiver looks if it is the observer."""
        adds = (holder == self.agent) & (self.made < self.most)
        self.made += adds
        self.seen += adds
        self.noises += holder != self.observer
        looks = np.flatnonzero(receiver == self.observer)
        self.costs[looks] += self.seen[looks] ** 2 / np.maximum(self.noises[looks], 1)
        self.seen[looks] = self.noises[looks] = 0


def epsilon_of(costs: Array, probabilities: Array, *, noise_multiplier: float, delta: float) -> float:
    """The smallest epsilon at this delta, for costs above 0 and their probabilities."""
    mu = np.sqrt(costs) / noise_multiplier

    def excess(epsilon: float) -> float:
        return math.log(max(float(probabilities @ gaussian.deltas(mu, epsilon)), 1e-300)) - math.log(delta)

    if not len(costs) or excess(0.0) <= 0.0:
        return 0.0
    return float(brentq(excess, 0.0, gaussian.epsilon(float(mu.max()), 0.5 * delta), xtol=1e-10))


def measured_epsilon(costs: Array, *, noise_multiplier: float, delta: float) -> Cell:
    """The same from drawn ways, with its standard error: that of delta over how fast delta falls with epsilon."""
    ways, costs = len(costs), costs[costs > 0.0]
    share = np.full(len(costs), 1.0 / ways)
    epsilon = epsilon_of(costs, share, noise_multiplier=noise_multiplier, delta=delta)
    if epsilon == 0.0:
        return Cell(value=0.0, error=0.0)
    mu, step = np.sqrt(costs) / noise_multiplier, 1e-3 * epsilon
    here, there = (gaussian.deltas(mu, at) for at in (epsilon, epsilon + step))
    spread = math.sqrt(max(float((here**2).sum()) / ways - (float(here.sum()) / ways) ** 2, 0.0) / ways)
    slope = float((here - there).sum()) / ways / step
    return Cell(value=epsilon, error=spread / slope)
