"""The pictures of what agents learn about each other, with captions that say who looks, how far it holds, and where it is from."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from sottovoce.experiments import RECEIVER, VALIDITY, Pairs, distance_rows
from sottovoce.reports.exposed_agents import MAX_POINTS, exposure
from sottovoce.reports.files import save
from sottovoce.reports.painting import paint
from sottovoce.reports.pictures.network_picture import MAX_AGENTS
from sottovoce.reports.pictures.pair_pictures import (
    attacker_title,
    pair_scale,
    pairs_distance_picture,
    pairs_picture,
)
from sottovoce.topologies import Topology

MU = "mu (Gaussian differential privacy)"
OBSERVER = f"Observer: {RECEIVER}."
SOURCE = "Source: sottovoce, docs/guarantees.md."


def pairs_figures(
    pairs: Pairs, topology: Topology, folder: str | Path, *, names: Sequence[str] | None = None
) -> list[Path]:
    """Heat map, losses against distance, and the network coloured for the attacker; those that can be drawn. The files written.

    Args:
        pairs: what every agent learns about every other.
        topology: who talks to whom.
        folder: of the files.
        names: of the agents, in their order; None: by their numbers.
    """
    if not np.isfinite(pairs.losses).any():
        return []
    paths: list[Path] = []
    by_distance = pairs_distance_picture(pairs)
    pictures = {
        "pairs": (paint(pairs_picture(pairs, names)), "Row: whose data; column: who looks."),
        "distance": (None if by_distance is None else paint(by_distance), _band(pairs)),
        "network": _of_attacker(pairs, topology),
    }
    meaning = pair_scale(pairs).meaning
    for name, (figure, text) in pictures.items():
        if figure is not None:
            paths += save(figure, folder, name, caption=f"{text} {meaning} {pairs_caption(pairs, topology)}")
    return paths


def _band(pairs: Pairs) -> str:
    """What line and band are, and what is not drawn."""
    endless = [str(row.distance) for row in distance_rows(pairs) if np.isinf(row.largest)]
    beyond = f" Infinite at distance {', '.join(endless)}: not drawn." if endless else ""
    return f"Median over pairs, band from the least to the largest.{beyond}"


def _of_attacker(pairs: Pairs, topology: Topology) -> tuple[Figure | None, str]:
    """The network coloured for the attacker, if it can be drawn and everything that it learns is finite."""
    column, scale = pairs.losses[:, pairs.attacker], pair_scale(pairs)
    if not drawable(topology) or not np.isfinite(np.delete(column, pairs.attacker)).all():
        return None, ""
    figure = exposure(
        topology, scale.of(column), pairs.attacker, label=scale.label, smallest=scale.begins, largest=scale.end(pairs.losses),
        percent=scale.percent, title=attacker_title(pairs),
    )  # fmt: skip
    return figure, f"What agent {pairs.attacker} learns about each agent."


def drawable(topology: Topology) -> bool:
    """Whether a picture of the network can be read."""
    K = topology.num_agents
    return K <= MAX_AGENTS or (K <= MAX_POINTS and topology.positions is not None)


def pairs_caption(pairs: Pairs, topology: Topology) -> str:
    """What was computed, for whom, and how far it holds."""
    name = topology.name.replace("_", " ")
    bracket = "" if pairs.gap is None else f" Width of the bracket: {pairs.gap:.1e} of the largest mu squared."
    return (
        f"{pairs.method.capitalize()}: {name} network of {len(pairs.losses):,} agents, {pairs.rounds:,} rounds, one {pairs.unit} may change. "
        f"Observer: {pairs.observer}. Validity: {VALIDITY[pairs.validity]}.{bracket} {SOURCE}"
    )
