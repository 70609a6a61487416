"""What shifts of sources cost that are not independent: an upper bound of h' X h from the lengths of h alone.

The sources of a round together are shifted by h, h_s a vector with ||h_s|| <= H_s, at a price of sum_rs X_rs <h_r, h_s>. By Cauchy-Schwarz

    h' X h <= H' |X| H,    |X| entry by entry, which is X itself where X has no negative entry.

This holds whether or not |X| is positive semidefinite; only the programme that looks for good shares needs a convex price, and is given |X| plus just enough
of its diagonal. The bound grows with every H_s, since |X| has no negative entry, so bounds on lengths may be used for lengths.

A read-out is undone by h = -w D, w fixed and D one vector: its price w' X w ||D||^2 needs no absolute values, and with other shifts H at once

    h' X h <= H' |X| H + 2 ||D|| H' |X w| + ||D||^2 w' X w.
"""

from typing import NamedTuple

import numpy as np

EPS = float(np.finfo(float).eps)


class Prices(NamedTuple):
    """The price of shifts in one round, at unit scale."""

    precision: np.ndarray  # [W, W] X
    sizes: np.ndarray  # [W, W] |X|
    proposed: np.ndarray  # [W, W] what the programme minimises, positive semidefinite and nowhere below |X|
    convex: bool  # it is |X|

    def of(self, shifts: np.ndarray, undo: np.ndarray, rest: float) -> float:
        """The price of shifts of these lengths [W], and of undoing a difference of length `rest` by `undo` [W]."""
        if not np.isfinite(shifts).all():
            return np.inf
        cost = shifts @ self.sizes @ shifts
        if rest > 0:
            moved = self.precision @ undo
            cost += 2.0 * rest * (shifts @ np.abs(moved)) + rest**2 * (undo @ moved)
        return float(cost)

    def with_readout(self, place: np.ndarray, undo: np.ndarray) -> tuple[np.ndarray, bool]:
        """The price of shifts at `place` with the length of what `undo` undoes as a last variable, made convex; and whether it is the price itself."""
        moved = self.precision @ undo
        cross = np.abs(moved[place])[:, None]
        return made_convex(np.block([[self.sizes[np.ix_(place, place)], cross], [cross.T, undo @ moved]]))


def prices(precision: np.ndarray, width: int) -> Prices:
    """Prices for W = width sources, of which the last ones, beyond X, never move."""
    X = np.zeros((width, width))
    X[: len(precision), : len(precision)] = precision
    sizes = np.abs(X)
    proposed, convex = made_convex(sizes)
    return Prices(X, sizes, proposed, convex)


def made_convex(sizes: np.ndarray) -> tuple[np.ndarray, bool]:
    """A symmetric matrix without negative entries, plus as much of its diagonal as makes it positive semidefinite; and whether that was nothing."""
    diagonal = np.diag(sizes)
    unit = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    values = np.linalg.eigvalsh(sizes * np.outer(unit, unit))
    lowest = float(values[0]) if values.size else 0.0
    if lowest >= -len(sizes) * EPS * max(float(values[-1]), 0.0):
        return sizes, True
    return sizes - lowest * np.diag(diagonal), False


def shortest_undo(precision: np.ndarray | None, weights: np.ndarray, movable: np.ndarray) -> np.ndarray:
    """The vector w [W] on movable sources with weights' w = 1 and the least w' X w; zeros where nothing movable carries weight.

    Args:
        precision: X, or None for the identity.
        weights: [W] of the sources in the read-out, 0 where not movable.
        movable: [W] bool.
    """
    made = np.zeros_like(weights)
    if not weights.any():
        return made
    made[:] = weights
    if precision is not None:
        chosen = np.flatnonzero(movable)
        found = np.linalg.lstsq(precision[np.ix_(chosen, chosen)], weights[chosen], rcond=None)[0]
        if weights[chosen] @ found > 0:  # what rounding spoils is replaced by the weights themselves: any w will do
            made[:] = 0.0
            made[chosen] = found
    return np.asarray(made / (weights @ made))
