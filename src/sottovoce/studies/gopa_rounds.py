"""What studies of private averaging by GOPA have in common (Sabater et al. 2022, arXiv 2006.07218): rounds of the protocol, played in whole numbers.

n parties hold vectors in a ball of l2 diameter 1; at least a share rho of them is honest. The variance of a coordinate of the average is measured
beside that of a trusted curator, 1 / (mu n)^2, and of local privacy, 1 / (mu^2 n), which are computed. The coordinates of one round have
independent errors, so that their mean square measures the variance, to a standard error of sqrt(2 / coordinates).

A hundredth of delta is set aside: half for a graph that falls apart, half for rounding and imperfect draws.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from sottovoce.accounting import gopa
from sottovoce.deployment.integers import FixedPoint, ring, signed
from sottovoce.experiments import Delta, Positive, Seed
from sottovoce.reports import pictures
from sottovoce.studies.cells import Cell
from sottovoce.studies.privacy_study import PrivacyStudyResult, PrivacyStudySection

LOCAL, CENTRAL = "local", "central"
ENCODING = FixedPoint(clip=0.5, fraction_bits=20)  # l2 diameter 1
UNIT = 2.0**ENCODING.fraction_bits
SET_ASIDE = 0.01  # share of delta kept for bad graphs, rounding and imperfect draws
Share = Annotated[float, Field(gt=0, le=1)]
Parties = Annotated[int, Field(ge=4)]
Coordinates = Annotated[int, Field(ge=2)]


class GopaSection(PrivacyStudySection):
    """What both studies of GOPA have: the target, and how much is played."""

    epsilon: Positive
    delta: Delta
    coordinates: Coordinates
    seed: Seed


def vectors(generator: np.random.Generator, num_parties: int, dimension: int) -> np.ndarray:
    """[n, d] encoded vectors inside the ball."""
    largest = math.floor(ENCODING.largest / math.sqrt(dimension))
    return generator.integers(-largest, largest, size=(num_parties, dimension), endpoint=True)


def error_of_average(total: np.ndarray, units: np.ndarray, survivors: np.ndarray) -> np.ndarray:
    """[d] the decoded sum less the true one, over the number of those who published."""
    off = signed(total - ring(units[survivors].sum(axis=0)))
    return np.asarray(off / (UNIT * survivors.sum()))


def bounds_of(section: GopaSection, n: int) -> dict[str, Cell]:
    """A trusted curator and local privacy, with the same target."""
    target: dict[str, Any] = {"epsilon": section.epsilon, "delta": section.delta, "sensitivity": 1.0}
    values = {LOCAL: gopa.local_variance(n, **target), CENTRAL: gopa.central_variance(n, **target)}
    return {line: Cell(value=value, error=0.0, theory=value) for line, value in values.items()}


def mean_square(errors: np.ndarray, exact: float) -> Cell:
    """The mean square; its standard error is that over coordinates."""
    squares = errors**2
    return Cell(
        value=float(squares.mean()), error=float(squares.std(ddof=1)) / math.sqrt(len(squares)), theory=float(exact)
    )


def variance_picture(result: PrivacyStudyResult, *, title: str) -> pictures.Picture:
    """The variance in multiples of a trusted curator's: markers where it was measured, dashed lines for what is exact."""
    section = result.section
    assert isinstance(section, GopaSection)
    table = result.cells["variance"]
    unit = np.array([cell.value for cell in table[CENTRAL].values()])
    looks = pictures.colours.looks(section.lines(), pictures.colours.STANDINGS)
    lines = [
        line for name in section.lines() for line in _lines(name, table[name], unit, looks[name], section.places())
    ]
    ticks = tuple((float(place), f"{float(place):,.10g}") for place in section.places())
    return pictures.Picture(
        title=title,
        subtitle=f"epsilon = {section.epsilon:g} at delta = {section.delta:g} for every line",
        panels=(
            pictures.Panel(
                x=pictures.Axis(label=section.axis, scale="log", ticks=ticks),
                y=pictures.Axis(label="variance of the average, times that of a trusted curator", scale="log"),
                lines=tuple(lines),
            ),
        ),
        keys=(
            pictures.Key(name="measured", colour=pictures.colours.GREY, dash="none", marker="o"),
            pictures.Key(name="exact", colour=pictures.colours.GREY, dash="dashed"),
        ),
    )


def _lines(
    name: str, cells: Mapping[str, Cell], unit: np.ndarray, look: pictures.colours.Look, places: Sequence[str]
) -> list[pictures.Line]:
    """The exact line, with its last value, and where something was measured the points with bars of two standard errors."""
    x = tuple(float(place) for place in places)
    exact = [
        (cell.value if cell.theory is None else cell.theory) / one
        for cell, one in zip(cells.values(), unit, strict=True)
    ]
    line = pictures.Line(
        name=name, x=x, y=tuple(exact), colour=look.colour, dash="solid" if name in (LOCAL, CENTRAL) else "dashed",
        width=1.4 if name in (LOCAL, CENTRAL) else 1.0, label=f"{name}: {pictures.words.number(exact[-1])} times",
    )  # fmt: skip
    if name in (LOCAL, CENTRAL):
        return [line]
    values = [cell.value / one for cell, one in zip(cells.values(), unit, strict=True)]
    errors = [2 * cell.error / one for cell, one in zip(cells.values(), unit, strict=True)]
    measured = pictures.Line(
        name=f"measured {name}", x=x, y=tuple(values), colour=look.colour, dash="none", marker=look.marker, bars=True,
        low=tuple(value - error for value, error in zip(values, errors, strict=True)),
        high=tuple(value + error for value, error in zip(values, errors, strict=True)),
    )  # fmt: skip
    return [line, measured]
