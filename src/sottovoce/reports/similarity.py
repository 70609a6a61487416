"""How much of a record an observer rebuilds: similarity against epsilon, and what is exact without noise."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from sottovoce.reports.painting import paint
from sottovoce.reports.pictures.leak_pictures import Points, similarity_picture


def similarity_curves(
    epsilons: Sequence[float],
    lines: Mapping[str, Points],
    *,
    chance: float | None = None,
    theory: Mapping[str, Sequence[float]] | None = None,
    x_label: str = "epsilon",
    y_label: str = "similarity",
    caption: str | None = None,
    title: str | None = None,
) -> Figure:
    """Similarity in [0, 1] against epsilon, one line for every scheme and observer; less noise is to the right.

    Args:
        epsilons: from the largest down; infinity is no noise, and stands apart at the right end.
        lines: label -> (means, standard errors), one of each per epsilon.
        chance: what guessing attains, a grey line.
        theory: label -> exact means, drawn thin.
        x_label: of the axis, with its delta.
        y_label: which similarity.
        caption: what is shown, under the picture.
        title: above the picture.

    Raises:
        ConfigError: epsilons that do not fall, a line of another length, or a similarity outside [0, 1].
    """
    picture = similarity_picture(
        epsilons, lines, chance=chance, theory=theory, x_label=x_label, y_label=y_label, title=title or ""
    )
    return paint(picture, caption=caption)
