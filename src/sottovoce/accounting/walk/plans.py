"""The laws of what ways of the token cost, plan by plan.

    gaps     a contribution is hidden until the observer's next look or the agent's own return: N independent costs 1 / h
    even     each contribution is spread evenly over all hops until the next look (`even_spread`)
    least    the least cost of any plan, way by way (`faces`); the others are kept for comparison, and where this one takes too long

Every plan is valid for every way, so each law gives a guarantee of its own, and the smallest may be stated. `least` never costs more than the
others on any way; its computed law can, by what grids round up.

A law is computed twice: first on a rough grid that holds every cost there can be, then on a fine one that ends where the rough one says that hardly any way
costs more. Ways beyond count in clear sight.
"""

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from scipy import fft

from sottovoce.accounting.walk.cost_law import NEGLIGIBLE, ROUNDING, CostLaw, trimmed
from sottovoce.accounting.walk.even_spread import even_spectra
from sottovoce.accounting.walk.faces import Grid, block_spectra, rates
from sottovoce.accounting.walk.gaps import GapLaw
from sottovoce.accounting.walk.passages import Passages, likely_visits
from sottovoce.accounting.walk.whole_walk import costs_of_walk
from sottovoce.numbers import chosen, whole

Resolution = Literal["fast", "fine", "finest"]
Plan = Literal["gaps", "even", "least"]
RESOLUTIONS: tuple[Resolution, ...] = ("fast", "fine", "finest")

SHORT_WALK = 32  # hops: up to here durations are counted one by one
_MOST_LEVELS = 96  # of rates
_MOST_GAPS = 2**20  # contributions whose costs are convolved; of more, all ways count in clear sight
RARE = 1e-13  # ways that are left to clear sight have about this probability, or less
# Products and sums of a law, at most: some ten seconds, and a minute or two for what is asked for by name.
_MOST_WORK: dict[str, float] = {"fast": 6e9, "fine": 6e9, "finest": 6e10}
_NEXT: dict[Resolution, Resolution] = {"finest": "fine", "fine": "fast"}  # where one would take too long


class _Settings(NamedTuple):
    """How finely blocks are counted."""

    ratio: float  # of neighbouring rates
    flattest: float  # the last rate, as a share of the cost of a contribution: on the first grid in clear sight, then in the mean
    points: int  # of the grid of costs, up to the largest that matters
    cells: int  # of durations


_SETTINGS: dict[str, _Settings] = {
    "fast": _Settings(ratio=1.8, flattest=0.004, points=256, cells=1),
    "fine": _Settings(ratio=1.25, flattest=0.01, points=512, cells=12),
    "finest": _Settings(ratio=1.12, flattest=0.004, points=1536, cells=32),
}


@dataclass(frozen=True)
class _Asked:
    """A walk and a cap, compared by their numbers."""

    passages: Passages = field(compare=False, hash=False)
    key: bytes
    contributions: int
    resolution: Resolution


def gap_cost_law(gaps: GapLaw, contributions: int) -> CostLaw:
    """The law of the sum of N independent costs 1 / h.

    Args:
        gaps: the law of h.
        contributions: N.
    """
    N = whole("contributions", contributions)
    inverse = 1.0 / gaps.lengths
    most = min(float(N), _rarely_above(inverse, gaps.probabilities, N))
    if N > _MOST_GAPS:
        return CostLaw(plan="gaps", spacing=1.0, masses=np.zeros(1), beyond=1.0, contributions=N, allowance=0.0)
    # What goes round costs twice the most on this grid; rounding took at most half of it, with no fewer points than contributions.
    points = 2 ** math.ceil(math.log2(max(2**14, N, min(64 * N, 2**17))))
    spacing, length = most / points, 2 * points
    bins = np.ceil(inverse / spacing * (1.0 + 1e-14)).astype(np.int64) % length
    one = np.bincount(bins, gaps.probabilities, minlength=length)
    one[0] += max(0.0, 1.0 - float(gaps.probabilities.sum()))
    masses = trimmed(fft.irfft(fft.rfft(one) ** N, length))
    allowance = 16.0 * ROUNDING * N * math.log2(length) * math.sqrt(length) + NEGLIGIBLE
    beyond = 0.0 if most >= N and points >= N else RARE
    return CostLaw(
        plan="gaps", spacing=spacing, masses=masses, beyond=beyond, contributions=N, allowance=allowance
    ).coarser(max(1, points // 2048))


def _rarely_above(costs: np.ndarray, probabilities: np.ndarray, count: int) -> float:
    """A sum of `count` independent costs that is exceeded with probability RARE at most, by exponential moments."""
    least, top = math.inf, float(costs.max())
    for exponent in np.geomspace(1e-3, 1e3, 61) / top:
        with np.errstate(over="ignore"):
            moment = math.log1p(float(probabilities @ np.expm1(np.minimum(exponent * costs, 700.0))))
        least = min(least, (count * moment - math.log(RARE)) / exponent)
    return least


def cost_law(
    passages: Passages, contributions: int, *, plan: Plan = "least", resolution: Resolution = "fine"
) -> CostLaw | None:
    """The law of what a walk costs by a plan that hides all contributions between two looks together.

    Args:
        passages: of the token.
        contributions: N of the protected agent, at most.
        plan: "least" or "even".
        resolution: "fast" for a first picture, "fine" for the tightest number.

    Returns:
        None where it would take too long.
    """
    N = whole("contributions", contributions)
    chosen("plan", plan, ("least", "even"))
    chosen("resolution", resolution, RESOLUTIONS)
    asked = _Asked(passages, passages.key, N, resolution)
    return _least_law(asked) if plan == "least" else _even_law(asked)


@lru_cache(maxsize=512)
def _least_law(asked: _Asked) -> CostLaw | None:
    (likely, failure), settings = _likely(asked), _SETTINGS[asked.resolution]
    if _work(likely, asked.passages.rounds, settings) > _MOST_WORK[asked.resolution]:
        return None if asked.resolution == "fast" else _least_law(replace(asked, resolution=_NEXT[asked.resolution]))
    if asked.resolution == "fast":
        found = _fast_law(asked.passages, likely)
        return replace(found, contributions=asked.contributions, beyond=failure)
    fast = _least_law(replace(asked, resolution="fast"))
    assert fast is not None  # it takes less than what was just found to be possible
    return replace(_fine_law(asked.passages, likely, settings, fast), contributions=asked.contributions)


def _fast_law(passages: Passages, contributions: int) -> CostLaw:
    """The law of the least costs on a grid that holds all there can be, since no way costs more than N."""
    N, settings = contributions, _SETTINGS["fast"]
    # Blocks cost at most 1 + (ratio - 1)^2 / (4 ratio) times their contributions; each face and block is rounded up once.
    points = math.ceil(settings.points * (1.0 + (settings.ratio - 1.0) ** 2 / (4.0 * settings.ratio))) + 2 * N + 2
    return _least_costs(passages, N, settings, spacing=N / settings.points, points=points, flattest=settings.flattest)


def _fine_law(passages: Passages, contributions: int, settings: _Settings, fast: CostLaw) -> CostLaw:
    """The same on a grid that ends where hardly any way costs more."""
    N = contributions
    most, beyond = _end_of(fast)
    # What goes round costs twice that or more on this grid; rounding took at most half of it, so that the way itself costs more than `most`.
    inside = max(settings.points, 12 * N)
    found = _least_costs(
        passages, N, settings, spacing=most / inside, points=2 * inside, flattest=settings.flattest * fast.mean / N
    )
    return replace(found, beyond=beyond, allowance=found.allowance + fast.allowance)


def _least_costs(
    passages: Passages, contributions: int, settings: _Settings, *, spacing: float, points: int, flattest: float
) -> CostLaw:
    T = passages.rounds
    grid = _grid(spacing, points, settings, T)
    levels = rates(settings.ratio, min(0.5, max(flattest, 0.5 / T, settings.ratio**-_MOST_LEVELS)))
    masses = costs_of_walk(block_spectra(passages, contributions, levels, grid), passages, grid)
    return CostLaw(
        plan="least", spacing=spacing, masses=trimmed(masses), beyond=0.0, contributions=contributions,
        allowance=_allowance(T, contributions, _MOST_LEVELS),
    )  # fmt: skip


@lru_cache(maxsize=64)
def _even_law(asked: _Asked) -> CostLaw | None:
    (likely, failure), settings = _likely(asked), _SETTINGS[asked.resolution]
    T = asked.passages.rounds
    if 100.0 * likely * T * settings.points > 2.0 * _MOST_WORK[asked.resolution]:
        return None
    # The j-th contribution adds at most 2 - 1 / j, and is rounded up once: nothing goes round on the first grid.
    first = max(128, likely)
    rough = _even_costs(asked.passages, likely, settings, spacing=2.0 * likely / first, points=first + likely + 2)
    most, beyond = _end_of(rough)
    inside = max(settings.points, 4 * likely)
    found = _even_costs(asked.passages, likely, settings, spacing=most / inside, points=2 * inside)
    return replace(
        found, contributions=asked.contributions, beyond=beyond + failure, allowance=found.allowance + rough.allowance
    )


def _even_costs(passages: Passages, contributions: int, settings: _Settings, *, spacing: float, points: int) -> CostLaw:
    grid = _grid(spacing, points, settings, passages.rounds)
    masses = costs_of_walk(even_spectra(passages, contributions, grid), passages, grid)
    return CostLaw(
        plan="even", spacing=spacing, masses=trimmed(masses), beyond=0.0, contributions=contributions,
        allowance=_allowance(passages.rounds, contributions, contributions),
    )  # fmt: skip


def fine_for(agents: int, *, contributions: int, rounds: int) -> bool:
    """Whether fine laws of so many agents are made in some ten seconds."""
    return agents * _work(contributions, rounds, _SETTINGS["fine"]) <= _MOST_WORK["fine"]


def _likely(asked: _Asked) -> tuple[int, float]:
    """(a cap that is hardly ever reached or the agent's own, the probability of more)."""
    T = asked.passages.rounds
    most = 1
    while most < asked.contributions and _work(most, T, _SETTINGS["fast"]) <= _MOST_WORK["fast"]:
        most *= 2  # more than the number for which no law is made in time need not be told apart
    most = min(most, asked.contributions)
    visits, failure = likely_visits(asked.passages, failure_probability=RARE, most=most)
    return (visits, failure) if visits < most else (asked.contributions, 0.0)


def _grid(spacing: float, points: int, settings: _Settings, rounds: int) -> Grid:
    hops = 1 if rounds <= SHORT_WALK and settings.cells > 1 else math.ceil((rounds + 1) / settings.cells)
    return Grid(spacing=spacing, points=points + points % 2, cells=math.ceil((rounds + 1) / hops), hops=hops)


def _end_of(law: CostLaw) -> tuple[float, float]:
    """(a cost, the probability of more): where hardly any way costs more."""
    tails = np.cumsum(law.masses[::-1])[::-1]
    rare = np.flatnonzero(tails <= RARE)
    last = int(rare[0]) if len(rare) else len(tails)
    cost = law.spacing * max(1, last)
    return cost, (float(tails[last]) if last < len(tails) else 0.0) + law.beyond


def _allowance(rounds: int, contributions: int, passes: int) -> float:
    """What the rounding of transforms may take from all probabilities together: their errors are shares of sums of at most 1."""
    length = 2.0 * rounds + 2.0 * contributions + 4.0
    return 32.0 * ROUNDING * math.log2(length) * math.sqrt(length) * (passes + 1) + NEGLIGIBLE


def _work(contributions: int, rounds: int, settings: _Settings) -> float:
    """Products and sums, roughly."""
    levels = math.log(1.0 / max(settings.flattest * 0.05, 0.5 / rounds)) / math.log(settings.ratio)
    points = max(settings.points, 4 * contributions)
    of_hops = 3.0 * contributions * rounds * (contributions + 60.0)
    of_costs = contributions**2 * points * (0.5 + 0.5 * min(settings.cells, rounds))
    return levels * (of_hops + of_costs)
