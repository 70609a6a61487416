"""What attacks rebuild of a record, as pictures: likeness against epsilon, and what can be read exactly."""

from collections.abc import Mapping, Sequence

import numpy as np

from sottovoce.errors import ConfigError
from sottovoce.reports.pictures import colours, words
from sottovoce.reports.pictures.picture import Axis, Cells, Key, Level, Line, Panel, Picture, floats

SPREAD = (
    0.035  # neighbouring lines are drawn this part of a power of ten apart, so that lines on top of each other all show
)
Points = tuple[Sequence[float], Sequence[float]]  # means and standard errors
EXACT_COLOUR, HIDDEN_COLOUR = "#F0A989", "#9FC5DE"  # light enough for black letters: read exactly, not read


def similarity_picture(
    epsilons: Sequence[float],
    lines: Mapping[str, Points],
    *,
    chance: float | None = None,
    theory: Mapping[str, Sequence[float]] | None = None,
    x_label: str = "epsilon",
    y_label: str = "similarity",
    title: str = "",
) -> Picture:
    """Similarity in [0, 1] against epsilon, one line for every scheme and observer, coloured by observer; less noise is to the right.

    Args:
        epsilons: from the largest down; infinity is no noise, and stands apart at the right end.
        lines: label -> (means, standard errors), one of each per epsilon.
        chance: what guessing attains, a grey line.
        theory: label -> exact means, drawn thin.
        x_label: of the axis, with its delta.
        y_label: which similarity.
        title: above the picture.

    Raises:
        ConfigError: epsilons that do not fall, a line of another length, or a similarity outside [0, 1].
    """
    x, ticks = _places(epsilons)
    for label, (means, errors) in lines.items():
        _check_line(label, means, errors, len(x))
    looks, order = colours.looks(lines, colours.OBSERVERS, colours.SCHEMES), np.argsort(x)
    drawn: list[Line] = []
    for position, (label, look) in enumerate(looks.items()):
        beside = SPREAD * (position - (len(looks) - 1) / 2)
        y, bars = np.asarray(lines[label][0])[order], 2 * np.asarray(lines[label][1])[order]
        drawn.append(
            Line(
                name=label, x=floats(x[order] + beside), y=floats(y), low=floats(y - bars), high=floats(y + bars),
                bars=True, colour=look.colour, dash=look.dash, marker=look.marker, label=f"{label}: {words.percent(float(y[-1]), 0)}",
            )
        )  # fmt: skip
        if label in (theory or {}):
            exact = np.asarray((theory or {})[label])[order]
            drawn.append(
                Line(name=f"theory {label}", x=floats(x[order] + beside), y=floats(exact), colour=colours.THEORY, dash="dotted", width=0.9)
            )  # fmt: skip
    levels = () if chance is None else (
        Level(name="guessing", value=chance, colour=colours.REFERENCE, dash="dotted", label=f"guessing: {words.percent(chance, 0)}"),
    )  # fmt: skip
    right = max(max(line.x) for line in drawn) if drawn else 1.0
    return Picture(
        title=title,
        panels=(
            Panel(
                x=Axis(
                    label=f"{x_label}: more private to the left",
                    ticks=tuple(zip(floats(x), ticks, strict=True)),
                    limits=(float(x.min()) - 0.2, right + 0.1),
                ),
                y=Axis(label=y_label, percent=True, limits=(0.0, 1.05)),
                lines=tuple(drawn),
                levels=levels,
            ),
        ),
        keys=(Key(name="exact expectation", colour=colours.THEORY, dash="dotted"),) if theory else (),
    )


def readable_picture(
    errors: Mapping[str, Mapping[str, Mapping[str, float]]],
    *,
    exact_below: Mapping[str, float],
    title: str,
    subtitle: str = "",
) -> Picture:
    """A table for every panel: which quantity (column) can be read exactly under which variant (row), in words.

    Args:
        errors: panel -> row -> column -> relative error of what was rebuilt.
        exact_below: column -> the error up to which it counts as exact.
        title: above the picture.
        subtitle: below the title.
    """
    panels = [_readable_panel(panel, table, exact_below) for panel, table in errors.items()]
    rows = len(next(iter(errors.values())))
    return Picture(
        title=title,
        subtitle=subtitle,
        panels=tuple(panels),
        columns=len(panels),
        panel_size=(1.2 * len(exact_below) + 2.2, 1.0 + 0.38 * rows),
    )


def _readable_panel(title: str, table: Mapping[str, Mapping[str, float]], exact_below: Mapping[str, float]) -> Panel:
    limits = list(exact_below.items())
    values = tuple(tuple(row[column] for column in exact_below) for row in table.values())
    faces = tuple(
        tuple(EXACT_COLOUR if row[column] <= limit else HIDDEN_COLOUR for column, limit in limits)
        for row in table.values()
    )
    texts = tuple(tuple(_readable(row[column], limit) for column, limit in limits) for row in table.values())
    return Panel(
        title=title,
        x=Axis(label="", ticks=tuple((float(place), name) for place, name in enumerate(exact_below))),
        y=Axis(label="", ticks=tuple((float(place), name) for place, name in enumerate(table))),
        cells=Cells(values=values, colours=faces, texts=texts),
    )


def _readable(error: float, exact_below: float) -> str:
    """What is read, in words: exactly, or by how much it is off."""
    return "read exactly" if error <= exact_below else f"off by {float(f'{100 * error:.2g}'):,.10g} %"


def _check_line(label: str, means: Sequence[float], errors: Sequence[float], count: int) -> None:
    if len(means) != count or len(errors) != count or not all(0 <= mean <= 1 + 1e-9 for mean in means):
        raise ConfigError(f"{label!r} needs {count} similarities in [0, 1], one per epsilon, and as many errors.")


def _places(epsilons: Sequence[float]) -> tuple[np.ndarray, list[str]]:
    """Where every epsilon stands: powers of ten at equal distances, and infinity apart."""
    values = np.asarray(epsilons, dtype=float)
    finite = values[np.isfinite(values)]
    if values.ndim != 1 or len(finite) < 2 or not (np.diff(values) < 0).all() or finite.min() <= 0:
        raise ConfigError(f"epsilons = {list(epsilons)}; they must fall, and two or more be finite and above 0.")
    logs = np.log10(finite)
    gap = 0.9 * max(float((logs[0] - logs[-1]) / (len(logs) - 1)), 0.1)
    x = np.append(logs[0] + gap, logs) if len(finite) < len(values) else logs
    names = [f"{value:,.10g}" for value in finite]
    return x, ["no noise", *names] if len(finite) < len(values) else names
