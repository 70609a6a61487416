"""From the numbers of an agreement back to a network, digit by digit.

A graph that was drawn from a seed comes out otherwise with another version of a library. Whoever made the agreement has drawn it; the others take
its links and weights from there.
"""

import numpy as np
from scipy import sparse

from sottovoce.deployment.terms.agreement import Network, RoundLinks
from sottovoce.topologies import Topology, from_matrix


def topology_of(network: Network) -> Topology:
    """The topology whose weights are these numbers.

    Raises:
        ConfigError: weights that do not sum to one at some agent, or agents that cannot reach each other.
        IncompatibleChoice: a schedule that these weights cannot have.
    """
    if network.relay:
        shares = np.array(network.rounds[0].own)
        full = sparse.csc_array(np.repeat(shares[:, None], len(shares), axis=1))
        return Topology(weights=full, name="federation", rule="agreed", relay=True)
    rounds = [_weights(links) for links in network.rounds]
    if network.schedule == "listed":
        mean = sum(rounds[1:], rounds[0]) * (1.0 / len(rounds))
        return from_matrix(mean).with_schedule(rounds)
    made = from_matrix(rounds[0])
    if network.schedule == "dropout":
        return made.with_dropout(network.dropout)
    return made.with_random_pair() if network.schedule == "random_pair" else made


def _weights(links: RoundLinks) -> sparse.csc_array:
    agents = np.arange(len(links.own))
    senders, receivers = np.array([*links.senders, *agents]), np.array([*links.receivers, *agents])
    return sparse.csc_array(
        (np.array([*links.weights, *links.own]), (senders, receivers)), shape=(len(agents), len(agents))
    )
