"""Noise of pairs that whole numbers can carry: the two factors of a pair are whole multiples of one size.

Both ends of a pair draw its source from their common key, once and at one size, as whole numbers X, and each adds its own multiple of them:

    factor_i = k_i r,      factor_j = k_j r,      k_i and k_j whole numbers of at most 4096 in size,      X = round(r std 2^f N)

so that what is sent is a whole number without any further rounding, and the accountant, who is given these factors, is told what is sent. Factors
that were computed are other numbers. `in_whole_multiples` takes the nearest fraction k_j / k_i to their ratio, and pays for the difference with
own noise. Let c be a pair's factors, c' those that are whole multiples. Their covariances differ by

    c' c'' - c c'  =  [[e_i, b], [b, e_j]],      e = c'^2 - c^2,      b = c'_i c'_j - c_i c_j ,

and adding  max(0, |b| t - e_i)  to the own variance of i,  max(0, |b| / t - e_j)  to that of j, makes this positive semidefinite for every t > 0: its
diagonal is at least (|b| t, |b| / t). t = own_i / own_j spends the same share of both. It holds pair by pair, so that whoever knows some of the sources
is given away no more than by the noise that was designed. Ratios that are fractions already cost nothing.

A pair is drawn at 2^-16 of the smallest own noise or more, so that where that has 2^20 units none of its draws is coarse; factors below it become own noise.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from sottovoce.errors import IncompatibleChoice
from sottovoce.noise import Gaussian, Noise, designed

MOST_MULTIPLE = 4096  # the largest whole multiple
FINEST = 2.0**-16  # of the smallest own noise: no pair is drawn at a smaller size
_BITS = 40  # of a size: with a multiple below 2^13 its product is a float64, exactly


class Multiples(NamedTuple):
    """How the sources of a bound map are drawn, and which multiple of them each agent adds, in the order of sources and agents."""

    sizes: np.ndarray  # [S] of every source
    agents: np.ndarray  # [n] who adds something
    sources: np.ndarray  # [n] which source
    whole: np.ndarray  # [n] int64: which multiple of it


def in_whole_multiples(noise: Noise) -> Noise:
    """Designed noise whose pairs have whole multiples of one size each, and that hides no less from anybody; other noise as it is.

    Raises:
        IncompatibleChoice: an agent without noise of its own, which alone makes sums of whole numbers smooth.
    """
    given = noise.parameters
    if noise.name != "designed" or "own" not in given:
        return noise
    own, pairs, factors = (np.array(given[name]) for name in ("own", "pairs", "factors"))
    if not (np.abs(own) > 0).all():
        agent = int(np.argmin(np.abs(own)))
        raise IncompatibleChoice(
            f"agent {agent} has no noise of its own in this design. Parties send whole numbers, and of sums of pairs' whole numbers nothing is proved "
            f"unless everybody adds noise of its own. Design it with own_floor above 0."
        )
    made, added = np.zeros((len(pairs), 2)), np.zeros(len(own))
    for row, (ends, pair) in enumerate(zip(pairs, factors, strict=True)):
        made[row] = _whole(pair, FINEST * float(np.abs(own).min()))
        added[ends] += _difference(pair, made[row], np.abs(own[ends]))
    kept = made.any(axis=1) if len(made) else np.zeros(0, dtype=bool)
    larger = np.where(added > 0, np.nextafter(np.sqrt(own**2 + added), np.inf), np.abs(own))
    assert isinstance(noise.law, Gaussian)  # there is no other designed noise
    same = designed(noise.law, own=larger, pairs=pairs[kept], factors=made[kept] + 0.0)  # without negative zeros
    return noise._replace(spread=same.spread, parameters=same.parameters)


def _whole(pair: np.ndarray, finest: float) -> np.ndarray:
    """The factors that are whole multiples of one size, near these; zeros where the pair is too weak to be drawn."""
    if common_size(np.abs(pair[pair != 0]).tolist()) is not None:
        return pair
    strong = int(np.argmax(np.abs(pair)))
    most = min(MOST_MULTIPLE, math.floor(abs(pair[strong]) / finest))
    if most < 1:
        return np.zeros(2)
    ratio = Fraction(float(abs(pair[1 - strong]))) / Fraction(float(abs(pair[strong])))
    near = ratio.limit_denominator(most)
    size = _short(abs(float(pair[strong])) / near.denominator)
    whole = np.array([near.denominator, near.numerator] if strong == 0 else [near.numerator, near.denominator])
    return np.asarray(np.sign(pair) * whole * size)


def _short(size: float) -> float:
    """The next larger number of so few digits that its whole multiples have no more than float64 keeps."""
    mantissa, exponent = math.frexp(size)
    return math.ldexp(math.ceil(math.ldexp(mantissa, _BITS)), exponent - _BITS)


def _difference(pair: np.ndarray, made: np.ndarray, own: np.ndarray) -> np.ndarray:
    """[2] what the own variances of the two have to grow by, so that they hide no less than with `pair`."""
    if (pair == made).all():
        return np.zeros(2)
    rounding = 8 * np.finfo(float).eps
    beside = abs(float(made[0] * made[1] - pair[0] * pair[1])) + rounding * abs(float(pair[0] * pair[1]))
    return np.asarray(np.maximum(0.0, beside * own / own[::-1] - (made**2 - pair**2) + rounding * pair**2))


def common_size(values: Sequence[float]) -> tuple[float, list[int]] | None:
    """The largest size of which positive numbers are whole multiples, exactly, with those multiples; None where these are larger than 4096, or there is none."""
    if not values:
        return 1.0, []
    ratios = [Fraction(value) / Fraction(values[0]) for value in values]
    below = math.lcm(*(ratio.denominator for ratio in ratios))
    whole = [ratio.numerator * (below // ratio.denominator) for ratio in ratios]
    size = Fraction(values[0]) / whole[0]
    if max(whole) > MOST_MULTIPLE or Fraction(float(size)) != size:
        return None
    return float(size), whole


def multiples(agents: np.ndarray, sources: np.ndarray, values: np.ndarray, num_sources: int) -> Multiples | None:
    """How sources are drawn, and what each agent adds of them; None where an agent adds unlike multiples of one, or two agents no whole multiples.

    Args:
        agents: [n] who adds something; the same agent may stand here several times, once for every link.
        sources: [n] which source.
        values: [n] with which factor; not 0.
        num_sources: S.
    """
    entries = np.unique(np.stack([sources, agents, values], axis=1), axis=0)
    source, agent, value = entries[:, 0].astype(np.int64), entries[:, 1].astype(np.int64), entries[:, 2]
    if ((np.diff(source) == 0) & (np.diff(agent) == 0)).any():
        return None
    sizes, whole = np.zeros(num_sources), np.zeros(len(value), dtype=np.int64)
    for rows in np.split(np.arange(len(source)), np.flatnonzero(np.diff(source)) + 1):
        found = common_size(np.abs(value[rows]).tolist())
        if found is None:
            return None
        if len(rows):
            sizes[source[rows[0]]] = found[0]
            whole[rows] = np.sign(value[rows]).astype(np.int64) * np.array(found[1])
    return Multiples(sizes, agent, source, whole)
