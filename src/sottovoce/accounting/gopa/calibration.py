"""How much noise a target needs, and what that costs against a trusted curator and against local privacy.

The average over n parties carries the variance independent_std^2 / n per coordinate; pairs' noise cancels in it. Least
own noise: with H honest parties, however strong the pairs' noise,

    independent_std >= sensitivity sqrt(rounds) / (mu sqrt(H)) ,     mu = mu(epsilon, delta) .

A `slack` above that leaves room for finite pairs' noise, which costs nothing in the average as long as nobody drops
out: it is then the smallest that meets the target. Variances of the average for the same (epsilon, delta):

    central     (sensitivity / mu)^2 rounds / n^2      one curator who sees all values
    local       (sensitivity / mu)^2 rounds / n        every party alone
    here        (1 + slack)^2 (n / H) central
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sottovoce.accounting.gopa.graph import HonestGraph, honest_count, honest_graph
from sottovoce.accounting.gopa.random_graphs import averaged_delta, degree_law, least_k
from sottovoce.accounting.gopa.worst import prepared, worst_of
from sottovoce.accounting.mechanisms import gaussian
from sottovoce.errors import UnsupportedClaim
from sottovoce.numbers import checked, whole
from sottovoce.topologies import Topology

_LARGEST = 1e60  # of q; beyond, pairs' noise counts as unlimited
_PRECISION = 1e-9  # of q, relative
_UNSEEN = 1e-12
_SHARE_OF_DELTA = 0.1  # for the certificate of a given graph, at most


@dataclass(frozen=True, slots=True, kw_only=True)
class GopaNoise:
    """Noise that meets a target.

    Attributes:
        num_parties: n, those who average.
        honest_parties: H, those the guarantee counts on.
        independent_std: per party and coordinate, in every round.
        pairwise_std: per pair and coordinate, in every round.
        epsilon: of the target.
        delta: what is met, at most the delta of the target.
        rounds: over which it holds.
        k: picks per party, None for a given graph.
    """

    num_parties: int
    honest_parties: int
    independent_std: float
    pairwise_std: float
    epsilon: float
    delta: float
    rounds: int
    k: int | None

    @property
    def variance(self) -> float:
        """Of one coordinate of the average in one round, if every party adds its own noise and nobody drops out."""
        return self.independent_std**2 / self.num_parties


def calibrate(
    n: int,
    rho: float,
    k: int,
    *,
    epsilon: float,
    delta: float,
    sensitivity: float,
    rounds: int = 1,
    slack: float = 0.05,
) -> GopaNoise:
    """Noise for a random k-out graph and an unknown coalition, by the theorem in `random_graphs`.

    Args:
        n: parties.
        rho: share of parties that are honest and stay to the end, at least.
        k: others that each party picks.
        epsilon: target, over all rounds.
        delta: target, over all rounds, the risk of a bad graph included.
        sensitivity: the largest l2 change of one party's value.
        rounds: with fresh noise, on one graph.
        slack: by how much own noise exceeds the least possible, relative.

    Raises:
        UnsupportedClaim: no noise between pairs is proved to be enough: k or slack is too small.
    """
    honest, delta = honest_count(n, rho), checked("delta", delta, "(0, 1)")
    own = _own_std(honest, epsilon, delta, sensitivity, rounds, slack)
    law, local = degree_law(n, rho, k), sensitivity * math.sqrt(rounds) / own

    def met(ratio: float) -> float:
        return averaged_delta(law, (n, rho, k), ratio, local, epsilon).delta

    if met(_LARGEST) > delta:
        raise UnsupportedClaim(
            f"with k = {k} picks and slack = {slack:g}, delta = {met(_LARGEST):.3g} is the best that is proved for n = {n} and rho = {rho:g}, above "
            f"{delta:.3g}, whatever the pairs add. Use k >= {least_k(n, rho, failure_probability=delta * _SHARE_OF_DELTA)} or more slack, "
            f"or calibrate_graph on the graph that was drawn."
        )
    ratio = _least_ratio(lambda q: met(q) <= delta, 1e-6)
    return GopaNoise(
        num_parties=n,
        honest_parties=honest,
        independent_std=own,
        pairwise_std=own * math.sqrt(ratio),
        epsilon=float(epsilon),
        delta=met(ratio),
        rounds=rounds,
        k=k,
    )


def calibrate_graph(
    topology: Topology | HonestGraph,
    *,
    epsilon: float,
    delta: float,
    sensitivity: float,
    rounds: int = 1,
    slack: float = 0.05,
    honest: Sequence[int] | np.ndarray | None = None,
) -> GopaNoise:
    """Noise for a given graph and honest set, with which the worst party meets the target.

    Args:
        topology: every linked pair shares noise.
        epsilon: target, over all rounds.
        delta: target, over all rounds; on large graphs at most 1e-12, and at most a tenth of it, pays for the
            certificate.
        sensitivity: the largest l2 change of one party's value.
        rounds: with fresh noise.
        slack: by how much own noise exceeds the least possible of a connected honest graph, relative.
        honest: the honest parties; None for all.

    Raises:
        UnsupportedClaim: a part of the honest graph is too small for the target, or nothing is proved for it.
    """
    graph, delta = honest_graph(topology, honest), checked("delta", delta, "(0, 1)")
    parts = prepared(graph, failure_probability=min(_UNSEEN, _SHARE_OF_DELTA * delta), seed=0)
    failure = sum(part.certificate.failure_probability for part in parts if part.certificate is not None)
    own = _own_std(len(graph.members), epsilon, delta, sensitivity, rounds, slack)
    local = sensitivity * math.sqrt(rounds) / own
    target = gaussian.mu(epsilon, delta - failure)

    def meets(ratio: float) -> bool:
        return worst_of(parts, local, ratio).mu_upper <= target

    if not meets(_LARGEST):
        raise UnsupportedClaim(
            f"the worst party has mu = {worst_of(parts, local, _LARGEST).mu_upper:.4g} whatever the pairs add, above {target:.4g}: its part of "
            f"the honest graph has {int(graph.sizes.min())} parties, or its connectivity is not proved. Use more links or more slack."
        )
    ratio = _least_ratio(meets, _PRECISION)
    worst = worst_of(parts, local, ratio)
    return GopaNoise(
        num_parties=graph.num_parties,
        honest_parties=len(graph.members),
        independent_std=own,
        pairwise_std=own * math.sqrt(ratio),
        epsilon=float(epsilon),
        delta=min(delta, gaussian.delta(worst.mu_upper, epsilon) + failure),
        rounds=rounds,
        k=None,
    )


def central_variance(n: int, *, epsilon: float, delta: float, sensitivity: float, rounds: int = 1) -> float:
    """Variance of the average per coordinate and round under a trusted curator of all n values."""
    return local_variance(n, epsilon=epsilon, delta=delta, sensitivity=sensitivity, rounds=rounds) / n


def local_variance(n: int, *, epsilon: float, delta: float, sensitivity: float, rounds: int = 1) -> float:
    """Variance of the average per coordinate and round when every party protects itself alone."""
    return gaussian.std(epsilon, delta, sensitivity) ** 2 * whole("rounds", rounds) / whole("n", n)


def _own_std(honest: int, epsilon: float, delta: float, sensitivity: float, rounds: int, slack: float) -> float:
    excess = 1.0 + checked("slack", slack, "(0, inf)")
    return excess * gaussian.std(epsilon, delta, sensitivity) * math.sqrt(whole("rounds", rounds) / honest)


def _least_ratio(meets: Callable[[float], bool], precision: float) -> float:
    """The smallest q that meets the target, from above; 0 if none is needed. The largest is known to meet it."""
    if meets(0.0):
        return 0.0
    low, high = 1.0, 1.0
    while not meets(high):
        low, high = high, 64.0 * high
    while low == high or meets(low):
        low, high = low / 64.0, low
        if low < 1.0 / _LARGEST:
            return high
    while high > low * (1.0 + precision):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if meets(middle) else (middle, high)
    return high
