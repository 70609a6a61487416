"""A study of gossip with noise once: the mean loss over all pairs against the number of rounds, and the published sum over messages beside it.

kind = "gossip_rounds"
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from sottovoce.accounting import gossip
from sottovoce.experiments import Count
from sottovoce.reports import OBSERVER, loss_by_distance, save
from sottovoce.studies.cells import Say, computed, empty_cells
from sottovoce.studies.gossip import EXACT, LOCAL, GossipSection, attackers_of, drawn_lines, graph_of, published_shares
from sottovoce.studies.privacy_study import Kind, PrivacyStudyResult


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


def run_gossip_rounds(
    section: GossipRoundsSection, base: Mapping[str, Any], *, source: str, progress: Say
) -> PrivacyStudyResult:
    """Mean loss over all pairs after so many rounds; nothing of the base configuration is used."""
    cells = empty_cells(section.measures, section.lines())
    gaps: dict[str, float] = {}
    for name, given in section.graphs.items():
        topology = graph_of(given)
        who = attackers_of(section, topology.num_agents)
        others = np.arange(topology.num_agents)[:, None] != who
        for rounds in section.rounds:
            progress(f"study {section.name}: {name}, {rounds} rounds")
            found = gossip.pairwise(
                topology, rounds=rounds, std=1.0, sensitivity=section.local_mu, attackers=who.tolist()
            )
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


def draw_gossip_rounds(result: PrivacyStudyResult, folder: str | Path, document: str) -> list[Path]:
    """Exact loss and published sum against the number of rounds."""
    section = result.section
    assert isinstance(section, GossipRoundsSection)
    solid, dotted = drawn_lines(result, section)
    figure = loss_by_distance(
        solid, compared=dotted, names=("exact", "published sum"), local=("local", section.local_epsilon), x_label="rounds",
        y_label=f"Renyi epsilon of order {section.order:g}, mean over pairs", log_y=False,
    )  # fmt: skip
    caption = (
        f"After {document}. Gossip averaging, noise once, local Renyi epsilon {section.local_epsilon:g}; mean over all pairs. "
        f"{OBSERVER} {EXACT} The published sum over messages is no upper bound."
    )
    return save(figure, folder, section.name, caption=caption)


KIND = Kind(GossipRoundsSection, run_gossip_rounds, draw_gossip_rounds)
