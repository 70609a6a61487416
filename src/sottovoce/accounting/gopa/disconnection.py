"""How likely a random k-out graph leaves an agent in a small part of those that can be counted on.

n agents each pick k others, all sets of k alike; H of them are honest, chosen before the picks. If the connected part of the honest agent p is a set
of j < H, none of these j picked one of the other H - j honest agents, and none of those picked one of the j. Picks are independent, so that,
with one term for each of the sets that hold p,

    P(p's part has fewer than m agents) <= sum_{j=1}^{m-1} C(H - 1, j - 1) p(H - j)^j p(j)^(H - j),    p(a) = C(n - 1 - a, k) / C(n - 1, k).

That anybody is cut off has the same bound with C(H, j) in place of C(H - 1, j - 1) and j up to H/2, the smaller side of the cut.

With m a little below H the first one is nearly the probability that p itself is isolated. It is far below what a bound on lambda_2 gives
(`random_graphs.connectivity_failure`): with uniform masks only connection matters.
"""

from functools import lru_cache

import numpy as np
from scipy.special import gammaln

from sottovoce.errors import ConfigError
from sottovoce.numbers import whole

_ROUNDING = 1e-6  # relative; logarithms of factorials of a million are right to 1e-8


def small_part(n: int, honest: int, k: int, size: int) -> float:
    """An upper bound of the probability that an honest agent is connected to fewer than `size` honest agents, itself included.

    Args:
        n: agents.
        honest: H.
        k: others that every agent picks.
        size: m, at most H.
    """
    n, H, k = _checked(n, honest, k)
    if size > honest:
        raise ConfigError(f"size = {size}, but there are {honest} honest agents; size must be at most that.")
    j = np.arange(1, whole("size", size))
    return _union(n, H, k, j, gammaln(H) - gammaln(j) - gammaln(H - j + 1))


@lru_cache(maxsize=256)
def worst_small_part(n: int, least: int, most: int, k: int, size: int) -> float:
    """The largest of these bounds over all numbers of honest agents from `least` to `most`."""
    return max(small_part(n, honest, k, size) for honest in range(least, most + 1))


def disconnection(n: int, honest: int, k: int) -> float:
    """An upper bound of the probability that `honest` of n agents, each picking k others, are not connected."""
    n, H, k = _checked(n, honest, k)
    j = np.arange(1, H // 2 + 1)
    return _union(n, H, k, j, gammaln(H + 1) - gammaln(j + 1) - gammaln(H - j + 1))


@lru_cache(maxsize=256)
def worst_disconnection(n: int, least: int, most: int, k: int) -> float:
    """The largest of these bounds over all numbers of honest agents from `least` to `most`."""
    return max(disconnection(n, honest, k) for honest in range(least, most + 1))


def _checked(n: int, honest: int, k: int) -> tuple[int, int, int]:
    if whole("k", k) >= whole("n", n, least=2) or whole("honest", honest) > n:
        raise ConfigError(f"n = {n}, honest = {honest}, k = {k}; k must be below n, and honest at most n.")
    return n, honest, k


def _union(n: int, H: int, k: int, j: np.ndarray, log_sets: np.ndarray) -> float:
    """The sum over sets of j that nobody links with the other H - j."""
    avoids = _avoiding(n, k)
    terms = log_sets + j * avoids[H - j] + (H - j) * avoids[j]  # factors are positive: 0 times infinity does not occur
    return float(min(1.0, np.exp(np.minimum(terms, 1.0)).sum() * (1.0 + _ROUNDING)))


@lru_cache(maxsize=8)
def _avoiding(n: int, k: int) -> np.ndarray:
    """[n] log p(a) for a = 0, ..., n - 1; -inf where k picks cannot avoid a others."""
    others = np.arange(n, dtype=float)
    log = np.zeros(n)
    with np.errstate(divide="ignore"):
        for pick in range(k):
            left = np.maximum(1.0 - others / (n - 1 - pick), 0.0)
            log += np.where(left > 0.5, np.log1p(-np.minimum(others / (n - 1 - pick), 0.9)), np.log(left))
    return log
