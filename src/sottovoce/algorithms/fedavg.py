"""Federated averaging: several local gradient steps, then the average of all agents.

    w_{k,0} = w_k,   w_{k,i+1} = w_{k,i} - mu grad_k(w_{k,i})   for i = 0..L-1
    exchange="model"      psi_k = w_{k,L},                                  w_k <- w_k + s (sum_l a_lk (psi_l + noise) - w_k)
    exchange="gradient"   psi_k = grad_k(w_{k,0}) + ... + grad_k(w_{k,L-1}),    w_k <- w_k - s mu sum_l a_lk (psi_l + noise)

with s the server's step. L = 1 and s = 1 is ATC; on a federation it is the centralised gradient step of Vlaski & Sayed, eq. 11.1-11.2, and
the update w^{t+1} of the APPFL notes, Example 1, when agents weigh as much as they have records. Bellet 2022 has L > 1 ("FedAvg").

On a federation all agents have the same model, so both forms visit the same models; noise of the gradient form is multiplied by s mu before it
enters a model. The gradient form never mixes models: it needs agents that all receive the same average.
With batches every local step draws its own.

Clipped updates. What an agent adds to the common model is its update: w_{k,L} - w_k, or the sum of the gradients in the gradient form. With
`update_clip` it is scaled into a ball of norm C, so that any two updates of an agent differ by at most 2C, whatever its data, the number of
steps and the loss: the agent is the protected unit.

Other optimisers. With `local_optimizer` the agent takes its L steps by Adam, momentum or whatever else turns gradients into steps (`local_optimizer.py`),
anew in every round, and its whole update is clipped. Without the clip nothing would be known of such an update, and it is refused.

Partial participation. In the sum over agents, l counts c_l a_lk with c_l = 1/q (or K/m) if it was drawn and 0 if not (`sampling`); what
an agent that was not drawn would have sent is replaced by what the relay already has, w or 0. Noise of the agents' own comes with their messages.

Masked averages. With `aggregation` the relay gets the sum alone, of all agents that published (`aggregation.py`).
"""

from typing import Any, Literal, get_args

from sottovoce.algorithms.aggregation import Gopa, check_aggregation
from sottovoce.algorithms.algorithm import (
    Algorithm,
    Array,
    ClippedUpdate,
    Exchange,
    Gradient,
    LocalSteps,
    StepSize,
    check_step_size,
    check_unrolled,
    schedules_of,
    step_at,
)
from sottovoce.algorithms.local_optimizer import Optimizer, Steps, check_optimizer, walk
from sottovoce.algorithms.sampling import AgentSampling, SilentAgents, sampling_of
from sottovoce.clipping import Clip, clip_vector
from sottovoce.errors import ConfigError, IncompatibleChoice

Content = Literal["model", "gradient"]


def fedavg(
    *,
    step_size: StepSize | None = None,
    local_steps: int = 1,
    server_step_size: float = 1.0,
    exchange: Content = "model",
    participation: float = 1.0,
    agents_per_round: int | None = None,
    update_clip: Clip | None = None,
    aggregation: Gopa | None = None,
    local_optimizer: Optimizer | None = None,
) -> Algorithm:
    """Federated averaging: local gradient steps, then the average of all agents.

    Args:
        step_size: mu, of every local step; a number or a function of the round. Left out where an optimiser has its own.
        local_steps: L, gradient steps in one message.
        server_step_size: s, how far the common model moves towards the average; 1 replaces it.
        exchange: "model" sends the stepped model, "gradient" the sum of the gradients.
        participation: q, the probability with which an agent takes part in a round, by a coin of its own.
        agents_per_round: m, for a fixed number of agents in every round instead.
        update_clip: bound on the whole update, `sv.clipping.Clip(C, "l2")`; None leaves it as it is.
        aggregation: `sv.algorithms.Gopa(partners=k)` masks what the relay gets; None sends it in the open.
        local_optimizer: makes the local steps, such as `optax.adam(1e-2)`; its state is made anew in every round. Only with `update_clip`, and for
            exchange="model". None: plain gradient steps.

    Raises:
        ConfigError: numbers or parts that are none.
        IncompatibleChoice: an optimiser without a clip of the whole update, beside a step size, or for exchange="gradient".
    """
    step_size = _step_of(local_optimizer, step_size, exchange, update_clip)
    _check(step_size, local_steps, server_step_size, exchange, update_clip)
    sampling = _masked(sampling_of(participation, agents_per_round), aggregation)
    sends_model = exchange == "model"
    parameters: dict[str, Any] = {
        "step_size": None if local_optimizer is not None else step_size, "local_steps": local_steps, "server_step_size": server_step_size, "exchange": exchange,
    }  # fmt: skip
    said = {"participation": sampling, "update_clip": update_clip, "aggregation": aggregation}
    if local_optimizer is not None:
        parameters["local_optimizer"] = f"{type(local_optimizer).__name__}, anew in every round"
    parameters |= {name: _in_words(value) for name, value in said.items() if value is not None}

    def one_step(size: StepSize) -> Algorithm:
        return fedavg(step_size=size, server_step_size=server_step_size, exchange=exchange)

    local, clipped = None, None
    if update_clip is not None:  # the update itself takes the place of a gradient step
        clipped = ClippedUpdate(one_step(1.0 if sends_model else step_size), update_clip)
    if local_steps > 1:
        local = LocalSteps(one_step(step_size) if clipped is None else clipped.one_step, local_steps, step_size)
    if sends_model:
        steps = _plain_steps(step_size, local_steps) if local_optimizer is None else walk(local_optimizer, local_steps)
        made = _exchange_models(steps, server_step_size, update_clip)
    else:
        made = _exchange_gradients(step_size, local_steps, server_step_size, update_clip)
    return Algorithm(
        "fedavg",
        (made,),
        parameters=parameters,
        local_steps=local,
        clipped_update=clipped,
        sampling=sampling,
        needs_relay=_relay(sampling, sends_model, aggregation),
        aggregation=aggregation,
        schedules=schedules_of(step_size),
    )


def _in_words(value: AgentSampling | Clip | Gopa) -> str:
    if isinstance(value, Clip):
        return f"{value.bound:g} in {value.norm}"
    return value.describe() if isinstance(value, Gopa) else str(value)


def _masked(sampling: AgentSampling | None, aggregation: Gopa | None) -> AgentSampling | None:
    """Who takes part; under masks the agents that are not silent."""
    if aggregation is None:
        return sampling
    check_aggregation(aggregation)
    if sampling is not None:
        raise ConfigError(
            f"aggregation by GOPA lets everybody take part who is not silent, and {sampling} was asked for too. Leave participation and "
            f"agents_per_round out; give Gopa(silence=...)."
        )
    if aggregation.silence == 0:
        return None
    assert aggregation.minimum_agents is not None  # `check_aggregation` asks for it where agents may be silent
    return SilentAgents(float(aggregation.silence), aggregation.minimum_agents)


def _relay(sampling: AgentSampling | None, sends_model: bool, aggregation: Gopa | None) -> str | None:
    """What needs a relay, in words."""
    if aggregation is not None:
        return "aggregation by GOPA"
    if sampling is not None:
        return "a sample of agents"
    return None if sends_model else "fedavg with exchange='gradient'"


def _step_of(
    optimizer: Optimizer | None, step_size: StepSize | None, exchange: object, update_clip: object
) -> StepSize:  # fmt: skip
    """The step size, or 1 where an optimiser makes the steps, which must then be clipped as a whole."""
    if optimizer is None:
        if step_size is None:
            raise ConfigError("step_size is missing; give a finite number above 0, or a function of the round.")
        return step_size
    if step_size is not None:
        raise IncompatibleChoice(
            f"step_size = {step_size!r} was given beside local_optimizer, which has its own. Leave step_size out."
        )
    if update_clip is None:
        raise IncompatibleChoice(
            "local_optimizer was given without update_clip. An optimiser may blow a small change of a gradient up without end (Adam divides by the "
            "gradients' own size), so that nothing is proved of its steps unless they are clipped as a whole. Give "
            'update_clip=sv.clipping.Clip(bound, "l2"), or leave local_optimizer out.'
        )
    if exchange != "model":
        raise IncompatibleChoice(
            f"local_optimizer makes steps of the model, and exchange = {exchange!r} sends sums of gradients. Use exchange='model'."
        )
    check_optimizer(optimizer)
    return 1.0


def _plain_steps(step_size: StepSize, local_steps: int) -> Steps:
    def steps(w: Array, gradient: Gradient, round_: Any) -> Array:
        stepped = w
        for step in range(local_steps):
            stepped = stepped - step_at(step_size, round_) * gradient(stepped, step)
        return stepped

    return steps


def _exchange_models(steps: Steps, s: float, clip: Clip | None) -> Exchange:
    def send(w: Array, gradient: Gradient, round_: Any) -> Array:
        stepped = steps(w, gradient, round_)
        return stepped if clip is None else w + clip_vector(stepped - w, clip)

    def move_towards(w: Array, received: Array, gradient: Gradient, round_: Any) -> Array:
        return received if s == 1 else w + s * (received - w)

    return Exchange(send, move_towards, silent=lambda w, round_: w)


def _exchange_gradients(step_size: StepSize, local_steps: int, s: float, clip: Clip | None) -> Exchange:
    def send(w: Array, gradient: Gradient, round_: Any) -> Array:
        total = gradient(w, 0)
        for step in range(1, local_steps):
            # The gradients so far are also how far the agent has walked.
            total = total + gradient(w - step_at(step_size, round_) * total, step)
        return total if clip is None else clip_vector(total, clip)

    def step_along(w: Array, received: Array, gradient: Gradient, round_: Any) -> Array:
        return w - s * step_at(step_size, round_) * received

    return Exchange(send, step_along, silent=lambda w, round_: 0.0 * w)


def _check(
    step_size: StepSize, local_steps: object, server_step_size: object, exchange: object, update_clip: object
) -> None:
    check_step_size(step_size)
    check_unrolled(local_steps, name="local_steps")
    if callable(server_step_size):
        raise ConfigError("server_step_size is a function; give a finite number above 0. step_size may be a function.")
    check_step_size(server_step_size, name="server_step_size")  # type: ignore[arg-type]
    if exchange not in get_args(Content):
        raise ConfigError(f'exchange = {exchange!r}; agents send their "model" or their "gradient".')
    if update_clip is not None and not isinstance(update_clip, Clip):
        raise ConfigError(f'update_clip = {update_clip!r}; give sv.clipping.Clip(bound, "l2"), or None.')
