"""Cyffers et al. 2022, Muffliato: pairwise privacy of gossip averaging as a sum over messages.

Noise N(0, sigma^2) is added to every value once, then x(t+1) = W x(t) with W symmetric and doubly stochastic. For agent u's value and agent v
who hears its neighbours N_v in rounds t < T, the document has the Renyi divergence of order alpha

    epsilon_{u -> v}(alpha) = alpha Delta^2 / (2 sigma^2)  sum_{t < T} sum_{w in N_v} (W^t)_{uw}^2 / || (W^t)_w ||^2,

at most the local value alpha Delta^2 / (2 sigma^2), and for the mean over u

    (1 / n) sum_u epsilon_{u -> v}(alpha) <= alpha Delta^2 T d_v / (2 n sigma^2).

The sum follows the authors' code, and the bound on the mean follows from it; neither was compared with the printed page.

How they stand, for the whole view of v (`accounting.gossip` computes it exactly).

 1. The sum adds what each message says alone. That is composition, and composition needs fresh noise in every message; here all messages
    share the noise of the start, and differences of messages carry less of it. Path 0 - 1 - 2, all weights 1/3, v = 0, u = 2, T = 2: v hears
    x_1 and (x_0 + x_1 + x_2) / 3, each with its noise. The sum is 1/3 of the local value. The truth is the local value, because v
    subtracts what it knows, its own noise included, and is left with x_2 + z_2; it would still be 1/2 if v had forgotten its noise. On a path
    of 8 agents, T = 20, the far end has 0.078 against 1.
 2. The mean holds, though not because the sum does. The exact terms are squared projections on a space that T d_v messages span, so that
    they add up to its dimension, at most T d_v.
"""

import numpy as np
from scipy import sparse

from sottovoce.accounting.documents.statement import DocumentStatement
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.numbers import checked, whole
from sottovoce.topologies import Static, Topology

_SOURCE = "Cyffers et al. 2022 (Muffliato)"


def cyffers_muffliato_epsilon(
    topology: Topology, *, agent: int, attacker: int, rounds: int, order: float, std: float, sensitivity: float
) -> DocumentStatement:
    """The sum over messages, cut off at the local value.

    States: the Renyi divergence of this order between the attacker's views of two values of the agent is at most this.
    For whom: one agent who hears its neighbours. The unit is the agent's whole value.
    Upper bound: no; path 0 - 1 - 2 has 1/3 where 1 is true. Only the two ends hold: the local value, and zero out of reach.

    Args:
        topology: peers with fixed symmetric weights.
        agent: u, whose value may change.
        attacker: v, who listens.
        rounds: T.
        order: alpha, of the Renyi divergence.
        std: sigma.
        sensitivity: Delta, the largest l2 change of a value.

    Raises:
        IncompatibleChoice: weights that are not symmetric or not fixed.
        ConfigError: malformed input.
    """
    weights = _symmetric(topology)
    u, v = _agent("agent", agent, topology), _agent("attacker", attacker, topology)
    if u == v:
        raise ConfigError(f"agent = attacker = {u}; the formula is about what another agent learns. Give two agents.")
    heard = np.zeros((topology.num_agents, len(topology.neighbours(v))))
    heard[topology.neighbours(v), np.arange(heard.shape[1])] = 1.0
    total = 0.0
    for _ in range(whole("rounds", rounds)):
        total += float((heard[u] ** 2 / (heard**2).sum(axis=0)).sum())
        heard = weights @ heard
    share = min(total, 1.0)
    return DocumentStatement(
        value=_local(order, std, sensitivity) * share,
        kind="epsilon",
        source=f"{_SOURCE}, sum over messages",
        upper_bound=share in (0.0, 1.0),
        verdict=(
            f"a Renyi epsilon of order {order:g} for agent {v} who hears its neighbours; it adds up messages as if each had noise of its own, "
            "and only its two ends, zero and the local value, are safe. Use accounting.gossip"
        ),
    )


def cyffers_muffliato_mean_epsilon(
    topology: Topology, *, attacker: int, rounds: int, order: float, std: float, sensitivity: float
) -> DocumentStatement:
    """The bound for the mean over agents, alpha Delta^2 T d_v / (2 n sigma^2).

    States: what the attacker learns about the others, summed and divided by the number n of all agents, is at most this.
    For whom: one agent who hears its neighbours. The unit is the agent's whole value.
    Upper bound: yes, for the exact loss too; divided by the n - 1 others it is n / (n - 1) times as much.

    Args:
        topology: peers with fixed symmetric weights.
        attacker: v, who listens.
        rounds: T.
        order: alpha, of the Renyi divergence.
        std: sigma.
        sensitivity: Delta, the largest l2 change of a value.

    Raises:
        IncompatibleChoice: weights that are not symmetric or not fixed.
        ConfigError: malformed input.
    """
    _symmetric(topology)
    degree = len(topology.neighbours(_agent("attacker", attacker, topology)))
    share = whole("rounds", rounds) * degree / topology.num_agents
    return DocumentStatement(
        value=_local(order, std, sensitivity) * share,
        kind="epsilon",
        source=f"{_SOURCE}, mean over agents",
        upper_bound=True,
        verdict=(
            f"a Renyi epsilon of order {order:g}, summed over the agents other than {attacker} and divided by the number of all agents; "
            "so many messages span no more directions"
        ),
    )


def _local(order: float, std: float, sensitivity: float) -> float:
    ratio = checked("sensitivity", sensitivity, "(0, 1e100)") / checked("std", std, "(1e-100, 1e100)")
    return checked("order", order, "(1, inf)") * ratio**2 / 2.0


def _agent(name: str, agent: int, topology: Topology) -> int:
    if whole(name, agent, least=0) >= topology.num_agents:
        raise ConfigError(f"{name} = {agent}; the agents are 0 to {topology.num_agents - 1}.")
    return int(agent)


def _symmetric(topology: Topology) -> sparse.csr_array:
    weights = sparse.csr_array(topology.weights)
    fixed = isinstance(topology.schedule, Static) and not topology.relay
    if not fixed or abs(weights - weights.T).max() > 1e-12 * weights.max():
        raise IncompatibleChoice(
            "the formula is for peers with fixed symmetric weights; these are not. Use weights='metropolis' and no schedule."
        )
    return weights
