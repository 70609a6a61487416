"""A network as a plain value: where agents stand, how large they are, who is linked, and what their colours mean."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import networkx
import numpy as np
from numpy.typing import ArrayLike

from sottovoce.errors import ConfigError
from sottovoce.reports.pictures import colours
from sottovoce.reports.pictures.picture import floats
from sottovoce.topologies import Topology

MAX_AGENTS = 500
NUMBERED = 60  # agents up to which each shows its number


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPicture:
    """Agents as circles and their links; `values` are coloured on one scale, without them all have `colour`.

    Attributes:
        places: (x, y) of every agent.
        sizes: areas of the circles, in points squared.
        labels: a short text in every circle; empty where they would not be readable.
        links: (sender, receiver), or one of the two orders of every pair where all links go both ways.
        both_ways: whether links are lines; otherwise they are arrows.
        relay: the place of the relay of a federation, to which all agents are linked.
        values: one number per agent.
        values_label: what the numbers are, with their unit.
        colour: of agents without numbers.
        title: above the picture.
        values_limits: ends of the scale of colours; None: the smallest and the largest number.
        shared: pairs of agents that share something, linked or not, drawn over the links.
        shared_widths: of their lines, in points.
        shared_colours: of their lines.
        shared_names: (what a colour of theirs means, the colour).
    """

    places: tuple[tuple[float, float], ...]
    sizes: tuple[float, ...]
    labels: tuple[str, ...]
    links: tuple[tuple[int, int], ...]
    both_ways: bool
    relay: tuple[float, float] | None = None
    values: tuple[float, ...] | None = None
    values_label: str = ""
    colour: str = colours.BLUE
    title: str = ""
    values_limits: tuple[float, float] | None = None
    shared: tuple[tuple[int, int], ...] = ()
    shared_widths: tuple[float, ...] = ()
    shared_colours: tuple[str, ...] = ()
    shared_names: tuple[tuple[str, str], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def network_picture(
    topology: Topology,
    *,
    colours: ArrayLike | None = None,
    labels: Sequence[str] | None = None,
    positions: ArrayLike | None = None,
    colour_label: str | None = None,
    title: str | None = None,
) -> NetworkPicture:
    """Agents as circles, a little larger with more neighbours, and their links; self-loops are left out.

    Args:
        topology: at most 500 agents.
        colours: [K] one number per agent; None: all alike.
        labels: [K] a short text in every circle; None: the agents' numbers, up to 60 agents.
        positions: [K, 2]; None: those of the topology, otherwise a spring layout, the same every time.
        colour_label: what the numbers mean, with their unit.
        title: above the picture.

    Raises:
        ConfigError: more than 500 agents, or arrays of another size or with values that are not finite.
    """
    K = topology.num_agents
    if K > MAX_AGENTS:
        raise ConfigError(f"the network has {K} agents; a picture is readable up to {MAX_AGENTS}. Draw a smaller one.")
    values = None if colours is None else floats(_numbers(colours, (K,), "colours"))
    shown = _labels(labels, K)
    places = _places(topology) if positions is None else _numbers(positions, (K, 2), "positions")
    degrees = np.bincount(topology.pairs.ravel(), minlength=K)
    both_ways = len(topology.links) == 2 * topology.num_pairs
    links = topology.pairs if both_ways else topology.links
    x, y = places.mean(axis=0)
    return NetworkPicture(
        places=tuple((float(x), float(y)) for x, y in places),
        sizes=floats(_sizes(degrees, K, any(len(label) > 2 for label in shown))),
        labels=tuple(shown),
        links=() if topology.relay else tuple((int(sender), int(receiver)) for sender, receiver in links),
        both_ways=both_ways,
        relay=(float(x), float(y)) if topology.relay else None,
        values=values,
        values_label=colour_label or "",
        title=title or "",
    )


def _labels(given: Sequence[str] | None, num_agents: int) -> Sequence[str]:
    """A text for every circle; none in a network where numbers would not be readable."""
    if given is None:
        return [str(agent) for agent in range(num_agents)] if num_agents <= NUMBERED else []
    if len(given) != num_agents:
        raise ConfigError(f"{len(given)} labels were given for {num_agents} agents. Give one per agent.")
    return given


def _numbers(given: ArrayLike, shape: tuple[int, ...], name: str) -> np.ndarray:
    array = np.asarray(given, dtype=float)
    if array.shape != shape:
        raise ConfigError(f"{name} has shape {array.shape}; it must be {shape}, one entry per agent.")
    if not np.isfinite(array).all():
        agent = int(np.argwhere(~np.isfinite(array))[0][0])
        raise ConfigError(f"{name} is {array[agent]} at agent {agent}; every entry must be finite.")
    return array


def _places(topology: Topology) -> np.ndarray:
    """[K, 2] where the agents are drawn."""
    K = topology.num_agents
    if topology.positions is not None:
        return np.asarray(topology.positions, dtype=float)
    if topology.relay:
        return np.asarray(list(networkx.circular_layout(range(K)).values()))
    graph = networkx.Graph()
    graph.add_nodes_from(range(K))
    graph.add_edges_from(topology.pairs.tolist())
    # The spectral layout unfolds rings and grids; equal places would never part, so each is moved a little.
    start = np.asarray(list(networkx.spectral_layout(graph).values())) if K > 2 else np.zeros((K, 2))
    start = start + 0.02 * np.random.default_rng(0).standard_normal((K, 2))
    layout = networkx.spring_layout(graph, pos=dict(enumerate(start)), seed=0, iterations=100)
    return np.asarray([layout[agent] for agent in range(K)])


def _sizes(degrees: np.ndarray, K: int, long_labels: bool) -> np.ndarray:
    """[K] areas in points squared: the best linked agent has twice the area of one without links."""
    base = 170.0 if K <= NUMBERED else max(12.0, 170.0 * NUMBERED / K / 2)
    sizes: np.ndarray = base * (1.6 if long_labels else 1.0) * (0.7 + 0.7 * degrees / max(degrees.max(initial=1), 1))
    return sizes
