"""The pictures of what agents learn about each other, with captions that say who looks, how far it holds, and where it is from."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np

from sottovoce.experiments.pairwise import VALIDITY, Pairs, distance_rows
from sottovoce.reports.distance import LossLine, loss_by_distance
from sottovoce.reports.exposure import MAX_POINTS, exposure
from sottovoce.reports.heat_map import heat_map
from sottovoce.reports.network import MAX_AGENTS
from sottovoce.reports.save import save
from sottovoce.studies.gossip import GossipDistanceSection, GossipRoundsSection, GossipSection
from sottovoce.studies.privacy_study import PrivacyStudyResult
from sottovoce.topologies import Topology

LEAST = 1e-6  # of the local value: what lies below is not shown
MU = "mu (Gaussian differential privacy)"
OBSERVER = "Observer: one agent, who reads what it receives and knows its own noise."
SOURCE = "Source: sottovoce, docs/guarantees.md."
GUARANTEE = f"Exact for gossip with noise once, a guarantee, since values do not react to what agents hear. {SOURCE}"


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


def gossip_distance_figures(result: PrivacyStudyResult, folder: str | Path, document: str) -> list[Path]:
    """Exact loss and published sum against distance, and the network of one of the graphs."""
    section = cast(GossipDistanceSection, result.section)
    distances = [float(place) for place in section.places()]
    solid, dotted = _lines(result, section, "renyi_epsilon", distances)
    figure = loss_by_distance(
        solid, compared=dotted, names=("exact", "published sum"), local=("local", section.local_epsilon),
        y_label=f"Renyi epsilon of order {section.order:g}, mean over pairs", least=LEAST * section.local_epsilon,
    )  # fmt: skip
    drawn = ", ".join(f"{name}: {a} of {K}" for name, (a, K) in result.pictures["pairs"].items())
    below = ", ".join(f"{name} {share:.0%}" for name, share in result.pictures["below"].items())
    left = {name: count for name, count in result.pictures["undecided"].items() if count}
    open_ones = "".join(
        f"Left out: {count} agents of {name}, for whom a direction was left open; their upper end is the local value. "
        for name, count in left.items()
    )
    caption = (
        f"After {document}, Fig. 1a. Gossip averaging, noise once, {section.rounds} rounds, local Renyi epsilon {section.local_epsilon:g}. "
        f"{OBSERVER} Agents who look: {drawn}. {GUARANTEE} "
        f"The published sum over messages is no upper bound; pairs in reach for which it is below the exact loss: {below}. {open_ones}"
        f"What lies below {LEAST:g} of the local value is not shown."
    )
    paths = save(figure, folder, section.name, caption=caption)
    if "network" in result.pictures:
        shown = result.pictures["network"]
        figure = exposure(
            shown["topology"], shown["mu"], shown["attacker"], label=MU, largest=section.local_mu,
        )  # fmt: skip
        caption = (
            f"After {document}. What agent {shown['attacker']}, the most central, learns about each agent: {section.picture} network of "
            f"{shown['topology'].num_agents:,} agents, gossip averaging with noise once, {section.rounds} rounds, local mu {section.local_mu:g}. {OBSERVER} {GUARANTEE}"
        )
        paths += save(figure, folder, f"{section.name}-network", caption=caption)
    return paths


def gossip_rounds_figures(result: PrivacyStudyResult, folder: str | Path, document: str) -> list[Path]:
    """Exact loss and published sum against the number of rounds."""
    section = cast(GossipRoundsSection, result.section)
    solid, dotted = _lines(result, section, "renyi_epsilon", [float(rounds) for rounds in section.rounds])
    figure = loss_by_distance(
        solid, compared=dotted, names=("exact", "published sum"), local=("local", section.local_epsilon), x_label="rounds",
        y_label=f"Renyi epsilon of order {section.order:g}, mean over pairs", log_y=False,
    )  # fmt: skip
    caption = (
        f"After {document}. Gossip averaging, noise once, local Renyi epsilon {section.local_epsilon:g}; mean over all pairs. "
        f"{OBSERVER} {GUARANTEE} The published sum over messages is no upper bound."
    )
    return save(figure, folder, section.name, caption=caption)


def learning_distance_figures(result: PrivacyStudyResult, folder: str | Path, document: str) -> list[Path]:
    """Linear view against distance, and the proven values."""
    section = result.section
    distances = [float(place) for place in section.places()]
    table, labels = result.cells["mu"], list(result.pictures)
    solid, dotted = (
        {label: LossLine(distances, [cell.value for cell in table[f"{label}, {what}"].values()]) for label in labels}
        for what in ("linear view", "proven")
    )
    figure = loss_by_distance(solid, compared=dotted, names=("linear view", "proven"), y_label=MU)
    first: Pairs = next(iter(result.pictures.values()))
    K, unit = len(first.mu), first.unit
    caption = (
        f"After {document}. Learning with fresh noise in every gradient, {first.rounds} rounds, {K} agents, one {unit} may change; mean over pairs. "
        f"{OBSERVER} Validity of the linear view: {VALIDITY[first.validity]}; dotted: what sv.account proves. {SOURCE}"
    )
    return save(figure, folder, section.name, caption=caption)


def _lines(
    result: PrivacyStudyResult, section: GossipSection, measure: str, places: list[float]
) -> tuple[dict[str, LossLine], dict[str, LossLine]]:
    table = result.cells[measure]
    solid, dotted = (
        {
            graph: LossLine(places, [cell.value for cell in table[f"{graph}, {what}"].values()])
            for graph in section.graphs
        }
        for what in ("exact", "published")
    )
    return solid, dotted
