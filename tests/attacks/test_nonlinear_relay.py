"""The linear view of a curious agent is beaten, the account is not."""

import math

import numpy as np
import pytest
from scipy import stats

import sottovoce as sv
from sottovoce.accounting import gaussian
from sottovoce.attacks.likelihood import matched_filter
from sottovoce.attacks.nonlinear_relay import nonlinear_relay
from sottovoce.simulation.views import observe

RELAY = nonlinear_relay(weight=0.1, std=0.25)
PARTS = (RELAY.topology, RELAY.algorithm, RELAY.noise, RELAY.observer)
ASKED = {"rounds": RELAY.rounds, "sensitivity": RELAY.sensitivity, "agent": RELAY.agent}
RUNS = 5000


def test_the_attack_is_above_the_linear_view_and_below_the_account():
    found = sv.account(*PARTS, **ASKED)
    assert found.linear_mu == pytest.approx(0.1 / math.hypot(0.025, 0.25), rel=1e-9)
    assert found.linear_validity == "exogenous-gradients"
    linear, attained, allowed = gaussian.delta(found.linear_mu, 1.0), RELAY.delta(1.0), found.delta(1.0)
    assert linear == pytest.approx(0.00125, abs=1e-5)
    # The threshold reads the sign of m - 1/2 nearly without error: Phi(2) - e (1 - Phi(2)).
    assert attained == pytest.approx(stats.norm.cdf(2.0) - math.e * stats.norm.sf(2.0), abs=1e-3)
    assert attained == pytest.approx(0.915, abs=1e-3)
    assert 100 * linear < attained <= allowed
    assert allowed == pytest.approx(0.9995, abs=2e-4)
    # What agent 0's first message alone gives away, mu = 1 / 0.25: 0.927.
    assert attained <= gaussian.delta(4.0, 1.0) == pytest.approx(0.927, abs=5e-4)


@pytest.fixture(scope="module")
def scores():
    seen = [
        observe(world, *PARTS, rounds=RELAY.rounds, repeats=RUNS, seed=seed) for seed, world in enumerate(RELAY.worlds)
    ]
    return [RELAY.score(one.messages[0]) for one in seen], seen


def test_recorded_runs_err_as_often_as_computed(scores):
    (first, second), _ = scores
    for found, expected in zip((np.mean(first > 0), np.mean(second < 0)), RELAY.error_rates(), strict=True):
        assert abs(found - expected) < 4.5 * math.sqrt(expected / RUNS)
    assert RELAY.error_rates()[0] == pytest.approx(stats.norm.sf(2.0), rel=0.02)


def test_what_recorded_runs_show_refutes_the_linear_view_as_a_guarantee(scores):
    (first, second), _ = scores
    found = sv.account(*PARTS, **ASKED)
    # Clopper-Pearson at 99.9 % on each rate: hits at least, false alarms at most.
    hits = stats.binomtest(int((second > 0).sum()), RUNS).proportion_ci(0.999).low
    alarms = stats.binomtest(int((first > 0).sum()), RUNS).proportion_ci(0.999).high
    shown = hits - math.e * alarms
    assert gaussian.delta(found.linear_mu, 1.0) < 0.8 < shown < found.delta(1.0)


def test_the_best_test_of_fixed_gradients_does_no_better_than_its_mu(scores):
    # The matched filter looks at the right message, but takes agent 1's reaction for a constant: it has the wrong sign here.
    matched = matched_filter(*PARTS, **ASKED, direction=np.array([-1.0, 0.0]))  # the secret moves the gradient down
    _, seen = scores
    axes = np.ones((1, 1))
    linear = [matched.score(axes, messages=one.messages, sources=one.sources) for one in seen]
    assert matched.messages[0][1, 0, 0] > 0  # a larger second message would speak for theta = 1
    assert linear[1].mean() < linear[0].mean()  # and it is smaller


def test_less_weight_hides_more_from_the_linear_view_and_nothing_from_the_attack():
    faint = nonlinear_relay(weight=0.01, std=0.25)
    found = sv.account(faint.topology, faint.algorithm, faint.noise, faint.observer, **ASKED)
    assert found.linear_mu < 0.05
    assert faint.delta(1.0) == pytest.approx(RELAY.delta(1.0), abs=1e-3)
    assert faint.delta(1.0) <= found.delta(1.0)


@pytest.mark.parametrize("weight", [0.0, 1.0, -0.1, math.nan, True])
def test_weights_that_no_receiver_can_give_are_refused(weight):
    with pytest.raises(sv.ConfigError, match="weight"):
        nonlinear_relay(weight=weight, std=0.25)
