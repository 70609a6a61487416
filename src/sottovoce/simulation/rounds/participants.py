"""Who takes part in a round of a federation, and how much each then counts; drawn inside a compiled round, per repeat."""

from typing import Any

import jax.numpy as jnp

from sottovoce.algorithms import AgentSampling, PoissonAgents, SilentAgents
from sottovoce.simulation.rounds import random

Array = Any


def draw_participants(sampling: AgentSampling, keys: tuple[Array, Array], num_agents: int, dtype: Any) -> Array:
    """[K, R] how many times as much each agent counts as when all take part: 1/q or K/m if it was drawn, else 0.

    Of agents that may be silent, those that published count K over their number, and nothing if they are fewer than the minimum.

    Args:
        sampling: how agents are drawn.
        keys: keys of the round, [R] each.
        num_agents: K.
        dtype: of the result.
    """
    if isinstance(sampling, SilentAgents):
        published, counts = draw_published(sampling, keys, num_agents, dtype)
        weight = jnp.where(counts, num_agents / jnp.maximum(published.sum(axis=0), 1), 0.0)
        return published * weight.astype(dtype)
    words = _words(keys, num_agents)
    if isinstance(sampling, PoissonAgents):
        drawn = random.uniform(words, dtype) < sampling.rate
    else:
        # The m smallest of K random words; equal ones are as good as never, and then the lower id is taken.
        drawn = jnp.argsort(jnp.argsort(words[0], axis=0), axis=0) < sampling.size
    return drawn * jnp.asarray(sampling.weight(num_agents), dtype)


def draw_published(
    sampling: SilentAgents, keys: tuple[Array, Array], num_agents: int, dtype: Any
) -> tuple[Array, Array]:
    """Who publishes, [K, R], and whether they are enough for the round to count, [R]."""
    published = random.uniform(_words(keys, num_agents), dtype) >= sampling.silence
    return published, published.sum(axis=0) >= sampling.minimum


def _words(keys: tuple[Array, Array], num_agents: int) -> tuple[Array, Array]:
    ids = jnp.arange(num_agents, dtype=jnp.uint32)[:, None]
    return random.threefry(keys, (ids, jnp.uint32(0)))
