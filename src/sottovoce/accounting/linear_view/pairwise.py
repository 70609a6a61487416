"""Who learns how much about whom: the linear view of every ordered pair of agents.

Entry [p, v] bounds what a curious agent v, from the messages it receives and the noise it draws itself, learns about p's gradients:

    mu_pv = Delta_p sqrt(min { sum_t y_t : Diag(y) - Q_pv psd, y >= 0 }),      Q_pv the Gram matrix of `linear_view`.

The dual value is what is stated, never the attained one, so every number is an upper end. Like `Guarantee.linear_mu` it speaks of
gradients that do not depend on what was received; where they do, `account` states what is proven (docs/guarantees.md).

All p share the filter of one v and are maximised side by side: one pass per agent instead of one per pair.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.accounting.linear_view.largest_mu import gram_view
from sottovoce.accounting.linear_view.worst_direction import worst_direction
from sottovoce.algorithms import Algorithm
from sottovoce.errors import UnsupportedClaim
from sottovoce.linear import Rounds, bound_rounds, check_together, exchange_topologies, one_thread
from sottovoce.noise import Gaussian, Noise
from sottovoce.numbers import per_agent
from sottovoce.observers import curious_agent, view
from sottovoce.topologies import Topology


@one_thread
def pairwise_linear_mu(
    topology: Topology,
    algorithm: Algorithm,
    noise: Noise,
    *,
    rounds: int,
    sensitivity: ArrayLike,
    progress: Callable[[int, int], None] | None = None,
) -> np.ndarray:
    """The linear view of every agent, for every curious agent.

    Args:
        topology: who talks to whom.
        algorithm: what an agent does in a round.
        noise: how messages are perturbed; a Gaussian law, or none.
        rounds: exchanges, as in `account`.
        sensitivity: the largest l2 change of one round's gradient; one number, or one per agent.
        progress: called with (observers done, observers in all) after each of them.

    Returns:
        [K, K] mu; row p is whose data, column v who looks. Infinite where something of p is in clear, 0 where nothing of p has
        arrived, not a number on the diagonal.

    Raises:
        UnsupportedClaim: the law is not Gaussian, the agents project, the links are random, or a view is too long to compute.
        ConfigError: malformed input.
    """
    sizes = per_agent("sensitivity", sensitivity, topology.num_agents)
    run = _linear_rounds(topology, algorithm, noise, rounds)
    exchanges = exchange_topologies(algorithm, topology)
    K, everywhere = topology.num_agents, np.ones((1, len(run)), dtype=bool)
    table = np.full((K, K), np.nan)
    # The best connected first: should a view be too long to compute, it is known at once.
    for done, observer in enumerate(np.argsort(-_received(topology), kind="stable").tolist(), start=1):
        others = np.delete(np.arange(K), observer)
        found = gram_view(run, view(curious_agent(observer), *exchanges), others, everywhere)
        if found is None:
            raise UnsupportedClaim(
                f"what agent {observer} of {K} sees in {len(run)} rounds is too long to compute. Ask for fewer rounds, or take "
                f"sv.account, whose guarantee does not need the linear view."
            )
        hidden = found.gram.clear_round == 0
        table[others[~hidden], observer] = np.inf
        upper = worst_direction(found.gram.values[hidden]).upper  # proven, not the attained value
        table[others[hidden], observer] = np.sqrt(np.maximum(upper, 0.0))
        if progress is not None:
            progress(done, K)
    return np.asarray(sizes[:, None] * table)


def _received(topology: Topology) -> np.ndarray:
    """[K] how many links lead to each agent."""
    return np.bincount(topology.links[:, 1], minlength=topology.num_agents)


def _linear_rounds(topology: Topology, algorithm: Algorithm, noise: Noise, rounds: int) -> Rounds:
    if noise.law is not None and not isinstance(noise.law, Gaussian):
        raise UnsupportedClaim(
            f"the linear view of {type(noise.law).__name__} noise is no Gaussian pair and has no mu. Use a Gaussian law, or sv.account "
            f"for the epsilon of this one."
        )
    if algorithm.sampling is not None:
        raise UnsupportedClaim(
            f"the linear view covers agents who all take part, not a sample of them ({algorithm.sampling}). Use sv.account."
        )
    check_together(topology, algorithm, noise, rounds=rounds)
    run = bound_rounds(topology, algorithm, noise, rounds)
    if run.projected:
        raise UnsupportedClaim(
            f"the agents of '{algorithm.name}' project on convex sets, which is not linear. Leave the projections out, or use sv.account."
        )
    return run
