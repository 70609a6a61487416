"""The linear form of one round, read off the agent's own functions.

The functions of an algorithm are evaluated on symbols instead of numbers: every variable of the round is a unit vector, so what
comes out is a vector of coefficients. With the variables ordered as

    v = (x_1, ..., x_b,  r_1, ..., r_m,  g)        state blocks, received combination of each exchange, gradient

a round is   psi_j = messages[j] . v,   g = gradient at (gradient_at . v),   x' = state . v,   r_j = sum_l a_lk (psi_j + noise)_l.
Nothing is written down twice, so theory and accountant speak of the algorithm that runs. That the functions are linear is a claim too;
`linearity` tries it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.errors import UnsupportedClaim
from sottovoce.linear.coordinates import Coordinates, unwrapped
from sottovoce.reprs import short_repr


class LinearRound(NamedTuple):
    """Coefficients of one round over the variables v = (x_1..x_b, r_1..r_m, g)."""

    messages: np.ndarray  # [m, b + m + 1]
    gradient_at: np.ndarray | None  # [b + m + 1]; None when the round takes no gradient
    state: np.ndarray  # [b, b + m + 1]
    model: np.ndarray  # [b]: the model is model . (x_1..x_b)

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def blocks(self) -> int:
        """b, how many vectors of the model's size an agent keeps."""
        return len(self.state)


def round_coefficients(algorithm: Algorithm, round_: Any) -> LinearRound:
    """The coefficients of a round of an algorithm already known to be linear."""
    form = evaluate_round(algorithm, round_, np.eye(num_variables(algorithm)))
    # On the unit vectors the model is read with the state's own coefficients: keep the block part only.
    return form._replace(model=form.model[: form.blocks])


def num_variables(algorithm: Algorithm) -> int:
    """B + m + 1."""
    return len(state_blocks(algorithm.init(np.zeros(1)))) + len(algorithm.exchanges) + 1


def evaluate_round(algorithm: Algorithm, round_: Any, symbols: np.ndarray) -> LinearRound:
    """Run one agent's round on the given vectors: row i of `symbols` [b + m + 1, ..., columns] stands for variable i.

    Raises:
        UnsupportedClaim: gradients are taken at two different points.
    """
    points: list[np.ndarray] = []

    def gradient(point: Any, step: int = 0) -> Any:
        if points and not np.array_equal(points[0], point):
            raise UnsupportedClaim(
                f"'{algorithm.name}' takes gradients at more than one point in a round; the exact theory covers one. Simulate it."
            )
        points.append(np.asarray(point, dtype=float))
        return symbols[-1]

    template = algorithm.init(np.zeros(1))
    blocks = len(state_blocks(template))
    model = unwrapped(algorithm.model(refill(template, [Coordinates(row) for row in symbols[:blocks]])))
    messages, state = play_round(algorithm, round_, symbols[:blocks], symbols[blocks:-1], gradient)
    return LinearRound(messages, points[0] if points else None, state, model)


def play_round(
    algorithm: Algorithm,
    round_: Any,
    blocks: np.ndarray,
    received: np.ndarray,
    gradient: Callable[..., Any],
    *,
    opaque: bool = True,
) -> tuple[np.ndarray, np.ndarray]:
    """Let one agent play a round: what it sends [m, columns] and what it keeps [b, columns].

    Args:
        algorithm: whose functions.
        round_: its number, or an unnumbered round.
        blocks: [b, columns] the state before, block by block.
        received: [m, columns] what arrives in each exchange.
        gradient: (w) or (w, step), of plain vectors.
        opaque: the functions get vectors that show no coordinate, and must treat all of them alike.

    Raises:
        UnsupportedClaim: opaque, and the functions look at single coordinates or at the shape.
    """
    given: Callable[[np.ndarray], Any] = Coordinates if opaque else np.asarray

    def asked(w: Any, step: int = 0) -> Any:
        return given(gradient(unwrapped(w), step))

    # What an agent makes of its gradients by an optimiser of its own is as little read as the gradients are.
    asked.unread = lambda walked, w: given(walked(unwrapped(w), gradient))  # type: ignore[attr-defined]
    messages = []
    with np.errstate(all="ignore"):  # what is not finite is judged by whoever asked
        state = algorithm.begun(refill(algorithm.init(np.zeros(1)), [given(row) for row in blocks]), asked, round_)
        for exchange, arrived in zip(algorithm.exchanges, received, strict=True):
            messages.append(unwrapped(exchange.message(state, asked, round_)))
            state = exchange.update(state, given(arrived), asked, round_)
    return np.stack(messages), np.stack([unwrapped(leaf) for leaf in state_blocks(state)])


def state_blocks(tree: Any) -> list[Any]:
    """The arrays of a state made of tuples, named tuples, lists and dicts, in a fixed order."""
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree) for leaf in state_blocks(tree[key])]
    if isinstance(tree, list | tuple):
        return [leaf for part in tree for leaf in state_blocks(part)]
    return [tree]


def refill(tree: Any, values: Any) -> Any:
    """The same structure with its arrays replaced by the given ones, in the order of `state_blocks`."""
    return _refilled(tree, iter(values))


def _refilled(tree: Any, values: Any) -> Any:
    if isinstance(tree, dict):
        filled = {key: _refilled(tree[key], values) for key in sorted(tree)}
        return {key: filled[key] for key in tree}
    if isinstance(tree, list | tuple):
        parts = [_refilled(part, values) for part in tree]
        make: Callable[[list[Any]], Any] = (lambda p: type(tree)(*p)) if hasattr(tree, "_fields") else type(tree)
        return make(parts)
    return next(values)
