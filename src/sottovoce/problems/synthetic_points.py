"""Synthetic points in a box, for mean estimation as in the experiments of Showkatbakhsh et al.

    every coordinate of every point ~ N(0.7 R, 1), conditioned on lying in [-R, R]

The paper says "a truncated Gaussian distribution with mean of 0.7R and the unit variance". We take mean and variance as
those of the Gaussian before truncation, and coordinates as independent. R and the dimension are not given there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sottovoce.numbers import checked, whole
from sottovoce.resources import refuse_too_large

Floats = NDArray[np.float64]

_CENTRE = 0.7  # of the Gaussian, in units of R


def truncated_gaussian(*, num_agents: int = 10, samples: int = 100, dimension: int, radius: float, seed: int) -> Floats:
    """Draw points in [-radius, radius]^d from a Gaussian around 0.7 radius with unit variance, truncated to the box.

    Args:
        num_agents: K.
        samples: n, per agent.
        dimension: d.
        radius: R, half the side of the box.
        seed: of NumPy's generator; the same seed gives the same points.

    Returns:
        The points, [K, n, d].

    Raises:
        ConfigError: a count below 1, or a radius that is not positive.
    """
    for name, count in (("num_agents", num_agents), ("samples", samples), ("dimension", dimension)):
        whole(name, count)
    bound = checked("radius", radius, "(0, inf)")
    refuse_too_large(
        f"{num_agents:,} agents with {samples:,} points of dimension {dimension:,}",
        24.0 * num_agents * samples * dimension,
        "Lower the number of agents, samples or the dimension.",
    )
    centre = _CENTRE * bound
    uniform = np.random.default_rng(seed).random((num_agents, samples, dimension))
    from scipy.special import ndtr, ndtri

    lowest, highest = ndtr(-bound - centre), ndtr(bound - centre)
    points: Floats = np.clip(centre + ndtri(lowest + (highest - lowest) * uniform), -bound, bound)
    return points
