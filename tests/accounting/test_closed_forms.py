"""The closed forms against sums written out, the accountant and brute force."""

import math

import mpmath
import numpy as np
import pytest

import sottovoce as sv
from accounting import brute_force as brute
from sottovoce.accounting.mechanisms.closed_forms import every_message_epsilon, every_message_mu

RING = sv.topologies.ring(6)  # all weights 1/3
BASE = {"step_size": 0.4, "sensitivity": 1.3}


def differences(feedback, count):
    """d_i = feedback d_{i-1} + step Delta, one by one, in 50 digits."""
    with mpmath.workdps(50):
        found, d = [], mpmath.mpf(0)
        for _ in range(count):
            d = mpmath.mpf(feedback) * d + mpmath.mpf(0.4) * mpmath.mpf(1.3)
            found.append(d)
        return found


@pytest.mark.parametrize("feedback", [0.0, 1e-8, 1 / 3, 0.5, 1 - 1e-6, 1 - 1e-12, 1.0, 1.25])
@pytest.mark.parametrize("count", [1, 2, 7, 300])
def test_closed_forms_are_the_sums_of_the_recursion(feedback, count):
    d = differences(feedback, count)
    with mpmath.workdps(50):
        mu = float(mpmath.sqrt(3 * mpmath.fsum(x**2 for x in d)) / mpmath.mpf(0.7))
        epsilon = float(3 * mpmath.fsum(d) / mpmath.mpf(0.7))
    assert every_message_mu(**BASE, std=0.7, gradients_sent=count, feedback=feedback, copies=3) == pytest.approx(
        mu, rel=1e-12
    )
    assert every_message_epsilon(**BASE, scale=0.7, gradients_sent=count, feedback=feedback, copies=3) == pytest.approx(
        epsilon, rel=1e-12
    )


@pytest.mark.parametrize("T", [1, 2, 7, 50])
def test_the_two_forms_without_a_sum(T):
    own = every_message_mu(**BASE, std=0.7, gradients_sent=T, feedback=0.0)
    assert own == pytest.approx(0.4 * 1.3 * math.sqrt(T) / 0.7, rel=1e-12)
    homomorphic = every_message_mu(**BASE, std=0.7, gradients_sent=T, feedback=1.0)
    assert homomorphic == pytest.approx(0.4 * 1.3 * math.sqrt(T * (T + 1) * (2 * T + 1) / 6) / 0.7, rel=1e-12)
    epsilon = every_message_epsilon(**BASE, scale=0.7, gradients_sent=T, feedback=1.0)
    assert epsilon == pytest.approx(0.4 * 1.3 * T * (T + 1) / 2 / 0.7, rel=1e-12)


SCHEMES = {
    "self": (lambda law: sv.noise.independent(law), 0.0, 1),
    "clean": (lambda law: sv.noise.independent(law, self_noise=False), 1 / 3, 1),
    "homomorphic": (lambda law: sv.noise.graph_homomorphic(law), 1.0, 1),
    "edge-clean": (lambda law: sv.noise.independent(law, per_edge=True, self_noise=False), 1 / 3, 2),
}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("kind", ["atc", "cta", "consensus"])
def test_account_and_brute_force_reproduce_the_closed_forms(kind, scheme):
    make, feedback, copies = SCHEMES[scheme]
    rounds = 6
    sent = rounds if kind == "atc" else rounds - 1
    expected = every_message_mu(**BASE, std=0.7, gradients_sent=sent, feedback=feedback, copies=copies)
    algorithm, observer = getattr(sv.algorithms, kind)(step_size=0.4), sv.observers.eavesdropper()
    found = sv.account(RING, algorithm, make(sv.noise.Gaussian(std=0.7)), observer, rounds=rounds, sensitivity=1.3)
    assert found.mu == pytest.approx(expected, rel=1e-12)
    used = [getattr(brute, kind)(RING.matrix, 0.4, 0.7)] * rounds
    truth = 1.3 * brute.mu(used, scheme, brute.Watcher(everything=True), 2)
    assert truth == pytest.approx(expected, rel=1e-9)
    expected = every_message_epsilon(**BASE, scale=0.7, gradients_sent=sent, feedback=feedback, copies=copies)
    laplace = make(sv.noise.Laplace(std=0.7 * math.sqrt(2.0)))
    found = sv.account(RING, algorithm, laplace, observer, rounds=rounds, sensitivity=1.3)
    assert found.pure_epsilon == pytest.approx(expected, rel=1e-12)
    spherical = make(sv.noise.L2Laplace(scale=0.7))
    found = sv.account(RING, algorithm, spherical, observer, rounds=rounds, sensitivity=1.3)
    assert found.pure_epsilon == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "changed",
    [
        {"step_size": 0.0}, {"step_size": math.nan}, {"sensitivity": -1.0}, {"sensitivity": True}, {"std": 0.0}, {"std": math.inf},
        {"gradients_sent": 0}, {"gradients_sent": True}, {"gradients_sent": 2.5}, {"feedback": math.nan}, {"feedback": math.inf},
        {"copies": 0}, {"copies": True}, {"copies": 1.5}, {"feedback": True}, {"feedback": "0.5"}, {"feedback": None},
    ],
    ids=str,
)  # fmt: skip
def test_malformed_numbers_are_refused(changed):
    arguments = {**BASE, "std": 0.7, "gradients_sent": 3, "feedback": 0.5, **changed}
    (name,) = changed
    with pytest.raises(sv.ConfigError, match=name):
        every_message_mu(**arguments)
    if name != "std":
        arguments["scale"] = arguments.pop("std")
        with pytest.raises(sv.ConfigError, match=name):
            every_message_epsilon(**arguments)


def test_a_negative_feedback_counts_by_its_size():
    positive = every_message_mu(**BASE, std=0.7, gradients_sent=4, feedback=0.5)
    assert every_message_mu(**BASE, std=0.7, gradients_sent=4, feedback=-0.5) == positive
    # gradients that alternate reach it
    R = np.array([[(-0.5) ** (i - j) if i >= j else 0.0 for j in range(4)] for i in range(4)])
    v = np.array([1.0, -1.0, 1.0, -1.0])
    assert np.linalg.norm(R @ v) * 0.4 * 1.3 / 0.7 == pytest.approx(positive, rel=1e-12)
