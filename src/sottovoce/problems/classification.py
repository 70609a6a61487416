"""Classification into C classes by softmax cross-entropy: linear, with hidden layers, or convolutional.

    J_k(w) = (1/n_k) sum_i [ln sum_c exp(z_c(x_i; w)) - z_{y_i}(x_i; w)] + (ridge/2) ||w||^2,   y_i in {0, .., C-1}

The networks z are in networks.py; gradients, clipping and sensitivity are those of any custom loss.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError
from sottovoce.numbers import whole
from sottovoce.problems.custom_loss import CustomLoss, custom_loss
from sottovoce.problems.networks import NETWORKS, Network, Parameters, cross_entropy, hit_rate
from sottovoce.problems.records import pad_records
from sottovoce.resources import refuse_too_large

Array = Any
Model = Literal["linear", "mlp", "cnn"]
PARAMETER_BYTES = 24  # of one parameter while a model is made: drawn, kept and flattened, eight bytes each


def classification(
    features: Any,
    labels: Any,
    *,
    model: Model = "mlp",
    hidden: int | Iterable[int] | None = None,
    classes: int | None = None,
    seed: int = 0,
    ridge: float = 0.0,
) -> CustomLoss:
    """Softmax cross-entropy of a small network on records split over agents.

    Args:
        features: [K, n, ...], or a list of K arrays [n_k, ...]; images [n_k, height, width] (or with channels) for "cnn".
            Scale them to about one.
        labels: whole numbers 0..C-1, [K, n], or a list of K arrays [n_k].
        model: "linear", "mlp" (hidden layers) or "cnn" (3x3 convolutions, each followed by a maximum over 2x2 blocks).
        hidden: widths of the hidden layers (channels of the convolutions); None is (32,) for "mlp", (8, 16) for "cnn".
        classes: C; None is the largest label plus one, which is then no secret.
        seed: of the first parameters, in which all agents start.
        ridge: non-negative weight of ||w||^2 / 2, biases included.

    Returns:
        The problem, not clipped; `problem.parameters(model)` gives the layers of a model.

    Raises:
        ConfigError: malformed data (the agent and record are named), or an unknown model.
    """
    if model not in NETWORKS:
        raise ConfigError(f"model = {model!r} is unknown; choose one of {', '.join(map(repr, NETWORKS))}.")
    network = NETWORKS[model]
    checked, sizes = pad_records(features, name="features")
    named, count = _whole_labels(labels, sizes, classes)
    widths = _widths(model, network, hidden)
    _refuse_large(model, checked.shape[2:], widths, count)
    start = network.start(whole("seed", seed, least=0), checked.shape[2:], widths, count)

    def loss(parameters: Parameters, batch: tuple[Array, ...]) -> Array:
        return cross_entropy(network.logits(parameters, batch[0]), batch[1]).mean()

    def accuracy(parameters: Parameters, features: Array, labels: Array) -> Array:
        return hit_rate(network.logits(parameters, features), labels)

    rows = [x[:n].astype(np.float64) for x, n in zip(checked, sizes, strict=True)]
    made = custom_loss(loss, start, rows, named, ridge=ridge, accuracy=accuracy)
    return replace(
        made,
        kind="classification",
        label_sets=(tuple(float(c) for c in range(count)),),
        details={
            "model": model,
            "hidden": list(widths),
            "classes": count,
            "shape": [int(length) for length in checked.shape[2:]],
            "seed": int(seed),
        },
    )


def _whole_labels(labels: Any, sizes: NDArray[np.int64], classes: int | None) -> tuple[list[NDArray[np.int64]], int]:
    """The labels of each agent as whole numbers, and the number of classes."""
    padded, _ = pad_records(labels, sizes, name="labels")
    if padded.ndim != 2:
        raise ConfigError(
            f"labels of an agent must be a vector [n_k]; got records of shape {padded.shape[2:]}. Use ravel()."
        )
    count = int(padded.max()) + 1 if classes is None else whole("classes", classes, least=2)
    wrong = np.argwhere((padded != np.floor(padded)) | (padded < 0) | (padded >= count))
    if len(wrong):
        k, i = (int(index) for index in wrong[0])
        raise ConfigError(
            f"labels must be whole numbers from 0 to {count - 1}; agent {k}, record {i} has {padded[k, i]:g}. Number your "
            f"classes from 0."
        )
    if count < 2:
        raise ConfigError(
            "Every label is 0; a classifier needs at least two classes. Give classes= if others may come."
        )
    return [own[:n].astype(np.int64) for own, n in zip(padded, sizes, strict=True)], count


def _refuse_large(model: str, shape: tuple[int, ...], widths: tuple[int, ...], classes: int) -> None:
    """Refuse a network whose parameters do not fit into memory."""
    layers = [math.prod(shape), *widths, classes]
    parameters = sum(first * second for first, second in pairwise(layers))
    refuse_too_large(
        f"a model '{model}' with {parameters:,} parameters, {classes:,} classes among them,",
        PARAMETER_BYTES * parameters,
        "Lower classes or hidden.",
    )


def _widths(model: str, network: Network, hidden: Any) -> tuple[int, ...]:
    if hidden is None:
        return network.default_hidden
    if model == "linear":
        raise ConfigError(
            f"hidden = {hidden!r}, but model='linear' has no hidden layers. Leave it out, or use model='mlp'."
        )
    given = tuple(hidden) if isinstance(hidden, Iterable) and not isinstance(hidden, str) else (hidden,)
    if not given:
        raise ConfigError(f"hidden is empty, but model={model!r} has at least one hidden layer. Use model='linear'.")
    return tuple(whole("hidden", width) for width in given)
