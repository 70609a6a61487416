"""Random numbers for simulation: Threefry-2x32 with 20 rounds, addressed by counters.

A draw is a pure function of (seed, repeat, round, stream, id, coordinate): no state, so the same numbers come out whatever the
chunk size, however many repeats run together, on however many devices. Salmon et al. 2011, "Parallel random numbers: as easy as
1, 2, 3". Stored runs name it (`sottovoce.simulation.GENERATOR`). Written out in array operations because XLA then fuses the
generator with its use; four million Laplace numbers through `jax.random` took 4 to 8 times the processor time. For simulation
only: never for a release.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erfinv

Array = Any

# Streams: what a draw is used for. A new use gets a new number; changing one changes every stored result.
NOISE, BATCH, LINKS, GRADIENTS, AGENTS = 1, 2, 3, 4, 5
WORLDS, GRAPH, MASKS = 6, 7, 8  # of recorded runs: seeds of further worlds, and what masks are made of

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def threefry(key: tuple[Array, Array], counter: tuple[Array, Array]) -> tuple[Array, Array]:
    """Threefry-2x32-20 of two 32-bit words under a key of two words, elementwise with broadcasting."""
    k0, k1 = (jnp.asarray(word, jnp.uint32) for word in key)
    schedule = (k0, k1, k0 ^ k1 ^ jnp.uint32(_PARITY))
    x0 = jnp.asarray(counter[0], jnp.uint32) + schedule[0]
    x1 = jnp.asarray(counter[1], jnp.uint32) + schedule[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = ((x1 << rotation) | (x1 >> (32 - rotation))) ^ x0
        x0 = x0 + schedule[(group + 1) % 3]
        x1 = x1 + schedule[(group + 2) % 3] + jnp.uint32(group + 1)
    return x0, x1


def seed_words(seed: int) -> np.ndarray:
    """A seed of up to 64 bits as two words."""
    return np.array([seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF], dtype=np.uint32)


def repeat_keys(seed: Array, repeats: Array, stream: int) -> tuple[Array, Array]:
    """One key per repeat for a stream: [R], [R]; the seed as two words."""
    return threefry((seed[0], seed[1]), (jnp.asarray(repeats, jnp.uint32), jnp.uint32(stream)))


def round_keys(keys: tuple[Array, Array], round_: Array, exchange: int | Array) -> tuple[Array, Array]:
    """The keys of one exchange of one round."""
    return threefry(keys, (jnp.asarray(round_, jnp.uint32), jnp.asarray(exchange, jnp.uint32)))


def uniform(words: tuple[Array, Array], dtype: Any) -> Array:
    """Uniform numbers strictly inside (0, 1): the middles of 2^24 cells (float32) or 2^53 (float64)."""
    if dtype == jnp.float64:
        high = (words[0] >> 5).astype(jnp.float64)  # 27 bits
        low = (words[1] >> 6).astype(jnp.float64)  # 26 bits
        return (high * 67108864.0 + low + 0.5) * 2.0**-53
    # 23 bits, so that the largest value, 1 - 2^-24, is still a float32 below one.
    return ((words[0] >> 9).astype(jnp.float32) + 0.5) * jnp.float32(2.0**-23)


def standard_normal(words: tuple[Array, Array], dtype: Any) -> Array:
    """Standard Gaussian numbers by inversion."""
    return jnp.asarray(2.0**0.5, dtype) * erfinv(2.0 * uniform(words, dtype) - 1.0)


def exponential(words: tuple[Array, Array], dtype: Any) -> Array:
    """Exponential numbers of mean one by inversion."""
    return -jnp.log(uniform(words, dtype))


def standard_laplace(words: tuple[Array, Array], dtype: Any) -> Array:
    """Laplace numbers of scale one (variance two) by inversion: the lowest bit, unused by `uniform`, is the sign."""
    magnitude = exponential(words, dtype)
    return jnp.where((words[0] & 1) == 1, magnitude, -magnitude)


def below(words: tuple[Array, Array], bound: Array) -> Array:
    """Uniform integers in [0, bound) as the high word of a 32 x 32 bit product, int32; bias below bound / 2^32."""
    bound = jnp.asarray(bound, jnp.uint32)
    a1, a0 = words[0] >> 16, words[0] & 0xFFFF
    b1, b0 = bound >> 16, bound & 0xFFFF
    middle = (a0 * b0 >> 16) + (a1 * b0 & 0xFFFF) + (a0 * b1 & 0xFFFF)
    return (a1 * b1 + (a1 * b0 >> 16) + (a0 * b1 >> 16) + (middle >> 16)).astype(jnp.int32)
