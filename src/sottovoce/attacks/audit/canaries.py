"""Neighbouring worlds for an audit: two problems that differ in one agent's data, by as much as the claim allows.

A canary is a linear loss: agent k holds one record s_k and its gradient is s_k wherever it looks (plus nu w with a ridge nu, the same in both
worlds). With a unit vector e, in the norm of the noise's law, and the sensitivity Delta,

    replace       s_p = -(Delta/2) e   against   s_p = +(Delta/2) e
    add-remove    s_p = 0              against   s_p = Delta e

so that any two gradients of agent p at the same model differ by exactly Delta. Where whole updates are clipped to C, the records are so large that
every update is clipped: the updates are -C e and C e, or 0 and C e.

`record_worlds` changes one record of a real problem instead, `person_worlds` all records of one person. Gradients then react to what agents hear, and how far apart the worlds are is for the
data to say: never further than the sensitivity if that is true.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.accounting.question.clipped_updates import update_sensitivity
from sottovoce.algorithms import Algorithm
from sottovoce.attacks.arrays import Floats, finite
from sottovoce.attacks.transcript import agent_gradient
from sottovoce.clipping import vector_norm
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.numbers import checked, chosen, whole
from sottovoce.problems import (
    Adjacency,
    ClippedGradients,
    CustomLoss,
    LinearRegression,
    LogisticRegression,
    MeanEstimation,
    custom_loss,
)
from sottovoce.topologies import Topology

Array = Any
Worlds = tuple[Any, Any]  # the same problem with the data of one agent in two versions
SATURATION = 1e6  # updates are made this many times as large as the clip, so that it always acts

_RECORDS = {
    LinearRegression: ("features", "targets"),
    LogisticRegression: ("features", "labels"),
    MeanEstimation: ("points",),
}


class LinearChange(NamedTuple):
    """A change of constant gradients as the linear view knows it."""

    algorithm: Algorithm  # the one-step algorithm that sends the same
    size: float  # the l2 norm of the largest change of a round
    direction: Floats  # [T] of every round, in units of the size
    axis: Floats  # [d] unit vector in l2


def linear_loss(parameters: Array, batch: tuple[Array, ...]) -> Array:
    """The mean over records s of s . w."""
    return (batch[0] * parameters).sum(axis=-1).mean()


def canary_worlds(
    topology: Topology,
    algorithm: Algorithm,
    *,
    sensitivity: float,
    agent: int,
    axis: ArrayLike,
    adjacency: Adjacency = "replace",
    others: ArrayLike | None = None,
    ridge: float = 0.0,
) -> tuple[CustomLoss, CustomLoss]:
    """Two problems whose gradients are constant and differ by the sensitivity at one agent.

    Args:
        topology: how many agents.
        algorithm: whether whole updates are clipped.
        sensitivity: Delta, the size of the change; for clipped updates it must be the one that the clip gives.
        agent: p, whose gradients differ.
        axis: [d] the direction of the change, of norm 1 in the norm of the sensitivity (l1 or l2).
        adjacency: "replace" or "add-remove".
        others: [K, d] gradients of the other agents; None: zero. Row p is not read.
        ridge: nu, where losses are promised to be strongly convex.
    """
    e, p, K = finite("axis", axis, axes=1), whole("agent", agent, least=0), topology.num_agents
    size = checked("sensitivity", sensitivity, "(0, 1e100)")
    chosen("adjacency", adjacency, ("replace", "add-remove"))
    if min(abs(np.abs(e).sum() - 1.0), abs(np.linalg.norm(e) - 1.0)) > 1e-9:
        raise ConfigError(f"axis has l2 norm {np.linalg.norm(e):g}; it needs norm 1 in l1 or l2, the norm of the law.")
    if p >= K:
        raise ConfigError(f"agent = {p}; the agents are 0 to {K - 1}.")
    slopes = np.zeros((K, len(e))) if others is None else finite("others", others, axes=2)
    if slopes.shape != (K, len(e)):
        raise ConfigError(f"others have shape {slopes.shape}; needed is {(K, len(e))}, a gradient for every agent.")
    if algorithm.clipped_update is not None:
        size = _saturating(algorithm, e, size, adjacency)
    ends = (-0.5, 0.5) if adjacency == "replace" else (0.0, 1.0)
    made = []
    for end in ends:
        own = slopes.copy()
        own[p] = end * size * e
        made.append(custom_loss(linear_loss, np.zeros(len(e)), own[:, None, :], ridge=ridge))
    return made[0], made[1]


def record_worlds(problem: Any, agent: int, record: int, replacement: tuple[Any, ...]) -> Worlds:
    """The problem, and the same one with one record replaced.

    Args:
        problem: linear or logistic regression, mean estimation, classification or a custom loss.
        agent: whose record.
        record: which of its records.
        replacement: the new record, an entry for each array of records: (features, target), or (point,).

    Raises:
        ConfigError: no such record, or one of another shape.
        UnsupportedClaim: another kind of problem.
    """
    if isinstance(problem, ClippedGradients):
        _, other = record_worlds(problem.problem, agent, record, replacement)
        return problem, dataclasses.replace(problem, problem=other)
    k, i = whole("agent", agent, least=0), whole("record", record, least=0)
    custom, names = isinstance(problem, CustomLoss), _record_names(problem)
    if not names:
        raise UnsupportedClaim(
            f"records of a {type(problem).__name__} cannot be replaced one by one. Build the two problems and give them as worlds."
        )
    if k >= problem.num_agents or i >= problem.sizes[min(k, problem.num_agents - 1)]:
        raise ConfigError(f"agent {k} has no record {i}; the problem has records {problem.sizes.tolist()} per agent.")
    if not isinstance(replacement, tuple) or len(replacement) != len(names):
        raise ConfigError(f"replacement = {replacement!r}; needed is a tuple with one entry for each of {names}.")
    held = {name: problem.arrays[name] if custom else getattr(problem, name) for name in names}
    pairs = zip(names, replacement, strict=True)
    changed = {name: _replaced(name, held[name], (k, i), value) for name, value in pairs}
    _check_values(problem, changed, k, i)
    new_fields = {"arrays": {**problem.arrays, **changed}} if custom else changed
    return problem, dataclasses.replace(problem, **new_fields)


def person_worlds(problem: Any, agent: int, records: Sequence[int], replacements: Sequence[tuple[Any, ...]]) -> Worlds:
    """The problem, and the same one with all records of one person replaced.

    Args:
        problem: as for `record_worlds`; what it declares of persons must hold.
        agent: where the person's records are.
        records: which of the agent's records they are.
        replacements: the new records, in the same order.

    Raises:
        ConfigError: records that are named twice, more of them than a person may have, or others than there are replacements for.
        UnsupportedClaim: another kind of problem.
    """
    if len(set(records)) != len(records) or len(records) != len(replacements) or not len(records):
        raise ConfigError(
            f"records = {list(records)} and {len(replacements)} replacements; name each record of the person once, with one replacement."
        )
    if problem.persons is not None and len(records) > problem.persons.records:
        raise ConfigError(
            f"{len(records)} records of one person, but the problem declares records_per_person = {problem.persons.records}. Change fewer."
        )
    changed = problem
    for record, replacement in zip(records, replacements, strict=True):
        _, changed = record_worlds(changed, agent, record, replacement)
    return problem, changed


def _record_names(problem: Any) -> tuple[str, ...]:
    """The arrays that hold one entry per record, in the order in which a record is given."""
    if isinstance(problem, CustomLoss):
        return tuple(name for name in problem.arrays if name != "count")
    return _RECORDS.get(type(problem), ())


def _replaced(name: str, held: Any, place: tuple[int, int], value: Any) -> Any:
    """A copy of an array of records with another one at (agent, record)."""
    new, given = np.array(held), np.asarray(value)
    if given.shape != new.shape[2:] or given.dtype.kind not in "fiu" or not np.isfinite(given).all():
        raise ConfigError(f"replacement {name} has shape {given.shape}; needed are numbers of shape {new.shape[2:]}.")
    new[place] = given
    new.setflags(write=False)
    return new


def changed_agent(worlds: Worlds) -> int:
    """The one agent whose data differ between the worlds.

    Raises:
        ConfigError: no agent, or several.
    """
    first, second = (world.arrays for world in worlds)
    differs = np.zeros(worlds[0].num_agents, dtype=bool)
    for name in first:
        if np.shape(first[name]) != np.shape(second[name]):
            raise ConfigError(f"the worlds' {name} have shapes {np.shape(first[name])} and {np.shape(second[name])}.")
        differs |= np.array([not np.array_equal(a, b) for a, b in zip(first[name], second[name], strict=True)])
    if differs.sum() != 1:
        raise ConfigError(
            f"the worlds differ in the data of agents {np.flatnonzero(differs).tolist()}; they must differ in those of exactly one agent."
        )
    return int(np.flatnonzero(differs)[0])


def first_change(worlds: Worlds, agent: int) -> Floats:
    """[d] the unit vector along which the agent's gradients differ at the first model.

    Raises:
        ConfigError: they do not differ there.
    """
    model = np.asarray(worlds[0].initial_model, dtype=np.float64)
    start = [np.asarray(agent_gradient(world, agent)(model)) for world in worlds]
    change: Floats = start[1] - start[0]
    size = float(np.linalg.norm(change))
    if size == 0.0:
        raise ConfigError(
            f"agent {agent} has the same gradient in both worlds at the first model, so the attack has no direction. Choose another record."
        )
    return change / size


def linear_change(worlds: Worlds, algorithm: Algorithm, agent: int, rounds: int) -> LinearChange | None:
    """How constant gradients change a linear run; None where gradients react to models, or the change turns from round to round.

    Several local steps on a constant gradient are one step along their sum, and a clipped update is one step of norm at most C.
    """
    if not all(_is_one_linear_record(world) for world in worlds):
        return None
    slopes = [np.asarray(world.arrays["features"][agent, 0], dtype=np.float64) for world in worlds]
    rows, one = np.tile(slopes[1] - slopes[0], (rounds, 1)), algorithm
    reduced = algorithm.clipped_update or algorithm.local_steps
    if reduced is not None:
        one = reduced.one_step
        rows = np.stack([_step_change(algorithm, one, slopes, t) for t in range(1, rounds + 1)])
    sizes = np.linalg.norm(rows, axis=1)
    size = float(sizes.max())
    if size == 0.0:
        return None
    axis = rows[int(sizes.argmax())] / size
    direction = rows @ axis / size
    if not np.allclose(np.outer(direction, axis) * size, rows, rtol=0.0, atol=1e-9 * size):
        return None
    return LinearChange(one, size, direction, axis)


def _is_one_linear_record(world: Any) -> bool:
    """Whether all gradients are constant; of several records a batch has another one than the whole."""
    constant = isinstance(world, CustomLoss) and world.loss is linear_loss and world.ridge == 0 and not world.clip
    return constant and np.asarray(world.sizes).max() <= 1


def _step_change(algorithm: Algorithm, one: Algorithm, slopes: list[Floats], round_: int) -> Floats:
    """The change of the gradient of one step that sends what the algorithm sends, from the model 0."""
    nothing = np.zeros_like(slopes[0])

    def sent(what: Algorithm, slope: Floats) -> Floats:
        return np.asarray(what.exchanges[0].message(nothing, lambda w, step=0: slope + 0.0 * w, round_))

    moved = sent(algorithm, slopes[1]) - sent(algorithm, slopes[0])
    per_unit = sent(one, np.ones_like(nothing)) - sent(one, nothing)  # the same in every coordinate
    change: Floats = moved / per_unit
    return change


def _saturating(algorithm: Algorithm, axis: Floats, sensitivity: float, adjacency: Adjacency) -> float:
    """A size of records with which every update is clipped."""
    assert algorithm.clipped_update is not None
    clip = algorithm.clipped_update.clip
    needed = update_sensitivity(clip, unit="agent", adjacency=adjacency)
    # A record may turn its agent's update round, so both sizes are claims that somebody makes.
    if all(abs(sensitivity - size) > 1e-9 * size for size in (needed, 2.0 * clip.bound)):
        raise ConfigError(
            f"sensitivity = {sensitivity:g}, but updates are clipped to {clip.bound:g}: '{adjacency}' changes one by at most {needed:g}."
        )
    step = algorithm.parameters.get("step_size")
    slowest = min(1.0, float(step)) if isinstance(step, int | float) else 1.0
    return SATURATION * clip.bound / (slowest * float(vector_norm(axis, clip.norm)))


def _check_values(problem: Any, changed: dict[str, Floats], agent: int, record: int) -> None:
    """Refuse labels and points that the problem would refuse."""
    if isinstance(problem, LogisticRegression) and abs(changed["labels"][agent, record]) != 1.0:
        raise ConfigError(f"the label is {changed['labels'][agent, record]:g}; a logistic label is held as -1 or 1.")
    if isinstance(problem, MeanEstimation) and np.abs(changed["points"][agent, record]).max() > problem.radius:
        raise ConfigError(f"the point leaves the box of radius {problem.radius:g}, which the sensitivity rests on.")
