"""Studies of private averaging by GOPA (Sabater et al. 2022, arXiv 2006.07218), measured by playing the protocol in whole numbers.

    kind = "gopa_variance"    variance of the average against the number of parties, beside a trusted curator and local privacy
    kind = "gopa_silent"      what parties cost that fall silent after they agreed on masks, repaired or not

n parties hold vectors in a ball of l2 diameter 1; at least a share rho of them is honest. With uniform masks a
coalition of the server and the others sees the sum over H honest parties, as long as these are connected, so that own
noise of std s = 1 / (mu sqrt(H)) is enough, mu = mu(epsilon, delta). Variance of a coordinate of the average of m
parties that publish:

    GOPA  s^2 / m        central  1 / (mu n)^2        local  1 / (mu^2 n)
    GOPA over central  n^2 / (H m),  which is 1/rho if nobody is silent.

A hundredth of delta is set aside: half for a graph that falls apart, which decides how many partners each party
picks, half for rounding and imperfect draws. Silent parties count as honest ones that left: H = m - (n - rho n). The
coordinates of one round have independent errors, so that their mean square measures the variance, to a standard error
of sqrt(2 / coordinates). `central` and `local` are computed.

gopa_silent. Masks are Gaussian, of the size that the worst honest party of the drawn graph needs when own noise is
`slack` above the least; with uniform ones an unrepaired sum is no result at all. Silent parties are among those that
the guarantee does not count on. b masks that nobody repairs leave

    (m s^2 + b r^2) / m^2 ,     r the standard deviation of a mask.
"""

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from sottovoce.accounting import gaussian, gopa
from sottovoce.accounting.gopa.disconnection import worst_disconnection
from sottovoce.accounting.gopa.graph import honest_count
from sottovoce.accounting.gopa.integers import IntegerNoise, integer_delta
from sottovoce.deployment.gopa import FixedPoint, GaussianMasks, RoundedGaussian, UniformMasks, play_blocks, play_round
from sottovoce.deployment.gopa.encoding import ring, signed
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.experiments.config.values import Count, Delta, Fraction, Positive, Section, Seed
from sottovoce.studies.curves import Cell, Cells
from sottovoce.studies.privacy_study import PrivacyStudyResult, PrivacyStudySection

LOCAL, CENTRAL = "local", "central"
REPAIRED, UNREPAIRED = "repaired", "not repaired"
ENCODING = FixedPoint(clip=0.5, fraction_bits=20)  # l2 diameter 1
UNIT = 2.0**ENCODING.fraction_bits
SET_ASIDE = 0.01  # of delta

Say = Callable[[str], None]
Share = Annotated[float, Field(gt=0, le=1)]
Parties = Annotated[int, Field(ge=4)]
Coordinates = Annotated[int, Field(ge=2)]


class Honesty(Section):
    """Whom a line counts on."""

    honest: Share  # rho
    silent: Fraction = 0.0  # share of the parties that publish nothing; their masks are repaired


class VarianceSection(PrivacyStudySection):
    """Variance against the number of parties."""

    axis: ClassVar[str] = "number of parties n"
    measures: ClassVar[Mapping[str, str]] = {
        "variance": "variance of the average, per coordinate",
        "partners": "others that each party picks",
    }

    kind: Literal["gopa_variance"]
    parties: list[Parties] = Field(min_length=2)
    series: dict[str, Honesty] = Field(min_length=1)
    epsilon: Positive
    delta: Delta
    coordinates: Coordinates
    seed: Seed

    def lines(self) -> list[str]:
        """Local privacy, GOPA, and a trusted curator."""
        return [LOCAL, *self.series, CENTRAL]

    def places(self) -> list[str]:
        """The numbers of parties."""
        return [str(n) for n in self.parties]


class SilentSection(PrivacyStudySection):
    """Variance against the number of silent parties."""

    axis: ClassVar[str] = "parties that fall silent"
    measures: ClassVar[Mapping[str, str]] = {"variance": "variance of the average, per coordinate"}

    kind: Literal["gopa_silent"]
    parties: Parties
    honest: Share
    partners: Count
    slack: Positive
    silent: list[Count] = Field(min_length=2)
    epsilon: Positive
    delta: Delta
    coordinates: Coordinates
    seed: Seed

    def lines(self) -> list[str]:
        """Without repair and with it, between local privacy and a trusted curator."""
        return [LOCAL, UNREPAIRED, REPAIRED, CENTRAL]

    def places(self) -> list[str]:
        """How many are silent."""
        return [str(count) for count in self.silent]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        others = self.parties - honest_count(self.parties, self.honest)
        if max(self.silent) > others:
            raise ValueError(
                f"{max(self.silent)} parties fall silent, but the guarantee counts on all except {others}; lower silent or honest"
            )
        if self.partners >= self.parties:
            raise ValueError(f"partners = {self.partners} must be below the number of parties, {self.parties}")
        return self


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
    corrupted, published = n - honest_count(n, who.honest), n - round(who.silent * n)
    honest = published - corrupted
    if honest < 2:
        raise ConfigError(
            f"of {n} parties {corrupted} are not counted on and {n - published} fall silent; two honest ones or more must publish. Use more parties."
        )
    partners, risk = fewest_partners(n, honest, n - corrupted, SET_ASIDE / 2 * delta)
    std = gaussian.std(section.epsilon, delta * (1 - SET_ASIDE), 1.0) / math.sqrt(honest)
    own, d = RoundedGaussian(std=std * UNIT), section.coordinates
    met = risk + integer_delta(
        section.epsilon,
        IntegerNoise(own_std=own.std, honest_parties=honest, dimension=d, mask_std=math.inf),
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
    """The fewest picks with which `least` to `most` honest of n parties are not connected with this probability at most, and that probability.

    Raises:
        UnsupportedClaim: no number of picks is proved to be enough.
    """

    def chance(k: int) -> float:
        return worst_disconnection(n, least, most, k)

    low, high = 0, 1
    while chance(high) > risk:
        if high == n - 1:
            raise UnsupportedClaim(f"{least} honest of {n} parties: no number of partners has a risk below {risk:.3g}.")
        low, high = high, min(2 * high, n - 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if chance(middle) <= risk else (middle, high)
    return high, chance(high)


def run_variance(
    section: VarianceSection, base: Mapping[str, Any], *, source: str, progress: Say
) -> PrivacyStudyResult:
    """Play one round for every number of parties and every line; nothing of the base configuration is used."""
    cells: Cells = {measure: {line: {} for line in section.lines()} for measure in section.measures}
    for n, place in zip(section.parties, section.places(), strict=True):
        for line, cell in _bounds(section, n).items():
            cells["variance"][line][place], cells["partners"][line][place] = cell, Cell(value=0.0, error=0.0)
        for index, (line, who) in enumerate(section.series.items()):
            agreed = agree(section, n, who)
            progress(f"study {section.name}: {place} parties, {line}, {agreed.partners} partners")
            errors = played_errors(agreed, section.coordinates, np.random.default_rng([section.seed, n, index]))
            cells["variance"][line][place] = _cell(errors, agreed.own_std**2 / agreed.published)
            cells["partners"][line][place] = Cell(value=float(agreed.partners), error=0.0)
    return PrivacyStudyResult(section=section, cells=cells)


def played_errors(agreed: Agreed, coordinates: int, generator: np.random.Generator) -> np.ndarray:
    """[d] the errors of the average of those who publish, of one round with uniform masks; silent parties are repaired."""
    n = agreed.num_parties
    units = _vectors(generator, n, coordinates)
    survivors = np.ones(n, dtype=bool)
    survivors[generator.choice(n, n - agreed.published, replace=False)] = False
    own, seed = RoundedGaussian(std=agreed.own_std * UNIT), int(generator.integers(2**63))
    errors = np.empty(coordinates)
    for block in play_blocks(
        units, seed, out_degree=agreed.partners, own_noise=own, masks=UniformMasks(), survivors=survivors
    ):
        errors[block.columns] = _error(block.played.total, units[:, block.columns], survivors)
    return errors


def run_silent(section: SilentSection, base: Mapping[str, Any], *, source: str, progress: Say) -> PrivacyStudyResult:
    """Play one round with every number of silent parties, on the same masks; nothing of the base configuration is used."""
    n = section.parties
    generator = np.random.default_rng([section.seed, n])
    units, seed = _vectors(generator, n, section.coordinates), int(generator.integers(2**63))
    progress(f"study {section.name}: noise for the graph of {n} parties")
    noise = _graph_noise(section, seed)
    own, mask = (RoundedGaussian(std=std * UNIT) for std in (noise.independent_std, noise.pairwise_std))
    leaving = generator.permutation(np.arange(honest_count(n, section.honest), n))
    nobody = np.zeros(n, dtype=bool)
    found = {line: np.empty((len(section.silent), section.coordinates)) for line in (REPAIRED, UNREPAIRED)}
    residual = np.zeros(len(section.silent))
    for block in play_blocks(units, seed, out_degree=section.partners, own_noise=own, masks=GaussianMasks(law=mask)):
        progress(f"study {section.name}: coordinates up to {block.columns.stop} of {section.coordinates}")
        part = units[:, block.columns]
        for index, count in enumerate(section.silent):
            survivors = ~np.isin(np.arange(n), leaving[:count])
            for line, repaired in ((REPAIRED, None), (UNREPAIRED, nobody)):
                played = play_round(part, block.sources, survivors=survivors, repaired=repaired)
                found[line][index, block.columns] = _error(played.total, part, survivors)
                residual[index] = played.residual_masks  # kept of the last, which nobody repaired
    cells: Cells = {"variance": {line: {} for line in section.lines()}}
    for index, (count, place) in enumerate(zip(section.silent, section.places(), strict=True)):
        own_part = noise.independent_std**2 / (n - count)
        left = residual[index] * noise.pairwise_std**2 / (n - count) ** 2
        cells["variance"][REPAIRED][place] = _cell(found[REPAIRED][index], own_part)
        cells["variance"][UNREPAIRED][place] = _cell(found[UNREPAIRED][index], own_part + left)
        for line, cell in _bounds(section, n).items():
            cells["variance"][line][place] = cell
    stds = {"own_std": noise.independent_std, "mask_std": noise.pairwise_std}
    return PrivacyStudyResult(section=section, cells=cells, pictures=stds)


def _graph_noise(section: SilentSection, seed: int) -> gopa.GopaNoise:
    """Noise for the graph that `play_blocks` draws from this seed, which depends on nothing else."""
    n, honest = section.parties, honest_count(section.parties, section.honest)
    drawn = next(
        play_blocks(
            np.zeros((n, 1), dtype=np.int64), seed, out_degree=section.partners, own_noise=RoundedGaussian(std=1.0),
            masks=UniformMasks(),
        )
    ).sources.edges  # fmt: skip
    graph = gopa.from_pairs(honest, drawn[(drawn < honest).all(axis=1)])
    delta = section.delta * (1 - SET_ASIDE)
    return gopa.calibrate_graph(graph, epsilon=section.epsilon, delta=delta, sensitivity=1.0, slack=section.slack)


def _vectors(generator: np.random.Generator, num_parties: int, dimension: int) -> np.ndarray:
    """[n, d] encoded vectors inside the ball."""
    largest = math.floor(ENCODING.largest / math.sqrt(dimension))
    return generator.integers(-largest, largest, size=(num_parties, dimension), endpoint=True)


def _error(total: np.ndarray, units: np.ndarray, survivors: np.ndarray) -> np.ndarray:
    """[d] the decoded sum less the true one, over the number of those who published."""
    off = signed(total - ring(units[survivors].sum(axis=0)))
    return np.asarray(off / (UNIT * survivors.sum()))


def _bounds(section: VarianceSection | SilentSection, n: int) -> dict[str, Cell]:
    target: dict[str, Any] = {"epsilon": section.epsilon, "delta": section.delta, "sensitivity": 1.0}
    values = {LOCAL: gopa.local_variance(n, **target), CENTRAL: gopa.central_variance(n, **target)}
    return {line: Cell(value=value, error=0.0, theory=value) for line, value in values.items()}


def _cell(errors: np.ndarray, exact: float) -> Cell:
    """The mean square; its standard error is that over coordinates."""
    squares = errors**2
    return Cell(
        value=float(squares.mean()), error=float(squares.std(ddof=1)) / math.sqrt(len(squares)), theory=float(exact)
    )
