"""The pictures of what agents learn about each other, with captions that say who looks, how far it holds, and where it is from."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sottovoce.experiments import VALIDITY, Pairs, distance_rows
from sottovoce.reports.distance import LossLine, loss_by_distance
from sottovoce.reports.exposure import MAX_POINTS, exposure
from sottovoce.reports.heat_map import heat_map
from sottovoce.reports.network import MAX_AGENTS
from sottovoce.reports.save import save
from sottovoce.topologies import Topology

MU = "mu (Gaussian differential privacy)"
OBSERVER = "Observer: one agent, who reads what it receives and knows its own noise."
SOURCE = "Source: sottovoce, docs/guarantees.md."


def pairs_figures(pairs: Pairs, topology: Topology, folder: str | Path) -> list[Path]:
    """Heat map, loss against distance, and the network coloured for the attacker; those that can be drawn. The files written."""
    about = pairs_caption(pairs, topology)
    finite = pairs.mu[np.isfinite(pairs.mu)]
    paths: list[Path] = []
    if finite.size == 0:
        return paths
    largest = float(finite.max())
    said = "Row: whose data; column: who looks."
    paths += save(heat_map(pairs.mu, label=MU, largest=largest), folder, "pairs", caption=f"{said} {about}")
    rows = [row for row in distance_rows(pairs) if np.isfinite(row.largest)]
    if any(row.median > 0 for row in rows):
        x = [row.distance for row in rows]
        line = LossLine(x, [r.median for r in rows], [r.least for r in rows], [r.largest for r in rows])
        stated = [(row.distance, row.proven) for row in rows if np.isfinite(row.proven) and row.proven > 0]
        proven = {"all pairs": LossLine(*np.array(stated).T)} if stated and pairs.resolved is None else None
        figure = loss_by_distance(
            {"all pairs": line}, compared=proven, names=("linear view", f"proven, attacker {pairs.attacker}"), y_label=MU
        )  # fmt: skip
        endless = [str(row.distance) for row in distance_rows(pairs) if np.isinf(row.largest)]
        beyond = f" Infinite at distance {', '.join(endless)}: not drawn." if endless else ""
        text = f"Median over pairs, band from the least to the largest; pairs that learn nothing are not drawn.{beyond}"
        paths += save(figure, folder, "distance", caption=f"{text} {about}")
    own = np.delete(pairs.mu[:, pairs.attacker], pairs.attacker)
    if drawable(topology) and np.isfinite(own).all():
        figure = exposure(topology, pairs.mu[:, pairs.attacker], pairs.attacker, label=MU, largest=largest)
        text = f"What agent {pairs.attacker} learns about each agent."
        paths += save(figure, folder, "network", caption=f"{text} {about}")
    return paths


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
