"""What the integers cost: a proven mu for the sum of rounded noise, and the share of delta for imperfect draws.

**Sum of rounded Gaussians.** With uniform masks on a connected set of n honest parties the observer learns

    S = sum_u (x_u + round(s Z_u))      and nothing more of these parties.

Let one party's vector change by c in Z^d, and split c into whole numbers, c = sum_u t_u. Both worlds are then the same
function of Gaussians, shifted by t_u in one of them, because t_u + round(s Z_u) = round(s Z_u + t_u):

    mu^2 s^2  <=  sum_u ||t_u||^2  =  sum_j (c_j^2 / n + r_j (n - r_j) / n),      |c_j| = q_j n + r_j,  0 <= r_j < n,

when c is spread as evenly as whole numbers allow. Over all ||c|| <= D

    mu^2 s^2  <=  D^2 / n + min(d n / 4, sqrt(d) D, D^2 (1 - 1/n)),

since r_j (n - r_j) / n is at most n / 4, at most |c_j| and at most c_j^2 (1 - 1/n). The first term is the continuous
guarantee. The second is the price of whole numbers: it is negligible only if 2^f is large against n, so fraction bits
have to grow with log2(n).

**Imperfect draws.** If every noise vector is within total variation tau of its law, and N entries enter, then an
(epsilon, delta) guarantee for the true laws becomes (epsilon, delta + (1 + e^epsilon) N tau).
"""

import math

from sottovoce.deployment.gopa.rounded_gaussian import RoundedGaussian
from sottovoce.errors import ConfigError


def sum_mu(own_noise: RoundedGaussian, *, sensitivity: float, honest_parties: int, dimension: int) -> float:
    """The mu of the sum over a connected set of honest parties with uniform masks.

    Args:
        own_noise: every honest party's noise per entry, in units.
        sensitivity: D, largest l2 change of one encoded vector, in units; 2 (2^f C) under replacement.
        honest_parties: n, honest parties that stay to the end and that the graph connects.
        dimension: d, entries of a vector.
    """
    _check_number("sensitivity", sensitivity, low=0.0)
    _check_count("honest_parties", honest_parties)
    _check_count("dimension", dimension)
    D, n, d = float(sensitivity), honest_parties, dimension
    whole_numbers = min(d * n / 4, math.sqrt(d) * D, D**2 * (1 - 1 / n))
    return math.sqrt(D**2 / n + whole_numbers) / own_noise.std


def delta_charge(own_noise: RoundedGaussian, *, draws: int, epsilon: float) -> float:
    """What imperfect draws add to delta: (1 + e^epsilon) draws tau.

    Args:
        own_noise: the law that was drawn.
        draws: N, entries of all honest parties' noise in all rounds; with GaussianMasks, count and charge the masks as
            well.
        epsilon: the epsilon at which the guarantee is stated.
    """
    _check_count("draws", draws)
    _check_number("epsilon", epsilon, low=0.0)
    if epsilon > 700:
        raise ConfigError(
            f"epsilon = {epsilon:g}; e^epsilon leaves floating point. State the guarantee at a smaller epsilon."
        )
    return (1.0 + math.exp(epsilon)) * draws * own_noise.total_variation


def _check_number(name: str, value: float, *, low: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value < math.inf:
        raise ConfigError(f"{name} = {value!r}; it must be a finite number of at least {low:g}.")


def _check_count(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"{name} = {value!r}; it must be a whole number of at least 1.")
