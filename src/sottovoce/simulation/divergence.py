"""Who left the finite numbers first, when a run did.

A message that is not a number spoils every receiver in the same round, so the models after the round do not tell whose
it was. The gradients at the models before the round do; and if all models are still finite, the risks at their centroid
tell whose loss is not.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.errors import UnsupportedClaim
from sottovoce.simulation.rounds.plan import Plan
from sottovoce.theory import likely_cause
from sottovoce.topologies import Topology

Array = Any


def cause_of(plan: Plan, topology: Topology, algorithm: Algorithm, round_: int) -> str:
    """One or two sentences on why a run left the finite numbers; with records in turns, their smoothness is what is known."""
    if plan.batch is not None:
        try:
            share = float(plan.batch.largest_share(plan.problem.sizes).max())
            beta = share * float(plan.problem.constants.record_smoothness)
        except UnsupportedClaim:  # no exact limit and no smoothness: the general advice
            return likely_cause(plan.problem, topology, algorithm, None, round_)
        return (
            f"Likely cause: with records in turns, steps above 2 / smoothness of a round's records = {2 / beta:.4g} are not stable in general. Take "
            f"a smaller step."
        )
    return likely_cause(plan.problem, topology, algorithm, plan.batch_size, round_)


def failing_agent(problem: Any, data: Any, weights: Array, *, before: Array, after: Array) -> int | None:
    """The first agent whose gradient, or else whose risk, is not finite; None when that explains nothing.

    Args:
        problem: the data and the loss.
        data: the problem's arrays, on the device of the models.
        weights: of the agents in the centroid, [K].
        before: the models before the round, finite, [K, d].
        after: the models after it, [K, d].
    """
    spoiled = ~np.isfinite(np.asarray(after)).all(axis=1)
    if spoiled.any():
        gradients = jax.jit(jax.vmap(problem.gradient))(before, data)
        guilty = spoiled & ~np.isfinite(np.asarray(gradients)).all(axis=1)
    else:
        risks = jax.jit(jax.vmap(problem.local_risk, in_axes=(None, 0)))(jnp.asarray(weights) @ after, data)
        guilty = ~np.isfinite(np.asarray(risks))
    return int(guilty.argmax()) if guilty.any() else None
