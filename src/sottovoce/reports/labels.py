"""What every agent's data look like: its labels, or the spread of its targets."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from sottovoce.reports import style
from sottovoce.reports.caption import put_caption
from sottovoce.reports.pictures.colours import PALETTE
from sottovoce.reports.pictures.label_picture import LabelPicture, label_picture


def label_distribution(
    targets: Sequence[np.ndarray], *, caption: str | None = None, title: str | None = None
) -> Figure:  # fmt: skip
    """One stacked bar of label counts per agent; for more than 12 labels or real targets, their quantiles per agent.

    Whole numbers, booleans and texts count as labels. The strip of an agent shows 5-95 % (thin), 25-75 % (thick) and the
    median (dot). An agent without records has an empty place.

    Args:
        targets: one array of labels or numbers per agent, of any lengths.
        caption: what is shown, under the picture.
        title: above the picture.

    Raises:
        ConfigError: no records, values that are not finite, or more than 12 labels that are texts.
    """
    return paint_labels(label_picture(targets, title=title), caption=caption)


def paint_labels(picture: LabelPicture, *, caption: str | None = None) -> Figure:
    """A figure that shows what every agent's data look like."""
    with style.applied():
        figure, whole = style.new_figure(float(np.clip(3.0 + 0.16 * picture.agents, 6.0, 11.0)), 4.0)
        axes = whole.subplots()
        axes.set_xlabel("agent")
        if picture.counts is None:
            _draw_strips(whole, axes, picture)
        else:
            _draw_bars(whole, axes, picture)
        axes.xaxis.set_major_locator(MaxNLocator(15, integer=True))
        axes.set_xlim(-0.8, picture.agents - 0.2)
        axes.grid(visible=False, axis="x")
        style.put_title(axes, picture.title or None)
        put_caption(figure, caption)
    return figure


def _draw_bars(whole: SubFigure, axes: Axes, picture: LabelPicture) -> None:
    assert picture.counts is not None
    assert picture.colours is not None
    below = np.zeros(picture.agents)
    for position, (label, given) in enumerate(picture.counts.items()):
        counts = np.asarray(given, dtype=float)
        # Neighbouring labels alternate between plain and hatched: without colour they still differ.
        hatch = style.HATCHES[2 * (position // len(PALETTE)) + position % 2]
        axes.bar(
            np.arange(picture.agents), counts, bottom=below, width=0.82, label=label, hatch=hatch,
            color=picture.colours[label], edgecolor="white", linewidth=0.5,
        )  # fmt: skip
        below += counts
    axes.set_ylabel("records")
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    bars, names = axes.get_legend_handles_labels()
    look = {"title": "label", "handlelength": 1.8, "handleheight": 1.1}
    whole.legend(bars[::-1], names[::-1], loc="outside right upper", **look)


def _draw_strips(whole: SubFigure, axes: Axes, picture: LabelPicture) -> None:
    assert picture.quantiles is not None
    present = list(picture.quantiles)
    p5, p25, p50, p75, p95 = np.array(list(picture.quantiles.values())).T
    thick = float(np.clip(200 / picture.agents, 1.5, 7))
    look = {"color": PALETTE[0]}
    axes.vlines(present, p5, p95, linewidth=1.0, **look)  # type: ignore[arg-type]
    axes.vlines(present, p25, p75, linewidth=thick, alpha=0.55, **look)  # type: ignore[arg-type]
    axes.plot(present, p50, "o", markersize=min(thick + 0.5, 5), color=PALETTE[1], markeredgecolor="white")
    axes.set_ylabel("target")
    handles = [
        Line2D([], [], linestyle="", marker="o", markersize=5, color=PALETTE[1], label="median"),
        Line2D([], [], linewidth=5, alpha=0.55, label="25–75 %", **look),  # type: ignore[arg-type]
        Line2D([], [], linewidth=1.0, label="5–95 %", **look),  # type: ignore[arg-type]
    ]
    whole.legend(handles=handles, loc="outside lower center", ncols=3)
