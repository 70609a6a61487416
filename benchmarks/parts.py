"""The parts of one engine round on their own, built from the engine's functions: step, combination, draws."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import sottovoce as sv
from sottovoce.simulation import Settings
from sottovoce.simulation.rounds import random
from sottovoce.simulation.rounds.draws import draw
from sottovoce.simulation.rounds.links import combine
from sottovoce.simulation.rounds.materialise import materialise
from sottovoce.simulation.rounds.own import Own
from sottovoce.simulation.rounds.plan import plan_comparison


def engine_parts(problem: Any, topology: Any, noise: Any, *, step_size: float) -> dict[str, Callable[[int], None]]:
    """{name: run(rounds)} for ATC with full gradients, one scheme and one repeat; every part is compiled already."""
    algorithms = {"atc": sv.algorithms.atc(step_size=step_size)}
    plan, host_arrays = plan_comparison(problem, topology, algorithms, {"noise": noise}, Settings(rounds=1))
    arrays = jax.device_put(host_arrays)
    state = jnp.zeros((*plan.shape, 1, 1), plan.dtype)
    (exchange,) = plan.algorithms[0].exchanges

    def step(arrays: Any, t: Any, really: Any, w: Any) -> Any:
        own = Own(plan.problem, arrays["data"], (), (), t)
        return materialise(really, lambda: own.apply(exchange.message, w))

    def combination(arrays: Any, t: Any, really: Any, w: Any) -> Any:
        return combine(plan.links[0], arrays["links"][0], None, w)

    def draws(arrays: Any, t: Any, really: Any, w: Any) -> Any:
        keys = random.round_keys(random.repeat_keys(arrays["seed"], jnp.arange(1), random.NOISE), t, 0)
        scheme, held = plan.noise_plans[0][0], arrays["noise"][0][0]
        drawn = materialise(really, lambda: draw(scheme, held, None, t, keys, plan.shape, plan.dtype, None))
        return drawn[:, :, None, :]

    def increment(arrays: Any, t: Any, really: Any, w: Any) -> Any:
        return w + 1.0

    parts = {"step": step, "combination": combination, "read and write once": increment}
    if noise.law is not None:
        parts["draws"] = draws
    return {name: _looped(part, arrays, state) for name, part in parts.items()}


def _looped(part: Callable[..., Any], arrays: Any, state: Any) -> Callable[[int], None]:
    def loop(arrays: Any, w: Any, rounds: Any, really: Any) -> Any:
        return jax.lax.fori_loop(0, rounds, lambda t, w: part(arrays, t, really, w), w)

    program_ = jax.jit(loop)

    def run(rounds: int) -> None:
        program_(arrays, state, np.int32(rounds), np.bool_(True)).block_until_ready()

    run(1)
    return run
