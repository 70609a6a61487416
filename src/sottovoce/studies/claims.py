"""Claims of a document, checked at every place of a study.

    ratio    value of one series over another, at_most or at_least a number
    slope    slope of a series in log-log against the across values, between two numbers
    gap      slope in log-log of the ratio of one series to another, between two numbers; the ratios are shown beside it
    falls    a series falls along the across values: last over first at_most a number
    limits   a series is at most a number of its own at each of the places named

"holds" when it holds everywhere, "does not hold" when nowhere, otherwise "holds when" with the places.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from sottovoce.errors import ConfigError
from sottovoce.experiments import Section
from sottovoce.studies.cells import Cell
from sottovoce.studies.curves import StudySection
from sottovoce.studies.privacy_study import PrivacyStudySection

AnyStudy = StudySection | PrivacyStudySection

Answer = Literal["holds", "does not hold", "holds when"]
Table = Mapping[str, Mapping[str, Cell]]  # [series][place]
Found = tuple[dict[str, float], dict[str, bool]]  # the number at every place, and where it is as claimed


class RatioCheck(Section):
    """One series against another."""

    kind: Literal["ratio"]
    of: str
    to: str
    at_most: float | None = None
    at_least: float | None = None

    def found(self, values: dict[str, float], claim_id: str) -> Found:
        """The ratio at every place."""
        low = -math.inf if self.at_least is None else self.at_least
        high = math.inf if self.at_most is None else self.at_most
        return values, {place: low <= number <= high for place, number in values.items()}

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

    def found(self, values: dict[str, float], claim_id: str) -> Found:
        """The slope alone."""
        slope = _slope(values, claim_id)
        return {"slope": slope}, {"slope": self.between[0] <= slope <= self.between[1]}


class GapCheck(Section):
    """Slope in log-log of the ratio of two series."""

    kind: Literal["gap"]
    of: str
    to: str
    between: list[float] = Field(min_length=2, max_length=2)

    def found(self, values: dict[str, float], claim_id: str) -> Found:
        """The slope of the ratios, and the ratios."""
        slope = _slope(values, claim_id)
        return {"slope": slope, **values}, {"slope": self.between[0] <= slope <= self.between[1]}


class FallsCheck(Section):
    """Last value over first value."""

    kind: Literal["falls"]
    of: str
    at_most: float

    def found(self, values: dict[str, float], claim_id: str) -> Found:
        """The last value over the first."""
        numbers = list(values.values())
        ratio = _quotient(numbers[-1], numbers[0], claim_id)
        return {"last over first": ratio}, {"last over first": ratio <= self.at_most}


class LimitsCheck(Section):
    """A value at most a number, place by place."""

    kind: Literal["limits"]
    of: str
    at_most: dict[str, float] = Field(min_length=1)

    def found(self, values: dict[str, float], claim_id: str) -> Found:
        """The value at every place that has a limit."""
        named = {place: values[place] for place in self.at_most}
        return named, {place: number <= self.at_most[place] for place, number in named.items()}


class ClaimSection(Section):
    """A sentence of the document and how it is checked."""

    id: str
    text: str
    study: str
    measure: str
    check: Annotated[RatioCheck | SlopeCheck | GapCheck | FallsCheck | LimitsCheck, Field(discriminator="kind")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of a claim: the number found at every place, and where it holds."""

    claim: ClaimSection
    verdict: Answer
    where: tuple[str, ...]  # places where it holds
    numbers: dict[str, float]
    exact: dict[str, float]  # the same from exact theory, where there is one


def check_claim(claim: ClaimSection, studies: Mapping[str, AnyStudy], source: str) -> None:
    """Refuse a claim that names what its study does not have, before anything is run."""
    place = f"{source}: claim {claim.id!r}"
    if claim.study not in studies:
        raise ConfigError(f"{place} names study {claim.study!r}, which is not one of {', '.join(sorted(studies))}.")
    study = studies[claim.study]
    if claim.measure not in study.measures:
        raise ConfigError(f"{place} names measure {claim.measure!r}; its study has {', '.join(study.measures)}.")
    lines, check = study.lines(), claim.check
    for name in (check.of, *([check.to] if isinstance(check, RatioCheck | GapCheck) else [])):
        if name not in lines:
            raise ConfigError(f"{place} names series {name!r}; its study has {', '.join(lines)}.")
    if isinstance(check, LimitsCheck):
        _check_places(list(check.at_most), study.places(), place)
    if isinstance(check, SlopeCheck | GapCheck):
        _check_slope(study.places(), place)


def _check_places(named: Sequence[str], known: Sequence[str], where: str) -> None:
    """Refuse limits at places that the study does not have."""
    if missing := [each for each in named if each not in known]:
        raise ConfigError(f"{where} names the place {missing[0]!r}; its study has {', '.join(known)}.")


def _check_slope(places: Sequence[str], where: str) -> None:
    """Refuse a slope along what is no axis."""
    try:
        numbers = [float(value) for value in places]
    except ValueError as error:
        raise ConfigError(f"{where} asks for a slope along values that are not numbers.") from error
    if len(set(numbers)) < 2 or min(numbers) <= 0:
        raise ConfigError(f"{where} asks for a slope in log-log; across needs two or more numbers, all above 0.")


def judge(claim: ClaimSection, cells: Table) -> Verdict:
    """Evaluate a claim on the cells of its study."""
    numbers, right = _evaluate(claim, cells, lambda cell: cell.value)
    covered = all(cell.theory is not None for row in cells.values() for cell in row.values())
    exact = _evaluate(claim, cells, lambda cell: float(cell.theory or 0.0))[0] if covered else {}
    where = tuple(place for place, good in right.items() if good)
    verdict: Answer = "holds when"
    if len(where) in (0, len(right)):
        verdict = "holds" if where else "does not hold"
    return Verdict(claim=claim, verdict=verdict, where=where, numbers=numbers, exact=exact)


def _evaluate(claim: ClaimSection, cells: Table, value: Callable[[Cell], float]) -> Found:
    check = claim.check
    values = {place: value(cell) for place, cell in cells[check.of].items()}
    if isinstance(check, RatioCheck | GapCheck):
        values = {place: _quotient(number, value(cells[check.to][place]), claim.id) for place, number in values.items()}
    return check.found(values, claim.id)


def _slope(values: Mapping[str, float], claim_id: str) -> float:
    """The slope in log-log of values against their places."""
    if not all(0 < number < math.inf for number in values.values()):
        raise ConfigError(
            f"claim {claim_id!r} asks for a slope in log-log, but not all its values are finite and above 0."
        )
    x = np.log([float(place) for place in values])
    return float(np.polyfit(x, np.log(list(values.values())), 1)[0])


def _quotient(number: float, divisor: float, claim_id: str) -> float:
    if divisor == 0 or not (math.isfinite(number) or math.isfinite(divisor)):
        raise ConfigError(
            f"claim {claim_id!r} asks for {number:g} over {divisor:g}, which is no number. Compare other series."
        )
    return number / divisor
