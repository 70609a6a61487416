"""Gossip averaging: agents hold values and average with their neighbours until all agree.

    x_k(0) = w - grad_k(w)                                          in the first round: the agent's mean, for `mean_estimation`
    x_k(t) = sum_l a_lk x_l(t-1)                                    plain
    x_k(t) = g_t sum_l a_lk x_l(t-1) + (1 - g_t) x_k(t-2)           accelerated, from the second round on

T rounds send x(0) to x(T-1). The value is a gradient step of length one, so that a party has one way only to touch its data. Noise once,
on the values themselves, is sv.noise.gradient(law): that is Muffliato (Bellet 2022, "gossip"). Noise of messages is new in every round.

Acceleration. With |lambda| <= r for all eigenvalues of a symmetric matrix but the first, plain gossip shrinks deviations by r in a round.
Chebyshev polynomials shrink them most: by 1 / C_t(1/r) after t rounds, C_t(1/r) = (s^t + s^-t) / 2 with s = r / (1 + sqrt(1 - r^2)), which is

    g_1 = 1,   g_t = (1 + s^2) (1 + s^(2t-2)) / (1 + s^(2t))        and the rate is s, about 1 - sqrt(2 gap) where r = 1 - gap.
"""

import math
from typing import Any, NamedTuple

from sottovoce.algorithms.algorithm import Algorithm, Array, Exchange, Gradient
from sottovoce.errors import ConfigError
from sottovoce.numbers import is_number
from sottovoce.schedules import Schedule


class Accelerated(NamedTuple):
    """What an agent keeps between rounds of accelerated gossip."""

    model: Array  # x(t)
    previous: Array  # x(t-1)


def gossip(*, acceleration: float | None = None) -> Algorithm:
    """Average the agents' values with their neighbours, round after round.

    Args:
        acceleration: the spectral gap of the weights, `topology.spectral_gap`, for Chebyshev acceleration on symmetric weights; None for
            plain averaging.
    """
    shrink = None if acceleration is None else chebyshev_rate(acceleration)
    first = Schedule(lambda t: t == 1)
    weight = Schedule(lambda t: 1.0 if shrink is None else chebyshev_weight(shrink, t))

    def value(w: Array, gradient: Gradient, round_: Any) -> Array:
        return w - first(round_) * gradient(w)

    def begin(state: Any, gradient: Gradient, round_: Any) -> Any:
        return (
            value(state, gradient, round_)
            if shrink is None
            else state._replace(model=value(state.model, gradient, round_))
        )

    exchange = Exchange(lambda x, gradient, round_: x, lambda x, received, gradient, round_: received)
    if shrink is not None:
        exchange = Exchange(
            lambda state, gradient, round_: state.model,
            lambda state, received, gradient, round_: mixed(state, received, weight(round_)),
        )
    return Algorithm(
        "gossip",
        (exchange,),
        init=(lambda w: w) if shrink is None else (lambda w: Accelerated(w, w)),
        model=(lambda x: x) if shrink is None else (lambda state: state.model),
        begin=begin,
        parameters={"acceleration": acceleration},
        schedules=(first, weight),
    )


def chebyshev_rate(gap: Any) -> float:
    """s, the factor by which accelerated gossip shrinks deviations in a round.

    Raises:
        ConfigError: a gap outside (0, 1].
    """
    if not is_number(gap, "(0, 1]"):
        raise ConfigError(
            f"acceleration = {gap!r}; give the spectral gap of the weights, above 0 and at most 1: topology.spectral_gap."
        )
    r = 1.0 - float(gap)
    return r / (1.0 + math.sqrt(1.0 - r * r))


def chebyshev_weight(shrink: float, step: int) -> float:
    """g_t, the weight of what was received in averaging step t (from 1)."""
    if step == 1:
        return 1.0
    return (1 + shrink**2) * (1 + shrink ** (2 * step - 2)) / (1 + shrink ** (2 * step))


def mixed(state: Accelerated, received: Array, weight: Any) -> Accelerated:
    """One averaging step."""
    return Accelerated(weight * received + (1 - weight) * state.previous, state.model)
