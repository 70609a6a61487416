"""Paint a picture value with Matplotlib: the only thing that this module knows of is `pictures.Picture`."""

import textwrap
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, to_rgb
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Annotation
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullLocator,
    StrMethodFormatter,
)

from sottovoce.reports import style
from sottovoce.reports.caption import put_caption
from sottovoce.reports.pictures import words
from sottovoce.reports.pictures.colours import NOTHING_HIDDEN, OWN, ink
from sottovoce.reports.pictures.picture import Axis, Cells, Key, Level, Line, Panel, Picture, Text, spread

LABEL_AT = 16  # points from the edge of a panel to the labels of its lines
NEAR_EDGE = 0.05  # of a panel's width: lines that end so near the edge have their labels in one column
RANGE_AT = 0.97  # of a panel's width: where the range around a level stands
LABEL_SIZE = 9.5  # points
LABEL_GAP = 1.3 * LABEL_SIZE  # points between the middles of two labels
NOTE_LETTERS, TITLE_LETTERS, AXIS_LETTERS = 56, 44, 46  # on each line
TICK_LETTERS = 70  # that fit beside each other below a panel; longer names are turned
DASHES: dict[str, Any] = {
    "solid": "-", "dashed": (0, (6, 1.5)), "dotted": (0, (1.2, 1.2)), "dashdot": (0, (6, 1.5, 1.2, 1.5)), "none": "",
}  # fmt: skip
LABEL, FACTS, NOTE = "line-end", "facts", "note"  # by which tests and callers find texts


def paint(picture: Picture, *, caption: str | None = None) -> Figure:
    """A figure that shows a picture value; nothing is computed here but places."""
    count = len(picture.panels)
    columns = picture.columns or (2 if count in (2, 4) else min(count, 3))
    rows = -(-count // columns)
    width, height = picture.panel_size
    with style.applied():
        below = 0.21 * (len(picture.facts) + bool(picture.facts_title)) + 0.24 * bool(picture.keys)
        above = 0.26 * (1 + picture.title.count("\n")) * bool(picture.title) + 0.22 * (
            1 + picture.subtitle.count("\n")
        ) * bool(picture.subtitle)
        figure, whole = style.new_figure(max(width * columns, 6.0), height * rows + below + above)
        grid = whole.subplots(rows, columns, sharey=picture.same_y, squeeze=False)
        for axes, panel in zip(grid.flat, picture.panels, strict=False):
            _paint_panel(axes, panel)
            if columns > 1 and panel.x.whole:
                axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        for position in range(count, rows * columns):
            grid.flat[position].remove()
        for row in grid:
            for axes in row[1:]:
                if picture.same_y and axes.figure is not None:
                    axes.set_ylabel("")
        _paint_title(whole, picture)
        _paint_below(whole, picture)
        _spread_labels(figure, [axes for axes in grid.flat[:count]])
        put_caption(figure, caption)
    return figure


def titled(picture: Picture, title: str | None) -> Picture:
    """The picture with another title, where one is given."""
    return picture if title is None else replace(picture, title=title)


def _paint_title(whole: SubFigure, picture: Picture) -> None:
    """Title in the size of titles, and the lines of the subtitle below it in small letters."""
    if picture.subtitle:
        whole.suptitle(f"{picture.title}\n{picture.subtitle}", fontsize=11)
    elif picture.title:
        whole.suptitle(picture.title)


def _paint_panel(axes: Axes, panel: Panel) -> None:
    _paint_axis(axes, "x", panel.x)
    _paint_axis(axes, "y", panel.y)
    for level in panel.levels:
        _paint_level(axes, level)
    _paint_lines(axes, panel)
    if panel.cells is not None:
        _paint_cells(axes, panel.cells)
    for text in panel.texts:
        _paint_text(axes, text)
    for which, axis in (("x", panel.x), ("y", panel.y)):
        if axis.limits is not None:
            getattr(axes, f"set_{which}lim")(*axis.limits)
        if axis.scale == "log" and axis.ticks is None:
            _plain_logarithms(axes, which, percent_tick if axis.percent else lambda value, _: words.number(value))
    if panel.title:
        axes.set_title(_wrapped(panel.title, TITLE_LETTERS), fontsize=10.5)
    if panel.note:
        axes.annotate(
            _wrapped(panel.note, NOTE_LETTERS), (0.5, 0), xycoords="axes fraction", xytext=(0, -38), textcoords="offset points", ha="center", va="top",
            fontsize=8.5, color="#4A4A4A", gid=NOTE,
        )  # fmt: skip


def _wrapped(text: str, letters: int) -> str:
    """Each line of a text on as many lines as it needs; words stay whole."""
    return "\n".join(part for line in text.split("\n") for part in textwrap.wrap(line, letters, break_on_hyphens=False))


def _paint_lines(axes: Axes, panel: Panel) -> None:
    """The lines with their labels, in one column at the right edge for all that reach it."""
    places = [x for line in panel.lines for x in line.x]
    for position, line in enumerate(panel.lines):
        _paint_line(axes, line, position / len(panel.lines), clipped=panel.y.limits is not None)
        if line.label and line.label_at == "end":
            # A line that leaves the panel is named at the edge where it does.
            low, high = sorted(panel.y.limits or (line.y[-1], line.y[-1]))
            y = min(max(line.y[-1], low), high)
            at_edge = max(places) - line.x[-1] <= NEAR_EDGE * (max(places) - min(places))
            _paint_label(axes, line.label, (1.0 if at_edge else line.x[-1], y), line.colour, across=at_edge)
        elif line.label:
            _paint_peak(axes, line)
    if panel.x.limits is None and panel.x.scale == "linear" and len(set(places)) > 1:
        axes.set_xlim(right=max(places))


def _paint_axis(axes: Axes, which: str, given: Axis) -> None:
    if given.scale == "log":
        getattr(axes, f"set_{which}scale")("log", nonpositive="clip")
    getattr(axes, f"set_{which}label")(_wrapped(given.label, AXIS_LETTERS if which == "y" else 2 * AXIS_LETTERS))
    axis = axes.xaxis if which == "x" else axes.yaxis
    if given.ticks is not None:
        names = dict(given.ticks)
        axis.set_major_locator(FixedLocator(list(names)))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: names.get(value, "")))
        if which == "x" and sum(map(len, names.values())) > TICK_LETTERS:
            axes.tick_params(axis="x", labelrotation=60)
    elif given.percent:
        axis.set_major_formatter(FuncFormatter(percent_tick))
    elif given.whole:
        axis.set_major_locator(MaxNLocator(7, integer=True, steps=[1, 2, 2.5, 5, 10]))
        axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def percent_tick(share: float, _: object) -> str:
    """A share on an axis."""
    return f"{float(f'{100 * share:.4g}'):g} %"


def _plain_logarithms(axes: Axes, which: str, written: Callable[[float, object], str]) -> None:
    """Plain numbers on a logarithmic axis; on a short one between the powers of ten too."""
    low, high = getattr(axes, f"get_{which}lim")()
    axis = axes.xaxis if which == "x" else axes.yaxis
    if high / low < 100:
        axis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if high / low < 10 else (1.0, 2.0, 5.0)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(written))


def _paint_line(axes: Axes, line: Line, turn: float, *, clipped: bool) -> None:
    """One line; `turn`, from 0 to 1, moves its markers along, so that of lines on top of each other both show."""
    if line.area:
        axes.fill_between(line.x, line.y, color=line.colour, alpha=0.3, linewidth=0, step="post")
        axes.step(line.x, line.y, where="post", color=line.colour, linewidth=line.width, label=line.name)
    elif line.bars and line.low is not None and line.high is not None:
        y = np.asarray(line.y)
        axes.errorbar(
            np.asarray(line.x), y, yerr=[y - line.low, np.asarray(line.high) - y], color=line.colour, marker=line.marker,
            linestyle=DASHES[line.dash], linewidth=line.width, markersize=5.5, capsize=3, elinewidth=1.0, label=line.name,
        )  # fmt: skip
    else:
        if line.low is not None and line.high is not None:
            axes.fill_between(line.x, line.low, line.high, color=line.colour, alpha=0.18, linewidth=0)
        every = max(len(line.x) // 8, 1)
        first = int(turn * every)
        axes.plot(
            line.x, line.y, color=line.colour, marker=line.marker or None, linestyle=DASHES[line.dash], linewidth=line.width,
            markevery=(first, every), label=line.name, clip_on=clipped, **_marker_size(line.marker),
        )  # fmt: skip


def _marker_size(marker: str) -> dict[str, Any]:
    """Strokes are drawn longer and thicker than signs with an area."""
    return {"markersize": 12, "markeredgewidth": 2.4} if marker == "|" else {"markersize": 5.5}


def _paint_level(axes: Axes, level: Level) -> None:
    draw = axes.axvline if level.upright else axes.axhline
    draw(level.value, color=level.colour, linestyle=DASHES[level.dash], linewidth=1.3, zorder=2, label=level.name)
    if level.low is not None and level.high is not None:
        axes.plot(
            [RANGE_AT] * 3, [level.low, level.value, level.high], transform=axes.get_yaxis_transform(), marker="_",
            markersize=9, color=level.colour, linewidth=1.3, zorder=2, label=f"_range {level.name}",
        )  # fmt: skip
    if level.label and not level.upright:
        _paint_label(axes, level.label, (1.0, level.value), level.colour, across=True)
    elif level.label:
        axes.annotate(
            level.label, (level.value, 1.0), xycoords=("data", "axes fraction"), xytext=(4, -3), textcoords="offset points",
            va="top", fontsize=LABEL_SIZE - 1, color=ink(level.colour), gid=LABEL,
        )  # fmt: skip


def _paint_label(axes: Axes, text: str, place: tuple[float, float], colour: str, *, across: bool = False) -> None:
    axes.annotate(
        text, place, xycoords=("axes fraction", "data") if across else "data", xytext=(LABEL_AT, 0), textcoords="offset points",
        va="center", fontsize=LABEL_SIZE, color=ink(colour), annotation_clip=False, gid=LABEL,
        arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.7, "shrinkA": 1, "shrinkB": 2, "relpos": (0, 0.5)},
    )  # fmt: skip


def _paint_peak(axes: Axes, line: Line) -> None:
    """A label beside the highest point of a histogram, on the side where the other one is not."""
    top = int(np.argmax(line.y))
    left = line.label_at == "left of peak"
    axes.annotate(
        line.label, (line.x[top], line.y[top]), xytext=(-6 if left else 14, 3), textcoords="offset points",
        ha="right" if left else "left", va="bottom", fontsize=LABEL_SIZE, color=ink(line.colour), gid=LABEL,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0},
    )  # fmt: skip


def _paint_text(axes: Axes, text: Text) -> None:
    align = {"right": ("left", 6), "left": ("right", -6), "middle": ("center", 0)}[text.side]
    axes.annotate(
        text.text, (text.x, text.y), xytext=(align[1], 0), textcoords="offset points", ha=align[0], va="center",
        fontsize=LABEL_SIZE - 0.5, color=ink(text.colour), annotation_clip=False,
    )  # fmt: skip


def _paint_cells(axes: Axes, cells: Cells) -> None:
    """Squares from the top, each with its text where it has one."""
    axes.grid(False)
    axes.set_facecolor(OWN)
    if cells.colours is not None:
        faces = np.array([[to_rgb(colour) for colour in row] for row in cells.colours])
        axes.imshow(faces, interpolation="nearest", aspect="auto")
    else:
        _paint_scale(axes, cells)
    for row, texts in enumerate(cells.texts or ()):
        for column, text in enumerate(texts):
            axes.text(column, row, text, ha="center", va="center", fontsize=LABEL_SIZE - 0.5, color="black")


def _paint_scale(axes: Axes, cells: Cells) -> None:
    """Numbers as colours, with the scale at the right; infinite ones in the colour that means that nothing is hidden."""
    values = np.array([[np.nan if value is None else value for value in row] for row in cells.values], dtype=float)
    masked = np.ma.masked_invalid(values)
    drawn = axes.imshow(masked, cmap="cividis", vmin=cells.limits[0], vmax=cells.limits[1], interpolation="nearest")
    if cells.infinite:
        clear = np.full(values.shape, np.nan)
        for place in cells.infinite:
            clear[place] = 1.0
        axes.imshow(np.ma.masked_invalid(clear), cmap=ListedColormap([NOTHING_HIDDEN]), interpolation="nearest")
    if cells.label:
        scale = FuncFormatter(percent_tick) if cells.percent else None
        axes.figure.colorbar(drawn, ax=axes, shrink=0.85, label=cells.label, format=scale)


def _paint_below(whole: SubFigure, picture: Picture) -> None:
    """The legend, then the facts: what is said about epsilon stands under every picture that has any."""
    handles = [_handle(key) for key in picture.keys]
    if handles:
        whole.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 4))
    if picture.facts or picture.facts_title:
        lines = [picture.facts_title, *(f"   {value}:  {text}" for text, value in picture.facts)]
        room = "\n\n" if handles else ""  # the legend stands below
        whole.supxlabel(
            "\n".join(filter(None, lines)) + room, x=0.02, ha="left", fontsize=LABEL_SIZE, linespacing=1.35, gid=FACTS,
            color="#222222",
        )  # fmt: skip


def _handle(key: Key) -> Line2D | Patch:
    if key.band:
        return Patch(color=key.colour, alpha=0.3, linewidth=0, label=key.name)
    look = {
        "color": key.colour,
        "linestyle": DASHES[key.dash],
        "marker": key.marker or None,
        **_marker_size(key.marker),
    }
    return Line2D([], [], label=key.name, **look)


def _spread_labels(figure: Figure, panels: list[Axes]) -> None:
    """Move labels at line ends apart, as little as it takes to read them all."""
    figure.draw_without_rendering()
    point = figure.dpi / 72
    for axes in panels:
        labels = [text for text in axes.texts if text.get_gid() == LABEL and isinstance(text, Annotation)]
        labels = [text for text in labels if text.get_verticalalignment() == "center"]
        ends = [float(axes.transData.transform((1.0, text.xy[1]))[1]) for text in labels]
        for text, end, wanted in zip(labels, ends, spread(ends, LABEL_GAP * point), strict=True):
            text.set_position((LABEL_AT, (wanted - end) / point))
