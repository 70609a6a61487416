"""How much one agent's message really changes on given data: every neighbouring data set is tried.

    max over neighbours D' of D of  || message(D) - message(D') ||,   all that the agent received being the same

    replace       every record of D by every record of a universe
    add-remove    every record of D taken away; and every record of a universe added, if one is given

The agent's own functions run on the changed data: init, then an update for every combination it received, then the
message. Whatever happens inside is therefore included, such as several local steps, or dual variables that carry old
gradients along.

A FACT ABOUT THE DATA, NOT A SENSITIVITY. The number is computed from private records and is private itself. Other data
change more, and noise in proportion to it can be told apart by its scale. It shows that a claimed bound is too small,
or how far below a true bound some data stay; noise must be calibrated to `problem.sensitivity`, which holds for all
data. So the result is no number that an accountant would take.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sottovoce.algorithms import Algorithm
from sottovoce.clipping import Norm, check_norm, vector_norm
from sottovoce.errors import ConfigError
from sottovoce.numbers import chosen, whole
from sottovoce.problems import Adjacency, LinearRegression, LogisticRegression, MeanEstimation, Problem

Floats = NDArray[np.float64]
Records = tuple[Floats, ...]  # one array per field of a record, each with the records along its first axis
Gradient = Callable[..., Floats]

_FIELDS: dict[type, tuple[str, ...]] = {
    LinearRegression: ("features", "targets"),
    LogisticRegression: ("features", "labels"),
    MeanEstimation: ("points",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOnTheseData:
    """The largest change of one message between given data and their neighbours: private, and no sensitivity.

    Attributes:
        value: the change.
        norm: in which it is measured.
        adjacency: which data sets were neighbours.
        agent: whose message it is.
        round: the message's round, from 1.
        neighbours: how many data sets were tried.
        record: the agent's record that was replaced or removed for it; None if one was added.
        replacement: the record of the universe that came instead or in addition; None if one was removed.
    """

    value: float
    norm: Norm
    adjacency: Adjacency
    agent: int
    round: int
    neighbours: int
    record: int | None
    replacement: int | None


class _Neighbour(NamedTuple):
    records: Records
    record: int | None
    replacement: int | None


def largest_change_on_these_data(
    algorithm: Algorithm,
    problem: Problem,
    model: ArrayLike,
    *,
    agent: int,
    adjacency: Adjacency,
    norm: Norm,
    universe: Sequence[ArrayLike] | None = None,
    received: Sequence[ArrayLike] = (),
) -> ChangeOnTheseData:
    """Try all neighbours of one agent's data and return the largest change of its message: a fact, not a sensitivity.

    The result is computed from private records: never scale noise by it and never publish it (see the module).
    Gradients are full gradients in float64. A message that does not depend on data changes by 0; the first message of
    `inexact_admm(linearise_at="own")` is such, and the second needs one entry in `received`.

    Args:
        algorithm: what the agent does.
        problem: linear_regression, logistic_regression or mean_estimation, clipped or not.
        model: where the agent starts, [d].
        agent: whose data change.
        adjacency: "replace" or "add-remove".
        norm: "l1" or "l2".
        universe: what a new record may be, in the order in which the problem takes its data: (features [m, d],
            targets [m]), (features, labels in {-1, 1}) or (points,). None: for "replace" the agent's own records, for
            "add-remove" no record is added.
        received: the combinations the agent received before the message, each [d], the same whatever its data.

    Raises:
        ConfigError: inputs of a wrong kind, shape or range; a removal that would leave no record; a message beyond the
            finite numbers.
    """
    _check_names(algorithm, problem, adjacency, norm)
    k = _existing_agent(agent, problem)
    own = _records_of(problem, k, adjacency)
    candidates = _universe(problem, universe, own, adjacency)
    start = _vector(model, name="model", dimension=problem.dimension)
    heard = [_vector(r, name=f"received[{i}]", dimension=problem.dimension) for i, r in enumerate(received)]

    def sent(records: Records) -> Floats:
        return _message(algorithm, _gradient_on(problem, records), start, heard)

    truth = sent(own)
    largest, witness, tried = -1.0, _Neighbour(own, None, None), 0
    for neighbour in _neighbours(own, candidates, adjacency):
        change, tried = float(vector_norm(sent(neighbour.records) - truth, norm)), tried + 1
        if change > largest:
            largest, witness = change, neighbour
    return ChangeOnTheseData(
        value=largest,
        norm=norm,
        adjacency=adjacency,
        agent=k,
        round=1 + len(heard) // len(algorithm.exchanges),
        neighbours=tried,
        record=witness.record,
        replacement=witness.replacement,
    )


def _neighbours(own: Records, candidates: Records | None, adjacency: Adjacency) -> Iterator[_Neighbour]:
    new = range(0 if candidates is None else len(candidates[0]))
    for j in range(len(own[0])):
        if adjacency == "add-remove":
            yield _Neighbour(tuple(np.delete(field, j, axis=0) for field in own), j, None)
            continue
        for i in new:
            yield _Neighbour(_joined(own, candidates, i, at=j), j, i)
    if adjacency == "add-remove":
        for i in new:
            yield _Neighbour(_joined(own, candidates, i, at=None), None, i)


def _joined(own: Records, candidates: Records | None, i: int, *, at: int | None) -> Records:
    """The agent's records with candidate i at a place, or after the last."""
    assert candidates is not None
    changed = []
    for field, new in zip(own, candidates, strict=True):
        rows = np.concatenate([field, new[i : i + 1]])
        if at is not None:
            rows[at] = rows[-1]
            rows = rows[:-1]
        changed.append(rows)
    return tuple(changed)


def _gradient_on(problem: Problem, records: Records) -> Gradient:
    """The full gradient of an agent that holds these records, with the problem's loss, ridge and clip."""
    fields = dict(zip(_FIELDS[type(problem)], (field[None] for field in records), strict=True))
    alone: Any = replace(problem, sizes=np.array([len(records[0])]), **fields)  # type: ignore[type-var]
    data = {name: array[0] for name, array in alone.arrays.items()}

    def gradient(w: Floats, step: int = 0) -> Floats:
        return np.asarray(alone.gradient(w, data))  # of all records, so every step of a round has the same

    return gradient


def _message(algorithm: Algorithm, gradient: Gradient, model: Floats, received: list[Floats]) -> Floats:
    """What the agent sends after these combinations arrived, exchange by exchange."""
    passages = len(algorithm.exchanges)
    with np.errstate(over="ignore", invalid="ignore"):
        state = algorithm.begun(algorithm.init(model), gradient, 1)
        for i, combination in enumerate(received):
            state = algorithm.exchanges[i % passages].update(state, combination, gradient, 1 + i // passages)
            if (i + 1) % passages == 0:
                state = algorithm.begun(state, gradient, 2 + i // passages)
        here = len(received)
        sent = np.asarray(algorithm.exchanges[here % passages].message(state, gradient, 1 + here // passages))
    if not np.isfinite(sent).all():
        raise ConfigError(
            "The message is not finite on some neighbouring data. Clip the gradients with problem.with_clipping(clip, "
            "norm), or take smaller steps."
        )
    return sent


def _records_of(problem: Problem, agent: int, adjacency: Adjacency) -> Records:
    size = int(problem.sizes[agent])
    if adjacency == "add-remove" and size < 2:
        raise ConfigError(
            f"Agent {agent} has one record; without it there is no gradient to compare. Give it a second record, or "
            "ask for adjacency='replace'."
        )
    return tuple(np.asarray(getattr(problem, field)[agent, :size]) for field in _FIELDS[type(problem)])


def _universe(
    problem: Problem, universe: Sequence[ArrayLike] | None, own: Records, adjacency: Adjacency
) -> Records | None:
    if universe is None:
        return own if adjacency == "replace" else None
    fields = _FIELDS[type(problem)]
    if not isinstance(universe, tuple | list) or len(universe) != len(fields):
        raise ConfigError(f"universe must be a tuple ({', '.join(fields)},), as {problem.kind} takes its data.")
    arrays = tuple(_numbers(part, name=f"universe {field}") for part, field in zip(universe, fields, strict=True))
    shapes = [(len(arrays[0]) if arrays[0].ndim else 0, *field.shape[1:]) for field in own]
    for array, field, shape in zip(arrays, fields, shapes, strict=True):
        if array.shape != shape or len(array) == 0:
            raise ConfigError(
                f"universe {field} have shape {array.shape}; needed is one row per record, at least one, of shape "
                f"{list(shape[1:])}, and equally many of {' and '.join(fields)}."
            )
    _check_values(problem, arrays)
    return arrays


def _check_values(problem: Problem, arrays: Records) -> None:
    """Refuse records that no agent of the problem could hold."""
    if isinstance(problem, LogisticRegression) and not np.isin(arrays[1], (-1.0, 1.0)).all():
        raise ConfigError("universe labels must be -1 or 1, as the problem holds them; map your classes so.")
    if isinstance(problem, MeanEstimation) and (np.abs(arrays[0]) > problem.radius).any():
        raise ConfigError(
            f"universe points must lie in the problem's box [-{problem.radius:g}, {problem.radius:g}]^d; give a larger "
            "public radius, or leave out what no agent could hold."
        )


def _check_names(algorithm: Algorithm, problem: Problem, adjacency: Adjacency, norm: Norm) -> None:
    if not isinstance(algorithm, Algorithm):
        raise ConfigError(f"algorithm is a {type(algorithm).__name__}; give one of sv.algorithms, such as fedavg(...).")
    if type(problem) not in _FIELDS:
        raise ConfigError(
            f"problem is a {type(problem).__name__}; neighbouring data are known for linear_regression, "
            "logistic_regression and mean_estimation."
        )
    chosen("adjacency", adjacency, get_args(Adjacency))
    check_norm(norm)


def _existing_agent(agent: int, problem: Problem) -> int:
    k = whole("agent", agent, least=0)
    if k >= problem.num_agents:
        raise ConfigError(f"There is no agent {k}; agents are 0 to {problem.num_agents - 1}.")
    return k


def _vector(value: ArrayLike, *, name: str, dimension: int) -> Floats:
    vector = _numbers(value, name=name)
    if vector.shape != (dimension,):
        raise ConfigError(f"{name} has shape {vector.shape}; it must be a vector of the model's {dimension} numbers.")
    return vector


def _numbers(value: ArrayLike, *, name: str) -> Floats:
    try:
        given = np.asarray(value)
    except ValueError as error:
        raise ConfigError(f"{name} is no rectangular array: {error}.") from error
    if given.dtype.kind not in "fiu":
        raise ConfigError(f"{name} holds {given.dtype}; it must hold real numbers.")
    if not np.isfinite(given).all():
        raise ConfigError(f"{name} holds NaN or infinity; give finite numbers.")
    return given.astype(np.float64)
