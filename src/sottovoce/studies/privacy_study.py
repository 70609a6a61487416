"""What every study of privacy has, whatever its kind: lines, places, measures, one number in every cell, and pictures.

    [[privacy_study]]
    kind = "gossip_distance"     # which file computes and draws it: `kinds.KINDS`
    name = "distance"
    ...                          # keys of this kind

The cells are privacy losses, computed, or what learning with the noise for a given loss costs. They have the shape of those of a `[[study]]`, so that
claims, tables and expected numbers treat both alike.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from sottovoce.experiments import Section
from sottovoce.studies.cells import Cells


class PrivacyStudySection(Section):
    """One study of privacy of a reproduction file; a kind adds its keys, and says what its table looks like."""

    axis: ClassVar[str]  # what the places are, with their unit
    measures: ClassVar[Mapping[str, str]]  # measure -> what it is, in words

    kind: str
    name: str

    @abstractmethod
    def lines(self) -> list[str]:
        """The labels of all series, in the order in which they are shown."""

    @abstractmethod
    def places(self) -> list[str]:
        """The labels along the axis, in order."""

    def words(self, measure: str) -> str:
        """What a measure is."""
        return self.measures[measure]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PrivacyStudyResult:
    """Everything a study of privacy found: cells[measure][series][place], and what its pictures need besides."""

    section: PrivacyStudySection
    cells: Cells
    pictures: Mapping[str, Any] = field(default_factory=dict)


class Kind(NamedTuple):
    """What a kind of study reads, how it is computed, and how it is drawn."""

    section: type[PrivacyStudySection]
    run: Callable[..., PrivacyStudyResult]  # run(section, file), the file in which the section stands
    draw: Callable[[PrivacyStudyResult, str | Path, str], list[Path]]  # draw(result, folder, document) writes files


def points_of(
    result: PrivacyStudyResult, measure: str
) -> dict[str, tuple[list[float], list[float], list[float] | None]]:
    """{line: (places, values, standard errors)} of one measure; no errors where everything was computed."""
    found: dict[str, tuple[list[float], list[float], list[float] | None]] = {}
    for line, row in result.cells[measure].items():
        errors = [cell.error for cell in row.values()]
        places, values = [float(place) for place in row], [cell.value for cell in row.values()]
        found[line] = (places, values, errors if any(errors) else None)
    return found
