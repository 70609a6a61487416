"""One picture for every run: how good the common model is after every round, beside what it is compared with, and epsilon for each observer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.errors import ConfigError
from sottovoce.reports.pictures import colours, words
from sottovoce.reports.pictures.picture import Axis, Level, Line, Panel, Picture, floats

if TYPE_CHECKING:
    from sottovoce.simulation import Run

PREFERRED = ("accuracy", "loss", "msd_average", "msd_centroid")
MAX_POINTS = 2000  # of one line, so that a drawing stays small
QUANTILES = (0.1, 0.9)
DECADES = 20.0  # a positive measure that falls by more than this factor is drawn on a logarithmic axis
Reference = float | Sequence[float]


def run_picture(
    run: Run,
    *,
    references: Mapping[str, Reference] | None = None,
    stated: Mapping[str, Any] | None = None,
    metric: str | None = None,
) -> Picture:
    """What a run reached, round by round, with the last value at the end of its line.

    Args:
        run: from `simulate` or `load`.
        references: name -> a value of the same measure (accuracies as shares), or (lowest, middle, highest) of several; straight lines.
        stated: the guarantees as `load_guarantees` reads them; None where no observer was named.
        metric: which of the run's metrics; None: accuracy where there is one, else an error.

    Raises:
        ConfigError: an unknown metric, or numbers that cannot be drawn.
    """
    name = _metric(run, metric)
    share = name in words.SHARES
    line = _line(run, name, share)
    levels = [_level(label, value, share) for label, value in (references or {}).items()]
    numbers = [*line.y, *(line.low or ()), *(line.high or ())]
    numbers += [each for level in levels for each in (level.low, level.value, level.high) if each is not None]
    return Picture(
        title=words.sentence(words.metric(name)) + (_measured_on(run) if share else ""),
        panels=(
            Panel(
                x=Axis(label="rounds of learning", whole=True),
                y=_value_axis(name, share, numbers),
                lines=(line,),
                levels=tuple(levels),
            ),
        ),
        facts=tuple(words.epsilons(stated, run.description.get("agents"))) if stated is not None else (),
        facts_title=_privacy(run, stated),
    )


def _measured_on(run: Run) -> str:
    """On which records an accuracy was measured, where the run says so."""
    kept = run.description.get("test_records")
    if kept is None:
        return ""
    return f", on {kept:,} records kept for testing" if kept else ", on the records that it learnt from"


def shown_rounds(rounds: int) -> np.ndarray:
    """Positions of evenly spaced rounds, the first and the last among them."""
    return np.unique(np.linspace(0, rounds - 1, min(rounds, MAX_POINTS)).round().astype(int))


def _metric(run: Run, metric: str | None) -> str:
    if metric is None:
        found = [name for name in (*PREFERRED, *run.metrics) if name in run.metrics]
        if not found:
            raise ConfigError("the run has no metrics, so there is nothing to draw. Simulate with a metric in record.")
        return found[0]
    if metric not in run.metrics:
        raise ConfigError(f"the run has no metric {metric!r}. Choose from {', '.join(run.metrics)}.")
    return metric


def _line(run: Run, name: str, share: bool) -> Line:
    """Mean over repeats, and a band from the 10 % to the 90 % quantile of the repeats."""
    values = np.asarray(run.metrics[name], dtype=float)  # [repeats, rounds]
    if values.ndim != 2 or values.size == 0 or not np.isfinite(values).all():
        raise ConfigError(f"{name} of the run is empty or not finite everywhere, so it cannot be drawn.")
    positions = shown_rounds(values.shape[1])
    values = values[:, positions]
    noisy = run.description["noise"]["name"] != "none"
    group = "together, with noise" if noisy else "together, without noise"
    mean = values.mean(axis=0)
    low, high = np.quantile(values, QUANTILES, axis=0) if len(values) > 1 else (None, None)
    return Line(
        name=group,
        x=floats(positions + 1),
        y=floats(mean),
        colour=colours.GROUPS["with noise" if noisy else "without noise"],
        low=None if low is None else floats(low),
        high=None if high is None else floats(high),
        label=f"{group}: {_text(float(mean[-1]), share)}",
    )


def _level(label: str, value: Reference, share: bool) -> Level:
    given = (float(value),) if isinstance(value, int | float | np.number) else tuple(float(each) for each in value)
    if len(given) not in (1, 3) or not all(map(math.isfinite, given)) or list(given) != sorted(given):
        raise ConfigError(
            f"reference {label!r} is {value!r}; give one number, or the lowest, the middle and the highest of several."
        )
    if share and not 0 <= given[0] <= given[-1] <= 1:
        raise ConfigError(f"reference {label!r} is {value!r}; an accuracy is a share from 0 to 1, not a percentage.")
    low, middle, high = given if len(given) == 3 else (None, given[0], None)
    text = f"{label}: {_text(middle, share)}"
    if low is not None and high is not None:
        text += f" ({_text(low, share)} to {_text(high, share)})"
    colour = colours.known_colour(label, colours.GROUPS) or colours.REFERENCE
    return Level(name=label, value=middle, low=low, high=high, colour=colour, label=text)


def _value_axis(name: str, share: bool, numbers: Sequence[float]) -> Axis:
    smallest, largest = min(numbers), max(numbers)
    log = not share and smallest > 0 and largest / smallest > DECADES
    return Axis(label=words.axis_label(name), percent=share, scale="log" if log else "linear")


def _text(value: float, share: bool) -> str:
    return words.percent(value) if share else words.number(value)


def _privacy(run: Run, stated: Mapping[str, Any] | None) -> str:
    """What is said about epsilon, whatever is known of it."""
    if stated is None:
        noisy = run.description["noise"]["name"] != "none"
        return (
            "epsilon: not stated, no observer was named"
            if noisy
            else "epsilon: infinite, messages carry no noise"
        )  # fmt: skip
    rows = stated["guarantees"]
    protected = words.unit(str(rows[0]["unit"])) if rows else "nothing"
    return f"epsilon of {protected} at delta = {stated['delta']:g}, smaller is more private"
