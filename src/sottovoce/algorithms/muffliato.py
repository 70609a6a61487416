"""Muffliato gradient descent: every agent takes a gradient step, then all average with their neighbours several times.

    x_k(0) = w_k - mu grad_k(w_k),    x(j) = gossip of x(j-1) for j = 1..J,    w_k = x_k(J)

One round is one gradient step and J averaging steps, plain or accelerated (`gossip`). With sv.noise.gradient(law) noise enters with the
gradient and the averaging steps add none (Cyffers, Even, Bellet & Massoulie 2022); noise of messages would be new in every averaging step.
"""

from typing import Any

from sottovoce.algorithms.algorithm import (
    Algorithm,
    Array,
    Exchange,
    Gradient,
    StepSize,
    check_step_size,
    check_unrolled,
    schedules_of,
    step_at,
)
from sottovoce.algorithms.gossip import Accelerated, chebyshev_rate, chebyshev_weight, mixed


def muffliato(*, step_size: StepSize, gossip_steps: int, acceleration: float | None = None) -> Algorithm:
    """A gradient step and several averaging steps in every round.

    Args:
        step_size: mu, a number or a function of the round.
        gossip_steps: J, averaging steps after each gradient step.
        acceleration: the spectral gap of the weights, `topology.spectral_gap`, for Chebyshev acceleration; None for plain averaging.
    """
    check_step_size(step_size)
    check_unrolled(gossip_steps, name="gossip_steps")
    shrink = 0.0 if acceleration is None else chebyshev_rate(acceleration)

    def begin(state: Accelerated, gradient: Gradient, round_: Any) -> Accelerated:
        return state._replace(model=state.model - step_at(step_size, round_) * gradient(state.model))

    def send(state: Accelerated, gradient: Gradient, round_: Any) -> Array:
        return state.model

    def averaging(step: int) -> Exchange:
        weight = 1.0 if acceleration is None else chebyshev_weight(shrink, step)
        return Exchange(send, lambda state, received, gradient, round_: mixed(state, received, weight))

    return Algorithm(
        "muffliato",
        tuple(averaging(step) for step in range(1, gossip_steps + 1)),
        init=lambda w: Accelerated(w, w),
        model=lambda state: state.model,
        begin=begin,
        parameters={"step_size": step_size, "gossip_steps": gossip_steps, "acceleration": acceleration},
        schedules=schedules_of(step_size),
    )
