"""Network privacy of a walking token: what one agent learns about another when the model goes from hand to hand.

A token x walks. Its holder u makes one step x <- Proj(x - step (g_u(x) + z)), z ~ N(0, std^2 I), and hands it on;
agent v sees x only when it holds it. All holders use the same step and std. The losses are convex and beta-smooth and
step <= 2 / beta, so that a step without noise never drives two tokens apart; another data set of u moves g_u by at most
Delta (2L for L-Lipschitz losses) at the same x. The way of the token does not depend on data. Not counted: a last token
that is published, which everybody sees.

A contribution of u that passes through k noises before v looks is a Gaussian mechanism with mu^2 = Delta^2 / (std^2 k):
each noise can hide 1/k of the difference (amplification by iteration, Feldman et al. 2018, Thm 23). Two ways to go on:

PUBLISHED: `epsilon`, `published_epsilon_exact_lag`, `published_pairwise_epsilon`. k is the lag until v's first visit, the divergences of
all lags are averaged with a factor 2 (weak convexity, which limits the Renyi order: `largest_order`), and the
contributions of u are added up. The last step is a gap of the proof: two contributions seen in the same visit of v share their noise.
If u holds the token j times in a row and then v does, the sum counts 1 + 1/2 + ... + 1/j where the truth is j. Two
agents and a lazy walk make it false for the law of first visits (tests/accounting/test_walk.py).

PROVEN, gaps: `proven_epsilon`, `proven_graph_epsilon`, `WalkTradeoff`. A contribution is hidden by the noises up to the next visit of v OR OF u, the
gap h. Gaps share no noise, and after each visit of u the next gap is a fresh draw, so contributions compose. Whoever is
told the whole way of the token learns per contribution, at Renyi order a,

    D_a <= 1 / (a - 1) ln E exp(a (a - 1) Delta^2 / (2 std^2 h)),

at all orders and without a factor for the mixture: it is the divergence of (way, token) together, hence also a bound
for observers who know their senders. What v does to the token does not matter.

PROVEN, blocks: `blocks_epsilon`, `pairwise_epsilon`, `PathsTradeoff`. All contributions between two visits of v are hidden by the same noises
together. Given the way this costs mu^2 = C Delta^2 / std^2, C the energy of a concave majorant (`path_mu`: no plan of shifts costs less), and the divergence
of (way, token) is the average over ways, not a moment. Distance helps, and nothing is above what gaps say.

    path            one given way, for every pair of agents
    passages        the laws of the times between u and the observers
    faces           the law of the least cost of one block; even_spread: of a simpler plan
    whole_walk      from blocks to the whole walk
    plans           laws of costs, plan by plan
    cost_law        CostLaw and PathsTradeoff: from a law of costs to epsilon and delta
    blocks          the accounts by blocks, one pair or all
    gaps            the law of h, complete graph or any symmetric walk, one observer or several together
    tradeoffs       RenyiTradeoff (published shape) and WalkTradeoff (gaps)
    contributions   how often the token visits: a cap, or a number that is likely enough
    complete        the complete graph: published, and by gaps
    graph           symmetric walks on any graph: published, and by gaps

Sources: Cyffers & Bellet 2022 (arXiv 2012.05326); Cyffers, Bellet & Upadhyay 2024 (arXiv 2402.07471).
"""

from sottovoce.accounting.walk.blocks import (
    blocks_epsilon,
    blocks_tradeoff,
    least_law_of,
    pairwise_epsilon,
    paths_tradeoff,
)
from sottovoce.accounting.walk.complete import (
    epsilon,
    local_epsilon,
    local_std,
    proven_epsilon,
    proven_std_for,
    published_epsilon_exact_lag,
    published_std_for,
)
from sottovoce.accounting.walk.contributions import (
    LikelyContributions,
    likely_contributions,
    likely_contributions_on_graph,
)
from sottovoce.accounting.walk.cost_law import CostLaw, PathsTradeoff
from sottovoce.accounting.walk.gaps import GapLaw, complete_gaps, graph_gaps
from sottovoce.accounting.walk.graph import (
    lag_sums,
    proven_graph_epsilon,
    published_pairwise_epsilon,
    published_pairwise_rate,
    transition_matrix,
)
from sottovoce.accounting.walk.passages import Passages, complete_passages, graph_passages, likely_visits
from sottovoce.accounting.walk.path import BlockCosts, NoiseIn, WorstPair, block_costs, path_mu, path_mu_of, worst_pair
from sottovoce.accounting.walk.plans import Resolution, cost_law, fine_for, gap_cost_law
from sottovoce.accounting.walk.tradeoffs import RenyiTradeoff, WalkTradeoff, largest_order

__all__ = [
    "BlockCosts",
    "CostLaw",
    "GapLaw",
    "LikelyContributions",
    "Passages",
    "PathsTradeoff",
    "RenyiTradeoff",
    "WalkTradeoff",
    "WorstPair",
    "block_costs",
    "blocks_epsilon",
    "blocks_tradeoff",
    "complete_gaps",
    "complete_passages",
    "cost_law",
    "epsilon",
    "fine_for",
    "gap_cost_law",
    "graph_gaps",
    "graph_passages",
    "lag_sums",
    "largest_order",
    "least_law_of",
    "likely_contributions",
    "likely_contributions_on_graph",
    "likely_visits",
    "local_epsilon",
    "local_std",
    "pairwise_epsilon",
    "path_mu",
    "path_mu_of",
    "paths_tradeoff",
    "proven_epsilon",
    "proven_graph_epsilon",
    "proven_std_for",
    "published_epsilon_exact_lag",
    "published_pairwise_epsilon",
    "published_pairwise_rate",
    "published_std_for",
    "transition_matrix",
    "worst_pair",
]


def __dir__() -> list[str]:
    return [*__all__]
