"""Columns within public ranges, scaled to [-1, 1]; a linear model of them is also one of the columns as they were given.

z_j = 2 (clip(x_j, low_j, high_j) - low_j) / (high_j - low_j) - 1
within the ranges   z.w + b = x.c + (b - sum_j w_j (high_j + low_j) / (high_j - low_j)),   c_j = 2 w_j / (high_j - low_j)
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError
from sottovoce.problems import scale_features
from sottovoce.wording import brief

Floats = NDArray[np.float64]


def ranges(bounds: Any, columns: int, names: NDArray[Any] | None) -> Floats:
    """[d, 2] the range of every column.

    Args:
        bounds: (low, high) for all columns, one of them for each, or a dict by column name.
        columns: d.
        names: of the columns; None for arrays.

    Raises:
        ConfigError: another shape, a column without a range or a range without a column (all are named), or low >= high.
    """
    if isinstance(bounds, Mapping):
        return _by_name(bounds, names)
    try:
        limits = np.asarray(bounds, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"bounds are no numbers ({brief(str(error))}). Give (low, high) for all columns, a list of them, or a dict by column name."
        ) from error
    scale_features(np.zeros((1, columns)), limits)  # refuses other shapes, and low >= high
    return np.tile(limits, (columns, 1)) if limits.shape == (2,) else limits


def _by_name(bounds: Mapping[Any, Any], names: NDArray[Any] | None) -> Floats:
    if names is None:
        raise ConfigError(
            "bounds are given by column name, but X is an array without names. Give X as a data frame, or bounds as a list."
        )
    without = [str(name) for name in names if name not in bounds]
    unknown = [str(name) for name in bounds if name not in set(names)]
    if without or unknown:
        said = [f"no range for {', '.join(map(brief, without))}"] if without else []
        said += [f"no column {', '.join(map(brief, unknown))}"] if unknown else []
        raise ConfigError(f"bounds: {'; '.join(said)}. Give one (low, high) for every column that is a feature.")
    return ranges([bounds[name] for name in names], len(names), names)


def in_given_columns(weights: Floats, intercepts: Floats, limits: Floats) -> tuple[Floats, Floats]:
    """Weights [c, d] and intercepts [c] of the scaled columns, as those of the columns that were given."""
    low, high = limits[:, 0], limits[:, 1]
    return 2.0 * weights / (high - low), intercepts - weights @ ((high + low) / (high - low))
