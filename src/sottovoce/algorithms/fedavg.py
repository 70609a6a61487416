"""Federated averaging: several local gradient steps, then the average of all agents.

    w_{k,0} = w_k,   w_{k,i+1} = w_{k,i} - mu grad_k(w_{k,i})   for i = 0..L-1
    exchange="model"      psi_k = w_{k,L},                                  w_k <- w_k + s (sum_l a_lk (psi_l + noise) - w_k)
    exchange="gradient"   psi_k = grad_k(w_{k,0}) + ... + grad_k(w_{k,L-1}),    w_k <- w_k - s mu sum_l a_lk (psi_l + noise)

with s the server's step. L = 1 and s = 1 is ATC; on a federation it is the centralised gradient step of Vlaski & Sayed, eq. 11.1-11.2, and
the update w^{t+1} of the APPFL notes, Example 1, when agents weigh as much as they have records. Bellet 2022 has L > 1 ("FedAvg").

On a federation all agents have the same model, so both forms visit the same models; noise of the gradient form is multiplied by s mu before it
enters a model. The gradient form never mixes models: it needs agents that all receive the same average.
All local steps of a round use the same records: the agent's own, or one batch.
"""

from typing import Any, Literal, get_args

from sottovoce.algorithms.algorithm import (
    Algorithm,
    Array,
    Exchange,
    Gradient,
    LocalSteps,
    StepSize,
    check_step_size,
    step_at,
)
from sottovoce.errors import ConfigError

Content = Literal["model", "gradient"]


def fedavg(
    *, step_size: StepSize, local_steps: int = 1, server_step_size: float = 1.0, exchange: Content = "model"
) -> Algorithm:
    """Federated averaging: local gradient steps, then the average of all agents.

    Args:
        step_size: mu, of every local step; a number or a function of the round.
        local_steps: L, gradient steps in one message.
        server_step_size: s, how far the common model moves towards the average; 1 replaces it.
        exchange: "model" sends the stepped model, "gradient" the sum of the gradients.
    """
    _check(step_size, local_steps, server_step_size, exchange)
    s = server_step_size

    def send_model(w: Array, gradient: Gradient, round_: Any) -> Array:
        for _ in range(local_steps):
            w = w - step_at(step_size, round_) * gradient(w)
        return w

    def move_towards(w: Array, received: Array, gradient: Gradient, round_: Any) -> Array:
        return received if s == 1 else w + s * (received - w)

    def send_gradients(w: Array, gradient: Gradient, round_: Any) -> Array:
        total = gradient(w)
        for _ in range(local_steps - 1):
            # The gradients so far are also how far the agent has walked.
            total = total + gradient(w - step_at(step_size, round_) * total)
        return total

    def step_along(w: Array, received: Array, gradient: Gradient, round_: Any) -> Array:
        return w - s * step_at(step_size, round_) * received

    passage = Exchange(send_model, move_towards) if exchange == "model" else Exchange(send_gradients, step_along)
    several = None
    if local_steps > 1:
        one = fedavg(step_size=step_size, server_step_size=s, exchange=exchange)
        several = LocalSteps(one_step=one, times=local_steps, step_size=step_size)
    return Algorithm(
        "fedavg",
        (passage,),
        parameters={
            "step_size": step_size,
            "local_steps": local_steps,
            "server_step_size": s,
            "exchange": exchange,
        },
        local_steps=several,
    )


def _check(step_size: StepSize, local_steps: object, server_step_size: object, exchange: object) -> None:
    check_step_size(step_size)
    if isinstance(local_steps, bool) or not isinstance(local_steps, int) or local_steps < 1:
        raise ConfigError(f"local_steps = {local_steps!r}; a message needs a whole number of steps, at least one.")
    if callable(server_step_size):
        raise ConfigError("server_step_size is a function; give a finite number above 0. step_size may be a function.")
    check_step_size(server_step_size, name="server_step_size")  # type: ignore[arg-type]
    if exchange not in get_args(Content):
        raise ConfigError(f'exchange = {exchange!r}; agents send their "model" or their "gradient".')
