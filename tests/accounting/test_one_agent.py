"""A federation of one agent: the central mode, held against DP-SGD's closed form and against runs of two worlds."""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.attacks.audit.canaries import canary_worlds

ROUNDS, STEP, CLIP, STD, RECORDS = 20, 0.5, 1.5, 0.3, 40


@pytest.fixture(scope="module")
def problem():
    draw = np.random.default_rng(3)
    features, labels = draw.standard_normal((1, RECORDS, 3)), np.sign(draw.standard_normal((1, RECORDS)))
    return sv.problems.logistic_regression(features, labels).with_clipping(CLIP, "l2")


def alone():
    return sv.topologies.federation(1)


def central(std=STD):
    return sv.noise.central(sv.noise.Gaussian(std=std))


def asked(problem, unit):
    return sv.Question(
        rounds=ROUNDS, unit=unit, sensitivity=problem.sensitivity(unit=unit, adjacency="replace", norm="l2")
    )


@pytest.mark.parametrize("make", [sv.algorithms.fedavg, sv.algorithms.atc])
@pytest.mark.parametrize(("unit", "change"), [("record", 2 * CLIP / RECORDS), ("agent", 2 * CLIP)])
def test_the_final_model_costs_what_composed_gaussian_steps_do(problem, make, unit, change):
    found = sv.account(
        alone(), make(step_size=STEP), central(), sv.observers.final_model(), question=asked(problem, unit)
    )
    assert found.mu == pytest.approx(np.sqrt(ROUNDS) * STEP * change / STD, rel=1e-12)


def test_calibration_finds_the_noise_of_the_closed_form(problem):
    noise = sv.calibrate(
        alone(), sv.algorithms.fedavg(step_size=STEP), central(), sv.observers.final_model(), epsilon=1.0, delta=1e-5,
        question=asked(problem, "record"),
    )  # fmt: skip
    found = sv.account(
        alone(), sv.algorithms.fedavg(step_size=STEP), noise, sv.observers.final_model(), question=asked(problem, "record")
    )  # fmt: skip
    assert found.epsilon(1e-5) == pytest.approx(1.0, rel=1e-6)
    assert found.mu == pytest.approx(np.sqrt(ROUNDS) * STEP * 2 * CLIP / RECORDS / noise.law.std, rel=1e-12)


def test_runs_of_two_worlds_are_as_far_apart_as_the_account_says():
    # Constant gradients reach the bound, so the models' means over their spread are mu itself: 4,000 runs know it to 3 %.
    algorithm, axis = sv.algorithms.fedavg(step_size=STEP), np.array([1.0, 0.0])
    worlds = canary_worlds(alone(), algorithm, sensitivity=2 * CLIP, agent=0, axis=axis)
    found = [
        sv.simulate(w, alone(), algorithm, central(5.0), rounds=ROUNDS, repeats=4000, record=["loss"], progress=False)
        .models[:, 0, 0].astype(float) for w in worlds
    ]  # fmt: skip
    reached = abs(found[1].mean() - found[0].mean()) / found[0].std()
    stated = sv.account(
        alone(), algorithm, central(5.0), sv.observers.final_model(), rounds=ROUNDS, sensitivity=2 * CLIP, unit="agent"
    ).mu
    assert reached == pytest.approx(stated, rel=0.05)
    assert stated == pytest.approx(np.sqrt(ROUNDS) * STEP * 2 * CLIP / 5.0)


@pytest.mark.parametrize("name", ["server", "eavesdropper", "eavesdropper+final_model", "colluding_server:0.5"])
def test_nobody_reads_messages_that_are_not_sent(problem, name):
    # Without links an account of what is read would be zero, and the relay of one agent reads all it does.
    observer = sv.observers.observer_named(name)
    with pytest.raises(sv.IncompatibleChoice, match="federation of one agent sends no messages"):
        sv.account(
            alone(), sv.algorithms.fedavg(step_size=STEP), central(), observer, question=asked(problem, "record")
        )


def test_the_only_agent_cannot_watch_itself(problem):
    with pytest.raises(sv.ConfigError, match="nobody whose data it could learn"):
        sv.account(
            alone(), sv.algorithms.fedavg(step_size=STEP), central(), sv.observers.curious_agent(0),
            question=asked(problem, "record"),
        )  # fmt: skip


@pytest.mark.parametrize("scheme", [sv.noise.independent, sv.noise.graph_homomorphic])
def test_noise_in_messages_is_refused_where_there_are_none(problem, scheme):
    noise = scheme(sv.noise.Gaussian(std=STD))
    with pytest.raises(sv.IncompatibleChoice, match=r"sends no messages.*sv\.noise\.central"):
        sv.simulate(
            problem, alone(), sv.algorithms.fedavg(step_size=STEP), noise, rounds=2, record=["loss"], progress=False
        )


def test_noise_in_gradients_counts_every_gradient(problem):
    noise = sv.noise.gradient(sv.noise.Gaussian(std=STD))
    found = sv.account(
        alone(), sv.algorithms.fedavg(step_size=STEP), noise, sv.observers.final_model(), question=asked(problem, "record")
    )  # fmt: skip
    assert found.mu == pytest.approx(np.sqrt(ROUNDS) * 2 * CLIP / RECORDS / STD, rel=1e-12)
