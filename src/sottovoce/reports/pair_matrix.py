"""The matrix of pairs as a picture: row u is whose data, column v who looks."""

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from sottovoce.errors import ConfigError
from sottovoce.reports import style
from sottovoce.reports.caption import put_caption

OWN = "#D9D9D9"
CLEAR = "#D55E00"


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
    values = _checked(matrix)
    finite, infinite = np.isfinite(values), np.isinf(values)
    top = float(values[finite].max()) if largest is None else largest
    with style.applied():
        figure, picture = style.new_figure(6.6, 5.6)
        axes = picture.subplots()
        axes.grid(False)
        axes.set_facecolor(OWN)
        shown = axes.imshow(
            np.ma.masked_where(~finite, values), cmap="cividis", vmin=0.0, vmax=top or 1.0, interpolation="nearest"
        )
        if infinite.any():
            axes.imshow(np.ma.masked_where(~infinite, infinite), cmap=ListedColormap([CLEAR]), interpolation="nearest")
        picture.colorbar(shown, ax=axes, shrink=0.85, label=label)
        axes.set_xlabel("who looks: agent v")
        axes.set_ylabel("whose data: agent u")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(integer=True))
        handles = [Patch(color=OWN, label="the agent itself")] if np.isnan(values).any() else []
        handles += [Patch(color=CLEAR, label="infinite: something is in clear")] if infinite.any() else []
        if handles:
            picture.legend(handles=handles, loc="outside lower center", ncols=2)
        style.put_title(axes, title)
        put_caption(figure, caption)
    return figure


def _checked(matrix: ArrayLike) -> np.ndarray:
    values = np.array(matrix, dtype=float)
    if values.ndim != 2 or values.shape[0] != values.shape[1] or values.size == 0:
        raise ConfigError(f"the matrix has shape {values.shape}; it must be [K, K], one entry per ordered pair.")
    finite = values[np.isfinite(values)]
    if not finite.size or (finite < 0).any():
        raise ConfigError("the matrix needs a finite loss, and none below 0; there is nothing to colour.")
    return values
