"""An error against a swept quantity, painted."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from sottovoce.reports.painting import paint
from sottovoce.reports.pictures.picture import Axis
from sottovoce.reports.pictures.sweep_picture import sweep_picture


def scaling(
    series: Mapping[str, tuple[ArrayLike, ArrayLike, ArrayLike | None]],
    *,
    x_label: str,
    y_label: str,
    log_x: bool = True,
    log_y: bool = True,
    percent: bool = False,
    reference_slopes: Sequence[float] | None = None,
    caption: str | None = None,
    title: str | None = None,
    subtitle: str = "",
) -> Figure:
    """One line with error bars per series, named at its end.

    A reference slope s is the line y = c x^s on logarithmic axes, with c such that it runs below the series whose own slope is nearest to s.
    Lines are named at their ends, and more than six get several panels. A logarithmic x axis of few values has its ticks there.

    Args:
        series: label -> (x, y, y_error), one entry per point; y_error is the half-length of the bar, or None.
        x_label: the swept quantity, with its unit.
        y_label: what was measured, with its unit.
        log_x: logarithmic x axis.
        log_y: logarithmic y axis.
        percent: what was measured are shares.
        reference_slopes: exponents s to compare with.
        caption: what was run, under the picture.
        title: above the picture.
        subtitle: below the title, epsilon for instance.

    Raises:
        ConfigError: no series, arrays of different lengths, values that are not finite (or not positive on a logarithmic
            axis), or reference slopes without two logarithmic axes.
    """
    x = Axis(label=x_label, scale="log" if log_x else "linear")
    y = Axis(label=y_label, scale="log" if log_y else "linear", percent=percent)
    picture = sweep_picture(series, x, y, slopes=reference_slopes or (), title=title or "", subtitle=subtitle)
    return paint(picture, caption=caption)
