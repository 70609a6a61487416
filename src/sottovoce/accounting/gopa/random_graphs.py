"""Random k-out graphs and coalitions nobody knows: guarantees from (n, rho, k) alone.

The coalition is fixed before the graph is drawn, the graph does not depend on data, and it is public. For one honest
party u the loss is then an average over graphs, delta_u(epsilon) = E_G delta_epsilon(mu_u(G)), and two proved laws
bound it. H = rho n parties are honest.

DEGREES, exactly. Of u's k picks J ~ Hypergeometric are honest; each of the H - 1 - J honest parties that u did not pick
picks u with probability k / (n - 1), independently.

CONNECTIVITY. With x in (0, 1) and s = k H / (n - 1),

    lambda_2 >= x s    except with probability    (H - 1) exp(-s (1 - x + x ln x)) .

Proof. Let L_u be the Laplacian of u's honest picks. A pair appears in at most two of them, so L >= (1/2) sum_u L_u. The
L_u are independent. Within one, picks are drawn without replacement, and X -> tr exp(M - X) is convex: by Hoeffding's
argument the expectation grows if they are drawn with replacement. So the Laplace transform is at most that of k H
independent picks, each a Laplacian of one pair with norm 2 or zero, whose sum has expectation (2 k / (n - 1)) times the
Laplacian of the complete graph: 2 s off the constants. The matrix Chernoff bound (Tropp 2012, "User-friendly tail
bounds for sums of random matrices") in dimension H - 1 bounds the probability of an
eigenvalue <= 2 s x of the sum by (H - 1) exp(-(2 s / 2)(1 - x + x ln x)).

With the bound of a party by its degree (`spectral.party_bound`), for every l = x s,

    delta_u(epsilon) <= P(lambda_2 < l) + sum_d P(d_u = d) delta_epsilon(sqrt(rounds) mu(d, l)) .

`random_graph_delta` minimises over l. Where k is too small for the theorem, `random_graph_mu` draws graphs and says
what that shows.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.accounting.gopa.exact import noise_ratio
from sottovoce.accounting.gopa.graph import honest_count, k_out_graph
from sottovoce.accounting.gopa.spectral import party_bound
from sottovoce.accounting.gopa.worst import worst_mu
from sottovoce.accounting.mechanisms import gaussian
from sottovoce.errors import ConfigError
from sottovoce.numbers import checked, whole
from sottovoce.reprs import short_repr

_FAILURES = 10.0 ** -np.arange(1, 31)  # of the connectivity theorem, from which the best one is taken
_NEGLIGIBLE = 1e-40
_UNSEEN = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomGraphDelta:
    """A delta that holds on average over the random graph, for every honest party.

    Attributes:
        delta: what the run satisfies with the epsilon asked about.
        lambda_2: the connectivity it counts on.
        connectivity_failure: the part of delta that is spent on the graph being less connected.
    """

    delta: float
    lambda_2: float
    connectivity_failure: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnGraphs:
    """The worst party's mu on independently drawn graphs.

    Attributes:
        mus: of every draw, increasing; upper bounds, all of them except with failure_probability.
        honest_parties: of each graph.
        failure_probability: that any of the bounds is wrong, at most: the sum over the draws' certificates; 0 where every
            party was computed.
    """

    mus: tuple[float, ...]
    honest_parties: int
    failure_probability: float

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def mu(self) -> float:
        """The largest one drawn."""
        return self.mus[-1]

    def exceedance(self, confidence: float) -> float:
        """How likely a new graph has a party above `mu`, at most: p with (1 - p)^draws = 1 - confidence.

        A run on a new graph is (epsilon, delta(mu) + p)-DP, with this confidence less `failure_probability`, since `mu`
        may be too small if a certificate failed: so many draws never speak for a smaller p.
        """
        return -math.expm1(math.log1p(-checked("confidence", confidence, "(0, 1)")) / len(self.mus))


def connectivity_failure(n: int, rho: float, k: int, *, lambda_2: float) -> float:
    """How likely, at most, the honest part of a random k-out graph is less connected than lambda_2; 1 if unknown."""
    honest, s = _honest_picks(n, rho, k)
    x = checked("lambda_2", lambda_2, "[0, inf)") / s
    if x >= 1.0:
        return 1.0
    return min(1.0, (honest - 1) * math.exp(-s * (1.0 - x + (x * math.log(x) if x > 0.0 else 0.0))))


def certain_connectivity(n: int, rho: float, k: int, *, failure_probability: float) -> float:
    """The lambda_2 that a random k-out graph's honest part has, except with this probability; 0 if none is proved."""
    failure = checked("failure_probability", failure_probability, "(0, 1)")
    if connectivity_failure(n, rho, k, lambda_2=0.0) >= failure:
        return 0.0
    _, s = _honest_picks(n, rho, k)
    low, high = 0.0, s
    for _ in range(60):  # the lower end always satisfies the claim
        middle = 0.5 * (low + high)
        low, high = (middle, high) if connectivity_failure(n, rho, k, lambda_2=middle) <= failure else (low, middle)
    return low


def least_k(n: int, rho: float, *, failure_probability: float) -> int:
    """The smallest k for which the honest part is proved to be connected, except with this probability.

    Raises:
        ConfigError: not even k = n - 1 is proved.
    """
    honest, s = _honest_picks(n, rho, 1)
    k = max(
        1, math.ceil(math.log(max(1, honest - 1) / checked("failure_probability", failure_probability, "(0, 1)")) / s)
    )
    if k >= n:
        raise ConfigError(
            f"no k below n = {n} is proved to connect {honest} honest parties that surely. Use more parties."
        )
    return k


def degree_law(n: int, rho: float, k: int) -> NDArray[np.float64]:
    """[H] the probabilities that a given honest party has 0, 1, ..., H - 1 honest neighbours."""
    from scipy.stats import binom, hypergeom  # takes long to load, and nothing else here needs it

    honest, _ = _honest_picks(n, rho, k)
    picked = np.arange(min(k, honest - 1) + 1)
    law = np.zeros(honest)
    for count, probability in zip(picked.tolist(), hypergeom.pmf(picked, n - 1, honest - 1, k).tolist(), strict=True):
        others = honest - 1 - count
        law[count:] += probability * binom.pmf(np.arange(others + 1), others, k / (n - 1))
    return law


def random_graph_delta(
    n: int,
    rho: float,
    k: int,
    *,
    independent_std: float,
    pairwise_std: float,
    sensitivity: float,
    epsilon: float,
    rounds: int = 1,
) -> RandomGraphDelta:
    """The delta of every honest party when graph and coalition are known by their law only.

    Formal guarantee: (epsilon, delta)-DP for each party in a share rho that is fixed before the graph is drawn, against
    the server and all others; noise fresh in every round, one graph for all rounds.

    Args:
        n: parties.
        rho: share of parties that are honest and stay to the end, at least.
        k: others that each party picks.
        independent_std: of the noise each party adds on its own.
        pairwise_std: of the noise a pair shares; infinity for uniform masks.
        sensitivity: the largest l2 change of one party's value.
        epsilon: at which delta is wanted.
        rounds: in which the same values may be used.
    """
    local, ratio = noise_ratio(independent_std, pairwise_std, sensitivity)
    return averaged_delta(
        degree_law(n, rho, k),
        (n, rho, k),
        ratio,
        local * math.sqrt(whole("rounds", rounds)),
        checked("epsilon", epsilon, "[0, inf)"),
    )


def averaged_delta(
    law: NDArray[np.float64], graph: tuple[int, float, int], ratio: float, local: float, epsilon: float
) -> RandomGraphDelta:
    """The bound of the module's last formula, at the best of thirty values of l.

    Args:
        law: of the degree of one party.
        graph: n, rho, k.
        ratio: q.
        local: sqrt(rounds) sensitivity / independent_std.
        epsilon: at which delta is wanted.
    """
    honest = len(law)
    kept = np.flatnonzero((law > _NEGLIGIBLE) & (np.arange(honest) > 0))
    # Degree 0 has the local value; what is left out is counted like it.
    rest = max(0.0, float(law[0]) + float(law[law <= _NEGLIGIBLE].sum()))
    base = rest * gaussian.delta(local, epsilon)
    best = RandomGraphDelta(delta=1.0, lambda_2=0.0, connectivity_failure=0.0)
    for failure in np.append(0.0, _FAILURES[::-1]).tolist():
        if failure + base >= best.delta:
            break
        lambda_2 = certain_connectivity(*graph, failure_probability=failure) if failure else 0.0
        if failure and lambda_2 == 0.0:
            continue
        squares = party_bound(kept, size=honest, lambda_2=lambda_2, ratio=ratio)
        losses = [gaussian.delta(local * math.sqrt(square), epsilon) for square in squares.tolist()]
        total = min(1.0, failure + base + float(law[kept] @ np.array(losses)))
        if total < best.delta:
            best = RandomGraphDelta(delta=total, lambda_2=lambda_2, connectivity_failure=failure)
    return best


def random_graph_mu(
    n: int,
    rho: float,
    k: int,
    *,
    independent_std: float,
    pairwise_std: float,
    sensitivity: float,
    draws: int,
    seed: int = 0,
) -> DrawnGraphs:
    """The worst party's mu on graphs drawn by the k-out law with rho n honest parties.

    Args:
        n: parties.
        rho: share of honest parties, at least.
        k: others that each party picks.
        independent_std: of the noise each party adds on its own.
        pairwise_std: of the noise a pair shares; infinity for uniform masks.
        sensitivity: the largest l2 change of one party's value.
        draws: graphs; what they show grows with their number, see `DrawnGraphs.exceedance`.
        seed: of the first graph; the others follow it.
    """
    honest = honest_count(n, rho)
    first, mus, failure = whole("seed", seed, least=0), [], 0.0
    for draw in range(whole("draws", draws)):
        graph = k_out_graph(n, k, honest_parties=honest, seed=first + draw)
        worst = worst_mu(
            graph,
            independent_std=independent_std,
            pairwise_std=pairwise_std,
            sensitivity=sensitivity,
            failure_probability=_UNSEEN,
            seed=first + draw + 2**32,  # not the seed that made the graph
        )
        mus.append(worst.mu_upper)
        failure += worst.failure_probability
    return DrawnGraphs(mus=tuple(sorted(mus)), honest_parties=honest, failure_probability=failure)


def _honest_picks(n: int, rho: float, k: int) -> tuple[int, float]:
    """H and s = k H / (n - 1)."""
    honest, k = honest_count(n, rho), whole("k", k)
    if k >= n or honest < 2:
        raise ConfigError(
            f"n = {n}, rho = {rho:g}, k = {k}; k must be below n and at least two parties must be honest."
        )
    return honest, k * honest / (n - 1)
