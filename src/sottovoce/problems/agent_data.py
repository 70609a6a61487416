"""Data split over agents: checked once, then held as float64, padded with zeros to the longest agent.

Agent k's records are rows 0..sizes[k]-1 of features[k] (and targets[k]); the rows after them are zero and belong to
nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Scalar = TypeVar("Scalar", bound=np.generic)


def pad_features(features: Any, *, name: str = "features") -> tuple[Floats, Integers]:
    """Check one matrix per agent and stack them.

    Args:
        features: [K, n, d], or a sequence of K arrays [n_k, d].
        name: what the caller calls them, for the error messages.

    Returns:
        (features [K, longest n, d], sizes [K]).

    Raises:
        ConfigError: no agent, an empty agent, wrong dimensions, different d, or a number that is not finite; names the
        agent.
    """
    parts = [
        _as_floats(part, name=name, agent=k) for k, part in enumerate(_agents(features, name=name, shape="[n_k, d]"))
    ]
    for k, part in enumerate(parts):
        if part.ndim != 2:
            raise ConfigError(
                f"{name} of agent {k} must be a matrix [n_k, d]; got {part.ndim} dimension(s), shape {part.shape}. "
                f"Give [K, n, d] or a list of K matrices; use reshape(-1, 1) for a single feature."
            )
        if part.shape[0] == 0:
            raise ConfigError(
                f"Agent {k} has no records; every agent needs at least one. Drop the agent or partition with "
                "min_partition_size=1."
            )
        if part.shape[1] == 0:
            raise ConfigError(f"{name} of agent {k} has no columns, shape {part.shape}; at least one is needed.")
        if part.shape[1] != parts[0].shape[1]:
            raise ConfigError(
                f"All agents need the same number of columns in {name}; agent 0 has {parts[0].shape[1]}, agent {k} "
                f"has {part.shape[1]}."
            )
        _check_finite(part, name=name, agent=k)
    sizes = np.array([part.shape[0] for part in parts], dtype=np.int64)
    padded = np.zeros((len(parts), int(sizes.max()), parts[0].shape[1]))
    for k, part in enumerate(parts):
        padded[k, : sizes[k]] = part
    return _frozen(padded), _frozen(sizes)


def pad_targets(targets: Any, sizes: Integers, *, name: str = "targets") -> Floats:
    """Check one vector per agent against the agents' sizes and stack them.

    Args:
        targets: [K, n], or a sequence of K arrays [n_k].
        sizes: the number of records of each agent, [K].
        name: what the caller calls them, for the error messages.

    Returns:
        The targets, [K, longest n].

    Raises:
        ConfigError: another number of agents or records than the features have, or a number that is not finite.
    """
    parts = [_as_floats(part, name=name, agent=k) for k, part in enumerate(_agents(targets, name=name, shape="[n_k]"))]
    if len(parts) != len(sizes):
        raise ConfigError(
            f"features are of {len(sizes)} agent(s), but {name} of {len(parts)}; both need one entry per agent."
        )
    padded = np.zeros((len(parts), int(sizes.max())))
    for k, part in enumerate(parts):
        if part.ndim != 1:
            raise ConfigError(
                f"{name} of agent {k} must be a vector [n_k]; got shape {part.shape}. Use ravel() if it is a column."
            )
        if part.shape[0] != sizes[k]:
            raise ConfigError(
                f"Agent {k} has {sizes[k]} rows of features but {part.shape[0]} {name}; each record needs one."
            )
        _check_finite(part, name=name, agent=k)
        padded[k, : sizes[k]] = part
    return _frozen(padded)


def signed_labels(labels: Floats, sizes: Integers, *, both_classes: bool = True) -> Floats:
    """Map labels to -1 and 1; padded entries stay 0.

    Args:
        labels: padded, [K, n], in {-1, 1} or in {0, 1}.
        sizes: [K].
        both_classes: whether labels of one class only are refused.

    Returns:
        The labels in {-1, 1}, [K, n].

    Raises:
        ConfigError: another label (named), or one class only in the whole data set.
    """
    present = record_mask(sizes, labels.shape[1])
    values = np.unique(labels[present])
    zero_one = bool(np.isin(values, (0.0, 1.0)).all())
    allowed = (0.0, 1.0) if zero_one or 0.0 in values else (-1.0, 1.0)
    wrong = np.argwhere(present & ~np.isin(labels, allowed))
    if len(wrong):
        k, i = (int(index) for index in wrong[0])
        raise ConfigError(
            f"labels must be all in {{-1, 1}} or all in {{0, 1}}; agent {k}, record {i} has {labels[k, i]:g}. "
            f"Map your two classes to -1 and 1."
        )
    if both_classes and len(values) < 2:
        raise ConfigError(
            f"Every label of every agent is {values[0]:g}; a classifier needs both classes somewhere in the data "
            f"(one agent alone may hold a single class)."
        )
    signed = 2.0 * labels - 1.0 if zero_one else labels
    return _frozen(np.where(present, signed, 0.0))


def record_mask(sizes: Integers, longest: int) -> NDArray[np.bool_]:
    """Return which padded rows are records, [K, longest]."""
    return np.arange(longest)[None, :] < sizes[:, None]


def record_weights(sizes: Integers, longest: int, agent_weights: Floats | None = None) -> Floats:
    """Return every record's weight in sum_k weight_k (1/n_k) sum_i, [K, longest]; uniform over agents unless told."""
    weights = np.full(len(sizes), 1.0 / len(sizes)) if agent_weights is None else agent_weights
    weighted: Floats = record_mask(sizes, longest) * (weights / sizes)[:, None]
    return weighted


def agent_weights(weights: Any, num_agents: int) -> Floats:
    """Check weights of agents and scale them to sum to 1."""
    try:
        checked = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"weights must be {num_agents} numbers, one per agent; got {weights!r}.") from error
    if checked.shape != (num_agents,):
        raise ConfigError(f"weights must be one number per agent, shape ({num_agents},); got shape {checked.shape}.")
    if not np.isfinite(checked).all() or (checked < 0).any() or checked.sum() <= 0:
        raise ConfigError("weights must be finite, non-negative and not all zero; e.g. topology.perron.")
    scaled: Floats = checked / checked.sum()
    return scaled


def _agents(parts: Any, *, name: str, shape: str) -> Sequence[Any]:
    """Return the sequence of per-agent parts, whatever container the caller used."""
    if not hasattr(parts, "__len__") or isinstance(parts, (str, bytes, dict)) or getattr(parts, "ndim", 1) == 0:
        raise ConfigError(
            f"{name} must be an array with one entry per agent, or a list of arrays {shape}; got "
            f"{type(parts).__name__}."
        )
    if len(parts) == 0:
        raise ConfigError(f"{name} are of 0 agents; at least 1 is needed.")
    return list(parts)


def _as_floats(part: Any, *, name: str, agent: int) -> Floats:
    try:
        array = np.asarray(part)
        if array.dtype.kind not in "biuf":
            raise TypeError(array.dtype)
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{name} of agent {agent} must be real numbers in a rectangular array; got {error}."
        ) from error


def _check_finite(part: Floats, *, name: str, agent: int) -> None:
    wrong = np.argwhere(~np.isfinite(part))
    if len(wrong):
        record = int(wrong[0][0])
        column = f", column {int(wrong[0][1])}" if part.ndim == 2 else ""
        raise ConfigError(
            f"{name} must be finite; agent {agent}, record {record}{column} is {part[tuple(wrong[0])]}. Remove or "
            "impute such records."
        )


def _frozen(array: NDArray[Scalar]) -> NDArray[Scalar]:
    array.setflags(write=False)
    return array
