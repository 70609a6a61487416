"""What a run must satisfy before its first round; everything else is refused here, once."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.linear import check_hand_over, check_shapes, check_together, refuse_memory
from sottovoce.noise import Noise
from sottovoce.problems import Batch, ClippedGradients, CustomLoss
from sottovoce.schedules import running_round
from sottovoce.simulation.round_numbers import check_round_numbers
from sottovoce.simulation.rounds.precision import precision
from sottovoce.simulation.settings import Settings
from sottovoce.topologies import Topology
from sottovoce.wording import brief_value


def check_algorithm(
    problem: Any, topology: Topology, algorithm: Algorithm, noises: tuple[Noise, ...], settings: Settings
) -> None:
    """Refuse an algorithm that does not run with this problem, topology and these noises.

    Args:
        problem: the data and the loss.
        topology: who talks to whom.
        algorithm: what agents do.
        noises: the schemes it runs with.
        settings: the numbers of the run.

    Raises:
        ConfigError: functions of another shape or with other gradients than declared, or more agents to draw than there are.
        IncompatibleChoice: the parts do not fit together, or compiled rounds differ from those on the host.
    """
    rounds, batch_size = settings.rounds, settings.batch_size
    if settings.batch is not None:
        check_turns(problem, settings.batch)
    check_round_numbers(algorithm, rounds, settings.dtype, dimension=problem.dimension)
    check_traced_shapes(problem, algorithm, batch_size, settings.dtype, settings.batch)
    for noise in noises:
        if settings.fraction_bits is not None:
            refuse_memory(noise, "runs on a lattice, which parties repeat,")
        check_together(
            topology, algorithm, noise, rounds=rounds, problem=problem, batch_size=batch_size, remembers=True
        )
        check_hand_over(algorithm, noise, topology, rounds)


def check_turns(problem: Any, batch: Batch) -> None:
    """Refuse a problem that cannot be run with records in turns.

    Raises:
        ConfigError: it has no weighted gradient, or an agent has fewer records than there are turns.
    """
    if not callable(getattr(problem, "weighted_gradient", None)):
        raise ConfigError(
            f"batch = {batch!r} weighs records, and '{problem.kind}' has no function weighted_gradient(model, records, weights). Add it, or use "
            f"batch_size."
        )
    batch.check(problem.sizes)


def check_traced_shapes(
    problem: Any, algorithm: Algorithm, batch_size: int | None, dtype: str, batch: Batch | None = None
) -> None:
    """Refuse messages, states and gradients of another shape than the model's, traced as the compiled round traces them.

    Raises:
        ConfigError: the algorithm's functions or the problem's gradient have another shape.
    """
    model = _array_of((problem.dimension,), np.dtype(dtype))
    with precision(dtype):
        jax.eval_shape(lambda w, t: _check_traced(algorithm, t, w), model, _array_of((), np.int32))
        data = {name: _array_of(np.shape(value)[1:], _traced(value, dtype)) for name, value in problem.arrays.items()}
        found = jax.eval_shape(*_traced_gradient(problem, model, data, batch_size, batch))
    if found.shape != model.shape:
        raise ConfigError(
            f"the gradient of '{problem.kind}' has shape {found.shape} for a model of shape {model.shape}, and would be repeated along it. "
            f"Return an array of the model's shape."
        )


def _traced_gradient(
    problem: Any, model: Any, data: Any, batch_size: int | None, batch: Batch | None
) -> tuple[Any, ...]:
    """The gradient that a run takes, and what it is traced with."""
    if batch is not None:
        places = (batch.most_records(problem.sizes),)
        positions, weights = _array_of(places, np.int32), _array_of(places, model.dtype)
        return (
            lambda w, own, p, x: problem.weighted_gradient(w, problem.records(own, p), x),
            model,
            data,
            positions,
            weights,
        )
    if batch_size is None:
        return problem.gradient, model, data
    positions = _array_of((batch_size,), np.int32)
    return lambda w, own, p: problem.batch_gradient(w, problem.records(own, p)), model, data, positions


def _check_traced(algorithm: Algorithm, round_: Any, model: Any) -> None:
    with running_round(dict.fromkeys(algorithm.schedules, model.sum())):  # any number without axes, to trace with
        check_shapes(algorithm, round_, model)


def _array_of(shape: tuple[int, ...], dtype: Any) -> Any:
    """An array without numbers, to trace with."""
    return jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]


def _traced(value: Any, dtype: str) -> Any:
    """The type that a run gives an array of its problem."""
    kind = np.asarray(value).dtype
    return np.dtype(dtype) if kind.kind == "f" else np.dtype(np.int32) if kind.kind == "i" else kind


def check_test_records(problem: Any, test: tuple[Any, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Refuse test records that do not fit the problem; returns them as arrays."""
    if not problem.has_accuracy:
        raise ConfigError(f"test= was given, but '{problem.kind}' has no accuracy to measure on it. Leave it out.")
    features, labels = np.asarray(test[0], dtype=float), np.asarray(test[1], dtype=float)
    held = problem.arrays["features"], problem.arrays["targets"]
    fits = features.ndim > 0 and features.shape[1:] == held[0].shape[2:] and labels.shape[1:] == held[1].shape[2:]
    if not fits or labels.shape[:1] != features.shape[:1] or not len(labels):
        needed = [f"[{', '.join(('N', *map(str, array.shape[2:])))}]" for array in held]
        raise ConfigError(
            f"test= has features {features.shape} and labels {labels.shape}; needed are {needed[0]} and {needed[1]} with N > 0."
        )
    _check_test_values(problem, features, labels)
    for own, new in zip(held, (features, labels), strict=True):
        if own.dtype.kind == "i" and (new != np.floor(new)).any():
            raise ConfigError("test= has numbers that are not whole where the agents' records have whole ones.")
    return features.astype(held[0].dtype), labels.astype(held[1].dtype)


def _check_test_values(problem: Any, features: np.ndarray, labels: np.ndarray) -> None:
    known = not problem.label_sets or any(np.isin(labels, allowed).all() for allowed in problem.label_sets)
    if not (np.isfinite(features).all() and np.isfinite(labels).all() and known):
        kinds = " or ".join("/".join(f"{label:g}" for label in allowed) for allowed in problem.label_sets) or "finite"
        raise ConfigError(f"test= must have finite features and labels {kinds}.")


def check_resumed(held: dict[str, np.ndarray], leaves: list[Any], done: int, rounds: int) -> None:
    """Refuse a state that belongs to another run."""
    fits = set(held) == {str(i) for i in range(len(leaves))} and all(
        held[str(i)].shape == leaf.shape and held[str(i)].dtype == leaf.dtype for i, leaf in enumerate(leaves)
    )
    if not fits or not 0 <= done <= rounds:
        raise ConfigError(
            "the state to resume from belongs to another run: its arrays or its round do not fit. Start this run from the beginning."
        )


def first_models(
    problem: Any, topology: Topology, algorithms: Mapping[Any, Algorithm], start: Any
) -> np.ndarray | None:
    """Where agents start, as given: one model [d] for all or one each [K, d], in float64; None: where the problem says.

    Raises:
        ConfigError: numbers that are no models of this problem.
        IncompatibleChoice: a model for each agent where all agents share one.
    """
    if start is None:
        return None
    K, d = problem.num_agents, problem.dimension
    models = _flat(problem, start)
    if models.shape not in ((d,), (K, d)) or not np.isfinite(models).all():
        raise ConfigError(
            f"start = {brief_value(start)} of shape {models.shape}; needed are finite numbers: one model [{d}], one for each agent [{K}, {d}], or "
            f"parameters of the problem's own structure."
        )
    if models.ndim == 2 and (models == models[0]).all():
        models = models[0]
    shared = topology.relay or any(one.walks for one in algorithms.values())
    if models.ndim == 2 and shared:
        raise IncompatibleChoice(
            f"start gives every agent a model of its own, but the agents of '{topology.name}' share one, which a relay or a token carries. Give "
            f"one model [{d}]."
        )
    return models


def _flat(problem: Any, start: Any) -> np.ndarray:
    """Numbers as they are; parameters of the problem's own structure leaf after leaf."""
    inner = problem.problem if isinstance(problem, ClippedGradients) else problem
    if isinstance(inner, CustomLoss) and _structure(start) == _structure(inner.initial_parameters):
        return inner.flatten(start)
    try:
        return np.array(start, dtype=np.float64)
    except (TypeError, ValueError):
        raise ConfigError(
            f"start = {brief_value(start)} is neither numbers nor parameters as this problem structures them. Give one model "
            f"[{problem.dimension}], or parameters like problem.initial_parameters."
        ) from None


def _structure(parameters: Any) -> Any:
    leaves, tree = jax.tree.flatten(parameters)
    return tree, [np.shape(leaf) for leaf in leaves]
