"""A training image rebuilt from one gradient of a network.

Look for the image whose gradient points where the observed one does (Geiping et al. 2020, "Inverting Gradients"):

    minimise over x in [0, 1]^shape    1 - cos(grad loss(w; x, label), observed) + total_variation TV(x)

with TV the mean absolute difference of neighbouring pixels, by Adam with a step that falls as a half cosine and
projection on [0, 1], from several random starts; the start with the smallest objective counts. Geiping et al. take the
sign of the gradient before Adam; here Adam gets the gradient itself. The objective is not convex and, with max(0, .)
and block maxima, not smooth: a start may stop at another pattern of active units.

The label need not be searched: of one record, the gradient of the last bias is softmax - one-hot, negative at the label
only. And a first layer with a bias gives its input away without any search: its gradient is the outer product of the
input and the bias gradient (`dense_input`).

Pixels are numbers in [0, 1]. The gradient must be that of one record.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy import ndimage

from sottovoce.attacks.arrays import Floats, finite, same_shape
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.numbers import checked, whole
from sottovoce.problems import CustomLoss

Array = Any
LEARNING_RATE = 0.1  # of Adam, for pixels in [0, 1]
_TINY = 1e-12  # keeps a norm differentiable at zero
_WINDOW = 7  # width of the windows of the structural similarity (Wang et al. 2004), uniform weights


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReconstructedImage:
    """What the search found.

    Attributes:
        image: of the record's shape, pixels in [0, 1].
        label: given or inferred.
        objective: its value at the image.
        objectives: [restarts] where every start ended.
    """

    image: Floats
    label: int
    objective: float
    objectives: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """How close an image is to the true one.

    Attributes:
        cosine: of the two as vectors.
        psnr: peak signal-to-noise ratio in dB, for a peak of 1; infinite when they are equal.
        ssim: structural similarity, at most 1.
    """

    cosine: float
    psnr: float
    ssim: float


def match_gradient(
    gradient: ArrayLike,
    model: ArrayLike,
    problem: CustomLoss,
    *,
    label: int | None = None,
    restarts: int = 8,
    steps: int = 600,
    total_variation: float = 1e-3,
    seed: int = 0,
) -> ReconstructedImage:
    """Rebuild the record of a one-record gradient.

    Args:
        gradient: [d] as recovered, noise and all; with the ridge's part.
        model: [d] where it was taken.
        problem: the public loss, from `sv.problems.classification`; its data are not used.
        label: the record's class; None infers it from the last bias.
        restarts: random starts, side by side.
        steps: of Adam.
        total_variation: weight of the smoothness of the image.
        seed: of the starts.

    Raises:
        IncompatibleChoice: another kind of problem.
    """
    data_part, w = _data_part(gradient, model, problem)
    chosen_label = infer_label(gradient, model, problem) if label is None else whole("label", label, least=0)
    if chosen_label >= problem.details["classes"]:
        raise ConfigError(f"label = {label}; the classes are 0 to {problem.details['classes'] - 1}.")
    weight = checked("total_variation", total_variation, "[0, inf)")
    count, length, shape = whole("restarts", restarts), whole("steps", steps), problem.arrays["features"].shape[2:]
    with jax.enable_x64(False):
        keys = jax.random.split(jax.random.key(whole("seed", seed, least=0)), count)
        images, objectives = _search(
            keys,
            jnp.asarray(data_part, jnp.float32),
            jnp.asarray(w, jnp.float32),
            jnp.asarray(chosen_label),
            weight,
            problem=problem,
            shape=shape,
            steps=length,
        )
    ends = np.asarray(objectives, dtype=np.float64)
    best = int(ends.argmin())
    return ReconstructedImage(
        image=np.asarray(images[best], dtype=np.float64),
        label=chosen_label,
        objective=float(ends[best]),
        objectives=ends,
    )


def infer_label(gradient: ArrayLike, model: ArrayLike, problem: CustomLoss) -> int:
    """The class of the record behind a one-record gradient: the last bias gradient is softmax - one-hot."""
    data_part, _ = _data_part(gradient, model, problem)
    return int(np.argmin(problem.parameters(data_part)[-1].bias))


def dense_input(gradient: ArrayLike, model: ArrayLike, problem: CustomLoss) -> Floats:
    """The record behind a one-record gradient of a "linear" or "mlp" classifier, without any search.

    The first layer's gradients are G = x delta' and delta, so x = G delta / (delta'delta): exact without noise, least
    squares with noise on G.

    Raises:
        IncompatibleChoice: a convolutional network, or a record that no unit of the first layer reacts to.
    """
    data_part, _ = _data_part(gradient, model, problem)
    if problem.details["model"] == "cnn":
        raise IncompatibleChoice(
            "the first layer of 'cnn' shares its weights over places, so its input does not show. Use match_gradient."
        )
    first = problem.parameters(data_part)[0]
    size = float(first.bias @ first.bias)
    if size == 0.0:
        raise IncompatibleChoice("no unit of the first layer reacts to this record, so its gradient does not show it.")
    rebuilt: Floats = (first.weights @ first.bias / size).reshape(problem.arrays["features"].shape[2:])
    return rebuilt


def image_quality(image: ArrayLike, truth: ArrayLike) -> Quality:
    """Compare two images of pixels in [0, 1], at least 7 x 7.

    Raises:
        ConfigError: other shapes.
    """
    x, y = finite("image", image, axes=2), finite("truth", truth, axes=2)
    same_shape("image", x, "truth", y)
    if min(x.shape) < _WINDOW:
        raise ConfigError(
            f"images of {x.shape} were given; structural similarity needs at least {_WINDOW} x {_WINDOW} pixels."
        )
    error = float(((x - y) ** 2).mean())
    lengths = float(np.linalg.norm(x) * np.linalg.norm(y))
    return Quality(
        cosine=float((x * y).sum()) / lengths if lengths > 0.0 else 0.0,
        psnr=-10.0 * float(np.log10(error)) if error > 0.0 else float("inf"),
        ssim=_structural_similarity(x, y),
    )


def _structural_similarity(x: Floats, y: Floats) -> float:
    """Wang et al. 2004, averaged over the windows that lie inside; constants 0.01^2 and 0.03^2 for a range of 1."""
    inside = _WINDOW // 2
    unbiased = _WINDOW**2 / (_WINDOW**2 - 1.0)

    def mean(values: Floats) -> Floats:
        averaged: Floats = ndimage.uniform_filter(values, size=_WINDOW)
        return averaged[inside : values.shape[0] - inside, inside : values.shape[1] - inside]

    mx, my = mean(x), mean(y)
    vx, vy, vxy = (unbiased * (mean(a * b) - mean(a) * mean(b)) for a, b in ((x, x), (y, y), (x, y)))
    c1, c2 = 0.01**2, 0.03**2
    return float((((2 * mx * my + c1) * (2 * vxy + c2)) / ((mx**2 + my**2 + c1) * (vx + vy + c2))).mean())


def _data_part(gradient: ArrayLike, model: ArrayLike, problem: CustomLoss) -> tuple[Floats, Floats]:
    """The gradient without its ridge term, and the model."""
    if not isinstance(problem, CustomLoss) or problem.kind != "classification":
        raise IncompatibleChoice(
            f"images are rebuilt from gradients of sv.problems.classification; this is '{problem.kind}'. For linear "
            f"and logistic regression use feature_recovery."
        )
    g, w = finite("gradient", gradient, axes=1), finite("model", model, axes=1)
    same_shape("gradient", g, "model", w)
    if len(w) != problem.dimension:
        raise ConfigError(f"the model has {len(w)} parameters; the problem has {problem.dimension}.")
    return g - problem.ridge * w, w


@partial(jax.jit, static_argnames=("problem", "shape", "steps"))
def _search(
    keys: Array,
    target: Array,
    w: Array,
    label: Array,
    weight: Array,
    *,
    problem: CustomLoss,
    shape: tuple[int, ...],
    steps: int,
) -> tuple[Array, Array]:
    """Images [restarts, ...] and their objectives [restarts]."""

    def objective(image: Array) -> Array:
        def loss(model: Array) -> Array:
            return problem.loss(problem.parameters(model), (image[None], label[None]))

        g = jax.grad(loss)(w)
        cosine = jnp.vdot(g, target) / jnp.sqrt((jnp.vdot(g, g) + _TINY) * (jnp.vdot(target, target) + _TINY))
        return 1.0 - cosine + weight * _variation(image)

    def descend(key: Array) -> tuple[Array, Array]:
        def step(carry: tuple[Array, Array, Array], i: Array) -> tuple[tuple[Array, Array, Array], None]:
            x, mean, square = carry
            g = jax.grad(objective)(x)
            mean, square = 0.9 * mean + 0.1 * g, 0.999 * square + 0.001 * g * g
            direction = (mean / (1 - 0.9 ** (i + 1))) / (jnp.sqrt(square / (1 - 0.999 ** (i + 1))) + 1e-8)
            rate = 0.5 * LEARNING_RATE * (1 + jnp.cos(jnp.pi * i / steps))
            return (jnp.clip(x - rate * direction, 0.0, 1.0), mean, square), None

        start = jax.random.uniform(key, shape)
        (x, _, _), _ = jax.lax.scan(step, (start, jnp.zeros(shape), jnp.zeros(shape)), jnp.arange(steps))
        return x, objective(x)

    images, objectives = jax.vmap(descend)(keys)
    return images, objectives


def _variation(image: Array) -> Array:
    return jnp.abs(jnp.diff(image, axis=0)).mean() + jnp.abs(jnp.diff(image, axis=1)).mean()
