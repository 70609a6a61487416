"""Lower bounds from how often an attacker is right: exact binomial confidence limits.

The attacker says "world 1" when the score is at least t. Write F = P(score >= t | world 0) for false alarms and
T = P(score >= t | world 1) for hits. Every (epsilon, delta)-DP mechanism obeys both

    T <= e^epsilon F + delta,        1 - F <= e^epsilon (1 - T) + delta,

and every mu-GDP mechanism Phi^-1(T) - Phi^-1(F) <= mu (Dong, Roth & Su 2022), whatever its noise. All three grow when T
grows and F falls. So one upper limit of F and one lower limit of T, each missed with probability at most a / 2, give

    epsilon >= max( ln((T_low - delta) / F_high), ln((1 - F_high - delta) / (1 - T_low)) )
    mu      >= Phi^-1(T_low) - Phi^-1(F_high)

with confidence 1 - a: the two directions share the two limits and need no correction among themselves. The limits are
those of Clopper & Pearson 1934, quantiles of beta distributions.

Why the threshold matters. The limits are proved for a t fixed before the scores were seen.
  - The best of q thresholds fails if any of them does; a / q for each repairs that (Bonferroni).
  - Thresholds read off the SAME scores are not fixed, not even quantiles of both worlds' scores mixed. Given the pooled
    scores, the number above their median is known, so hits and false alarms determine each other and neither is
    binomial. With one score per world and the threshold at the larger one, exactly one of the two is above it,
    always; two independent binomial counts would be (0, 0) or (1, 1) half the time for equal worlds.
  - Here they come from other scores. "bonferroni": a pilot of one tenth of each world gives quantiles of the pooled
    pilot, of which q remain after duplicates are dropped; the rest of the scores is tested, each t at a / q. "split":
    the first half picks the one t that looks best on it; the second half is tested at t with all of a.
Given the pilot (or first half), t is fixed and the tested scores are independent of it: the proof applies. The parts
are dealt out in a fixed shuffled order, so that scores handed over sorted do no harm.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, ndtri

from sottovoce.attacks.arrays import Floats
from sottovoce.attacks.bounds.lower_bound import LowerBound, checked_confidence, checked_scores, shuffled
from sottovoce.errors import ConfigError
from sottovoce.numbers import checked, whole

Thresholds = Literal["bonferroni", "split"] | float | Sequence[float]

_TAILS = 2.0 ** -np.arange(1.0, 7.0)  # 1/2 ... 1/64 of the pooled pilot above, and the same below
_LEVELS = np.unique(np.concatenate([_TAILS, 1.0 - _TAILS]))
_PILOT = 10  # one score in ten belongs to the pilot


class Limits(NamedTuple):
    """One-sided confidence limits at every threshold."""

    false_alarms_high: Floats  # [q]
    hits_low: Floats  # [q]


def clopper_pearson(
    scores0: ArrayLike, scores1: ArrayLike, *, delta: float, confidence: float, thresholds: Thresholds = "bonferroni"
) -> LowerBound:
    """Bound epsilon from below by the hits and false alarms of a threshold attack.

    It needs independent scores within each world, and nothing else.

    Args:
        scores0: the attacker's scores in world 0, [n].
        scores1: in world 1, [m]; larger than in world 0, or the bound is 0.
        delta: of the guarantee that is tested, at least 0, below 1.
        confidence: at least one half, below 1.
        thresholds: "bonferroni", "split", or numbers fixed before the scores were seen.

    Returns:
        The bound on epsilon: 0 when nothing was shown, never infinite.
    """
    delta = checked("delta", delta, "[0, 1)")
    tested, limits = _limits(scores0, scores1, confidence, thresholds, delta)
    values = epsilons(limits, delta)
    best = int(values.argmax())
    return LowerBound(
        method="clopper-pearson", confidence=confidence, epsilon=float(values[best]), delta=delta,
        threshold=float(tested[best]),
    )  # fmt: skip


def tradeoff_mu(
    scores0: ArrayLike, scores1: ArrayLike, *, confidence: float, thresholds: Thresholds = "bonferroni"
) -> LowerBound:
    """Bound mu from below: no mu'-GDP guarantee with a smaller mu' can be true.

    The Gaussian curve belongs to the guarantee under test; the scores may have any law. Arguments as for
    `clopper_pearson`.

    Args:
        scores0: of runs in the first world.
        scores1: of runs in the second.
        confidence: with which the bound holds.
        thresholds: "bonferroni" pays for trying every threshold; or one that was chosen before.
    """
    tested, limits = _limits(scores0, scores1, confidence, thresholds, None)
    values = mus(limits)
    best = int(values.argmax())
    return LowerBound(
        method="tradeoff-mu", confidence=confidence, mu=float(values[best]), threshold=float(tested[best])
    )


def upper_limit(count: ArrayLike, trials: int, error: float) -> Floats:
    """Return the largest p that `count` or fewer successes do not refute: P(Bin(trials, p) <= count) = error."""
    k = _counts(count, trials)
    error = checked("error", error, "(0, 1)")
    inner = np.minimum(k, trials - 1)
    return np.where(k < trials, betaincinv(inner + 1.0, trials - inner, 1.0 - error), 1.0)


def lower_limit(count: ArrayLike, trials: int, error: float) -> Floats:
    """Return the smallest p that `count` or more successes do not refute: P(Bin(trials, p) >= count) = error."""
    k = _counts(count, trials)
    error = checked("error", error, "(0, 1)")
    inner = np.maximum(k, 1)
    return np.where(k > 0, betaincinv(inner, trials - inner + 1.0, error), 0.0)


def limits_at(scores0: Floats, scores1: Floats, thresholds: Floats, error: float) -> Limits:
    """Return the limits at thresholds that are fixed, [q]; all of them hold together but with probability `error`."""
    each = 0.5 * error / len(thresholds)
    false_alarms, hits = (len(s) - np.searchsorted(np.sort(s), thresholds, side="left") for s in (scores0, scores1))
    return Limits(upper_limit(false_alarms, len(scores0), each), lower_limit(hits, len(scores1), each))


def epsilons(limits: Limits, delta: float) -> Floats:
    """Return what each threshold shows about epsilon at this delta, the better of both directions, [q]."""
    high, low = limits
    upward = np.maximum(low - delta, 0.0) / high
    downward = np.maximum(1.0 - high - delta, 0.0) / (1.0 - low)
    shown: Floats = np.log(np.maximum(np.maximum(upward, downward), 1.0))
    return shown


def mus(limits: Limits) -> Floats:
    """Return what each threshold shows about mu, [q]."""
    high, low = limits
    shown = (low > 0.0) & (high < 1.0)
    difference: Floats = ndtri(np.where(shown, low, 0.5)) - ndtri(np.where(shown, high, 0.5))
    return np.maximum(difference, 0.0)


def _limits(
    scores0: ArrayLike, scores1: ArrayLike, confidence: float, thresholds: Thresholds, delta: float | None
) -> tuple[Floats, Limits]:
    """Choose thresholds, and return them with the limits; `delta` None is a search for mu."""
    error = 1.0 - checked_confidence(confidence)
    if isinstance(thresholds, str):
        worlds = checked_scores(scores0, scores1, least=2)
        if thresholds == "bonferroni":
            (pilot0, rest0), (pilot1, rest1) = (_divided(s, -(-len(s) // _PILOT)) for s in worlds)
            chosen = _pooled_quantiles(pilot0, pilot1)
        elif thresholds == "split":
            (first0, rest0), (first1, rest1) = (_divided(s, len(s) // 2) for s in worlds)
            chosen = _best(first0, first1, error, delta)
        else:
            raise ConfigError(
                f"thresholds = {thresholds!r}; choose 'bonferroni', 'split', or give numbers fixed in advance."
            )
        return chosen, limits_at(rest0, rest1, chosen, error)
    chosen = _given(thresholds)
    return chosen, limits_at(*checked_scores(scores0, scores1), chosen, error)


def _divided(scores: Floats, first: int) -> tuple[Floats, Floats]:
    mixed = scores[shuffled(len(scores))]
    return mixed[:first], mixed[first:]


def _pooled_quantiles(pilot0: Floats, pilot1: Floats) -> Floats:
    """Scores of the pilot at fixed ranks; the smallest is dropped where another remains, since all scores reach it."""
    pooled = np.sort(np.concatenate([pilot0, pilot1]))
    found = np.unique(pooled[np.floor(_LEVELS * len(pooled)).astype(int)])
    useful = found[found > pooled[0]]
    return useful if len(useful) else found[:1]


def _best(first0: Floats, first1: Floats, error: float, delta: float | None) -> Floats:
    """The threshold that looks best on these scores, tested there as if it were the only one."""
    candidates = np.unique(np.concatenate([first0, first1]))
    each = 0.5 * error
    false_alarms, hits = (len(s) - np.searchsorted(np.sort(s), candidates, side="left") for s in (first0, first1))
    limits = Limits(upper_limit(false_alarms, len(first0), each), lower_limit(hits, len(first1), each))
    values = mus(limits) if delta is None else epsilons(limits, delta)
    return candidates[[int(values.argmax())]]


def _given(thresholds: float | Sequence[float]) -> Floats:
    given = np.atleast_1d(np.asarray(thresholds))
    if given.dtype.kind not in "fiu" or given.ndim != 1 or not len(given) or not np.isfinite(given).all():
        raise ConfigError(f"thresholds = {thresholds!r}; needed are finite numbers, 'bonferroni' or 'split'.")
    return np.unique(given.astype(np.float64))


def _counts(count: ArrayLike, trials: int) -> NDArray[np.int64]:
    total, given = whole("trials", trials), np.asarray(count)
    if given.dtype.kind not in "iu" or ((given < 0) | (given > total)).any():
        raise ConfigError(f"count = {count!r}; needed are whole numbers from 0 to trials = {total}.")
    return given.astype(np.int64)
