"""What a federation gives away whose averages are masked in pairs, against the relay and agents nobody knows.

n agents publish, in every round, a vector with own noise and masks (algorithms/aggregation.py). A coalition of the relay and c agents, chosen
before the public graph is drawn, sees all of it and knows its members' masks and noise. Without masks agent p would be local-GDP, with

    local^2 = sum over rounds of (change of p's vector / own std)^2 .

In a round with H_t honest agents left in the sum, given everything before, p is mu_t-GDP with mu_t = local_t sqrt(b_t), and
b_t = [(I + q L_t)^-1]_pp on the graph of these agents, q the square of the masks' ratio (accounting/gopa/__init__). The common model is a
function of what was published, so rounds compose adaptively, and masks are fresh: mu^2 = sum_t local_t^2 b_t given the graphs. At least
H = (agents that publish) - c are honest in every sum that is released. On average over the graphs, p is (epsilon, delta)-DP with

    uniform masks       delta = min over m <= H of  T P(p is connected to fewer than m honest agents) + delta_epsilon(local / sqrt m)
    Gaussian masks      delta = min over l of  T P(lambda_2 < l) + delta_epsilon(local sqrt(1/H + (1 - 1/H) / (1 + q l)))

whether one graph serves all T rounds or each has its own: each of T sets of agents, which do not depend on its graph, may be a bad one. The
first probability is `disconnection.small_part`, the largest over all H_t >= H; the second `random_graphs.connectivity_failure`, which at fixed l
falls in H where it is at most 1/10 and H >= 4, as b does. If everybody publishes in a single round, degrees give more (`random_graphs`). Never
worse than without masks: b <= 1.

A round that does not count because too few published is not repaired. What was published then is a part of what all honest agents who had
agreed on masks, at least H again, would have published, and a part of a Gaussian vector tells less than the whole.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np

from sottovoce.accounting.gopa.disconnection import worst_small_part
from sottovoce.accounting.gopa.random_graphs import averaged_delta, certain_connectivity, degree_law
from sottovoce.accounting.mechanisms import gaussian
from sottovoce.accounting.tradeoff import Order, searched_factor
from sottovoce.numbers import checked

_FAILURES = 10.0 ** -np.arange(1, 31)
_PRECISION = 1e-9  # of an epsilon found by bisection, from above


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskedTradeoff:
    """One agent among honest others that mask each other, on average over the public graph.

    Attributes:
        local: mu of the agent's vectors over all rounds if there were no masks.
        num_agents: n.
        partners: k, picks of every agent.
        corrupted: c, agents that belong to the observer, at most.
        published: agents in every sum that is released, at least.
        ratio: standard deviation of a mask in those of own noise; infinity for uniform masks.
        rounds: T.
    """

    local: float
    num_agents: int
    partners: int
    corrupted: int
    published: int
    ratio: float
    rounds: int
    mu: ClassVar[None] = None  # a bad graph has a probability, which no mu covers
    pure_epsilon: ClassVar[None] = None

    @property
    def order(self) -> Order:
        """On graphs of the same law, more that messages show without masks covers less."""
        law = (self.num_agents, self.partners, self.corrupted, self.published, self.ratio, self.rounds)
        return Order(("masked", *law), (self.local,))

    def repeated(self, times: int) -> "MaskedTradeoff":
        """Given the graphs mu^2 adds up; each of all rounds may have a bad one."""
        return replace(self, local=self.local * math.sqrt(times), rounds=self.rounds * times)

    def factor_for(self, epsilon: float, delta: float) -> float:
        """By a search."""
        return searched_factor(self, epsilon, delta)

    @property
    def honest(self) -> int:
        """H, honest agents in every sum, at least."""
        return self.published - self.corrupted

    @property
    def graph_risk(self) -> float:
        """How likely, at most, the agent is connected to fewer than half of the honest agents in some round."""
        return self._risk(-(-self.honest // 2)) if self.honest >= 2 else 1.0

    def scaled(self, factor: float) -> "MaskedTradeoff":
        """What holds when own noise and masks are multiplied by this factor."""
        return replace(self, local=self.local / checked("factor", factor, "(0, inf)"))

    def delta(self, epsilon: float) -> float:
        """A delta that holds with this epsilon."""
        if math.isinf(self.local):
            return 1.0
        alone = gaussian.delta(self.local, epsilon)
        if self.honest < 2:
            return alone
        if math.isinf(self.ratio):
            return min(
                alone, *(self._risk(m) + gaussian.delta(self.local / math.sqrt(m), epsilon) for m in self._sizes)
            )
        return min(alone, self._connected(epsilon))

    def epsilon(self, delta: float) -> float:
        """An epsilon that holds with this delta; infinite where none does."""
        if math.isinf(self.local):
            return math.inf
        if self.honest < 2 or math.isfinite(self.ratio):
            return _smallest_epsilon(self, delta)
        found = [gaussian.epsilon(self.local, delta)]
        for m in self._sizes:
            left = delta - self._risk(m)
            if left > 0:
                found.append(gaussian.epsilon(self.local / math.sqrt(m), left))
        return min(found)

    @property
    def _sizes(self) -> list[int]:
        """m: all honest agents, a few fewer, and half of them."""
        H = self.honest
        return sorted({H, *(H - gap for gap in (1, 2, 4, 8, 16) if 2 * gap <= H), -(-H // 2)}, reverse=True)

    def _risk(self, size: int) -> float:
        once = worst_small_part(self.num_agents, self.honest, self.num_agents - self.corrupted, self.partners, size)
        return min(1.0, once * self.rounds)

    def _connected(self, epsilon: float) -> float:
        n, H, q = self.num_agents, self.honest, self.ratio**2
        best = 1.0
        if self.rounds == 1 and self.published == n:
            law = _degree_law(n, H / n, self.partners)
            best = averaged_delta(law, (n, H / n, self.partners), q, self.local, epsilon).delta
        for failure in _FAILURES if H >= 4 else ():
            lambda_2 = certain_connectivity(n, H / n, self.partners, failure_probability=float(failure) / self.rounds)
            if lambda_2 > 0:
                share = 1.0 / H + (1.0 - 1.0 / H) / (1.0 + q * lambda_2)
                best = min(best, float(failure) + gaussian.delta(self.local * math.sqrt(share), epsilon))
        return best


@lru_cache(maxsize=64)
def _degree_law(n: int, rho: float, k: int) -> np.ndarray:
    return degree_law(n, rho, k)


@lru_cache(maxsize=4096)
def _smallest_epsilon(tradeoff: MaskedTradeoff, delta: float) -> float:
    """By bisection, ending where delta was computed to be met."""
    high = gaussian.epsilon(tradeoff.local, delta) if delta > 0 else math.inf
    if math.isinf(high) or high == 0:
        return high
    low = 0.0
    if tradeoff.delta(0.0) <= delta:
        return 0.0
    while high - low > _PRECISION * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if tradeoff.delta(middle) <= delta else (middle, high)
    return high
