"""Who learns how much about whom, as pictures in percent: how often the best guess is right; of a walking token, as epsilon.

An observer with loss mu who guesses which of two versions of a record an agent holds is right with probability at most Phi(mu / 2), when both are
equally likely beforehand: no test does better than that between N(0, 1) and N(mu, 1), which decides at mu / 2. 50 % is a coin, 100 % is certainty. Unlike epsilon it needs no delta, and it can be drawn where epsilon is large.
On average over the ways of a token there is no mu, and epsilon at the delta asked for is drawn; a known path is drawn likewise, to be held against it.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.accounting import gaussian
from sottovoce.errors import ConfigError
from sottovoce.experiments import Pairs, distance_rows
from sottovoce.reports.pictures import colours, words
from sottovoce.reports.pictures.distance_picture import LossLine, Shown, distance_picture
from sottovoce.reports.pictures.picture import Axis, Cells, Key, Panel, Picture

GUESSES = "right guesses, in percent (50 % is a coin)"
GUESSED = "Shown is how often the best guess is right which of two equally likely versions of its data an agent holds."
WHO, WHOSE = "who looks: agent v", "whose data: agent u"
MAX_NAMES = 25  # of agents beside the squares; more are numbered
NO_GUARANTEE = "Linear view: no guarantee where gradients react to what agents hear."

NEARLY_ALIKE = 0.9  # of the largest loss: where the smallest is no less, colours do not spread over what is between
FARTHER_IS_LESS = (
    0.8  # of the loss of neighbours: what the farthest pair may lose for the title to say that distance hides
)


class PairScale(NamedTuple):
    """How losses of pairs are shown."""

    label: str
    meaning: str  # a sentence
    of: Callable[[ArrayLike], np.ndarray]  # losses as they are drawn
    begins: float  # where colours begin
    least_end: float  # where they end at least
    percent: bool
    level: tuple[str, float] | None  # name and value of what is drawn across

    def end(self, losses: np.ndarray) -> float:
        """Where the colours end: at the largest finite loss."""
        return max(float(self.of(losses[np.isfinite(losses)]).max()), self.least_end)


def pair_scale(pairs: Pairs) -> PairScale:
    """How these pairs are shown."""
    return {"guesses": _in_guesses, "epsilon": _in_epsilon}[pairs.drawn](pairs)


def _in_guesses(pairs: Pairs) -> PairScale:
    return PairScale(
        label=GUESSES, meaning=GUESSED, of=right_guesses, begins=0.5, least_end=0.51, percent=True, level=("a coin", 0.5)
    )  # fmt: skip


def _in_epsilon(pairs: Pairs) -> PairScale:
    label = f"epsilon at delta = {pairs.delta:g}"
    least, largest = pairs.epsilons([np.nanmin(pairs.losses), np.nanmax(pairs.losses)])
    return PairScale(
        label=label, meaning=f"Shown is {label}: the smaller, the less is learned.", of=pairs.epsilons,
        begins=float(least) if least < NEARLY_ALIKE * largest else 0.0, least_end=0.01, percent=False, level=None,
    )  # fmt: skip


def right_guesses(mu: ArrayLike) -> np.ndarray:
    """Phi(mu / 2): the largest share of right guesses between two equally likely versions; not a number stays so."""
    values = np.asarray(mu, dtype=float)
    return np.asarray([0.5 * math.erfc(-value / math.sqrt(8.0)) for value in values.ravel()]).reshape(values.shape)


def matrix_picture(
    matrix: ArrayLike,
    *,
    label: str,
    limits: tuple[float, float] | None = None,
    percent: bool = False,
    title: str = "",
    names: Sequence[str] | None = None,
) -> Picture:
    """One coloured square for every ordered pair: row u is whose data, column v who looks.

    Args:
        matrix: [K, K]; no number for an agent and itself, infinite where nothing is hidden.
        label: which loss, with its unit.
        limits: where the colours begin and end; None: from 0 to the largest finite loss.
        percent: the numbers are shares.
        title: above the picture.
        names: of the agents, in their order, beside the squares where there is room for all; None: numbers.

    Raises:
        ConfigError: not a square matrix, nothing finite in it, or a negative loss.
    """
    values = _checked(matrix)
    finite = np.isfinite(values)
    cells = Cells(
        values=tuple(tuple(float(each) if np.isfinite(each) else None for each in row) for row in values),
        limits=limits or (0.0, float(values[finite].max()) or 1.0),
        infinite=tuple((int(row), int(column)) for row, column in np.argwhere(np.isinf(values))),
        label=label,
        percent=percent,
    )
    ticks = None if names is None or len(names) > MAX_NAMES else tuple((float(k), name) for k, name in enumerate(names))
    who, whose = (text if ticks is None else text.partition(":")[0] for text in (WHO, WHOSE))
    panel = Panel(x=Axis(label=who, whole=True, ticks=ticks), y=Axis(label=whose, whole=True, ticks=ticks), cells=cells)
    return Picture(title=title, panels=(panel,), keys=tuple(_keys(values)), panel_size=(6.6, 5.4))


def _keys(values: np.ndarray) -> Iterator[Key]:
    """What squares without a number are, where there are any."""
    if np.isnan(values).any():
        yield Key(name="the agent itself", colour=colours.OWN, dash="none", marker="s")
    if np.isinf(values).any():
        yield Key(name="infinite: something is in clear", colour=colours.NOTHING_HIDDEN, dash="none", marker="s")


def pairs_picture(pairs: Pairs, names: Sequence[str] | None = None) -> Picture:
    """What every agent learns about every other, and epsilon of the pair most exposed."""
    scale = pair_scale(pairs)
    picture = matrix_picture(
        np.where(np.isinf(pairs.losses), np.inf, scale.of(pairs.losses)),
        label=scale.label,
        limits=(scale.begins, scale.end(pairs.losses)),
        percent=scale.percent,
        title="Who could find out how much about whom",
        names=names,
    )
    return _with_epsilon(picture, pairs)


def pairs_distance_picture(pairs: Pairs) -> Picture | None:
    """Losses against distance, median and range over pairs; beside a linear view what is proven. None where nobody learns anything."""
    rows = [row for row in distance_rows(pairs) if np.isfinite(row.largest)]
    if not any(row.median > 0 for row in rows):
        return None
    distances, _, least, median, most, proven = np.array(rows).T
    compared, scale = {}, pair_scale(pairs)
    stated = np.isfinite(proven) & (proven > 0)
    if pairs.resolved is None and stated.any():
        compared = {"median pair": LossLine(distances[stated], scale.of(proven[stated]))}
    shown = Shown(
        y_label=scale.label,
        log_y=False,
        percent=scale.percent,
        names=("median pair, linear view", f"proven limit for agent {pairs.attacker}"),
        local=scale.level,
    )
    line = LossLine(distances, scale.of(median), scale.of(least), scale.of(most))
    falls = len(median) > 1 and median[-1] < FARTHER_IS_LESS * median[0]
    title = (
        "The further away, the less an agent finds out"
        if falls
        else "How much an agent finds out about others, by distance"
    )
    return _with_epsilon(distance_picture({"median pair": line}, shown, compared=compared, title=title), pairs)


def attacker_title(pairs: Pairs) -> str:
    """What the network coloured for one agent shows, with what is proven for that agent."""
    asked = f"What agent {pairs.attacker} could find out about the others"
    worst = pairs.proven_mu[~np.isnan(pairs.proven_mu)]
    if worst.size:
        found = _epsilon(float(worst.max()), pairs.delta)
    elif pairs.proved:
        found = words.epsilon(float(pairs.epsilons(np.nanmax(pairs.losses[:, pairs.attacker]))))
    else:
        return asked
    return f"{asked}\nepsilon proven for {words.unit(pairs.unit)}: {found}, at delta = {pairs.delta:g}"


def _with_epsilon(picture: Picture, pairs: Pairs) -> Picture:
    """Epsilon below the picture: of the pair most exposed, and what is proven for the attacker where the rest is a linear view."""
    largest = float(pairs.epsilons(np.nanmax(pairs.losses)))
    proven_mu = pairs.proven_mu[~np.isnan(pairs.proven_mu)]
    facts = [(_most_exposed(pairs), words.epsilon(largest))]
    if not pairs.proved and proven_mu.size:
        facts.append(
            (f"proven for whatever agent {pairs.attacker} sees", _epsilon(float(proven_mu.max()), pairs.delta))
        )
    return Picture(
        title=picture.title,
        subtitle=picture.subtitle if pairs.proved else NO_GUARANTEE,
        panels=picture.panels,
        keys=picture.keys,
        panel_size=picture.panel_size,
        columns=picture.columns,
        facts=tuple(facts),
        facts_title=f"epsilon of {words.unit(pairs.unit)} at delta = {pairs.delta:g}, smaller is more private",
    )


def _most_exposed(pairs: Pairs) -> str:
    """The pair most exposed: in which view where that is no guarantee, and which where the picture is of epsilon."""
    agent, observer = pairs.most_exposed
    which = f", agent {agent} towards agent {observer}" if pairs.drawn == "epsilon" and not pairs.alike else ""
    return f"the pair most exposed{which}{'' if pairs.proved else ', in this view'}"


def _epsilon(mu: float, delta: float) -> str:
    return words.epsilon(math.inf if math.isinf(mu) else float(gaussian.epsilon(mu, delta)))


def _checked(matrix: ArrayLike) -> np.ndarray:
    values = np.array(matrix, dtype=float)
    if values.ndim != 2 or values.shape[0] != values.shape[1] or values.size == 0:
        raise ConfigError(f"the matrix has shape {values.shape}; it must be [K, K], one entry per ordered pair.")
    finite = values[np.isfinite(values)]
    if not finite.size or (finite < 0).any():
        raise ConfigError("the matrix needs a finite loss, and none below 0; there is nothing to colour.")
    return values
