"""What the studies of pairs under a walking token share: the graphs, and every account of a pair under one name.

    local                          all contributions in clear sight, exactly: what whoever reads every hop has
    published sums                 Cyffers, Bellet & Upadhyay 2024: divergences at all lags, added up over contributions
    PN-f-DP, public code           Li et al. 2025: lags until the first look, as if drawn independently, each with one noise too many
    PN-f-DP, lags mended           the same with as many noises as there are
    proven, gaps by Renyi          a contribution is hidden until the observer's look or the agent's own return; moments over ways
    proven, gaps averaged          the same, delta averaged over ways
    proven, spread evenly          each contribution spread evenly over all hops until the next look, overlaps counted; averaged
    proven, by blocks              all contributions between two looks hidden together at the least cost; averaged. The smallest that is proven

No published line is proven; every proven one holds for observers who know the whole way of the token (docs/guarantees.md, Walks).
"""

from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from sottovoce.accounting import documents, walk
from sottovoce.experiments import Section, TopologySection, TopologyTable
from sottovoce.topologies import Topology, from_matrix, from_networkx

LOCAL = "local"
PUBLISHED, PN_CODE, PN_MENDED = "published sums", "PN-f-DP, public code", "PN-f-DP, lags mended"
RENYI, GAPS, EVEN = "proven, gaps by Renyi", "proven, gaps averaged", "proven, spread evenly"
BLOCKS = "proven, by blocks"
ACCOUNTS = (LOCAL, PUBLISHED, PN_CODE, PN_MENDED, RENYI, GAPS, EVEN, BLOCKS)

Resolution = Literal["fast", "fine", "finest"]


class NetworkxGraph(Section):
    """A graph that networkx makes, with Metropolis weights."""

    kind: Literal["networkx"]
    generator: Literal["random_regular_graph", "ring_of_cliques", "random_geometric_graph"]
    arguments: dict[str, int | float]  # by the names that networkx gives them; a random graph needs its seed

    def topology(self) -> Topology:
        """The network."""
        import networkx

        return from_networkx(getattr(networkx, self.generator)(**self.arguments))


class GivenWeights(Section):
    """A matrix of weights, row by row."""

    kind: Literal["weights"]
    weights: list[list[float]]

    def topology(self) -> Topology:
        """The network."""
        return from_matrix(np.array(self.weights))


WalkGraph = Annotated[TopologyTable | NetworkxGraph | GivenWeights, Field(discriminator="kind")]


class Pair(NamedTuple):
    """A walk, whose data are protected from whom, and at which noise and delta."""

    topology: Topology
    agent: int
    observer: int
    hops: int
    contributions: int
    noise_multiplier: float
    delta: float


def graph_of(table: TopologySection | NetworkxGraph | GivenWeights) -> Topology:
    """The network that a table names, with a token that walks on it.

    Raises:
        ConfigError, IncompatibleChoice: a random graph without a seed, links that change, or weights that are not symmetric.
    """
    return table.topology().with_walk()


def epsilons(pair: Pair, resolution: Resolution) -> dict[str, float]:
    """{line: epsilon} by every account; `resolution` is that of the blocks."""
    u, v, N, m, delta = pair.agent, pair.observer, pair.contributions, pair.noise_multiplier, pair.delta
    asked: dict[str, Any] = {"rounds": pair.hops, "contributions": N, "std": m, "sensitivity": 1.0}
    local = walk.local_epsilon(contributions=N, std=m, sensitivity=1.0, delta=delta)
    published = walk.published_pairwise_epsilon(pair.topology, delta=delta, **asked)[u, v]
    code, mended = (
        documents.pn_fdp_epsilon(pair.topology, agent=u, observer=v, delta=delta, lags=lags, **asked).value
        for lags in ("program", "mended")
    )
    proven = walk.blocks_tradeoff(pair.topology, agent=u, observers=[v], resolution=resolution, **asked)
    by_plan = proven.by_plan(delta)
    passages = walk.graph_passages(
        walk.transition_matrix(pair.topology), agent=u, observers=[v], rounds=pair.hops
    )  # fmt: skip
    even = walk.cost_law(passages, N, plan="even", resolution="fine")
    return {
        LOCAL: local,
        PUBLISHED: float(published),
        PN_CODE: code,
        PN_MENDED: mended,
        RENYI: by_plan["gaps, Renyi"],
        GAPS: by_plan["gaps"],
        # Where the law takes too long, all that this plan says is what holds in clear sight.
        EVEN: local if even is None else even.epsilon(m, delta, most=local),
        BLOCKS: proven.epsilon(delta),
    }
