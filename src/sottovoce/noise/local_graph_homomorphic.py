"""Local graph-homomorphic noise: cancels at every single receiver.

The neighbours of receiver k, in index order, alternate between N+ and N-. Every pair (i in N+, j in N-) shares one source z_ij for
that receiver: i sends psi_i + sum_j z_ij / a_ik, j sends psi_j - sum_i z_ij / a_jk, so that sum_l a_lk (noise on l -> k) = 0.

Rizk et al. 2023, eq. 49-51 and Definition 2. The divisor is the weight the RECEIVER gives the SENDER. The key agreement printed in
Definition 2 works on real numbers and does not give both ends the same value; only its law is kept (docs/papers.md).
A receiver obtains the exact weighted sum of its neighbours' messages: against the receiver this noise hides nothing.
"""

import numpy as np

from sottovoce.errors import IncompatibleChoice
from sottovoce.noise.laws import Law, check_law
from sottovoce.noise.noise import Noise, NoiseMap
from sottovoce.topologies import ActiveLinks


def local_graph_homomorphic(law: Law) -> Noise:
    """Noise agreed in pairs of neighbours that cancels at each receiver.

    Requires: every agent receives over at least two active links, and which links are active is known before the round.
    Formal guarantee: the models of all agents are those of the run without noise.
    """
    check_law(law, scheme="local_graph_homomorphic")
    return Noise(name="local_graph_homomorphic", law=law, spread=_spread, promises=("receivers",))


def _spread(links: ActiveLinks) -> NoiseMap:
    if not isinstance(links.weights, np.ndarray):
        raise IncompatibleChoice(
            "local_graph_homomorphic pairs the neighbours that will really send; with links that drop out at random a receiver can "
            "be left with one neighbour, whose message would then be in clear. Use a fixed or listed topology, or "
            "sv.noise.independent(law)."
        )
    active = np.flatnonzero(links.weights > 0)
    order = active[np.lexsort((links.senders[active], links.receivers[active]))]
    counts = np.bincount(links.receivers[order], minlength=len(links.perron))
    if (counts < 2).any():
        k = int(np.flatnonzero(counts < 2)[0])
        raise IncompatibleChoice(
            f"local_graph_homomorphic needs at least two active neighbours at every agent; agent {k} has {counts[k]}. "
            f"Use a topology without leaves or sv.noise.independent(law)."
        )
    plus, minus = _pairs(order, counts)
    sources = np.arange(len(plus))
    return NoiseMap(
        owners=np.stack([links.senders[plus], links.senders[minus]], axis=1),
        link_index=np.concatenate([plus, minus]),
        link_source=np.concatenate([sources, sources]),
        link_value=np.concatenate([1.0 / links.weights[plus], -1.0 / links.weights[minus]]),
        self_index=np.arange(0),
        self_source=np.arange(0),
        self_value=np.zeros(0),
    )


def _pairs(order: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Link positions of all (N+, N-) pairs, receiver by receiver; receivers of equal degree are handled together."""
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    plus, minus, receiver = [], [], []
    for degree in np.unique(counts):
        rows = np.flatnonzero(counts == degree)
        first, second = np.meshgrid(np.arange(0, degree, 2), np.arange(1, degree, 2), indexing="ij")
        plus.append((starts[rows, None] + first.ravel()).ravel())
        minus.append((starts[rows, None] + second.ravel()).ravel())
        receiver.append(np.repeat(rows, first.size))
    by_receiver = np.argsort(np.concatenate(receiver), kind="stable")
    return order[np.concatenate(plus)[by_receiver]], order[np.concatenate(minus)[by_receiver]]
