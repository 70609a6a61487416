"""The matched filter on runs that the simulator records: scores are as far apart as computed, mu = 3.

5000 runs per world give the distance to about 1.3 % (one standard error), so that 5 % accepts the truth and rejects noise a fifth stronger.
"""

import math

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.attacks.likelihood import matched_filter, statistic
from sottovoce.simulation.views import measure

LAW = sv.noise.Gaussian(std=0.7)
RING, HUB = sv.topologies.ring(6), sv.topologies.federation(5)
VICTIM, ROUNDS, RUNS, DIMENSION = 2, 5, 5000, 2


def tilt(w, batch):
    """The mean over records of slope . w."""
    return (batch[0] * w).sum(axis=-1).mean()


def linear_losses(slopes):
    """One record per agent: its gradient is the given slope [K, d] everywhere."""
    return sv.problems.custom_loss(tilt, np.full(slopes.shape[1], 0.3), slopes[:, None, :])


RECORDED = [
    (RING, sv.algorithms.atc(step_size=0.4), sv.noise.graph_homomorphic(LAW), sv.observers.eavesdropper()),
    (RING, sv.algorithms.atc(step_size=0.4), sv.noise.independent(LAW), sv.observers.curious_agent(4)),
    (
        RING,
        sv.algorithms.cta(step_size=0.4),
        sv.noise.gopa(LAW, pairwise_std=1.4),
        sv.observers.coalition([0, 4]) + sv.observers.final_model(),
    ),
    (RING, sv.algorithms.consensus(step_size=0.4), sv.noise.gradient(LAW), sv.observers.curious_agent(3)),
    (HUB, sv.algorithms.fedavg(step_size=0.4), sv.noise.independent(LAW), sv.observers.server()),
    (HUB, sv.algorithms.fedavg(step_size=0.4), sv.noise.gopa(LAW, pairwise_std=1.4), sv.observers.curious_agent(0)),
]


@pytest.mark.parametrize(
    "case", [pytest.param(i, marks=[] if i in (1, 4) else pytest.mark.slow) for i in range(len(RECORDED))]
)
def test_the_score_is_as_far_apart_in_recorded_runs_as_computed(case):
    arguments = RECORDED[case]
    options = {"rounds": ROUNDS, "agent": VICTIM, "direction": np.ones(ROUNDS)}
    size = 3.0 / matched_filter(*arguments, sensitivity=1.0, **options).mu
    matched = matched_filter(*arguments, sensitivity=size, **options)
    axes = np.array([[0.6, -0.8]])
    slopes = np.random.default_rng(5).standard_normal((arguments[0].num_agents, DIMENSION))
    changed = slopes.copy()
    changed[VICTIM] += size * axes[0]
    found = measure(
        [linear_losses(slopes), linear_losses(changed)], *arguments, statistic(matched, axes), rounds=ROUNDS, repeats=RUNS, seed=4
    )  # fmt: skip
    assert matched.mu == pytest.approx(3.0)
    assert found.shape == (2, RUNS)
    distance = (found[1].mean() - found[0].mean()) / math.sqrt(found.var(axis=1, ddof=1).mean())
    assert abs(distance / 3.0 - 1.0) < 0.05
    assert abs(distance / 3.0 - 1 / 1.2) > 0.05  # a fifth more noise would show
    expected = matched.centre(np.tile(slopes, (ROUNDS, 1, 1)), np.full(DIMENSION, 0.3), axes)
    assert abs(found[0].mean() - expected) < 5 * 3.0 / math.sqrt(RUNS)
