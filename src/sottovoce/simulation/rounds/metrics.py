"""What is measured after every round, per repeat.

    msd_centroid    ||w_c - w*||^2,     w_c = sum_k q_k w_k the Perron-weighted centroid, w* the minimiser of the uniform risk
    msd_average     mean_k ||w_k - w*||^2
    disagreement    mean_k ||w_k - w_c||^2
    loss            uniform average of the agents' risks at the centroid
    accuracy        of the centroid, on the test records when given, else on all training records (classification only)

On a walk the token takes the place of the centroid.

And only when asked for, because every agent's model is evaluated: accuracy_average over the agents and accuracy_worst of the worst.
"models" is no metric: it keeps every agent's model of every round.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sottovoce.errors import ConfigError, UnsupportedClaim

Array = Any
ALWAYS = ("msd_centroid", "msd_average", "disagreement", "loss", "accuracy")
ON_REQUEST = ("accuracy_average", "accuracy_worst")
NEEDS_OPTIMUM = ("msd_centroid", "msd_average")
NEEDS_LABELS = ("accuracy", *ON_REQUEST)
MODELS = "models"


class Measured(NamedTuple):
    """What is measured after every round."""

    names: tuple[str, ...]
    test: tuple[np.ndarray, np.ndarray] | None  # (features, labels) for accuracies; None where none is measured
    models: bool = False  # whether every agent's model of every round is kept

    def arrays(self, problem: Any) -> dict[str, Any]:
        """What the metrics are computed from, beside the problem's data."""
        optimum = {"optimum": problem.optimum} if set(NEEDS_OPTIMUM) & set(self.names) else {}
        return optimum if self.test is None else optimum | {"test_features": self.test[0], "test_labels": self.test[1]}


NOTHING = Measured((), None)


def choose_metrics(record: Any, problem: Any) -> tuple[str, ...]:
    """The metrics of a run: those asked for, or all that the problem has at no great cost."""
    available = _without(ALWAYS + ON_REQUEST, () if problem.has_accuracy else NEEDS_LABELS)
    if record is None or keeps_models(record, alone=True):
        return _without(available, ON_REQUEST if _has_optimum(problem) else ON_REQUEST + NEEDS_OPTIMUM)
    if isinstance(record, str):
        raise ConfigError(f"record = {record!r}; give a list of names, such as [{record!r}].")
    unknown = _without(record, (*available, MODELS))
    if unknown:
        raise ConfigError(
            f"record = {list(record)}: {unknown[0]!r} is not a metric of this problem. Choose from {', '.join(available)}, or '{MODELS}' for every "
            f"agent's model of every round."
        )
    return tuple(name for name in available if name in record)


def keeps_models(record: Any, *, alone: bool = False) -> bool:
    """Whether every agent's model of every round is to be kept; `alone`: and no metric is named beside it."""
    if record is None or isinstance(record, str) or MODELS not in record:
        return False
    return not alone or all(name == MODELS for name in record)


def _without(names: Sequence[str], left_out: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in left_out)


def _has_optimum(problem: Any) -> bool:
    try:
        problem.optimum  # noqa: B018
    except UnsupportedClaim:
        return False  # separable classes without ridge, for instance: there is no minimiser to measure a distance to
    return True


def measure(
    names: tuple[str, ...], problem: Any, arrays: dict[str, Any], models: Array, token: Array | None = None
) -> Array:
    """The metrics of models [K, d, S, R]: [len(names), S, R]; where a token [d, S, R] walks, it stands for the centroid."""
    values: dict[str, Array] = {}
    centroid = _weighted_sum(arrays["perron"], models) if token is None else token  # [d, S, R]
    if "msd_centroid" in names:
        values["msd_centroid"] = ((centroid - arrays["optimum"][:, None, None]) ** 2).sum(axis=0)
    if "msd_average" in names:
        deviations = (models - arrays["optimum"][None, :, None, None]) ** 2
        values["msd_average"] = _mean_over_agents(deviations)
    if "disagreement" in names:
        values["disagreement"] = _mean_over_agents((models - centroid) ** 2)
    if "loss" in names:
        values["loss"] = _over_lanes(lambda w: problem.risk(w, arrays["data"]), centroid)

    def accuracy(w: Array) -> Array:
        return problem.accuracy(w, arrays["test_features"], arrays["test_labels"])

    if "accuracy" in names:
        values["accuracy"] = _over_lanes(accuracy, centroid)
    if any(name in names for name in ON_REQUEST):
        of_agents = jax.vmap(lambda own: _over_lanes(accuracy, own))(models)  # [K, S, R]
        values["accuracy_average"], values["accuracy_worst"] = of_agents.mean(axis=0), of_agents.min(axis=0)
    return jnp.stack([values[name] for name in names])


def _over_lanes(function: Any, models: Array) -> Array:
    """function(model) for models [d, S, R]: [S, R]."""
    return jax.vmap(jax.vmap(function, in_axes=-1, out_axes=-1), in_axes=-1, out_axes=-1)(models)


def _weighted_sum(weights: Array, values: Array) -> Array:
    """sum_k weights[k] values[k] as one product, which XLA runs faster than a reduction over the outer axis."""
    return jnp.matmul(weights, values.reshape(values.shape[0], -1), precision="highest").reshape(values.shape[1:])


def _mean_over_agents(squares: Array) -> Array:
    """Sum over parameters, mean over agents, of [K, d, S, R]: [S, R]."""
    flat = squares.reshape(squares.shape[0] * squares.shape[1], *squares.shape[2:])
    return _weighted_sum(jnp.full(flat.shape[0], 1 / squares.shape[0], flat.dtype), flat)
