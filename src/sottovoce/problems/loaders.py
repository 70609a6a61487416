"""Real data sets, and scalings that look at no other record.

    scale_features:  x_j <- 2 (clip(x_j, low_j, high_j) - low_j) / (high_j - low_j) - 1,   bounds given, never fitted
    unit_norm:       x <- x / ||x||_2

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

BREAST_CANCER_BOUNDS: Floats = np.array(
    [ranges[i] for i in range(3) for ranges in _BREAST_CANCER_RANGES.values()]
)  # [30, 2]
BREAST_CANCER_BOUNDS.setflags(write=False)


def _breast_cancer() -> tuple[Floats, Floats]:
    try:
        from sklearn.datasets import load_breast_cancer
    except ImportError as error:
        raise ConfigError(
            "The data set 'breast_cancer' comes with scikit-learn, which is not installed. Install it by: pip install "
            "'sottovoce[data]'."
        ) from error
    features, labels = load_breast_cancer(return_X_y=True)
    return np.asarray(features, dtype=np.float64), 2.0 * np.asarray(labels, dtype=np.float64) - 1.0


LOADERS = {"breast_cancer": _breast_cancer}


def load(name: str) -> tuple[Floats, Floats]:
    """Load a data set by name, unscaled.

    "breast_cancer": 569 records, 30 features (bounds: BREAST_CANCER_BOUNDS), label 1 benign (357), -1 malignant (212).

    Args:
        name: a key of LOADERS.

    Returns:
        (features [N, d], labels [N] in {-1, 1}).

    Raises:
        ConfigError: an unknown name, or a missing optional package.
    """
    if name not in LOADERS:
        raise ConfigError(f"Unknown data set {name!r}; known are {', '.join(map(repr, sorted(LOADERS)))}.")
    return LOADERS[name]()


def scale_features(features: Any, bounds: Any) -> Floats:
    """Clip every feature to public bounds and scale it to [-1, 1].

    Args:
        features: [..., d].
        bounds: (low, high) per feature, [d, 2]: knowledge from outside the data.

    Returns:
        The scaled features, [..., d].

    Raises:
        ConfigError: bounds of another shape, not finite, or with low >= high (the feature is named).
    """
    rows, limits = np.asarray(features, dtype=np.float64), np.asarray(bounds, dtype=np.float64)
    if rows.ndim < 1 or limits.shape != (rows.shape[-1], 2):
        needed = rows.shape[-1] if rows.ndim else "d"
        raise ConfigError(
            f"bounds must hold (low, high) for each of {needed} features, shape [{needed}, 2]; got {limits.shape}."
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
