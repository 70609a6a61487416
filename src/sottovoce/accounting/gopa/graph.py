"""The graph of honest pairs: only noise that two honest parties share hides anything.

A coalition knows the noise of every pair it has a member in, so that the accountant sees the subgraph of the honest
parties and nothing else. That subgraph need not be connected, which is why it is not a `Topology`.

Random graphs follow the k-out law: every party picks k distinct others uniformly, and a pair is linked when either
picked the other. A pair that picked each other is one pair. Of the picks only those from honest to honest matter.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.numbers import checked, whole
from sottovoce.reprs import short_repr
from sottovoce.topologies import Static, Topology


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HonestGraph:
    """Honest parties and the pairs among them that share noise.

    Attributes:
        num_parties: K, the coalition included.
        members: [H] the honest parties, increasing.
        adjacency: [H, H] ones where two honest parties share noise; symmetric, no diagonal.
        component: [H] the connected part each member is in.
    """

    num_parties: int
    members: NDArray[np.int64]
    adjacency: sparse.csr_array
    component: NDArray[np.int64]

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def degrees(self) -> NDArray[np.int64]:
        """[H] honest neighbours of each member."""
        degrees: NDArray[np.int64] = np.diff(self.adjacency.indptr).astype(np.int64)
        return degrees

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Members of each connected part."""
        return np.bincount(self.component).astype(np.int64)

    @property
    def parts(self) -> list[NDArray[np.int64]]:
        """The members of each connected part, as positions in `members`."""
        return np.split(np.argsort(self.component, kind="stable"), np.cumsum(self.sizes)[:-1])

    @property
    def num_pairs(self) -> int:
        """Linked honest pairs."""
        return int(self.adjacency.nnz // 2)


def honest_graph(topology: Topology | HonestGraph, honest: Sequence[int] | np.ndarray | None = None) -> HonestGraph:
    """What is left of a graph without its coalition.

    Args:
        topology: every linked pair shares noise.
        honest: the honest parties, as [K] truth values or as party numbers; None for all. Against one curious party,
            all but that one.

    Raises:
        IncompatibleChoice: links that change from round to round, a server, or a link without its opposite.
        ConfigError: no honest party, or not a list of parties.
    """
    if isinstance(topology, HonestGraph):
        if honest is None:
            return topology
        kept = np.isin(topology.members, np.flatnonzero(_mask(honest, topology.num_parties)))
        if not kept.any():
            raise ConfigError("none of the honest parties is in this graph. Give honest parties that it has.")
        return _graph(topology.num_parties, topology.members[kept], topology.adjacency[kept][:, kept])
    if not isinstance(topology.schedule, Static) or topology.relay:
        raise IncompatibleChoice(
            f"{topology!r} has links that change from round to round or pass through a server; "
            f"the pairs that share noise must be fixed. "
            f"Give the graph of one round."
        )
    receivers = np.repeat(np.arange(topology.num_agents), np.diff(topology.weights.indptr))
    other = topology.weights.indices != receivers
    shape = topology.weights.shape
    ones = np.ones(int(other.sum()))
    adjacency = sparse.csr_array((ones, (topology.weights.indices[other], receivers[other])), shape=shape)
    if (adjacency != adjacency.T).nnz:
        raise IncompatibleChoice(
            "a link of this topology has no opposite; two parties who share noise must both know it. Add the missing links."
        )
    members = np.flatnonzero(_mask(honest, topology.num_agents))
    if len(members) < topology.num_agents:
        adjacency = adjacency[members][:, members]
    return _graph(topology.num_agents, members, adjacency)


def k_out_graph(n: int, k: int, *, honest_parties: int, seed: int) -> HonestGraph:
    """A random k-out graph of n parties, of which those with the lowest numbers are honest.

    Who is honest may be fixed like this because the law of the graph does not change when parties are renumbered. Fast:
    a million parties with k = 20 take some seconds.

    Args:
        n: parties.
        k: others that each picks, below n.
        honest_parties: parties 0 to honest_parties - 1 are honest.
        seed: of NumPy's PCG64.

    Raises:
        ConfigError: numbers out of range.
    """
    n, k, honest = whole("n", n, least=2), whole("k", k), whole("honest_parties", honest_parties)
    if k >= n or honest > n:
        raise ConfigError(
            f"k = {k}, honest_parties = {honest}, n = {n}; k must be below n and honest_parties at most n."
        )
    generator = np.random.default_rng(whole("seed", seed, least=0))
    kind = np.int32 if n < 2**31 - 1 else np.int64
    # Floyd's way to draw a k-subset of n - 1 numbers, for all choosers at once: a number taken already becomes the new
    # largest one.
    picks = np.empty((k, honest), dtype=kind)
    for row, largest in enumerate(range(n - 1 - k, n - 1)):
        drawn = generator.integers(0, largest + 1, size=honest, dtype=kind)
        taken = np.zeros(honest, dtype=bool)
        for earlier in picks[:row]:
            taken |= earlier == drawn
        picks[row] = np.where(taken, largest, drawn)
    chooser = np.arange(honest, dtype=kind)
    picks += picks >= chooser
    among = picks < honest
    low, high = np.minimum(picks, chooser)[among], np.maximum(picks, chooser)[among]
    keys = np.sort(low.astype(np.int64) * honest + high)
    new = np.ones(len(keys), dtype=bool)
    new[1:] = keys[1:] != keys[:-1]
    return _of_sorted(keys[new], honest, n)


def from_pairs(honest_parties: int, pairs: np.ndarray, *, num_parties: int | None = None) -> HonestGraph:
    """The graph of these pairs of honest parties; it may have several parts.

    Args:
        honest_parties: H; they are the parties 0 to H - 1.
        pairs: [P, 2], each pair once.
        num_parties: K, when a coalition has further parties; None for H.

    Raises:
        ConfigError: pairs that are repeated, out of range, or of one party with itself.
    """
    honest = whole("honest_parties", honest_parties)
    pairs = np.asarray(pairs).reshape(-1, 2)
    total = honest if num_parties is None else whole("num_parties", num_parties, least=honest)
    if len(pairs) and (
        pairs.dtype.kind not in "iu" or pairs.min() < 0 or pairs.max() >= honest or (pairs[:, 0] == pairs[:, 1]).any()
    ):
        raise ConfigError(f"the pairs must be of two different parties among 0 to {honest - 1}. Correct the list.")
    keys = np.sort(pairs.min(axis=1, initial=honest).astype(np.int64) * honest + pairs.max(axis=1, initial=0))
    if (keys[1:] == keys[:-1]).any():
        raise ConfigError("a pair is listed twice; two parties share one noise. Give every pair once.")
    return _of_sorted(keys, honest, total)


def honest_count(n: int, rho: float) -> int:
    """The number of parties that are honest at least, when their share is at least rho: rho n, rounded down."""
    share = checked("rho", rho, "(0, 1]")
    count = int(np.floor(share * whole("n", n, least=2) * (1.0 + 1e-12)))
    if count < 1:
        raise ConfigError(
            f"rho = {rho:g} of n = {n} parties is not even one; privacy needs honest parties. Use a larger rho or n."
        )
    return count


def _of_sorted(keys: NDArray[np.int64], honest: int, num_parties: int) -> HonestGraph:
    """The graph of pairs given as low * honest + high, increasing and distinct, so that rows come in order."""
    low, high = np.divmod(keys, honest)
    kind = np.int32 if 2 * len(keys) < 2**31 - 1 else np.int64
    starts = np.concatenate([[0], np.cumsum(np.bincount(low, minlength=honest))]).astype(kind)
    above = sparse.csr_array((np.ones(len(keys)), high.astype(kind), starts), shape=(honest, honest))
    return _graph(num_parties, np.arange(honest), above + above.T.tocsr())


def _graph(num_parties: int, members: NDArray[np.int64], adjacency: sparse.csr_array) -> HonestGraph:
    from scipy.sparse.csgraph import connected_components  # heavy, and parties that use no pairwise noise do without

    adjacency.sort_indices()
    # Links go both ways, so that strong parts are the connected ones; this spares a transposed copy.
    _, component = connected_components(adjacency, directed=True, connection="strong")
    return HonestGraph(
        num_parties=num_parties, members=members, adjacency=adjacency, component=component.astype(np.int64)
    )


def _mask(honest: Sequence[int] | np.ndarray | None, num_parties: int) -> NDArray[np.bool_]:
    if honest is None:
        return np.ones(num_parties, dtype=bool)
    given = np.asarray(honest)
    if given.dtype == np.bool_ and given.shape == (num_parties,):
        mask = given
    else:
        numbers = given.dtype.kind in "iu" and given.ndim == 1
        if (
            not numbers
            or len(given) == 0
            or given.min() < 0
            or given.max() >= num_parties
            or len(np.unique(given)) < len(given)
        ):
            raise ConfigError(
                f"honest = {honest!r}; it must hold {num_parties} truth values, or different party numbers from 0 to {num_parties - 1}."
            )
        mask = np.zeros(num_parties, dtype=bool)
        mask[given] = True
    if not mask.any():
        raise ConfigError("no party is honest; a guarantee is about an honest party. Give at least one.")
    return mask
