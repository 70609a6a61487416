"""Masks that a pair of parties adds with opposite signs, so that they vanish in the sum modulo 2^64.

    Delta_uv = +m if u's exchange key is the lower of the two (as bytes), -m otherwise,      m from the pair's key

UniformMasks: m uniform on Z_{2^64}. Whoever lacks the pair's key learns nothing but the sum over each connected set of
honest parties; there is nothing to calibrate. An unrepaired silent neighbour leaves a uniform word in the sum, and no
result at all. GaussianMasks: m a rounded Gaussian. Hides less, and leaves finite noise where repair is missing.
`deployment.gopa.guarantee` accounts for both.
"""

from dataclasses import dataclass

import numpy as np

from sottovoce.deployment.integers.fixed_point import ring
from sottovoce.deployment.integers.keystream import stream_words
from sottovoce.deployment.integers.rounded_gaussian import RoundedGaussian
from sottovoce.deployment.integers.tail_comparison import WORDS


@dataclass(frozen=True, slots=True, kw_only=True)
class UniformMasks:
    """Masks uniform on the integers modulo 2^64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianMasks:
    """Rounded Gaussian masks.

    Attributes:
        law: the law of every entry, in units.
    """

    law: RoundedGaussian


Masks = UniformMasks | GaussianMasks


def words_per_entry(masks: Masks) -> int:
    """How many 64-bit words one entry of a mask consumes."""
    return WORDS if isinstance(masks, GaussianMasks) else 1


def from_words(masks: Masks, words: np.ndarray) -> np.ndarray:
    """Mask entries from uniform words, [..., words_per_entry] uint64 -> [...] uint64."""
    return ring(masks.law.from_words(words)) if isinstance(masks, GaussianMasks) else words[..., 0]


def pair_mask(masks: Masks, key: bytes, dimension: int) -> np.ndarray:
    """The mask m of one pair, [d] uint64."""
    return (
        ring(masks.law.from_key(key, dimension)) if isinstance(masks, GaussianMasks) else stream_words(key, dimension)
    )


def signed_mask(mask: np.ndarray, *, own: bytes, peer: bytes) -> np.ndarray:
    """What the party with exchange key `own` adds for its pair with `peer`."""
    return mask if own < peer else -mask
