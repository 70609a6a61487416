"""A study of private averaging by GOPA: what parties cost that fall silent after they agreed on masks, repaired or not.

    kind = "gopa_silent"

Masks are Gaussian, of the size that the worst honest party of the drawn graph needs when own noise is `slack` above the least; with uniform ones an
unrepaired sum is no result at all. Silent parties are among those that the guarantee does not count on. With own noise of std s and m parties that
publish, b masks that nobody repairs leave

    (m s^2 + b r^2) / m^2 ,     r the standard deviation of a mask.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from sottovoce.accounting import gopa
from sottovoce.deployment.gopa import GaussianMasks, RoundedGaussian, UniformMasks, play_blocks, play_round
from sottovoce.experiments import Count, Positive
from sottovoce.reports import paint, save
from sottovoce.studies.cells import StudyFile, empty_cells
from sottovoce.studies.gopa_rounds import (
    CENTRAL,
    LOCAL,
    SET_ASIDE,
    UNIT,
    GopaSection,
    Parties,
    Share,
    bounds_of,
    error_of_average,
    mean_square,
    variance_picture,
    vectors,
)
from sottovoce.studies.privacy_study import Kind, PrivacyStudyResult

REPAIRED, UNREPAIRED = "repaired", "not repaired"


class SilentSection(GopaSection):
    """Variance against the number of silent parties."""

    axis: ClassVar[str] = "parties that fall silent"
    measures: ClassVar[Mapping[str, str]] = {"variance": "variance of the average, per coordinate"}

    kind: Literal["gopa_silent"]
    parties: Parties
    honest: Share
    partners: Count
    slack: Positive
    silent: list[Count] = Field(min_length=2)

    def lines(self) -> list[str]:
        """Without repair and with it, between local privacy and a trusted curator."""
        return [LOCAL, UNREPAIRED, REPAIRED, CENTRAL]

    def places(self) -> list[str]:
        """How many are silent."""
        return [str(count) for count in self.silent]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        others = self.parties - gopa.honest_count(self.parties, self.honest)
        if max(self.silent) > others:
            raise ValueError(
                f"{max(self.silent)} parties fall silent, but the guarantee counts on all except {others}; lower silent or honest"
            )
        if self.partners >= self.parties:
            raise ValueError(f"partners = {self.partners} must be below the number of parties, {self.parties}")
        return self


def run_silent(section: SilentSection, file: StudyFile) -> PrivacyStudyResult:
    """Play one round with every number of silent parties, on the same masks; nothing of the base configuration is used."""
    n = section.parties
    generator = np.random.default_rng([section.seed, n])
    units, seed = vectors(generator, n, section.coordinates), int(generator.integers(2**63))
    file.say(f"study {section.name}: noise for the graph of {n} parties")
    noise = _graph_noise(section, seed)
    own, mask = (RoundedGaussian(std=std * UNIT) for std in (noise.independent_std, noise.pairwise_std))
    leaving = generator.permutation(np.arange(gopa.honest_count(n, section.honest), n))
    nobody = np.zeros(n, dtype=bool)
    found = {line: np.empty((len(section.silent), section.coordinates)) for line in (REPAIRED, UNREPAIRED)}
    residual = np.zeros(len(section.silent))
    for block in play_blocks(units, seed, out_degree=section.partners, own_noise=own, masks=GaussianMasks(law=mask)):
        file.say(f"study {section.name}: coordinates up to {block.columns.stop} of {section.coordinates}")
        part = units[:, block.columns]
        for index, count in enumerate(section.silent):
            survivors = ~np.isin(np.arange(n), leaving[:count])
            for line, repaired in ((REPAIRED, None), (UNREPAIRED, nobody)):
                played = play_round(part, block.sources, survivors=survivors, repaired=repaired)
                found[line][index, block.columns] = error_of_average(played.total, part, survivors)
                residual[index] = played.residual_masks  # kept of the last, which nobody repaired
    cells = empty_cells(section.measures, section.lines())
    for index, (count, place) in enumerate(zip(section.silent, section.places(), strict=True)):
        own_part = noise.independent_std**2 / (n - count)
        left = residual[index] * noise.pairwise_std**2 / (n - count) ** 2
        cells["variance"][REPAIRED][place] = mean_square(found[REPAIRED][index], own_part)
        cells["variance"][UNREPAIRED][place] = mean_square(found[UNREPAIRED][index], own_part + left)
        for line, cell in bounds_of(section, n).items():
            cells["variance"][line][place] = cell
    stds = {"own_std": noise.independent_std, "mask_std": noise.pairwise_std}
    return PrivacyStudyResult(section=section, cells=cells, pictures=stds)


def _graph_noise(section: SilentSection, seed: int) -> gopa.GopaNoise:
    """Noise for the graph that `play_blocks` draws from this seed, which depends on nothing else."""
    n, honest = section.parties, gopa.honest_count(section.parties, section.honest)
    drawn = next(
        play_blocks(
            np.zeros((n, 1), dtype=np.int64), seed, out_degree=section.partners, own_noise=RoundedGaussian(std=1.0),
            masks=UniformMasks(),
        )
    ).sources.edges  # fmt: skip
    graph = gopa.from_pairs(honest, drawn[(drawn < honest).all(axis=1)])
    delta = section.delta * (1 - SET_ASIDE)
    return gopa.calibrate_graph(graph, epsilon=section.epsilon, delta=delta, sensitivity=1.0, slack=section.slack)


def draw_silent(result: PrivacyStudyResult, folder: str | Path, document: str) -> list[Path]:
    """Write the variance against the number of silent parties; returns the files."""
    section = result.section
    assert isinstance(section, SilentSection)
    figure = paint(variance_picture(result, title="What parties cost that fall silent"))
    caption = (
        f"{document}. One round of the protocol in whole numbers with {section.parties:,} parties, rho = "
        f"{section.honest:g}, {section.partners} partners, Gaussian masks of standard deviation "
        f"{result.pictures['mask_std']:.3g} and own noise of {result.pictures['own_std']:.3g} (vectors of l2 diameter "
        f"1, epsilon = {section.epsilon:g}, delta = {section.delta:g}); {section.coordinates:,} coordinates. Markers: "
        f"measured, with bars of two standard errors; dashed lines: exact, for the masks that are left. Silent parties "
        f"have agreed on masks and then publish nothing. Observer: the server and the parties that are not counted on; "
        f"the guarantee holds for every honest party on the graph that was drawn."
    )
    return save(figure, folder, section.name, caption=caption)


KINDS = {"gopa_silent": Kind(SilentSection, run_silent, draw_silent)}
