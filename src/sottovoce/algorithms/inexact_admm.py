"""Inexact ADMM: a consensus problem solved with one linearised step per agent and round, on a federation.

min sum_k q_k J_k(z_k) with z_k = w for all k, q the relay's weights, by (APPFL notes, Example 2, with penalty rho)

    w         = sum_k q_k (z_k - lambda_k / rho)                               the relay
    z_k      <- w + (lambda_k - grad_k(point)) / rho                           linearised at a point
    lambda_k <- lambda_k + rho (w - z_k)

In the notes every agent has the same penalty and J_k is weighted by its records in the objective; here both carry the weight q_k, so that the
gradient is the agent's own average. For K agents with n records each, rho here is K times that of the notes, and their sensitivity
2C / (rho I), I = K n, is 2C / (rho n) here: that of the gradient over rho.

point = "own", the notes' z_k. The agent sends z_k - lambda_k / rho, the term that the relay averages, and goes on from its own unperturbed z_k
and lambda_k. As lambda_k is then the last gradient, a message changes by (v' - 2 v) / rho when the last two gradients change by v' and v: for all data of
an agent without a ridge, three times 2C / (rho I), which would hold only if an agent went on from its own message, noise and all; for one record far
more, since the gradients of its other records are taken at a changed point too. What an agent receives here is the average alone.

point = "global", the relay's w, which everybody knows. Let lambda be the average sum_k q_k lambda_k. The agent sends
w + (lambda - grad_k(w)) / rho, which is z_k less (lambda_k - lambda) / rho. These differences have average zero and are known to the relay, which can
compute every lambda_k from what was sent, so this is the same as sending z_k. lambda comes from averages as they were received, noise and all:

    zbar = sum_k q_k (psi_k + noise),   lambda <- lambda + rho (w - zbar),   w <- zbar - lambda / rho

Nothing private is carried from round to round, so one message changes by the change of one gradient over rho: 2C / (rho I) holds,
for a record too. Without noise, w moves by -(2 gbar(w) - gbar(previous w)) / rho; on quadratic losses that is stable for rho > 1.5 beta.
"""

from typing import Any, Literal, NamedTuple, get_args

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

Point = Literal["global", "own"]


class OwnState(NamedTuple):
    """What an agent keeps when it linearises at its own model."""

    model: Array  # w
    own: Array  # z_k
    dual: Array  # lambda_k


class CommonState(NamedTuple):
    """What every agent keeps, the same for all, when they linearise at the relay's model."""

    model: Array  # zbar
    dual: Array  # the average of the lambda_k


def inexact_admm(*, penalty: StepSize, linearise_at: Point = "global") -> Algorithm:
    """Inexact ADMM on a federation: one linearised step per agent and round, and dual variables.

    Args:
        penalty: rho, a number or a function of the round.
        linearise_at: where gradients are taken: at the "global" model, or at the agent's "own" one as in the APPFL notes.
    """
    check_step_size(penalty, name="penalty")
    if linearise_at not in get_args(Point):
        raise ConfigError(
            f'linearise_at = {linearise_at!r}; gradients are taken at the "global" or at the "own" model.'
        )
    return Algorithm(
        "inexact_admm",
        (_at_global(penalty) if linearise_at == "global" else _at_own(penalty),),
        init=_start_global if linearise_at == "global" else _start_own,
        model=lambda state: state.model,
        parameters={"penalty": penalty, "linearise_at": linearise_at},
        needs_relay="inexact ADMM",
        schedules=schedules_of(penalty),
    )


def _start_global(model: Array) -> CommonState:
    return CommonState(model, 0.0 * model)


def _start_own(model: Array) -> OwnState:
    return OwnState(model, model, 0.0 * model)


def _at_own(penalty: StepSize) -> Exchange:
    def message(state: OwnState, gradient: Gradient, round_: Any) -> Array:
        return state.own - state.dual / step_at(penalty, round_)

    def update(state: OwnState, w: Array, gradient: Gradient, round_: Any) -> OwnState:
        rho = step_at(penalty, round_)
        own = w + (state.dual - gradient(state.own)) / rho
        return OwnState(w, own, state.dual + rho * (w - own))

    return Exchange(message, update)


def _at_global(penalty: StepSize) -> Exchange:
    def server_model(state: CommonState, round_: Any) -> Array:
        return state.model - state.dual / step_at(penalty, round_)

    def message(state: CommonState, gradient: Gradient, round_: Any) -> Array:
        w = server_model(state, round_)
        return w + (state.dual - gradient(w)) / step_at(penalty, round_)

    def update(state: CommonState, zbar: Array, gradient: Gradient, round_: Any) -> CommonState:
        w = server_model(state, round_)
        return CommonState(zbar, state.dual + step_at(penalty, round_) * (w - zbar))

    return Exchange(message, update)
