"""Calibration is the inverse of the account."""

import math

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.accounting import gaussian
from sottovoce.accounting.calibration import calibrate

RING = sv.topologies.ring(6)
ATC = sv.algorithms.atc(step_size=0.4)
LAW = sv.noise.Gaussian(std=0.7)
ALL = sv.observers.eavesdropper()
SELF = sv.noise.independent(LAW)
TARGET = {"epsilon": 2.0, "delta": 1e-5}
RUN = {"rounds": 7, "sensitivity": 1.0}


def test_self_noise_is_calibrated_as_by_hand():
    # mu = step Delta sqrt(T) / std, and mu(2, 1e-5) by the exact trade-off.
    made = calibrate(RING, ATC, SELF, ALL, **RUN, **TARGET)
    assert made.law.std == pytest.approx(0.4 * math.sqrt(7) / gaussian.mu(2.0, 1e-5), rel=1e-12)
    assert made.name == SELF.name
    assert made.parameters == SELF.parameters


def test_laplace_noise_is_calibrated_as_by_hand():
    # epsilon = step Delta T (T + 1) / (2 scale)
    noise = sv.noise.graph_homomorphic(sv.noise.Laplace(std=1.0))
    made = calibrate(RING, ATC, noise, ALL, **RUN, epsilon=0.5, delta=0.0)
    assert made.law.scale == pytest.approx(0.4 * 28 / 0.5, rel=1e-12)


def test_delta_lets_pure_noise_be_smaller():
    noise = sv.noise.independent(sv.noise.Laplace(std=1.0))
    strict = calibrate(RING, ATC, noise, ALL, **RUN, epsilon=0.5, delta=0.0)
    loose = calibrate(RING, ATC, noise, ALL, **RUN, epsilon=0.5, delta=0.05)
    assert loose.law.std < 0.95 * strict.law.std
    found = sv.account(RING, ATC, loose, ALL, **RUN)
    assert found.epsilon(0.05) == pytest.approx(0.5, rel=1e-9)
    assert found.epsilon(0.0) > 0.5


CASES = {
    "gaussian": (SELF, ALL, {}),
    "homomorphic": (sv.noise.graph_homomorphic(LAW), ALL, {}),
    "per edge": (sv.noise.independent(LAW, per_edge=True), ALL, {}),
    "pairwise": (sv.noise.gopa(LAW, pairwise_std=3.0), ALL + sv.observers.curious_agent(1), {}),
    "schedule": (SELF.scaled([1.0, 2.0, 0.5, 1.0, 1.0, 3.0, 1.0]), ALL, {}),
    "l2 laplace": (sv.noise.independent(sv.noise.L2Laplace(scale=1.0), self_noise=False), ALL, {}),
    "laplace": (sv.noise.independent(sv.noise.Laplace(std=1.0)), sv.observers.curious_agent(3), {}),
    "record": (SELF, ALL, {"unit": "record", "participation": sv.accounting.cyclic(2, 3)}),
    "absorption": (SELF, sv.observers.curious_agent(5), {"losses": sv.accounting.ConvexSmooth(beta=1.0)}),
    "final model": (SELF, sv.observers.final_model(), {"losses": sv.accounting.ConvexSmooth(beta=1.0, nu=0.5)}),
    "one agent": (SELF, ALL, {"agent": 3, "sensitivity": np.arange(1.0, 7.0)}),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("start", [1.0, 1e-3, 1e4])
def test_the_account_of_calibrated_noise_is_the_target(name, start):
    noise, observer, more = CASES[name]
    arguments = {**RUN, **more}
    made = calibrate(RING, ATC, noise.scaled(start), observer, **arguments, **TARGET)
    found = sv.account(RING, ATC, made, observer, **arguments)
    tolerance = 1e-5 if name == "absorption" else 1e-9  # the programme is solved anew, to its own accuracy
    assert found.epsilon(1e-5) == pytest.approx(2.0, rel=tolerance)


SAMPLED = {**RUN, "agent": 2, "unit": "record", "participation": sv.accounting.poisson(0.1, record_norm=0.5)}
STRONG = SELF.scaled(3.0)  # privacy-loss distributions of weak noise take long


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_poisson_sampling_is_calibrated_from_the_private_side(adjacency):
    rate = sv.accounting.poisson(0.1, record_norm=0.5 if adjacency == "replace" else None)
    arguments = {**SAMPLED, "adjacency": adjacency, "participation": rate}
    made = calibrate(RING, ATC, STRONG, ALL, **arguments, epsilon=0.3, delta=1e-5)
    found = sv.account(RING, ATC, made, ALL, **arguments)
    assert 0.3 * (1 - 1e-4) <= found.epsilon(1e-5) <= 0.3
    assert sv.account(RING, ATC, made.scaled(0.99), ALL, **arguments).epsilon(1e-5) > 0.3


def test_a_start_far_from_the_target_is_found_too():
    made = calibrate(RING, ATC, STRONG.scaled(20.0), ALL, **SAMPLED, epsilon=0.3, delta=1e-5)
    other = calibrate(RING, ATC, STRONG, ALL, **SAMPLED, epsilon=0.3, delta=1e-5)
    assert made.law.std == pytest.approx(other.law.std, rel=1e-3)


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        (0.0, 1e-5), (-1.0, 1e-5), (math.inf, 1e-5), (math.nan, 1e-5), (True, 1e-5), ("1", 1e-5), (None, 1e-5), (1.0, 1.0), (1.0, -1e-9),
        (1.0, math.nan), (1.0, True), (1.0, False), (1.0, None),
    ],
)  # fmt: skip
def test_targets_outside_their_ranges_are_refused(epsilon, delta):
    with pytest.raises(sv.ConfigError, match=r"epsilon|delta"):
        calibrate(RING, ATC, SELF, ALL, **RUN, epsilon=epsilon, delta=delta)


def test_a_target_has_no_default():
    with pytest.raises(TypeError, match="delta"):
        calibrate(RING, ATC, SELF, ALL, **RUN, epsilon=1.0)


def test_gaussian_noise_has_no_scale_for_delta_zero():
    with pytest.raises(sv.UnsupportedClaim, match="Laplace"):
        calibrate(RING, ATC, SELF, ALL, **RUN, epsilon=1.0, delta=0.0)


@pytest.mark.parametrize(
    ("noise", "observer"),
    [
        (sv.noise.none(), ALL),
        (sv.noise.local_graph_homomorphic(LAW), sv.observers.curious_agent(3)),
        (sv.noise.graph_homomorphic(LAW), sv.observers.final_model()),
    ],
    ids=["none", "local", "final model"],
)
def test_what_no_noise_hides_has_no_scale(noise, observer):
    with pytest.raises(sv.UnsupportedClaim, match="no amount"):
        calibrate(RING, ATC, noise, observer, **RUN, **TARGET)


def test_who_learns_nothing_needs_no_scale():
    cta = sv.algorithms.cta(step_size=0.4)
    with pytest.raises(sv.UnsupportedClaim, match="learns nothing"):
        calibrate(RING, cta, SELF, ALL, rounds=1, sensitivity=1.0, **TARGET)  # the only gradient is never sent
