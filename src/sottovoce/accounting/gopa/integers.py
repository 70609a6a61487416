"""Whole numbers instead of real ones: what encoding, rounding and an imperfect sampler cost.

Values are sent as x = round(2^f value), own noise is a Gaussian rounded to whole numbers, and pairs add masks that
cancel exactly: uniform modulo 2^64, or rounded Gaussians. Sums modulo 2^64 are post-processing. All that follows is
about one connected part of c honest parties and m pairs, with own noise of std s and masks of std r, in units of the
lattice (r infinite: uniform), and a value that changes by at most D.

ENCODING. Rounding moves each coordinate by at most 1/2, so that two encoded values differ by at most 2^f D + sqrt(d) in
l2 norm. Stochastic rounding x = floor(2^f value + U) has the same bound: for each fixed U a coordinate's difference
grows by at most 1.

ROUNDED NOISE. One party's x + round(eta) = round(x + eta) is a function of x + eta, but what a coalition sees of a part
with c honest parties is the sum, and sum round(eta_u) is no function of sum eta_u. The continuous guarantee does not
hold exactly: with c = 2 and std 0.3 a shift by 1 has total variation 0.822 where mu = 1 / (0.3 sqrt 2) allows 0.761. It
does hold up to a total variation that vanishes quickly:

    tau = (1 + 2 sum_{j >= 1} exp(-pi^2 std^2 j^2))^(c d) - 1      (std in units of the lattice).

Proof, one coordinate. Let S = sum eta_u and E = sum (round(eta_u) - eta_u). If the law of E given S depended on S
modulo 1 only, x + S + E would be a randomised function of x + S for whole x, hence as private as the Gaussian sum.
Given S = s, eta is a Gaussian on a hyperplane, and E is a function of eta modulo 1, whose density relative to the
uniform law on the torus of that hyperplane differs from 1 by at most sum over w != 0 in the dual of the lattice A_{c-1}
of exp(-2 pi^2 std^2 |w|^2) (Poisson summation). So the laws of E given s and given s modulo 1 differ by at most that
sum in total variation. The dual consists of the projections of whole vectors z along (1, ..., 1); shifting z to have
median 0 leaves (sum z)^2 <= (c / 2) |z|^2, hence |w|^2 >= |z|^2 / 2, and the sum over all z != 0 is tau. Coordinates
are independent.

ROUNDED MASKS. A coalition sees x + round(eta) + K round(Delta), with K the incidence matrix of the pairs. The same
argument with S = eta + K Delta: given S, Delta is Gaussian with covariance C = (I / r^2 + K'K / s^2)^-1; adding whole
numbers z to Delta moves eta by -K z, whole as well, so that the rounding error is a function of Delta modulo 1 and of S
modulo 1. Hence the exact Gaussian guarantee, mu^2 = D^2 [(s^2 I + r^2 L)^-1]_uu, holds up to

    tau = sum over z != 0 of exp(-2 pi^2 z'C z) <= (1 + 2 sum_{j >= 1} q^(j^2))^(m d) - 1 ,
    q = exp(-2 pi^2 / (1 / r^2 + lambda / s^2)) ,     lambda = min(2 largest degree, c) >= the largest eigenvalue of L.

UNEQUAL MASKS. K may hold any whole numbers in place of +1 and -1: one end of pair e adds k_ie times its mask and the other
k_je times. Nothing above asks for more than that K z is whole. With own noise of std s_i and masks of std r_e the exact
guarantee is that of the covariance Diag(s^2) + K Diag(r^2) K', up to the same tau with C = (Diag(r^-2) + K' Diag(s^-2) K)^-1:

    tau <= (1 + 2 sum_{j >= 1} q^(j^2))^(m d) - 1 ,     q = exp(-2 pi^2 / lambda) ,     lambda >= the largest eigenvalue of C^-1.

A mask that is added k times leaves gaps of k units, which the own noise has to fill: lambda is at least k^2 / s^2.

WHOLE SHIFTS. A second proof, without any charge. Both worlds are one function of the noise, shifted in one of them by t
with t_eta + K t_Delta = change: whole numbers t commute with rounding, so that the pair is mu-GDP with

    mu^2 = ||t_eta||^2 / s^2 + ||t_Delta||^2 / r^2 .

The real t that is best gives the Gaussian mu. [I K] is totally unimodular, so this t is the mean of whole solutions
whose entries are its own, rounded up or down; rounding adds the variance f (1 - f) <= min(1/4, |t|) per entry, f its
fraction, and one of the solutions is no worse than their mean. Own noise takes shifts of one sign that sum to the
change:

    mu^2 <= min( D^2 / s^2 ,  mu_Gaussian^2 + min(c d / 4, sqrt(d) D) / s^2 + m d / (4 r^2) ) .

Of the two proofs the first is better unless s is below a unit or two. `integer_delta` states the smaller delta.
"""

import math
from dataclasses import dataclass

import numpy as np

from sottovoce.accounting.gopa.imperfect_noise import ChargedTradeoff, Way
from sottovoce.accounting.gopa.imperfect_noise import charged_delta as charged_delta
from sottovoce.errors import ConfigError
from sottovoce.numbers import checked, whole


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerNoise:
    """Rounded noise of one connected part of the honest graph, in units of the lattice.

    Attributes:
        own_std: s, of a party's own noise before rounding.
        honest_parties: c, parties of the part.
        dimension: d.
        mask_std: r, of a pair's mask before rounding; infinity for uniform masks.
        pairs: m, pairs of the part; not needed for uniform masks.
        largest_degree: pairs of one party, at most; not needed for uniform masks.
    """

    own_std: float
    honest_parties: int
    dimension: int
    mask_std: float
    pairs: int = 0
    largest_degree: int = 0

    def __post_init__(self) -> None:
        """Refuse numbers out of range, and a part that Gaussian masks do not connect."""
        checked("own_std", self.own_std, "(0, 1e50)")
        c = whole("honest_parties", self.honest_parties)
        whole("dimension", self.dimension)
        if self.uniform:
            return
        checked("mask_std", self.mask_std, "(0, 1e50)")
        m, degree = whole("pairs", self.pairs, least=0), whole("largest_degree", self.largest_degree, least=0)
        if not (c - 1 <= m <= c * degree / 2 and degree < c):
            raise ConfigError(
                f"{m} pairs with at most {degree} at one party do not connect {c} parties. Count the pairs of one part."
            )

    @property
    def uniform(self) -> bool:
        """Whether masks are uniform modulo 2^64."""
        return self.mask_std == math.inf and not isinstance(self.mask_std, bool)

    @property
    def total_variation(self) -> float:
        """How far what is seen is, at most, from a randomised function of the Gaussian view."""
        if self.uniform:
            return rounding_total_variation(self.own_std, honest_parties=self.honest_parties, dimension=self.dimension)
        largest = min(2 * self.largest_degree, self.honest_parties)
        precision = self.mask_std**-2 + largest * self.own_std**-2
        return _theta_excess(2.0 * math.pi**2 / precision, self.pairs * self.dimension)

    def shifted_mu(self, mu: float, sensitivity: float) -> float:
        """The mu by whole shifts, where `mu` is that of the Gaussian view."""
        d, alone = self.dimension, (sensitivity / self.own_std) ** 2
        own = min(self.honest_parties * d / 4.0, math.sqrt(d) * sensitivity) / self.own_std**2
        masks = 0.0 if self.uniform else self.pairs * d / (4.0 * self.mask_std**2)
        return math.sqrt(min(alone, mu**2 + own + masks))


def encoded_sensitivity(l2_diameter: float, fraction_bits: int, dimension: int) -> float:
    """The largest l2 distance between two encoded values, in units of the lattice: 2^f D + sqrt(d).

    Divide by 2^f for the units of the values. Coordinates rounded towards zero stay in a ball around zero: there 2^f D
    is enough.

    Args:
        l2_diameter: D, of the set the values come from.
        fraction_bits: f.
        dimension: d, coordinates of a value.
    """
    bits = whole("fraction_bits", fraction_bits, least=0)
    root = math.sqrt(whole("dimension", dimension))
    return math.ldexp(checked("l2_diameter", l2_diameter, "(0, 1e50)"), min(bits, 1000)) + root


def rounding_total_variation(lattice_std: float, *, honest_parties: int, dimension: int) -> float:
    """How far the sum of rounded Gaussians is, at most, from a randomised function of the Gaussian sum.

    Args:
        lattice_std: of one party's noise before rounding, in units of the lattice.
        honest_parties: c, of the part of the honest graph; a larger number is safe.
        dimension: d.
    """
    std = checked("lattice_std", lattice_std, "(0, inf)")
    count = whole("honest_parties", honest_parties) * whole("dimension", dimension)
    if honest_parties == 1:
        return 0.0  # rounding one party's noise is post-processing
    return _theta_excess((math.pi * std) ** 2, count)


def shared_noise_total_variation(precision: float, *, pairs: int, dimension: int) -> float:
    """How far sums of own noise and whole multiples of pairs' noise are, at most, from a randomised function of the Gaussian sums.

    Args:
        precision: lambda, from `largest_precision`, in units of the lattice; infinite where somebody has no noise of its own.
        pairs: m, of the part of the honest graph.
        dimension: d.
    """
    count = whole("pairs", pairs) * whole("dimension", dimension)
    return (
        1.0
        if precision == math.inf
        else _theta_excess(2.0 * math.pi**2 / checked("precision", precision, "(0, inf)"), count)
    )


def largest_precision(own: np.ndarray, masks: np.ndarray, multiples: np.ndarray) -> float:
    """lambda: no eigenvalue of Diag(r^-2) + K' Diag(s^-2) K is larger; infinite where some own noise is 0.

    Args:
        own: [c] s, of every party's own noise.
        masks: [m] r, of every pair's mask, above 0.
        multiples: [c, m] K, whole numbers.
    """
    if not (own > 0).all():
        return math.inf
    K = multiples / own[:, None]
    return float((masks**-2.0).max() + np.linalg.eigvalsh(K @ K.T)[-1]) * (1.0 + 1e-9)


def sampler_total_variation(per_sample: float, *, honest_parties: int, dimension: int, rounds: int) -> float:
    """The total variation of all noise of the honest parties, when each sample is off by at most `per_sample`."""
    samples = whole("honest_parties", honest_parties) * whole("dimension", dimension) * whole("rounds", rounds)
    return min(1.0, checked("per_sample", per_sample, "[0, 1]") * samples)


def integer_delta(
    epsilon: float, noise: IntegerNoise, *, mu: float, sensitivity: float, sampler_error: float = 0.0
) -> float:
    """The delta of one round in whole numbers: the smaller one of the two proofs.

    Args:
        epsilon: at which it is wanted.
        noise: of the part of the honest graph that the protected party is in.
        mu: of the party in real numbers, `exact.party_mu` with `sensitivity`.
        sensitivity: D, the largest l2 change of one encoded value, in units of the lattice.
        sampler_error: total variation of all draws together.
    """
    return ChargedTradeoff(integer_ways(noise, mu=mu, sensitivity=sensitivity, sampler_error=sampler_error)).delta(
        epsilon
    )


def integer_ways(noise: IntegerNoise, *, mu: float, sensitivity: float, sampler_error: float = 0.0) -> tuple[Way, Way]:
    """Both proofs: the Gaussian mu with a charge for rounding, and the mu of whole shifts without it."""
    off = checked("sampler_error", sampler_error, "[0, 1]")
    D = checked("sensitivity", sensitivity, "(0, 1e50)")
    real = checked("mu", mu, "(0, inf)")
    return Way(real, min(1.0, noise.total_variation + off)), Way(noise.shifted_mu(real, D), off)


def _theta_excess(rate: float, count: int) -> float:
    """An upper bound of (1 + 2 sum_j exp(-rate j^2))^count - 1, at most 1."""
    q = math.exp(-rate)
    if q > 0.5:
        return 1.0 if count else 0.0
    # sum q^(j^2) <= q + q^4 + q^9 + ... <= q / (1 - q^3)
    exponent = count * math.log1p(2.0 * q / (1.0 - q**3))
    return min(1.0, math.expm1(min(exponent, 1.0)))
