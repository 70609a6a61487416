"""What studies of private averaging by GOPA have in common (Sabater et al. 2022, arXiv 2006.07218): rounds of the protocol, played in whole numbers.

n parties hold vectors in a ball of l2 diameter 1; at least a share rho of them is honest. The variance of a coordinate of the average is measured
beside that of a trusted curator, 1 / (mu n)^2, and of local privacy, 1 / (mu^2 n), which are computed. The coordinates of one round have
independent errors, so that their mean square measures the variance, to a standard error of sqrt(2 / coordinates).

A hundredth of delta is set aside: half for a graph that falls apart, half for rounding and imperfect draws.
"""

import math
from typing import Annotated, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from pydantic import Field

from sottovoce.accounting import gopa
from sottovoce.deployment.gopa import FixedPoint, ring, signed
from sottovoce.experiments import Delta, Positive, Seed
from sottovoce.reports import style
from sottovoce.studies.cells import Cell
from sottovoce.studies.privacy_study import PrivacyStudyResult, PrivacyStudySection

LOCAL, CENTRAL = "local", "central"
ENCODING = FixedPoint(clip=0.5, fraction_bits=20)  # l2 diameter 1
UNIT = 2.0**ENCODING.fraction_bits
SET_ASIDE = 0.01  # share of delta kept for bad graphs, rounding and imperfect draws
_BOUNDS: dict[str, tuple[str, Any]] = {LOCAL: ("#4D4D4D", (0, (1.2, 1.2))), CENTRAL: ("black", "-")}
_EXACT: Any = style.THEORY["linestyle"]
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


def _measured(result: PrivacyStudyResult) -> list[str]:
    return [line for line in result.section.lines() if line not in _BOUNDS]


def draw_lines(axes: Axes, result: PrivacyStudyResult, *, relative: bool) -> None:
    """Markers where something was measured, dashed lines for what is exact."""
    table, looks = result.cells["variance"], style.line_looks(_measured(result))
    x = [float(place) for place in result.section.places()]
    unit = [cell.value if relative else 1.0 for cell in table[CENTRAL].values()]
    for line, (colour, dashes) in _BOUNDS.items():
        y = [cell.value / one for cell, one in zip(table[line].values(), unit, strict=True)]
        axes.plot(x, y, color=colour, linestyle=dashes, linewidth=1.4, zorder=1)
    for line, look in looks.items():
        cells = list(zip(table[line].values(), unit, strict=True))
        exact = [(cell.theory or 0.0) / one for cell, one in cells]
        axes.plot(x, exact, color=look.color, linestyle=_EXACT, linewidth=1.0, zorder=2)
        axes.errorbar(
            x, [cell.value / one for cell, one in cells], yerr=[2 * cell.error / one for cell, one in cells], color=look.color,
            marker=look.marker, linestyle="", markersize=5.5, capsize=3, elinewidth=1.0, zorder=3,
        )  # fmt: skip
        if relative:
            axes.annotate(
                f"{exact[-1]:.3g}", (x[-1], exact[-1]), xytext=(10, 0), textcoords="offset points", va="center",
                fontsize=9, color=look.color, annotation_clip=False,
            )  # fmt: skip


def handles_of(result: PrivacyStudyResult) -> list[Line2D]:
    """The entries of the legend, in the order of the lines."""
    found = {
        line: Line2D([], [], color=look.color, marker=look.marker, markersize=5.5, linestyle=_EXACT, linewidth=1.0)
        for line, look in style.line_looks(_measured(result)).items()
    }  # fmt: skip
    found |= {
        line: Line2D([], [], color=colour, linestyle=dashes, linewidth=1.4)
        for line, (colour, dashes) in _BOUNDS.items()
    }
    for line in result.section.lines():
        found[line].set_label(line)
    return [found[line] for line in result.section.lines()]
