"""Which records each agent uses in a round: distinct ones, uniformly, independent over agents, rounds and repeats.

The records of one batch are drawn without replacement (Floyd's algorithm), so that a record enters a batch at most once and its
influence on the averaged gradient is at most 2C/B (docs/decisions.md).
"""

from typing import Any

import jax
import jax.numpy as jnp

from sottovoce.simulation.rounds import random

Array = Any


def draw_batch(keys: tuple[Array, Array], sizes: Array, batch_size: int, holders: Array | None = None) -> Array:
    """Positions of the records of every agent's batch, [K, B, R], each row without repetition.

    Args:
        keys: keys of the round, [R] each.
        sizes: [K] how many records each agent has, all at least `batch_size`.
        batch_size: B.
        holders: [R] one agent per repeat, whose batch alone is drawn: [1, B, R]; None: all agents'.
    """
    agents = (
        jnp.arange(len(sizes), dtype=jnp.uint32)[:, None] if holders is None else holders.astype(jnp.uint32)[None, :]
    )
    first = (sizes[:, None] if holders is None else sizes[holders][None, :]).astype(jnp.int32) - batch_size

    def candidate(slot: Any) -> Array:
        return random.below(random.threefry(keys, (agents, jnp.uint32(slot))), first + slot + 1)  # [K, R]

    if batch_size == 1:
        return candidate(0)[:, None, :]
    chosen = jnp.full((agents.shape[0], batch_size, keys[0].shape[-1]), -1, jnp.int32)

    def choose(slot: Array, chosen: Array) -> Array:
        drawn = candidate(slot)
        taken = (chosen == drawn[:, None, :]).any(axis=1)
        return chosen.at[:, slot, :].set(jnp.where(taken, first + slot, drawn))

    return jax.lax.fori_loop(0, batch_size, choose, chosen)
