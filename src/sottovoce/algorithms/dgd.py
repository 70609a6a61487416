"""Two-stage distributed gradient descent: T noisy gradient rounds, then noiseless averaging.

    z_i(t) = Proj( sum_j a_ji y_j(t) )
    x_i(t) = Proj( z_i(t) - eta_t grad_i(z_i(t)) ),   eta_t = step_size / t        for t <= T
    x_i(t) = sum_j a_ji y_j(t)                                                     for t > T

Showkatbakhsh et al., eq. 8-12 and Algorithm 1, with y_i(t) what agent i sends. One change: line 8 of Algorithm 1 starts the second
stage from x_i(T) in clear, one gradient past everything that was perturbed, which gives that gradient away. Here the hand-over
message of round T+1 is perturbed like those before it and the agent itself goes on from it; the rounds after that only combine what
was already sent, so they need no noise. The first message is the public starting point.
The projection is on the box [-box, box]^d.
"""

from typing import Any

from sottovoce.algorithms.algorithm import Algorithm, Array, Exchange, Gradient, check_step_size
from sottovoce.errors import ConfigError
from sottovoce.numbers import is_number, is_whole
from sottovoce.schedules import Schedule


def dgd(*, step_size: float, gradient_rounds: int, box: float | None = None) -> Algorithm:
    """Two-stage DGD with steps step_size / t and projection on a box.

    Args:
        step_size: eta_t = step_size / t; Showkatbakhsh et al. take (nu + beta) / (2 nu beta) for losses that are nu-strongly convex
            and beta-smooth.
        gradient_rounds: T, the rounds with a gradient; all later rounds only average.
        box: half side R of the set [-R, R]^d to project on; None for no projection.
    """
    check_step_size(step_size)
    if not is_whole(gradient_rounds, 1):
        raise ConfigError(
            f"gradient_rounds = {gradient_rounds!r}; a whole number of rounds, at least one, must take a gradient."
        )
    if box is not None and not is_number(box, "(0, inf]"):
        raise ConfigError(
            f"box = {box!r}; give the half side of the box as a number above 0, or None for no projection."
        )

    eta = Schedule(lambda t: step_size / t)
    learns = Schedule(lambda t: t <= gradient_rounds)

    def project(x: Array) -> Array:
        return x if box is None else x.__array_namespace__().clip(x, -box, box)

    def message(x: Array, gradient: Gradient, round_: Any) -> Array:
        return x

    def update(x: Array, received: Array, gradient: Gradient, round_: Any) -> Array:
        z = project(received)
        stepped = project(z - eta(round_) * gradient(z))
        return received.__array_namespace__().where(learns(round_) > 0, stepped, received)

    return Algorithm(
        "dgd",
        (Exchange(message, update),),
        sends_fresh=lambda round_: 1 < round_ <= gradient_rounds + 1,
        parameters={"step_size": step_size, "gradient_rounds": gradient_rounds, "box": box},
        linear_part=None if box is None else dgd(step_size=step_size, gradient_rounds=gradient_rounds),
        schedules=(eta, learns),
    )
