"""Where the random numbers of one party come from: the operating system, or, in tests and rehearsals, a simulation.

All noise is in units of the lattice, whole numbers. `scale` is the size of the law in the round: its standard deviation for a Gaussian and for
Laplace noise, times 2^f and times the factor of the round, so that a source that a test injects is taken as it is.
"""

from typing import Protocol

import numpy as np


class Randomness(Protocol):
    """What a party asks for, each at most once in a run."""

    def source(self, position: int, source: int, scale: float) -> np.ndarray:
        """[d] int64: the noise of one source of the bound noise map that this party alone owns, at one exchange."""

    def gradient_noise(self, round_: int, step: int, scale: float) -> np.ndarray:
        """[d] int64: the noise in one gradient of a round."""

    def shared(self, position: int, source: int, other: int, scale: float) -> np.ndarray:
        """[d] int64: a finite source that this party owns together with another one; both get the same numbers."""

    def mask(self, position: int, source: int, other: int) -> np.ndarray:
        """[d] uint64, uniform: in place of a shared source where sources cancel at every receiver; both get the same words."""

    def batch(self, round_: int, step: int, records: int, size: int) -> np.ndarray:
        """[size] int64: distinct positions among so many records, for one gradient of a round."""
