"""Where floating-point numbers end, which is not the guarantee's fault: such an audit says so and gives no verdict.

a step     beyond 1e100: squares of models leave double precision, in the run and in its account
scores     not finite, or so large that their squares are not
distance   above 1e8 standard deviations: the noise is lost in the last digits of the scores, and whether the runs are those that
           were promised cannot be seen
"""

from typing import Any

import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.attacks.arrays import Floats
from sottovoce.errors import ConfigError, Diverged
from sottovoce.linear import state_blocks

LARGEST_STEP = 1e100
LARGEST_SCORE = 1e150
LARGEST_DISTANCE = 1e8


def require_finite_steps(algorithm: Algorithm, sensitivity: Floats, rounds: int) -> None:
    """Refuse steps so long that models overflow.

    Raises:
        Diverged: with the step.
    """
    size = float(np.max(sensitivity))
    for round_ in sorted({1, rounds}):
        length = _step(algorithm, size, round_)
        if not length <= LARGEST_STEP:
            raise Diverged(
                f"in round {round_} '{algorithm.name}' moves a model by {length:.3g} on a gradient of size {size:g}; beyond {LARGEST_STEP:g} "
                f"squares overflow, so that nothing can be accounted or attacked. Lower the step size or the clip."
            )


def require_finite_scores(scores: Floats, attack: str) -> None:
    """Refuse scores that overflowed.

    Raises:
        Diverged: with the largest of them.
    """
    largest = float(np.abs(scores).max())
    if not largest <= LARGEST_SCORE:
        raise Diverged(
            f"scores of the attack '{attack}' reach {largest:.3g}, beyond what double precision can compare, so the audit says nothing about "
            f"the guarantee. Lower the step size or the clip, or add noise."
        )


def require_resolved(mu: float | None) -> None:
    """Refuse worlds so far apart that noise is lost in rounding.

    Raises:
        ConfigError: with the distance.
    """
    if mu is not None and LARGEST_DISTANCE < mu < np.inf:
        raise ConfigError(
            f"the two worlds are {mu:.3g} standard deviations of the noise apart; above {LARGEST_DISTANCE:g} double precision does not resolve "
            f"the noise, and an audit shows nothing about the guarantee. Lower the clip, or add noise."
        )


def _step(algorithm: Algorithm, size: float, round_: int) -> float:
    """The largest number that one agent sends or keeps in a round that starts at zero and in which every gradient has this size."""

    def gradient(w: Any, step: int = 0) -> Any:
        return np.full_like(w, size)

    nothing = np.zeros(1)
    with np.errstate(all="ignore"):
        state = algorithm.begun(algorithm.init(nothing), gradient, round_)
        found = []
        for exchange in algorithm.exchanges:
            found.append(exchange.message(state, gradient, round_))
            state = exchange.update(state, nothing, gradient, round_)
        numbers = [float(np.abs(np.asarray(part)).max()) for part in (*found, *state_blocks(state))]
    return float(np.max(numbers))  # NaN as soon as one of them is NaN
