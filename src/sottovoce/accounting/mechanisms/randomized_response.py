"""Randomized response: answer a question with plausible deniability, and still learn the rate.

    P(report 1 | truth 1) = p,    P(report 1 | truth 0) = q

is epsilon-DP with epsilon = max( |ln(p / q)|, |ln((1 - p) / (1 - q))| ): both answers count, since a 0 can betray as
much as a 1. If an answer is impossible under one truth only, epsilon is infinite.

The classical design: toss a coin; on heads tell the truth, on tails toss again and answer by that coin. Fair coins give
p = 3/4, q = 1/4, and epsilon = ln 3 (Vlaski & Sayed, Example 11.2, eq. 11.12-11.16). With L categories, a report matrix
with entries P(report j | truth i) has epsilon = max over j of ln(max_i / min_i); telling the truth with odds e^epsilon
against each other category is the L-ary version of the same design.

Several reports of one truth, each with coins of its own, have binomial counts of ones, and with L(j) the log ratio of
their probabilities

    delta(epsilon) = sum over j of P(j ones) (1 - e^(epsilon - L(j)))_+,    the larger of both orders of the truths:

many reports give away far less than the sum of their epsilons at delta > 0. For reports of truths that may change on
the way, or depend on earlier reports, `mechanisms.pure_composition` has the answer, from the epsilon of one report; for
symmetric designs, p + q = 1, it is the same number.

When a share pi of the truths is 1, a report is 1 with probability q + (p - q) pi. So (reported rate - q) / (p - q) is
an unbiased estimate of pi; privacy costs spread, no bias.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaln, xlog1py, xlogy

from sottovoce.errors import ConfigError
from sottovoce.numbers import checked, whole


class RateEstimate(NamedTuple):
    """An unbiased estimate of a rate, and its standard error."""

    estimate: float
    standard_error: float


def epsilon(p: float, q: float) -> float:
    """Return the epsilon of one report, with P(report 1 | truth 1) = p and P(report 1 | truth 0) = q.

    Args:
        p: from 0 to 1.
        q: from 0 to 1; q = p reveals nothing.

    Returns:
        epsilon; infinity if an answer is possible under one truth and impossible under the other.
    """
    p, q = checked("p", p, "[0, 1]"), checked("q", q, "[0, 1]")
    gap, low, high = abs(p - q), min(p, q), max(p, q)
    return max(_log_ratio(low, gap), _log_ratio(1.0 - high, gap))


def epsilon_of_categories(report: ArrayLike) -> float:
    """Return the epsilon of one report among several categories.

    Args:
        report: P(report j | truth i) in row i, column j, [L, M]; rows sum to 1. M need not equal L.

    Returns:
        max over reports j and truths i, k of ln(P(j | i) / P(j | k)); infinity where one is 0 and the other is not.
    """
    matrix = _checked_report(report)
    lows, highs = matrix.min(axis=0), matrix.max(axis=0)
    return max(_log_ratio(float(low), float(high - low)) for low, high in zip(lows, highs, strict=True))


def delta_of_reports(p: float, q: float, *, reports: int, epsilon: float) -> float:
    """Return the delta of several reports of one truth at this epsilon: exact, but for rounding, which is upwards.

    Args:
        p: P(report 1 | truth 1), from 0 to 1.
        q: P(report 1 | truth 0), from 0 to 1.
        reports: how many, each with coins of its own.
        epsilon: at least 0, finite.
    """
    p, q = checked("p", p, "[0, 1]"), checked("q", q, "[0, 1]")
    epsilon, reports = checked("epsilon", epsilon, "[0, inf)"), whole("reports", reports)
    ones = np.arange(reports + 1)
    ways = -math.log1p(reports) - betaln(ones + 1, reports - ones + 1)
    log_p, log_q = (xlogy(ones, rate) + xlog1py(reports - ones, -rate) for rate in (p, q))
    with np.errstate(invalid="ignore"):  # where both are impossible
        losses = np.nan_to_num(log_p - log_q, nan=0.0, posinf=math.inf, neginf=-math.inf)
    both = (
        float((np.exp(ways + under) * -np.expm1(np.minimum(epsilon - loss, 0.0))).sum())
        for under, loss in ((log_p, losses), (log_q, -losses))
    )
    # Logarithms of up to `reports` factors carry their roundings into the probabilities.
    return min(1.0, max(both) * math.exp(2.0**-45 * (reports + 1)))


def epsilon_of_reports(p: float, q: float, *, reports: int, delta: float) -> float:
    """Return the epsilon of several reports of one truth at this delta: exact, but for rounding, which is upwards.

    Args:
        p: P(report 1 | truth 1), from 0 to 1.
        q: P(report 1 | truth 0), from 0 to 1.
        reports: how many, each with coins of its own.
        delta: at least 0, below 1; delta = 0 gives the sum.

    Returns:
        epsilon; infinity if an answer that is possible under one truth only has more probability than delta.
    """
    most = epsilon(p, q) * whole("reports", reports)
    delta = checked("delta", delta, "[0, 1)")
    if delta == 0.0 or most == 0.0:
        return most
    if delta_of_reports(p, q, reports=reports, epsilon=0.0) <= delta:
        return 0.0
    high = min(most, 1.0)
    while high < most and delta_of_reports(p, q, reports=reports, epsilon=high) > delta:
        high = min(most, 2.0 * high) if high < 2.0**40 else most
    if high == math.inf:
        return high
    low = 0.0
    while high - low > 2.0**-40 * high:  # ends on the upper side
        middle = 0.5 * (low + high)
        if delta_of_reports(p, q, reports=reports, epsilon=middle) > delta:
            low = middle
        else:
            high = middle
    return high


def two_coins(first: float = 0.5, second: float = 0.5) -> tuple[float, float]:
    """Return (p, q) of the two-coin design; fair coins are the classical one, with epsilon = ln 3.

    Args:
        first: the probability that the first coin says "tell the truth".
        second: the probability that the second coin, used otherwise, says "report 1".
    """
    first, second = checked("first", first, "[0, 1]"), checked("second", second, "[0, 1]")
    q = (1.0 - first) * second
    return first + q, q


def truth_or_uniform(truthful: float, categories: int) -> NDArray[np.float64]:
    """Return the report matrix, [L, L]: the truth with probability `truthful`, else any category uniformly."""
    truthful = checked("truthful", truthful, "[0, 1]")
    size = whole("categories", categories, least=2)
    return truthful * np.eye(size) + (1.0 - truthful) / size


def probabilities(epsilon: float, *, categories: int = 2) -> tuple[float, float]:
    """Return (p, q), the most truthful symmetric design that is epsilon-DP.

    Args:
        epsilon: at least 0, finite.
        categories: L >= 2.

    Returns:
        p = e^epsilon / (e^epsilon + L - 1), the probability to report the truth, and q = 1 / (e^epsilon + L - 1), that
        of each other category.
    """
    weight = math.exp(-checked("epsilon", epsilon, "[0, inf)"))
    others = whole("categories", categories, least=2) - 1
    p = 1.0 / (1.0 + others * weight)
    return p, weight * p


def estimate_rate(reported_rate: float, p: float, q: float, n: int) -> RateEstimate:
    """Estimate the share of ones among the truths from the share of ones among the reports.

    The estimate (reported_rate - q) / (p - q) is unbiased, and may therefore fall outside [0, 1]. The squared standard
    error, reported_rate (1 - reported_rate) / (n - 1) / (p - q)^2, is unbiased for its variance when the n respondents
    are drawn at random; about these n themselves the estimate errs less, by pi (1 - pi) / n in the variance.

    Args:
        reported_rate: the share of ones among n reports.
        p: P(report 1 | truth 1).
        q: P(report 1 | truth 0), different from p.
        n: the number of reports, at least 2.

    Raises:
        ConfigError: p = q, where reports say nothing about truths, or malformed numbers.
    """
    rate = checked("reported_rate", reported_rate, "[0, 1]")
    gap = checked("p", p, "[0, 1]") - checked("q", q, "[0, 1]")
    count = whole("n", n, least=2)
    if gap == 0.0:
        raise ConfigError(f"p = q = {p:g}: reports do not depend on the truth. Choose p different from q.")
    return RateEstimate((rate - q) / gap, math.sqrt(rate * (1.0 - rate) / (count - 1)) / abs(gap))


def _log_ratio(low: float, gap: float) -> float:
    """Return ln((low + gap) / low), accurate for small and large gaps; 0 / 0 is no information."""
    if gap == 0.0:
        return 0.0
    if low <= 0.0:
        return math.inf
    return math.log1p(gap / low) if gap < low else math.log(low + gap) - math.log(low)


def _checked_report(report: ArrayLike) -> NDArray[np.float64]:
    try:
        matrix = np.asarray(report, dtype=np.float64)
    except (TypeError, ValueError):
        matrix = np.full((0, 0), np.nan)
    if matrix.ndim != 2 or matrix.shape[0] < 2 or matrix.shape[1] < 1:
        raise ConfigError("report must be a matrix of numbers with a row for each of at least two truths.")
    if not np.all(matrix >= 0.0) or not (np.abs(matrix.sum(axis=1) - 1.0) <= 1e-9).all():
        raise ConfigError(
            f"Every row of report must be a probability distribution; rows sum to {matrix.sum(axis=1).tolist()} and "
            f"the smallest entry is {matrix.min():g}. Give P(report j | truth i) in row i, column j."
        )
    return matrix
