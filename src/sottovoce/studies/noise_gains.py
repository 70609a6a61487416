"""Studies of what correlated noise gains over independent noise, for somebody who reads every message and gets the final model.

    kind = "noise_gains_by_links"           against the probability of a link
    kind = "noise_gains_by_contraction"     against the contraction c = 1 - step h of a step on a loss with Hessian h I

Agents on random networks step, then combine (ATC, Metropolis weights). Noise of a round has the covariance S between agents, alike in all rounds.
Its part of an agent's mean-square error after the last round is tr(G S), and mu of agent p is proportional to the root of [S^-1]_pp. A scheme's
gain is the error of independent noise over its own where both have the same largest mu:

    gain = tr(G) / (tr(G S) max_p [S^-1]_pp).

    DECOR, one-step ratio     S = I + r^2 L, L the Laplacian of the network, with the r that is best for tr(A' S A), one combination alone
    DECOR, best ratio         with the r that is best for tr(G S)
    one-step rule             the S that is best for tr(A' S A) (Whisper D-SGD)
    edge keys                 the S that is best for tr(G S) among those that keys of linked pairs can make
    free                      the best S of all; it needs a generator that is trusted with everybody's noise
    central bound             no S at all does better: what a trusted curator would need, and agreement at once
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from sottovoce.algorithms import atc
from sottovoce.design import free_covariance
from sottovoce.design.baselines import best_pairwise_ratio, central_bound, equal_privacy, one_step_rule
from sottovoce.design.pairs import pair_noise
from sottovoce.errors import ConfigError
from sottovoce.experiments import Count
from sottovoce.reports import save, scaling
from sottovoce.studies.cells import StudyFile, computed, empty_cells
from sottovoce.studies.privacy_study import Kind, PrivacyStudyResult, PrivacyStudySection, points_of
from sottovoce.theory import noise_gains
from sottovoce.topologies import Topology, erdos_renyi

AS_SET, BEST_RATIO, ONE_STEP = "DECOR, one-step ratio", "DECOR, best ratio", "one-step rule"
EDGES, FREE, CENTRAL = "edge keys", "free", "central bound"
LINES = (AS_SET, ONE_STEP, BEST_RATIO, EDGES, FREE, CENTRAL)
MOST_SEEDS = 1000  # that are tried for networks that hang together

Probability = Annotated[float, Field(gt=0, le=1)]
Contraction = Annotated[float, Field(gt=0, lt=1)]


class GainsSection(PrivacyStudySection):
    """What both studies share."""

    measures: ClassVar[Mapping[str, str]] = {"gain": "error of independent noise over that of the scheme"}

    agents: Annotated[int, Field(ge=3)]
    networks: Count  # drawn with the first seeds that give a connected one; gains are means over them
    rounds: Count

    def lines(self) -> list[str]:
        """All schemes, and the bound."""
        return list(LINES)

    @abstractmethod
    def settings(self) -> dict[str, tuple[float, float]]:
        """{place: (probability of a link, contraction)}."""

    def places(self) -> list[str]:
        """What is swept."""
        return list(self.settings())


class ByLinksSection(GainsSection):
    """Gains against the probability of a link."""

    axis: ClassVar[str] = "probability of a link"

    kind: Literal["noise_gains_by_links"]
    probabilities: list[Probability] = Field(min_length=2)
    contraction: Contraction

    def settings(self) -> dict[str, tuple[float, float]]:
        """One place for every probability."""
        return {f"{p:g}": (p, self.contraction) for p in self.probabilities}


class ByContractionSection(GainsSection):
    """Gains against the contraction."""

    axis: ClassVar[str] = "contraction c = 1 - step h"

    kind: Literal["noise_gains_by_contraction"]
    probability: Probability
    contractions: list[Contraction] = Field(min_length=2)

    def settings(self) -> dict[str, tuple[float, float]]:
        """One place for every contraction."""
        return {f"{c:g}": (self.probability, c) for c in self.contractions}


def run_gains(section: GainsSection, file: StudyFile) -> PrivacyStudyResult:
    """Design every noise on every network; nothing of the base configuration is used."""
    cells = empty_cells(section.measures, section.lines())
    for place, (probability, contraction) in section.settings().items():
        file.say(f"study {section.name}: {section.axis} {place}")
        found = [
            gains_on(topology, contraction=contraction, rounds=section.rounds)
            for topology in _connected(section.agents, probability, section.networks)
        ]
        for line in section.lines():
            cells["gain"][line][place] = computed(float(np.mean([each[line] for each in found])))
    return PrivacyStudyResult(section=section, cells=cells)


def gains_on(topology: Topology, *, contraction: float, rounds: int) -> dict[str, float]:
    """{line: gain} on one network.

    Args:
        topology: with symmetric weights.
        contraction: c of a step.
        rounds: after which the error is taken.
    """
    total = noise_gains(
        topology, atc(step_size=1.0), objective={"average": 1.0}, when="final", rounds=rounds, curvature=1.0 - contraction
    ).total  # fmt: skip
    A, everybody = topology.matrix, np.ones(topology.num_agents)
    covariances = {
        AS_SET: best_pairwise_ratio(A @ A.T, everybody, topology.pairs).covariance,
        BEST_RATIO: best_pairwise_ratio(total, everybody, topology.pairs).covariance,
        ONE_STEP: one_step_rule(A, everybody),
        EDGES: equal_privacy(pair_noise(total, everybody, topology.pairs).covariance, everybody),
        FREE: equal_privacy(free_covariance(total, everybody).covariance, everybody),
    }
    alone = float(np.trace(total))
    found = {line: alone / float(np.sum(total * S)) for line, S in covariances.items()}
    return found | {CENTRAL: alone / central_bound(total, everybody, topology.perron)}


def _connected(agents: int, probability: float, count: int) -> Iterator[Topology]:
    """The networks of the first seeds whose agents all reach each other."""
    found = 0
    for seed in range(MOST_SEEDS):
        try:
            topology = erdos_renyi(agents, probability, seed=seed)
        except ConfigError:  # it falls apart
            continue
        yield topology
        found += 1
        if found == count:
            return
    raise ConfigError(
        f"only {found} of {MOST_SEEDS} random networks of {agents} agents with probability {probability:g} hang together, and {count} are "
        f"asked for. Use a larger probability."
    )


def draw_gains(result: PrivacyStudyResult, folder: str | Path, document: str) -> list[Path]:
    """Write gains against what is swept; returns the files."""
    section = result.section
    assert isinstance(section, GainsSection)
    by_links = isinstance(section, ByLinksSection)
    figure = scaling(
        points_of(result, "gain"), x_label=section.axis, y_label=section.measures["gain"], log_x=by_links,
        title="What correlated noise gains over independent noise",
    )  # fmt: skip
    held = f"c = {section.contraction:g}" if by_links else f"links with probability {section.probability:g}"  # type: ignore[attr-defined]
    caption = (
        f"{document}. Observer: whoever reads every message and gets the final model, and holds no key; all schemes have the same mu for it. Means of "
        f"{section.networks} random networks of {section.agents} agents ({held}), Metropolis weights, ATC, error of an agent after {section.rounds:,} "
        f"rounds on a quadratic loss. Agents who collude learn more of pairs' noise (docs/noise-design.md)."
    )
    return save(figure, folder, section.name, caption=caption)


KINDS = {
    "noise_gains_by_links": Kind(ByLinksSection, run_gains, draw_gains),
    "noise_gains_by_contraction": Kind(ByContractionSection, run_gains, draw_gains),
}
