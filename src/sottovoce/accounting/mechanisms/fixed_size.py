"""The Gaussian mechanism on subsets of fixed size: each round draws m of K units, every such subset equally likely.

A round releases the SUM over the subset plus Gaussian noise. The noise multiplier is sigma = std / S, where S is the
largest change of that sum when one unit OF THE SUBSET is replaced: 2C for vectors of l2 norm at most C. (For an
average over the m, multiply its std by m first.) The sampling rate is q = m / K, and two worlds differ by replacing
one unit; with add-remove the size of the population would differ too, so it is not offered.

One round. Put mu = 1 / sigma, H_a(P || Q) = sup over events E of P(E) - a Q(E), and g(a) = H_a(N(mu, 1) || N(0, 1)), the
exact profile of the Gaussian mechanism (`accounting.gaussian`, a = e^epsilon). Then every pair of neighbours has

    h(a) = q g(1 + (a - 1) / q)     for a >= 1,        that is delta' = q delta, e^epsilon' = 1 + q (e^epsilon - 1)
    h(a) = 1 - a + a h(1 / a)       for 0 <= a < 1

at most (Balle, Barthe & Gaboardi 2018, for any mechanism with that profile under replacement). Why: the two worlds are
(1 - q) R + q A and (1 - q) R + q B, the replaced unit being outside or inside. For a >= 1 and b = a / (1 + (a - 1) / q),
their divergence is q H_{a/b}(A || (1 - b) R + b B), at most q [(1 - b) H_{a/b}(A || R) + b H_{a/b}(A || B)], and both are
at most g(a / b): a subset with the unit turns into a uniform one without it by exchanging one member. Replacement is
symmetric, which gives the second line. The first is attained: all other units at -C, the replaced one at C in one
world and at -C in the other.

Composition. h is convex and falls from 1 without passing below 1 - a, so it is itself the profile of a pair of
distributions, whose losses have an atom at 0 when q < 1. Rounds that are each dominated by that pair at EVERY order a,
whatever was released before, are together dominated by its independent copies (Zhu, Dong & Wang 2022). Both lines are
needed: composing the pair that attains the first line, in either order, is not known to be an upper bound.

Numbers. On the grid of losses i w the profile is replaced by its chords in a, which lie above it. With h_i = h(e^(iw)),
d_i = h_i - h_{i+1} and c = 1 / (e^w - 1), the chords are the profile of the losses with probabilities

    p_i = d_{i-1} + c (d_{i-1} - d_i),    p_{-i} = e^(-iw) p_i,    p_0 = 1 - h_0 - 2 c d_0,    p_infinity = h_n,    d_n = 0.

dp-accounting composes them. Its Fourier transform errs both ways, so 25 roundings per round are added to delta, as in
`accounting.subsampled` (in extended precision about one is seen); its sum over at most 2^25 non-negative terms errs by a
fraction below 2^-28, which is added too. With q = 1 the exact Gaussian formula is used instead.

Not claimed: anything against an observer who learns who was drawn; rounds whose subsets are not drawn afresh (shuffled
or partitioned populations); add-remove neighbours; that a real run attains these numbers for more than one round.
"""

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, ndtr

from sottovoce.accounting.mechanisms import gaussian
from sottovoce.accounting.mechanisms.subsampled import dp_accounting_package
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.numbers import checked, whole

_ROUNDING_PER_ROUND: Final = 25 * 2.0**-53
_ROUNDING_OF_SUMS: Final = 2.0**-28
_TOLERANCE: Final = 1e-9  # relative, of epsilon
_TAIL: Final = 10.0  # losses beyond this many standard deviations (probability 8e-24) count as infinite
_MOST_POINTS: Final = 2**21  # of the grid, on either side of 0, for one round
_LONGEST: Final = 2**25  # points of the grid for all rounds
_CUT_OFF: Final = 1e-15  # probability of composed losses that dp-accounting counts as infinite


def epsilon(*, noise_multiplier: float, sampling_rate: float, rounds: int, delta: float, grid: float = 1e-4) -> float:
    """Return an epsilon at which `rounds` Gaussian releases on fixed-size subsets are (epsilon, delta)-DP.

    Args:
        noise_multiplier: std of the noise on the sum / largest change of the sum when one unit of the subset is
            replaced (2C for vectors clipped to norm C), above 0.
        sampling_rate: q = m / K, above 0, at most 1.
        rounds: at least 1.
        delta: above 0, below 1.
        grid: spacing of the privacy losses; finer is closer to the profile from above, and slower.

    Raises:
        ConfigError: malformed numbers, losses too large for the grid, or dp-accounting is not installed.
        UnsupportedClaim: delta is too small for the accountant's arithmetic.
    """
    from scipy.optimize import brentq  # heavy, and only this search needs it

    _check_design(noise_multiplier, sampling_rate, rounds, grid)
    delta = checked("delta", delta, "(0, 1)")
    if sampling_rate == 1.0:
        return gaussian.epsilon(math.sqrt(rounds) / noise_multiplier, delta)
    composed = _composed(noise_multiplier, sampling_rate, rounds, grid)
    floor = _charged(composed, math.inf, rounds)
    if floor > delta:
        raise UnsupportedClaim(
            f"delta = {delta:g} with rounds = {rounds}: the accountant's own rounding error and the tails it cuts off may "
            f"reach {floor:g}. Ask for a delta above that."
        )

    def excess(epsilon: float) -> float:
        return math.log(_charged(composed, epsilon, rounds) / delta)

    if excess(0.0) <= 0.0:
        return 0.0
    low, high = 0.0, 1.0
    while excess(high) > 0.0:
        low, high = high, 2.0 * high
    value = float(brentq(excess, low, high, rtol=_TOLERANCE))
    while excess(value) > 0.0:  # the root is found from either side; this is the valid one
        value *= 1.0 + _TOLERANCE
    return value


def delta(*, noise_multiplier: float, sampling_rate: float, rounds: int, epsilon: float, grid: float = 1e-4) -> float:
    """Return a delta at which `rounds` Gaussian releases on fixed-size subsets are (epsilon, delta)-DP.

    Args and errors as for `epsilon`, with epsilon at least 0. Below q = 1 the result includes the accountant's rounding
    error, so it does not fall to zero as epsilon grows.
    """
    _check_design(noise_multiplier, sampling_rate, rounds, grid)
    epsilon = checked("epsilon", epsilon, "[0, inf)")
    if sampling_rate == 1.0:
        return gaussian.delta(math.sqrt(rounds) / noise_multiplier, epsilon)
    return _charged(_composed(noise_multiplier, sampling_rate, rounds, grid), epsilon, rounds)


def _charged(composed: Any, epsilon: float, rounds: int) -> float:
    """Return delta at this epsilon, with the accountant's rounding error on top."""
    value = max(0.0, float(composed.get_delta_for_epsilon(epsilon)))
    return min(1.0, value * (1.0 + _ROUNDING_OF_SUMS) + _ROUNDING_PER_ROUND * rounds)


def _composed(
    noise_multiplier: float, sampling_rate: float, rounds: int, grid: float
) -> Any:  # dp_accounting's PrivacyLossDistribution, which is imported only here
    one_sided, infinite = _losses(1.0 / noise_multiplier, sampling_rate, grid)
    mirrored = one_sided[1:] * np.exp(-grid * np.arange(1, len(one_sided)))
    probabilities = np.concatenate([mirrored[::-1], one_sided])
    package = dp_accounting_package().pld
    _check_length(package, probabilities, rounds, grid)
    one_round = package.privacy_loss_distribution.PrivacyLossDistribution.create_from_rounded_probability(
        dict(enumerate(probabilities.tolist(), start=-len(mirrored))), infinite, grid
    )
    return one_round.self_compose(int(rounds), _CUT_OFF)


def _check_length(package: Any, probabilities: NDArray[np.float64], rounds: int, grid: float) -> None:
    """Refuse a Fourier transform that is longer than the error bounds, and most memories, allow for."""
    if len(probabilities) * rounds <= _LONGEST:
        return
    orders = np.array([-20.0, -5.0, -1.0, 1.0, 5.0, 20.0]) / len(probabilities)  # some of those that self_compose tries
    first, last = package.common.compute_self_convolve_bounds(probabilities, rounds, _CUT_OFF, orders)
    if last - first >= _LONGEST:
        raise ConfigError(
            f"rounds = {rounds} with a grid of {grid:g}: the composed privacy losses cover {last - first + 1} points of the "
            f"grid, and {_LONGEST} are allowed. Use a grid of {1.1 * grid * (last - first) / _LONGEST:.2g} or more, or more noise."
        )


def _losses(mu: float, sampling_rate: float, grid: float) -> tuple[NDArray[np.float64], float]:
    """Return the probabilities of the losses 0, w, ..., n w of one round, and of an infinite one."""
    largest = _sampled_loss(mu * (0.5 * mu + _TAIL), sampling_rate)
    if largest > grid * _MOST_POINTS:
        raise ConfigError(
            f"noise_multiplier = {1.0 / mu:g} allows privacy losses up to {largest:.3g}, more than {_MOST_POINTS} points of "
            f"a grid of {grid:g}. Use a grid of at least {1.01 * largest / _MOST_POINTS:.3g} (at most 1), or more noise."
        )
    count = max(1, math.ceil(largest / grid))
    profile = _profile(grid * np.arange(count + 1, dtype=np.float64), mu, sampling_rate)
    steps = np.append(profile[:-1] - profile[1:], 0.0)  # d_0, ..., d_{n-1}, d_n = 0
    slope = 1.0 / math.expm1(grid)
    # This order of operations matters: the differences are exact, so rounding in the profile does not add up over the grid.
    above = steps[:-1] + slope * (steps[:-1] - steps[1:])
    at_zero = 1.0 - profile[0] - 2.0 * slope * steps[0]
    return np.maximum(0.0, np.concatenate([[at_zero], above])), float(profile[-1])


def _sampled_loss(loss: float, sampling_rate: float) -> float:
    """Return ln(1 + q (e^loss - 1)), without overflow."""
    if loss < 1.0:
        return math.log1p(sampling_rate * math.expm1(loss))
    return loss + math.log(sampling_rate + (1.0 - sampling_rate) * math.exp(-loss))


def _profile(losses: NDArray[np.float64], mu: float, sampling_rate: float) -> NDArray[np.float64]:
    """Return h(e^loss) = q g(e^epsilon), where e^loss = 1 + q (e^epsilon - 1), for losses of at least 0."""
    q = sampling_rate
    small, large = np.minimum(losses, 1.0), np.maximum(losses, 1.0)
    epsilons = np.where(
        losses <= 1.0, np.log1p(np.expm1(small) / q), large - math.log(q) + np.log1p(-(1.0 - q) * np.exp(-large))
    )
    t = np.minimum(epsilons / mu - 0.5 * mu, 50.0)  # g is zero from there on; its square stays finite
    # g = Phi(-t) - e^epsilon Phi(-t - mu), the second term without its overflow (see accounting.gaussian)
    values: NDArray[np.float64] = q * np.maximum(
        0.0, ndtr(-t) - 0.5 * np.exp(-0.5 * t * t) * erfcx((t + mu) / math.sqrt(2.0))
    )
    return values


def _check_design(noise_multiplier: float, sampling_rate: float, rounds: int, grid: float) -> None:
    checked("noise_multiplier", noise_multiplier, "(0, inf)")
    checked("sampling_rate", sampling_rate, "(0, 1]")
    whole("rounds", rounds)
    checked("grid", grid, "(0, 1]")
