"""Arrays at the border of an attack: finite numbers of the expected shape, checked once."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sottovoce.errors import ConfigError

Floats = NDArray[np.float64]


def finite(name: str, values: ArrayLike, *, axes: int) -> Floats:
    """Return `values` as float64 if they are finite numbers with this many axes, none of them empty.

    Raises:
        ConfigError: booleans or other non-numbers, another number of axes, an empty axis, NaN or infinity.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "fiu" or array.ndim != axes or array.size == 0 or not np.isfinite(array).all():
        raise ConfigError(
            f"{name}: type {array.dtype} and shape {array.shape} were given, or numbers that are not finite; needed "
            f"are finite numbers with {axes} axes, none of them empty."
        )
    return array.astype(np.float64)


def same_shape(name: str, values: Floats, other_name: str, other: Floats) -> None:
    """Refuse two arrays that do not belong together.

    Raises:
        ConfigError: the shapes differ.
    """
    if values.shape != other.shape:
        raise ConfigError(
            f"{name} have shape {values.shape} and {other_name} {other.shape}; give one for each of the other."
        )
