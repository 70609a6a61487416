"""A study of a token that walks on a graph: epsilon of one agent towards another against their distance, by every account.

kind = "walk_distance"

Every agent adds Gaussian noise of `noise_multiplier` times the sensitivity to each of its at most `contributions` gradients, and noise alone after
them. The token begins anywhere and is handed on by symmetric weights; the observer sees it when it holds it. What the lines are is said in
`walk_accounts`; beside them stands what gradients that do not react really show (`walk_ways`), from `ways` drawn with `seed`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from sottovoce.accounting import walk
from sottovoce.errors import ConfigError
from sottovoce.experiments import Count, Delta, Positive, Section, Seed, graph_distances
from sottovoce.reports import paint, pictures, save
from sottovoce.studies import walk_accounts as accounts
from sottovoce.studies.cells import StudyFile, computed, empty_cells
from sottovoce.studies.privacy_study import Kind, PrivacyStudyResult, PrivacyStudySection
from sottovoce.studies.walk_ways import SHOWN, drawn_costs, measured_epsilon

colours = pictures.colours
Agent = Annotated[int, Field(ge=0)]
# The lines of the picture, and what they are called there; the others stand in the table.
LOOKS: Mapping[str, colours.Look] = {
    accounts.RENYI: colours.Look(colours.SKY, "dashed", "o"),
    accounts.BLOCKS: colours.Look(colours.BLUE, "solid", "D"),
    SHOWN: colours.Look(colours.VERMILION, "solid", "v"),
    accounts.PUBLISHED: colours.Look(colours.PURPLE, "dotted", "s"),
    accounts.PN_CODE: colours.Look(colours.ORANGE, "dotted", "X"),
}
NAMES: Mapping[str, str] = {
    accounts.RENYI: "proven, by gaps",
    accounts.BLOCKS: "proven, by blocks",
    SHOWN: "shown by a test",
    accounts.PUBLISHED: "published sums, not proven",
    accounts.PN_CODE: "PN-f-DP's public code, not proven",
}


class WalkTable(Section):
    """One graph, how long the token walks on it, and whose data are protected from whom."""

    graph: accounts.WalkGraph
    hops: Count
    contributions: Count
    pairs: dict[str, Annotated[list[Agent], Field(min_length=2, max_length=2)]] = Field(min_length=1)
    resolution: accounts.Resolution = "fine"  # of the blocks

    @model_validator(mode="after")
    def _by_distance(self) -> Self:
        for distance in self.pairs:
            if not distance.isdecimal() or int(distance) < 1:
                raise ValueError(
                    f"pairs has the key {distance!r}; it must be the number of links between the two agents"
                )
        return self


class WalkDistanceSection(PrivacyStudySection):
    """Epsilon against distance on several graphs."""

    axis: ClassVar[str] = "graph, links between the two agents"
    measures: ClassVar[Mapping[str, str]] = {"epsilon": "epsilon of the whole walk"}

    kind: Literal["walk_distance"]
    walks: dict[str, WalkTable] = Field(min_length=1)
    noise_multiplier: Positive
    delta: Delta
    ways: Count  # drawn for what is shown
    seed: Seed

    def lines(self) -> list[str]:
        """What is shown, and every account."""
        return [SHOWN, *accounts.ACCOUNTS]

    def places(self) -> list[str]:
        """Every pair of every graph."""
        return [_place(name, distance) for name, given in self.walks.items() for distance in given.pairs]


def _place(name: str, distance: str) -> str:
    return f"{name}, {distance}"


def run_walk_distance(section: WalkDistanceSection, file: StudyFile) -> PrivacyStudyResult:
    """Account for every pair; nothing of the base configuration is used."""
    cells = empty_cells(section.measures, section.lines())
    table = cells["epsilon"]
    for name, given in section.walks.items():
        topology = accounts.graph_of(given.graph)
        _check_distances(given, graph_distances(topology), f"{file.source}: study {section.name!r}, {name}")
        file.say(f"study {section.name}: {name}, {section.ways:,} ways of {given.hops:,} hops")
        drawn = drawn_costs(
            walk.transition_matrix(topology), [(u, v) for u, v in given.pairs.values()], hops=given.hops, contributions=given.contributions,
            ways=section.ways, seed=section.seed,
        )  # fmt: skip
        for (distance, (u, v)), costs in zip(given.pairs.items(), drawn, strict=True):
            file.say(f"study {section.name}: {name}, accounts at {distance} links")
            place, asked = _place(name, distance), (section.noise_multiplier, section.delta)
            table[SHOWN][place] = measured_epsilon(costs, noise_multiplier=asked[0], delta=asked[1])
            pair = accounts.Pair(topology, u, v, given.hops, given.contributions, *asked)
            for line, value in accounts.epsilons(pair, given.resolution).items():
                table[line][place] = computed(value)
    return PrivacyStudyResult(section=section, cells=cells)


def _check_distances(given: WalkTable, distances: NDArray[np.int64], where: str) -> None:
    """Refuse pairs that are not as far apart as the file says."""
    for distance, (u, v) in given.pairs.items():
        if max(u, v) >= len(distances) or distances[u, v] != int(distance):
            raise ConfigError(f"{where}: agents {u} and {v} are not {distance} links apart. Name others.")


def distance_picture(result: PrivacyStudyResult) -> pictures.Picture:
    """One panel for every graph: epsilon against distance by the accounts that matter most."""
    section = result.section
    assert isinstance(section, WalkDistanceSection)
    return pictures.Picture(
        title="What an agent learns from a token that comes by: less from further away",
        subtitle=f"epsilon at delta = {section.delta:g}, smaller is more private; noise of {section.noise_multiplier:g} times what one contribution changes",
        panels=tuple(_panel(result, name, given) for name, given in section.walks.items()),
        keys=(
            *(
                pictures.Key(name=NAMES[line], colour=look.colour, dash=look.dash, marker=look.marker)
                for line, look in LOOKS.items()
            ),
            pictures.Key(name="all in clear sight", colour=colours.REFERENCE, dash="dashed"),
        ),
        same_y=False,
        columns=3,
        panel_size=(3.7, 3.1),
    )


def _panel(result: PrivacyStudyResult, name: str, given: WalkTable) -> pictures.Panel:
    table = result.cells["epsilon"]
    x = tuple(float(distance) for distance in given.pairs)
    local = table[accounts.LOCAL][_place(name, next(iter(given.pairs)))].value
    values = {line: tuple(table[line][_place(name, distance)].value for distance in given.pairs) for line in LOOKS}
    width = max(x[-1] - x[0], 1.0)
    return pictures.Panel(
        title=f"{name}\n{given.hops:,} hops, {given.contributions} contributions",
        x=pictures.Axis(
            label="links between the two agents",
            ticks=tuple((place, f"{place:g}") for place in x),
            limits=(x[0] - 0.06 * width, x[-1] + 0.06 * width),
        ),
        y=pictures.Axis(label="epsilon", limits=(0.0, 1.06 * local)),
        lines=tuple(
            pictures.Line(
                name=line, x=x, y=values[line], colour=look.colour, dash=look.dash, marker=look.marker,
                width=2.4 if line == accounts.BLOCKS else 1.5, label=f"{values[line][-1]:.1f}",
            )
            for line, look in LOOKS.items()
        ),
        levels=(pictures.Level(name=accounts.LOCAL, value=local, colour=colours.REFERENCE, label=f"{local:.1f}"),),
    )  # fmt: skip


def draw_walk_distance(result: PrivacyStudyResult, folder: str | Path, document: str) -> list[Path]:
    """Write epsilon against distance; returns the files."""
    section = result.section
    assert isinstance(section, WalkDistanceSection)
    caption = (
        f"After {document}. Observer: one other agent, who sees the token when it holds it, and for the proven lines may know all of its way. All data of "
        f"an agent are protected; noise of {section.noise_multiplier:g} times the sensitivity in every hop, delta = {section.delta:g}. 'proven': validity "
        f"amplified by iteration, convex smooth losses, steps of at most 2/beta (docs/guarantees.md, Walks); by blocks, all contributions between two "
        f"looks of the observer are hidden together. 'shown by a test': what gradients that do not react give away, from {section.ways:,} drawn ways; no "
        f"account may lie below. Dotted lines are computed as published and proven by nobody: both add up contributions that share their noise, and "
        f"PN-f-DP's code counts one noise too many besides."
    )
    return save(paint(distance_picture(result)), folder, section.name, caption=caption)


KINDS = {"walk_distance": Kind(WalkDistanceSection, run_walk_distance, draw_walk_distance)}
