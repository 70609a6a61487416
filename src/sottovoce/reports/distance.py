"""Privacy loss against graph distance, painted."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from sottovoce.reports.painting import paint
from sottovoce.reports.pictures.distance_picture import LossLine, Shown, distance_picture


def loss_by_distance(
    lines: Mapping[str, LossLine],
    *,
    y_label: str,
    compared: Mapping[str, LossLine] | None = None,
    names: tuple[str, str] = ("exact", "compared"),
    local: tuple[str, float] | None = None,
    x_label: str = "graph distance (links)",
    least: float | None = None,
    log_y: bool = True,
    percent: bool = False,
    title: str | None = None,
) -> Figure:
    """Lines over distance, named at their ends; what a line is compared with has its colour, dotted. More than six get panels.

    Args:
        lines: label -> loss; a band is drawn from low to high.
        y_label: which loss, with its unit.
        compared: label -> loss to be compared with the line of the same label.
        names: what solid and dotted lines are called, where there are dotted ones.
        local: name and value of the loss without a network, a grey line.
        x_label: what the places are.
        least: where a logarithmic axis begins; None: below the smallest value.
        log_y: a logarithmic vertical axis, on which zeros are left out.
        percent: the losses are shares.
        title: above the picture.

    Raises:
        ConfigError: nothing to draw, arrays of different lengths, values that are not finite or below 0, or a comparison without its line.
    """
    shown = Shown(y_label=y_label, x_label=x_label, log_y=log_y, percent=percent, least=least, names=names, local=local)
    return paint(distance_picture(lines, shown, compared=compared, title=title or ""))
