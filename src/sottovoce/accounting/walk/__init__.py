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

PROVEN: `proven_epsilon`, `WalkTradeoff`. A contribution is hidden by the noises up to the next visit of v OR OF u, the
gap h. Gaps share no noise, and after each visit of u the next gap is a fresh draw, so contributions compose. Whoever is
told the whole way of the token learns per contribution, at Renyi order a,

    D_a <= 1 / (a - 1) ln E exp(a (a - 1) Delta^2 / (2 std^2 h)),

at all orders and without a factor for the mixture: it is the divergence of (way, token) together, hence also a bound
for observers who know their senders. What v does to the token does not matter. Mostly it is well below the published
value; far away on a sparse graph it can be above, because u's own returns end gaps too.

    gaps            the law of h, complete graph or any symmetric walk, one observer or several together
    tradeoffs       RenyiTradeoff (published shape) and WalkTradeoff (proven)
    contributions   how often the token visits: a cap, or a number that is likely enough
    complete        the complete graph
    graph           symmetric walks on any graph, every pair of agents at once

Sources: Cyffers & Bellet 2022 (arXiv 2012.05326); Cyffers, Bellet & Upadhyay 2024 (arXiv 2402.07471).
"""

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
from sottovoce.accounting.walk.gaps import GapLaw, complete_gaps, graph_gaps
from sottovoce.accounting.walk.graph import (
    lag_sums,
    proven_graph_epsilon,
    published_pairwise_epsilon,
    published_pairwise_rate,
    transition_matrix,
)
from sottovoce.accounting.walk.tradeoffs import RenyiTradeoff, WalkTradeoff, largest_order

__all__ = [
    "GapLaw",
    "LikelyContributions",
    "RenyiTradeoff",
    "WalkTradeoff",
    "complete_gaps",
    "epsilon",
    "graph_gaps",
    "lag_sums",
    "largest_order",
    "likely_contributions",
    "likely_contributions_on_graph",
    "local_epsilon",
    "local_std",
    "proven_epsilon",
    "proven_graph_epsilon",
    "proven_std_for",
    "published_epsilon_exact_lag",
    "published_pairwise_epsilon",
    "published_pairwise_rate",
    "published_std_for",
    "transition_matrix",
]


def __dir__() -> list[str]:
    return [*__all__]
