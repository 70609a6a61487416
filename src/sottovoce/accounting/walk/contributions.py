"""How often the token visits one agent: a cap set by the protocol, or a number that is exceeded only rarely.

A cap is a plain whole number: after that many contributions the agent only adds noise. Without a cap, `likely` numbers
N come with the probability d that more visits happen. The walk that stops contributing after N visits differs from the
real one with probability at most d in either world, so d is taken off delta.

    complete graph   visits in T hops ~ Binomial(T, 1/n); N is the smallest number with P(visits > N) <= d, exactly
    symmetric walk   from a uniform start, P(visits >= T/n + x) <= exp(-(1 - l)/(1 + l) 2 x^2 / T), l = max(lambda_2, 0)
                     (Hoeffding's inequality for reversible Markov chains, Leon & Perron 2004)

The published N = T/n + sqrt(3 T ln(1/d) / n) is Chernoff's bound, which has this form only for T/n >= 3 ln(1/d); for
shorter walks it can be too small: T = n, d = 1e-6 gives 7.4, yet 8 visits or more have probability 1e-5.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.numbers import checked, whole


class LikelyContributions(NamedTuple):
    """At most `most` contributions, except with probability `failure_probability`."""

    most: int
    failure_probability: float


Contributions = int | LikelyContributions


def likely_contributions(*, num_agents: int, rounds: int, failure_probability: float) -> LikelyContributions:
    """Return the smallest N that uniform hops exceed with at most this probability.

    Args:
        num_agents: n.
        rounds: T holders of the token, all drawn uniformly; if the first is a fixed agent, add one to its count.
        failure_probability: in (0, 1).
    """
    from scipy.stats import binom  # takes long to load, and nothing else here needs it

    n, T = whole("num_agents", num_agents, least=2), whole("rounds", rounds)
    d = checked("failure_probability", failure_probability, "(0, 1)")
    count = int(binom.isf(d, T, 1.0 / n))
    while binom.sf(count, T, 1.0 / n) > d:
        count += 1
    return LikelyContributions(max(1, count), d)


def likely_contributions_on_graph(
    transition: NDArray[np.float64], *, rounds: int, failure_probability: float
) -> LikelyContributions:
    """Return an N that a symmetric walk from a uniformly drawn agent exceeds with at most this probability.

    Args:
        transition: [K, K] symmetric and stochastic; see `graph.transition_matrix`.
        rounds: T holders of the token.
        failure_probability: in (0, 1).
    """
    T, d = whole("rounds", rounds), checked("failure_probability", failure_probability, "(0, 1)")
    # Rows are probabilities, whose unit is 1; how symmetric they are is judged by the larger of two entries.
    uneven = np.abs(transition - transition.T) > 1e-9 * np.maximum(transition, transition.T)
    if uneven.any() or np.abs(transition.sum(axis=1) - 1.0).max() > 1e-9:
        raise ConfigError(
            "the number of visits is bounded for a symmetric transition matrix whose rows sum to one; this one is not."
        )
    second = max(0.0, float(np.linalg.eigvalsh(transition)[-2]))
    spread = math.sqrt(0.5 * T * math.log(1.0 / d) * (1.0 + second) / (1.0 - second))
    return LikelyContributions(max(1, min(T, math.floor(T / transition.shape[0] + spread))), d)


def count_and_delta(contributions: Contributions, delta: float) -> tuple[int, float]:
    """Return the number of contributions and the delta that is left for them.

    Raises:
        UnsupportedClaim: the failure probability uses delta up.
    """
    delta = checked("delta", delta, "(0, 1)")
    if not isinstance(contributions, LikelyContributions):
        return whole("contributions", contributions), delta
    count = whole("contributions", contributions.most)
    failure = checked("failure_probability", contributions.failure_probability, "[0, 1]")
    if failure >= delta:
        raise UnsupportedClaim(
            f"more than {count} contributions have probability up to {failure:g}, which leaves nothing of "
            f"delta = {delta:g}. Choose a smaller failure_probability, or let the protocol cap the contributions."
        )
    return count, delta - failure
