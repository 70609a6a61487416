"""ATC diffusion: adapt, then combine.

psi_k = w_k - mu grad_k(w_k),   w_k <- sum_l a_lk (psi_l + noise)          (Rizk et al. 2023, eq. 21-23 with A2 = A)
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


def atc(*, step_size: StepSize) -> Algorithm:
    """Adapt-then-combine diffusion: step first, then exchange the stepped models."""
    check_step_size(step_size)

    def message(w: Array, gradient: Gradient, round_: Any) -> Array:
        return w - step_at(step_size, round_) * gradient(w)

    def update(w: Array, received: Array, gradient: Gradient, round_: Any) -> Array:
        return received

    return Algorithm(
        "atc", (Exchange(message, update),), parameters={"step_size": step_size}, schedules=schedules_of(step_size)
    )
