"""CTA diffusion: combine, then adapt.

phi_k = sum_l a_lk (w_l + noise),   w_k <- phi_k - mu grad_k(phi_k)          (Rizk et al. 2023, eq. 21-23 with A1 = A)
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


def cta(*, step_size: StepSize) -> Algorithm:
    """Combine-then-adapt diffusion: exchange models, then step at the mixed point."""
    check_step_size(step_size)

    def message(w: Array, gradient: Gradient, round_: Any) -> Array:
        return w

    def update(w: Array, received: Array, gradient: Gradient, round_: Any) -> Array:
        return received - step_at(step_size, round_) * gradient(received)

    return Algorithm(
        "cta", (Exchange(message, update),), parameters={"step_size": step_size}, schedules=schedules_of(step_size)
    )
