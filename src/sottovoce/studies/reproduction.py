"""Reproductions: a document's experiment as a configuration, the claims it makes, and a verdict on each.

A reproduction is a folder with `config.toml` (an ordinary configuration plus `[[study]]`, `[[privacy_study]]` and `[[claim]]` tables),
`expected.json` (the numbers and verdicts we found, with tolerances) and a README.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from sottovoce.errors import ConfigError
from sottovoce.experiments import NonNegative, Section, apply_override, checked_label, complaint, read_toml
from sottovoce.problems import read_text
from sottovoce.studies.cells import Cell, Say
from sottovoce.studies.claims import Answer, AnyStudy, ClaimSection, Verdict, check_claim, judge
from sottovoce.studies.curves import StudyResult, StudySection, draw_study, run_study
from sottovoce.studies.kinds import KINDS, read_privacy_study, run_privacy_study
from sottovoce.studies.privacy_study import PrivacyStudyResult, PrivacyStudySection
from sottovoce.wording import brief_value

AnySection = TypeVar("AnySection", bound=Section)

AnyResult = StudyResult | PrivacyStudyResult


class ReproductionSection(Section):
    """What is reproduced."""

    title: str
    document: str


class ExpectedVerdict(Section):
    """What became of a claim when the numbers were stored."""

    verdict: Answer
    where: list[str]


class ExpectedSection(Section):
    """What `expected.json` holds."""

    tolerance: NonNegative
    cells: dict[str, dict[str, dict[str, dict[str, float]]]]  # [study][measure][series][place]
    verdicts: dict[str, ExpectedVerdict]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """A reproduction as read from its folder."""

    name: str
    folder: Path
    about: ReproductionSection
    base: dict[str, Any]
    studies: tuple[StudySection, ...]
    claims: tuple[ClaimSection, ...]
    privacy_studies: tuple[PrivacyStudySection, ...] = ()

    @property
    def comes_with_package(self) -> bool:
        """Whether its folder is part of the installed package, where nothing may be written."""
        return self.folder.absolute().is_relative_to(_shipped())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """All a reproduction found."""

    reproduction: Reproduction
    studies: dict[str, AnyResult]
    verdicts: tuple[Verdict, ...]


def _shipped() -> Path:
    """The folder of the reproductions that come with the package."""
    return Path(str(files("sottovoce.studies") / "reproductions"))


def reproductions_folder() -> Path:
    """The folder `reproductions` of the working directory where that holds any, else the one that comes with the package."""
    own = Path("reproductions")
    return own if any(own.glob("*/config.toml")) else _shipped()


def list_reproductions() -> dict[str, str]:
    """Name -> title of every reproduction."""
    return {
        path.parent.name: read_reproduction(path.parent).about.title
        for path in sorted(reproductions_folder().glob("*/config.toml"))
    }


def read_reproduction(folder: str | Path, overrides: Sequence[str] = ()) -> Reproduction:
    """Read a reproduction from its folder, or by its name from `reproductions/` here or from the package.

    Overrides replace keys of the base configuration, which the studies then vary; "name.key" replaces a key of the privacy study with this
    name.

    Raises:
        ConfigError: there is no such reproduction, or its file is malformed.
    """
    folder = _folder(Path(folder))
    path = folder / "config.toml"
    data = read_toml(path)
    about = _model(ReproductionSection, data.pop("reproduction", {}), f"{path}: [reproduction]")
    studies = tuple(_model(StudySection, table, f"{path}: [[study]]") for table in _tables(data, "study", path))
    claims = tuple(_model(ClaimSection, table, f"{path}: [[claim]]") for table in _tables(data, "claim", path))
    listed = _tables(data, "privacy_study", path)
    tables: dict[str, Any] = {str(table.get("name")): table for table in listed}
    for override in overrides:
        own = override.partition(".")[0].strip() in tables
        apply_override(tables if own else data, override)
        if not own:
            _check_reaches_a_study(override, studies, path)
    privacy_studies = tuple(_privacy_study(table, path) for table in tables.values())
    every: list[AnyStudy] = [*studies, *privacy_studies]
    by_name = {study.name: study for study in every}
    if len(by_name) < len(studies) + len(listed):
        raise ConfigError(f"{path}: two studies have one name. Give each its own.")
    for claim in claims:
        check_claim(claim, by_name, str(path))
    return Reproduction(
        name=folder.name, folder=folder, about=about, base=data, studies=studies, claims=claims, privacy_studies=privacy_studies
    )  # fmt: skip


def _folder(given: Path) -> Path:
    """The folder of a reproduction, given as such or by its name alone."""
    if (given / "config.toml").is_file():
        return given
    for folder in (reproductions_folder(), _shipped()):
        if (folder / given / "config.toml").is_file():
            return folder / given
    known = ", ".join(path.parent.name for path in sorted(reproductions_folder().glob("*/config.toml")))
    raise ConfigError(f"no reproduction {str(given)!r}; known: {known}.")


def _tables(data: dict[str, Any], name: str, path: Path) -> list[dict[str, Any]]:
    """The tables [[name]] of a file, taken out of it."""
    given = data.pop(name, [])
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise ConfigError(f"{path}: {name} is {brief_value(given)}, not a list of tables. Write [[{name}]] above each.")
    return given


def _model(section: type[AnySection], table: Any, place: str) -> AnySection:
    """One table as the section it should be."""
    try:
        return section.model_validate(table)
    except ValidationError as error:
        problems = [complaint(detail) for detail in error.errors(include_url=False)]
    raise ConfigError(f"{place} {'; '.join(problems)}.")


def _privacy_study(table: Mapping[str, Any], path: Path) -> PrivacyStudySection:
    place = f"{path}: [[privacy_study]]"
    try:
        study = read_privacy_study(table)
        for label in (study.name, *study.lines(), *study.places()):
            checked_label(label)
        return study
    except ValidationError as error:
        problems = [complaint(detail) for detail in error.errors(include_url=False)]
    except PydanticCustomError as error:
        problems = [error.message()]
    raise ConfigError(f"{place} {'; '.join(problems)}.")


def _check_reaches_a_study(override: str, studies: Sequence[StudySection], path: Path) -> None:
    """Refuse an override of a key that every study sets itself: it would change nothing."""
    key = override.partition("=")[0].strip()
    if studies and all(study.sets(key) for study in studies):
        raise ConfigError(
            f"override {override!r} has no effect: every study of {path} sets {key!r} itself. Edit a copy of the file."
        )


def reproduce(reproduction: Reproduction, *, progress: Say = lambda text: None) -> Outcome:
    """Run all studies and judge all claims."""
    results: dict[str, AnyResult] = {}
    source = str(reproduction.folder / "config.toml")
    for study in reproduction.studies:
        results[study.name] = run_study(study, reproduction.base, source=source, progress=progress)
    for other in reproduction.privacy_studies:
        results[other.name] = run_privacy_study(other, reproduction.base, source=source, progress=progress)
    verdicts = tuple(judge(claim, results[claim.study].cells[claim.measure]) for claim in reproduction.claims)
    return Outcome(reproduction=reproduction, studies=results, verdicts=verdicts)


def outcome_figures(outcome: Outcome, folder: str | Path) -> list[Path]:
    """Draw every study of a reproduction; returns the files written."""
    paths: list[Path] = []
    document = outcome.reproduction.about.document
    for result in outcome.studies.values():
        if isinstance(result, StudyResult):
            paths += draw_study(result, folder, document)
        else:
            paths += KINDS[result.section.kind].draw(result, folder, document)
    return paths


def expected_of(outcome: Outcome, tolerance: float) -> dict[str, Any]:
    """What `expected.json` holds: every cell with its tolerance, and the verdicts."""
    return {
        "tolerance": tolerance,
        "cells": {
            name: {
                measure: {
                    series: {place: float(f"{cell.value:.6g}") for place, cell in row.items()}
                    for series, row in table.items()
                }
                for measure, table in result.cells.items()
            }
            for name, result in outcome.studies.items()
        },
        "verdicts": {v.claim.id: {"verdict": v.verdict, "where": list(v.where)} for v in outcome.verdicts},
    }


def differences(outcome: Outcome, expected: Mapping[str, Any]) -> list[str]:
    """Where an outcome departs from what is expected, one sentence each; empty when it agrees."""
    found = []
    tolerance = float(expected["tolerance"])
    for (name, measure, series, place), value in _expected_cells(expected["cells"]):
        cell = _cell(outcome, name, measure, series, place)
        where = f"{name}, {measure}, {series} at {place}"
        if cell is None:
            found.append(f"{where}: not in the file any more, expected {value:.5g}")
        # Four standard errors on top, so that a noisy cell is not mistaken for a wrong one.
        elif abs(cell.value - value) > tolerance * abs(value) + 4 * cell.error:
            found.append(f"{where}: {cell.value:.5g}, expected {value:.5g}")
    for verdict in outcome.verdicts:
        said, wanted = _in_words(verdict.verdict, verdict.where), expected["verdicts"].get(verdict.claim.id)
        if wanted is None:
            found.append(f"claim {verdict.claim.id!r}: {said}; nothing is expected of it yet")
        elif (verdict.verdict, list(verdict.where)) != (wanted["verdict"], wanted["where"]):
            found.append(
                f"claim {verdict.claim.id!r}: {said}; expected: {_in_words(wanted['verdict'], wanted['where'])}"
            )
    return found


def _expected_cells(cells: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str, str, str], float]]:
    """Every stored number with its study, measure, series and place."""
    for name, measures in cells.items():
        for measure, table in measures.items():
            for series, row in table.items():
                for place, value in row.items():
                    yield (name, measure, series, place), value


def _cell(outcome: Outcome, name: str, measure: str, series: str, place: str) -> Cell | None:
    study = outcome.studies.get(name)
    return None if study is None else study.cells.get(measure, {}).get(series, {}).get(place)


def _in_words(verdict: str, where: Sequence[str]) -> str:
    """A verdict with the places where it holds, which make the difference between two that "hold when"."""
    return f"holds at {', '.join(where)}" if verdict == "holds when" else verdict


def read_expected(reproduction: Reproduction) -> dict[str, Any] | None:
    """The expected numbers of a reproduction, or None when none are stored."""
    path = reproduction.folder / "expected.json"
    if not path.exists():
        return None
    text = read_text(path)
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path}: not valid JSON ({brief_value(error)}); restore it, or store it by --accept."
        ) from error
    return _model(ExpectedSection, given, f"{path}:").model_dump()
