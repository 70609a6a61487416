"""What every study of privacy has, whatever its kind: lines, places, measures, and one number in every cell.

    [[privacy_study]]
    kind = "gossip_distance"     # which function computes it: `privacy_study.KINDS`
    name = "distance"
    ...                          # keys of this kind

The cells are privacy losses, computed, or what learning with the noise for a given loss costs. They have the shape of those of a `[[study]]`, so that claims, tables and
expected numbers treat both alike.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from sottovoce.experiments.config.values import Section
from sottovoce.studies.curves import Cells


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PrivacyStudyResult:
    """Everything a study of privacy found: cells[measure][series][place], and what its pictures need besides."""

    section: PrivacyStudySection
    cells: Cells
    pictures: Mapping[str, Any] = field(default_factory=dict)
