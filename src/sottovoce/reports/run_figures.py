"""The figure of an ordinary run, written to a file with a caption that says what was run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sottovoce.reports.caption import describe
from sottovoce.reports.files import save
from sottovoce.reports.painting import paint
from sottovoce.reports.pictures.run_picture import Reference, run_picture

if TYPE_CHECKING:
    from sottovoce.simulation import Run


def run_figure(
    run: Run,
    path: str | Path,
    *,
    references: Mapping[str, Reference] | None = None,
    stated: Mapping[str, Any] | None = None,
    metric: str | None = None,
    for_whom: str = "",
) -> list[Path]:
    """Write what a run reached, round by round, as PNG and SVG: accuracy in percent, or an error, and epsilon per observer.

    Args:
        run: from `simulate` or `load`.
        path: where; the ending is replaced by .png and .svg.
        references: name -> a value of the same measure (accuracies as shares), or (lowest, middle, highest) of several. Names with
            "alone", "without noise" and "majority" in them have the colours that these groups have in all figures.
        stated: the guarantees as `load_guarantees` reads them; None where no observer was named.
        metric: which of the run's metrics; None: accuracy where there is one, else an error.
        for_whom: a line below the title that says who may see the figure.

    Returns:
        The two files, PNG first.

    Raises:
        ConfigError: an unknown metric, or numbers that cannot be drawn.
    """
    path = Path(path)
    picture = run_picture(run, references=references, stated=stated, metric=metric)
    if for_whom:
        picture = replace(picture, title=f"{picture.title}\n{for_whom}")
    several = "" if run.repeats == 1 else (
        " The line is the mean over repeats, the band holds 80 % of them; epsilon is that of one repeat."
    )  # fmt: skip
    return save(paint(picture), path.parent, path.stem, caption=describe(run) + several)
