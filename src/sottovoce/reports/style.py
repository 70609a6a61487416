"""How every figure looks: colours, line styles, markers, font sizes. Applied per figure; the user's settings stay as they are.

The colours are those of Okabe & Ito without yellow (too light on white) and black (kept for theory), and a dark grey. Lines
differ in line style and marker too, so that they can be told apart in print without colour.
"""

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, SubFigure

from sottovoce.errors import ConfigError

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#4D4D4D")
LINE_STYLES: tuple[Any, ...] = ("-", (0, (6, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
HATCHES = ("", "///", "xxx", "..")
THEORY = {"color": "black", "linestyle": (0, (4, 2)), "linewidth": 0.9, "zorder": 4}
MAX_LINES = len(PALETTE) * len(LINE_STYLES)

RC: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Arial", "Helvetica"],
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.labelsize": 10,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "legend.handlelength": 3.2,
    "figure.titlesize": 12,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#E3E3E3",
    "grid.linewidth": 0.7,
    "hatch.linewidth": 0.6,
    "svg.fonttype": "none",
    "svg.hashsalt": "sottovoce",
}

# Settings of the program that shows figures, not of how they look.
_NOT_LOOKS = ("backend", "interactive", "toolbar", "webagg", "tk.", "figure.hooks", "savefig.directory", "timezone")


class LineLook(NamedTuple):
    """What tells one line from the others."""

    color: str
    linestyle: Any
    marker: str


def line_look(position: int) -> LineLook:
    """The look of the line at this position; all up to MAX_LINES differ."""
    return LineLook(
        PALETTE[position % len(PALETTE)],
        LINE_STYLES[(position + position // len(PALETTE)) % len(LINE_STYLES)],
        MARKERS[(position + position // len(PALETTE)) % len(MARKERS)],
    )


def line_looks(labels: list[str]) -> dict[str, LineLook]:
    """One look per label, in order."""
    if len(labels) > MAX_LINES:
        raise ConfigError(
            f"{len(labels)} lines were given; at most {MAX_LINES} can be told apart. Draw fewer together."
        )
    return {label: line_look(position) for position, label in enumerate(labels)}


@contextlib.contextmanager
def applied() -> Iterator[None]:
    """Matplotlib's defaults with our settings, whatever the user has set; everything is put back afterwards."""
    settings: dict[Any, Any] = {
        name: value for name, value in matplotlib.rcParamsDefault.items() if not name.startswith(_NOT_LOOKS)
    }
    with matplotlib.rc_context(settings | RC):
        yield


def put_title(where: Axes | SubFigure, title: str | None) -> None:
    """Write a title above a picture or a panel, if there is one."""
    if title is not None:
        (where.set_title if isinstance(where, Axes) else where.suptitle)(title)


def new_figure(width: float, height: float) -> tuple[Figure, SubFigure]:
    """An empty figure, in inches, that belongs to no window, and the picture in it that arranges its parts itself.

    The picture fills the figure. When a caption is added below, the canvas grows but the picture stays: a legend of the
    figure itself would move down with the edge of the canvas.
    """
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.add_subfigure(figure.add_gridspec(1, 1)[0, 0])
