"""Small classifiers as plain pytrees of arrays: a linear model, a perceptron with hidden layers, a convolutional network.

    linear   z = x W + b
    mlp      h_0 = x,  h_j = max(0, h_{j-1} W_j + b_j),  z = h_m W + b
    cnn      every hidden layer: 3x3 convolution with zero padding, max(0, .), maximum over 2x2 blocks;  z = h W + b

z are the logits of the classes. The loss of a record is the softmax cross-entropy ln sum_c exp(z_c) - z_label.

Weights start as N(0, 2 / fan_in), biases as 0 (He et al. 2015), drawn from a seed that is no data. The
functions use only operators and the namespace of the arrays they get, NumPy or JAX. A convolution is written as one
product with the nine shifted images: with different weights at every agent this runs faster than a grouped convolution.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from sottovoce.errors import ConfigError

Array = Any  # a NumPy or JAX array
KERNEL = 3  # width and height of a convolution
POOL = 2  # width and height of the blocks over which a maximum is taken


class Layer(NamedTuple):
    """One affine map."""

    weights: Array  # [inputs, outputs]
    bias: Array  # [outputs]


Parameters = tuple[Layer, ...]
Shapes = tuple[tuple[int, int], ...]  # (inputs, outputs) of every layer


class Network(NamedTuple):
    """A classifier: the sizes of its layers, how to draw its first parameters, and what it answers."""

    shapes: Callable[[tuple[int, ...], tuple[int, ...], int], Shapes]  # (record's shape, hidden, classes)
    start: Callable[[int, tuple[int, ...], tuple[int, ...], int], Parameters]  # (seed, record's shape, hidden, classes)
    logits: Callable[[Parameters, Array], Array]  # (parameters, records [B, ...]) -> [B, classes]
    default_hidden: tuple[int, ...]


def dense_shapes(shape: tuple[int, ...], hidden: tuple[int, ...], classes: int) -> Shapes:
    """(inputs, outputs) of the layers of `dense`; records of any shape are flattened."""
    return tuple(pairwise((math.prod(shape), *hidden, classes)))


def start_dense(seed: int, shape: tuple[int, ...], hidden: tuple[int, ...], classes: int) -> Parameters:
    """Draw the layers of `dense`."""
    generator = np.random.default_rng(seed)
    return tuple(_he(generator, *layer) for layer in dense_shapes(shape, hidden, classes))


def dense(parameters: Parameters, features: Array) -> Array:
    """The logits of affine maps with max(0, .) between them, [B, classes]."""
    values = features.reshape(features.shape[0], -1)
    for layer in parameters[:-1]:
        values = _positive_part(values @ layer.weights + layer.bias)
    return values @ parameters[-1].weights + parameters[-1].bias


def convolutional_shapes(shape: tuple[int, ...], hidden: tuple[int, ...], classes: int) -> Shapes:
    """(inputs, outputs) of the layers of `convolutional`.

    Raises:
        ConfigError: the records are no images [height, width] or [height, width, channels], or too small for the layers.
    """
    if len(shape) not in (2, 3):
        raise ConfigError(
            f"model='cnn' needs images: features [n_k, height, width] or [n_k, height, width, channels]; one record has "
            f"shape {shape}. Use reshape(-1, height, width), or model='mlp'."
        )
    height, width, channels = (*shape, 1)[:3]
    layers = []
    for outputs in hidden:
        layers.append((KERNEL * KERNEL * channels, outputs))
        height, width, channels = height // POOL, width // POOL, outputs
    if min(height, width) < 1:
        raise ConfigError(
            f"Images of {shape[0]} x {shape[1]} are halved by each of the {len(hidden)} hidden layers and nothing is left. "
            f"Give fewer hidden layers."
        )
    return (*layers, (height * width * channels, classes))


def start_convolutional(seed: int, shape: tuple[int, ...], hidden: tuple[int, ...], classes: int) -> Parameters:
    """Draw the layers of `convolutional`; refuses what `convolutional_shapes` does."""
    generator = np.random.default_rng(seed)
    return tuple(_he(generator, *layer) for layer in convolutional_shapes(shape, hidden, classes))


def convolutional(parameters: Parameters, features: Array) -> Array:
    """The logits of the convolutional network for images [B, height, width] or [B, height, width, channels]."""
    values = features[..., None] if features.ndim == 3 else features
    for layer in parameters[:-1]:
        values = _block_maximum(_positive_part(_neighbourhoods(values) @ layer.weights + layer.bias))
    return values.reshape(values.shape[0], -1) @ parameters[-1].weights + parameters[-1].bias


def cross_entropy(logits: Array, labels: Array) -> Array:
    """The softmax cross-entropy of every record, [B]."""
    xp = logits.__array_namespace__()
    shifted = logits - xp.max(logits, axis=-1, keepdims=True)
    chosen = labels[:, None] == xp.arange(logits.shape[-1])
    return xp.log(xp.sum(xp.exp(shifted), axis=-1)) - xp.sum(xp.where(chosen, shifted, 0.0), axis=-1)


def hit_rate(logits: Array, labels: Array) -> Array:
    """The fraction of records whose largest logit is that of their label; of equal ones the first counts."""
    xp = logits.__array_namespace__()
    return xp.mean(xp.astype(xp.argmax(logits, axis=-1) == labels, logits.dtype))


def _he(generator: np.random.Generator, inputs: int, outputs: int) -> Layer:
    return Layer(generator.standard_normal((inputs, outputs)) * np.sqrt(2.0 / inputs), np.zeros(outputs))


def _positive_part(values: Array) -> Array:
    # Its derivative at 0 is 0; that of maximum(values, 0) would be 1/2 in JAX. Not-a-number stays what it is.
    return values * (values > 0)


def _neighbourhoods(images: Array) -> Array:
    """The 3x3 neighbourhood of every pixel, zero outside: [B, height, width, 9 channels]."""
    xp = images.__array_namespace__()
    height, width, reach = images.shape[1], images.shape[2], KERNEL // 2
    padded = xp.pad(images, ((0, 0), (reach, reach), (reach, reach), (0, 0)))
    shifted = [padded[:, i : i + height, j : j + width] for i in range(KERNEL) for j in range(KERNEL)]
    return xp.concatenate(shifted, axis=-1)


def _block_maximum(images: Array) -> Array:
    """The maximum over 2x2 blocks; an odd last row or column is dropped."""
    count, height, width, channels = images.shape[0], images.shape[1] // POOL, images.shape[2] // POOL, images.shape[3]
    cropped = images[:, : height * POOL, : width * POOL]
    return cropped.reshape(count, height, POOL, width, POOL, channels).max(axis=(2, 4))


NETWORKS: dict[str, Network] = {
    "linear": Network(dense_shapes, start_dense, dense, ()),
    "mlp": Network(dense_shapes, start_dense, dense, (32,)),
    "cnn": Network(convolutional_shapes, start_convolutional, convolutional, (8, 16)),
}
