"""Numbers that describe how curved the losses are: what step sizes, theory and guarantees rest on.

For all models w and v,

    beta-smooth:          ||grad J(w) - grad J(v)|| <= beta ||w - v||
    nu-strongly convex:   (grad J(w) - grad J(v)).(w - v) >= nu ||w - v||^2
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError
from sottovoce.numbers import is_number
from sottovoce.reprs import short_repr

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """Smoothness and strong convexity of the (unclipped) risks; "global" is the uniform average of the agents' risks.

    Attributes:
        local_smoothness: of each agent's risk, [K].
        local_strong_convexity: of each agent's risk, [K].
        smoothness: of the global risk.
        strong_convexity: of the global risk; 0 when its minimiser is not unique.
        record_smoothness: the largest of any single record's loss, ridge included; every possible batch loss satisfies
            it.
    """

    local_smoothness: Floats
    local_strong_convexity: Floats
    smoothness: float
    strong_convexity: float
    record_smoothness: float

    def __repr__(self) -> str:
        return short_repr(self)


@dataclass(frozen=True, slots=True)
class ConvexSmooth:
    """The promise that every local loss, full or batch, is convex, beta-smooth and nu-strongly convex.

    Attributes:
        beta: smoothness, positive.
        nu: strong convexity, 0 <= nu <= beta.
    """

    beta: float
    nu: float = 0.0

    def __post_init__(self) -> None:
        """Refuse numbers that no convex smooth loss can have."""
        if not is_number(self.beta, "(0, inf)"):
            raise ConfigError(f"ConvexSmooth needs a positive, finite smoothness; got beta={self.beta!r}.")
        if not is_number(self.nu) or not 0.0 <= self.nu <= self.beta:
            raise ConfigError(f"ConvexSmooth needs 0 <= nu <= beta; got nu={self.nu!r}, beta={self.beta!r}.")


@dataclass(frozen=True, kw_only=True, eq=False)
class QuadraticRecords:
    """The affine gradients of quadratic losses, computed when first asked for.

    Agent k's full gradient is hessian_k w - offset_k; the gradient of its record i is T_i [w; 1], ridge included.

    Attributes:
        statistics: returns (hessian [K, d, d], offset [K, d]).
        record_maps: agent -> [n_k, d, d + 1], the maps T_i.
    """

    statistics: Callable[[], tuple[Floats, Floats]]
    record_maps: Callable[[int], Floats]

    def __repr__(self) -> str:
        return short_repr(self)

    @cached_property
    def _statistics(self) -> tuple[Floats, Floats]:
        return self.statistics()

    @property
    def hessian(self) -> Floats:
        """The Hessians of the agents' risks, [K, d, d]."""
        return self._statistics[0]

    @property
    def offset(self) -> Floats:
        """The gradients at zero with opposite sign, [K, d]."""
        return self._statistics[1]


def gram_extremes(rows: Floats, row_weights: Floats) -> tuple[float, float]:
    """Return the largest and smallest eigenvalue of sum_i weight_i x_i x_i'.

    Args:
        rows: [n, d].
        row_weights: non-negative, [n].

    Returns:
        (largest, smallest); an eigenvalue within rounding of zero is reported as 0, never as a curvature that is not
        there.
    """
    scaled = rows * np.sqrt(row_weights)[:, None]
    num_rows, dimension = scaled.shape
    gram = scaled @ scaled.T if num_rows < dimension else scaled.T @ scaled
    eigenvalues = np.linalg.eigvalsh(gram)
    largest = max(float(eigenvalues[-1]), 0.0)
    smallest = 0.0 if num_rows < dimension else float(eigenvalues[0])
    rounding = largest * max(num_rows, dimension) * float(np.finfo(np.float64).eps)
    return largest, smallest if smallest > rounding else 0.0
