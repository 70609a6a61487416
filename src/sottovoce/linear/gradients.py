"""The check that simulation and accountant share: which gradients an algorithm takes in a round."""

from typing import Any

import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.errors import ConfigError, IncompatibleChoice, UnsupportedClaim
from sottovoce.linear.alike import for_each_distinct_round
from sottovoce.linear.form import play_round, state_blocks
from sottovoce.linear.linearity import linear_round, linear_rounds
from sottovoce.noise import Noise


def gradients_taken(algorithm: Algorithm, round_: Any = 1, dimension: int | None = None) -> tuple[int, ...]:
    """The numbers of the gradients one agent takes in a round, in order, found by letting it work.

    Args:
        algorithm: whose functions.
        round_: the round, numbered or not.
        dimension: of the model; None: whatever it is, so that functions may not ask.
    """
    taken: list[int] = []

    def gradient(w: Any, step: int = 0) -> Any:
        taken.append(int(step))
        return np.zeros_like(w)

    template = algorithm.init(np.zeros(1))
    size = 1 if dimension is None else dimension
    blocks, received = np.zeros((len(state_blocks(template)), size)), np.zeros((len(algorithm.exchanges), size))
    play_round(algorithm, round_, blocks, received, gradient, opaque=dimension is None)
    return tuple(taken)


def uses_gradients(algorithm: Algorithm, rounds: int) -> np.ndarray:
    """[rounds] whether the gradients of a round make any difference to what an agent sends or keeps.

    They make none in rounds that are linear and have no coefficient for a gradient; rounds that are not linear count as using theirs.
    """
    try:
        forms = linear_rounds(algorithm, rounds)
    except UnsupportedClaim:
        return np.array([_uses(algorithm, t) for t in range(1, rounds + 1)])
    used = np.array([bool(form.messages[:, -1].any() or form.state[:, -1].any()) for form in forms.forms])
    return np.asarray(used[forms.which])


def _uses(algorithm: Algorithm, round_: int) -> bool:
    try:
        form = linear_round(algorithm, round_)
    except UnsupportedClaim:
        return True
    return bool(form.messages[:, -1].any() or form.state[:, -1].any())


def check_gradients(algorithm: Algorithm, noise: Noise, rounds: int, *, dimension: int | None = None) -> None:
    """Refuse gradients without a batch of their own and, under noise in gradients, without noise of their own.

    Args:
        algorithm: what an agent does.
        noise: where it is added.
        rounds: how many.
        dimension: of the model of a run; None: for models of any size.

    Raises:
        ConfigError: the algorithm numbers a gradient beyond those it declares.
        IncompatibleChoice: two gradients would carry the same noise, or some rounds take gradients without noise.
    """
    found, numbers, _ = for_each_distinct_round(lambda t: gradients_taken(algorithm, t, dimension), rounds, algorithm)
    for taken, round_ in zip(found, numbers, strict=True):
        if min(taken, default=0) < 0 or max(taken, default=0) >= algorithm.gradients_per_round:
            raise ConfigError(
                f"'{algorithm.name}' takes gradient number {max(taken, key=abs)} in round {round_} (counted from 0) but declares "
                f"{algorithm.gradients_per_round} in a round. Declare as many in local_steps."
            )
        if noise.in_gradients and len(set(taken)) < len(taken):
            raise IncompatibleChoice(
                f"'{algorithm.name}' takes several gradients in round {round_} under the same number, and they would carry the same noise, "
                f"which their difference does not. Number them: gradient(w, step)."
            )
    if not noise.in_gradients:
        return
    if not algorithm.noisy_rounds(rounds).all():
        raise IncompatibleChoice(
            f"'{algorithm.name}' goes on without noise after its gradient rounds, which is meant for noise in messages. Use "
            f"sv.noise.independent(law), or another algorithm."
        )
