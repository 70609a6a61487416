"""A network as a picture: agents and links."""

from collections.abc import Sequence

import networkx
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from sottovoce.errors import ConfigError
from sottovoce.reports import style
from sottovoce.reports.caption import put_caption
from sottovoce.topologies import Topology

MAX_AGENTS = 500
NUMBERED = 60  # agents up to which each shows its number
VECTOR_LINKS = 5000  # more links than this are drawn as pixels, even in an SVG


def network(
    topology: Topology,
    *,
    colours: ArrayLike | None = None,
    labels: Sequence[str] | None = None,
    positions: ArrayLike | None = None,
    colour_label: str | None = None,
    caption: str | None = None,
    title: str | None = None,
) -> Figure:
    """Agents as circles, a little larger with more neighbours, and their links; self-loops are not drawn.

    Links that all go both ways are lines, one per pair; otherwise every link is an arrow from sender to receiver. Of a
    listed schedule every link that is ever active is drawn. A federation is drawn with its relay, a square.

    Args:
        topology: at most 500 agents.
        colours: [K] one number per agent, with a colour bar; None: all alike.
        labels: [K] a short text in every circle; None: the agents' numbers, up to 60 agents.
        positions: [K, 2]; None: those of the topology, otherwise a spring layout, the same every time.
        colour_label: what the colours mean, with its unit.
        caption: what is shown, under the picture.
        title: above the picture.

    Raises:
        ConfigError: more than 500 agents, or arrays of another size or with values that are not finite.
    """
    K = topology.num_agents
    if K > MAX_AGENTS:
        raise ConfigError(f"the network has {K} agents; a picture is readable up to {MAX_AGENTS}. Draw a smaller one.")
    values = None if colours is None else _numbers(colours, (K,), "colours")
    labels = _labels(labels, K)
    places = _places(topology) if positions is None else _numbers(positions, (K, 2), "positions")
    with style.applied():
        width, height = np.ptp(places, axis=0) + 1e-9
        tall = float(np.clip(6.0 * height / width, 3.0, 6.0))  # a flat layout gets a flat picture
        figure, picture = style.new_figure(6.2 if values is None else 7.2, tall)
        axes = picture.subplots()
        axes.set_aspect("equal")
        axes.axis("off")
        axes.margins(0.06)
        degrees = np.bincount(topology.pairs.ravel(), minlength=K)
        sizes = _sizes(degrees, K, any(len(label) > 2 for label in labels))
        face = {"color": style.PALETTE[0]} if values is None else {"c": values, "cmap": "cividis"}
        drawn = axes.scatter(places[:, 0], places[:, 1], sizes, edgecolors="white", linewidths=1.0, zorder=3, **face)
        if values is not None:
            picture.colorbar(drawn, ax=axes, shrink=0.75, label=colour_label or "")
        style.put_title(axes, title)
        _draw_links(figure, axes, topology, places, sizes)
        figure.draw_without_rendering()
        faces = np.resize(drawn.get_facecolor(), (K, 4))
        for (x, y), label, colour in zip(places, labels, faces, strict=False):
            axes.text(x, y, label, ha="center", va="center_baseline", fontsize=7.5, color=_contrast(colour), zorder=4)
        put_caption(figure, caption)
    return figure


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


def _draw_links(figure: Figure, axes: Axes, topology: Topology, places: np.ndarray, sizes: np.ndarray) -> None:
    if topology.relay:
        relay = places.mean(axis=0)
        axes.add_collection(LineCollection([(relay, place) for place in places], colors="#9A9A9A", linewidths=0.9))
        axes.scatter(relay[0], relay[1], 1100, marker="s", color="#4D4D4D", zorder=3)
        axes.text(relay[0], relay[1], "relay", ha="center", va="center_baseline", fontsize=9, color="white", zorder=4)
        return
    rasterized = len(topology.links) > VECTOR_LINKS
    width = 0.9 if len(topology.links) <= 1000 else 0.4
    if len(topology.links) == 2 * topology.num_pairs:
        lines = LineCollection(list(places[topology.pairs]), colors="#9A9A9A", linewidths=width, zorder=1)
        lines.set_rasterized(rasterized)
        axes.add_collection(lines)
        return
    figure.draw_without_rendering()
    pixels = axes.transData.transform(places)
    senders, receivers = topology.links.T
    along = pixels[receivers] - pixels[senders]
    length = np.linalg.norm(along, axis=1, keepdims=True)
    radii = np.sqrt(sizes / np.pi) * figure.dpi / 72
    unit = along / np.maximum(length, 1e-9)
    # The arrow ends at the rim of the receiver's circle; its tail is hidden under the sender's.
    ends = pixels[receivers] - unit * np.minimum(radii[receivers, None] + 1, length)
    arrows = axes.transData.inverted().transform(ends) - places[senders]
    quiver = axes.quiver(
        *places[senders].T, *arrows.T, angles="xy", scale_units="xy", scale=1, units="dots", width=1.2 * figure.dpi / 100,
        headwidth=6, headlength=7, headaxislength=6, minlength=0, color="#8A8A8A", zorder=1,
    )  # fmt: skip
    quiver.set_rasterized(rasterized)


def _contrast(face: np.ndarray) -> str:
    """Black or white, whichever is readable on a colour."""
    return "black" if np.dot(to_rgb(face), (0.299, 0.587, 0.114)) > 0.55 else "white"  # type: ignore[arg-type]
