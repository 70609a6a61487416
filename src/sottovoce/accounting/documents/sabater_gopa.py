"""Sabater et al. 2022, GOPA: closed forms for the noise of pairs that average with cancelling noise.

H = rho n honest parties, epsilon < 1, delta' < delta. Own noise is that of a trusted curator of the honest values, and
kappa says how much of the budget the pairs' noise may take:

    own variance        s^2 = c^2 / (H epsilon^2) ,  c^2 = 2 ln(1.25 / delta')
    pairs' variance     kappa s^2                    complete graph
                        kappa s^2 H^2 / 3            any connected honest graph
                        kappa s^2 H E_k              random k-out graph
    delta               a (delta' / 1.25)^(kappa / (kappa + 1)) ,  a = 1.25 on a given graph, 3.75 on a random one,

with E_k = 1 / (floor((k - 1) rho / 3) - 1) + (12 + 6 ln H) / H.

The random graph asks for rho n >= 81 and, with g = delta / 3,

    rho k >= 4 ln(2 rho n / (3 g)) ,   rho k >= 6 ln(rho n / 3) ,   rho k >= 3/2 + (9/4) ln(2 e / g) .

How they stand. The constants are recalled and were not compared with the printed page; they hold because they can be
proved. They ask for about twice the own variance that `accounting.gopa` needs for the same target.

 1. Complete and connected: a flow that spreads a change of one value evenly costs (H - 1) / H^2 on the complete graph
    and at most (H - 1)(2H - 1) / (6H) <= H / 3 along any tree, so that mu^2 <= (epsilon / c)^2 (1 + 1 / kappa) =
    epsilon^2 / (2 ln(1.25 / delta)).
 2. k-out: the first condition and the theorem of `gopa.random_graphs` with x = 1/3 give lambda_2 >= rho k / 3 except
    with probability H (3 g / 2H)^1.2 < g. Then mu^2 <= 1 / (H s^2) + 3 / (rho k times the pairs' variance), and 3 /
    (rho k) < E_k. In all 2 g, below 3 g = delta. The other conditions are not needed for this proof, and k may be
    smaller: see `gopa.calibrate`.
 3. The general condition theta <= theta_max: its root t = (epsilon - theta / 2) / sqrt(theta) is at least 1 and delta
    <= Phi(-t) <= phi(t) / t <= delta / 2.
"""

import math
from typing import Literal

from sottovoce.accounting.documents.statement import DocumentStatement
from sottovoce.accounting.gopa.graph import honest_count
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.numbers import checked, chosen, whole

_SOURCE = "Sabater et al. 2022 (GOPA)"
_FACTORS = {"given": 1.25, "k-out": 3.75}

Graph = Literal["given", "k-out"]


def sabater_gopa_theta_max(epsilon: float, delta: float) -> DocumentStatement:
    """The largest squared shift of the noise, in standard deviations, that the general theorem allows.

    States: theta is the largest number with epsilon >= sqrt(theta) + theta / 2 and
        (epsilon - theta / 2)^2 >= 2 ln(2 / (delta sqrt(2 pi))) theta.
    Upper bound: yes, on the safe side of mu(epsilon, delta)^2.

    Raises:
        ConfigError: epsilon or delta outside (0, 1), or delta above 0.79, where the logarithm is negative.
    """
    epsilon, delta = checked("epsilon", epsilon, "(0, 1)"), checked("delta", delta, "(0, 0.79)")
    A = math.log(2.0 / (delta * math.sqrt(2.0 * math.pi)))
    tail = 2.0 * epsilon**2 / (epsilon + 2.0 * A + math.sqrt((epsilon + 2.0 * A) ** 2 - epsilon**2))
    other = (math.sqrt(1.0 + 2.0 * epsilon) - 1.0) ** 2  # sqrt(theta) + theta / 2 = epsilon
    return DocumentStatement(
        value=min(tail, other),
        kind="budget",
        source=f"{_SOURCE}, general theorem",
        upper_bound=True,
        verdict="a squared mu that implies this epsilon and delta; gaussian.mu gives the largest one",
    )


def sabater_gopa_kappa(delta: float, delta_prime: float, *, graph: Graph) -> float:
    """The kappa with which delta' turns into delta.

    Args:
        delta: of the run, above delta_prime times the constant of the graph over 1.25.
        delta_prime: of the curator's noise.
        graph: "given", or "k-out" for a random one.

    Raises:
        ConfigError: a delta that no kappa reaches.
    """
    factor = _FACTORS[chosen("graph", graph, tuple(_FACTORS))]
    target, start = checked("delta", delta, "(0, 1)") / factor, checked("delta_prime", delta_prime, "(0, 1)") / 1.25
    if not start < target < 1.0:
        raise ConfigError(
            f"delta = {delta:.3g} and delta_prime = {delta_prime:.3g}; delta must lie between {start * factor:.3g} and {factor:g}. "
            f"Use a smaller delta_prime."
        )
    share = math.log(target) / math.log(start)
    return share / (1.0 - share)


def sabater_gopa_own_variance(*, honest_parties: int, epsilon: float, delta_prime: float) -> DocumentStatement:
    """Own noise c^2 / (H epsilon^2) of every party.

    States: a curator of the honest values would be (epsilon, delta')-DP with the sum of this noise.
    Upper bound: yes, for 0 < epsilon < 1 (the classical Gaussian mechanism).
    """
    return _statement(
        _own(honest_parties, epsilon, delta_prime),
        "own noise",
        "the classical Gaussian noise of a curator, split among the honest",
    )


def sabater_gopa_complete_variance(
    *, honest_parties: int, epsilon: float, delta: float, delta_prime: float
) -> DocumentStatement:
    """Pairs' noise on a complete graph, kappa times the own variance.

    States: with it the run is (epsilon, delta)-DP against the server and all parties that are not honest.
    Upper bound: yes.
    """
    own = _own(honest_parties, epsilon, delta_prime)
    kappa = sabater_gopa_kappa(delta, delta_prime, graph="given")
    return _statement(
        kappa * own, "complete graph", "enough pairs' noise for the worst party; about twice what is needed"
    )


def sabater_gopa_connected_variance(
    *, honest_parties: int, epsilon: float, delta: float, delta_prime: float
) -> DocumentStatement:
    """Pairs' noise on any connected honest graph, kappa H^2 / 3 times the own variance.

    States: with it the run is (epsilon, delta)-DP, however the honest parties are connected.
    Upper bound: yes.
    """
    own = _own(honest_parties, epsilon, delta_prime)
    kappa = sabater_gopa_kappa(delta, delta_prime, graph="given")
    return _statement(
        kappa * own * honest_parties**2 / 3.0,
        "connected graph",
        "a path is the worst case, and most graphs need far less",
    )


def sabater_gopa_k_out_variance(
    n: int, rho: float, k: int, *, epsilon: float, delta: float, delta_prime: float
) -> DocumentStatement:
    """Pairs' noise on a random k-out graph, kappa H E_k times the own variance.

    States: with it the run is (epsilon, delta)-DP, the risk of a bad graph included.
    Upper bound: yes, under its conditions, by another proof.

    Raises:
        UnsupportedClaim: k or n is too small for its conditions.
    """
    honest, needed = honest_count(n, rho), sabater_gopa_least_k(n, rho, delta=delta)
    share = honest / n
    if whole("k", k) < needed or k >= n:
        raise UnsupportedClaim(
            f"k = {k}; the closed form holds from k = {needed} on for n = {n}, rho = {rho:g}, delta = {delta:.3g}, and below n. Use that, "
            f"or gopa.calibrate, which needs less."
        )
    energy = 1.0 / (math.floor((k - 1) * share / 3.0 + 1e-9) - 1.0) + (12.0 + 6.0 * math.log(honest)) / honest
    kappa = sabater_gopa_kappa(delta, delta_prime, graph="k-out")
    return _statement(
        kappa * _own(honest, epsilon, delta_prime) * honest * energy,
        "random k-out graph",
        "enough pairs' noise on average over graphs, for a coalition chosen before the graph",
    )


def sabater_gopa_least_k(n: int, rho: float, *, delta: float) -> int:
    """The smallest k that the closed form for random k-out graphs admits.

    Raises:
        UnsupportedClaim: fewer than 81 honest parties.
    """
    honest, g = honest_count(n, rho), checked("delta", delta, "(0, 1)") / 3.0
    if honest < 81:
        raise UnsupportedClaim(
            f"{honest} honest parties; the closed form needs 81. Use gopa.calibrate or a complete graph."
        )
    share = honest / n
    product = max(
        4.0 * math.log(2.0 * honest / (3.0 * g)),
        6.0 * math.log(honest / 3.0),
        1.5 + 2.25 * math.log(2.0 * math.e / g),
    )
    return max(math.ceil(product / share), math.ceil(6.0 / share) + 1)  # the latter keeps E_k positive


def _own(honest_parties: int, epsilon: float, delta_prime: float) -> float:
    epsilon, delta_prime = checked("epsilon", epsilon, "(0, 1)"), checked("delta_prime", delta_prime, "(0, 1)")
    return 2.0 * math.log(1.25 / delta_prime) / (whole("honest_parties", honest_parties, least=2) * epsilon**2)


def _statement(value: float, what: str, verdict: str) -> DocumentStatement:
    return DocumentStatement(
        value=value,
        kind="variance",
        source=f"{_SOURCE}, {what}",
        upper_bound=True,
        verdict=f"{verdict}, at sensitivity 1",
    )
