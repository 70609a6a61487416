"""Whole numbers instead of real ones: what encoding, rounding and an imperfect sampler cost.

Values are sent as x = round(2^f value), own noise is a Gaussian rounded to whole numbers, and pairs add masks that are
uniform modulo 2^64 and cancel exactly. Sums modulo 2^64 are post-processing.

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

CHARGE. If each of the two laws is within total variation t of one that is (epsilon, delta)-DP, the pair is
(epsilon, delta + (1 + e^epsilon) t)-DP.
"""

import math

from sottovoce.accounting.arguments import checked, whole


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
    q = math.exp(-((math.pi * std) ** 2))
    if q > 0.5:
        return 1.0
    # sum q^(j^2) <= q + q^4 + q^9 + ... <= q / (1 - q^3)
    exponent = count * math.log1p(2.0 * q / (1.0 - q**3))
    return min(1.0, math.expm1(min(exponent, 1.0)))


def sampler_total_variation(per_sample: float, *, honest_parties: int, dimension: int, rounds: int) -> float:
    """The total variation of all noise of the honest parties, when each sample is off by at most `per_sample`."""
    samples = whole("honest_parties", honest_parties) * whole("dimension", dimension) * whole("rounds", rounds)
    return min(1.0, checked("per_sample", per_sample, "[0, 1]") * samples)


def charged_delta(epsilon: float, delta: float, *, total_variation: float) -> float:
    """The delta of a run whose law is, for every input, within `total_variation` of that of an (epsilon, delta)-DP one.

    Several sources of error add up before they are charged.
    """
    epsilon = checked("epsilon", epsilon, "[0, inf)")
    off = checked("total_variation", total_variation, "[0, 1]")
    start = checked("delta", delta, "[0, 1]")
    if off == 0.0:
        return start
    return min(1.0, start + off * (1.0 + math.exp(epsilon))) if epsilon < 700.0 else 1.0
