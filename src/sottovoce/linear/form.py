"""The linear form of one round, read off the agent's own functions.

The functions of an algorithm are evaluated on symbols instead of numbers: every variable of the round is a unit vector, so what
comes out is a vector of coefficients. With the variables ordered as

    v = (x_1, ..., x_b,  r_1, ..., r_m,  g)        state blocks, received combination of each exchange, gradient

a round is   psi_j = messages[j] . v,   g = gradient at (gradient_at . v),   x' = state . v,   r_j = sum_l a_lk (psi_j + noise)_l.
Nothing is written down twice, so theory and accountant speak of the algorithm that runs. A second evaluation on random vectors
checks that the functions are linear (a projection is not) and refuses otherwise.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.errors import UnsupportedClaim
from sottovoce.linear.shapes import check_shapes

MAGNITUDES = (1e-6, 1.0, 1e3, 1e9, 1e15)  # a clipping or projection shows at one of these sizes


class LinearRound(NamedTuple):
    """Coefficients of one round over the variables v = (x_1..x_b, r_1..r_m, g)."""

    messages: np.ndarray  # [m, b + m + 1]
    gradient_at: np.ndarray | None  # [b + m + 1]; None when the round takes no gradient
    state: np.ndarray  # [b, b + m + 1]
    model: np.ndarray  # [b]: the model is model . (x_1..x_b)

    @property
    def blocks(self) -> int:
        """b, how many vectors of the model's size an agent keeps."""
        return len(self.state)


def linear_round(algorithm: Algorithm, round_: int) -> LinearRound:
    """The linear form of `round_` (numbered from 1).

    Raises:
        UnsupportedClaim: the functions are not linear, or take gradients at two different points in one round.
    """
    check_shapes(algorithm, round_)
    form = round_coefficients(algorithm, round_)
    blocks, size = form.blocks, form.messages.shape[1]
    for magnitude in MAGNITUDES:
        random = np.random.default_rng(round_).standard_normal((size, 5)) * magnitude
        found = _evaluate(algorithm, round_, random)
        pairs = [(rows @ random, value) for rows, value in zip(_parts(form), _parts(found), strict=True)]
        pairs.append((form.model @ random[:blocks], found.model))
        if not all(np.allclose(value, expected, rtol=1e-9, atol=1e-9 * magnitude) for expected, value in pairs):
            raise UnsupportedClaim(
                f"'{algorithm.name}' is not linear in models and gradients in round {round_} (a projection or clipping of the "
                f"model, for instance), so neither exact theory nor an exact account applies. Simulate it, leave the "
                f"non-linear part out, or declare the rest as linear_part if it only projects on boxes."
            )
    return form


def refuse_other_linear_part(algorithm: Algorithm, linear: Algorithm, round_: int) -> None:
    """Refuse a declared linear part that differs from the algorithm where models are small, inside every box.

    Raises:
        UnsupportedClaim: the two do not agree.
    """
    symbols = (
        np.random.default_rng(round_).standard_normal((round_coefficients(linear, round_).messages.shape[1], 5)) * 1e-9
    )
    both = [_evaluate(one, round_, symbols) for one in (algorithm, linear)]
    parts = [[*_parts(one), one.model] for one in both]
    same = len(parts[0]) == len(parts[1]) and all(
        own.shape == other.shape and np.allclose(own, other, rtol=1e-9, atol=1e-18)
        for own, other in zip(*parts, strict=True)
    )
    if not same:
        raise UnsupportedClaim(
            f"the linear part of '{algorithm.name}' is another algorithm: they differ in round {round_} even for tiny models, which no box "
            f"cuts off. Declare as linear_part the same functions without their projections."
        )


def round_coefficients(algorithm: Algorithm, round_: int) -> LinearRound:
    """The coefficients of a round of an algorithm already known to be linear: `linear_round` without its check."""
    blocks = len(state_blocks(algorithm.init(np.zeros(1))))
    form = _evaluate(algorithm, round_, np.eye(blocks + len(algorithm.exchanges) + 1))
    # On the unit vectors the model is read with the state's own coefficients: keep the block part only.
    return form._replace(model=form.model[:blocks])


def _parts(form: LinearRound) -> list[np.ndarray]:
    return [form.messages, form.state] + ([] if form.gradient_at is None else [form.gradient_at])


def _evaluate(algorithm: Algorithm, round_: int, symbols: np.ndarray) -> LinearRound:
    """Run one agent's round on the given vectors (row i stands for variable i)."""
    template = algorithm.init(np.zeros(1))
    blocks = len(state_blocks(template))
    points: list[np.ndarray] = []

    def gradient(point: Any, step: int = 0) -> Any:
        if points and not np.array_equal(points[0], point):
            raise UnsupportedClaim(
                f"'{algorithm.name}' takes gradients at more than one point in a round; the exact theory covers one. Simulate it."
            )
        points.append(np.asarray(point, dtype=float))
        return symbols[-1]

    state = _refill(template, iter(symbols[:blocks]))
    model = np.asarray(algorithm.model(state), dtype=float)
    state = algorithm.begun(state, gradient, round_)
    messages = []
    for j, exchange in enumerate(algorithm.exchanges):
        messages.append(np.asarray(exchange.message(state, gradient, round_), dtype=float))
        state = exchange.update(state, symbols[blocks + j], gradient, round_)
    new_state = np.stack([np.asarray(leaf, dtype=float) for leaf in state_blocks(state)])
    return LinearRound(np.stack(messages), points[0] if points else None, new_state, model)


def state_blocks(tree: Any) -> list[Any]:
    """The arrays of a state made of tuples, named tuples, lists and dicts, in a fixed order."""
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree) for leaf in state_blocks(tree[key])]
    if isinstance(tree, list | tuple):
        return [leaf for part in tree for leaf in state_blocks(part)]
    return [tree]


def _refill(tree: Any, values: Any) -> Any:
    """The same structure with its arrays replaced by the next values, in the order of `state_blocks`."""
    if isinstance(tree, dict):
        filled = {key: _refill(tree[key], values) for key in sorted(tree)}
        return {key: filled[key] for key in tree}
    if isinstance(tree, list | tuple):
        parts = [_refill(part, values) for part in tree]
        make: Callable[[list[Any]], Any] = (lambda p: type(tree)(*p)) if hasattr(tree, "_fields") else type(tree)
        return make(parts)
    return next(values)
