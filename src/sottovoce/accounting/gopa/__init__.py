"""GOPA, exactly: averaging in which linked pairs add noise that cancels, and every party adds a little of its own.

n parties hold values theta_u. Each pair of a public graph agrees on D_uv = -D_vu ~ N(0, pairwise_std^2), each party
draws eta_u ~ N(0, independent_std^2), and all publish theta_u + sum_v D_uv + eta_u. The average of what is published is
that of the values plus noise of variance independent_std^2 / n. A coalition of the server and any parties sees
everything published and everything its members know. Taking away what it knows, and whatever it sends itself, leaves

    Y ~ N(theta_H, Sigma) ,     Sigma = independent_std^2 I + pairwise_std^2 L ,     L the Laplacian of honest pairs,

from which its whole view can be made again without the values. A change of theta_u by at most `sensitivity` is
therefore mu_u-GDP with

    mu_u^2 = sensitivity^2 [Sigma^-1]_uu ,

and not less. Vectors: noise per coordinate and the l2 diameter. Rounds with fresh noise: mu^2 adds up
(`composition.gaussian`). The scheme is that of Sabater et al. 2022 (arXiv 2006.07218); the exact statement and the
proofs are given here, module by module.

    exact          mu of each party: factorisation, or conjugate gradients with a bracket
    spectral       a bound from a party's degree and lambda_2, and a proof of lambda_2 that may fail with a stated probability
    worst          the worst party of up to millions
    random_graphs  unknown coalition and random k-out graph: (n, rho, k)
    disconnection  how likely a random graph leaves a party in a small part, which is all that matters under uniform masks
    masked_rounds  many rounds of a federation with masked averages, agents falling silent
    calibration    noise for a target
    integers       whole numbers, rounded noise, imperfect samplers
    graph          the honest graph

Not counted: parties that leave after they agreed on noise. Count them as not honest, and remove their noise.
"""

from sottovoce.accounting.gopa.calibration import (
    GopaNoise,
    calibrate,
    calibrate_graph,
    central_variance,
    local_variance,
)
from sottovoce.accounting.gopa.disconnection import disconnection, small_part, worst_disconnection
from sottovoce.accounting.gopa.exact import party_mu
from sottovoce.accounting.gopa.graph import HonestGraph, from_pairs, honest_count, honest_graph, k_out_graph
from sottovoce.accounting.gopa.integers import (
    IntegerNoise,
    charged_delta,
    encoded_sensitivity,
    integer_delta,
    integer_ways,
    rounding_total_variation,
    sampler_total_variation,
)
from sottovoce.accounting.gopa.masked_rounds import MaskedTradeoff
from sottovoce.accounting.gopa.random_graphs import (
    DrawnGraphs,
    RandomGraphDelta,
    certain_connectivity,
    connectivity_failure,
    degree_law,
    least_k,
    random_graph_delta,
    random_graph_mu,
)
from sottovoce.accounting.gopa.spectral import Connectivity, connectivity, party_bound
from sottovoce.accounting.gopa.worst import WorstParty, worst_mu

__all__ = [
    "Connectivity",
    "DrawnGraphs",
    "GopaNoise",
    "HonestGraph",
    "IntegerNoise",
    "MaskedTradeoff",
    "RandomGraphDelta",
    "WorstParty",
    "calibrate",
    "calibrate_graph",
    "central_variance",
    "certain_connectivity",
    "charged_delta",
    "connectivity",
    "connectivity_failure",
    "degree_law",
    "disconnection",
    "encoded_sensitivity",
    "from_pairs",
    "honest_graph",
    "integer_delta",
    "integer_ways",
    "k_out_graph",
    "least_k",
    "local_variance",
    "party_bound",
    "party_mu",
    "random_graph_delta",
    "random_graph_mu",
    "rounding_total_variation",
    "sampler_total_variation",
    "small_part",
    "worst_mu",
]


def __dir__() -> list[str]:
    return [*__all__]
