"""A study of private averaging by GOPA: variance of the average against the number of parties, beside a trusted curator and local privacy.

    kind = "gopa_variance"

With uniform masks a coalition of the server and the parties that are not counted on sees the sum over H honest parties, as long as these are
connected, so that own noise of std s = 1 / (mu sqrt(H)) is enough, mu = mu(epsilon, delta). Variance of a coordinate of the average of m parties
that publish:

    GOPA  s^2 / m        GOPA over central  n^2 / (H m),  which is 1/rho if nobody is silent.

What is set aside of delta for a graph that falls apart decides how many partners each party picks. Silent parties count as honest ones that left:
H = m - (n - rho n).
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from sottovoce.accounting import gaussian, gopa
from sottovoce.deployment.gopa import RoundedGaussian, UniformMasks, play_blocks
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.experiments import Fraction, Section
from sottovoce.reports import paint, save
from sottovoce.studies.cells import StudyFile, computed, empty_cells
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

_VALIDITY = (
    "Observer: the server and all parties but a share rho; the guarantee holds for every honest party that publishes, "
    "on average over the public draw of partners, with rounding and imperfect draws counted (docs/guarantees.md, "
    "Masked averages)"
)


class Honesty(Section):
    """Whom a line counts on."""

    honest: Share  # rho
    silent: Fraction = 0.0  # share of the parties that publish nothing; their masks are repaired


class VarianceSection(GopaSection):
    """Variance against the number of parties."""

    axis: ClassVar[str] = "number of parties n"
    measures: ClassVar[Mapping[str, str]] = {
        "variance": "variance of the average, per coordinate",
        "partners": "others that each party picks",
    }

    kind: Literal["gopa_variance"]
    parties: list[Parties] = Field(min_length=2)
    series: dict[str, Honesty] = Field(min_length=1)

    def lines(self) -> list[str]:
        """Local privacy, GOPA, and a trusted curator."""
        return [LOCAL, *self.series, CENTRAL]

    def places(self) -> list[str]:
        """The numbers of parties."""
        return [str(n) for n in self.parties]


class Agreed(NamedTuple):
    """What the parties of a round with uniform masks agree on.

    Attributes:
        num_parties: n.
        corrupted: parties that the guarantee does not count on.
        published: m, parties in the sum.
        partners: k, picks of each party.
        own_std: s, in the unit of the values.
        delta: that is met, rounding, imperfect draws and bad graphs included.
    """

    num_parties: int
    corrupted: int
    published: int
    partners: int
    own_std: float
    delta: float


def agree(section: VarianceSection, num_parties: int, who: Honesty) -> Agreed:
    """The fewest partners and the least own noise for the target.

    Raises:
        ConfigError: the silent parties may be all the honest ones there are.
        UnsupportedClaim: what was set aside of delta is not enough.
    """
    n, delta = num_parties, section.delta
    corrupted, published = n - gopa.honest_count(n, who.honest), n - round(who.silent * n)
    honest = published - corrupted
    if honest < 2:
        raise ConfigError(
            f"of {n} parties {corrupted} are not counted on and {n - published} fall silent; two honest ones or more must publish. Use more parties."
        )
    partners, risk = fewest_partners(n, honest, n - corrupted, SET_ASIDE / 2 * delta)
    std = gaussian.std(section.epsilon, delta * (1 - SET_ASIDE), 1.0) / math.sqrt(honest)
    own, d = RoundedGaussian(std=std * UNIT), section.coordinates
    met = risk + gopa.integer_delta(
        section.epsilon,
        gopa.IntegerNoise(own_std=own.std, honest_parties=honest, dimension=d, mask_std=math.inf),
        mu=UNIT / (own.std * math.sqrt(honest)),
        sensitivity=UNIT,
        sampler_error=min(1.0, own.total_variation * honest * d),
    )
    if met > delta:
        raise UnsupportedClaim(
            f"delta = {met:.4g} is met with {partners} partners and own noise {std:.4g}, above {delta:.4g}. Use fewer coordinates or parties."
        )
    return Agreed(n, corrupted, published, partners, std, met)


def fewest_partners(n: int, least: int, most: int, risk: float) -> tuple[int, float]:
    """The fewest picks with which honest parties fall apart with at most this probability, and that probability.

    Args:
        n: parties.
        least: honest ones that publish in the worst case.
        most: honest ones if nobody falls silent.
        risk: the probability.

    Raises:
        UnsupportedClaim: no number of picks is proved to be enough.
    """

    def chance(k: int) -> float:
        return gopa.worst_disconnection(n, least, most, k)

    low, high = 0, 1
    while chance(high) > risk:
        if high == n - 1:
            raise UnsupportedClaim(f"{least} honest of {n} parties: no number of partners has a risk below {risk:.3g}.")
        low, high = high, min(2 * high, n - 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if chance(middle) <= risk else (middle, high)
    return high, chance(high)


def run_variance(section: VarianceSection, file: StudyFile) -> PrivacyStudyResult:
    """Play one round for every number of parties and every line; nothing of the base configuration is used."""
    cells = empty_cells(section.measures, section.lines())
    for n, place in zip(section.parties, section.places(), strict=True):
        for line, cell in bounds_of(section, n).items():
            cells["variance"][line][place], cells["partners"][line][place] = cell, computed(0.0)
        for index, (line, who) in enumerate(section.series.items()):
            agreed = agree(section, n, who)
            file.say(f"study {section.name}: {place} parties, {line}, {agreed.partners} partners")
            errors = played_errors(agreed, section.coordinates, np.random.default_rng([section.seed, n, index]))
            cells["variance"][line][place] = mean_square(errors, agreed.own_std**2 / agreed.published)
            cells["partners"][line][place] = computed(agreed.partners)
    return PrivacyStudyResult(section=section, cells=cells)


def played_errors(agreed: Agreed, coordinates: int, generator: np.random.Generator) -> np.ndarray:
    """[d] the errors of the average of those who publish, of one round with uniform masks; silent parties are repaired."""
    n = agreed.num_parties
    units = vectors(generator, n, coordinates)
    survivors = np.ones(n, dtype=bool)
    survivors[generator.choice(n, n - agreed.published, replace=False)] = False
    own, seed = RoundedGaussian(std=agreed.own_std * UNIT), int(generator.integers(2**63))
    errors = np.empty(coordinates)
    for block in play_blocks(
        units, seed, out_degree=agreed.partners, own_noise=own, masks=UniformMasks(), survivors=survivors
    ):
        errors[block.columns] = error_of_average(block.played.total, units[:, block.columns], survivors)
    return errors


def draw_variance(result: PrivacyStudyResult, folder: str | Path, document: str) -> list[Path]:
    """Write the variance, in multiples of a trusted curator's, against the number of parties; returns the files."""
    section = result.section
    assert isinstance(section, VarianceSection)
    figure = paint(variance_picture(result, title="What an average without a trusted curator costs"))
    silent = max((who.silent for who in section.series.values()), default=0.0)
    caption = (
        f"{document}. One round of the protocol in whole numbers with uniform masks, {section.coordinates:,} "
        f"coordinates, vectors of l2 diameter 1, epsilon = {section.epsilon:g}, delta = {section.delta:g}. Markers: "
        f"measured, with bars of two standard errors over coordinates; dashed lines: exact. 'local': "
        f"everybody adds the noise that hides it alone; 'central': a trusted curator adds noise once. "
        + (
            f"'{100 * silent:g} % silent': masks are repaired, and the silent are counted as honest parties that left. "
            if silent
            else ""
        )
        + f"{_VALIDITY}."
    )
    return save(figure, folder, section.name, caption=caption)


KINDS = {"gopa_variance": Kind(VarianceSection, run_variance, draw_variance)}
