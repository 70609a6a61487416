"""Utility against privacy as a picture: the error of every scheme against epsilon, one panel per observer and algorithm.

Within a panel all points at one epsilon have the same guarantee, so the lowest one is the best choice there. A scheme without a guarantee
for an observer has no point in its panel; the note below names it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import ConfigError
from sottovoce.reports.pictures import colours, words
from sottovoce.reports.pictures.picture import MAX_LINES, Axis, Level, Line, Panel, Picture, chunks, floats

if TYPE_CHECKING:
    from sottovoce.experiments import Comparison, Row


def comparison_picture(comparison: Comparison, measure: str | None = None, *, algorithm: str | None = None) -> Picture:
    """The error of every scheme against epsilon, both logarithmic; bars are one standard error.

    Args:
        comparison: from `sv.compare`.
        measure: one of its measures; None is the first.
        algorithm: of this one only; None: of all, each in panels of its own.

    Raises:
        ConfigError: an unknown measure or algorithm, or a value that has no logarithm.
    """
    measure = comparison.measures[0] if measure is None else measure
    if measure not in comparison.measures:
        raise ConfigError(f"{measure!r} was not measured; choose from {', '.join(comparison.measures)}.")
    algorithms = [row.algorithm for row in comparison.references]
    if algorithm not in (None, *algorithms):
        raise ConfigError(f"{algorithm!r} was not compared; choose from {', '.join(algorithms)}.")
    _require_positive(comparison, measure)
    shown = algorithms if algorithm is None else [algorithm]
    panels = [
        panel
        for name in shown
        for observer in comparison.observers
        for panel in _panels(comparison, observer, name, measure, named=len(shown) > 1)
    ]
    return Picture(
        title=words.sentence(words.metric(measure)) + ", at equal privacy",
        subtitle="left: more private; lower: better",
        panels=tuple(panels),
        panel_size=(4.9, 3.7),
        columns=min(len(panels), 3 if len(panels) != 4 else 2),
    )


def without_guarantee(comparison: Comparison, observer: str, algorithm: str) -> list[str]:
    """The schemes that have no guarantee for an observer at any epsilon, with this algorithm."""
    possible: dict[str, bool] = {}
    for row in comparison.rows:
        if (row.observer, row.algorithm) == (observer, algorithm):
            possible[row.scheme] = possible.get(row.scheme, False) or row.possible
    return [scheme for scheme, has in possible.items() if not has]


def _panels(comparison: Comparison, observer: str, algorithm: str, measure: str, *, named: bool) -> list[Panel]:
    """One observer with one algorithm: one panel, or several where there are more than six schemes."""
    looks = colours.looks(dict.fromkeys(row.scheme for row in comparison.rows), colours.SCHEMES)
    rows: dict[str, list[Row]] = {}
    for row in comparison.rows:
        if (row.observer, row.algorithm) == (observer, algorithm) and row.possible:
            rows.setdefault(row.scheme, []).append(row)
    reference = next(row for row in comparison.references if row.algorithm == algorithm)
    missing = without_guarantee(comparison, observer, algorithm)
    who = words.sentence(words.observer(observer)) + (f"\n{words.algorithm(algorithm)}" if named else "")
    groups = _groups(rows)
    x = Axis(
        label=f"epsilon at delta = {comparison.delta:g}",
        scale="log",
        ticks=tuple((epsilon, f"{epsilon:g}") for epsilon in comparison.epsilons),
        limits=(comparison.epsilons[0] / 1.2, comparison.epsilons[-1] * 1.2),
    )
    share = measure in words.SHARES
    return [
        Panel(
            title=f"{who}\n{name}" if name else who,
            x=x,
            y=Axis(label=words.axis_label(measure), scale="log", percent=share),
            lines=tuple(_line(rows[scheme], measure, looks[scheme]) for scheme in group),
            levels=(_without_noise(reference, measure, share),),
            note=_note(missing, len(rows)),
        )
        for name, group in groups.items()
    ]


def _note(missing: Sequence[str], drawn: int) -> str:
    if not drawn:
        return "no scheme has a guarantee here"
    return f"no guarantee, not drawn: {', '.join(missing)}" if missing else ""


def _groups(rows: Mapping[str, Sequence[Row]]) -> dict[str, list[str]]:
    """Schemes in groups of at most six with a name each: by the law of their noise where that is enough, else in their order."""
    if len(rows) <= MAX_LINES:
        return {"": list(rows)}
    by_law: dict[str, list[str]] = {}
    for scheme, of_scheme in rows.items():
        by_law.setdefault(f"{of_scheme[0].law} noise", []).append(scheme)
    if max(map(len, by_law.values())) <= MAX_LINES:
        return by_law
    parts = chunks(list(rows), MAX_LINES)
    return {f"{number} of {len(parts)}": part for number, part in enumerate(parts, start=1)}


def _line(rows: Sequence[Row], measure: str, look: colours.Look) -> Line:
    found = [row.measured[measure] for row in rows]
    values = np.array([each.value for each in found])
    errors = np.array([each.standard_error or 0.0 for each in found])
    return Line(
        name=rows[0].scheme,
        x=floats([row.epsilon for row in rows]),
        y=floats(values),
        low=floats(values - errors),
        high=floats(values + errors),
        bars=True,
        label=rows[0].scheme,
        colour=look.colour,
        dash=look.dash,
        marker=look.marker,
    )


def _without_noise(reference: Row, measure: str, share: bool) -> Level:
    value = reference.measured[measure].value
    text = words.percent(value) if share else words.number(value)
    return Level(
        name="without noise", value=value, colour=colours.GROUPS["without noise"], label=f"without noise: {text}"
    )


def _require_positive(comparison: Comparison, measure: str) -> None:
    for row in (*comparison.rows, *comparison.references):
        if row.possible and not 0 < row.measured[measure].value < np.inf:
            raise ConfigError(
                f"{measure} of {row.scheme!r} with {row.algorithm!r} is {row.measured[measure].value}; a logarithmic axis needs it above 0."
            )
