"""Who owns which record: a column of the table, `fit(groups=)`, or records dealt out on request; and about whom it is.

Owners are the agents, in sorted order: agent 3 of "curious_agent:3" is `agents_[3]`. The columns of owners and persons are no features; they are
taken out before anything else looks at the table, when a model is fitted and when it predicts.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError
from sottovoce.numbers import is_whole, whole
from sottovoce.problems import partition, person_keys
from sottovoce.wording import brief_value, suggest


class Table(NamedTuple):
    """A table without the columns that are no features, and those columns."""

    features: Any  # of the same kind as the table that was given
    owners: NDArray[Any] | None  # [N]
    persons: NDArray[Any] | None  # [N]


class Owned(NamedTuple):
    """Records by agent."""

    names: NDArray[Any]  # [K] of the agents
    rows: tuple[NDArray[np.intp], ...]  # of each agent: which records are its own


def taken_apart(table: Any, *, owner: Any, person: Any) -> Table:
    """The features of a table, whose each record is, and about whom.

    Args:
        table: a data frame, or an array.
        owner: name of the column of owners, or its position in an array; None: the table has no such column.
        person: the same of the column of persons.

    Raises:
        ConfigError: the table has no such column, or both are one.
    """
    named = {word: column for word, column in (("owner", owner), ("person", person)) if column is not None}
    if not named:
        return Table(table, None, None)
    if len(named) == 2 and owner == person:
        raise ConfigError(f"owner and person are both {brief_value(owner)}; give each a column of its own.")
    frame = nw.from_native(table, eager_only=True, pass_through=True)
    rest, values = _by_name(frame, named) if isinstance(frame, nw.DataFrame) else _by_position(table, named)
    return Table(rest, values.get("owner"), values.get("person"))


def features_of(table: Any, columns: Sequence[Any], count: int) -> Any:
    """The features of a table for a prediction; columns that are none may be there or not, in an array all of them.

    Args:
        table: a data frame, or an array.
        columns: names or positions of the columns that are no features.
        count: of the features.
    """
    if not columns:
        return table
    frame = nw.from_native(table, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return frame.drop([column for column in columns if column in frame.columns]).to_native()
    shape = np.shape(table)
    with_them = len(shape) == 2 and shape[1] == count + len(columns)
    return np.delete(np.asarray(table), list(columns), axis=1) if with_them else table


def owned_records(owners: NDArray[Any] | None, groups: Any, agents: Any, *, count: int, seed: int) -> Owned:
    """Which records every agent has.

    Args:
        owners: the owner of every record, from a column.
        groups: the same, given to `fit`.
        agents: how many agents the records are dealt out to.
        count: of the records.
        seed: of the dealing out.

    Raises:
        ConfigError: nothing, or more than one thing, says who owns the records; or an owner is missing.
    """
    said = [name for name, given in (("owner=", owners), ("groups=", groups), ("agents=", agents)) if given is not None]
    if len(said) != 1:
        raise ConfigError(
            f"{' and '.join(said) + ' say' if said else 'nothing says'} who owns the records; needed is one of: owner= (a column of X), "
            f"fit(X, y, groups=...), or agents=K, which deals the records out to K invented agents."
        )
    if agents is not None:
        return _dealt_out(agents, count, seed)
    names, codes = numbered(owners if owners is not None else np.asarray(groups), said[0], count)
    if alike := len(names) - len(set(person_keys(names.tolist()))):
        raise ConfigError(
            f"{said[0]}: {alike} name(s) are another owner's, written in another way; as two agents, each would have a part of what is to be "
            f"protected together. Write each owner in one way."
        )
    return Owned(names, tuple(np.flatnonzero(codes == agent) for agent in range(len(names))))


def numbered(values: NDArray[Any], said: str, count: int) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The different values of a column, sorted, and which of them every record has.

    Args:
        values: one for each record.
        said: what messages call the column.
        count: of the records.

    Raises:
        ConfigError: another number of values, a record without one, or values of several types.
    """
    if values.shape != (count,):
        raise ConfigError(
            f"{said} has shape {values.shape}; needed is one for each of the {count} records, shape ({count},)."
        )
    missing = np.array([value is None or value != value for value in values.tolist()])
    if missing.any():
        raise ConfigError(
            f"{said}: {int(missing.sum())} record(s) have none, the first is record {int(np.argmax(missing))} (from 0). Name one for each, or "
            f"leave the records out."
        )
    try:
        names, codes = np.unique(values, return_inverse=True)
    except TypeError as error:
        raise ConfigError(
            f"{said}: values of several types cannot be sorted ({error}). Make all of them text."
        ) from error
    return names, codes


def _by_name(frame: Any, named: Mapping[str, Any]) -> tuple[Any, dict[str, NDArray[Any]]]:
    for word, column in named.items():
        if column not in frame.columns:
            hint = suggest(column, map(str, frame.columns)) if isinstance(column, str) else ""
            raise ConfigError(
                f"{word} = {brief_value(column)} names no column of the table{hint}. Give the name of one."
            )
    values = {word: frame[column].to_numpy() for word, column in named.items()}
    return frame.drop(list(named.values())).to_native(), values


def _by_position(table: Any, named: Mapping[str, Any]) -> tuple[Any, dict[str, NDArray[Any]]]:
    array = np.asarray(table)
    columns = array.shape[1] if array.ndim == 2 else 0
    for word, column in named.items():
        if not is_whole(column, 0, columns - 1):
            raise ConfigError(
                f"{word} = {brief_value(column)}, but X is an array with {columns} columns; give the position of one, or X as a data frame."
            )
    return np.delete(array, list(named.values()), axis=1), {word: array[:, column] for word, column in named.items()}


def _dealt_out(agents: Any, count: int, seed: int) -> Owned:
    number = whole("agents", agents)
    if number > count:
        raise ConfigError(f"n_samples = {count}, and agents = {number} need a record each. Use fewer agents.")
    positions = np.arange(count)
    rows, _ = partition(positions[:, None], positions, num_agents=number, kind="iid", seed=seed)
    return Owned(np.arange(number), tuple(np.sort(part[:, 0]) for part in rows))
