"""What is measured after every round, per repeat.

msd_centroid    ||w_c - w*||^2,            w_c = sum_k q_k w_k  the Perron-weighted centroid, w* the minimiser of the uniform risk
msd_average     mean_k ||w_k - w*||^2
disagreement    mean_k ||w_k - w_c||^2
loss            uniform average of the agents' risks at the centroid
accuracy        of the centroid, on the test records when given, else on all training records (classification only)
"""

from typing import Any

import jax
import jax.numpy as jnp

from sottovoce.errors import ConfigError, UnsupportedClaim

Array = Any
METRICS = ("msd_centroid", "msd_average", "disagreement", "loss", "accuracy")
NEEDS_OPTIMUM = ("msd_centroid", "msd_average")


def choose_metrics(record: Any, problem: Any) -> tuple[str, ...]:
    """The metrics of a run: those asked for, or all that the problem has."""
    available = tuple(name for name in METRICS if problem.has_accuracy or name != "accuracy")
    if record is None:
        return available if _has_optimum(problem) else tuple(name for name in available if name not in NEEDS_OPTIMUM)
    unknown = [name for name in record if name not in available]
    if unknown:
        raise ConfigError(
            f"record = {list(record)}: {unknown[0]!r} is not a metric of this problem. Choose from {', '.join(available)}."
        )
    return tuple(name for name in available if name in record)


def _has_optimum(problem: Any) -> bool:
    try:
        problem.optimum  # noqa: B018
    except UnsupportedClaim:
        return False  # separable classes without ridge, for instance: there is no minimiser to measure a distance to
    return True


def measure(names: tuple[str, ...], problem: Any, arrays: dict[str, Any], models: Array) -> Array:
    """The metrics of models [K, d, S, R]: [len(names), S, R]."""
    values: dict[str, Array] = {}
    q = arrays["perron"][:, None, None, None]
    centroid = (q * models).sum(axis=0)  # [d, S, R]
    if "msd_centroid" in names:
        values["msd_centroid"] = ((centroid - arrays["optimum"][:, None, None]) ** 2).sum(axis=0)
    if "msd_average" in names:
        values["msd_average"] = ((models - arrays["optimum"][None, :, None, None]) ** 2).sum(
            axis=(0, 1)
        ) / models.shape[0]
    if "disagreement" in names:
        values["disagreement"] = ((models - centroid) ** 2).sum(axis=(0, 1)) / models.shape[0]

    def over_lanes(function: Any) -> Array:
        return jax.vmap(jax.vmap(function, in_axes=-1, out_axes=-1), in_axes=-1, out_axes=-1)(centroid)

    if "loss" in names:
        values["loss"] = over_lanes(lambda w: problem.risk(w, arrays["data"]))
    if "accuracy" in names:
        values["accuracy"] = over_lanes(lambda w: problem.accuracy(w, arrays["test_features"], arrays["test_labels"]))
    return jnp.stack([values[name] for name in names])
