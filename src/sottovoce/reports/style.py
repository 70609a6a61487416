"""How every figure looks: fonts, axes, margins. Applied per figure; the user's settings stay as they are. Colours are in `pictures.colours`."""

import contextlib
from collections.abc import Iterator
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, SubFigure

HATCHES = ("", "///", "xxx", "..")

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
