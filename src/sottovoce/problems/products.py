"""Products of a small batch with a model, written so that compilers fuse them.

Mapped over agents, schemes and repeats, a sum over two features or one record becomes a reduction over a tiny axis, which XLA runs
several times slower than the same sum written out. Short axes are therefore written out; long ones are summed as usual.
"""

from typing import Any

Array = Any
SHORT = 8


def batch_margins(features: Array, model: Array) -> Array:
    """Features [B, d] times model [d]: [B]."""
    if features.shape[1] > SHORT:
        return (features * model).sum(-1)
    total = features[:, 0] * model[0]
    for j in range(1, features.shape[1]):
        total = total + features[:, j] * model[j]
    return total


def batch_sum(coefficients: Array, features: Array) -> Array:
    """The sum over the batch of coefficient [B] times features [B, d]: [d]."""
    count = features.shape[0]
    if count > SHORT:
        return (coefficients[:, None] * features).sum(0)
    total = coefficients[0] * features[0]
    for b in range(1, count):
        total = total + coefficients[b] * features[b]
    return total


def batch_average(coefficients: Array, features: Array) -> Array:
    """The average over the batch of coefficient [B] times features [B, d]: [d]."""
    return batch_sum(coefficients, features) / features.shape[0]
