"""Clipping of gradients, l1 and l2: what makes a sensitivity true."""

from sottovoce.clipping.clip import (
    Clip,
    Norm,
    check_norm,
    clip_scalar,
    clip_to,
    clip_vector,
    largest_derivative,
    vector_norm,
)

__all__ = ["Clip", "Norm", "check_norm", "clip_scalar", "clip_to", "clip_vector", "largest_derivative", "vector_norm"]


def __dir__() -> list[str]:
    return [*__all__]
