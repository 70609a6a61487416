"""Who takes part in a round of a federation, and how much each then counts; drawn inside a compiled round, per repeat."""

from typing import Any

import jax.numpy as jnp

from sottovoce.algorithms import AgentSampling, PoissonAgents, SilentAgents
from sottovoce.simulation import random

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
    ids = jnp.arange(num_agents, dtype=jnp.uint32)[:, None]
    words = random.threefry(keys, (ids, jnp.uint32(0)))
    if isinstance(sampling, SilentAgents):
        published = random.uniform(words, dtype) >= sampling.silence
        number = published.sum(axis=0)
        weight = jnp.where(number >= sampling.minimum, num_agents / jnp.maximum(number, 1), 0.0)
        return published * weight.astype(dtype)
    if isinstance(sampling, PoissonAgents):
        drawn = random.uniform(words, dtype) < sampling.rate
    else:
        # The m smallest of K random words; equal ones are as good as never, and then the lower id is taken.
        drawn = jnp.argsort(jnp.argsort(words[0], axis=0), axis=0) < sampling.size
    return drawn * jnp.asarray(sampling.weight(num_agents), dtype)
