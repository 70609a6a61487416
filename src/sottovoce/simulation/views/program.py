"""The compiled program of recorded runs: every source drawn, every link's message formed, and something computed from what is seen.

Layout. Repeats are lanes, the last axis [..., R], as in the ordinary program (program.py); worlds are mapped over outside of it. The rounds are one
loop whose length is an argument. What is computed from a view (`Statistic`) is carried along, one carry for every run, so that nothing but the
carry outlives a round.

Random numbers are those of an ordinary run with the same seed: batches, links, samples of agents, paths of a token, and sources by their numbers in
the noise map. So a recorded run is the ordinary run up to rounding, except where that draws sums of Gaussian sources instead of the sources.
Every world but the first has a seed of its own, derived from the seed of the first.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sottovoce.algorithms import Exchange
from sottovoce.reprs import short_repr
from sottovoce.schedules import running_round
from sottovoce.simulation.rounds import random
from sottovoce.simulation.rounds.cache import enable_compilation_cache
from sottovoce.simulation.rounds.draws import draw_unit
from sottovoce.simulation.rounds.links import Hop, LinkPlan, Weights, combine, expand_present
from sottovoce.simulation.rounds.materialise import materialise
from sottovoce.simulation.rounds.neighbours import Group, expand, weighted_sum
from sottovoce.simulation.rounds.own import Own
from sottovoce.simulation.rounds.plan import Plan, schedules_in_round
from sottovoce.simulation.rounds.program import (
    draw_counts,
    draw_round,
    heard,
    models_of,
    own_in_round,
    streams_of,
)
from sottovoce.simulation.rounds.remembered import what_is_added, with_latest
from sottovoce.simulation.views.masks import Board, draw_graph, published_in, reveal
from sottovoce.simulation.views.plan import Channel, ViewPlan

Array = Any


class Seen(NamedTuple):
    """What an observer sees in one round of one run; `Layout` names the rows."""

    messages: tuple[Array, ...]  # per exchange [E_o, d]: what each observed link carries; zero where it is not used
    active: tuple[Array, ...]  # per exchange [E_o] bool: whether the link was used in this round
    broadcast: tuple[Array, ...]  # per exchange [d]: what a relay sent out; () unless the view has it
    # Per exchange [S_o, d]: the sources it knows, as they were added, and sums that a generator has told members; then noise in gradients.
    sources: tuple[Array, ...]
    board: Board | None = None  # what is public of masks; None: there are none

    def __repr__(self) -> str:
        return short_repr(self)


class Statistic(NamedTuple):
    """Something computed along the way, so that long views need not be held. Pure functions of one run."""

    init: Callable[[], Any]  # the carry before the first round
    update: Callable[[Any, Seen, Array], Any]  # (carry, seen, round from 1) -> carry
    finish: Callable[[Any, Array], Any]  # (carry, final model [d], zero for who does not get it) -> result

    def __repr__(self) -> str:
        return short_repr(self)


class Turn(NamedTuple):
    """Who sends in an exchange, and from what."""

    own: Own
    exchange: Exchange
    state: Any
    counts: Array | None  # [K, R] how much each agent counts; None: all alike
    round: Array
    really: Array

    def message(self) -> Array:
        """[K, d, R] what every agent has to send, without noise."""
        return self.own.apply(self.exchange.message, self.state)[:, :, 0, :]


class Sent(NamedTuple):
    """One exchange of a recorded round."""

    messages: Array  # [E, d, R], or [K, d, R] uplinks
    active: Array  # [E, R] or [K, R] bool
    received: Array  # [K, d, R]


def world_seed(seed: int, world: int) -> int:
    """The seed of a world: the first has the seed itself, the others one derived from it."""
    if world == 0:
        return seed
    words = random.seed_words(seed)
    low, high = random.threefry((words[0], words[1]), (jnp.uint32(world), jnp.uint32(random.WORLDS)))
    return int(low) | (int(high) & 0x7FFFFFFF) << 32  # 63 bits: a whole number of any kind holds it


def compile_record(plan: Plan, view_plan: ViewPlan, statistic: Statistic) -> Callable[..., Any]:
    """The compiled program: (arrays of the worlds, other arrays, repeat ids [R], states, rounds done, rounds to do) -> (states, results).

    The arrays of the worlds, states and results have a leading axis for the worlds; results have the repeats as second one.
    """
    layout = view_plan.layout

    def one_world(world: Any, shared: Any, ids: Array, states: Any, done: Array, count: Array, really: Array) -> Any:
        arrays = {**shared, **world}
        streams = streams_of(arrays["seed"], ids)
        if view_plan.masks is not None:
            arrays["graph"] = draw_graph(view_plan.masks, arrays["seed"], ids)
            streams[random.MASKS] = random.repeat_keys(arrays["seed"], ids, random.MASKS)
        started = jax.tree.map(lambda x: jnp.broadcast_to(x, (len(ids), *jnp.shape(x))), statistic.init())

        def body(i: Array, held: Any) -> Any:
            states, carry = held
            t = done + i + 1
            states, seen = _record_round(plan, view_plan, arrays, states, t, streams, really, ids)
            with running_round(schedules_in_round(plan, arrays, 0, t)):  # attacks replay the agents' functions
                return states, jax.vmap(statistic.update, in_axes=(0, -1, None))(carry, seen, t)

        states, carry = jax.lax.fori_loop(0, count, body, (states, started))
        models = models_of(plan, states)[0][:, :, 0, :]
        final = jnp.einsum("k,kdr->rd", arrays["perron"][0], models, precision="highest") * layout.final_model
        return states, jax.vmap(statistic.finish)(carry, final)

    enable_compilation_cache()
    return jax.jit(jax.vmap(one_world, in_axes=(0, None, None, 0, None, None, None)))


def _record_round(
    plan: Plan, view_plan: ViewPlan, arrays: Any, states: Any, t: Array, streams: Any, really: Array, ids: Array
) -> tuple[Any, Seen]:
    drawn = draw_round(plan, arrays, t, streams, really, ids)
    algorithm, (state, *past) = plan.algorithms[0], states
    own, factor = own_in_round(plan, arrays, 0, drawn, t, ids)
    if algorithm.begin is not None:
        state = materialise(really, partial(own.apply, algorithm.begin, state))
    counts = draw_counts(plan, algorithm, t, streams[random.AGENTS], really, drawn.hop)
    seen = Seen((), (), (), ())
    for e, (channel, exchange) in enumerate(zip(view_plan.channels, algorithm.exchanges, strict=True)):
        held, weights = arrays["channels"][e], drawn.weights[plan.exchange_links[0][e]]
        z = _sources(plan, channel, held, random.round_keys(streams[random.NOISE], t, e), factor[0], t, really)
        turn = Turn(own, exchange, state, counts, t, really)
        if channel.one_message:
            links = plan.links[plan.exchange_links[0][e]], arrays["links"][plan.exchange_links[0][e]]
            sent = _through_one(channel, held, links, weights, z, turn)
        else:
            again = what_is_added(0.0, arrays["memory"][t - 1], past[0]) if past else None
            sent, kept = _over_links(channel, held, weights, z, turn, again)
            past = [with_latest(before, kept) for before in past]
        if view_plan.masks is not None:
            sent, board = _masked(plan, view_plan, arrays, sent, t, streams, factor[0])
            seen = seen._replace(board=board)
        seen = _with_exchange(seen, view_plan, channel, sent, _known(channel, held, _took_part(channel, z, counts), t))
        state = own.apply(exchange.update, state, sent.received[:, :, None, :])
    return (state, *past), _with_gradients(seen, view_plan, own, counts)


def _sources(plan: Plan, channel: Channel, held: Any, keys: Any, scale: Array, t: Array, really: Array) -> Array:
    """[S, d, R] the sources of an exchange as they are added."""
    law, number, (_, d) = channel.noise.law, channel.map.num_sources, plan.shape
    if law is None or number == 0:
        return jnp.zeros((0, d, keys[0].shape[-1]), plan.dtype)
    z = materialise(really, lambda: scale * draw_unit(law, keys, jnp.arange(number), d, plan.dtype))
    return z if "used" not in held else expand(_of_round(held["used"], t), 3) * z


def _of_round(table: Array, t: Array) -> Array:
    """The values of a round: the same in all, or those of its matrix in the list."""
    return table if table.ndim == 1 else table[(t - 1) % table.shape[0]]


def _add(groups: tuple[Group, ...], held: list[Any], values: Array, z: Array, start: Array) -> Array:
    """Add to each row of start [N, d, R] its sources, with values [m] or [m, R] in the order of the map's entries."""
    if z.shape[0] == 0 or values.shape[0] == 0:
        return start
    rows = [{"source": h["source"], "weight": expand_present(h["present"], values[h["entry"]])} for h in held]
    return weighted_sum(groups, rows, z, start)


def _over_links(
    channel: Channel, held: Any, weights: Weights | None, z: Array, turn: Turn, again: Array | None
) -> tuple[Sent, Array | None]:
    """Peers: every link carries its own message, psi [K, d, R] plus its noise; with memory also what every agent has added, [K, d, 1, R].

    Args:
        channel: the exchange.
        held: its arrays.
        weights: of the round; None where they are fixed.
        z: its sources.
        turn: who sends what.
        again: [K, d, 1, R] what is added of the noise of earlier rounds; None where none is.
    """
    t, really = turn.round, turn.really
    psi = materialise(really, turn.message if again is None else lambda: turn.message() + again[:, :, 0])
    link, own = (held["link"], held["own"]) if weights is None else (weights.link, weights.own)
    link_value, self_value = _values_of_round(channel, held, link, own, t)
    carried = materialise(
        really, lambda: _add(channel.on_links, held["on_links"], link_value, z, psi[channel.links.senders])
    )
    kept = _add(channel.on_own, held["on_own"], self_value, z, psi)
    rows = [{"source": h["source"], "weight": expand_present(h["present"], link[h["entry"]])} for h in held["gather"]]
    received = materialise(really, lambda: weighted_sum(channel.gather, rows, carried, expand(own, 3) * kept))
    active = link > 0 if link.ndim == 2 else (link > 0)[:, None]
    sent = Sent(carried, jnp.broadcast_to(active, (len(link), psi.shape[-1])), received)
    if again is None:
        return sent, None
    added = _add(channel.on_own, held["on_own"], self_value, z, again[:, :, 0])
    return sent, added[:, :, None]


def _values_of_round(channel: Channel, held: Any, link: Array, own: Array, t: Array) -> tuple[Array, Array]:
    """The entries of the noise map in this round; with a last axis R where links are drawn."""
    if not channel.drawn:
        return _of_round(held["link_value"], t), _of_round(held["self_value"], t)

    def one(link: Array, own: Array) -> tuple[Array, Array]:
        spread = channel.noise.spread(channel.links._replace(weights=link, self_weights=own))
        return jnp.asarray(spread.link_value, link.dtype), jnp.asarray(spread.self_value, link.dtype)

    values: tuple[Array, Array] = jax.vmap(one, in_axes=-1, out_axes=-1)(link, own)
    return values


def _through_one(
    channel: Channel, held: Any, links: tuple[LinkPlan, Any], hop: Hop | None, z: Array, turn: Turn
) -> Sent:
    """A relay or a token: everybody has one message; the relay adds its noise to the average of those that it hears."""
    counts = turn.counts

    def send() -> Array:
        return _add(channel.on_own, held["on_own"], _of_round(held["self_value"], turn.round), z, turn.message())

    sent = materialise(turn.really, send)
    taken = sent[:, :, None, :]
    if counts is not None:
        taken = heard(turn.own, turn.exchange, turn.state, taken, counts)
    received = combine(links[0], links[1], hop, taken)[:, :, 0, :]
    if channel.topology.relay:
        if channel.map.of_relay.any():
            received = received + jnp.tensordot(held["relay"], z, axes=1, precision="highest")
        active = jnp.ones((sent.shape[0], sent.shape[-1]), bool) if counts is None else counts > 0
        return Sent(sent, active, received)
    assert hop is not None
    senders, receivers = channel.links.senders[:, None], channel.links.receivers[:, None]
    return Sent(sent[channel.links.senders], (senders == hop.sender) & (receivers == hop.receiver), received)


def _masked(
    plan: Plan, view_plan: ViewPlan, arrays: Any, sent: Sent, t: Array, streams: Any, std: Array
) -> tuple[Sent, Board]:
    """What the observer makes of the board; what the agents receive stays as it is, since masks cancel in it."""
    masks = view_plan.masks
    assert masks is not None
    presence = published_in(masks, random.round_keys(streams[random.AGENTS], t, 0), plan.dtype)
    keys = random.round_keys(streams[random.MASKS], t, 0)
    rows, board = reveal(masks, arrays["graph"], sent.messages, presence, keys, std)
    own = jnp.arange(len(rows))[:, None]
    return sent._replace(messages=rows, active=board.parts == own), board


def _took_part(channel: Channel, z: Array, counts: Array | None) -> Array:
    """The sources without those of agents who send nothing in this round; a relay always does."""
    if counts is None or z.shape[0] == 0:
        return z
    owners = channel.map.owners[:, 0]
    return jnp.where(((counts > 0)[owners] | channel.map.of_relay[:, None])[:, None, :], z, 0)


def _known(channel: Channel, held: Any, z: Array, t: Array) -> Array:
    """[S_o, d, R] the sources that the observer knows, then the sums that its members were told."""
    known = z[channel.known]
    if channel.told is None:
        return known
    table = held["told"][(t - 1) % held["told"].shape[0]]
    return jnp.concatenate([known, jnp.tensordot(table, z, axes=1, precision="highest")])


def _with_exchange(seen: Seen, view_plan: ViewPlan, channel: Channel, sent: Sent, known: Array) -> Seen:
    """Add what the observer sees of one exchange."""
    active = sent.active[channel.read]
    messages = jnp.where(active[:, None, :], sent.messages[channel.read], 0)
    return seen._replace(
        messages=(*seen.messages, messages),
        active=(*seen.active, active),
        broadcast=(*seen.broadcast, sent.received[0]) if view_plan.layout.broadcast else (),
        sources=(*seen.sources, known),
    )


def _with_gradients(seen: Seen, view_plan: ViewPlan, own: Own, counts: Array | None) -> Seen:
    """Add the noise that members have put into their gradients."""
    if not view_plan.layout.noisy_gradients:
        return seen
    members = np.flatnonzero(view_plan.view.members)
    noise = jnp.concatenate([step[members, :, 0, :] for step in own.noise])
    if counts is not None:
        noise = jnp.where(jnp.tile(counts[members] > 0, (len(own.noise), 1))[:, None, :], noise, 0)
    return seen._replace(sources=(*seen.sources, noise))
