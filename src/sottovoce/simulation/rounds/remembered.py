"""Noise of earlier rounds that enters again, inside a compiled round: what was added lately is carried along beside the models.

    n_t = scale_t e_t - sum_j m[t, j] n_{t-j}                 (linear/memory.py)

Of a scheme with memory the round draws e_t, what every agent adds freshly, and n_t goes into the messages before they are combined. The last
`lags` of them are part of a run's state, [lags, K, d, M, R] for the M schemes that remember, so that a run that goes on goes on exactly.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from sottovoce.noise import Noise
from sottovoce.simulation.rounds.draws import Share

Array = Any


def remembering(noises: tuple[Noise, ...]) -> list[int]:
    """The positions of the schemes with memory."""
    return [s for s, noise in enumerate(noises) if noise.memory is not None]


def most_lags(noises: tuple[Noise, ...]) -> int:
    """How many earlier rounds a run holds the noise of; 0 where no scheme has memory."""
    return max((noise.memory.shape[1] for noise in noises if noise.memory is not None), default=0)


def memory_table(noises: tuple[Noise, ...], rounds: int, num_agents: int) -> np.ndarray:
    """[rounds, lags, K, M] the factors of every scheme with memory, filled up with zeros where it has fewer lags than another."""
    tables = [noises[s].remembered(rounds, num_agents) for s in remembering(noises)]
    lags = most_lags(noises)
    return np.stack([np.pad(table, ((0, 0), (0, lags - table.shape[1]), (0, 0))) for table in tables], axis=-1)


def no_past(noises: tuple[Noise, ...], shape: tuple[int, int], repeats: int, dtype: Any) -> np.ndarray:
    """What was added before the first round: nothing, [lags, K, d, M, R]."""
    return np.zeros((most_lags(noises), *shape, len(remembering(noises)), repeats), dtype)


def what_is_added(fresh: Array, factors: Array, past: Array) -> Array:
    """n_t [K, d, M, R] from the fresh noise of the round, its factors [lags, K, M] and what was added before [lags, K, d, M, R]."""
    total = fresh
    for lag in range(past.shape[0]):
        total = total - factors[lag][:, None, :, None] * past[lag]
    return total


def fresh_of(shares: list[Share | None], schemes: list[int], factor: Array) -> Array:
    """[K, d, M, R] the fresh noise of the schemes that remember, scaled by factor [S]."""
    drawn = [share.drawn for share in (shares[s] for s in schemes) if share is not None]
    return jnp.stack([factor[s] * one for s, one in zip(schemes, drawn, strict=True)], axis=2)


def with_latest(past: Array, added: Array) -> Array:
    """The past of the next round: what was added now, and all before it but the oldest."""
    return jnp.concatenate([added[None], past[:-1]])
