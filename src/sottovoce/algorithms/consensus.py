"""Consensus: combine the neighbours' models, and step along the gradient at one's own previous model.

    w_k <- sum_l a_lk (w_l + noise) - mu grad_k(w_k)          (Rizk et al. 2023, eq. 21-23 with A0 = A, A1 = A2 = I)

The gradient is taken at the agent's own model as it was before the exchange, without noise.
"""

from typing import Any

from sottovoce.algorithms.algorithm import (
    Algorithm,
    Array,
    Exchange,
    Gradient,
    StepSize,
    check_step_size,
    schedules_of,
    step_at,
)


def consensus(*, step_size: StepSize) -> Algorithm:
    """Decentralized gradient descent with the gradient at the un-mixed own model."""
    check_step_size(step_size)

    def message(w: Array, gradient: Gradient, round_: Any) -> Array:
        return w

    def update(w: Array, received: Array, gradient: Gradient, round_: Any) -> Array:
        return received - step_at(step_size, round_) * gradient(w)

    return Algorithm(
        "consensus",
        (Exchange(message, update),),
        parameters={"step_size": step_size},
        schedules=schedules_of(step_size),
    )
