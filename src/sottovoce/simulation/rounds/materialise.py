"""A boundary that compiled computations do not cross."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Array = Any
SHORT_ROW = 32


def materialise(really: Array, compute: Callable[[], Any]) -> Any:
    """Compute into memory before anyone reads it.

    Without this XLA repeats the computation at each of its readers: noise and messages would be recomputed for every neighbour that
    gathers them. A branch on a value unknown at compile time is a boundary that fusion does not cross. Arrays with short rows are
    computed flat, since the compiler vectorises along the last axes.
    """
    shapes = jax.eval_shape(compute)

    def flatten(value: Array, shape: Any) -> Array:
        return value.reshape(-1) if _short_rows(shape) else value

    def computed() -> Any:
        return jax.tree.map(flatten, compute(), shapes)

    def nothing() -> Any:
        return jax.tree.map(lambda s: flatten(jnp.zeros(s.shape, s.dtype), s), shapes)

    return jax.tree.map(lambda value, s: value.reshape(s.shape), jax.lax.cond(really, computed, nothing), shapes)


def _short_rows(shape: Any) -> bool:
    return len(shape.shape) > 1 and int(np.prod(shape.shape[1:])) <= SHORT_ROW < shape.shape[0]
