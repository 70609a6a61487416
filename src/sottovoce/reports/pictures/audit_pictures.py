"""Audits as pictures: the scores of an attack in two worlds, and what attacks show beside what is proven."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from sottovoce.attacks.audit import Audit
from sottovoce.errors import ConfigError
from sottovoce.reports.pictures import colours, words
from sottovoce.reports.pictures.picture import Axis, Key, Level, Line, Panel, Picture, Text, floats

BINS = 60
PROVEN, NOTHING = "proven: never more than this", "nothing is proven"


def score_picture(audit: Audit) -> Picture:
    """The scores of both worlds as shares of runs, with the threshold at which the most is shown.

    Raises:
        ConfigError: no finite scores to draw.
    """
    finite = [scores[np.isfinite(scores)] for scores in audit.scores]
    if not all(len(scores) for scores in finite):
        raise ConfigError("all scores of a world are infinite, so there is nothing to draw; the attacker is certain.")
    together = np.concatenate(finite)
    low, high = float(together.min()), float(together.max())
    margin = 0.02 * (high - low) or max(abs(high), 1.0) * 1e-3
    edges = np.linspace(low - margin, high + margin, BINS + 1)
    second_right = float(np.median(finite[1])) >= float(np.median(finite[0]))
    lines = [
        _histogram(audit, finite[world], edges, world, right=second_right == bool(world)) for world in (0, 1)
    ]  # fmt: skip
    levels: list[Level] = []
    if math.isfinite(audit.threshold):
        text = 'right of here the\nattack says "second"'
        levels.append(
            Level(name="threshold", value=audit.threshold, colour=colours.THEORY, upright=True, label=text)
        )  # fmt: skip
    return Picture(
        title=audit_title(audit),
        subtitle=f"Of two runs the attack picks the right one in {words.percent(audit.auc.value)} of cases; 50 % is guessing.",
        facts_title=f"epsilon at delta = {audit.delta:g}, smaller is more private",
        facts=audit_facts(audit),
        panels=(
            Panel(
                x=Axis(label=f"score of the attack '{audit.attack}': to the right it believes in the second"),
                y=Axis(label="runs, in percent", percent=True, limits=(0.0, 1.35 * max(max(line.y) for line in lines))),
                lines=tuple(lines),
                levels=tuple(levels),
            ),
        ),
    )


def audit_title(audit: Audit) -> str:
    """Who looks at whose data, as a question."""
    return f"Can {words.observer(audit.guarantee.observer)}\ntell two versions of agent {audit.agent}'s data apart?"


def audit_facts(audit: Audit) -> tuple[tuple[str, str], ...]:
    """(in words, epsilon): what the attack shows, and what is proven."""
    assert audit.lower.epsilon is not None
    verdict = "" if audit.passed else " - THE PROMISE IS FALSE"
    return (
        ("the attack shows at least this", f"{audit.lower.epsilon:.3g}"),
        (f"{NOTHING if math.isinf(audit.epsilon) else PROVEN}{verdict}", words.epsilon(audit.epsilon)),
    )


def sandwich_picture(audits: Mapping[str, Mapping[str, Audit]]) -> Picture:
    """One row for every scheme and observer, one panel for every variant: from the epsilon shown to the epsilon proven.

    Args:
        audits: line -> variant -> audit; the same variants in every line.

    Raises:
        ConfigError: nothing to draw, or lines with different variants.
    """
    places = list(next(iter(audits.values()), {}))
    if not places or any(list(row) != places for row in audits.values()):
        raise ConfigError("give audits of one or more lines, each with the same variants in the same order.")
    every = [audit for row in audits.values() for audit in row.values()]
    most = 1.45 * _largest(every)
    panels = [_sandwich(place, {line: row[place] for line, row in audits.items()}, most) for place in places]
    return Picture(
        title="What attacks show stays below what is proven"
        if all(each.passed for each in every)
        else "A PROMISE IS FALSE",
        panels=tuple(panels),
        columns=len(panels),
        panel_size=((4.2 + 3.2 * len(places)) / len(places), 1.1 + 0.3 * len(audits)),
        keys=(
            Key(name="an attack shows at least this", colour=colours.SHOWN, dash="none", marker="o"),
            Key(name=PROVEN, colour=colours.PROMISED, dash="none", marker="|"),
            Key(name=f"{NOTHING}; an attack shows at least the number", colour=colours.SHOWN, marker=">"),
        ),
    )


def _largest(audits: Sequence[Audit]) -> float:
    """The largest epsilon that is proven; what is shown where nothing is."""
    finite = [audit.epsilon for audit in audits if math.isfinite(audit.epsilon)]
    return max(finite or [audit.lower.epsilon or 1.0 for audit in audits])


def _sandwich(place: str, found: Mapping[str, Audit], most: float) -> Panel:
    """The rows of one variant, on an axis up to `most`."""
    return Panel(
        title=place,
        x=Axis(label=f"epsilon at delta = {next(iter(found.values())).delta:g}", limits=(0.0, most)),
        y=Axis(
            label="", ticks=tuple((float(row), line) for row, line in enumerate(found)), limits=(len(found) - 0.5, -0.5)
        ),
        lines=tuple(line for row, audit in enumerate(found.values()) for line in _row(row, audit, most)),
        texts=tuple(_row_text(row, audit, most) for row, audit in enumerate(found.values())),
    )


def _histogram(audit: Audit, scores: np.ndarray, edges: np.ndarray, world: int, *, right: bool) -> Line:
    counts = np.histogram(scores, edges)[0] / len(audit.scores[world])
    which = "second" if world else "first"
    return Line(
        name=f"{which} version",
        x=floats(edges),
        y=floats(np.append(counts, 0.0)),
        colour=colours.WORLDS[world],
        area=True,
        width=1.2,
        label=f"runs with the\n{which} version",
        label_at="right of peak" if right else "left of peak",
    )


def _row(row: int, found: Audit, most: float) -> Sequence[Line]:
    """From what is shown to what is proven; an arrow where nothing is."""
    low, y = found.lower.epsilon or 0.0, float(row)
    if math.isinf(found.epsilon):
        ends = {"x": (0.0, 0.8 * most), "y": (y, y)}
        tip = {"x": (0.8 * most,), "y": (y,)}
        return (
            Line(name=f"no limit {row}", colour=colours.SHOWN, width=1.4, **ends),  # type: ignore[arg-type]
            Line(name=f"arrow {row}", colour=colours.SHOWN, dash="none", marker=">", **tip),  # type: ignore[arg-type]
        )
    return (
        Line(name=f"between {row}", x=(low, found.epsilon), y=(y, y), colour=colours.BETWEEN, width=4.0),
        Line(name=f"proven {row}", x=(found.epsilon,), y=(y,), colour=colours.PROMISED, dash="none", marker="|"),
        Line(name=f"shown {row}", x=(low,), y=(y,), colour=colours.SHOWN, dash="none", marker="o"),
    )


def _row_text(row: int, found: Audit, most: float) -> Text:
    low = found.lower.epsilon or 0.0
    if math.isinf(found.epsilon):
        return Text(x=0.82 * most, y=float(row), text=f"≥ {low:.2g}", colour=colours.SHOWN)
    text = f"{low:.2g} of {words.epsilon(found.epsilon)}"
    return Text(x=max(found.epsilon, low), y=float(row), text=text, colour=colours.PROMISED)
