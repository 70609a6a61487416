"""A study of a walking token on the complete graph (Cyffers & Bellet 2022, arXiv 2012.05326): epsilon against the number of agents.

    kind = "walk"              what is published, what is proven, and local privacy

One contribution has the noise of the classical Gaussian mechanism for (epsilon, delta); the token makes `hops_per_agent` n hops. Theorem 3 holds at a
delta of its own, delta_all = (N + T/n + 2) delta with d = delta' = delta, and all lines but two are evaluated there. Theorem 4 is stated at 2 delta.
Advanced composition gives N local contributions at N delta + 2 delta, below delta_all.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from sottovoce.accounting import composition, documents, walk
from sottovoce.experiments import Count
from sottovoce.reports import save, scaling
from sottovoce.studies.cells import Say, computed, empty_cells
from sottovoce.studies.privacy_study import Kind, PrivacyStudyResult, PrivacyStudySection, points_of

COMPOSED, LOCAL = "local, advanced composition", "local, exact"
THEOREM_3, THEOREM_4, LEMMA_1 = "published, Theorem 3", "published, Theorem 4", "published, Lemma 1"
PROVEN = "proven"
WHAT_IS_PROVEN = (
    "'proven': the noise up to the next visit of the observer or of the agent itself hides a contribution (validity amplified by iteration, "
    "convex smooth losses, steps of at most 2/beta; docs/guarantees.md, Walks), whatever the observer knows of the token's way"
)
Fewest = Annotated[int, Field(ge=3)]


class WalkSection(PrivacyStudySection):
    """Epsilon against the number of agents."""

    axis: ClassVar[str] = "number of agents n"
    measures: ClassVar[Mapping[str, str]] = {"epsilon": "epsilon of the whole walk"}

    kind: Literal["walk"]
    agents: list[Fewest] = Field(min_length=2)
    hops_per_agent: Count  # T / n
    epsilon: Annotated[float, Field(gt=0, lt=1)]  # of one contribution
    delta: Annotated[float, Field(gt=0, lt=0.5)]  # of one contribution

    @property
    def composed_contributions(self) -> int:
        """N as printed, rounded up; it depends on T / n only."""
        return math.ceil(
            documents.cyffers_visits(num_agents=3, rounds=3 * self.hops_per_agent, failure_probability=self.delta)
        )

    @property
    def whole_delta(self) -> float:
        """delta_all of Theorem 3."""
        visits = documents.cyffers_visits(num_agents=3, rounds=3 * self.hops_per_agent, failure_probability=self.delta)
        return (math.ceil(visits + self.hops_per_agent) + 2) * self.delta

    @property
    def composed_delta(self) -> float:
        """What advanced composition of the local contributions comes to."""
        return (self.composed_contributions + 2) * self.delta

    def lines(self) -> list[str]:
        """Local privacy, what the document states, and what is proven."""
        return [COMPOSED, LOCAL, THEOREM_3, THEOREM_4, LEMMA_1, PROVEN]

    def places(self) -> list[str]:
        """The numbers of agents."""
        return [str(n) for n in self.agents]


def run_walk(section: WalkSection, base: Mapping[str, Any], *, source: str, progress: Say) -> PrivacyStudyResult:
    """Compute every account for every number of agents."""
    cells = empty_cells(section.measures, section.lines())
    for n, place in zip(section.agents, section.places(), strict=True):
        progress(f"study {section.name}: {place} agents")
        for line, value in _epsilons(section, n).items():
            cells["epsilon"][line][place] = computed(value)
    return PrivacyStudyResult(section=section, cells=cells)


def _epsilons(section: WalkSection, n: int) -> dict[str, float]:
    """{line: epsilon} of one number of agents."""
    epsilon, delta, hops = section.epsilon, section.delta, section.hops_per_agent * n
    shared: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "num_agents": n,
        "rounds": hops,
        "failure_probability": delta,
    }
    std = math.sqrt(2.0 * math.log(1.25 / delta)) / epsilon  # for a change of 1, hence L = 1/2
    asked: dict[str, Any] = {
        "contributions": walk.likely_contributions(num_agents=n, rounds=hops, failure_probability=delta),
        "std": std,
        "delta": section.whole_delta,
    }
    return {
        COMPOSED: composition.advanced(epsilon, delta, section.composed_contributions, delta)[0],
        LOCAL: walk.local_epsilon(sensitivity=1.0, **asked),
        THEOREM_3: documents.cyffers_complete_sum_epsilon(slack=delta, **shared).value,
        THEOREM_4: documents.cyffers_complete_gradient_epsilon(**shared).value,
        LEMMA_1: walk.epsilon(num_agents=n, lipschitz=0.5, **asked),
        PROVEN: walk.proven_epsilon(num_agents=n, sensitivity=1.0, rounds=hops, **asked),
    }


def draw_walk(result: PrivacyStudyResult, folder: str | Path, document: str) -> list[Path]:
    """Write epsilon against the number of agents; returns the files."""
    section = result.section
    assert isinstance(section, WalkSection)
    figure = scaling(
        points_of(result, "epsilon"),
        x_label=section.axis,
        y_label=section.measures["epsilon"],
        title="a token on the complete graph",
    )
    caption = (
        f"{document}. Observer: one curious agent, and for the local lines whoever reads every hop. {section.hops_per_agent} hops for every agent; a "
        f"contribution alone has ({section.epsilon:g}, {section.delta:g})-differential privacy by the classical Gaussian mechanism. delta of the "
        f"whole walk is {section.whole_delta:.3g}, that of Theorem 3, but {2 * section.delta:.3g} for Theorem 4 and {section.composed_delta:.3g} for "
        f"advanced composition. 'published' lines are printed bounds, not relied on; {WHAT_IS_PROVEN}."
    )
    return save(figure, folder, section.name, caption=caption)


KIND = Kind(WalkSection, run_walk, draw_walk)
