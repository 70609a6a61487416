"""Noise of a generator in recorded runs: what members were told is in their view, and the best test is as good as computed.

3000 runs per world give mu = 3 to about 2 % (one standard error): 7 % accepts the truth, and rejects a test that forgets what members were told.
"""

import math

import numpy as np
import pytest

import sottovoce as sv
from accounting.stacked_maps import generated_noise, table_noise
from sottovoce.attacks.audit import audit
from sottovoce.attacks.likelihood import matched_filter, statistic
from sottovoce.noise import GENERATOR
from sottovoce.simulation.views import measure

RING, HUB = sv.topologies.ring(5), sv.topologies.federation(5)
ATC, FEDAVG = sv.algorithms.atc(step_size=0.4), sv.algorithms.fedavg(step_size=0.4)
L = np.random.default_rng(0).standard_normal((5, 5)) + np.eye(5)
ROUNDS, RUNS = 4, 3000


def tilt(w, batch):
    """The mean over records of slope . w."""
    return (batch[0] * w).sum(axis=-1).mean()


def linear_losses(slopes):
    """One record per agent: its gradient is the given slope [K, d] everywhere."""
    return sv.problems.custom_loss(tilt, np.full(slopes.shape[1], 0.3), slopes[:, None, :])


def test_members_see_the_sum_that_they_add_and_no_source():
    noise = table_noise(np.hstack([np.eye(5), L]), [[k] for k in range(5)] + [[GENERATOR]] * 5)
    observer = sv.observers.coalition([1, 3]) + sv.observers.eavesdropper()
    nothing = linear_losses(np.zeros((5, 2)))
    seen = sv.observe(nothing, RING, ATC, noise, observer, rounds=2, repeats=3, seed=1)
    assert seen.layout.sources[0].tolist() == [[1, -1], [3, -1], [GENERATOR, 1], [GENERATOR, 3]]
    for position, member in enumerate((1, 3)):
        sent = seen.messages[0][
            :, 0, seen.layout.links[0][:, 0] == member
        ]  # the first round: the first model and noise
        added = seen.sources[0][:, 0, position] + seen.sources[0][:, 0, 2 + position]
        np.testing.assert_allclose(sent, np.broadcast_to(0.3 + added[:, None], sent.shape), rtol=1e-10)
        assert np.abs(seen.sources[0][:, :, 2 + position]).min() > 0


def test_what_is_told_has_the_covariance_of_the_sums():
    seen = sv.observe(
        linear_losses(np.zeros((5, 1))), RING, ATC, generated_noise(L), sv.observers.coalition([0, 1, 2, 3]), rounds=1,
        repeats=20000, seed=5,
    )  # fmt: skip
    found = np.cov(seen.sources[0][:, 0, :, 0].T)
    S = (L @ L.T)[:4, :4]
    # The standard error of an entry is at most sqrt(2 S_ii S_jj / 20000): 1 % of the variances.
    sizes = np.sqrt(np.outer(np.diag(S), np.diag(S)))
    assert (np.abs(found - S) < 0.045 * sizes).all()


CASES = {
    "eavesdropper": (RING, ATC, generated_noise(L), sv.observers.eavesdropper()),
    "curious": (RING, ATC, generated_noise(L), sv.observers.curious_agent(1)),
    "coalition": (RING, ATC, generated_noise(L), sv.observers.coalition([1, 4]) + sv.observers.final_model()),
    "memory": (RING, ATC, generated_noise(L)._replace(memory=np.full((1, 1, 1), -0.6)), sv.observers.curious_agent(1)),
    "federated": (HUB, FEDAVG, generated_noise(L), sv.observers.curious_agent(0)),
}


@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=[] if c in ("curious", "memory", "federated") else pytest.mark.slow) for c in CASES]
)
def test_the_score_is_as_far_apart_in_recorded_runs_as_computed(case):
    arguments, agent = CASES[case], 2
    options = {"rounds": ROUNDS, "agent": agent, "direction": np.ones(ROUNDS)}
    size = 3.0 / matched_filter(*arguments, sensitivity=1.0, **options).mu
    matched = matched_filter(*arguments, sensitivity=size, **options)
    axes = np.array([[0.6, -0.8]])
    slopes = np.random.default_rng(5).standard_normal((5, 2))
    changed = slopes.copy()
    changed[agent] += size * axes[0]
    found = measure(
        [linear_losses(slopes), linear_losses(changed)], *arguments, statistic(matched, axes), rounds=ROUNDS, repeats=RUNS, seed=4
    )  # fmt: skip
    distance = abs(found[1].mean() - found[0].mean()) / math.sqrt((found[0].var() + found[1].var()) / 2)
    assert distance == pytest.approx(3.0, rel=0.07)
    assert found[0].std() == pytest.approx(3.0, rel=0.07)


def test_the_told_sums_carry_weight():
    matched = matched_filter(*CASES["curious"], rounds=ROUNDS, agent=2, direction=np.ones(ROUNDS), sensitivity=1.0)
    assert [part.shape for part in matched.sources] == [(ROUNDS, 1, 1)]
    assert np.abs(matched.sources[0]).min() > 0


@pytest.mark.parametrize("case", ["curious", pytest.param("eavesdropper", marks=pytest.mark.slow)])
def test_audits_pass_and_come_close(case):
    asked = {"rounds": ROUNDS, "delta": 1e-3, "confidence": 0.99, "seed": 2}
    small = audit(*CASES[case], **asked, sensitivity=1.0, pairs=200)
    found = audit(*CASES[case], **asked, sensitivity=3.0 / small.computed_mu, pairs=3000)
    assert found.passed
    assert found.computed_mu == pytest.approx(3.0)
    assert abs(found.gaussian.estimate / 3.0 - 1.0) < 0.07
