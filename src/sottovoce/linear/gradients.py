"""The check that simulation and accountant share: which gradients an algorithm takes in a round."""

from typing import Any

import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.linear.form import state_blocks
from sottovoce.noise import Noise


def gradients_taken(algorithm: Algorithm, round_: int = 1) -> tuple[int, ...]:
    """The numbers of the gradients one agent takes in a round, in order, found by letting it work."""
    taken: list[int] = []

    def gradient(w: Any, step: int = 0) -> Any:
        taken.append(int(step))
        return np.zeros_like(w)

    state = algorithm.begun(algorithm.init(np.zeros(1)), gradient, round_)
    for exchange in algorithm.exchanges:
        exchange.message(state, gradient, round_)
        state = exchange.update(state, np.zeros(1), gradient, round_)
    return tuple(taken)


def uses_gradients(algorithm: Algorithm, round_: int) -> bool:
    """Whether the gradients of this round make any difference to what an agent sends or keeps.

    Found by trying: several states, and gradients of zero and of several sizes.
    """
    generator = np.random.default_rng(round_)
    for size in (1e-3, 1.0, 1e3):
        start, received, direction = generator.standard_normal((3, 4)) * size
        outcomes = [_outcome(algorithm, round_, start, received, factor * direction) for factor in (0.0, 1.0, -7.0)]
        if any(not np.array_equal(one, outcomes[0]) for one in outcomes[1:]):
            return True
    return False


def _outcome(algorithm: Algorithm, round_: int, start: Any, received: Any, slope: Any) -> np.ndarray:
    """All that one agent sends and keeps in a round in which every gradient is `slope`."""

    def gradient(w: Any, step: int = 0) -> Any:
        return slope

    state = algorithm.begun(algorithm.init(start), gradient, round_)
    found = []
    for exchange in algorithm.exchanges:
        found.append(exchange.message(state, gradient, round_))
        state = exchange.update(state, received, gradient, round_)
    return np.stack([np.asarray(part, dtype=float) for part in (*found, *state_blocks(state))])


def check_gradients(algorithm: Algorithm, noise: Noise, rounds: int) -> None:
    """Refuse gradients without a batch of their own and, under noise in gradients, without noise of their own.

    Raises:
        ConfigError: the algorithm numbers a gradient beyond those it declares.
        IncompatibleChoice: two gradients would carry the same noise, or some rounds take gradients without noise.
    """
    taken = gradients_taken(algorithm)
    if max(taken, default=0) >= algorithm.gradients_per_round:
        raise ConfigError(
            f"'{algorithm.name}' takes gradient number {max(taken)} in a round (counted from 0) but declares {algorithm.gradients_per_round}. "
            f"Declare as many in local_steps."
        )
    if not noise.in_gradients:
        return
    if len(set(taken)) < len(taken):
        raise IncompatibleChoice(
            f"'{algorithm.name}' takes several gradients in a round under the same number, and they would carry the same noise, which their "
            f"difference does not. Number them: gradient(w, step)."
        )
    if not algorithm.noisy_rounds(rounds).all():
        raise IncompatibleChoice(
            f"'{algorithm.name}' goes on without noise after its gradient rounds, which is meant for noise in messages. Use "
            f"sv.noise.independent(law), or another algorithm."
        )
