"""An audit that fails no false promise is worthless: each broken noise is caught, and the same run with the noise as promised passes."""

import math

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.attacks.audit import audit, choice
from sottovoce.attacks.audit.canaries import canary_worlds
from sottovoce.simulation.rounds import random

RING = sv.topologies.ring(4)
ATC = sv.algorithms.atc(step_size=1.0)
EVERYTHING = sv.observers.eavesdropper()
GAUSSIAN, LAPLACE = sv.noise.Gaussian(std=1.0), sv.noise.Laplace(std=math.sqrt(2.0))
ASKED = {"rounds": 4, "sensitivity": 1.0, "delta": 1e-3, "confidence": 0.999, "pairs": 1500, "seed": 1}


def held(noise, played=None, *, algorithm=ATC, observer=EVERYTHING, **options):
    return audit(RING, algorithm, noise, observer, played=played, **(ASKED | options))


# Laplace scores of one round take their extreme values often; those of several rounds hardly ever all at once.
@pytest.mark.parametrize(("law", "rounds"), [(GAUSSIAN, 4), pytest.param(LAPLACE, 1, marks=pytest.mark.slow)])
def test_half_the_scale_is_caught(law, rounds):
    promised = sv.noise.independent(law)
    assert held(promised, rounds=rounds).passed
    broken = held(promised, promised.scaled(0.5), rounds=rounds)
    assert not broken.passed
    assert "FAILED" in str(broken)


@pytest.mark.slow
def test_a_scale_one_fifth_too_small_is_caught_with_more_runs():
    promised = sv.noise.independent(GAUSSIAN)
    assert not held(promised, promised.scaled(0.8), pairs=8000).passed


def test_self_noise_that_is_forgotten_is_caught():
    # With self-noise a round shows a gradient once, mu = 2. Without, the own copy carries a third of the last sum on: steps of 1, 4/3, 13/9, 40/27,
    # whose squares add up to 7.059.
    promised, forgotten = sv.noise.independent(GAUSSIAN), sv.noise.independent(GAUSSIAN, self_noise=False)
    assert held(promised, pairs=8000).passed
    broken = held(promised, forgotten, pairs=8000)
    assert broken.guarantee.mu == pytest.approx(2.0)
    assert broken.computed_mu == pytest.approx(math.sqrt(1 + (4 / 3) ** 2 + (13 / 9) ** 2 + (40 / 27) ** 2))
    assert not broken.passed


@pytest.mark.slow
def test_noise_on_links_only_that_cancels_at_the_agent_is_caught():
    promised = sv.noise.independent(GAUSSIAN)
    broken = held(promised, sv.noise.graph_homomorphic(GAUSSIAN))
    assert broken.computed_mu > broken.guarantee.mu
    assert not broken.passed


def test_the_noise_of_the_first_round_used_again_in_every_round_is_caught(monkeypatch):
    # Steps of different length see the same noise, so that their difference shows the gradient in clear.
    algorithm = sv.algorithms.atc(step_size=lambda t: 1.0 / t)
    promised = sv.noise.independent(GAUSSIAN)
    assert held(promised, algorithm=algorithm, attack="fitted").passed
    keys = random.round_keys
    monkeypatch.setattr(random, "round_keys", lambda of, round_, exchange: keys(of, 1, exchange))
    broken = held(promised, algorithm=algorithm, attack="fitted")
    assert broken.auc.value > 0.999
    assert not broken.passed


def test_laplace_noise_for_a_change_bounded_in_l2_is_caught():
    # Laplace noise needs l1: a change of l2 norm 1 along all of 9 coordinates has l1 norm 3.
    promised = sv.noise.independent(LAPLACE)
    spread = np.full(9, 1.0 / 3.0)

    def along(axis):
        worlds = canary_worlds(RING, ATC, sensitivity=1.0, agent=0, axis=axis)
        return held(promised, worlds=worlds, pairs=8000, rounds=1, delta=0.0)

    assert along(spread / 3.0).passed
    broken = along(spread)
    assert broken.attack == "transcript"
    assert broken.epsilon == pytest.approx(1.0)
    assert not broken.passed


def test_a_promise_without_the_release_of_a_model_does_not_cover_it():
    # Graph-homomorphic noise leaves the centroid without noise: whoever gets that too reads the sum of all gradients.
    noise = sv.noise.graph_homomorphic(GAUSSIAN)
    hidden = held(noise)
    assert math.isfinite(hidden.epsilon)
    assert hidden.passed
    released = held(noise, observer=EVERYTHING + sv.observers.final_model())
    assert math.isinf(released.epsilon)
    assert released.computed_mu == math.inf
    assert released.auc.value == 1.0
    assert released.passed  # nothing was promised
    assert "Nothing is promised" in str(released)
    assert released.lower.epsilon > 4.0
    assert math.log(ASKED["pairs"]) > released.lower.epsilon


# A record's sensitivity, which holds at one model, claimed where the two worlds take gradients at different ones (docs/guarantees.md).

RECORDS, STEP = 100, 0.4
TRIANGLE = sv.topologies.complete(3)


def steep_world(side):
    """99 records with clipped gradient 50 w, so that step * beta = 20, and one far away on one side, at each of three agents."""
    features, targets = np.full((3, RECORDS, 1), 5.0), np.zeros((3, RECORDS))
    targets[:, -1] = 1e3
    targets[0, -1] = side * 1e3
    return sv.problems.linear_regression(features, targets, ridge=0.0).with_clipping(1.0, "l2")


@pytest.mark.parametrize(
    ("scheme", "stands"), [("homomorphic", False), pytest.param("self", True, marks=pytest.mark.slow)]
)
def test_a_records_sensitivity_claimed_for_hidden_models_is_refuted_by_a_transcript(scheme, stands):
    # The agent's own model is hidden under graph-homomorphic noise, so that gradients are taken at different models in the two worlds.
    law = sv.noise.Gaussian(std=0.4)
    noise = sv.noise.graph_homomorphic(law) if scheme == "homomorphic" else sv.noise.independent(law)
    found = audit(
        TRIANGLE, sv.algorithms.atc(step_size=STEP), noise, EVERYTHING, rounds=25, sensitivity=2.0 / RECORDS, delta=1e-3, confidence=0.999,
        pairs=2000, worlds=(steep_world(-1.0), steep_world(1.0)), same_model=False,
    )  # fmt: skip
    assert found.attack == "transcript"
    assert found.agent == 0
    assert found.passed is stands


# The matched filter is made for the noise as specified. Noise that falls otherwise gives scores that are not as computed.

FAULTS = {
    "as promised": lambda noise: noise,
    "none in every second round": lambda noise: noise.scaled([2.0, 0.0, 2.0, 0.0]),
    "none in the last round": lambda noise: noise.scaled([1.0, 1.0, 1.0, 0.0]),
    "a third more": lambda noise: noise.scaled(4 / 3),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_runs_that_are_not_as_specified_do_not_pass(monkeypatch, fault):
    noise = sv.noise.independent(sv.noise.Gaussian(std=0.8))
    real = choice.matched_filter
    monkeypatch.setattr(
        choice,
        "matched_filter",
        lambda topology, algorithm, played, observer, **asked: real(topology, algorithm, noise, observer, **asked),
    )
    found = audit(
        sv.topologies.ring(5), sv.algorithms.atc(step_size=0.5), noise, sv.observers.eavesdropper(), rounds=4, sensitivity=2.0, delta=1e-3,
        confidence=0.99, pairs=2000, seed=4, played=FAULTS[fault](noise),
    )  # fmt: skip
    assert found.passed == (fault == "as promised")
    assert found.as_computed == (fault == "as promised")
    assert found.verdict == ("not refuted" if found.passed else "FALSE" if found.refuted else "not as computed")
    assert ("not as far apart as computed" in found.explain()) == (found.verdict == "not as computed")


def test_an_attack_with_the_wrong_sign_does_not_pass(monkeypatch):
    noise = sv.noise.independent(sv.noise.Gaussian(std=0.8))
    monkeypatch.setattr(choice, "_as_they_are", lambda found: -np.asarray(found, dtype=np.float64))
    found = audit(
        sv.topologies.ring(5), sv.algorithms.atc(step_size=0.5), noise, sv.observers.eavesdropper(), rounds=4, sensitivity=2.0, delta=1e-3,
        confidence=0.99, pairs=500, seed=4,
    )  # fmt: skip
    assert found.auc.value < 0.1
    assert not found.refuted
    assert not found.passed
