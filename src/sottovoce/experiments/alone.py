"""What each agent would have without the others: the best model for its own records, without noise and clipping.

Where the minimiser is known it is taken. Where it is not (a network, or classes that a model separates without a ridge), every agent learns by
gradient steps of the run's own size, as many as the run took, and listens to nobody.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from sottovoce.algorithms import Algorithm, Exchange
from sottovoce.errors import Diverged, UnsupportedClaim
from sottovoce.experiments.experiment import Experiment
from sottovoce.experiments.scores import unclipped
from sottovoce.noise import none
from sottovoce.problems import LinearRegression, LogisticRegression, MeanEstimation
from sottovoce.simulation import simulate
from sottovoce.topologies import federation

MOST_AGENTS = 100  # whose own minimisers are computed
Models = np.ndarray  # [K, d]


def models_alone(experiment: Experiment, rounds: int) -> tuple[Models, tuple[str, ...]]:
    """Models of agents from their own records, and notes where not all agents were looked at, or the models are not the best ones.

    Args:
        experiment: what was run.
        rounds: that it ran.

    Returns:
        ([K, d], notes); of at most a hundred agents, evenly spaced; no rows where no agent can learn alone.
    """
    problem = unclipped(experiment.problem)
    looked_at = np.unique(np.linspace(0, problem.num_agents - 1, min(problem.num_agents, MOST_AGENTS)).astype(int))
    some = f"Alone, {MOST_AGENTS} of the {problem.num_agents:,} agents were looked at."
    try:
        models = np.stack([_optimum(problem, int(agent)) for agent in looked_at])
        return models, () if len(models) == problem.num_agents else (some,)
    except UnsupportedClaim:
        return _learnt(experiment, problem, rounds)


def _optimum(problem: Any, agent: int) -> np.ndarray:
    """The minimiser of one agent's own risk, from its own rows alone: other agents' rows would only cost time."""
    size = int(problem.sizes[agent])
    own = {"sizes": problem.sizes[agent : agent + 1]}
    names = {
        LinearRegression: ("features", "targets"),
        LogisticRegression: ("features", "labels"),
        MeanEstimation: ("points",),
    }
    if type(problem) not in names:
        found: np.ndarray = problem.weighted_optimum(np.eye(problem.num_agents)[agent])
        return found
    for name in names[type(problem)]:
        own[name] = getattr(problem, name)[agent : agent + 1, :size]
    best: np.ndarray = replace(problem, **own).optimum
    return best


def _learnt(experiment: Experiment, problem: Any, rounds: int) -> tuple[Models, tuple[str, ...]]:
    """What gradient steps give an agent that listens to nobody; the network does not matter to it."""
    step_size, nothing = experiment.algorithm.parameters.get("step_size"), np.empty((0, problem.dimension))
    if not isinstance(step_size, int | float) or problem.num_agents < 2:
        return nothing, ()
    try:
        run = simulate(
            problem,
            federation(problem.num_agents),
            _deaf(step_size),
            none(),
            rounds=rounds * experiment.algorithm.gradients_per_round,
            seed=experiment.seed,
            batch_size=experiment.batch_size,
            batch=experiment.batch,
            dtype=experiment.dtype,
            record=["disagreement"],
            progress=False,
        )
    except Diverged:
        return nothing, ("Alone, learning with this step size diverges.",)
    return run.models[0, :MOST_AGENTS], ("Alone, each agent took as many gradient steps as in the run.",)


def _deaf(step_size: float) -> Algorithm:
    """Gradient steps of an agent that listens to nobody."""

    def message(w: Any, gradient: Any, round_: Any) -> Any:
        return w

    def update(w: Any, received: Any, gradient: Any, round_: Any) -> Any:
        return w - step_size * gradient(w)

    return Algorithm("alone", (Exchange(message, update),), parameters={"step_size": step_size})
