"""The Gaussian mechanism on Poisson samples: each round takes every record independently with probability q.

A round releases the SUM of the sampled records' vectors, each of l2 norm at most C, plus Gaussian noise; the noise
multiplier is sigma = std / C. (For an average with a fixed divisor B, multiply its std by B first.) In units of C one
round is dominated by a pair of one-dimensional mixtures, taken in both orders:

    adjacency     one world                       the other
    add-remove    N(0, sigma^2)                   (1 - q) N(0, sigma^2) + q N(1, sigma^2)
    replace       (1 - q) N(0, sigma^2) + q N(-1, sigma^2)
                                                  (1 - q) N(0, sigma^2) + q N(1, sigma^2)

In BOTH rows C bounds one record. Replacing a record moves the sum by up to 2C, and the pair already contains that:
with q = 1, replace is mu-GDP with mu = 2 / sigma, add-remove with mu = 1 / sigma. Dividing std by 2C for replace would
count it twice. This is the convention of dp-accounting (GaussianPrivacyLoss), whose privacy-loss-distribution
accountant composes the rounds on a grid of losses, pessimistically. With q = 1 the exact formula of
`accounting.gaussian` is used instead.

The grid errs upwards, but the accountant's Fourier transform errs both ways: sigma = 100 and 10,000 rounds without
sampling gave epsilon = 7.51 at delta = 1e-14 where 7.87 is true. A transform of length N composed k times errs by
about k log2(N) roundings; we set 25 roundings per round aside from delta (N up to 2^25; errors measured without
sampling are below a hundredth of that), and refuse deltas of that size.

Valid only if who was sampled stays hidden from the observer, records are drawn independently in every round, and the
rounds are otherwise a function of what the observer sees. Shuffled or fixed-size batches are NOT covered.
"""

import math
from types import ModuleType
from typing import Any, get_args

from sottovoce.accounting.mechanisms import gaussian
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.numbers import checked, whole
from sottovoce.problems import Adjacency

_ROUNDING_PER_ROUND = 25 * 2.0**-53


def epsilon(
    *,
    noise_multiplier: float,
    sampling_rate: float,
    rounds: int,
    delta: float,
    adjacency: Adjacency,
    grid: float = 1e-4,
) -> float:
    """Return an epsilon at which `rounds` Poisson-sampled Gaussian releases are (epsilon, delta)-DP.

    Args:
        noise_multiplier: std of the noise on the sum / norm bound C of ONE record, above 0, for either adjacency.
        sampling_rate: q, above 0, at most 1.
        rounds: at least 1.
        delta: above 0, below 1.
        adjacency: "add-remove" or "replace"; the two give different numbers and are never converted into each other.
        grid: spacing of the privacy losses; finer is closer to the truth from above, and slower.

    Raises:
        ConfigError: malformed numbers, or dp-accounting is not installed.
        UnsupportedClaim: delta is too small for the accountant's arithmetic.
    """
    _check_design(noise_multiplier, sampling_rate, rounds, adjacency)
    delta = checked("delta", delta, "(0, 1)")
    if sampling_rate == 1.0:
        return gaussian.epsilon(_exact_mu(noise_multiplier, rounds, adjacency), delta)
    allowance = _ROUNDING_PER_ROUND * rounds
    if delta < 2.0 * allowance:
        raise UnsupportedClaim(
            f"delta = {delta:g} with rounds = {rounds}: the accountant's own rounding error may reach {allowance:g}. "
            f"Ask for delta of at least {2.0 * allowance:g}."
        )
    value = float(_accountant(noise_multiplier, sampling_rate, rounds, adjacency, grid).get_epsilon(delta - allowance))
    if not math.isfinite(value):
        raise UnsupportedClaim(
            f"delta = {delta:g}: the accountant cuts off more probability than this, so it proves nothing. "
            f"Ask for a larger delta."
        )
    return max(0.0, value)


def delta(
    *,
    noise_multiplier: float,
    sampling_rate: float,
    rounds: int,
    epsilon: float,
    adjacency: Adjacency,
    grid: float = 1e-4,
) -> float:
    """Return a delta at which `rounds` Poisson-sampled Gaussian releases are (epsilon, delta)-DP.

    Args and errors as for `epsilon`, with epsilon at least 0. Below q = 1 the result includes the accountant's rounding
    error, so it does not fall to zero as epsilon grows.
    """
    _check_design(noise_multiplier, sampling_rate, rounds, adjacency)
    epsilon = checked("epsilon", epsilon, "[0, inf)")
    if sampling_rate == 1.0:
        return gaussian.delta(_exact_mu(noise_multiplier, rounds, adjacency), epsilon)
    value = float(_accountant(noise_multiplier, sampling_rate, rounds, adjacency, grid).get_delta(epsilon))
    return min(1.0, max(0.0, value) + _ROUNDING_PER_ROUND * rounds)


def _exact_mu(noise_multiplier: float, rounds: int, adjacency: Adjacency) -> float:
    shift = 2.0 if adjacency == "replace" else 1.0
    return shift * math.sqrt(rounds) / noise_multiplier


def _accountant(
    noise_multiplier: float, sampling_rate: float, rounds: int, adjacency: Adjacency, grid: float
) -> Any:  # dp_accounting.pld.PLDAccountant, which is imported only here
    grid = checked("grid", grid, "(0, 1]")
    package = dp_accounting_package()
    relations = package.NeighboringRelation
    relation = relations.REPLACE_ONE if adjacency == "replace" else relations.ADD_OR_REMOVE_ONE
    accountant = package.pld.PLDAccountant(relation, value_discretization_interval=grid)
    event = package.PoissonSampledDpEvent(float(sampling_rate), package.GaussianDpEvent(float(noise_multiplier)))
    return accountant.compose(event, int(rounds))


def dp_accounting_package() -> ModuleType:
    """Return the optional package dp-accounting, imported when it is first asked for.

    Raises:
        ConfigError: it cannot be imported.
    """
    try:
        import dp_accounting  # 1.5 s and 100 MB: only when asked for
        from dp_accounting import pld  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"Accounting for sampled rounds needs the package dp-accounting, which cannot be imported ({error}). "
            f"Run: pip install sottovoce[accounting]"
        ) from error
    return dp_accounting  # type: ignore[no-any-return]


def _check_design(noise_multiplier: float, sampling_rate: float, rounds: int, adjacency: Adjacency) -> None:
    checked("noise_multiplier", noise_multiplier, "(0, inf)")
    checked("sampling_rate", sampling_rate, "(0, 1]")
    whole("rounds", rounds)
    if adjacency not in get_args(Adjacency):
        raise ConfigError(
            f"adjacency = {adjacency!r}; choose 'add-remove' or 'replace'. They give different numbers, so there is no "
            f"default."
        )
