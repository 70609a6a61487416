"""Sensitivity: how much one agent's gradient can change when the protected unit changes.

The gradient is an average of record gradients g_i, each clipped to norm C, over n_k records (or a batch of B), plus a
ridge that is no data:

    unit     adjacency    full gradient    batch of B    why
    agent    replace      2C               2C            two averages, each of norm <= C
    agent    add-remove   C                C             an average of norm <= C appears, or is replaced by zero
    record   replace      2C / n_k         2C / B        (g_i - g_i') / n
    record   add-remove   2C / n_k         2C / B        the divisor follows the data: see below
    person   replace      2C m' / n_k      2C m'' / B    m' = min(m, n_k) records change, m'' = min(m, B) of a batch
    person   add-remove   2C m' / n_k      2C m'' / B    where the agent has more than m records, or at least m + B

Add-remove with divisor n, n the larger set: mean_n - mean_{n-1} = (g_n - mean_{n-1}) / n, of norm <= 2C/n, attained
when g_n = -mean_{n-1}. C/n would hold only for a fixed divisor. Batches have a fixed B: where the removed record was
drawn another one stands, hence 2C/B.

A person has at most m records, all at one agent (`persons`). With j <= m of n taken away, mean_n - mean_{n-j} is the sum of
the j differences g_i - mean_{n-j}, over n: at most 2C j/n, attained as above. With j more than the n at hand it is at most
2C j/(n + j) <= 2C min(m, n)/n. Batches are compared by the same draw, in which others stand for those taken away; that
takes B records besides the person's. An agent that is left without records, or without a whole batch, is refused.

The record and person rows compare gradients AT THE SAME MODEL. The agent rows hold between any two models only where nothing is added
after clipping: a ridge is a public function of the model, but moving from one model to another changes it by ridge times the
distance, which nothing bounds. With a ridge the agent rows too hold at the same model only. A `Sensitivity` says which.

Records in turns (`batches.cyclic_batch`, every record with the weight gap / n_k in its rounds): a record replaced at its place changes the
gradient of its rounds by 2C gap / n_k at the same model, m records of a person by min(m, ceil(n_k / gap)) times that. Taking a record away would
move those after it to other rounds, so "add-remove" is refused for records and persons. The weights of a round sum to at most
s(n) = gap ceil(n / gap) / n <= 2 gap / (gap + 1), so an agent's gradient has norm at most C s(n_k), and other data of any number of records at most
2C gap / (gap + 1): an agent's data replaced change it by at most the sum of the two, and taken away by the first.

A batch holds DISTINCT records. Were records drawn with replacement inside one batch, a record could enter B times and
the record rows would be 2C, not 2C/B.

Norms. ||g||_2 <= ||g||_1 <= sqrt(d) ||g||_2, so gradients clipped in l1 have the same bound in l2, and gradients
clipped in l2 have it times sqrt(d) in l1. Both are bounds, never equalities to rely on.
"""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sottovoce.clipping import Clip, Norm, check_norm
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.numbers import is_whole
from sottovoce.problems.batches import Batch, check_batch
from sottovoce.problems.persons import Persons

Unit = Literal["record", "agent", "person"]
Adjacency = Literal["replace", "add-remove"]
Compares = Literal["same model", "any two models"]


class Sensitivity(float):
    """A sensitivity that knows what it is true for; as a number it is a float, and arithmetic with it gives plain floats.

    Attributes:
        unit: what may change, "record", "agent" or "person".
        adjacency: "replace" or "add-remove".
        norm: in which the change is measured.
        compares: gradients at the "same model", or at "any two models".
        persons: what is known of persons, where the unit is one; else None.
        whole_gradient: whether it rests on clipping an agent's whole gradient, with which no promise about losses survives.
    """

    unit: Unit
    adjacency: Adjacency
    norm: Norm
    compares: Compares
    persons: Persons | None
    whole_gradient: bool

    def __new__(
        cls,
        value: float,
        *,
        unit: Unit,
        adjacency: Adjacency,
        norm: Norm,
        compares: Compares,
        persons: Persons | None = None,
        whole_gradient: bool = False,
    ) -> Sensitivity:
        """Mark a number."""
        made = super().__new__(cls, value)
        made.unit, made.adjacency, made.norm, made.compares, made.persons = unit, adjacency, norm, compares, persons
        made.whole_gradient = whole_gradient
        return made

    def __getnewargs_ex__(self) -> tuple[tuple[float], dict[str, Any]]:
        """What copies and pickles are made from."""
        marks: dict[str, Any] = {
            "unit": self.unit,
            "adjacency": self.adjacency,
            "norm": self.norm,
            "compares": self.compares,
            "persons": self.persons,
            "whole_gradient": self.whole_gradient,
        }
        return (float(self),), marks


def gradient_sensitivity(
    *,
    diameter: float,
    unit: Unit,
    adjacency: Adjacency,
    sizes: NDArray[np.int64],
    batch_size: int | None = None,
    agent: int | None = None,
    persons: Persons | None = None,
    batch: Batch | None = None,
) -> float:
    """Return the largest change of one agent's gradient, by the table of this module.

    Args:
        diameter: the largest difference of two record gradients, 2C when clipped to C, in the norm of the noise's law.
        unit: "record", "agent" or "person".
        adjacency: "replace" or "add-remove".
        sizes: the number of records of each agent, [K].
        batch_size: distinct records per batch; None is the full gradient.
        agent: the agent asked about; None is the worst of all.
        persons: what is known of persons; needed for unit="person".
        batch: whose turn it is in every round; None where batches are not fixed in advance.

    Returns:
        The sensitivity.

    Raises:
        ConfigError: an unknown unit or adjacency, an agent that does not exist, a batch larger than an agent's data, persons of
            whom nothing is known.
        UnsupportedClaim: a person whose records an agent cannot do without, or records in turns of which one is taken away.
    """
    _check_choice(unit, name="unit", allowed=get_args(Unit))
    _check_choice(adjacency, name="adjacency", allowed=get_args(Adjacency))
    smallest = _smallest_size(sizes, agent)
    check_batch(batch, batch_size)
    if batch is not None:
        asked = sizes if agent is None else sizes[[agent]]
        return diameter * _in_turns(batch, unit, adjacency, asked, persons)
    divisor = smallest if batch_size is None else _checked_batch_size(batch_size, sizes, agent)
    if unit == "agent":
        return diameter if adjacency == "replace" else diameter / 2.0
    if unit == "record":
        return diameter / divisor
    most = required_persons(persons).records
    if adjacency == "add-remove":
        _refuse_nothing_left(most, smallest, batch_size)
    return diameter * min(most, divisor) / divisor


def _in_turns(
    batch: Batch, unit: Unit, adjacency: Adjacency, sizes: NDArray[np.int64], persons: Persons | None
) -> float:
    """The largest change of a gradient of records in turns, in diameters; see the module."""
    batch.check(sizes)
    if unit == "agent":
        own, other = float(batch.largest_share(sizes).max()), 2.0 * batch.gap / (batch.gap + 1.0)
        return (own + other) / 2.0 if adjacency == "replace" else own / 2.0
    if adjacency == "add-remove":
        raise UnsupportedClaim(
            f"adjacency='add-remove' with unit='{unit}' and records in turns, {batch!r}: taking a record away would move all records after it to "
            f"other rounds. Use adjacency='replace'."
        )
    if unit == "record":
        return float((batch.gap / sizes).max())
    at_once = np.minimum(required_persons(persons).records, -(-sizes // batch.gap))
    return float((batch.gap * at_once / sizes).max())


def required_persons(persons: Persons | None) -> Persons:
    """Refuse to speak of persons of whom nothing is known.

    Raises:
        ConfigError: saying how to declare them.
    """
    if persons is None:
        raise ConfigError(
            "unit='person' needs to know how many records one person may have, and that they are all at one agent; this problem "
            "says nothing of persons. Use problem.with_persons(records_per_person=m, persons=[...]). There is no default."
        )
    return persons


def unit_in_words(unit: Unit, most: int | None = None) -> str:
    """What is protected, as sentences say it; `most` is the largest number of records of one person, where it is known."""
    if unit == "person":
        return f"all records of one person{'' if most is None else f' (at most {most})'}"
    return "one record" if unit == "record" else "all data"


def _refuse_nothing_left(most: int, smallest: int, batch_size: int | None) -> None:
    """Refuse to take a person away where too few records would remain to compute a gradient from."""
    needed = 1 if batch_size is None else batch_size
    if smallest - most < needed:
        raise UnsupportedClaim(
            f"adjacency='add-remove' with unit='person': a person may have {most} of an agent's {smallest} records, and without them "
            f"fewer than the {needed} that a gradient needs would remain. Use adjacency='replace', or agents with at least "
            f"{most + needed} records."
        )


def clipped_diameter(clip: Clip, *, norm: Norm, dimension: int) -> float:
    """Return the largest difference, in `norm`, of two vectors that lie in the clip's ball."""
    factor = math.sqrt(dimension) if (clip.norm, norm) == ("l2", "l1") else 1.0
    return 2.0 * clip.bound * factor


def effective_clip(clip: float | Clip | None, own: Clip | None, norm: Norm) -> Clip | None:
    """Return the clip a sensitivity may rest on, refusing a contradiction.

    Args:
        clip: what the caller says: a bound (in `norm`, unless the problem has its own clip), a Clip, or None.
        own: what the problem really clips to, or None.
        norm: the norm of the noise's law.

    Raises:
        ConfigError: the caller's clip is not the one the problem applies.
    """
    check_norm(norm)
    if clip is None:
        return own
    given = clip if isinstance(clip, Clip) else Clip(clip, norm if own is None else own.norm)
    if own is not None and given != own:
        raise ConfigError(
            f"sensitivity was asked for clip={given.bound:g} ({given.norm}), but this problem clips to {own.bound:g} "
            f"({own.norm}). "
            f"Omit clip, or ask problem.with_clipping({given.bound:g}, '{given.norm}')."
        )
    return given


def required_clip(clip: Clip | None) -> Clip:
    """Refuse to state a sensitivity of unclipped gradients: there is none."""
    if clip is None:
        raise ConfigError(
            "The gradients of this problem are not clipped, so no sensitivity is true for them. Use "
            "problem.with_clipping(clip, norm), "
            "or pass clip= if every record's gradient is clipped elsewhere. There is no default clip."
        )
    return clip


def box_diameter(radius: float, *, unit: Unit, norm: Norm, dimension: int) -> float:
    """Return the largest difference of two record gradients w - x at the same model, x in the box [-R, R]^d.

    ||x - x'||_2 <= 2 R sqrt(d) and ||x - x'||_1 <= 2 R d.

    Raises:
        UnsupportedClaim: for unit="agent", which compares gradients at ANY two models: w - x grows with w.
    """
    if unit == "agent":
        raise UnsupportedClaim(
            "unit='agent' needs a bound on the difference of ANY two gradients, but w - x grows with the model w; the "
            "box bounds only the "
            "points. Use problem.with_clipping(clip, norm), or unit='record'."
        )
    return 2.0 * radius * (math.sqrt(dimension) if norm == "l2" else float(dimension))


def _smallest_size(sizes: NDArray[np.int64], agent: int | None) -> int:
    if agent is None:
        return int(sizes.min())
    if not is_whole(agent, 0, len(sizes) - 1):
        raise ConfigError(f"There is no agent {agent!r}; agents are 0 to {len(sizes) - 1}.")
    return int(sizes[agent])


def _checked_batch_size(batch_size: Any, sizes: NDArray[np.int64], agent: int | None) -> int:
    if not is_whole(batch_size, 1):
        raise ConfigError(
            f"batch_size must be a whole number of at least 1, or None for the full gradient; got {batch_size!r}."
        )
    size = int(batch_size)
    asked = range(len(sizes)) if agent is None else [agent]
    for k in asked:
        if size > sizes[k]:
            raise ConfigError(
                f"A batch holds distinct records, but batch_size={size} exceeds the {sizes[k]} record(s) of agent {k}. "
                f"Use batch_size <= {int(sizes[list(asked)].min())} or None for the full gradient."
            )
    return size


def _check_choice(value: str, *, name: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigError(f"{name} must be one of {', '.join(map(repr, allowed))}; got {value!r}.")


def clipped_sensitivity(
    problem: Any,
    *,
    unit: Unit,
    adjacency: Adjacency,
    norm: Norm,
    clip: float | Clip | None,
    batch_size: int | None,
    agent: int | None,
    batch: Batch | None = None,
) -> Sensitivity:
    """The largest change of one agent's clipped gradient, in `norm`, when the protected unit changes.

    Agent 2C (replace) or C (add-remove); record 2C/n_k, or 2C/B for batches of B distinct records; person as many times as much as it
    has records there. The ridge is not data, but with one even an agent's gradients are compared at the same model only.

    Args:
        problem: with `clip`, `dimension`, `ridge`, `sizes` and, for persons, `persons`.
        unit: "record" or "person" (at the same model), or "agent" (between any two models, where there is no ridge).
        adjacency: "replace" or "add-remove".
        norm: of the noise's law: "l1" for Laplace, "l2" for Gaussian and L2Laplace.
        clip: a bound applied elsewhere; None is the problem's own.
        batch_size: distinct records per batch; None is the full gradient.
        agent: None is the worst agent.
        batch: whose turn it is in every round; None where batches are not fixed in advance.

    Raises:
        ConfigError: nothing is clipped, or the request contradicts the problem.
        UnsupportedClaim: a person whose records an agent cannot do without.
    """
    used = required_clip(effective_clip(clip, problem.clip, norm))
    diameter = clipped_diameter(used, norm=norm, dimension=problem.dimension)
    persons = problem.persons if unit == "person" else None
    value = gradient_sensitivity(
        diameter=diameter, unit=unit, adjacency=adjacency, sizes=problem.sizes, batch_size=batch_size, agent=agent, persons=persons, batch=batch
    )  # fmt: skip
    anywhere = unit == "agent" and problem.ridge == 0
    compares: Compares = "any two models" if anywhere else "same model"
    return Sensitivity(value, unit=unit, adjacency=adjacency, norm=norm, compares=compares, persons=persons)
