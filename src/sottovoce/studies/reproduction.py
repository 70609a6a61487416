"""Reproductions: a document's experiment as a configuration, the claims it makes, and a verdict on each.

A reproduction is a folder with `config.toml` (an ordinary configuration plus `[[study]]`, `[[privacy_study]]` and `[[claim]]` tables),
`expected.json` (the numbers and verdicts we found, with tolerances) and a README. A claim is checked at every place of its study:

    ratio    value of one series over another, at_most or at_least a number
    slope    slope of a series in log-log against the across values, between two numbers
    gap      slope in log-log of the ratio of one series to another, between two numbers; the ratios are shown beside it
    falls    a series falls along the across values: last over first at_most a number

"holds" when it holds everywhere, "does not hold" when nowhere, otherwise "holds when" with the places.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import numpy as np
from pydantic import Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from sottovoce.errors import ConfigError
from sottovoce.experiments.config.config import Section
from sottovoce.experiments.config.toml_file import apply_override, read_toml
from sottovoce.experiments.config.values import NonNegative, brief_value, checked_label, complaint
from sottovoce.problems.loaders.text import read_text
from sottovoce.studies.curves import Cell, StudyResult, StudySection, run_study
from sottovoce.studies.kinds import read_privacy_study, run_privacy_study
from sottovoce.studies.privacy_study import PrivacyStudyResult, PrivacyStudySection

Cells = Mapping[str, Mapping[str, Cell]]  # [series][across]
AnyStudy = StudySection | PrivacyStudySection
AnySection = TypeVar("AnySection", bound=Section)


class RatioCheck(Section):
    """One series against another."""

    kind: Literal["ratio"]
    of: str
    to: str
    at_most: float | None = None
    at_least: float | None = None

    @model_validator(mode="after")
    def _has_a_bound(self) -> Self:
        if self.at_most is None and self.at_least is None:
            raise ValueError("a ratio needs at_most or at_least; without one it would always hold")
        return self


class SlopeCheck(Section):
    """Slope of a series in log-log."""

    kind: Literal["slope"]
    of: str
    between: list[float] = Field(min_length=2, max_length=2)


class GapCheck(Section):
    """Slope in log-log of the ratio of two series."""

    kind: Literal["gap"]
    of: str
    to: str
    between: list[float] = Field(min_length=2, max_length=2)


class FallsCheck(Section):
    """Last value over first value."""

    kind: Literal["falls"]
    of: str
    at_most: float


class ClaimSection(Section):
    """A sentence of the document and how it is checked."""

    id: str
    text: str
    study: str
    measure: str
    check: Annotated[RatioCheck | SlopeCheck | GapCheck | FallsCheck, Field(discriminator="kind")]


class ReproductionSection(Section):
    """What is reproduced."""

    title: str
    document: str


class ExpectedVerdict(Section):
    """What became of a claim when the numbers were stored."""

    verdict: Literal["holds", "does not hold", "holds when"]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of a claim: the number found at every place, and where it holds."""

    claim: ClaimSection
    verdict: Literal["holds", "does not hold", "holds when"]
    where: tuple[str, ...]  # places where it holds
    numbers: dict[str, float]
    exact: dict[str, float]  # the same from exact theory, where there is one


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """All a reproduction found."""

    reproduction: Reproduction
    studies: dict[str, StudyResult | PrivacyStudyResult]
    verdicts: tuple[Verdict, ...]


def reproductions_folder() -> Path:
    """The folder `reproductions` of the working directory, or of the checkout this package was installed from."""
    for candidate in (Path("reproductions"), Path(__file__).parents[3] / "reproductions"):
        if candidate.is_dir():
            return candidate
    raise ConfigError("no folder `reproductions` here; run this in a checkout of the project, or give a folder's path.")


def list_reproductions() -> dict[str, str]:
    """Name -> title of every reproduction."""
    return {
        path.parent.name: read_reproduction(path.parent).about.title
        for path in sorted(reproductions_folder().glob("*/config.toml"))
    }


def read_reproduction(folder: str | Path, overrides: Sequence[str] = ()) -> Reproduction:
    """Read a reproduction from its folder, or from `reproductions/` when only its name is given.

    Overrides replace keys of the base configuration, which the studies then vary; "name.key" replaces a key of the privacy study with this
    name.

    Raises:
        ConfigError: there is no such reproduction, or its file is malformed.
    """
    folder = Path(folder)
    if not (folder / "config.toml").is_file():
        named = reproductions_folder() / folder
        if not (named / "config.toml").is_file():
            known = ", ".join(path.parent.name for path in sorted(reproductions_folder().glob("*/config.toml")))
            raise ConfigError(f"no reproduction {str(folder)!r}; known: {known}.")
        folder = named
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
        _check_claim(claim, by_name, path)
    return Reproduction(
        name=folder.name, folder=folder, about=about, base=data, studies=studies, claims=claims, privacy_studies=privacy_studies
    )  # fmt: skip


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


def _places(study: AnyStudy) -> list[str]:
    return study.places() if isinstance(study, PrivacyStudySection) else list(study.across.items())


def _check_claim(claim: ClaimSection, studies: Mapping[str, AnyStudy], path: Path) -> None:
    """Refuse a claim that names what its study does not have, before anything is run."""
    place = f"{path}: claim {claim.id!r}"
    if claim.study not in studies:
        raise ConfigError(f"{place} names study {claim.study!r}, which is not one of {', '.join(sorted(studies))}.")
    study = studies[claim.study]
    if claim.measure not in study.measures:
        raise ConfigError(f"{place} names measure {claim.measure!r}; its study has {', '.join(study.measures)}.")
    lines, check = study.lines(), claim.check
    for name in (check.of, *([check.to] if isinstance(check, RatioCheck | GapCheck) else [])):
        if name not in lines:
            raise ConfigError(f"{place} names series {name!r}; its study has {', '.join(lines)}.")
    if isinstance(check, SlopeCheck | GapCheck):
        try:
            numbers = [float(value) for value in _places(study)]
        except ValueError as error:
            raise ConfigError(f"{place} asks for a slope along values that are not numbers.") from error
        if len(set(numbers)) < 2 or min(numbers) <= 0:
            raise ConfigError(f"{place} asks for a slope in log-log; across needs two or more numbers, all above 0.")


def reproduce(reproduction: Reproduction, *, progress: Callable[[str], None] = lambda text: None) -> Outcome:
    """Run all studies and judge all claims."""
    results: dict[str, StudyResult | PrivacyStudyResult] = {}
    source = str(reproduction.folder / "config.toml")
    for study in reproduction.studies:
        results[study.name] = run_study(study, reproduction.base, source=source, progress=progress)
    for other in reproduction.privacy_studies:
        results[other.name] = run_privacy_study(other, reproduction.base, source=source, progress=progress)
    verdicts = tuple(judge(claim, results[claim.study].cells[claim.measure]) for claim in reproduction.claims)
    return Outcome(reproduction=reproduction, studies=results, verdicts=verdicts)


def judge(claim: ClaimSection, cells: Cells) -> Verdict:
    """Evaluate a claim on the cells of its study."""
    numbers, right = _evaluate(claim, cells, lambda cell: cell.value)
    covered = all(cell.theory is not None for row in cells.values() for cell in row.values())
    exact = _evaluate(claim, cells, lambda cell: float(cell.theory or 0.0))[0] if covered else {}
    where = tuple(place for place, good in right.items() if good)
    verdict: Literal["holds", "does not hold", "holds when"] = "holds when"
    if len(where) in (0, len(right)):
        verdict = "holds" if where else "does not hold"
    return Verdict(claim=claim, verdict=verdict, where=where, numbers=numbers, exact=exact)


def _evaluate(
    claim: ClaimSection, cells: Cells, value: Callable[[Cell], float]
) -> tuple[dict[str, float], dict[str, bool]]:
    check = claim.check
    values = {place: value(cell) for place, cell in cells[check.of].items()}
    if isinstance(check, RatioCheck | GapCheck):
        values = {place: _quotient(number, value(cells[check.to][place]), claim) for place, number in values.items()}
    if isinstance(check, RatioCheck):
        low = -np.inf if check.at_least is None else check.at_least
        high = np.inf if check.at_most is None else check.at_most
        return values, {place: low <= number <= high for place, number in values.items()}
    if isinstance(check, SlopeCheck | GapCheck):
        if not all(0 < number < math.inf for number in values.values()):
            raise ConfigError(
                f"claim {claim.id!r} asks for a slope in log-log, but not all its values are finite and above 0."
            )
        x = np.log([float(place) for place in values])
        slope = float(np.polyfit(x, np.log(list(values.values())), 1)[0])
        shown = {"slope": slope} | (values if isinstance(check, GapCheck) else {})
        return shown, {"slope": check.between[0] <= slope <= check.between[1]}
    found = list(values.values())
    ratio = _quotient(found[-1], found[0], claim)
    return {"last over first": ratio}, {"last over first": ratio <= check.at_most}


def _quotient(number: float, divisor: float, claim: ClaimSection) -> float:
    if divisor == 0 or not (math.isfinite(number) or math.isfinite(divisor)):
        raise ConfigError(
            f"claim {claim.id!r} asks for {number:g} over {divisor:g}, which is no number. Compare other series."
        )
    return number / divisor


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
    for name, measures in expected["cells"].items():
        for measure, table in measures.items():
            for series, row in table.items():
                for place, value in row.items():
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
    try:
        given = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path}: not valid JSON ({brief_value(error)}); restore it, or store it by --accept."
        ) from error
    return _model(ExpectedSection, given, f"{path}:").model_dump()
