"""One compiled program for a whole comparison: every algorithm with every noise scheme, all repeats, round after round.

Layout. The state of an algorithm is [K, d, S, R]: agents outermost, then parameters, then the S noise schemes and R repeats side by
side, so that one pass over the links serves all schemes and repeats. Batches, link failures and noise sources are drawn once per
round and shared by all algorithms and schemes (common random numbers); each draw depends only on (seed, repeat, round, id), so a
scheme gives the same run alone or in company.

The number of rounds is an argument of the program, not part of it: any division into chunks runs the same machine code.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sottovoce.algorithms import Algorithm, Exchange
from sottovoce.simulation.rounds import random
from sottovoce.simulation.rounds.cache import enable_compilation_cache
from sottovoce.simulation.rounds.draws import Share
from sottovoce.simulation.rounds.hop import hop_round, only_holders_work
from sottovoce.simulation.rounds.links import Hop, combine, hop_of_round, weights_of_round
from sottovoce.simulation.rounds.materialise import materialise
from sottovoce.simulation.rounds.message_noise import add_after, add_before, draw_noise, lattices_in_round
from sottovoce.simulation.rounds.metrics import measure
from sottovoce.simulation.rounds.own import (
    GradientNoise,
    Own,
    draw_gradient_noise,
    draw_records,
    records_in_turn,
    side_by_side,
)
from sottovoce.simulation.rounds.participants import draw_participants
from sottovoce.simulation.rounds.plan import Plan, schedules_in_round
from sottovoce.simulation.rounds.remembered import fresh_of, no_past, what_is_added, with_latest

Array = Any


class Drawn(NamedTuple):
    """What a round draws beside the noise of its messages."""

    hop: Hop | None  # where a token walks
    weights: list[Any]  # per links of the plan: None when fixed, else Weights or the hop
    records: tuple[Any, ...]  # per gradient of the round; empty: all records
    in_gradients: GradientNoise
    turn: tuple[Any, ...] = ()  # the records whose turn it is, and their weights; empty: nobody's


def initial_state(plan: Plan, repeats: int) -> tuple[Any, ...]:
    """The states before the first round: every model the first one, given or the problem's, one state per algorithm, leaves [K, d, S, R].

    Where noise of earlier rounds enters again, what was added lately follows, one [lags, K, d, M, R] per algorithm.
    """
    K, d = plan.shape
    lanes = (len(plan.noises), repeats)
    first = np.array(plan.problem.initial_model if plan.first is None else plan.first, plan.dtype)

    def start(algorithm: Algorithm) -> Any:
        made = algorithm.init(first) if first.ndim == 1 else jax.vmap(algorithm.init)(first)
        return jax.tree.map(
            lambda x: np.broadcast_to(np.atleast_2d(np.asarray(x, plan.dtype))[:, :, None, None], (K, d, *lanes)), made
        )

    states = tuple(start(algorithm) for algorithm in plan.algorithms)
    if not plan.remembering:
        return states
    return states + tuple(no_past(plan.noises, plan.shape, repeats, plan.dtype) for _ in plan.algorithms)


def models_of(plan: Plan, states: tuple[Any, ...]) -> tuple[Array, ...]:
    """The models in the states, one [K, d, S, R] per algorithm."""
    return tuple(
        algorithm.model(state) for algorithm, state in zip(plan.algorithms, states[: len(plan.algorithms)], strict=True)
    )


def compile_advance(plan: Plan, capacity: int) -> Callable[..., Any]:
    """The compiled program: (arrays, repeat ids [R], states, rounds done, rounds to do <= capacity) -> (states, metrics, models).

    Metrics come as one [len(metrics), capacity, S, R] array per algorithm, and so do the models of all rounds, [capacity, K, d, S, R], where they
    are kept. The program runs on the device its arguments are on.
    """
    alone = only_holders_work(plan)

    def advance(arrays: Any, repeats: Array, states: Any, done: Array, count: Array, really: Array) -> Any:
        streams = streams_of(arrays["seed"], repeats)
        lanes = (len(plan.noises), repeats.shape[0])
        buffers = tuple(jnp.zeros((len(plan.metrics), capacity, *lanes), plan.dtype) for _ in plan.algorithms)
        kept = tuple(
            jnp.zeros((capacity, *plan.shape, *lanes), plan.dtype) for _ in plan.algorithms if plan.keeps_models
        )

        def body(i: Array, carry: Any) -> Any:
            states, buffers, kept = carry
            t = done + i + 1
            hop: Hop | None
            if alone:
                hop = hop_of_round(arrays["walk"]["path"], t, repeats)
                states = hop_round(plan, arrays, states, t, streams, really, hop, repeats)
            else:
                drawn = draw_round(plan, arrays, t, streams, really, repeats)
                states, hop = _round(plan, arrays, states, t, streams, really, drawn, repeats), drawn.hop
            if plan.metrics:
                buffers = tuple(
                    buffer.at[:, i].set(
                        measure(plan.metrics, plan.problem, {**arrays, "perron": q}, model, _token(model, hop))
                    )
                    for buffer, q, model in zip(buffers, arrays["perron"], models_of(plan, states), strict=True)
                )
            if plan.keeps_models:
                pairs = zip(kept, models_of(plan, states), strict=True)
                kept = tuple(buffer.at[i].set(model) for buffer, model in pairs)
            return states, buffers, kept

        return jax.lax.fori_loop(0, count, body, (states, buffers, kept))

    enable_compilation_cache()
    return jax.jit(advance)


def streams_of(seed: Array, repeats: Array) -> dict[int, Any]:
    """The keys of every stream, for these repeats."""
    names = (random.NOISE, random.BATCH, random.LINKS, random.GRADIENTS, random.AGENTS)
    return {name: random.repeat_keys(seed, repeats, name) for name in names}


def _token(models: Array, hop: Hop | None) -> Array | None:
    """What the receiver of a hop now holds, [d, S, R]; None where nothing walks."""
    if hop is None:
        return None
    return jnp.moveaxis(models[hop.receiver, ..., jnp.arange(models.shape[-1])], 0, -1)


def draw_round(plan: Plan, arrays: Any, t: Array, streams: Any, really: Array, repeats: Array) -> Drawn:
    """Who is linked, which records are used and the noise in gradients, shared by all algorithms and schemes."""
    hop = hop_of_round(arrays["walk"]["path"], t, repeats) if "walk" in arrays else None
    weights: list[Any] = [
        None if link_plan.fixed else hop or weights_of_round(link_plan, held, t, streams[random.LINKS])
        for link_plan, held in zip(plan.links, arrays["links"], strict=True)
    ]
    records: tuple[Any, ...] = ()
    if plan.batch_size is not None:
        keys, size = streams[random.BATCH], plan.batch_size
        records = draw_records(plan.problem, arrays, keys, t, batch_size=size, steps=plan.gradients, really=really)
    keys, steps = streams[random.GRADIENTS], plan.gradients
    in_gradients = draw_gradient_noise(
        plan.noises, lattices_in_round(plan, arrays, t), keys, t, steps=steps, addresses=(jnp.arange(plan.shape[0]), plan.shape[1]),
        dtype=plan.dtype, really=really,
    )  # fmt: skip
    turn = () if plan.batch is None else records_in_turn(plan.problem, plan.batch, arrays, t)
    return Drawn(hop, weights, records, in_gradients, turn)


def own_in_round(plan: Plan, arrays: Any, index: int, drawn: Drawn, t: Array, repeats: Array) -> tuple[Own, Array]:
    """What the agents of one algorithm have to themselves in a round, and the scale [S] of every scheme's noise in it."""
    factor = jax.lax.dynamic_index_in_dim(arrays["factors"][index], t - 1, 1, keepdims=False)  # [S]
    in_gradients = side_by_side(drawn.in_gradients, factor)
    schedules = schedules_in_round(plan, arrays, index, t)
    own = Own(plan.problem, arrays["data"], drawn.records, in_gradients, t, schedules=schedules, turn=drawn.turn)
    if plan.algorithms[index].walks:
        adds = arrays["walk"]["adds"][index][repeats.astype(jnp.int32), t - 1]
        own = own._replace(share=(jnp.broadcast_to(adds, (plan.shape[0], *adds.shape)).astype(plan.dtype),))
    return own, factor


def _round(
    plan: Plan, arrays: Any, states: Any, t: Array, streams: Any, really: Array, drawn: Drawn, repeats: Array
) -> Any:
    weights = drawn.weights
    noise = draw_noise(plan, arrays, weights, t, streams[random.NOISE], really)

    new_states, pasts = [], []
    for index, (algorithm, state) in enumerate(zip(plan.algorithms, states[: len(plan.algorithms)], strict=True)):
        own, factor = own_in_round(plan, arrays, index, drawn, t, repeats)
        if algorithm.begin is not None:
            state = materialise(really, partial(own.apply, algorithm.begin, state))
        counts = draw_counts(plan, algorithm, t, streams[random.AGENTS], really, drawn.hop)
        for e, exchange in enumerate(algorithm.exchanges):
            use, links = plan.exchange_noise[index][e], plan.exchange_links[index][e]
            shares, again = noise[use], None
            if plan.remembering:
                past = states[len(plan.algorithms) + index]
                again = remember(plan, arrays, shares, factor, past, t, really)
                pasts.append(with_latest(past, again))
                shares = [None if s in plan.remembering else share for s, share in enumerate(shares)]

            def send(
                state: Any = state, exchange: Exchange = exchange, shares: Any = shares, factor: Array = factor,
                own: Own = own, counts: Array | None = counts, again: Array | None = again,
            ) -> Array:  # fmt: skip
                sent = add_before(own.apply(exchange.message, state), shares, factor)
                sent = sent if again is None else sent.at[:, :, np.array(plan.remembering)].add(again)
                return sent if counts is None else heard(own, exchange, state, sent, counts)

            received = combine(plan.links[links], arrays["links"][links], weights[links], materialise(really, send))
            received = add_after(received, shares, factor)
            state = own.apply(exchange.update, state, received)
        new_states.append(state)
    return (*new_states, *pasts)


def remember(
    plan: Plan, arrays: Any, shares: list[Share | None], factor: Array, past: Array, t: Array, really: Array
) -> Array:
    """[K, d, M, R] what is added in a round by the schemes whose noise enters again."""
    factors = arrays["memory"][t - 1]
    return materialise(really, lambda: what_is_added(fresh_of(shares, plan.remembering, factor), factors, past))


def heard(own: Own, exchange: Exchange, state: Any, sent: Array, counts: Array) -> Array:
    """What the relay takes of every agent: c times what it sent beyond what the relay has anyway."""
    silent = exchange.silent
    assert silent is not None  # an algorithm that draws agents says what it takes of the others
    known = own.apply(lambda state, gradient, t: silent(state, t), state)
    return known + counts[:, None, None, :] * (sent - known)


def draw_counts(plan: Plan, algorithm: Algorithm, t: Array, keys: Any, really: Array, hop: Hop | None) -> Array | None:
    """[K, R] how much each agent counts; None when all take part."""
    if hop is not None:  # on a walk the holder of the token sends, and nobody else
        return (jnp.arange(plan.shape[0])[:, None] == hop.sender[None, :]).astype(plan.dtype)
    sampling = algorithm.sampling
    if sampling is None:
        return None
    return materialise(
        really, lambda: draw_participants(sampling, random.round_keys(keys, t, 0), plan.shape[0], plan.dtype)
    )
