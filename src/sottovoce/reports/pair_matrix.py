"""The matrix of pairs as a figure: row u is whose data, column v who looks."""

from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from sottovoce.reports.painting import paint
from sottovoce.reports.pictures.pair_pictures import matrix_picture


def heat_map(
    matrix: ArrayLike,
    *,
    label: str,
    largest: float | None = None,
    caption: str | None = None,
    title: str | None = None,
) -> Figure:
    """One coloured square for every ordered pair, agents in the order of their numbers.

    Pairs without a number (an agent and itself) are grey, infinite ones vermilion.

    Args:
        matrix: [K, K] loss; row u is whose data, column v who looks.
        label: which loss, with its unit.
        largest: where the colours end; None: the largest finite loss.
        caption: what is shown, under the picture.
        title: above the picture.

    Raises:
        ConfigError: not a square matrix, nothing finite in it, or a negative loss.
    """
    limits = None if largest is None else (0.0, largest or 1.0)
    return paint(matrix_picture(matrix, label=label, limits=limits, title=title or ""), caption=caption)
