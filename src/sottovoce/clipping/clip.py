"""Clipping: scale a vector into a norm ball, so that a sensitivity is true whatever the data.

    clip_vector:  g <- g min(1, C / ||g||)
    clip_scalar:  a <- sign(a) min(|a|, C / ||x||),   which clips the gradient g = a x of a generalised linear model

For a generalised linear model the two agree, because ||a x|| = |a| ||x||. The scalar form has a second virtue: with a =
l'(x.w) of a convex, smooth loss l, the clipped derivative is still non-decreasing and no steeper, so it is the
derivative of a convex loss that is as smooth as l. This holds in any norm. Scaling a general vector keeps it only in
l2, where it is the projection onto the ball.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from sottovoce.errors import ConfigError
from sottovoce.numbers import is_number

Norm = Literal["l1", "l2"]
Array = Any  # a NumPy or JAX array: whatever has __array_namespace__

_LARGEST_BOUND = 1e38


@dataclass(frozen=True, slots=True)
class Clip:
    """The bound C and the norm in which each record's gradient is clipped.

    Attributes:
        bound: the largest norm C, positive and finite.
        norm: "l1" or "l2".
    """

    bound: float
    norm: Norm

    def __post_init__(self) -> None:
        """Refuse a bound that bounds nothing and a norm we do not know."""
        if not is_number(self.bound, "(0, inf)"):
            raise ConfigError(
                f"A clip bound must be a positive, finite number; got {self.bound!r}. Give e.g. clip=1.0."
            )
        # A Python float stays weakly typed: it never widens a float32 gradient.
        object.__setattr__(self, "bound", float(self.bound))
        check_norm(self.norm)


def check_norm(norm: str) -> None:
    """Refuse any norm but "l1" and "l2"."""
    if norm not in get_args(Norm):
        raise ConfigError(
            f"Unknown norm {norm!r}; needed is 'l1' (for Laplace noise) or 'l2' (for Gaussian and L2Laplace noise)."
        )


def vector_norm(vectors: Array, norm: Norm) -> Array:
    """Return the norm along the last axis, without overflow or underflow on the way.

    Args:
        vectors: [..., d].
        norm: "l1" or "l2".

    Returns:
        The norms, [...].
    """
    xp = vectors.__array_namespace__()
    magnitudes = xp.abs(vectors)
    if norm == "l1":
        return xp.sum(magnitudes, axis=-1)
    # Squares of numbers beyond 1e154 overflow and below 1e-154 vanish: a vanished norm would leave a record unclipped.
    largest = xp.max(magnitudes, axis=-1)
    divisor = xp.where(largest > 0, largest, xp.ones_like(largest))
    ratios = magnitudes / divisor[..., None]
    return largest * xp.sqrt(xp.sum(ratios * ratios, axis=-1))


def clip_vector(vector: Array, clip: Clip) -> Array:
    """Scale each vector along the last axis into the ball of norm C; a vector inside is returned unchanged.

    Args:
        vector: [..., d].
        clip: the bound and its norm.

    Returns:
        vector * min(1, C / ||vector||), [..., d].
    """
    xp = vector.__array_namespace__()
    norms = vector_norm(vector, clip.norm)
    # Dividing by max(||g||, C) instead of ||g|| makes the zero vector safe and the factor exactly 1 inside the ball.
    return vector * _whole_digits(xp, clip.bound / xp.maximum(norms, xp.full_like(norms, clip.bound)))[..., None]


def _whole_digits(xp: Any, factors: Array) -> Array:
    """Factors, with 0 for those too small to have all their digits: rounded up, they would leave a huge vector outside of the ball."""
    return xp.where(factors < xp.finfo(factors.dtype).smallest_normal, xp.zeros_like(factors), factors)


def largest_derivative(features: Array, clip: Clip) -> Array:
    """Return C / ||x||, the largest |a| for which the gradient a x is inside the ball.

    A zero feature vector has a zero gradient whatever a is; its bound is 1e38, as is every bound that would exceed it,
    so that bounds computed in float64 stay finite in float32.

    Args:
        features: [..., d].
        clip: the bound and its norm.

    Returns:
        The bounds on the scalar derivative, [...].
    """
    xp = features.__array_namespace__()
    norms = vector_norm(features, clip.norm)
    long_enough = norms > clip.bound / _LARGEST_BOUND
    bounds = _whole_digits(xp, clip.bound / xp.where(long_enough, norms, xp.ones_like(norms)))
    return xp.where(long_enough, bounds, xp.full_like(norms, _LARGEST_BOUND))


def clip_scalar(derivative: Array, features: Array, clip: Clip) -> Array:
    """Clip the gradients a x of a generalised linear model through their scalar a.

    Args:
        derivative: a, the derivative of the loss with respect to x.w, [...].
        features: x, [..., d].
        clip: the bound and its norm.

    Returns:
        sign(a) min(|a|, C / ||x||), [...]: times x it equals clip_vector(a x, clip).
    """
    return clip_to(derivative, largest_derivative(features, clip))


def clip_to(derivative: Array, bounds: Array) -> Array:
    """Clip scalar derivatives to bounds computed once by `largest_derivative`, for data that do not change."""
    xp = derivative.__array_namespace__()
    return xp.minimum(xp.maximum(derivative, -bounds), bounds)
