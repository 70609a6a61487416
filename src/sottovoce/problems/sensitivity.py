"""Sensitivity: how much one agent's gradient can change when the protected unit changes.

The gradient is an average of record gradients g_i, each clipped to norm C, over n_k records (or a batch of B), plus a
ridge that is no data:

    unit     adjacency    full gradient    batch of B    why
    agent    replace      2C               2C            two averages, each of norm <= C
    agent    add-remove   C                C             an average of norm <= C appears, or is replaced by zero
    record   replace      2C / n_k         2C / B        (g_i - g_i') / n
    record   add-remove   2C / n_k         2C / B        the divisor follows the data: see below

Add-remove with divisor n, n the larger set: mean_n - mean_{n-1} = (g_n - mean_{n-1}) / n, of norm <= 2C/n, attained
when g_n = -mean_{n-1}. C/n would hold only for a fixed divisor. Batches have a fixed B: where the removed record was
drawn another one stands, hence 2C/B.

The record rows compare gradients AT THE SAME MODEL. The agent rows hold between any two models only where nothing is added
after clipping: a ridge is a public function of the model, but moving from one model to another changes it by ridge times the
distance, which nothing bounds. With a ridge the agent rows too hold at the same model only. A `Sensitivity` says which.

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

Unit = Literal["record", "agent"]
Adjacency = Literal["replace", "add-remove"]
Compares = Literal["same model", "any two models"]


class Sensitivity(float):
    """A sensitivity that knows what it is true for; as a number it is a float, and arithmetic with it gives plain floats.

    Attributes:
        unit: what may change, "record" or "agent".
        adjacency: "replace" or "add-remove".
        norm: in which the change is measured.
        compares: gradients at the "same model", or at "any two models".
    """

    unit: Unit
    adjacency: Adjacency
    norm: Norm
    compares: Compares

    def __new__(cls, value: float, *, unit: Unit, adjacency: Adjacency, norm: Norm, compares: Compares) -> Sensitivity:
        """Mark a number."""
        made = super().__new__(cls, value)
        made.unit, made.adjacency, made.norm, made.compares = unit, adjacency, norm, compares
        return made

    def __getnewargs_ex__(self) -> tuple[tuple[float], dict[str, str]]:
        """What copies and pickles are made from."""
        marks: dict[str, str] = {
            "unit": self.unit,
            "adjacency": self.adjacency,
            "norm": self.norm,
            "compares": self.compares,
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
) -> float:
    """Return the largest change of one agent's gradient, by the table of this module.

    Args:
        diameter: the largest difference of two record gradients, 2C when clipped to C, in the norm of the noise's law.
        unit: "record" or "agent".
        adjacency: "replace" or "add-remove".
        sizes: the number of records of each agent, [K].
        batch_size: distinct records per batch; None is the full gradient.
        agent: the agent asked about; None is the worst of all.

    Returns:
        The sensitivity.

    Raises:
        ConfigError: an unknown unit or adjacency, an agent that does not exist, a batch larger than an agent's data.
    """
    _check_choice(unit, name="unit", allowed=get_args(Unit))
    _check_choice(adjacency, name="adjacency", allowed=get_args(Adjacency))
    smallest = _smallest_size(sizes, agent)
    divisor = smallest if batch_size is None else _checked_batch_size(batch_size, sizes, agent)
    if unit == "agent":
        return diameter if adjacency == "replace" else diameter / 2.0
    return diameter / divisor


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
) -> Sensitivity:
    """The largest change of one agent's clipped gradient, in `norm`, when the protected unit changes.

    Agent 2C (replace) or C (add-remove); record 2C/n_k, or 2C/B for batches of B distinct records. The ridge is not data, but with one
    even an agent's gradients are compared at the same model only.

    Args:
        problem: with `clip`, `dimension`, `ridge` and `sizes`.
        unit: "record" (at the same model) or "agent" (between any two models, where there is no ridge).
        adjacency: "replace" or "add-remove".
        norm: of the noise's law: "l1" for Laplace, "l2" for Gaussian and L2Laplace.
        clip: a bound applied elsewhere; None is the problem's own.
        batch_size: distinct records per batch; None is the full gradient.
        agent: None is the worst agent.

    Raises:
        ConfigError: nothing is clipped, or the request contradicts the problem.
    """
    used = required_clip(effective_clip(clip, problem.clip, norm))
    diameter = clipped_diameter(used, norm=norm, dimension=problem.dimension)
    value = gradient_sensitivity(
        diameter=diameter, unit=unit, adjacency=adjacency, sizes=problem.sizes, batch_size=batch_size, agent=agent
    )
    anywhere = unit == "agent" and problem.ridge == 0
    compares: Compares = "any two models" if anywhere else "same model"
    return Sensitivity(value, unit=unit, adjacency=adjacency, norm=norm, compares=compares)
