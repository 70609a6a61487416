"""Whole numbers in place of real ones: the lattice on which parties compute, noise on it, and masks modulo 2^64."""

from sottovoce.deployment.integers.fixed_point import FixedPoint, ring, signed
from sottovoce.deployment.integers.keystream import KEY_BYTES, Keystream, stream_words
from sottovoce.deployment.integers.lattice import Lattice, NotFinite, OutsideTheLattice
from sottovoce.deployment.integers.laws import rounded
from sottovoce.deployment.integers.masks import GaussianMasks, Masks, UniformMasks, pair_mask, signed_mask
from sottovoce.deployment.integers.positions import distinct_positions
from sottovoce.deployment.integers.rounded_gaussian import RoundedGaussian
from sottovoce.deployment.integers.rounded_laplace import RoundedLaplace
from sottovoce.deployment.integers.secret import SecretRandomness
from sottovoce.deployment.integers.tail_comparison import WORDS

__all__ = [
    "KEY_BYTES",
    "WORDS",
    "FixedPoint",
    "GaussianMasks",
    "Keystream",
    "Lattice",
    "Masks",
    "NotFinite",
    "OutsideTheLattice",
    "RoundedGaussian",
    "RoundedLaplace",
    "SecretRandomness",
    "UniformMasks",
    "distinct_positions",
    "pair_mask",
    "ring",
    "rounded",
    "signed",
    "signed_mask",
    "stream_words",
]


def __dir__() -> list[str]:
    return [*__all__]
