"""The graphs: ring, path, grid, complete, star, hypercube, three random ones, and graphs from elsewhere.

Each factory returns a checked `Topology`. Graphs are undirected and connected, without self-edges and duplicates;
`weights` names the rule that turns a graph into combination weights (see `weights`). Only `from_matrix` and
`from_networkx` accept directed graphs, which must be strongly connected. Random graphs depend on their seed alone.
Time and memory grow with the number of links, so that a million agents of small degree are fine.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sottovoce.errors import ConfigError
from sottovoce.numbers import checked, whole
from sottovoce.resources import refuse_too_large
from sottovoce.topologies.left_stochastic import left_stochastic, require_connected
from sottovoce.topologies.topology import Topology
from sottovoce.topologies.weights import rule_named

Agents = NDArray[np.int64]
LINK_BYTES, AGENT_BYTES = 56, 70  # at the peak, while a graph is made: measured on a million links of every kind


def ring(n: int, *, weights: str = "metropolis") -> Topology:
    """Agent k is linked to k - 1 and k + 1, modulo n; two agents share one link."""
    n = whole("n", n, least=2)
    _require_room(f"ring({n:,})", n, 2.0 * n)
    low = np.arange(n if n > 2 else 1)
    return _undirected("ring", n, low, (low + 1) % n, weights)


def path(n: int, *, weights: str = "metropolis") -> Topology:
    """Agent k is linked to k + 1: a ring without the link that closes it."""
    n = whole("n", n, least=2)
    _require_room(f"path({n:,})", n, 2.0 * n)
    return _undirected("path", n, np.arange(n - 1), np.arange(1, n), weights)


def grid(rows: int, columns: int, *, weights: str = "metropolis") -> Topology:
    """Agents on a rectangle, linked to their up to four nearest; agent r * columns + c is in row r, column c."""
    rows, columns = whole("rows", rows), whole("columns", columns)
    if rows * columns < 2:
        raise ConfigError("grid(1, 1) has one agent; a network needs at least 2. Use more rows or columns.")
    _require_room(f"grid({rows:,}, {columns:,})", rows * columns, 4.0 * rows * columns)
    agents = np.arange(rows * columns).reshape(rows, columns)
    low = np.concatenate([agents[:, :-1].ravel(), agents[:-1].ravel()])
    high = np.concatenate([agents[:, 1:].ravel(), agents[1:].ravel()])
    return _undirected("grid", rows * columns, low, high, weights)


def complete(n: int, *, weights: str = "metropolis") -> Topology:
    """Every agent is linked to every other; with metropolis weights one round reaches the average."""
    n = whole("n", n, least=2)
    _require_room(f"complete({n:,})", n, float(n) * n)
    low, high = np.triu_indices(n, k=1)
    return _undirected("complete", n, low, high, weights)


def star(n: int, *, weights: str = "metropolis") -> Topology:
    """Agent 0 is linked to all others. It is an ordinary agent with data; see `federation` for a relay."""
    n = whole("n", n, least=2)
    _require_room(f"star({n:,})", n, 2.0 * n)
    return _undirected("star", n, np.zeros(n - 1, dtype=np.int64), np.arange(1, n), weights)


def hypercube(dimension: int, *, weights: str = "metropolis") -> Topology:
    """2^dimension agents; two are linked when their numbers differ in one binary digit."""
    dimension = whole("dimension", dimension)
    if dimension > 24:
        raise ConfigError(f"dimension={dimension} means 2^{dimension} agents; the limit is 24.")
    n = 2**dimension
    _require_room(f"hypercube({dimension})", n, float(n) * dimension)
    agents, digits = np.arange(n)[:, None], 2 ** np.arange(dimension)
    low, _ = np.nonzero(agents & digits == 0)
    high = (agents | digits)[agents & digits == 0]
    return _undirected("hypercube", n, low, high, weights)


def erdos_renyi(n: int, p: float, *, seed: int = 0, weights: str = "metropolis") -> Topology:
    """Every pair of agents is linked with probability p, independently (Erdos-Renyi, G(n, p)).

    Args:
        n: agents.
        p: probability of a link between two agents, independent of all others.
        seed: of NumPy's generator.
        weights: "metropolis", "laplacian" or "uniform".
    """
    n = whole("n", n, least=2)
    p = checked("p", p, "[0, 1]")
    _require_room(f"erdos_renyi({n:,}, {p:g})", n, float(n) * n * p)
    low, high = _pairs_with_probability(n, p, _generator(seed))
    return _undirected("erdos_renyi", n, low, high, weights, advice="Use another seed or a larger p.")


def geometric(n: int, radius: float, *, seed: int = 0, weights: str = "metropolis") -> Topology:
    """Agents at uniform places in the unit square, linked when at most `radius` apart; see topology.positions.

    Args:
        n: agents.
        radius: how far apart linked agents may be.
        seed: of NumPy's generator.
        weights: "metropolis", "laplacian" or "uniform".
    """
    n = whole("n", n, least=2)
    radius = checked("radius", radius, "(0, inf)")
    # Away from the border an agent is linked to a disc around it.
    _require_room(f"geometric({n:,}, {radius:g})", n, float(n) * n * min(1.0, np.pi * min(radius, 1.0) ** 2))
    positions = _generator(seed).random((n, 2))
    from scipy.spatial import cKDTree  # heavy, and no other graph needs it

    pairs = cKDTree(positions).query_pairs(radius, output_type="ndarray")
    positions.setflags(write=False)
    return _undirected(
        "geometric", n, pairs[:, 0], pairs[:, 1], weights,
        advice="Use another seed or a larger radius.", positions=positions,
    )  # fmt: skip


def k_out(n: int, k: int, *, seed: int = 0, weights: str = "metropolis") -> Topology:
    """Every agent picks k distinct others, uniformly; two agents are linked when either picked the other.

    Args:
        n: agents.
        k: others that every agent picks.
        seed: of NumPy's generator.
        weights: "metropolis", "laplacian" or "uniform".
    """
    n, k = whole("n", n, least=2), whole("k", k)
    if k >= n:
        raise ConfigError(f"k={k} others were asked for, but each of n={n} agents has only {n - 1}. Use a smaller k.")
    _require_room(f"k_out({n:,}, {k:,})", n, 2.0 * n * k)
    chosen = _distinct_others(n, k, _generator(seed)).ravel()
    choosers = np.repeat(np.arange(n), k)
    # A pair that picked each other appears twice.
    keys = np.unique(np.minimum(choosers, chosen) * n + np.maximum(choosers, chosen))
    low, high = np.divmod(keys, n)
    return _undirected("k_out", n, low, high, weights, advice="Use another seed or a larger k.")


def from_edges(n: int, edges: Iterable[tuple[int, int]], *, weights: str = "metropolis") -> Topology:
    """An undirected graph from its edges, each given once, in either direction."""
    n = whole("n", n, least=2)
    pairs = np.asarray(edges if isinstance(edges, np.ndarray) else list(edges))
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
        raise ConfigError(
            f"edges have shape {pairs.shape} and type {pairs.dtype}; give a non-empty list of pairs of agent numbers."
        )
    _require_simple(n, pairs)
    _require_room(f"from_edges({n:,}, ...)", n, 2.0 * len(pairs))
    return _undirected("edges", n, pairs[:, 0], pairs[:, 1], weights, advice="Add an edge into the missing part.")


def from_networkx(graph: Any, *, weights: str = "metropolis", clean: bool = False) -> Topology:
    """A networkx graph; in a directed one an edge (u, v) means that u sends to v.

    Nodes are numbered in sorted order when they can be sorted, otherwise in the order in which they were added; `names` of the topology has them in
    that order. Edge attributes are ignored. Directed graphs need weights="uniform" unless every edge has its opposite.

    Args:
        graph: a Graph, DiGraph, MultiGraph or MultiDiGraph.
        weights: "metropolis", "laplacian" or "uniform".
        clean: drop edges from a node to itself, take parallel edges as one, and keep the largest connected part alone (in a directed graph the
            largest in which everybody reaches everybody; of equal ones that of the first node). `notes` of the topology says what was done. Without
            it such graphs are refused.

    Raises:
        ConfigError: fewer than two nodes, loops, parallel edges or several parts.
    """
    simple, notes = _cleaned(graph) if clean else (graph, ())
    nodes = _in_order(simple)
    n = len(nodes)
    if n < 2:
        raise ConfigError(f"the graph has {n} nodes; a network needs at least 2 agents.")
    number = {node: position for position, node in enumerate(nodes)}
    pairs = np.array([(number[edge[0]], number[edge[1]]) for edge in simple.edges], dtype=np.int64).reshape(-1, 2)
    directed = bool(simple.is_directed())
    advice = "Or take clean=True, which keeps the largest part of simple edges and says what it left out."
    _require_simple(n, pairs, directed=directed, advice=f" {advice}")
    advice = f"Add an edge into the missing part. {advice}"
    if directed:
        made = _weighted("networkx", _adjacency(n, pairs[:, 0], pairs[:, 1]), weights, advice=advice)
    else:
        made = _undirected("networkx", n, pairs[:, 0], pairs[:, 1], weights, advice=advice)
    return replace(made, names=None if nodes == list(range(n)) else tuple(nodes), notes=notes)


def _in_order(graph: Any) -> list[Any]:
    """The nodes, sorted where they can be."""
    try:
        return sorted(graph.nodes)
    except TypeError:
        return list(graph.nodes)


def _cleaned(graph: Any) -> tuple[Any, tuple[str, ...]]:
    """The largest part of the graph with simple edges, and what was left out of it, in sentences."""
    import networkx as nx

    directed, nodes = graph.is_directed(), _in_order(graph)
    simple = nx.DiGraph() if directed else nx.Graph()
    simple.add_nodes_from(nodes)
    simple.add_edges_from((edge[0], edge[1]) for edge in graph.edges)
    parallel = graph.number_of_edges() - simple.number_of_edges()
    loops = nx.number_of_selfloops(simple)
    simple.remove_edges_from(list(nx.selfloop_edges(simple)))
    kept = _largest_part(simple, nodes)
    left = [node for node in nodes if node not in kept]
    kind = "in which everybody reaches everybody" if directed else "that is connected"
    shown = ", ".join(map(repr, left[:5])) + (", ..." if len(left) > 5 else "")
    notes = (
        (loops, f"{_counted(loops, 'edge')} from a node to itself dropped"),
        (parallel, f"{_counted(parallel, 'parallel edge')} merged"),
        (len(left), f"{_counted(len(left), 'node')} of {len(nodes)} left out, beside the largest part {kind}: {shown}"),
    )
    return simple.subgraph(kept), tuple(said for number, said in notes if number)


def _largest_part(graph: Any, nodes: list[Any]) -> set[Any]:
    """The nodes of the largest connected part; of equal ones that of the first node."""
    import networkx as nx

    parts = nx.strongly_connected_components(graph) if graph.is_directed() else nx.connected_components(graph)
    place = {node: position for position, node in enumerate(nodes)}
    largest: set[Any] = max(parts, key=lambda part: (len(part), -min(map(place.__getitem__, part))), default=set())
    return largest


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def from_matrix(matrix: Any, *, name: str = "matrix") -> Topology:
    """Given weights: entry [l, k] is what receiver k gives sender l; columns sum to one; directed is fine.

    Args:
        matrix: [K, K], dense or sparse.
        name: What to call it.

    Raises:
        ConfigError: Not left-stochastic, or not strongly connected.
    """
    weights = left_stochastic(matrix)
    require_connected(weights, "Give a positive weight to some link into the missing part.")
    return Topology(weights=weights, name=name)


def _require_room(graph: str, agents: int, links: float) -> None:
    """Refuse a graph that does not fit into memory, before any of it is made."""
    refuse_too_large(
        f"{graph} has {agents:,} agents and about {links:.2g} links, and",
        AGENT_BYTES * agents + LINK_BYTES * links,
        "Use fewer agents or a sparser graph.",
    )


def _undirected(
    name: str,
    n: int,
    low: Agents,
    high: Agents,
    weights: str,
    *,
    advice: str = "",
    positions: NDArray[np.float64] | None = None,
) -> Topology:
    """The topology of distinct undirected edges."""
    adjacency = _adjacency(n, np.concatenate([low, high]), np.concatenate([high, low]))
    return _weighted(name, adjacency, weights, advice=advice, positions=positions)


def _adjacency(n: int, senders: Agents, receivers: Agents) -> sparse.csc_array:
    """Ones where there is a link; 32-bit indices, which n < 2^31 agents allow and which halve the memory."""
    index = np.int32 if n < 2**31 else np.int64
    ones = np.ones(len(senders))
    adjacency = sparse.csc_array((ones, (senders.astype(index), receivers.astype(index))), shape=(n, n))
    adjacency.sort_indices()
    return adjacency


def _weighted(
    name: str,
    adjacency: sparse.csc_array,
    weights: str,
    *,
    advice: str,
    positions: NDArray[np.float64] | None = None,
) -> Topology:
    """Check the graph and give it weights."""
    rule = rule_named(weights)
    require_connected(adjacency, advice)
    return Topology(weights=rule(adjacency), name=name, rule=weights, positions=positions)


def _require_simple(n: int, pairs: Agents, *, directed: bool = False, advice: str = "") -> None:
    """Refuse edges to nobody, to oneself, and edges given twice."""
    outside = ((pairs < 0) | (pairs >= n)).any(axis=1)
    itself = pairs[:, 0] == pairs[:, 1]
    for wrong, problem in ((outside, f"names an agent outside 0 to {n - 1}"), (itself, "links an agent to itself")):
        if wrong.any():
            first, second = pairs[int(np.argmax(wrong))]
            raise ConfigError(f"the edge ({first}, {second}) {problem}. Remove or correct it.{advice}")
    ordered = (pairs if directed else np.sort(pairs, axis=1)).astype(np.int64)
    keys, counts = np.unique(ordered[:, 0] * n + ordered[:, 1], return_counts=True)
    if (counts > 1).any():
        first, second = divmod(int(keys[int(np.argmax(counts > 1))]), n)
        raise ConfigError(f"the edge ({first}, {second}) is given more than once. Give every edge once.{advice}")


def _pairs_with_probability(n: int, p: float, generator: np.random.Generator) -> tuple[Agents, Agents]:
    """Each of the n (n - 1) / 2 pairs with probability p, without visiting the others.

    Along the list of all pairs, the gaps between chosen ones are geometric(p): the exact law, in the time of the
    chosen pairs only.
    """
    num_pairs = n * (n - 1) // 2
    blocks, position = [np.zeros(0, dtype=np.int64)], -1
    while p > 0.0 and position < num_pairs:
        size = int((num_pairs - 1 - position) * p * 1.05) + 100
        # A gap beyond the end ends the list whatever its length; cutting it keeps the sums within 64 bits.
        gaps = np.minimum(generator.geometric(p, size), num_pairs + 1)
        block = position + np.cumsum(gaps)
        blocks.append(block)
        position = int(block[-1])
    chosen = np.concatenate(blocks)
    chosen = chosen[chosen < num_pairs]
    # Pair number high (high - 1) / 2 + low; the square root can be off by one for large numbers.
    high = ((1.0 + np.sqrt(1.0 + 8.0 * chosen)) / 2.0).astype(np.int64)
    high -= high * (high - 1) // 2 > chosen
    high += high * (high + 1) // 2 <= chosen
    return chosen - high * (high - 1) // 2, high


def _distinct_others(n: int, k: int, generator: np.random.Generator) -> Agents:
    """[n, k] a uniform k-subset of the others for every agent (Floyd's subset sampling, all agents at once)."""
    chosen = np.empty((n, k), dtype=np.int64)
    for column, largest in enumerate(range(n - 1 - k, n - 1)):
        candidate = generator.integers(0, largest + 1, size=n)
        taken = (chosen[:, :column] == candidate[:, None]).any(axis=1)
        chosen[:, column] = np.where(taken, largest, candidate)
    # Numbers 0 to n - 2 stand for the others: skip the agent itself.
    return chosen + (chosen >= np.arange(n)[:, None])


def _generator(seed: int) -> np.random.Generator:
    return np.random.default_rng(whole("seed", seed, least=0))
