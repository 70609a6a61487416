"""Studies of accounts of a walking token against what observers can really find out.

    kind = "walk_all_ways"     epsilon of small walks by every account, and exactly for gradients that do not react, over all ways
    kind = "walk_tests"        given ways of long walks: mu of the best test against mu that is stated (`walk.path_mu_of`)

walk_tests. A quadratic loss of curvature a makes a step multiply the token by f = 1 - step a, which the promise leaves in [-1, 1]; data of u move
its gradient by Delta. Let c_s be the product of the factors of all hops of a block behind hop s. The observer knows the token at the last look and its
own noise, so the best test of two data sets of u has

    mu^2 = (Delta / sigma)^2 sum over blocks of (sum of c_s over contributions)^2 / (sum of c_s^2 over hops of others),

    gradients that do not react    f = 1 everywhere
    one loss for each agent        the curvatures, one for each agent, that show most, as far as a search finds them (0 <= f <= 1)
    losses that change             a factor for every hop: then c may be any sequence in [0, 1] that rises towards the look, and the best one is the
                                   isotonic fit to what u adds

No agent is at its cap, since it would take no step then.
"""

import math
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.optimize import isotonic_regression, minimize

from sottovoce.accounting import walk
from sottovoce.errors import ConfigError
from sottovoce.experiments import Count, Delta, Positive, Section, Seed
from sottovoce.reports import paint, pictures, save
from sottovoce.studies import walk_accounts as accounts
from sottovoce.studies.cells import StudyFile, computed, empty_cells
from sottovoce.studies.privacy_study import Kind, PrivacyStudyResult, PrivacyStudySection
from sottovoce.studies.walk_ways import SHOWN, epsilon_of, exact_costs
from sottovoce.topologies import walk_paths

colours = pictures.colours
Agent = Annotated[int, Field(ge=0)]
Array = NDArray[np.float64]
SAME, FIXED, CHANGING = "gradients that do not react", "one loss for each agent", "losses that change"
STATED = "stated"
MOST_FLAT = 30.0  # -ln f, beyond which nothing is left of a token
# The marks of the picture, and what they are called there; the other lines stand in the table.
LOOKS: Mapping[str, colours.Look] = {
    accounts.BLOCKS: colours.Look(colours.BLUE, "none", "|"),
    SHOWN: colours.Look(colours.VERMILION, "none", "D"),
    accounts.PUBLISHED: colours.Look(colours.PURPLE, "none", "s"),
    accounts.PN_MENDED: colours.Look(colours.ORANGE, "none", "P"),
    accounts.PN_CODE: colours.Look(colours.ORANGE, "none", "X"),
}
NAMES: Mapping[str, str] = {
    accounts.BLOCKS: "proven, by blocks",
    SHOWN: "shown",
    accounts.PUBLISHED: "published sums",
    accounts.PN_MENDED: "PN-f-DP, mended",
    accounts.PN_CODE: "PN-f-DP's code",
}


class SmallWalk(Section):
    """A walk short enough that all its ways can be gone through."""

    graph: accounts.WalkGraph
    agent: Agent
    observer: Agent
    hops: Annotated[int, Field(ge=1, le=20)]
    contributions: Count


class WalkAllWaysSection(PrivacyStudySection):
    """Epsilon of small walks."""

    axis: ClassVar[str] = "walk"
    measures: ClassVar[Mapping[str, str]] = {"epsilon": "epsilon of the whole walk"}

    kind: Literal["walk_all_ways"]
    walks: dict[str, SmallWalk] = Field(min_length=1)
    noise_multiplier: Positive
    delta: Delta

    def lines(self) -> list[str]:
        """What is true for gradients that do not react, and every account."""
        return [SHOWN, *accounts.ACCOUNTS]

    def places(self) -> list[str]:
        """The walks."""
        return list(self.walks)


class LongWalk(Section):
    """A walk of which some ways are drawn."""

    graph: accounts.WalkGraph
    agent: Agent
    observer: Agent
    hops: Count


class WalkTestsSection(PrivacyStudySection):
    """What tests show on given ways."""

    axis: ClassVar[str] = "walk"
    measures: ClassVar[Mapping[str, str]] = {
        "least_share": "mu of the best test over mu that is stated, least over ways",
        "largest_share": "mu of the best test over mu that is stated, largest over ways",
    }

    kind: Literal["walk_tests"]
    walks: dict[str, LongWalk] = Field(min_length=1)
    ways: Count  # of each walk
    seed: Seed

    def lines(self) -> list[str]:
        """Whose losses are tried, and what is stated."""
        return [SAME, FIXED, CHANGING, STATED]

    def places(self) -> list[str]:
        """The walks."""
        return list(self.walks)


def run_walk_all_ways(section: WalkAllWaysSection, file: StudyFile) -> PrivacyStudyResult:
    """Go through all ways of every walk; nothing of the base configuration is used."""
    cells = empty_cells(section.measures, section.lines())
    for name, small in section.walks.items():
        file.say(f"study {section.name}: all ways of {name}")
        topology = accounts.graph_of(small.graph)
        pair = accounts.Pair(
            topology, small.agent, small.observer, small.hops, small.contributions, section.noise_multiplier, section.delta
        )  # fmt: skip
        costs, probabilities = exact_costs(
            walk.transition_matrix(topology), agent=small.agent, observer=small.observer, hops=small.hops,
            contributions=small.contributions,
        )  # fmt: skip
        asked = {"noise_multiplier": section.noise_multiplier, "delta": section.delta}
        found = {SHOWN: epsilon_of(costs, probabilities, **asked), **accounts.epsilons(pair, "finest")}
        for line, value in found.items():
            cells["epsilon"][line][name] = computed(value)
    return PrivacyStudyResult(section=section, cells=cells)


class Way(NamedTuple):
    """A way of the token as one observer sees it, with the hops of all blocks that end in a look, the observer's own hops left out.

    Attributes:
        starts: [B] where the blocks begin among these hops.
        adds: [S] 1.0 where the agent contributes.
        behind: [S, K] how many hops of each agent follow in the block.
    """

    starts: NDArray[np.int64]
    adds: Array
    behind: Array


def way_of(path: NDArray[np.int32], *, agent: int, observer: int, num_agents: int) -> Way:
    """What a path [T + 1] of holders is for one pair."""
    looks = [0, *(np.flatnonzero(path[1:] == observer) + 1).tolist()]
    blocks = [path[start:end][path[start:end] != observer] for start, end in pairwise(looks)]
    blocks = [holders for holders in blocks if (holders == agent).any()]
    ends = np.cumsum([0, *map(len, blocks)])
    adds, behind = np.zeros(ends[-1]), np.zeros((ends[-1], num_agents))
    for holders, start, end in zip(blocks, ends[:-1], ends[1:], strict=True):
        adds[start:end] = holders == agent
        behind[start : end - 1] = np.cumsum(np.eye(num_agents)[holders][:0:-1], axis=0)[::-1]
    return Way(ends[:-1], adds, behind)


def shown_square(way: Way, left: Array) -> float:
    """mu^2 of the best test where c_s = left [S], in units of (Delta / sigma)^2."""
    sums, squares = (np.add.reduceat(values, way.starts) for values in (way.adds * left, left**2))
    return float((sums**2 / squares).sum())


def shown_mu(way: Way) -> dict[str, float]:
    """{line: mu} of the best test on one way, for the losses of every line."""
    if not len(way.starts):
        return dict.fromkeys((SAME, FIXED, CHANGING), 0.0)
    same, fixed = shown_square(way, np.ones(len(way.adds))), _with_fixed_losses(way)
    return {
        SAME: same**0.5,
        FIXED: max(same, fixed) ** 0.5,
        CHANGING: shown_square(way, _best_left(way)) ** 0.5,
    }


def _best_left(way: Way) -> Array:
    """[S] the rising sequence, block by block, that fits best what the agent adds."""
    ends = [*way.starts[1:].tolist(), len(way.adds)]
    return np.concatenate(
        [isotonic_regression(way.adds[start:end]).x for start, end in zip(way.starts.tolist(), ends, strict=True)]
    )


def _with_fixed_losses(way: Way) -> float:
    """The largest mu^2 that a search over -ln f of every agent finds."""

    def negative(rates: Array) -> tuple[float, Array]:
        left = np.exp(-way.behind @ rates)
        sums, squares = (np.add.reduceat(values, way.starts) for values in (way.adds * left, left**2))
        hops = np.diff([*way.starts.tolist(), len(left)])
        first, second = np.repeat(2.0 * sums / squares, hops), np.repeat(2.0 * (sums / squares) ** 2, hops)
        slope = (first * way.adds - second * left) * left  # by the logarithm of c_s
        return -float((sums**2 / squares).sum()), way.behind.T @ slope

    K = way.behind.shape[1]
    found = [
        minimize(negative, np.full(K, start), jac=True, method="L-BFGS-B", bounds=[(0.0, MOST_FLAT)] * K).fun
        for start in (1e-3, 0.1)
    ]
    return -float(min(found))


def run_walk_tests(section: WalkTestsSection, file: StudyFile) -> PrivacyStudyResult:
    """Try the best tests on drawn ways; nothing of the base configuration is used."""
    cells = empty_cells(section.measures, section.lines())
    for name, long in section.walks.items():
        file.say(f"study {section.name}: {section.ways} ways of {name}")
        shares = _shares(long, section)
        if not shares:
            raise ConfigError(
                f"{file.source}: study {section.name!r}: no way of {name} leads from agent {long.agent} to agent {long.observer}. Take more hops or ways."
            )
        for line in section.lines():
            values = [share[line] for share in shares]
            cells["least_share"][line][name] = computed(min(values))
            cells["largest_share"][line][name] = computed(max(values))
    return PrivacyStudyResult(section=section, cells=cells)


def _shares(long: LongWalk, section: WalkTestsSection) -> list[dict[str, float]]:
    """{line: mu over what is stated} of every drawn way; ways that tell nothing, and are stated so, are left out."""
    topology, found = accounts.graph_of(long.graph), []
    K, u, v = topology.num_agents, long.agent, long.observer
    for path in walk_paths(topology, long.hops, seed=section.seed, repeats=section.ways):
        stated = walk.path_mu_of(path, agent=u, observers=[v], num_agents=K, std=1.0, sensitivity=1.0)
        shown = shown_mu(way_of(path, agent=u, observer=v, num_agents=K)) | {STATED: stated}
        if any(shown.values()):
            found.append({line: mu / stated if stated else math.inf for line, mu in shown.items()})
    return found


def all_ways_picture(result: PrivacyStudyResult) -> pictures.Picture:
    """One row for every walk: what is true, and what accounts state."""
    section = result.section
    assert isinstance(section, WalkAllWaysSection)
    table, places = result.cells["epsilon"], section.places()
    most = max(table[line][place].value for line in LOOKS for place in places)
    rows = tuple(float(row) for row in range(len(places)))
    return pictures.Picture(
        title="Small walks, all ways: a number to the left of the diamond is too small",
        panels=(
            pictures.Panel(
                x=pictures.Axis(label=f"epsilon at delta = {section.delta:g}", limits=(0.0, 1.05 * most)),
                y=pictures.Axis(
                    label="", ticks=tuple(zip(rows, places, strict=True)), limits=(len(places) - 0.5, -0.5)
                ),
                lines=tuple(
                    pictures.Line(
                        name=line, x=tuple(table[line][place].value for place in places), y=rows, colour=look.colour, dash=look.dash,
                        marker=look.marker,
                    )
                    for line, look in LOOKS.items()
                ),
            ),
        ),
        keys=tuple(
            pictures.Key(name=NAMES[line], colour=look.colour, dash=look.dash, marker=look.marker)
            for line, look in LOOKS.items()
        ),
        panel_size=(8.4, 1.2 + 0.42 * len(places)),
    )  # fmt: skip


def draw_walk_all_ways(result: PrivacyStudyResult, folder: str | Path, document: str) -> list[Path]:
    """Write what is true and what is stated; returns the files."""
    section = result.section
    assert isinstance(section, WalkAllWaysSection)
    caption = (
        f"After {document}. Observer: one other agent, who sees the token when it holds it and knows its way; of two agents it knows that anyhow. Noise of "
        f"{section.noise_multiplier:g} times the sensitivity in every hop, delta = {section.delta:g}. 'shown': exact for gradients that do not react, over "
        f"all ways; no account may state less. 'proven': validity amplified by iteration (docs/guarantees.md, Walks). The others are computed as published."
    )
    return save(paint(all_ways_picture(result)), folder, section.name, caption=caption)


def draw_walk_tests(result: PrivacyStudyResult, folder: str | Path, document: str) -> list[Path]:
    """Write how near tests come to what is stated; returns the files."""
    section = result.section
    assert isinstance(section, WalkTestsSection)
    looks = colours.looks([SAME, FIXED, CHANGING])
    places = section.places()
    lines = []
    tests = [SAME, FIXED, CHANGING]
    for offset, line in zip((-0.18, 0.0, 0.18), tests, strict=True):
        least, largest = ([result.cells[m][line][place].value for place in places] for m in section.measures)
        for row, (low, high) in enumerate(zip(least, largest, strict=True)):
            lines.append(
                pictures.Line(
                    name=f"{line}, {places[row]}", x=(low, high), y=(row + offset,) * 2, colour=looks[line].colour, marker=looks[line].marker,
                )
            )  # fmt: skip
    panel = pictures.Panel(
        x=pictures.Axis(label="mu of the best test, as a share of mu that is stated", percent=True, limits=(0.0, 1.05)),
        y=pictures.Axis(
            label="",
            ticks=tuple((float(row), place) for row, place in enumerate(places)),
            limits=(len(places) - 0.5, -0.5),
        ),
        lines=tuple(lines),
        levels=(pictures.Level(name="stated", value=1.0, colour=colours.REFERENCE, upright=True, label="stated"),),
    )
    picture = pictures.Picture(
        title="Tests on given ways of the token come near to what is stated, and never above it",
        panels=(panel,),
        keys=tuple(pictures.Key(name=line, colour=looks[line].colour, marker=looks[line].marker) for line in tests),
        panel_size=(8.4, 1.2 + 0.5 * len(places)),
    )  # fmt: skip
    caption = (
        f"After {document}. Observer: one other agent, who sees the token when it holds it, knows its way and tests two data sets of an agent by likelihood. "
        f"{section.ways} ways of each walk, seed {section.seed}; from the way with the least share to that with the largest. Quadratic losses; stated is "
        f"mu of the given way, validity amplified by iteration (docs/guarantees.md, Walks)."
    )
    return save(paint(picture), folder, section.name, caption=caption)


KINDS = {
    "walk_all_ways": Kind(WalkAllWaysSection, run_walk_all_ways, draw_walk_all_ways),
    "walk_tests": Kind(WalkTestsSection, run_walk_tests, draw_walk_tests),
}
