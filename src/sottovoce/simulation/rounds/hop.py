"""One hop of a token inside a compiled round: whoever holds it works, and nobody else costs anything.

    psi = message(state_u) + noise_u,      state_u = update(state_u, psi),      state_v = update(state_v, psi)      u hands the token to v

A walk of K agents has one holder per round and repeat, so a hop gathers the holders' records, batches and noise, takes one gradient per scheme and
repeat, and writes two rows of the states. Every draw is addressed by the holder's number, as in a round of all agents, and has the same bits.

It is the whole round only where waiting changes nothing: `only_holders_work` reads that off the algorithm's functions, and where it does not hold
a round computes all agents (program.py).
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.schedules import running_round
from sottovoce.simulation.rounds import random
from sottovoce.simulation.rounds.batches import draw_batch
from sottovoce.simulation.rounds.draws import Share, draw_sources
from sottovoce.simulation.rounds.links import Hop
from sottovoce.simulation.rounds.message_noise import add_before, lattices_in_round, name_of_draw
from sottovoce.simulation.rounds.own import Own, draw_gradient_noise, side_by_side
from sottovoce.simulation.rounds.plan import Plan, schedules_in_round

Array = Any


def only_holders_work(plan: Plan) -> bool:
    """Whether a token walks, and agents who wait for it keep their states whatever these are."""
    return all(_waits(algorithm, plan) for algorithm in plan.algorithms)


def _waits(algorithm: Algorithm, plan: Plan) -> bool:
    """Whether an agent that is silent and receives what it is taken for ends a round as it began, and takes no gradient after its message."""
    if not algorithm.walks or algorithm.begin is not None or len(algorithm.exchanges) != 1:
        return False
    (exchange,) = algorithm.exchanges
    silent = exchange.silent
    if silent is None:
        return False
    asked: list[int] = []

    def gradient(w: Array, step: int = 0) -> Array:
        asked.append(step)
        return w

    def wait(state: Any, t: Array, values: list[Array]) -> Any:
        with running_round(dict(zip(algorithm.schedules, values, strict=True))):
            return exchange.update(state, silent(state, t), gradient, t)

    number, first = np.zeros((), plan.dtype), np.zeros(plan.shape[1:], plan.dtype)
    state = jax.eval_shape(algorithm.init, first)
    traced, after = jax.make_jaxpr(wait, return_shape=True)(state, np.int32(1), [number] * len(algorithm.schedules))
    same: bool = jax.tree.structure(after) == jax.tree.structure(state)  # type: ignore[operator]
    # The identity leaves its very arguments; anything else, even adding zero, is an equation with a result of its own.
    given, left = traced.jaxpr.invars, traced.jaxpr.outvars
    return same and not asked and all(before is now for before, now in zip(given, left, strict=False))


def hop_round(
    plan: Plan, arrays: Any, states: Any, t: Array, streams: Any, really: Array, hop: Hop, repeats: Array
) -> Any:
    """The states after a hop.

    Args:
        plan: the structure of the comparison.
        arrays: what the program reads.
        states: one per algorithm, leaves [K, d, S, R].
        t: the round.
        streams: the keys of every stream.
        really: a truth that the compiler does not know.
        hop: from whom to whom.
        repeats: their numbers, [R].
    """
    shares = _noise_of_messages(plan, arrays, hop, t, random.round_keys(streams[random.NOISE], t, 0))
    drawn = draw_gradient_noise(
        plan.noises, lattices_in_round(plan, arrays, t), streams[random.GRADIENTS], t, steps=plan.gradients,
        addresses=(hop.sender[None, :], plan.shape[1]), dtype=plan.dtype, really=really,
    )  # fmt: skip
    data, records, turn = _records_of_holders(plan, arrays, hop, t, streams[random.BATCH])
    new_states = []
    for index, (algorithm, state) in enumerate(zip(plan.algorithms, states, strict=True)):
        factor = jax.lax.dynamic_index_in_dim(arrays["factors"][index], t - 1, 1, keepdims=False)  # [S]
        noise = tuple(_by_repeat(step) for step in side_by_side(drawn, factor))
        adds = arrays["walk"]["adds"][index][repeats.astype(jnp.int32), t - 1]  # [R]
        # One agent per repeat, in one repeat: [R, ..., 1] where all agents would be [K, ..., R].
        own = Own(
            plan.problem, data, records, noise, t, share=(adds[:, None].astype(plan.dtype),),
            schedules=schedules_in_round(plan, arrays, index, t), turn=turn,
        )  # fmt: skip
        (exchange,) = algorithm.exchanges
        holders, receivers = (jax.tree.map(lambda x, of=of: _rows(x, of), state) for of in hop)
        sent = _by_repeat(add_before(_by_repeat(own.apply(exchange.message, holders)), shares, factor))
        for of, rows in ((hop.sender, holders), (hop.receiver, receivers)):
            updated = own.apply(exchange.update, rows, sent)
            state = jax.tree.map(lambda x, new, of=of: _with_rows(x, of, new), state, updated)
        new_states.append(state)
    return tuple(new_states)


def _by_repeat(values: Array) -> Array:
    """[1, d, S, R] as [R, d, S, 1], and back."""
    return jnp.swapaxes(values, 0, -1)


def _rows(values: Array, agents: Array) -> Array:
    """[R, d, S, 1] the row of one agent in every repeat of [K, d, S, R]."""
    return values[agents, :, :, jnp.arange(values.shape[-1])][..., None]


def _with_rows(values: Array, agents: Array, rows: Array) -> Array:
    return values.at[agents, :, :, jnp.arange(values.shape[-1])].set(rows[..., 0])


def _noise_of_messages(plan: Plan, arrays: Any, hop: Hop, t: Array, keys: Any) -> list[Share | None]:
    """What every scheme adds to the message of the holder: [1, d, R], at scale one or on its lattice."""
    lattices, drawn = lattices_in_round(plan, arrays, t), dict[Any, Array]()
    shares: list[Share | None] = []
    for s, noise in enumerate(plan.noise_plans[0]):
        law, name = noise.noise.law, name_of_draw(plan, noise, 0, s)
        if noise.kind == "nothing" or law is None:
            shares.append(None)
            continue
        assert noise.kind == "broadcast"  # the token's noise goes with it (perturbation.py)
        if name not in drawn:
            drawn[name] = draw_sources(law, keys, hop.sender[None, :], plan.shape[1], plan.dtype, lattices[s])
        shares.append(Share(drawn[name], True, None))
    return shares


def _records_of_holders(
    plan: Plan, arrays: Any, hop: Hop, t: Array, keys: Any
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """What the gradients of the holders read: their data, leaves [R, ...], the batch of every gradient, and the records whose turn it is."""
    data = jax.tree.map(lambda x: x[hop.sender], arrays["data"])
    if plan.batch is not None:
        turn = plan.batch.turn_of_round(t)
        positions, weights = (arrays["turns"][name][turn][hop.sender] for name in ("positions", "weights"))
        return data, (), (jax.vmap(plan.problem.records)(data, positions), weights)
    size = plan.batch_size
    if size is None:
        return data, (), ()

    def batch(step: int) -> Any:
        positions = draw_batch(random.round_keys(keys, t, step), arrays["sizes"], size, hop.sender)
        return jax.tree.map(lambda x: x[..., None], jax.vmap(plan.problem.records)(data, positions[0].T))

    return data, tuple(batch(step) for step in range(plan.gradients)), ()
