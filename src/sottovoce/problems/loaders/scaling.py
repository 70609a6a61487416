"""Scalings that look at no other record.

    scale_features:  x_j <- 2 (clip(x_j, low_j, high_j) - low_j) / (high_j - low_j) - 1,   bounds given, never fitted
    unit_norm:       x <- x / ||x||_2
    add_intercept:   x <- [x, 1], or [x, 1] / sqrt(2), which keeps ||x||_2 <= 1

Fitting a scaling to the data (their mean, minimum or maximum) would be a release that no guarantee accounts for. Bounds
known beforehand and operations on one record alone are free.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.clipping import vector_norm
from sottovoce.errors import ConfigError

Floats = NDArray[np.float64]

# Round ranges for the ten cell measurements (mean, standard error, worst of an image), chosen by hand for this public
# data set and not computed from its records; values beyond them are clipped. For private data take such ranges from
# knowledge of the field, never from the data.
_BREAST_CANCER_RANGES: dict[str, tuple[tuple[float, float], tuple[float, float], tuple[float, float]]] = {
    "radius": ((0.0, 40.0), (0.0, 3.0), (0.0, 50.0)),
    "texture": ((0.0, 50.0), (0.0, 5.0), (0.0, 60.0)),
    "perimeter": ((0.0, 250.0), (0.0, 25.0), (0.0, 300.0)),
    "area": ((0.0, 3000.0), (0.0, 600.0), (0.0, 5000.0)),
    "smoothness": ((0.0, 0.2), (0.0, 0.05), (0.0, 0.3)),
    "compactness": ((0.0, 0.5), (0.0, 0.2), (0.0, 1.5)),
    "concavity": ((0.0, 0.5), (0.0, 0.5), (0.0, 1.5)),
    "concave points": ((0.0, 0.25), (0.0, 0.1), (0.0, 0.4)),
    "symmetry": ((0.0, 0.5), (0.0, 0.1), (0.0, 0.8)),
    "fractal dimension": ((0.0, 0.1), (0.0, 0.05), (0.0, 0.3)),
}

_PUBLIC_BOUNDS: dict[str, list[tuple[float, float]]] = {
    "breast_cancer": [ranges[i] for i in range(3) for ranges in _BREAST_CANCER_RANGES.values()],
    "digits": [(0.0, 16.0)] * 64,  # grey levels, by the format
    "digits_classes": [(0.0, 16.0)] * 64,
    # Standardised by the publishers over all patients to columns of norm 1; a round range around what they published.
    "diabetes": [(-0.2, 0.2)] * 10,
}


def public_bounds(name: str) -> Floats:
    """Return the bounds of a bundled data set's features that are known without looking at an agent's records.

    Args:
        name: a key of LOADERS.

    Returns:
        (low, high) per feature, [d, 2].

    Raises:
        ConfigError: for any other name: bounds of your own data must come from you.
    """
    if name not in _PUBLIC_BOUNDS:
        raise ConfigError(
            f"No public bounds are known for {name!r}, only for {', '.join(sorted(_PUBLIC_BOUNDS))}. Give your own "
            "(low, high) per feature, from knowledge of the field and not from the data."
        )
    return np.array(_PUBLIC_BOUNDS[name])


def scale_features(features: Any, bounds: Any) -> Floats:
    """Clip every feature to public bounds and scale it to [-1, 1].

    Args:
        features: [..., d].
        bounds: (low, high) of all features, or of each, [d, 2]: knowledge from outside the data.

    Returns:
        The scaled features, [..., d].

    Raises:
        ConfigError: bounds of another shape, not finite, or with low >= high (the feature is named).
    """
    rows, limits = np.asarray(features, dtype=np.float64), np.asarray(bounds, dtype=np.float64)
    if limits.shape == (2,) and rows.ndim:
        limits = np.tile(limits, (rows.shape[-1], 1))
    if rows.ndim < 1 or limits.shape != (rows.shape[-1], 2):
        needed = rows.shape[-1] if rows.ndim else "d"
        raise ConfigError(
            f"bounds must be one (low, high), or one for each of {needed} features, shape [{needed}, 2]; got "
            f"{limits.shape}."
        )
    low, high = limits[:, 0], limits[:, 1]
    wrong = np.flatnonzero(~(np.isfinite(limits).all(axis=1) & (low < high)))
    if len(wrong):
        raise ConfigError(f"bounds need finite low < high; feature {wrong[0]} has {tuple(limits[wrong[0]].tolist())}.")
    scaled: Floats = 2.0 * (np.clip(rows, low, high) - low) / (high - low) - 1.0
    return scaled


def unit_norm(features: Any) -> Floats:
    """Scale every record to l2 norm 1, by its own norm only; a zero record stays zero.

    Args:
        features: [..., d].

    Returns:
        The normalised features, [..., d].
    """
    rows = np.asarray(features, dtype=np.float64)
    norms = vector_norm(rows, "l2")
    normalised: Floats = rows / np.where(norms > 0.0, norms, 1.0)[..., None]
    return normalised


def add_intercept(features: Any, *, keep_norm: bool = False) -> Floats:
    """Append a constant feature, so that a linear model need not pass through the origin.

    Args:
        features: [..., d].
        keep_norm: divide the longer records by sqrt(2): a record of norm 1 keeps norm 1, and none exceeds 1 that did
            not before.

    Returns:
        The longer features, [..., d + 1]; the last one is 1, or 1 / sqrt(2).
    """
    rows = np.asarray(features, dtype=np.float64)
    longer = np.concatenate([rows, np.ones((*rows.shape[:-1], 1))], axis=-1)
    return longer / np.sqrt(2.0) if keep_norm else longer
