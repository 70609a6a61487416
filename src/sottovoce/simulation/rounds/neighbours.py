"""Padded neighbour lists: the sparse structure a compiled round walks over.

Row k lists who is added up at receiver k, padded to a common width. When degrees are uneven, receivers are grouped by width (the next
power of two), so that one hub does not pad everybody. Sums over a row are unrolled while narrow, looped when wide.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

Array = Any
UNROLL = 32  # widest row that is unrolled; wider ones loop, to keep compile time flat
MAX_PADDING = 2.0  # a single group is used while it stores at most this many times the real entries


class Group(NamedTuple):
    """Receivers of similar in-degree, with their entries side by side."""

    rows: np.ndarray  # [G] receivers
    entry: np.ndarray  # [G, J] position of the entry in the list it was built from; 0 where padded
    source: np.ndarray  # [G, J] what is read; the receiver's own position where padded
    present: np.ndarray  # [G, J] 1.0, or 0.0 where padded


def group_by_width(receivers: np.ndarray, sources: np.ndarray, num_receivers: int) -> tuple[Group, ...]:
    """Arrange entries (receiver, source) into padded groups that together cover every receiver once."""
    counts = np.bincount(receivers, minlength=num_receivers)
    order = np.argsort(receivers, kind="stable")
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    if counts.max(initial=0) * num_receivers <= MAX_PADDING * max(len(receivers), num_receivers):
        widths = np.full(num_receivers, counts.max(initial=0))
    else:
        widths = np.where(counts > 0, 2 ** np.ceil(np.log2(np.maximum(counts, 1))).astype(int), 0)
    groups = []
    for width in np.unique(widths):
        rows = np.flatnonzero(widths == width)
        slot = np.arange(width)
        present = slot < counts[rows, None]
        position = np.where(present, starts[rows, None] + slot, 0)
        entry = order[position] if len(order) else np.zeros_like(position)
        source = np.where(present, sources[entry] if len(order) else 0, rows[:, None])
        groups.append(
            Group(rows, np.where(present, entry, 0).astype(np.int32), source.astype(np.int32), present.astype(float))
        )
    return tuple(groups)


def assemble(groups: tuple[Group, ...], parts: list[Array]) -> Array:
    """Put per-group results [G, ...] back in the order of the receivers, [K, ...]."""
    if len(groups) == 1:
        return parts[0]
    inverse = np.argsort(np.concatenate([group.rows for group in groups]), kind="stable")
    return jnp.take(jnp.concatenate(parts), inverse, axis=0)


def expand(values: Array, ndim: int) -> Array:
    """View [G] or [G, R] coefficients against an array [G, d, ..., R] of `ndim` dimensions."""
    if values.ndim == 1:
        return values.reshape(values.shape + (1,) * (ndim - 1))
    return values.reshape(values.shape[:1] + (1,) * (ndim - 2) + values.shape[1:])


def sum_over_row(width: int, term: Any, start: Array) -> Array:
    """Add start + term(0) + ... + term(width - 1), unrolled when narrow."""
    if width <= UNROLL:
        for slot in range(width):
            start = start + term(slot)
        return start
    return jax.lax.fori_loop(0, width, lambda slot, total: total + term(slot), start)


def column(values: Array, slot: Any) -> Array:
    """Column `slot` of a [G, J, ...] array, for a slot known now or inside a loop."""
    return values[:, slot] if isinstance(slot, int) else jax.lax.dynamic_index_in_dim(values, slot, 1, keepdims=False)


def weighted_sum(
    groups: tuple[Group, ...], arrays: list[dict[str, Array]], values: Array, initial: Array | None
) -> Array:
    """For every receiver: initial + sum over its entries of weight * values[source].

    Args:
        groups: the structure.
        arrays: for each group "source" [G, J] and "weight" [G, J] or [G, J, R].
        values: [N, d, ..., R] what the sources hold.
        initial: [K, d, ..., R] or None for zero.
    """
    parts = []
    for group, held in zip(groups, arrays, strict=True):

        def term(slot: Any, held: dict[str, Array] = held) -> Array:
            weight = expand(column(held["weight"], slot), values.ndim)
            return weight * jnp.take(values, column(held["source"], slot), axis=0, mode="clip")

        if initial is None:
            start = jnp.zeros((len(group.rows), *values.shape[1:]), values.dtype)
        else:
            start = initial if len(groups) == 1 else jnp.take(initial, group.rows, axis=0)
        parts.append(sum_over_row(group.entry.shape[1], term, start))
    return assemble(groups, parts)
