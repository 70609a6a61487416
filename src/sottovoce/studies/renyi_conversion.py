"""Studies of what is lost on the way from Gaussian noise to epsilon by a bound on Renyi divergences.

    kind = "decor_row"              epsilon against rounds for pairwise noise on a ring: as the code of DECOR states it, and exactly
    kind = "renyi_conversion"       how much noise the same conversion asks for at an epsilon, beside the exact relation

Gaussian noise with parameter mu has the Renyi loss a mu^2 / 2 at every order a. With e = mu^2 / 2 the conversion is

    epsilon = min over a > 1 of  a e + ln(1/delta) / (a - 1)  =  e + 2 sqrt(e ln(1/delta)),

an upper bound; the exact epsilon of mu at delta is smaller. In decor_row every message of an agent carries noise of std `std` and of
`pairwise_std` for each neighbour, with opposite signs at both ends; gradients are clipped to `clip`, so that an agent changes by at most 2 clip.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sottovoce.accounting import account, gaussian
from sottovoce.algorithms import atc
from sottovoce.experiments import Count, Delta, Positive
from sottovoce.noise import Gaussian, gopa
from sottovoce.observers import eavesdropper
from sottovoce.reports import save, scaling
from sottovoce.studies.cells import StudyFile, computed, empty_cells
from sottovoce.studies.privacy_study import Kind, PrivacyStudyResult, PrivacyStudySection, points_of
from sottovoce.topologies import ring

PUBLISHED, PROVEN = "published, Renyi conversion", "proven, exact"


class DecorRowSection(PrivacyStudySection):
    """Epsilon of pairwise noise on a ring against the number of rounds."""

    axis: ClassVar[str] = "rounds"
    measures: ClassVar[Mapping[str, str]] = {
        "loss": "Renyi loss of all rounds over its order, mu^2 / 2",
        "epsilon": "epsilon of all rounds",
    }

    kind: Literal["decor_row"]
    agents: Annotated[int, Field(ge=3)]
    std: Positive  # of an agent's own noise, in a gradient
    pairwise_std: Positive  # of the noise of a pair
    clip: Positive
    rounds: list[Count] = Field(min_length=2)
    delta: Delta
    published_loss: Positive  # of one round, as the code of the document computes it

    def lines(self) -> list[str]:
        """What the code of the document states, and what is proven."""
        return [PUBLISHED, PROVEN]

    def places(self) -> list[str]:
        """The numbers of rounds."""
        return [str(rounds) for rounds in self.rounds]


class ConversionSection(PrivacyStudySection):
    """Noise that an epsilon asks for, by the conversion and exactly."""

    axis: ClassVar[str] = "epsilon that is asked for"
    measures: ClassVar[Mapping[str, str]] = {
        "mu": "mu that the noise may have",
        "variance": "variance of the noise, for a change of one",
        "true_epsilon": "exact epsilon of that noise",
    }

    kind: Literal["renyi_conversion"]
    epsilons: list[Positive] = Field(min_length=2)
    delta: Delta

    def lines(self) -> list[str]:
        """The two relations."""
        return [PUBLISHED, PROVEN]

    def places(self) -> list[str]:
        """The epsilons."""
        return [f"{epsilon:g}" for epsilon in self.epsilons]


def converted_epsilon(loss: float, delta: float) -> float:
    """Epsilon of a Renyi loss `loss` times the order, by the conversion."""
    return loss + 2.0 * math.sqrt(loss * math.log(1.0 / delta))


def converted_loss(epsilon: float, delta: float) -> float:
    """The largest loss whose converted epsilon is at most this one."""
    log = math.log(1.0 / delta)
    # The root of e + 2 sqrt(e log) - epsilon, in the form that does not cancel for small epsilon.
    return (epsilon / (math.sqrt(log + epsilon) + math.sqrt(log))) ** 2


def run_decor_row(section: DecorRowSection, file: StudyFile) -> PrivacyStudyResult:
    """Account for every number of rounds."""
    cells = empty_cells(section.measures, section.lines())
    noise = gopa(Gaussian(std=section.std), pairwise_std=section.pairwise_std)
    for rounds, place in zip(section.rounds, section.places(), strict=True):
        file.say(f"study {section.name}: {place} rounds")
        # Noise in a gradient is the message's noise where the step is one; a step scales both alike.
        found = account(
            ring(section.agents), atc(step_size=1.0), noise, eavesdropper(), rounds=rounds, sensitivity=2.0 * section.clip,
        )  # fmt: skip
        assert found.mu is not None  # Gaussian noise has one
        losses = {PUBLISHED: rounds * section.published_loss, PROVEN: found.mu**2 / 2.0}
        epsilons = {
            PUBLISHED: converted_epsilon(losses[PUBLISHED], section.delta),
            PROVEN: found.epsilon(section.delta),
        }
        for line in section.lines():
            cells["loss"][line][place] = computed(losses[line])
            cells["epsilon"][line][place] = computed(epsilons[line])
    return PrivacyStudyResult(section=section, cells=cells)


def run_conversion(section: ConversionSection, file: StudyFile) -> PrivacyStudyResult:
    """The noise of every epsilon by both relations; nothing of the base configuration is used."""
    cells = empty_cells(section.measures, section.lines())
    for epsilon, place in zip(section.epsilons, section.places(), strict=True):
        mus = {
            PUBLISHED: math.sqrt(2.0 * converted_loss(epsilon, section.delta)),
            PROVEN: gaussian.mu(epsilon, section.delta),
        }
        for line, mu in mus.items():
            cells["mu"][line][place] = computed(mu)
            cells["variance"][line][place] = computed(mu**-2)
            cells["true_epsilon"][line][place] = computed(gaussian.epsilon(mu, section.delta))
    return PrivacyStudyResult(section=section, cells=cells)


def draw_decor_row(result: PrivacyStudyResult, folder: str | Path, document: str) -> list[Path]:
    """Write epsilon against rounds; returns the files."""
    section = result.section
    assert isinstance(section, DecorRowSection)
    figure = scaling(
        points_of(result, "epsilon"), x_label=section.axis, y_label=section.measures["epsilon"],
        title="The same pairwise noise, two ways to epsilon",
    )  # fmt: skip
    caption = (
        f"{document}. Observer: an eavesdropper who reads every message and holds no key of a pair. Ring of {section.agents} agents, own noise of std "
        f"{section.std:.4g} and pairs' noise of std {section.pairwise_std:g} in gradients clipped to {section.clip:g}; all data of an agent "
        f"protected, delta = {section.delta:g}. 'proven' is the account of this noise, exact (docs/guarantees.md); 'published' "
        f"puts the loss of a round, as printed, through a Renyi bound."
    )
    return save(figure, folder, section.name, caption=caption)


def draw_conversion(result: PrivacyStudyResult, folder: str | Path, document: str) -> list[Path]:
    """Write the variance against epsilon; returns the files."""
    section = result.section
    assert isinstance(section, ConversionSection)
    figure = scaling(
        points_of(result, "variance"), x_label=section.axis, y_label=section.measures["variance"],
        title="Noise that an epsilon asks for",
    )  # fmt: skip
    caption = (
        f"{document}. Observer: whoever sees Gaussian noise whose parameter is mu; delta = {section.delta:g}. 'proven' is the exact relation of mu "
        f"and epsilon, 'published' a Renyi bound, epsilon = mu^2/2 + mu sqrt(2 ln(1/delta))."
    )
    return save(figure, folder, section.name, caption=caption)


KINDS = {
    "decor_row": Kind(DecorRowSection, run_decor_row, draw_decor_row),
    "renyi_conversion": Kind(ConversionSection, run_conversion, draw_conversion),
}
