"""Own noise that remembers its last rounds, for records that are seen once or in turns: from a question to `own_noise`."""

from collections.abc import Mapping

import numpy as np

from sottovoce.accounting import Cyclic, Question
from sottovoce.algorithms import Algorithm
from sottovoce.design.own_noise import OwnNoise, own_noise
from sottovoce.design.time import lag_gram, round_gram
from sottovoce.errors import UnsupportedClaim
from sottovoce.linear import diffusion_step, linear_rounds
from sottovoce.theory import When
from sottovoce.topologies import Topology

MOST_BANDS = 24
RIDGE = 1e-6


def remembering(
    topology: Topology,
    algorithm: Algorithm,
    question: Question,
    limits: np.ndarray,
    *,
    objective: Mapping[str, float],
    when: When,
    curvature: float | None,
    bands: int | None,
) -> OwnNoise:
    """The best own noise of every agent over rounds.

    Args:
        topology: fixed links.
        algorithm: atc with one step size.
        question: with records seen once or in turns.
        limits: [K] on the precision of white noise.
        objective: weights of "average" and "centroid".
        when: "final" or "mean".
        curvature: of all losses.
        bands: rounds that belong together; None: as many as the gap allows, up to 24.

    Raises:
        UnsupportedClaim: a steady state, a problem in place of a curvature, steps that change, or records that stop taking part.
    """
    forms = linear_rounds(algorithm, question.rounds).forms
    step = diffusion_step(forms[0])
    if when == "steady" or curvature is None or len(forms) > 1 or step is None:
        raise UnsupportedClaim(
            "time='own' is computed for the final model or the mean over rounds, one curvature and one step size. Give when='mean' or 'final', "
            "curvature=h, and a constant step_size."
        )
    turns, gap = (1, question.rounds) if not isinstance(question.participation, Cyclic) else _of(question.participation)
    if turns < -(-question.rounds // gap):
        raise UnsupportedClaim(
            f"time='own' is computed for records that take part every {gap} rounds until the end, {-(-question.rounds // gap)} times in "
            f"{question.rounds} rounds, and participation says {turns} times. Use sv.accounting.cyclic({-(-question.rounds // gap)}, {gap}), or fewer rounds."
        )
    known = {
        "average": np.eye(topology.num_agents) / topology.num_agents,
        "centroid": np.outer(topology.perron, topology.perron),
    }
    weights = sum(weight * known[name] for name, weight in objective.items())
    contraction = 1.0 - step.size * curvature
    grams = []
    for alone in np.eye(topology.num_agents):
        grams.append(round_gram(lag_gram(topology.matrix, contraction, question.rounds, alone, weights=weights), when))
    wanted = min(gap, MOST_BANDS) if bands is None else bands
    # Under white noise of variance one a record costs `turns` times (step Delta)^2, which is what the limits count in.
    # Noise of some rounds may cancel in the last model alone, and would have no end: count a little of every round.
    return own_noise(grams, turns * limits, gap=gap, bands=wanted, ridge=RIDGE if when == "final" else 0.0)


def _of(participation: Cyclic) -> tuple[int, int]:
    return participation.times, participation.gap
