"""Records of any shape, split over agents: images, tables, labels.

Agent k's records are rows 0..sizes[k]-1. Shorter agents are filled up with copies of their first record, not with
zeros: a user's loss sees only records that exist, so that a row which belongs to nobody cannot make it divide by zero.
Real numbers are held as float64 and whole numbers as int64, so that a label can index an array.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError

Numbers = NDArray[Any]  # float64 or int64
Integers = NDArray[np.int64]

_LARGEST_WHOLE = 2**31 - 1  # a simulation holds whole numbers in 32 bits


def pad_records(records: Any, sizes: Integers | None = None, *, name: str) -> tuple[Numbers, Integers]:
    """Check one array per agent and stack them.

    Args:
        records: [K, n, ...], or a sequence of K arrays [n_k, ...] with the same trailing shape.
        sizes: how many records each agent must have; None takes what is there.
        name: what the caller calls them, for the error messages.

    Returns:
        (records [K, longest n, ...], sizes [K]), both read-only.

    Raises:
        ConfigError: no agent, an empty agent, different shapes, another number of records than `sizes`, or a number
        that is not finite; names the agent.
    """
    parts = [_checked(part, name=name, agent=k) for k, part in enumerate(_agents(records, name=name))]
    found = np.array([len(part) for part in parts], dtype=np.int64)
    if sizes is not None:
        _check_sizes(found, sizes, name=name)
    for k, part in enumerate(parts):
        if part.shape[1:] != parts[0].shape[1:]:
            raise ConfigError(
                f"All records in {name} need the same shape; those of agent 0 are {parts[0].shape[1:]}, those of agent "
                f"{k} are {part.shape[1:]}. Crop or pad the records."
            )
    # One agent with real numbers makes all real.
    kind = np.result_type(*(part.dtype for part in parts))
    longest = int(found.max())
    padded = np.stack([np.concatenate([part, np.repeat(part[:1], longest - len(part), axis=0)]) for part in parts])
    padded = padded.astype(kind)
    padded.setflags(write=False)
    found.setflags(write=False)
    return padded, found


def _agents(records: Any, *, name: str) -> list[Any]:
    if not hasattr(records, "__len__") or isinstance(records, str | bytes | dict) or getattr(records, "ndim", 1) == 0:
        raise ConfigError(
            f"{name} must be an array with one entry per agent, or a list of arrays [n_k, ...]; got "
            f"{type(records).__name__}."
        )
    if len(records) == 0:
        raise ConfigError(f"{name} are of 0 agents; at least 1 is needed.")
    return list(records)


def _checked(part: Any, *, name: str, agent: int) -> Numbers:
    try:
        array = np.asarray(part)
        if array.dtype.kind not in "biuf":
            raise TypeError(array.dtype)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{name} of agent {agent} must be real numbers in a rectangular array; got {error}."
        ) from error
    if array.ndim == 0 or 0 in array.shape:
        raise ConfigError(
            f"{name} of agent {agent} must be a non-empty array [n_k, ...]; got shape {array.shape}. Every agent needs "
            f"at least one record: drop the agent, or partition with min_partition_size=1."
        )
    wrong = np.argwhere(~np.isfinite(array)) if array.dtype.kind == "f" else np.zeros((0, 1), dtype=int)
    if len(wrong):
        raise ConfigError(
            f"{name} must be finite; agent {agent}, record {int(wrong[0][0])} holds {array[tuple(wrong[0])]}. Remove or "
            "impute such records."
        )
    if array.dtype.kind == "f":
        return array.astype(np.float64)
    if int(array.max()) > _LARGEST_WHOLE or int(array.min()) < -_LARGEST_WHOLE:
        raise ConfigError(
            f"{name} of agent {agent} hold whole numbers beyond 2^31 - 1, which a simulation cannot hold. Give them as "
            "floating-point numbers."
        )
    return array.astype(np.int64)


def _check_sizes(found: Integers, sizes: Integers, *, name: str) -> None:
    if len(found) != len(sizes):
        raise ConfigError(
            f"features are of {len(sizes)} agent(s), but {name} of {len(found)}; both need one entry per agent."
        )
    for k, (own, needed) in enumerate(zip(found, sizes, strict=True)):
        if own != needed:
            raise ConfigError(f"Agent {k} has {needed} rows of features but {own} of {name}; each record needs one.")
