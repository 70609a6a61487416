"""A lower bound on epsilon from ONE run with many canaries (Steinke, Nasr & Jagielski 2023).

Each of m canaries is put into the data or left out by its own fair coin. After the run the attacker guesses the coins of
r of them and abstains on the others; v guesses are right. If the run is epsilon-DP with respect to each canary, every
guess is right with probability at most q = e^epsilon / (1 + e^epsilon), given all earlier ones, so v is no larger in law
than W ~ Bin(r, q). With delta > 0 (their Theorem on approximate DP)

    P(at least v right) <= P(W >= v) + 2 m delta max over i = 1..v of P(v - i <= W < v) / i.

The bound is the epsilon at which the right-hand side reaches 1 - confidence. The term with delta counts all m canaries,
those abstained on included: every coin could be the one that delta gives away.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import binom

from sottovoce.attacks.bounds.lower_bound import LowerBound, checked_confidence, checked_scores, shuffled
from sottovoce.errors import ConfigError
from sottovoce.numbers import checked, whole

_LARGEST = 700.0  # e^700 is still a number; a bound this large needs more canaries than there are


def one_run(m: int, r: int, v: int, *, delta: float, confidence: float) -> LowerBound:
    """Bound epsilon from below by the guesses of one run.

    Args:
        m: how many canaries had a fair coin of their own.
        r: how many coins were guessed; fixed in advance, or chosen without looking at the coins.
        v: how many of these guesses were right.
        delta: of the guarantee that is tested, at least 0, below 1.
        confidence: at least one half, below 1.
    """
    delta = checked("delta", delta, "[0, 1)")
    error = 1.0 - checked_confidence(confidence)
    m, r, v = whole("m", m), whole("r", r, least=0), whole("v", v, least=0)
    if not v <= r <= m:
        raise ConfigError(
            f"m = {m} canaries, r = {r} guesses, v = {v} right; needed is v <= r <= m. Count abstentions in m only."
        )

    def excess(epsilon: float) -> float:
        return p_value(m, r, v, epsilon=epsilon, delta=delta) - error

    bound = 0.0
    if excess(0.0) < 0.0:  # then v >= 1, and at the right end every guess would be right almost surely
        # The result is the end at which the test still rejects.
        root = float(brentq(excess, 0.0, _LARGEST, xtol=1e-12, rtol=1e-13))
        bound = root if excess(root) <= 0.0 else max(0.0, root - 2e-12 * max(1.0, root))
    return LowerBound(method="one-run", confidence=confidence, epsilon=bound, delta=delta)


def p_value(m: int, r: int, v: int, *, epsilon: float, delta: float) -> float:
    """Return a bound on the probability of v or more right guesses if (epsilon, delta)-DP holds."""
    q = float(expit(epsilon))
    chance = float(binom.sf(v - 1, r, q))
    if delta == 0.0 or v == 0:
        return min(1.0, chance)
    below = np.cumsum(binom.pmf(np.arange(v - 1, -1, -1), r, q))  # P(v - i <= W < v) for i = 1..v
    share = float((below / np.arange(1, v + 1)).max())
    return min(1.0, chance + 2.0 * m * delta * share)


def count_guesses(scores: ArrayLike, included: ArrayLike, *, positive: int, negative: int) -> tuple[int, int, int]:
    """Guess "in" for the largest scores and "out" for the smallest, and return (m, r, v) for `one_run`.

    Ties are broken by an order that knows nothing of the coins, however the canaries are sorted.

    Args:
        scores: one per canary, larger for those the attacker believes to be in, [m].
        included: the coins, as booleans, [m].
        positive: how many to call "in"; decided before looking at the coins.
        negative: how many to call "out".
    """
    values, _ = checked_scores(scores, scores)
    coins: NDArray[np.bool_] = np.asarray(included)
    positive, negative = whole("positive", positive, least=0), whole("negative", negative, least=0)
    m = len(values)
    if coins.dtype != np.bool_ or coins.shape != (m,):
        raise ConfigError(f"included has shape {coins.shape} and type {coins.dtype}; needed are {m} booleans.")
    if positive + negative > m:
        raise ConfigError(f"positive + negative = {positive + negative} guesses for {m} canaries; guess each once.")
    mixed = shuffled(m)
    order = mixed[np.argsort(values[mixed], kind="stable")]
    right = int(coins[order[m - positive :]].sum()) + int((~coins[order[:negative]]).sum())
    return m, positive + negative, right
