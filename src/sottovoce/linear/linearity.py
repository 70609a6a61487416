"""That an agent's functions are linear in every round, tried on random vectors of many sizes.

Coefficients are read off unit vectors (`form`). A clipping, a projection or a normalised gradient has such coefficients too, but other
values elsewhere, so every distinct round is evaluated again on random vectors:

    all variables alike     at sizes from 1e-6 to 1e15: a clipping or projection shows at one of them
    the gradient alone      a small step hides what happens to a gradient behind the model; here nothing else is there
    balanced                for every row, each variable divided by its coefficient there, so that all of them count alike in it

What was found is compared with the coefficients relative to the size of the terms that make it up, never to a fixed number.
"""

from typing import Any, NamedTuple

import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.errors import UnsupportedClaim
from sottovoce.linear.alike import for_each_distinct_round
from sottovoce.linear.coordinates import NumberNeeded
from sottovoce.linear.form import LinearRound, evaluate_round, num_variables, round_coefficients
from sottovoce.linear.shapes import check_shapes
from sottovoce.reprs import short_repr

SIZES = (1e-6, 1.0, 1e3, 1e9, 1e15)
GRADIENT_SIZES = (1e-6, 1.0, 1e6, 1e12)
BALANCED_SIZES = (1.0, 1e9)
SMALL = 1e-9  # inside every box an algorithm may project on
COLUMNS = 5
RELATIVE = 1e-9  # tolerance relative to the sum of absolute terms
ROUNDING = 64 * np.finfo(float).eps  # tolerance relative to the largest number that goes in


class LinearRounds(NamedTuple):
    """The linear forms of a run."""

    forms: list[LinearRound]  # each distinct one once
    which: np.ndarray  # [T] position of every round in `forms`

    def __repr__(self) -> str:
        return short_repr(self)


class _Tried(NamedTuple):
    """One round on unit vectors, and on random ones."""

    form: LinearRound
    vectors: np.ndarray  # [n, trials x columns]
    values: LinearRound  # of the same columns


def linear_rounds(algorithm: Algorithm, rounds: int) -> LinearRounds:
    """The linear forms of rounds 1 to `rounds`, each distinct one tried.

    Raises:
        UnsupportedClaim: a round is not linear, or takes gradients at two different points.
    """
    draw = np.random.default_rng(0)
    normal = draw.standard_normal((num_variables(algorithm), COLUMNS))
    tried, numbers, which = for_each_distinct_round(lambda t: _try(algorithm, t, normal), rounds, algorithm)
    _refuse_unless_linear(algorithm.name, tried, numbers)
    return LinearRounds([one.form for one in tried], which)


def linear_round(algorithm: Algorithm, round_: int) -> LinearRound:
    """The linear form of one round (numbered from 1), tried.

    Raises:
        UnsupportedClaim: it is not linear, or takes gradients at two different points.
    """
    normal = np.random.default_rng(0).standard_normal((num_variables(algorithm), COLUMNS))
    tried = _try(algorithm, round_, normal)
    _refuse_unless_linear(algorithm.name, [tried], [round_])
    return tried.form


def _try(algorithm: Algorithm, round_: Any, normal: np.ndarray) -> _Tried:
    check_shapes(algorithm, round_)
    form = round_coefficients(algorithm, round_)
    vectors = _trial_vectors(form, normal)
    try:
        found = evaluate_round(algorithm, round_, np.stack(vectors, axis=1))
        parts = [None if part is None else part.reshape(*part.shape[:-2], -1) for part in found]
    except NumberNeeded:
        each = zip(*(evaluate_round(algorithm, round_, one) for one in vectors), strict=True)
        parts = [_joined(list(values)) for values in each]
    return _Tried(form, np.hstack(vectors), LinearRound(*parts))  # type: ignore[arg-type]


def _joined(parts: list[np.ndarray | None]) -> np.ndarray | None:
    """One after the other; None where a gradient is taken for some vectors only, and no form says when."""
    known = [part for part in parts if part is not None]
    return np.concatenate(known, axis=-1) if len(known) == len(parts) else None


def _trial_vectors(form: LinearRound, normal: np.ndarray) -> list[np.ndarray]:
    """[n, columns] each: all variables, the gradient alone, and balanced ones."""
    alone = np.zeros_like(normal)
    alone[-1] = normal[-1]
    rows = np.abs(np.vstack([*_rows(form), np.append(form.model, np.zeros(len(normal) - form.blocks))]))
    weights = np.where(rows > 0, rows, 1.0)
    return [
        *(size * normal for size in SIZES),
        *(size * alone for size in GRADIENT_SIZES),
        *(size * (normal / row[:, None]) for size in BALANCED_SIZES for row in weights),
    ]


def _rows(form: LinearRound) -> list[np.ndarray]:
    """What is compared: messages, states, the point of the gradient."""
    return [form.messages, form.state, *([] if form.gradient_at is None else [form.gradient_at[None]])]


def _refuse_unless_linear(name: str, tried: list[_Tried], numbers: list[int]) -> None:
    kinds: dict[bool, list[int]] = {}  # positions of the rounds with a gradient (False) and without one (True)
    for position, one in enumerate(tried):
        kinds.setdefault(one.form.gradient_at is None, []).append(position)
    for without, positions in kinds.items():
        group = [tried[i] for i in positions]
        bad = np.array([(one.values.gradient_at is None) != without for one in group])
        if not bad.any():
            bad = _departs(group)
        if bad.any():
            raise UnsupportedClaim(
                f"'{name}' is not linear in models and gradients in round {numbers[positions[int(np.argmax(bad))]]} (a projection or clipping "
                f"of the model, for instance), so neither exact theory nor an exact account applies. Simulate it, leave the non-linear part "
                f"out, or declare the rest as linear_part if it only projects on boxes."
            )


def _departs(group: list[_Tried]) -> np.ndarray:
    """[N] bool: rounds in which some value is not what the coefficients say."""
    forms = np.stack([np.vstack(_rows(one.form)) for one in group])  # [N, rows, n]
    model = np.stack([one.form.model for one in group])[:, None, :]  # [N, 1, b]
    blocks = model.shape[-1]
    vectors = np.stack([one.vectors for one in group])  # [N, n, columns]
    bad = _off(forms, vectors, np.stack([np.vstack(_rows(one.values)) for one in group]))
    return np.asarray(bad | _off(model, vectors[:, :blocks], np.stack([one.values.model for one in group])[:, None]))


def _off(coefficients: np.ndarray, vectors: np.ndarray, values: np.ndarray) -> np.ndarray:
    """[N] whether values [N, rows, columns] differ from coefficients [N, rows, n] times vectors [N, n, columns]."""
    expected, terms = coefficients @ vectors, np.abs(coefficients) @ np.abs(vectors)
    largest = np.abs(vectors).max(axis=1, keepdims=True) * np.abs(coefficients).max(axis=2, keepdims=True)
    close = np.abs(values - expected) <= RELATIVE * terms + ROUNDING * largest
    return np.asarray(~close.all(axis=(1, 2)))


def check_linear_part(algorithm: Algorithm, linear: Algorithm, rounds: int) -> None:
    """Refuse a declared linear part that is another algorithm, and a rest that is no projection.

    Where models are small, inside every box, both must do the same. At any size, what the algorithm makes of two inputs may differ in no
    coordinate by more than the sum of |coefficient| |difference|: a projection on a box moves no two numbers apart.

    Raises:
        UnsupportedClaim: in some round one of the two fails.
    """
    draw = np.random.default_rng(1)
    shape = (num_variables(linear), COLUMNS)
    normal, other = draw.standard_normal(shape), draw.standard_normal(shape)

    def fault(round_: Any) -> str | None:
        form = round_coefficients(linear, round_)
        if num_variables(algorithm) != num_variables(linear) or not _same_when_small(algorithm, form, round_, normal):
            return "is another algorithm: they differ even for tiny models, which no box cuts off"
        near = _pushes_apart(algorithm, form, round_, normal, other)
        return "leaves out more than projections: without them two inputs come out further apart" if near else None

    faults, numbers, _ = for_each_distinct_round(fault, rounds, algorithm, linear)
    for said, round_ in zip(faults, numbers, strict=True):
        if said is not None:
            raise UnsupportedClaim(
                f"the linear part of '{algorithm.name}' {said} (round {round_}). Declare as linear_part the same functions without their "
                f"projections."
            )


def check_steps_from_point(algorithm: Algorithm, linear: Algorithm, rounds: int) -> None:
    """Refuse a projected algorithm whose steps do not start where their gradients are taken: a promise about losses says nothing of such steps.

    Under the promise w - step grad(w) pushes no two models apart, and a projection of it neither. So what is made of a gradient may differ between
    two inputs, in every coordinate, by no more than (point - step gradient) does.

    Raises:
        UnsupportedClaim: a step from another point.
    """
    draw = np.random.default_rng(7)
    shape = (num_variables(linear), COLUMNS)
    normal, other = draw.standard_normal(shape), draw.standard_normal(shape)

    def starts_there(round_: Any) -> bool:
        form = round_coefficients(linear, round_)
        rows = np.vstack([form.messages, form.state])
        moving = np.flatnonzero(rows[:, -1])
        if form.gradient_at is None or not len(moving):
            return True
        for size in SIZES:
            for pair in ((size * normal, size * other), (size * normal, size * (normal + 1e-3 * other))):
                first, second = (evaluate_round(algorithm, round_, v) for v in pair)
                if first.gradient_at is None or second.gradient_at is None:
                    return False
                made = np.vstack([first.messages - second.messages, first.state - second.state])[moving]
                points = first.gradient_at - second.gradient_at
                stepped = points + rows[moving, -1:] * (pair[0][-1] - pair[1][-1])
                slack = ROUNDING * np.abs(pair[0]).max() * max(1.0, np.abs(rows).max())
                if not (np.abs(made) <= np.abs(stepped) * (1 + RELATIVE) + slack).all():
                    return False
        return True

    fine, numbers, _ = for_each_distinct_round(starts_there, rounds, algorithm, linear)
    for good, round_ in zip(fine, numbers, strict=True):
        if not good:
            raise UnsupportedClaim(
                f"'{algorithm.name}' takes its gradient in round {round_} at a projected point and steps from another one, and a promise about "
                f"losses speaks of steps from the point itself. Step from the projected point, or leave losses out."
            )


def _same_when_small(algorithm: Algorithm, form: LinearRound, round_: Any, normal: np.ndarray) -> bool:
    for vectors in _trial_vectors(form, normal):
        # At most SMALL in every variable and in everything that is made of them.
        small = vectors * (SMALL / max(np.abs(vectors).max(), (np.abs(np.vstack(_rows(form))) @ np.abs(vectors)).max()))
        found = evaluate_round(algorithm, round_, small)
        if (found.gradient_at is None) != (form.gradient_at is None):
            return False
        pairs = [(np.vstack(_rows(form)), small, np.vstack(_rows(found)))]
        pairs.append((form.model[None], small[: form.blocks], found.model[None]))
        if any(_off(*(part[None] for part in pair))[0] for pair in pairs):
            return False
    return True


def _pushes_apart(algorithm: Algorithm, form: LinearRound, round_: Any, normal: np.ndarray, other: np.ndarray) -> bool:
    coefficients = np.abs(np.vstack([form.messages, form.state]))
    for size in SIZES:
        # Two inputs far apart, then two close together.
        for first, second in ((size * normal, size * other), (size * normal, size * (normal + 1e-3 * other))):
            values = [evaluate_round(algorithm, round_, v) for v in (first, second)]
            moved = np.abs(np.vstack([values[0].messages - values[1].messages, values[0].state - values[1].state]))
            allowed = coefficients @ np.abs(first - second)
            largest = np.abs(first).max() * coefficients.max()
            if not (moved <= allowed * (1 + RELATIVE) + ROUNDING * largest).all():
                return True
    return False
