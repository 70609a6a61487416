"""The rule of thumb for private logistic regression: what it says, and what it costs."""

import math

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.accounting import gaussian
from sottovoce.errors import ConfigError

DELTA = 1e-5


def test_the_rule_by_hand():
    setting = sv.recommended_setting(records=1000, parameters=25, epsilon=1.0, delta=DELTA, mean_share=0.0)
    way = 20 * 1000 * gaussian.mu(1.0, DELTA) / 5
    assert setting.rounds == math.ceil(way / 8)
    assert setting.step_size == pytest.approx(way / setting.rounds)
    assert (setting.clip, setting.mean_epsilon) == (0.25, 0.0)
    assert setting.learning_epsilon == pytest.approx(1.0)


@pytest.mark.parametrize("records", [1, 100, 10_000, 10**9])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
def test_no_step_is_unstable_and_no_run_endless(records, epsilon):
    setting = sv.recommended_setting(records=records, parameters=50, epsilon=epsilon, delta=DELTA)
    assert 0 < setting.step_size <= 8.0
    assert 10 <= setting.rounds <= 500


def test_clipped_unit_records_bend_the_loss_by_less_than_the_step_allows():
    """The slope s of a record grows by s (1 - s) per unit of its margin while it is below the clip, and not at all above."""
    setting = sv.recommended_setting(records=10**6, parameters=2, epsilon=1.0, delta=DELTA)
    slopes = np.linspace(0, setting.clip, 1001)
    assert setting.step_size * (slopes * (1 - slopes)).max() < 2.0


def test_more_epsilon_and_more_records_go_further():
    def way(**numbers):
        setting = sv.recommended_setting(
            **{"records": 500, "parameters": 30, "epsilon": 1.0, "delta": DELTA, **numbers}
        )
        return setting.rounds * setting.step_size

    assert way(epsilon=0.3) < way() < way(epsilon=4.0)
    assert way(records=1000) == pytest.approx(2 * way())
    assert way(parameters=120) == pytest.approx(way() / 2)


@pytest.mark.parametrize(
    "wrong",
    [{"records": 0}, {"parameters": 1.5}, {"epsilon": 0.0}, {"delta": 0.0}, {"delta": 1.0}, {"mean_share": 1.0}],
)
def test_numbers_out_of_range_are_refused_by_name(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        sv.recommended_setting(**{"records": 500, "parameters": 30, "epsilon": 1.0, "delta": DELTA, **wrong})


@pytest.mark.parametrize("epsilon", [0.3, 4.0])
def test_mean_and_rounds_together_cost_the_epsilon_asked_for(epsilon):
    """Both releases of a federation, calibrated by the rule and accounted for an agent that sees every average."""
    generator = np.random.default_rng(0)
    features = [generator.uniform(-1, 1, (12, 3)) for _ in range(5)]
    labels = [np.where(part[:, 0] > 0, 1.0, -1.0) for part in features]
    setting = sv.recommended_setting(records=60, parameters=4, epsilon=epsilon, delta=DELTA)
    centred = [sv.problems.centred_features(part, np.zeros(3)) for part in features]
    logistic = sv.problems.logistic_regression(centred, labels, ridge=0.0).with_clipping(setting.clip, "l2")
    releases = [
        (sv.problems.mean_estimation(features, radius=1.0), 1.0, 1, setting.mean_epsilon),
        (logistic, setting.step_size, setting.rounds, setting.learning_epsilon),
    ]
    federation, observer = sv.topologies.federation(5), sv.observers.curious_agent(0)
    losses = []
    for problem, step_size, rounds, share in releases:
        sensitivity = problem.sensitivity(unit="record", adjacency="replace", norm="l2")
        question = sv.Question(rounds=rounds, unit="record", adjacency="replace", sensitivity=sensitivity)
        algorithm, noise = sv.algorithms.fedavg(step_size=step_size), sv.noise.central(sv.noise.Gaussian(std=1.0))
        noise = sv.calibrate(federation, algorithm, noise, observer, epsilon=share, delta=DELTA, question=question)
        guarantee = sv.account(federation, algorithm, noise, observer, question=question)
        assert guarantee.validity == "exact"
        losses.append(guarantee.mu)
    assert gaussian.epsilon(math.hypot(*losses), DELTA) == pytest.approx(epsilon, rel=1e-6)
    assert losses[0] ** 2 / (losses[0] ** 2 + losses[1] ** 2) == pytest.approx(0.2, rel=1e-6)
