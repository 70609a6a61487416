"""What the numbers of a comparison rest on, in sentences for its footnotes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.accounting.case import Adjacency, Unit
from sottovoce.accounting.participation import Participation
from sottovoce.problems import ConvexSmooth

SLACK = 1e-12


def notes(
    problem: Any,
    sensitivity: Mapping[str, ArrayLike],
    *,
    unit: Unit,
    adjacency: Adjacency,
    participation: Participation,
    losses: ConvexSmooth | None,
    same_model: bool | None,
    batch_size: int | None,
    rounds: int,
    delta: float,
) -> tuple[str, ...]:
    """The footnotes: what is protected, why the sensitivity is true, what was promised."""
    what = "one record" if unit == "record" else "all data"
    change = "replaced" if adjacency == "replace" else "added or removed"
    made = [
        f"Epsilon is at delta = {delta:g} after {rounds} rounds, for {what} of the agent that the observer learns most of ({change})."
    ]
    made += [
        _why_true(problem, norm, bound, unit=unit, adjacency=adjacency, same_model=same_model, batch_size=batch_size)
        for norm, bound in sensitivity.items()
    ]
    if losses is not None:
        made.append(
            f"Promised, not checked: every local loss is convex, {losses.beta:g}-smooth and {losses.nu:g}-strongly convex. Some of the "
            f"guarantees rest on it."
        )
    if participation != "every-round":
        made.append(
            f"Accounted for records that take part as promised ({participation}); the simulated agents use their records in every round."
        )
    return tuple(made)


def _why_true(
    problem: Any,
    norm: str,
    bound: ArrayLike,
    *,
    unit: Unit,
    adjacency: Adjacency,
    same_model: bool | None,
    batch_size: int | None,
) -> str:
    largest = float(np.max(bound))
    head = f"Sensitivity {largest:.4g} ({norm})"
    if problem.clip is None:
        return f"{head}: promised. The gradients are not clipped, so nothing enforces it."
    enforced = np.array(
        [
            problem.sensitivity(unit=unit, adjacency=adjacency, norm=norm, batch_size=batch_size, agent=agent)
            for agent in range(problem.num_agents)
        ]
    )
    clip = f"clipping every record's gradient to {problem.clip.bound:g} ({problem.clip.norm})"
    if (np.broadcast_to(np.asarray(bound, dtype=float), enforced.shape) < enforced * (1 - SLACK)).any():
        return f"{head}: promised. It is below {enforced.max():.4g}, which {clip} enforces."
    anywhere = unit == "agent" and not same_model
    if anywhere and problem.describe().get("ridge", 0.0) > 0:
        return (
            f"{head}: promised. {clip[0].upper()}{clip[1:]} enforces it at the same model only, since the ridge is added after clipping; "
            f"same_model=True says so."
        )
    return f"{head}: enforced by {clip}."
