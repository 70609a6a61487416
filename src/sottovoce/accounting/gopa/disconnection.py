"""How likely a random k-out graph falls apart among the agents that can be counted on.

n agents each pick k others, all sets of k alike; H of them are honest, chosen before the picks. If the honest graph is not connected, some set
of j <= H/2 honest agents has no link to the other honest ones: none of the j picked one of the H - j, and none of these picked one of the j. Picks
are independent, so that by the union bound

    P(not connected) <= sum_{j=1}^{H/2} C(H, j) p(H - j)^j p(j)^(H - j),      p(a) = C(n - 1 - a, k) / C(n - 1, k).

It is nearly the probability of an isolated agent, and far below what a bound on lambda_2 gives (`random_graphs.connectivity_failure`): with
uniform masks only connection matters.
"""

from functools import lru_cache

import numpy as np
from scipy.special import gammaln

from sottovoce.accounting.arguments import whole
from sottovoce.errors import ConfigError

_ROUNDING = 1e-9  # relative, of sums of logarithms of factorials


@lru_cache(maxsize=4096)
def disconnection(n: int, honest: int, k: int) -> float:
    """An upper bound of the probability that `honest` of n agents, each picking k others, are not connected; at most 1."""
    n, H, k = whole("n", n, least=2), whole("honest", honest), whole("k", k)
    if k >= n or honest > n:
        raise ConfigError(f"n = {n}, honest = {honest}, k = {k}; k must be below n, and honest at most n.")
    if H == 1:
        return 0.0
    j = np.arange(1, H // 2 + 1)
    sets = gammaln(H + 1) - gammaln(j + 1) - gammaln(H - j + 1)
    terms = sets + _times(j, _avoids(n, k, H - j)) + _times(H - j, _avoids(n, k, j))
    return float(min(1.0, np.exp(terms).sum() * (1.0 + _ROUNDING)))


def worst_disconnection(n: int, least: int, most: int, k: int) -> float:
    """The largest of these bounds over all numbers of honest agents from `least` to `most`."""
    return max(disconnection(n, honest, k) for honest in range(least, most + 1))


def _avoids(n: int, k: int, others: np.ndarray) -> np.ndarray:
    """The logarithm of p(a): k picks of n - 1 avoid a of them; -inf where they cannot."""
    left = n - 1 - others
    possible = left >= k
    free = np.where(possible, left, k)
    log = gammaln(free + 1) - gammaln(free - k + 1) - (gammaln(n) - gammaln(n - k))
    return np.where(possible, np.minimum(log, 0.0), -np.inf)


def _times(count: np.ndarray, log: np.ndarray) -> np.ndarray:
    return np.asarray(count * log)  # counts are positive, so that 0 times infinity does not occur
