"""What studies of gossip with noise once have in common: graphs, who looks, and the published sum over messages beside the exact loss.

The noise is such that a reader of the noisy values themselves has the Renyi divergence `local_epsilon` of order alpha = `order`; a pair has
alpha mu^2 / 2. The published sum is that of `documents.cyffers_muffliato_epsilon`, for all pairs at once.
"""

from typing import Annotated

import numpy as np
from pydantic import Field
from scipy import sparse

from sottovoce.errors import ConfigError
from sottovoce.experiments import Count, Positive, Seed, TopologySection, TopologyTable
from sottovoce.reports import SOURCE, LossLine
from sottovoce.studies.privacy_study import PrivacyStudyResult, PrivacyStudySection
from sottovoce.topologies import Topology

LOCAL = "local"
EXACT = f"Exact for gossip with noise once, a guarantee, since values do not react to what agents hear. {SOURCE}"


class GossipSection(PrivacyStudySection):
    """What both studies of gossip have."""

    graphs: dict[str, TopologyTable] = Field(min_length=1)
    order: Annotated[float, Field(gt=1, allow_inf_nan=False)]  # alpha
    local_epsilon: Positive  # Renyi, of this order
    attackers: Count | None = None  # so many, drawn at random; None: everybody
    seed: Seed = 0  # of the attackers

    def lines(self) -> list[str]:
        """Exact and published for every graph, and the local value."""
        return [*(f"{graph}, {what}" for graph in self.graphs for what in ("exact", "published")), LOCAL]

    @property
    def local_mu(self) -> float:
        """What a reader of the noisy values has."""
        return float(np.sqrt(2 * self.local_epsilon / self.order))


def graph_of(section: TopologySection) -> Topology:
    """The peers with fixed weights that a section describes.

    Raises:
        ConfigError: a federation, links that change, or a random graph without a seed.
    """
    changes = section.schedules()
    if section.kind == "federation" or changes:
        raise ConfigError(
            f"a graph of kind {section.kind!r}{f' with {changes[0]}' if changes else ''} was given; pairs need peers with fixed weights."
        )
    if getattr(section, "seed", 0) is None:
        raise ConfigError(f"a graph of kind {section.kind!r} is random; give its seed.")
    return section.topology()


def published_shares(topology: Topology, rounds: int) -> np.ndarray:
    """[K, K] the published sum over messages in units of the local value, cut off at 1; row u whose value, column v who looks.

    sum_{t < T} sum_{w in N_v} (W^t)_{uw}^2 / || (W^t)_w ||^2, W symmetric.

    Raises:
        ConfigError: weights that are not symmetric.
    """
    weights = sparse.csr_array(topology.weights)
    if abs(weights - weights.T).max() > 1e-12:
        raise ConfigError("the published sum is for symmetric weights; these are not. Use weights = 'metropolis'.")
    K = topology.num_agents
    senders, receivers = topology.links.T
    heard = sparse.csr_array((np.ones(len(senders)), (receivers, senders)), shape=(K, K))
    power, total = np.eye(K), np.zeros((K, K))
    for _ in range(rounds):
        squares = power**2
        squares /= squares.sum(axis=0)
        total += (heard @ squares.T).T
        power = weights @ power
    found = np.minimum(total, 1.0)
    np.fill_diagonal(found, np.nan)
    return found


def attackers_of(section: GossipSection, num_agents: int) -> np.ndarray:
    """The agents who look: everybody, or as many as the file says, drawn at random."""
    if section.attackers is None or section.attackers >= num_agents:
        return np.arange(num_agents)
    return np.sort(np.random.default_rng(section.seed).choice(num_agents, section.attackers, replace=False))


def drawn_lines(result: PrivacyStudyResult, section: GossipSection) -> tuple[dict[str, LossLine], dict[str, LossLine]]:
    """The exact loss of every graph, and the published sum."""
    table, places = result.cells["renyi_epsilon"], [float(place) for place in section.places()]
    solid, dotted = (
        {
            graph: LossLine(places, [cell.value for cell in table[f"{graph}, {what}"].values()])
            for graph in section.graphs
        }
        for what in ("exact", "published")
    )
    return solid, dotted
