"""Who owns which record: a column of the table, `fit(groups=)`, or records dealt out on request.

Owners are the agents, in sorted order: agent 3 of "curious_agent:3" is `agents_[3]`. The column of owners is no feature; it is taken out
before anything else looks at the table, when a model is fitted and when it predicts.
"""

from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError
from sottovoce.numbers import is_whole, whole
from sottovoce.problems import partition
from sottovoce.wording import brief, brief_value, suggest


class Owned(NamedTuple):
    """Records by agent."""

    names: NDArray[Any]  # [K] of the agents
    rows: tuple[NDArray[np.intp], ...]  # of each agent: which records are its own


def without_owner(table: Any, owner: Any) -> tuple[Any, NDArray[Any] | None]:
    """The table without its column of owners, and that column.

    Args:
        table: a data frame, or an array [N, d + 1].
        owner: name of the column, or its position in an array; None: the table has no such column.

    Raises:
        ConfigError: the table has no such column.
    """
    if owner is None:
        return table, None
    frame = nw.from_native(table, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return _without_position(table, owner)
    if owner not in frame.columns:
        hint = suggest(owner, map(str, frame.columns)) if isinstance(owner, str) else ""
        raise ConfigError(
            f"owner = {brief_value(owner)} names no column of the table{hint}. Give the column that says who owns a record."
        )
    return frame.drop(owner).to_native(), frame[owner].to_numpy()


def drop_owner(table: Any, owner: Any, features: int) -> Any:
    """The table for a prediction, with or without its column of owners; `features` is how many columns remain."""
    if owner is None:
        return table
    frame = nw.from_native(table, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return frame.drop(owner).to_native() if owner in frame.columns else table
    shape = np.shape(table)
    return without_owner(table, owner)[0] if len(shape) == 2 and shape[1] == features + 1 else table


def owned_records(owners: NDArray[Any] | None, groups: Any, agents: Any, *, count: int, seed: int) -> Owned:
    """Which records every agent has.

    Args:
        owners: the owner of every record, from a column.
        groups: the same, given to `fit`.
        agents: how many agents the records are dealt out to.
        count: of the records.
        seed: of the dealing out.

    Raises:
        ConfigError: nothing, or more than one thing, says who owns the records; an owner is missing; there is one owner only.
    """
    said = [name for name, given in (("owner=", owners), ("groups=", groups), ("agents=", agents)) if given is not None]
    if len(said) != 1:
        raise ConfigError(
            f"{' and '.join(said) + ' say' if said else 'nothing says'} who owns the records; needed is one of: owner= (a column of X), fit(X, y, groups=...), "
            f"or agents=K, which deals the records out to K invented agents."
        )
    if agents is not None:
        return _dealt_out(agents, count, seed)
    return _by_owner(owners if owners is not None else np.asarray(groups), count, said[0])


def _without_position(table: Any, owner: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    array = np.asarray(table)
    columns = array.shape[1] if array.ndim == 2 else 0
    if not is_whole(owner, 0, columns - 1):
        raise ConfigError(
            f"owner = {brief_value(owner)}, but X is an array with {columns} columns; give the position of one, or X as a data frame."
        )
    return np.delete(array, owner, axis=1), array[:, owner]


def _dealt_out(agents: Any, count: int, seed: int) -> Owned:
    number = whole("agents", agents, least=2)
    if number > count:
        raise ConfigError(f"n_samples = {count}, and agents = {number} need a record each. Use fewer agents.")
    positions = np.arange(count)
    rows, _ = partition(positions[:, None], positions, num_agents=number, kind="iid", seed=seed)
    return Owned(np.arange(number), tuple(np.sort(part[:, 0]) for part in rows))


def _by_owner(owners: NDArray[Any], count: int, said: str) -> Owned:
    if owners.shape != (count,):
        raise ConfigError(
            f"{said} has shape {owners.shape}; needed is one owner for each of the {count} records, shape ({count},)."
        )
    nameless = np.array([owner is None or owner != owner for owner in owners.tolist()])
    if nameless.any():
        raise ConfigError(
            f"{said}: {int(nameless.sum())} record(s) have no owner, the first is record {int(np.argmax(nameless))} (from 0). Name an owner "
            f"for each, or leave the records out."
        )
    try:
        names, codes = np.unique(owners, return_inverse=True)
    except TypeError as error:
        raise ConfigError(
            f"{said}: owners of several types cannot be sorted ({error}). Make all of them text."
        ) from error
    if len(names) < 2:
        raise ConfigError(
            f"{said}: all records belong to {brief(str(names[0]))!r}; agents learn together from at least two (n_samples = {count})."
        )
    return Owned(names, tuple(np.flatnonzero(codes == agent) for agent in range(len(names))))
