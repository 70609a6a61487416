"""What the numbers of a comparison rest on, in sentences for its footnotes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.algorithms import Algorithm
from sottovoce.experiments.claims import Claims, clipping
from sottovoce.experiments.comparison.result import Row
from sottovoce.experiments.releases import NOT_COMPUTED, largest
from sottovoce.noise import Noise
from sottovoce.problems import unit_in_words

MEASURED = "What was measured are exact statistics of the records, for the data's owner only: no epsilon covers them, nor the choice of a row by them."


def notes(
    problem: Any,
    algorithms: Mapping[str, Algorithm],
    noises: Mapping[str, Noise],
    sensitivity: Mapping[str, ArrayLike],
    claims: Claims,
    *,
    rounds: int,
    delta: float,
) -> tuple[str, ...]:
    """The footnotes: what is protected, what enforces the sensitivity, what was promised.

    Args:
        problem: that was simulated.
        algorithms: label -> algorithm.
        noises: label -> scheme.
        sensitivity: norm -> bound.
        claims: what was said of the data, checked before.
        rounds: of every run.
        delta: of every epsilon.
    """
    persons = problem.persons if claims.unit == "person" else None
    what = unit_in_words(claims.unit, None if persons is None else persons.records)
    change = "replaced" if claims.adjacency == "replace" else "added or removed"
    made = {
        f"Epsilon is at delta = {delta:g} after {rounds} rounds, for {what} of the agent that the observer learns most of ({change}).": None
    }
    for algorithm in algorithms.values():
        for noise in noises.values():
            if noise.law is None:
                continue
            largest = float(np.max(sensitivity[noise.law.norm]))
            only = (
                "; at the same model, since the ridge is added after"
                if _at_same_model(problem, algorithm, noise, claims)
                else ""
            )
            made[
                f"Sensitivity {largest:.4g} ({noise.law.norm}): enforced by {clipping(problem, algorithm, noise)}{only}."
            ] = None
    if claims.losses is not None:
        checked = "not checked" if problem.losses is None else "checked on the data at hand"
        made[
            f"Promised, {checked}: every local loss is convex, {claims.losses.beta:g}-smooth and {claims.losses.nu:g}-strongly convex. "
            f"Some of the guarantees rest on it."
        ] = None
    if claims.batch_size is not None:
        made[
            "Batches are drawn at random; any record may be drawn in any round, so that epsilon is an upper bound."
        ] = None
    return tuple(made)


def rows_note(rows: Sequence[Row], *, seed: int, repeats: int) -> str:
    """What the simulated rows may not be used for, and what their repeats would give away."""
    head = f"Simulated: anyone can draw this noise again from seed {seed}, so the models must not be released. All rows use the same random numbers"
    if repeats == 1:
        return f"{head}; epsilon is that of one row, whose one repeat would be one release."
    worst: dict[float, list[float | None]] = {}
    for row in rows:
        if row.possible:
            worst.setdefault(row.epsilon, []).append(row.epsilon_of_repeats)
    said = [f"{_together(found)} where one has {epsilon:g}" for epsilon, found in worst.items()]
    together = f", with epsilon {', '.join(said)}" if said else ""
    return f"{head}; epsilon is that of one run of one row, and its {repeats} repeats would be {repeats} releases{together}."


def _together(found: Sequence[float | None]) -> str:
    known = [value for value in found if value is not None]
    return NOT_COMPUTED if len(known) < len(found) else f"up to {largest(max(known))}"


def _at_same_model(problem: Any, algorithm: Algorithm, noise: Noise, claims: Claims) -> bool:
    return claims.unit == "agent" and bool(claims.kept(problem, algorithm, noise).same_model)
