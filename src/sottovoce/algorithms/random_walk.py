"""Stochastic gradient descent by a walking token: one agent at a time holds the model, takes a step and hands it on.

    the holder u:   psi = w - mu grad_u(w) + noise,      the next holder continues from psi; everybody else waits

One round is one hop. `run.models[k]` is the token as agent k last held it, and the metrics of a run are those of the token. An agent that has
made its `contributions` still adds noise and hands the token on, but no gradient, so that no round has less noise than another
(Bellet 2022, "private decentralized SGD"; Cyffers & Bellet 2022).
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
from sottovoce.numbers import is_whole


def random_walk(*, step_size: StepSize, contributions: int | None = None) -> Algorithm:
    """A token that walks over the agents, on `topology.with_walk()`.

    Args:
        step_size: mu, a number or a function of the round.
        contributions: the most gradients that an agent adds in a run; None is no limit.
    """
    check_step_size(step_size)
    if contributions is not None and not is_whole(contributions, 1):
        raise ConfigError(f"contributions = {contributions!r}; it must be a whole number of at least 1, or None.")

    def message(w: Array, gradient: Gradient, round_: Any) -> Array:
        return w - step_at(step_size, round_) * gradient(w)

    def update(w: Array, received: Array, gradient: Gradient, round_: Any) -> Array:
        return received

    return Algorithm(
        "random_walk",
        (Exchange(message, update, silent=lambda w, round_: w),),
        parameters={"step_size": step_size, "contributions": contributions},
        contributions=contributions,
        walks=True,
        schedules=schedules_of(step_size),
    )
