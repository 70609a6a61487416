"""A study of gossip with noise once: the mean loss of pairs at every graph distance, and the published sum over messages beside it.

kind = "gossip_distance"
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from sottovoce.accounting import gossip
from sottovoce.errors import ConfigError
from sottovoce.experiments import Count, graph_distances, most_central
from sottovoce.reports import MU, OBSERVER, exposure, loss_by_distance, save
from sottovoce.studies.cells import Cells, Say, computed
from sottovoce.studies.gossip import EXACT, LOCAL, GossipSection, attackers_of, drawn_lines, graph_of, published_shares
from sottovoce.studies.privacy_study import Kind, PrivacyStudyResult
from sottovoce.topologies import Topology

LEAST_RATIO = 1e-6  # smaller ones are written as this: the digits of so small a loss are those of rounding
LEAST = 1e-6  # of the local value: what lies below is not shown


class GossipDistanceSection(GossipSection):
    """Loss against graph distance."""

    axis: ClassVar[str] = "graph distance"
    measures: ClassVar[Mapping[str, str]] = {
        "renyi_epsilon": "Renyi epsilon, mean over pairs",
        "mu": "mu, mean over pairs",
        "least_ratio": "least ratio of a pair to the lower end of its exact loss (1e-06: or less)",
    }

    kind: Literal["gossip_distance"]
    rounds: Count
    distances: list[Count] = Field(min_length=2)
    picture: str | None = None  # the graph that is drawn, coloured by what its most central agent learns

    def places(self) -> list[str]:
        """The distances."""
        return [str(distance) for distance in self.distances]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if max(self.distances) > self.rounds:
            raise ValueError(
                f"distance {max(self.distances)} is out of reach in {self.rounds} rounds, where nothing is learned; remove it"
            )
        if self.picture is not None and self.picture not in self.graphs:
            raise ValueError(f"picture = {self.picture!r} is not one of the graphs {', '.join(self.graphs)}")
        return self


def run_gossip_distance(
    section: GossipDistanceSection, base: Mapping[str, Any], *, source: str, progress: Say
) -> PrivacyStudyResult:
    """Mean loss at every distance; nothing of the base configuration is used."""
    cells: Cells = {measure: {} for measure in section.measures}
    pictures: dict[str, Any] = {"undecided": {}, "pairs": {}, "below": {}}
    for name, given in section.graphs.items():
        topology = graph_of(given)
        who = attackers_of(section, topology.num_agents)
        progress(f"study {section.name}: {name}, {len(who)} attackers of {topology.num_agents}")
        distances = graph_distances(topology)
        found = gossip.pairwise(
            topology, rounds=section.rounds, std=1.0, sensitivity=section.local_mu, attackers=who.tolist()
        )
        # A direction left open makes the upper end trivial: those agents would hide the picture of all others.
        settled = ~found.undecided
        pictures["pairs"][name], pictures["undecided"][name] = (
            (len(who), topology.num_agents),
            int(found.undecided.sum()),
        )
        who = who[settled]
        exact, lower = (end[:, settled] ** 2 * section.order / 2 for end in (found.upper, found.resolved))
        published = published_shares(topology, section.rounds)[:, who] * section.local_epsilon
        for what, loss in (("exact", exact), ("published", published)):
            _fill(cells, f"{name}, {what}", section, loss, lower, distances[:, who])
        there = (distances[:, who] >= 1) & (distances[:, who] <= section.rounds)
        pictures["below"][name] = float(np.mean(published[there] < lower[there] * (1 - 1e-9)))
        if name == section.picture:
            pictures["network"] = _picture(section, topology, distances)
    for measure in section.measures:
        value = {"renyi_epsilon": section.local_epsilon, "mu": section.local_mu, "least_ratio": 1.0}[measure]
        cells[measure][LOCAL] = {place: computed(value) for place in section.places()}
    return PrivacyStudyResult(section=section, cells=cells, pictures=pictures)


def _fill(
    cells: Cells,
    line: str,
    section: GossipDistanceSection,
    loss: np.ndarray,
    lower: np.ndarray,
    distances: np.ndarray,
) -> None:
    """The cells of one line; `loss` and the lower end of the exact one are Renyi epsilons, [K, A]."""
    for table in cells.values():
        table[line] = {}
    for distance in section.distances:
        there = distances == distance
        if not there.any():
            raise ConfigError(
                f"study {section.name!r}: no pair of {line.split(',')[0]} is at distance {distance}. Remove it."
            )
        numbers = {
            "renyi_epsilon": loss[there].mean(),
            "mu": np.sqrt(2 * loss[there] / section.order).mean(),
            "least_ratio": max(_ratios(loss[there], lower[there]).min(), LEAST_RATIO),
        }
        for measure, number in numbers.items():
            cells[measure][line][str(distance)] = computed(number)


def _ratios(loss: np.ndarray, lower: np.ndarray) -> np.ndarray:
    """[n] loss over the lower end; infinite where that is 0."""
    found = np.full(len(loss), np.inf)
    np.divide(loss, lower, out=found, where=lower > 0)
    return found


def _picture(section: GossipDistanceSection, topology: Topology, distances: np.ndarray) -> dict[str, Any]:
    attacker = most_central(distances)
    found = gossip.pairwise(
        topology, rounds=section.rounds, std=1.0, sensitivity=section.local_mu, attackers=[attacker]
    )
    return {"topology": topology, "attacker": attacker, "mu": found.upper[:, 0]}


def draw_gossip_distance(result: PrivacyStudyResult, folder: str | Path, document: str) -> list[Path]:
    """Exact loss and published sum against distance, and the network of one of the graphs."""
    section = result.section
    assert isinstance(section, GossipDistanceSection)
    solid, dotted = drawn_lines(result, section)
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
        f"{OBSERVER} Agents who look: {drawn}. {EXACT} "
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
            f"{shown['topology'].num_agents:,} agents, gossip averaging with noise once, {section.rounds} rounds, local mu {section.local_mu:g}. {OBSERVER} {EXACT}"
        )
        paths += save(figure, folder, f"{section.name}-network", caption=caption)
    return paths


KIND = Kind(GossipDistanceSection, run_gossip_distance, draw_gossip_distance)
