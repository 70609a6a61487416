"""A second implementation of the rounds, written link by link in NumPy, fed with the engine's own random numbers.

It shares with the engine only the generators: which records a batch holds, which links are active, and the value of each source.
Everything it does with them (what each link carries, what each own copy keeps, how receivers combine) is written out again.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from sottovoce.noise import L2Laplace
from sottovoce.simulation.rounds import random
from sottovoce.simulation.rounds.batches import draw_batch
from sottovoce.simulation.rounds.draws import draw_unit
from sottovoce.simulation.rounds.links import link_arrays, plan_links, weights_of_round
from sottovoce.topologies import ActiveLinks, Static


@functools.partial(jax.jit, static_argnames=("seed", "stream", "exchange"))
def keys_of(seed, repeat, stream, t, exchange):
    return random.round_keys(random.repeat_keys(random.seed_words(seed), repeat[None], stream), t, exchange)


_draw_batch = jax.jit(draw_batch, static_argnames="batch_size")
_draw_unit = jax.jit(draw_unit, static_argnames=("law", "dimension", "dtype"))


def batch_positions(problem, seed, repeat, t, batch_size):
    keys = keys_of(seed, jnp.int32(repeat), random.BATCH, jnp.int32(t), 0)
    return np.asarray(_draw_batch(keys, jnp.asarray(problem.sizes), batch_size=batch_size))[:, :, 0]


def gradient(problem, k, w, positions):
    """Average of the per-record gradients of agent k, each taken alone."""
    data = {name: values[k] for name, values in problem.arrays.items()}
    chosen = range(problem.sizes[k]) if positions is None else positions[k]
    return np.mean([problem.batch_gradient(w, problem.records(data, np.array([i]))) for i in chosen], axis=0)


@functools.cache
def _weights_function(topology, seed):
    plan = plan_links(topology)
    arrays = jax.tree.map(jnp.asarray, link_arrays(plan))
    return jax.jit(
        lambda t, repeat: weights_of_round(
            plan, arrays, t, random.repeat_keys(random.seed_words(seed), repeat[None], random.LINKS)
        )
    )


def active_links(topology, seed, repeat, t):
    if isinstance(topology.schedule, Static):
        return topology.active_links()
    weights = _weights_function(topology, seed)(jnp.int32(t), jnp.int32(repeat))
    link, own = (np.asarray(part).reshape(part.shape[0], -1)[:, 0] for part in weights)
    return ActiveLinks(topology.links[:, 0], topology.links[:, 1], link, own, topology.perron)


def received(psi, noise, links, seed, repeat, t, exchange, factor):
    """What every agent combines, from what each single link carries."""
    noise_map = noise.spread(links)
    carried, kept = psi[links.senders].copy(), psi.copy()
    if noise.law is not None:
        keys = keys_of(seed, jnp.int32(repeat), random.NOISE, jnp.int32(t), exchange)
        ids = jnp.arange(noise_map.num_sources)
        z = np.asarray(
            _draw_unit(keys=keys, ids=ids, law=noise.law, dimension=psi.shape[1], dtype=jnp.dtype(psi.dtype))
        )[:, :, 0]
        z = z * factor * (noise.law.scale if isinstance(noise.law, L2Laplace) else noise.law.std)
        for link, source, value in zip(noise_map.link_index, noise_map.link_source, noise_map.link_value, strict=True):
            carried[link] += value * z[source]
        for agent, source, value in zip(noise_map.self_index, noise_map.self_source, noise_map.self_value, strict=True):
            kept[agent] += value * z[source]
    total = links.self_weights[:, None] * kept
    for (k, weight), message in zip(zip(links.receivers, links.weights, strict=True), carried, strict=True):
        total[k] += weight * message
    return total


def run(problem, topology, kind, step, noise, *, rounds, seed, repeat, batch_size):
    """Models after each round, [rounds, K, d], for kind "consensus", "cta" or "atc"."""
    K, d = problem.num_agents, problem.dimension
    w, history = np.zeros((K, d)), []
    factors = noise.factors(rounds)
    for t in range(1, rounds + 1):
        positions = None if batch_size is None else batch_positions(problem, seed, repeat, t, batch_size)
        links = active_links(topology, seed, repeat, t)

        def steps(points, positions=positions):
            return step * np.stack([gradient(problem, k, points[k], positions) for k in range(K)])

        sent = w - steps(w) if kind == "atc" else w
        mixed = received(sent, noise, links, seed, repeat, t, 0, factors[t - 1])
        w = {
            "atc": lambda m=mixed: m,
            "cta": lambda m=mixed: m - steps(m),
            "consensus": lambda m=mixed, o=w: m - steps(o),
        }[kind]()
        history.append(w)
    return np.stack(history)
