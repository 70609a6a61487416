"""A network coloured by what one attacker learns about every agent."""

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from numpy.typing import ArrayLike

from sottovoce.errors import ConfigError
from sottovoce.reports import style
from sottovoce.reports.caption import put_caption
from sottovoce.reports.networks import network
from sottovoce.reports.painting import percent_tick
from sottovoce.reports.pictures.colours import VERMILION
from sottovoce.reports.pictures.network_picture import MAX_AGENTS
from sottovoce.topologies import Topology

ATTACKER = VERMILION
MAX_POINTS = 5000  # agents with known places, drawn as points


def exposure(
    topology: Topology,
    losses: ArrayLike,
    attacker: int,
    *,
    label: str,
    smallest: float = 0.0,
    largest: float | None = None,
    percent: bool = False,
    caption: str | None = None,
    title: str | None = None,
) -> Figure:
    """Agents coloured by what the attacker, a vermilion star, learns about them.

    Args:
        topology: at most 500 agents, or 5000 with known places.
        losses: [K] one finite number per agent; the attacker's own entry is not read.
        attacker: who looks.
        label: which loss, with its unit.
        smallest: where the colours begin.
        largest: where the colours end; None: the largest loss.
        percent: the losses are shares.
        caption: what is shown, under the picture.
        title: above the picture.

    Raises:
        ConfigError: too many agents, an attacker who does not exist, or losses that are missing, infinite or below 0.
    """
    K = topology.num_agents
    values = np.array(losses, dtype=float)
    if not 0 <= attacker < K:
        raise ConfigError(f"attacker = {attacker}; the agents are 0 to {K - 1}. Give one of them.")
    if values.shape != (K,):
        raise ConfigError(f"losses has shape {values.shape}; it must be ({K},), one entry per agent.")
    values[attacker] = 0.0
    if not (np.isfinite(values) & (values >= 0)).all():
        raise ConfigError(
            "losses has an entry that is not finite or below 0; colours need finite losses. Draw the heat map."
        )
    top = (float(values.max()) if largest is None else largest) or 1.0
    pointwise = K > MAX_AGENTS and K <= MAX_POINTS and topology.positions is not None
    with style.applied():
        figure = (
            _points(topology, values, label) if pointwise else network(topology, colours=values, colour_label=label)
        )
        axes = figure.axes[0]
        drawn = next(each for each in axes.collections if isinstance(each, PathCollection))
        drawn.set_array(
            np.ma.masked_array(values, np.arange(K) == attacker)
        )  # no colour: it learns nothing about itself
        drawn.set_cmap(colormaps["cividis"].with_extremes(bad="white"))
        drawn.set_clim(smallest, top)
        if percent:
            figure.axes[1].yaxis.set_major_formatter(FuncFormatter(percent_tick))
        _mark(figure, axes, drawn, attacker)
        style.put_title(axes, title)
        put_caption(figure, caption)
    return figure


def _points(topology: Topology, values: np.ndarray, label: str) -> Figure:
    """Many agents at known places: small points and faint links."""
    places = np.asarray(topology.positions, dtype=float)
    figure, picture = style.new_figure(7.4, 6.2)
    axes = picture.subplots()
    axes.set_aspect("equal")
    axes.axis("off")
    links = LineCollection(list(places[topology.pairs]), colors="#C9C9C9", linewidths=0.15, zorder=1)
    links.set_rasterized(True)
    axes.add_collection(links)
    drawn = axes.scatter(places[:, 0], places[:, 1], 9, c=values, cmap="cividis", linewidths=0, zorder=3)
    picture.colorbar(drawn, ax=axes, shrink=0.75, label=label)
    return figure


def _mark(figure: Figure, axes: Axes, drawn: PathCollection, attacker: int) -> None:
    """The star of the attacker, and numbers that can be read on the colours as they are now."""
    x, y = np.asarray(drawn.get_offsets())[attacker]
    axes.plot(
        [x], [y], marker="*", markersize=19, color=ATTACKER, markeredgecolor="white", markeredgewidth=1.2, zorder=6,
        linestyle="none", label=f"attacker: agent {attacker}",
    )  # fmt: skip
    axes.legend(loc="upper left", bbox_to_anchor=(0.0, 0.02), handletextpad=0.1, handlelength=1.6)
    figure.draw_without_rendering()
    faces = np.asarray(drawn.get_facecolor())
    for text, face in zip(axes.texts, faces, strict=False):
        bright = np.dot(to_rgb(face), (0.299, 0.587, 0.114)) > 0.55
        text.set_color("black" if bright else "white")
    if axes.texts:
        axes.texts[attacker].set_visible(False)
