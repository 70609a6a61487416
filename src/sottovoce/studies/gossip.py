"""Studies of pairs: the mean loss at every graph distance, after so many rounds, and for learning.

    kind = "gossip_distance"      exact loss of gossip with noise once against distance, and the published sum over messages beside it
    kind = "gossip_rounds"        the same, mean over all pairs, against the number of rounds
    kind = "learning_distance"    linear view of a learning algorithm against distance, and the proven value beside it

For gossip the noise is such that a reader of the noisy values themselves has the Renyi divergence `local_epsilon` of order alpha = `order`;
a pair has alpha mu^2 / 2. The published sum is that of `documents.cyffers_muffliato_epsilon`, for all pairs at once.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator
from scipy import sparse

from sottovoce.accounting.gossip.pairwise_loss import pairwise
from sottovoce.errors import ConfigError
from sottovoce.experiments.build import build
from sottovoce.experiments.config import config as sections
from sottovoce.experiments.config.toml_file import parse
from sottovoce.experiments.config.values import Count, Positive, Seed
from sottovoce.experiments.pairwise import epsilon_of, graph_distances, most_central, pairs_of
from sottovoce.studies.curves import CONFIG, Cell, Cells, replace_key
from sottovoce.studies.privacy_study import PrivacyStudyResult, PrivacyStudySection
from sottovoce.topologies import TOPOLOGIES, Topology

LOCAL = "local"
LEAST_RATIO = 1e-6  # smaller ones are written as this: the digits of so small a loss are those of rounding
_SCHEDULES = {"dropout", "random_pair", "walk"}
_NAMES = {"agents": "n", "probability": "p"}  # keys of a file whose parameter has another name

Say = Callable[[str], None]


class GossipSection(PrivacyStudySection):
    """What both studies of gossip have."""

    graphs: dict[str, sections.Topology] = Field(min_length=1)
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


class LearningDistanceSection(PrivacyStudySection):
    """Linear view against distance, for variants of the file's experiment."""

    axis: ClassVar[str] = "graph distance"
    measures: ClassVar[Mapping[str, str]] = {
        "mu": "mu, mean over pairs",
        "epsilon": "epsilon at the delta of [privacy], of the mean mu",
    }

    kind: Literal["learning_distance"]
    set: dict[str, Any] = Field(default_factory=dict)  # keys replaced in every variant
    series: dict[str, dict[str, Any]] = Field(min_length=1)  # label -> sections to change
    distances: list[Count] = Field(min_length=2)

    def lines(self) -> list[str]:
        """Linear view and proven value of every variant."""
        return [f"{label}, {what}" for label in self.series for what in ("linear view", "proven")]

    def places(self) -> list[str]:
        """The distances."""
        return [str(distance) for distance in self.distances]


def run_gossip_distance(
    section: GossipDistanceSection, base: Mapping[str, Any], *, source: str, progress: Say
) -> PrivacyStudyResult:
    """Mean loss at every distance; nothing of the base configuration is used."""
    cells: Cells = {measure: {} for measure in section.measures}
    pictures: dict[str, Any] = {"undecided": {}, "pairs": {}, "below": {}}
    for name, given in section.graphs.items():
        topology = graph_of(given)
        who = _attackers(section, topology.num_agents)
        progress(f"study {section.name}: {name}, {len(who)} attackers of {topology.num_agents}")
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
        cells[measure][LOCAL] = {place: Cell(value=value, error=0.0) for place in section.places()}
    return PrivacyStudyResult(section=section, cells=cells, pictures=pictures)


def run_gossip_rounds(
    section: GossipRoundsSection, base: Mapping[str, Any], *, source: str, progress: Say
) -> PrivacyStudyResult:
    """Mean loss over all pairs after so many rounds; nothing of the base configuration is used."""
    cells: Cells = {measure: {line: {} for line in section.lines()} for measure in section.measures}
    gaps: dict[str, float] = {}
    for name, given in section.graphs.items():
        topology = graph_of(given)
        who = _attackers(section, topology.num_agents)
        others = np.arange(topology.num_agents)[:, None] != who
        for rounds in section.rounds:
            progress(f"study {section.name}: {name}, {rounds} rounds")
            found = pairwise(topology, rounds=rounds, std=1.0, sensitivity=section.local_mu, attackers=who.tolist())
            shares = {
                "exact": (found.upper / found.local) ** 2,
                "published": published_shares(topology, rounds)[:, who],
            }
            gaps[name] = max(gaps.get(name, 0.0), found.gap)
            for what, share in shares.items():
                value = section.local_epsilon * float(share[others].mean())
                exposed = float(np.mean(share[others] >= 1 - 1e-9))
                cells["renyi_epsilon"][f"{name}, {what}"][str(rounds)] = Cell(value=value, error=0.0)
                cells["exposed"][f"{name}, {what}"][str(rounds)] = Cell(value=exposed, error=0.0)
    for place in section.places():
        cells["renyi_epsilon"][LOCAL][place] = Cell(value=section.local_epsilon, error=0.0)
        cells["exposed"][LOCAL][place] = Cell(value=1.0, error=0.0)
    return PrivacyStudyResult(section=section, cells=cells, pictures={"gaps": gaps})


def run_learning_distance(
    section: LearningDistanceSection, base: Mapping[str, Any], *, source: str, progress: Say
) -> PrivacyStudyResult:
    """Linear view and proven value of every variant at every distance."""
    cells: Cells = {measure: {line: {} for line in section.lines()} for measure in section.measures}
    pictures: dict[str, Any] = {}
    for label, change in section.series.items():
        progress(f"study {section.name}: {label}")
        data = copy.deepcopy(dict(base))
        for key, value in {**section.set, CONFIG: change}.items():
            replace_key(data, key, value)
        pairs = pairs_of(build(parse(data, source=f"{source}, study {section.name!r}, {label}")))
        for distance in section.distances:
            there = pairs.distances == distance
            if not there[:, pairs.attacker].any():
                raise ConfigError(
                    f"{source}: study {section.name!r} has no agent at distance {distance} from agent {pairs.attacker}. Remove that distance."
                )
            means = {
                "linear view": float(pairs.mu[there].mean()),
                "proven": float(pairs.proven_mu[there[:, pairs.attacker]].max()),
            }
            for what, mean in means.items():
                cells["mu"][f"{label}, {what}"][str(distance)] = Cell(value=mean, error=0.0)
                cells["epsilon"][f"{label}, {what}"][str(distance)] = Cell(
                    value=epsilon_of(mean, pairs.delta), error=0.0
                )
        pictures[label] = pairs
    return PrivacyStudyResult(section=section, cells=cells, pictures=pictures)


def graph_of(section: sections.Topology) -> Topology:
    """The peers with fixed weights that a section describes.

    Raises:
        ConfigError: a federation, links that change, or a random graph without a seed.
    """
    given = section.model_dump(exclude={"kind", *_SCHEDULES}, exclude_none=True)
    changes = [key for key in sorted(_SCHEDULES) if getattr(section, key)]
    if section.kind == "federation" or changes:
        raise ConfigError(
            f"a graph of kind {section.kind!r}{f' with {changes[0]}' if changes else ''} was given; pairs need peers with fixed weights."
        )
    if "seed" in type(section).model_fields and "seed" not in given:
        raise ConfigError(f"a graph of kind {section.kind!r} is random; give its seed.")
    return TOPOLOGIES[section.kind](**{_NAMES.get(key, key): value for key, value in given.items()})


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
    if section.attackers is None or section.attackers >= num_agents:
        return np.arange(num_agents)
    return np.sort(np.random.default_rng(section.seed).choice(num_agents, section.attackers, replace=False))


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
            cells[measure][line][str(distance)] = Cell(value=float(number), error=0.0)


def _ratios(loss: np.ndarray, lower: np.ndarray) -> np.ndarray:
    """[n] loss over the lower end; infinite where that is 0."""
    found = np.full(len(loss), np.inf)
    np.divide(loss, lower, out=found, where=lower > 0)
    return found


def _picture(section: GossipDistanceSection, topology: Topology, distances: np.ndarray) -> dict[str, Any]:
    attacker = most_central(distances)
    found = pairwise(topology, rounds=section.rounds, std=1.0, sensitivity=section.local_mu, attackers=[attacker])
    return {"topology": topology, "attacker": attacker, "mu": found.upper[:, 0]}
