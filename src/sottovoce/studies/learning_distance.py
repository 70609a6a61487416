"""A study of pairs who learn: the linear view of an algorithm against graph distance, and the proven value beside it.

kind = "learning_distance"
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from sottovoce.errors import ConfigError
from sottovoce.experiments import VALIDITY, Count, Pairs, epsilon_of, pairs_of
from sottovoce.reports import GUESSED, GUESSES, OBSERVER, SOURCE, LossLine, loss_by_distance, right_guesses, save
from sottovoce.rounding import shown
from sottovoce.studies.cells import CONFIG, StudyFile, changed, computed, empty_cells
from sottovoce.studies.privacy_study import Kind, PrivacyStudyResult, PrivacyStudySection


class LearningDistanceSection(PrivacyStudySection):
    """Linear view against distance, for variants of the file's experiment."""

    axis: ClassVar[str] = "graph distance"
    measures: ClassVar[Mapping[str, str]] = {
        "mu": "mu, mean over pairs",
        "epsilon": "epsilon at the delta of [privacy], of the mean mu",
    }

    kind: Literal["learning_distance"]
    set: dict[str, Any] = Field(default_factory=dict)  # keys replaced in every variant
    series: dict[str, dict[str, Any]] = Field(min_length=1)  # label -> sections to change
    distances: list[Count] = Field(min_length=2)

    def lines(self) -> list[str]:
        """Linear view and proven value of every variant."""
        return [f"{label}, {what}" for label in self.series for what in ("linear view", "proven")]

    def places(self) -> list[str]:
        """The distances."""
        return [str(distance) for distance in self.distances]


def run_learning_distance(section: LearningDistanceSection, file: StudyFile) -> PrivacyStudyResult:
    """Linear view and proven value of every variant at every distance."""
    cells = empty_cells(section.measures, section.lines())
    pictures: dict[str, Any] = {}
    for label, change in section.series.items():
        file.say(f"study {section.name}: {label}")
        where = f"{file.source}, study {section.name!r}, {label}"
        pairs = pairs_of(changed(file.base, section.set, {CONFIG: change}, source=where))
        for distance in section.distances:
            there = pairs.distances == distance
            if not there[:, pairs.attacker].any():
                raise ConfigError(
                    f"{file.source}: study {section.name!r} has no agent at distance {distance} from agent {pairs.attacker}. Remove that distance."
                )
            means = {
                "linear view": float(pairs.mu[there].mean()),
                "proven": float(pairs.proven_mu[there[:, pairs.attacker]].max()),
            }
            for what, mean in means.items():
                cells["mu"][f"{label}, {what}"][str(distance)] = computed(mean)
                cells["epsilon"][f"{label}, {what}"][str(distance)] = computed(epsilon_of(mean, pairs.delta))
        pictures[label] = pairs
    return PrivacyStudyResult(section=section, cells=cells, pictures=pictures)


def draw_learning_distance(result: PrivacyStudyResult, folder: str | Path, document: str) -> list[Path]:
    """Linear view against distance, and the proven values."""
    section = result.section
    distances = [float(place) for place in section.places()]
    table, labels = result.cells["mu"], list(result.pictures)
    solid, dotted = (
        {
            label: LossLine(distances, right_guesses([cell.value for cell in table[f"{label}, {what}"].values()]))
            for label in labels
        }
        for what in ("linear view", "proven")
    )
    first: Pairs = next(iter(result.pictures.values()))
    worst = max(cell.value for label in labels for cell in result.cells["epsilon"][f"{label}, proven"].values())
    figure = loss_by_distance(
        solid,
        compared=dotted,
        names=("linear view", "proven limit"),
        local=("a coin", 0.5),
        y_label=GUESSES,
        log_y=False,
        percent=True,
        title=f"What agents could find out about each other\nproven: epsilon of at most {shown(worst, 3)} at delta = {first.delta:g}",
    )
    K, unit = len(first.mu), first.unit
    caption = (
        f"After {document}. Learning with fresh noise in every gradient, {first.rounds} rounds, {K} agents, one {unit} may change; mean over pairs. "
        f"{GUESSED} {OBSERVER} Validity of the linear view: {VALIDITY[first.validity]}; dotted: what sv.account proves. {SOURCE}"
    )
    return save(figure, folder, section.name, caption=caption)


KINDS = {"learning_distance": Kind(LearningDistanceSection, run_learning_distance, draw_learning_distance)}
