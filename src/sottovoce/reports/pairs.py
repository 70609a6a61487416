"""The pictures of what agents learn about each other, with captions that say who looks, how far it holds, and where it is from."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from sottovoce.experiments import VALIDITY, Pairs, distance_rows
from sottovoce.reports.distance import LossLine, loss_by_distance
from sottovoce.reports.exposed_agents import MAX_POINTS, exposure
from sottovoce.reports.files import save
from sottovoce.reports.networks import MAX_AGENTS
from sottovoce.reports.pair_matrix import heat_map
from sottovoce.topologies import Topology

MU = "mu (Gaussian differential privacy)"
OBSERVER = "Observer: one agent, who reads what it receives and knows its own noise."
SOURCE = "Source: sottovoce, docs/guarantees.md."


def pairs_figures(pairs: Pairs, topology: Topology, folder: str | Path) -> list[Path]:
    """Heat map, loss against distance, and the network coloured for the attacker; those that can be drawn. The files written."""
    finite = pairs.mu[np.isfinite(pairs.mu)]
    if finite.size == 0:
        return []
    largest, paths = float(finite.max()), []
    pictures = {
        "pairs": (heat_map(pairs.mu, label=MU, largest=largest), "Row: whose data; column: who looks."),
        "distance": _by_distance(pairs),
        "network": _of_attacker(pairs, topology, largest),
    }
    for name, (figure, text) in pictures.items():
        if figure is not None:
            paths += save(figure, folder, name, caption=f"{text} {pairs_caption(pairs, topology)}")
    return paths


def _by_distance(pairs: Pairs) -> tuple[Figure | None, str]:
    """Loss against distance, where somebody learns something, and beside a linear view what is proven for the attacker."""
    every = distance_rows(pairs)
    rows = [row for row in every if np.isfinite(row.largest)]
    if not any(row.median > 0 for row in rows):
        return None, ""
    distances, _, least, median, most, proven = np.array(rows).T
    stated = np.isfinite(proven) & (proven > 0)
    compared = {"all pairs": LossLine(distances[stated], proven[stated])} if stated.any() else None
    figure = loss_by_distance(
        {"all pairs": LossLine(distances, median, least, most)},
        compared=compared if pairs.resolved is None else None,
        names=("linear view", f"proven, attacker {pairs.attacker}"),
        y_label=MU,
    )
    endless = [str(row.distance) for row in every if np.isinf(row.largest)]
    beyond = f" Infinite at distance {', '.join(endless)}: not drawn." if endless else ""
    return (
        figure,
        f"Median over pairs, band from the least to the largest; pairs that learn nothing are not drawn.{beyond}",
    )


def _of_attacker(pairs: Pairs, topology: Topology, largest: float) -> tuple[Figure | None, str]:
    """The network coloured for the attacker, if it can be drawn and everything that it learns is finite."""
    own = np.delete(pairs.mu[:, pairs.attacker], pairs.attacker)
    if not drawable(topology) or not np.isfinite(own).all():
        return None, ""
    figure = exposure(topology, pairs.mu[:, pairs.attacker], pairs.attacker, label=MU, largest=largest)
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
        f"{pairs.method.capitalize()}: {name} network of {pairs.mu.shape[0]:,} agents, {pairs.rounds:,} rounds, one {pairs.unit} may change. "
        f"{OBSERVER} Validity: {VALIDITY[pairs.validity]}.{bracket} {SOURCE}"
    )
