"""What an algorithm declares of itself, tried on the functions that run.

The accountant reduces several local steps, and updates clipped as a whole, to one gradient step. It may, because the algorithm says that
a round equals a round of a simpler algorithm with another gradient (`LocalSteps`, `ClippedUpdate`). Saying is not enough: here an agent plays
rounds of both on random states, with random gradients that bend, of many sizes, and the two must come out the same.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from sottovoce.algorithms import Algorithm, ClippedUpdate, LocalSteps, step_at
from sottovoce.clipping import vector_norm
from sottovoce.errors import UnsupportedClaim
from sottovoce.linear.alike import for_each_distinct_round
from sottovoce.linear.coordinates import Coordinates, unwrapped
from sottovoce.linear.form import LinearRound, num_variables, play_round, refill, round_coefficients

STATE_SIZES = (0.0, 1e-3, 1.0, 1e3)
EFFECTS = (1e-6, 1.0, 1e6, 1e12)  # how far gradients move an agent, in units of the bound or of its state
RELATIVE = 1e-9
ROUNDING = 256 * np.finfo(float).eps
DIMENSION = 4

Gradient = Callable[..., Any]


def check_declared(algorithm: Algorithm, rounds: int) -> None:
    """Refuse local steps, clipped updates and silence that are declared but not what the functions do.

    Raises:
        UnsupportedClaim: in some round, what an agent sends or keeps is something else.
    """
    if algorithm.sampling is not None:
        _refuse(
            algorithm,
            lambda t: _silent_without_data(algorithm, t),
            rounds,
            algorithm,
            "agents that are not drawn are declared to count as if they had sent what the relay has already: their message without any gradient",
        )
    if algorithm.clipped_update is not None:
        clipped = algorithm.clipped_update
        _refuse(
            algorithm,
            lambda t: _follows_clip(algorithm, clipped, t),
            rounds,
            clipped.one_step,
            f"clipped_update declares that a round is one of '{clipped.one_step.name}' with a vector of {clipped.clip.norm} norm at most "
            f"{clipped.clip.bound:g} in place of the gradient",
        )
    elif algorithm.local_steps is not None:
        local = algorithm.local_steps
        _refuse(
            algorithm,
            lambda t: _follows_steps(algorithm, local, t),
            rounds,
            local.one_step,
            f"local_steps declares that a round is one of '{local.one_step.name}' along the sum of the gradients of {local.times} steps",
        )


def check_walk(algorithm: Algorithm, rounds: int) -> None:
    """Refuse a walk in which anybody but the holder does something: waiting agents keep what they have, and receiving is all a receiver does.

    The simulator counts contributions by who holds the token, and lets all agents play the same functions: what `begin` or `update` did would be
    done by agents that wait, or by the receiver.

    Raises:
        UnsupportedClaim: naming the round.
    """
    _refuse(
        algorithm,
        lambda t: _only_holder_acts(algorithm, t),
        rounds,
        algorithm,
        "on a walk the holder of the token makes the message, its receiver keeps what arrives, and all others keep what they have",
    )


def _only_holder_acts(algorithm: Algorithm, round_: Any) -> bool:
    if algorithm.begin is not None or len(algorithm.exchanges) != 1 or num_variables(algorithm) != 3:
        return False
    (exchange,), taken = algorithm.exchanges, []

    def gradient(w: Any, step: int = 0) -> Any:
        taken.append(step)
        return w

    for _, blocks, received, _ in _trials(algorithm, 6):
        w, arrived = Coordinates(blocks[0]), Coordinates(received[0])
        kept = unwrapped(exchange.update(w, arrived, gradient, round_))
        silent = None if exchange.silent is None else unwrapped(exchange.silent(w, round_))
        same = np.array_equal(kept, received[0]) and silent is not None and np.array_equal(silent, blocks[0])
        if taken or not same or not np.array_equal(unwrapped(algorithm.model(w)), blocks[0]):
            return False
    return True


def _refuse(algorithm: Algorithm, holds: Callable[[Any], bool], rounds: int, one: Algorithm, claim: str) -> None:
    found, numbers, _ = for_each_distinct_round(holds, rounds, algorithm, one)
    for fine, round_ in zip(found, numbers, strict=True):
        if not fine:
            raise UnsupportedClaim(
                f"{claim}, and in round {round_} the functions of '{algorithm.name}' do something else, so that nothing proven for the one holds "
                f"for the other. Declare what the functions do, or leave the declaration out."
            )


def _bending(draw: np.random.Generator, size: float, width: float) -> Gradient:
    """A gradient that differs from point to point and from step to step, of norm about `size`."""
    slopes, offsets = draw.standard_normal((2, 64, DIMENSION))

    def gradient(w: Any, step: int = 0) -> Any:
        return size * (slopes[step % 64] * np.tanh(w / width) + offsets[step % 64])

    return gradient


def _trials(
    algorithm: Algorithm, seed: int, unit: float = 1.0
) -> list[tuple[np.random.Generator, np.ndarray, np.ndarray, float]]:
    """States and received vectors of several sizes, in multiples of `unit`."""
    draw = np.random.default_rng(seed)
    variables, exchanges = num_variables(algorithm), len(algorithm.exchanges)
    trials = []
    for size in STATE_SIZES:
        values = size * unit * draw.standard_normal((variables - 1, DIMENSION))
        trials.append((draw, values[: variables - 1 - exchanges], values[variables - 1 - exchanges :], size))
    return trials


def _silent_without_data(algorithm: Algorithm, round_: Any) -> bool:
    """Whether what the relay takes of a silent agent is the message that it would send if its gradients were zero."""
    template = algorithm.init(np.zeros(1))
    for _, blocks, received, _ in _trials(algorithm, 5):
        messages, _ = play_round(algorithm, round_, blocks, received, lambda w, step=0: 0.0 * w)
        for exchange, message in zip(algorithm.exchanges, messages, strict=True):
            if exchange.silent is None:
                return False
            state = refill(template, [Coordinates(row) for row in blocks])
            if not _close(unwrapped(exchange.silent(state, round_)), message):
                return False
    return len(algorithm.exchanges) == 1 and algorithm.begin is None


def _follows_steps(algorithm: Algorithm, local: LocalSteps, round_: Any) -> bool:
    h = float(step_at(local.step_size, round_))
    one = local.one_step
    if num_variables(algorithm) != num_variables(one):
        return False
    for draw, blocks, received, size in _trials(algorithm, 2):
        for effect in EFFECTS:
            width = size if size > 0 else 1.0
            # Gradients that move the agent as far as it is from zero show what becomes of them.
            gradient = _bending(draw, effect * width / h if h > 0 else effect, width * effect)

            def together(w: Any, step: int = 0, gradient: Gradient = gradient) -> Any:
                total = gradient(w, 0)
                for i in range(1, local.times):
                    total = total + gradient(w - h * total, i)
                return total

            pair = [play_round(algorithm, round_, blocks, received, gradient)]
            pair.append(play_round(one, round_, blocks, received, together))
            if not all(_close(a, b) for a, b in zip(*pair, strict=True)):
                return False
    return True


def _follows_clip(algorithm: Algorithm, clipped: ClippedUpdate, round_: Any) -> bool:
    one, clip = clipped
    if num_variables(algorithm) != num_variables(one):
        return False
    form = round_coefficients(one, round_)
    for draw, blocks, received, _ in _trials(algorithm, 3, clip.bound):
        for effect in EFFECTS:
            gradient = _bending(draw, effect * clip.bound, clip.bound)
            found = play_round(algorithm, round_, blocks, received, gradient)
            update, slack = _vector_in_place_of_gradient(form, blocks, received, found)
            norm = float(vector_norm(update, clip.norm))
            if not norm <= clip.bound * (1 + RELATIVE) + slack:
                return False
            again = play_round(one, round_, blocks, received, lambda w, step=0, update=update: update)
            if not all(_close(a, b) for a, b in zip(found, again, strict=True)):
                return False
    return True


def _vector_in_place_of_gradient(
    form: LinearRound, blocks: np.ndarray, received: np.ndarray, found: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, float]:
    """The gradient with which the linear round would have sent and kept what was found, and how far rounding may blur its norm."""
    rows = np.vstack([form.messages, form.state])
    known = np.vstack([blocks, received])
    rest = np.vstack(found) - rows[:, :-1] @ known
    slope = rows[:, -1]
    weight = float(slope @ slope)
    if weight == 0:
        return np.zeros(rest.shape[1]), 0.0
    blur = ROUNDING * (np.abs(rows[:, :-1]) @ np.abs(known)).max(initial=0.0) / np.sqrt(weight)
    return slope @ rest / weight, float(blur * rest.shape[1])


def _close(found: np.ndarray, expected: np.ndarray) -> bool:
    """Whether two results agree, relative to the largest number among them."""
    largest = max(np.abs(found).max(initial=0.0), np.abs(expected).max(initial=0.0))
    return found.shape == expected.shape and bool((np.abs(found - expected) <= RELATIVE * largest).all())
