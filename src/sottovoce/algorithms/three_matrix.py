"""The general recursion with three combination matrices, of which consensus, CTA and ATC are corners.

    phi_k = sum_l a1_lk (w_l + g1_lk)
    psi_k = sum_l a0_lk (phi_l + g0_lk) - mu grad_k(phi_k)
    w_k   = sum_l a2_lk (psi_l + g2_lk)                        (Rizk et al. 2023, eq. 21-26)

A matrix left out is the identity: that stage exchanges nothing and adds no noise.
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
from sottovoce.errors import ConfigError
from sottovoce.topologies import Topology


def three_matrix(
    *,
    step_size: StepSize,
    first: Topology | None = None,
    middle: Topology | None = None,
    last: Topology | None = None,
) -> Algorithm:
    """Up to three exchanges in a round, each with its own weights.

    Args:
        step_size: mu, a number or a function of the round.
        first: A1, combined before the gradient is taken.
        middle: A0, combined beside the gradient step.
        last: A2, combined after it.
    """
    check_step_size(step_size)
    if first is None and middle is None and last is None:
        raise ConfigError(
            "three_matrix was given no combination matrix, so the agents would never exchange anything. "
            "Give at least one of first=, middle=, last= a topology."
        )

    def step(w: Array, gradient: Gradient, round_: Any) -> Array:
        return w - step_at(step_size, round_) * gradient(w)

    def keep(state: Array, gradient: Gradient, round_: Any) -> Array:
        return state

    def take(state: Array, received: Array, gradient: Gradient, round_: Any) -> Array:
        return received

    def take_and_step(state: Array, received: Array, gradient: Gradient, round_: Any) -> Array:
        return received - step_at(step_size, round_) * gradient(received)

    def mix_and_step(phi: Array, received: Array, gradient: Gradient, round_: Any) -> Array:
        return received - step_at(step_size, round_) * gradient(phi)

    exchanges = []
    if first is not None:
        # Without a middle exchange the gradient step follows the first combination directly.
        exchanges.append(Exchange(keep, take if middle is not None else take_and_step, first))
    if middle is not None:
        exchanges.append(Exchange(keep, mix_and_step, middle))
    if last is not None:
        stepped = first is not None or middle is not None
        exchanges.append(Exchange(keep if stepped else step, take, last))
    return Algorithm(
        "three_matrix", tuple(exchanges), parameters={"step_size": step_size}, schedules=schedules_of(step_size)
    )
