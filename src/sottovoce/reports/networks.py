"""A network as a picture: agents and links."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike

from sottovoce.reports import style
from sottovoce.reports.caption import put_caption
from sottovoce.reports.pictures.network_picture import NetworkPicture, network_picture
from sottovoce.topologies import Topology

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
    picture = network_picture(
        topology, colours=colours, labels=labels, positions=positions, colour_label=colour_label, title=title
    )
    return paint_network(picture, caption=caption)


def paint_network(picture: NetworkPicture, *, caption: str | None = None) -> Figure:
    """A figure that shows a network value."""
    places, sizes = np.asarray(picture.places), np.asarray(picture.sizes)
    with style.applied():
        width, height = np.ptp(places, axis=0) + 1e-9
        tall = float(np.clip(6.0 * height / width, 3.0, 6.0))  # a flat layout gets a flat picture
        figure, whole = style.new_figure(6.2 if picture.values is None else 7.2, tall)
        axes = whole.subplots()
        axes.set_aspect("equal")
        axes.axis("off")
        axes.margins(0.06)
        face: dict[str, Any] = {"color": picture.colour}
        if picture.values is not None:
            low, high = picture.values_limits or (None, None)
            face = {"c": picture.values, "cmap": "cividis", "vmin": low, "vmax": high}
        drawn = axes.scatter(places[:, 0], places[:, 1], sizes, edgecolors="white", linewidths=1.0, zorder=3, **face)
        if picture.values is not None:
            whole.colorbar(drawn, ax=axes, shrink=0.75, label=picture.values_label)
        style.put_title(axes, picture.title or None)
        _draw_links(figure, axes, picture, places, sizes)
        _draw_shared(axes, picture, places)
        figure.draw_without_rendering()
        faces = np.resize(drawn.get_facecolor(), (len(places), 4))
        for (x, y), label, colour in zip(places, picture.labels, faces, strict=False):
            axes.text(x, y, label, ha="center", va="center_baseline", fontsize=7.5, color=_contrast(colour), zorder=4)
        put_caption(figure, caption)
    return figure


def _draw_links(figure: Figure, axes: Axes, picture: NetworkPicture, places: np.ndarray, sizes: np.ndarray) -> None:
    if picture.relay is not None:
        x, y = picture.relay
        axes.add_collection(LineCollection([((x, y), place) for place in places], colors="#9A9A9A", linewidths=0.9))
        axes.scatter(x, y, 1100, marker="s", color="#4D4D4D", zorder=3)
        axes.text(x, y, "relay", ha="center", va="center_baseline", fontsize=9, color="white", zorder=4)
        return
    links = np.asarray(picture.links, dtype=int).reshape(-1, 2)
    drawn = len(links) * (2 if picture.both_ways else 1)
    if picture.both_ways:
        width = 0.9 if drawn <= 1000 else 0.4
        lines = LineCollection(list(places[links]), colors="#9A9A9A", linewidths=width, zorder=1)
        lines.set_rasterized(drawn > VECTOR_LINKS)
        axes.add_collection(lines)
        return
    figure.draw_without_rendering()
    pixels = axes.transData.transform(places)
    senders, receivers = links.T
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
    quiver.set_rasterized(drawn > VECTOR_LINKS)


def _draw_shared(axes: Axes, picture: NetworkPicture, places: np.ndarray) -> None:
    """A line for every pair that shares something, and below the picture what its colour means."""
    if not picture.shared:
        return
    ends = list(places[np.asarray(picture.shared, dtype=int)])
    widths, colours = list(picture.shared_widths), list(picture.shared_colours)
    axes.add_collection(LineCollection(ends, linewidths=widths, colors=colours, alpha=0.75, zorder=2))
    shown = [
        Line2D([], [], color=colour, linewidth=3, alpha=0.75, label=name)
        for name, colour in picture.shared_names
        if colour in picture.shared_colours
    ]
    if shown:
        axes.legend(handles=shown, loc="upper center", bbox_to_anchor=(0.5, 0.02), ncols=len(shown))


def _contrast(face: np.ndarray) -> str:
    """Black or white, whichever is readable on a colour."""
    return "black" if np.dot(to_rgb(face), (0.299, 0.587, 0.114)) > 0.55 else "white"  # type: ignore[arg-type]
