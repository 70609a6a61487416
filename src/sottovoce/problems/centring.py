"""Features around a mean that was released with noise.

    shrunk_mean:       g 1 + max(0, 1 - (d - 3) std^2 / ||r||^2) r,   g the average of the d numbers, r = mean - g 1
    centred_features:  x <- [2 (x - mean), 1] / ||[2 (x - mean), 1]||_2

Gradients of a linear model are as long as records are, but only differences between records say something. Ranges that are
known beforehand leave most measurements on one side of their middle, so that all records point almost the same way, and noise
that hides a record of length 1 drowns what is different in it. Around their mean they differ in everything they have.

The mean of private records is a release: it needs noise and its share of epsilon. What is done with it afterwards costs
nothing. Of its noise only one part in d lies in the average over all features; what is left beside that average is drawn
towards it, the more the less it stands out of the noise (James-Stein, positive part).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError
from sottovoce.numbers import checked
from sottovoce.problems.loaders import add_intercept, unit_norm

Floats = NDArray[np.float64]


def shrunk_mean(noisy_mean: Any, *, std: float) -> Floats:
    """Draw a noisy mean of features of the same scale towards its own average, as far as its noise tells.

    Args:
        noisy_mean: the mean as it was released, [d].
        std: of its Gaussian noise, which is public.

    Returns:
        The better estimate, [d]; with fewer than four features, or without noise, the same numbers.

    Raises:
        ConfigError: something other than a flat list of finite numbers, or a negative std.
    """
    mean, noise = _vector(noisy_mean), checked("std", std, "[0, inf)")
    average = mean.mean()
    rest = mean - average
    energy, expected = float(rest @ rest), max(len(mean) - 3, 0) * noise**2
    kept = 1.0 - expected / energy if energy > expected else 0.0
    shrunk: Floats = average + kept * rest
    return shrunk


def centred_features(features: Any, mean: Any) -> Floats:
    """Give every record its difference from a released mean and an intercept, at length 1.

    Features come scaled to [-1, 1], where differences from a mean are seldom above one half: they are doubled beside an intercept of 1.

    Args:
        features: [..., d].
        mean: [d], public or released with noise; never the mean of the records themselves.

    Returns:
        The records, [..., d + 1]; the intercept is the last feature.

    Raises:
        ConfigError: a mean of another length, or not finite.
    """
    rows, centre = np.asarray(features, dtype=np.float64), _vector(mean)
    if rows.ndim < 1 or rows.shape[-1] != len(centre):
        raise ConfigError(
            f"features have shape {rows.shape} and the mean {len(centre)} numbers; it needs one for every feature."
        )
    return unit_norm(add_intercept(2.0 * (rows - centre)))


def _vector(mean: Any) -> Floats:
    vector = np.asarray(mean, dtype=np.float64)
    if vector.ndim != 1 or not len(vector) or not np.isfinite(vector).all():
        raise ConfigError(
            f"a mean of shape {vector.shape} was given; it needs one finite number for every feature, shape [d]."
        )
    return vector
