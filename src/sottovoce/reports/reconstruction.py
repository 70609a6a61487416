"""Pictures rebuilt from gradients: one row per image, the original first, then one column per amount of noise."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from sottovoce.errors import ConfigError
from sottovoce.reports import style
from sottovoce.reports.caption import put_caption
from sottovoce.reports.pictures import words

SIZE = 1.12  # inches of one image
MOST_IMAGES = 120


def reconstructions(
    originals: ArrayLike,
    rebuilt: Mapping[str, ArrayLike],
    *,
    scores: Mapping[str, ArrayLike],
    score_label: str,
    percent: bool = False,
    caption: str | None = None,
    title: str | None = None,
) -> Figure:
    """Originals beside what was rebuilt of them, with a score under every rebuilt image.

    Args:
        originals: [n, height, width] pixels in [0, 1], 1 is dark.
        rebuilt: heading of a column -> [n, height, width].
        scores: the same headings -> [n] how like the original each is.
        score_label: what the scores are.
        percent: write the scores in percent.
        caption: what is shown, under the picture.
        title: above the picture.

    Raises:
        ConfigError: shapes that do not belong together, pixels outside [0, 1], or too many images.
    """
    first = _checked("originals", originals, None)
    if not rebuilt or rebuilt.keys() != scores.keys():
        raise ConfigError(
            f"rebuilt has columns {list(rebuilt)} and scores {list(scores)}; give a score for each image."
        )
    columns = {heading: _checked(f"rebuilt[{heading!r}]", images, first.shape) for heading, images in rebuilt.items()}
    under = {heading: _scores(values, len(first)) for heading, values in scores.items()}
    rows, width = len(first), len(columns) + 1
    if rows * width > MOST_IMAGES:
        raise ConfigError(f"{rows} x {width} images are too many for one picture; at most {MOST_IMAGES}. Draw fewer.")
    with style.applied():
        figure, picture = style.new_figure(SIZE * width + 0.3, (SIZE + 0.17) * rows + 0.6 + 0.3 * (title is not None))
        grid = picture.subplots(rows, width, squeeze=False)
        for row in range(rows):
            _draw(grid[row, 0], first[row], "" if row else "original", None)
            for axes, (heading, images) in zip(grid[row, 1:], columns.items(), strict=True):
                _draw(axes, images[row], "" if row else heading, float(under[heading][row]), percent=percent)
        picture.supxlabel(f"below each image: {score_label}", fontsize=9)
        style.put_title(picture, title)
        put_caption(figure, caption)
    return figure


def _draw(axes: Axes, image: np.ndarray, heading: str, score: float | None, *, percent: bool = False) -> None:
    axes.imshow(image, cmap="gray_r", vmin=0.0, vmax=1.0, interpolation="nearest")
    axes.grid(False)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_color("#B0B0B0")
    if heading:
        axes.set_title(heading, fontsize=9.5)
    if score is not None:
        text = words.percent(score, 0) if percent else f"{score:.2f}"
        axes.set_xlabel(text.removeprefix("-") if float(text.rstrip(" %")) == 0 else text, fontsize=8.5, labelpad=2)


def _scores(given: ArrayLike, count: int) -> np.ndarray:
    values = np.asarray(given, dtype=float)
    if values.shape != (count,) or not np.isfinite(values).all():
        raise ConfigError(f"scores must be {count} finite numbers in every column, one for each image.")
    return values


def _checked(name: str, images: ArrayLike, shape: tuple[int, ...] | None) -> np.ndarray:
    values = np.asarray(images, dtype=float)
    if values.ndim != 3 or values.size == 0 or (shape is not None and values.shape != shape):
        wanted = "[n, height, width]" if shape is None else f"{shape}"
        raise ConfigError(f"{name} have shape {values.shape}; needed is {wanted}.")
    if not ((values >= 0.0) & (values <= 1.0)).all():
        raise ConfigError(f"{name} have pixels outside [0, 1], or none at all (NaN). Scale them by their public range.")
    return values
