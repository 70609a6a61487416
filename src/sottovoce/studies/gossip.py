"""Studies of gossip with noise once: the mean loss of pairs of agents, and the published sum over messages beside it.

    kind = "gossip_distance"      against graph distance
    kind = "gossip_rounds"        mean over all pairs, against the number of rounds

The noise is such that a reader of the noisy values themselves has the Renyi divergence `local_epsilon` of order alpha = `order`; a pair has
alpha mu^2 / 2. The published sum is that of `documents.cyffers_muffliato_epsilon`, for all pairs at once.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator
from scipy import sparse

from sottovoce.accounting.gossip import pairwise
from sottovoce.errors import ConfigError
from sottovoce.experiments import Count, Positive, Seed, TopologySection, TopologyTable, graph_distances, most_central
from sottovoce.reports import (
    GUESSED,
    GUESSES,
    OBSERVER,
    SOURCE,
    LossLine,
    exposure,
    loss_by_distance,
    right_guesses,
    save,
)
from sottovoce.studies.cells import Cells, StudyFile, computed, empty_cells
from sottovoce.studies.privacy_study import Kind, PrivacyStudyResult, PrivacyStudySection
from sottovoce.topologies import Topology

LOCAL = "local"
EXACT = f"Exact for gossip with noise once, a guarantee, since values do not react to what agents hear. {SOURCE}"
LEAST_RATIO = 1e-6  # smaller ones are written as this: the digits of so small a loss are those of rounding
LEAST = 1e-6  # losses below this part of the local value are not shown


class GossipSection(PrivacyStudySection):
    """What both studies of gossip have."""

    graphs: dict[str, TopologyTable] = Field(min_length=1)
    order: Annotated[float, Field(gt=1, allow_inf_nan=False)]  # alpha
    local_epsilon: Positive  # Renyi, of this order
    attackers: Count | None = None  # so many, drawn at random; None: everybody
    seed: Seed = 0  # of the attackers

    def lines(self) -> list[str]:
        """Exact and published for every graph, and the local value."""
        return [*(f"{graph}, {what}" for graph in self.graphs for what in ("exact", "published")), LOCAL]

    @property
    def local_mu(self) -> float:
        """What a reader of the noisy values has."""
        return float(np.sqrt(2 * self.local_epsilon / self.order))


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


class GossipRoundsSection(GossipSection):
    """Loss against the number of rounds."""

    axis: ClassVar[str] = "rounds"
    measures: ClassVar[Mapping[str, str]] = {
        "renyi_epsilon": "Renyi epsilon, mean over pairs",
        "exposed": "share of pairs with the local value",
    }

    kind: Literal["gossip_rounds"]
    rounds: list[Count] = Field(min_length=2)

    def places(self) -> list[str]:
        """The numbers of rounds."""
        return [str(rounds) for rounds in self.rounds]


def graph_of(section: TopologySection) -> Topology:
    """The peers with fixed weights that a section describes.

    Raises:
        ConfigError: a federation, links that change, or a random graph without a seed.
    """
    changes = section.schedules()
    if section.kind == "federation" or changes:
        raise ConfigError(
            f"a graph of kind {section.kind!r}{f' with {changes[0]}' if changes else ''} was given; pairs need peers with fixed weights."
        )
    if getattr(section, "seed", 0) is None:
        raise ConfigError(f"a graph of kind {section.kind!r} is random; give its seed.")
    return section.topology()


def published_shares(topology: Topology, rounds: int) -> np.ndarray:
    """[K, K] the published sum over messages in units of the local value, cut off at 1; row u whose value, column v who looks.

    sum_{t < T} sum_{w in N_v} (W^t)_{uw}^2 / || (W^t)_w ||^2, W symmetric.

    Raises:
        ConfigError: weights that are not symmetric.
    """
    weights = sparse.csr_array(topology.weights)
    if abs(weights - weights.T).max() > 1e-12:
        raise ConfigError("the published sum is for symmetric weights; these are not. Use weights = 'metropolis'.")
    K = topology.num_agents
    senders, receivers = topology.links.T
    heard = sparse.csr_array((np.ones(len(senders)), (receivers, senders)), shape=(K, K))
    power, total = np.eye(K), np.zeros((K, K))
    for _ in range(rounds):
        squares = power**2
        squares /= squares.sum(axis=0)
        total += (heard @ squares.T).T
        power = weights @ power
    found = np.minimum(total, 1.0)
    np.fill_diagonal(found, np.nan)
    return found


def _attackers(section: GossipSection, num_agents: int) -> np.ndarray:
    """The agents who look: everybody, or as many as the file says, drawn at random."""
    if section.attackers is None or section.attackers >= num_agents:
        return np.arange(num_agents)
    return np.sort(np.random.default_rng(section.seed).choice(num_agents, section.attackers, replace=False))


def run_gossip_distance(section: GossipDistanceSection, file: StudyFile) -> PrivacyStudyResult:
    """Mean loss at every distance; nothing of the base configuration is used."""
    cells: Cells = {measure: {} for measure in section.measures}
    pictures: dict[str, Any] = {"undecided": {}, "pairs": {}, "below": {}}
    for name, given in section.graphs.items():
        topology = graph_of(given)
        who = _attackers(section, topology.num_agents)
        file.say(f"study {section.name}: {name}, {len(who)} attackers of {topology.num_agents}")
        distances = graph_distances(topology)
        found = pairwise(topology, rounds=section.rounds, std=1.0, sensitivity=section.local_mu, attackers=who.tolist())
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
    found = pairwise(topology, rounds=section.rounds, std=1.0, sensitivity=section.local_mu, attackers=[attacker])
    return {"topology": topology, "attacker": attacker, "mu": found.upper[:, 0]}


def run_gossip_rounds(section: GossipRoundsSection, file: StudyFile) -> PrivacyStudyResult:
    """Mean loss over all pairs after so many rounds; nothing of the base configuration is used."""
    cells = empty_cells(section.measures, section.lines())
    gaps: dict[str, float] = {}
    for name, given in section.graphs.items():
        topology = graph_of(given)
        who = _attackers(section, topology.num_agents)
        others = np.arange(topology.num_agents)[:, None] != who
        for rounds in section.rounds:
            file.say(f"study {section.name}: {name}, {rounds} rounds")
            found = pairwise(topology, rounds=rounds, std=1.0, sensitivity=section.local_mu, attackers=who.tolist())
            shares = {
                "exact": (found.upper / found.local) ** 2,
                "published": published_shares(topology, rounds)[:, who],
            }
            gaps[name] = max(gaps.get(name, 0.0), found.gap)
            for what, share in shares.items():
                value = section.local_epsilon * float(share[others].mean())
                exposed = float(np.mean(share[others] >= 1 - 1e-9))
                cells["renyi_epsilon"][f"{name}, {what}"][str(rounds)] = computed(value)
                cells["exposed"][f"{name}, {what}"][str(rounds)] = computed(exposed)
    for place in section.places():
        cells["renyi_epsilon"][LOCAL][place] = computed(section.local_epsilon)
        cells["exposed"][LOCAL][place] = computed(1.0)
    return PrivacyStudyResult(section=section, cells=cells, pictures={"gaps": gaps})


def _lines(result: PrivacyStudyResult, section: GossipSection) -> tuple[dict[str, LossLine], dict[str, LossLine]]:
    """The exact loss of every graph, and the published sum."""
    table, places = result.cells["renyi_epsilon"], [float(place) for place in section.places()]
    solid, dotted = (
        {
            graph: LossLine(places, [cell.value for cell in table[f"{graph}, {what}"].values()])
            for graph in section.graphs
        }
        for what in ("exact", "published")
    )
    return solid, dotted


def draw_gossip_distance(result: PrivacyStudyResult, folder: str | Path, document: str) -> list[Path]:
    """Exact loss and published sum against distance, and the network of one of the graphs."""
    section = result.section
    assert isinstance(section, GossipDistanceSection)
    solid, dotted = _lines(result, section)
    figure = loss_by_distance(
        solid, compared=dotted, names=("exact", "published sum"), local=("local", section.local_epsilon),
        y_label=f"Renyi epsilon of order {section.order:g}", least=LEAST * section.local_epsilon,
        title=f"The further away, the less an agent learns: mean over pairs, {section.rounds} rounds",
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
            shown["topology"], right_guesses(shown["mu"]), shown["attacker"], label=GUESSES, smallest=0.5,
            largest=float(right_guesses(section.local_mu)), percent=True,
            title=f"What agent {shown['attacker']} could find out about the others\nRenyi epsilon at most {section.local_epsilon:g} (order {section.order:g})",
        )  # fmt: skip
        caption = (
            f"After {document}. What agent {shown['attacker']}, the most central, learns about each agent: {section.picture} network of "
            f"{shown['topology'].num_agents:,} agents, gossip averaging with noise once, {section.rounds} rounds, local mu {section.local_mu:g}. "
            f"{GUESSED} {OBSERVER} {EXACT}"
        )
        paths += save(figure, folder, f"{section.name}-network", caption=caption)
    return paths


def draw_gossip_rounds(result: PrivacyStudyResult, folder: str | Path, document: str) -> list[Path]:
    """Exact loss and published sum against the number of rounds."""
    section = result.section
    assert isinstance(section, GossipRoundsSection)
    solid, dotted = _lines(result, section)
    figure = loss_by_distance(
        solid, compared=dotted, names=("exact", "published sum"), local=("local", section.local_epsilon), x_label="rounds",
        y_label=f"Renyi epsilon of order {section.order:g}", log_y=False,
        title="The more rounds, the more an agent learns: mean over pairs",
    )  # fmt: skip
    caption = (
        f"After {document}. Gossip averaging, noise once, local Renyi epsilon {section.local_epsilon:g}; mean over all pairs. "
        f"{OBSERVER} {EXACT} The published sum over messages is no upper bound."
    )
    return save(figure, folder, section.name, caption=caption)


KINDS = {
    "gossip_distance": Kind(GossipDistanceSection, run_gossip_distance, draw_gossip_distance),
    "gossip_rounds": Kind(GossipRoundsSection, run_gossip_rounds, draw_gossip_rounds),
}
