"""Synthetic regression data of Rizk et al. 2023, experiment A.

    target_k(n) = u_k,n . w* + o_k(n),   u ~ N(0, R_u),   o_k ~ N(0, s_k^2) with a different s_k^2 at every agent

The paper sets R_u at random. We draw its eigenvalues below 1. With unit variance and step 0.4 the one-record recursion
of a lone agent diverges in mean square, and ATC on 15 of 24 geometric graphs tried (Metropolis weights, K = 30); with
the default range all 24 are stable (growth 0.84 to 0.86 per round), though 4 % of the agents would diverge alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError
from sottovoce.numbers import whole
from sottovoce.reprs import short_repr
from sottovoce.resources import refuse_too_large

Floats = NDArray[np.float64]


class SyntheticRegression(NamedTuple):
    """Regression data and the model that generated them.

    Attributes:
        features: [K, n, d].
        targets: [K, n].
        model: the generative w*, [d].
    """

    features: Floats
    targets: Floats
    model: Floats

    def __repr__(self) -> str:
        return short_repr(self)


def synthetic_regression(
    *,
    num_agents: int = 30,
    samples: int = 100,
    dimension: int = 2,
    seed: int,
    eigenvalues: tuple[float, float] = (0.1, 0.6),
    noise_variances: tuple[float, float] = (0.01, 0.1),
) -> SyntheticRegression:
    """Draw the data of Rizk et al. 2023, experiment A: 30 agents with 100 samples of dimension 2.

    Args:
        num_agents: K.
        samples: n, per agent.
        dimension: d.
        seed: of NumPy's generator; the same seed gives the same data.
        eigenvalues: range of the eigenvalues of R_u, shared by all agents, drawn uniformly; for d >= 2 both ends are
            taken.
        noise_variances: range of the agents' observation-noise variances, drawn uniformly (our choice: the paper gives
            none).

    Returns:
        (features, targets, model); w* is standard normal.

    Raises:
        ConfigError: a count below 1, a range that is not 0 <= low <= high, or more records than fit into memory.
    """
    for name, count in (("num_agents", num_agents), ("samples", samples), ("dimension", dimension)):
        whole(name, count)
    _check_range(eigenvalues, name="eigenvalues", lowest_allowed=False)
    _check_range(noise_variances, name="noise_variances", lowest_allowed=True)
    entries = float(num_agents) * samples * dimension
    refuse_too_large(
        f"{num_agents:,} agents with {samples:,} records of dimension {dimension:,}",
        16.0 * entries + 8.0 * num_agents * samples + 40.0 * dimension * dimension,
        "Lower the number of agents, samples or the dimension.",
    )
    generator = np.random.default_rng(seed)
    spectrum = generator.uniform(*eigenvalues, size=dimension)
    if dimension >= 2:
        spectrum[:2] = eigenvalues
    # QR of a Gaussian matrix, with the signs of R's diagonal moved into Q, is uniform over rotations.
    rotation, upper = np.linalg.qr(generator.standard_normal((dimension, dimension)))
    rotation = rotation * np.sign(np.diag(upper))
    model = generator.standard_normal(dimension)
    variances = generator.uniform(*noise_variances, size=num_agents)
    features = generator.standard_normal((num_agents, samples, dimension)) * np.sqrt(spectrum) @ rotation.T
    noise = generator.standard_normal((num_agents, samples)) * np.sqrt(variances)[:, None]
    return SyntheticRegression(features, features @ model + noise, model)


def _check_range(limits: tuple[float, float], *, name: str, lowest_allowed: bool) -> None:
    low, high = limits
    if not (np.isfinite(high) and low <= high and (low >= 0.0 if lowest_allowed else low > 0.0)):
        raise ConfigError(
            f"{name} must be a range (low, high) with 0 {'<=' if lowest_allowed else '<'} low <= high; got {limits!r}."
        )
