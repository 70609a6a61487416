"""What every agent's data look like: its labels, or the spread of its targets."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from sottovoce.errors import ConfigError
from sottovoce.reports import style
from sottovoce.reports.caption import put_caption

MAX_LABELS = 12


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
    agents = [np.asarray(values).ravel() for values in targets]
    labels = _labels(agents)
    with style.applied():
        figure, picture = style.new_figure(float(np.clip(3.0 + 0.16 * len(agents), 6.0, 11.0)), 4.0)
        axes = picture.subplots()
        axes.set_xlabel("agent")
        if labels is None:
            _draw_strips(picture, axes, agents)
        else:
            _draw_bars(picture, axes, agents, labels)
        axes.xaxis.set_major_locator(MaxNLocator(15, integer=True))
        axes.set_xlim(-0.8, len(agents) - 0.2)
        axes.grid(visible=False, axis="x")
        style.put_title(axes, title)
        put_caption(figure, caption)
    return figure


def _labels(agents: list[np.ndarray]) -> np.ndarray | None:
    """The labels that occur, rising; None where targets are numbers, or too many for bars."""
    present = [values for values in agents if len(values)]
    if not present:
        raise ConfigError("targets hold no records; there is nothing to draw. Give one array per agent.")
    records = np.concatenate(present)
    numeric = records.dtype.kind in "iufb"
    labels = np.unique(records)
    if numeric:
        if not np.isfinite(labels).all():
            raise ConfigError("targets hold values that are not finite; remove those records or fill them in.")
        whole = (labels == np.round(labels.astype(float))).all()
        return labels if whole and len(labels) <= MAX_LABELS else None
    if records.dtype.kind not in "US":
        raise ConfigError(f"targets have type {records.dtype}; they must be numbers or texts.")
    if len(labels) > MAX_LABELS:
        raise ConfigError(f"targets hold {len(labels)} texts; at most {MAX_LABELS} labels can be drawn. Group them.")
    return labels


def _draw_bars(picture: SubFigure, axes: Axes, agents: list[np.ndarray], labels: np.ndarray) -> None:
    below = np.zeros(len(agents))
    for position, label in enumerate(labels):
        counts = np.array([np.count_nonzero(values == label) for values in agents], dtype=float)
        colours = len(style.PALETTE)
        # Neighbouring labels alternate between plain and hatched: without colour they still differ.
        hatch = style.HATCHES[2 * (position // colours) + position % 2]
        axes.bar(
            np.arange(len(agents)), counts, bottom=below, width=0.82, label=_text(label), hatch=hatch,
            color=style.PALETTE[position % colours], edgecolor="white", linewidth=0.5,
        )  # fmt: skip
        below += counts
    axes.set_ylabel("records")
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    bars, names = axes.get_legend_handles_labels()
    look = {"title": "label", "handlelength": 1.8, "handleheight": 1.1}
    picture.legend(bars[::-1], names[::-1], loc="outside right upper", **look)


def _draw_strips(picture: SubFigure, axes: Axes, agents: list[np.ndarray]) -> None:
    present = [agent for agent, values in enumerate(agents) if len(values)]
    levels = (0.05, 0.25, 0.5, 0.75, 0.95)
    p5, p25, p50, p75, p95 = np.array([np.quantile(agents[agent], levels) for agent in present]).T
    thick = float(np.clip(200 / len(agents), 1.5, 7))
    look = {"color": style.PALETTE[0]}
    axes.vlines(present, p5, p95, linewidth=1.0, **look)  # type: ignore[arg-type]
    axes.vlines(present, p25, p75, linewidth=thick, alpha=0.55, **look)  # type: ignore[arg-type]
    axes.plot(present, p50, "o", markersize=min(thick + 0.5, 5), color=style.PALETTE[1], markeredgecolor="white")
    axes.set_ylabel("target")
    handles = [
        Line2D([], [], linestyle="", marker="o", markersize=5, color=style.PALETTE[1], label="median"),
        Line2D([], [], linewidth=5, alpha=0.55, label="25–75 %", **look),  # type: ignore[arg-type]
        Line2D([], [], linewidth=1.0, label="5–95 %", **look),  # type: ignore[arg-type]
    ]
    picture.legend(handles=handles, loc="outside lower center", ncols=3)


def _text(label: object) -> str:
    return f"{label:g}" if isinstance(label, np.floating | float) else str(label)
