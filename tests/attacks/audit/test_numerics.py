"""Numbers that overflow are not blamed on the guarantee: an audit then refuses, whatever law, observer and attack."""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.attacks.audit.numerics import require_finite_scores
from sottovoce.attacks.audit.one_run import one_run_audit

RING = sv.topologies.ring(4)
ASKED = {"rounds": 3, "delta": 0.02, "confidence": 0.99, "pairs": 100}
LAWS = [sv.noise.Gaussian(std=0.1), sv.noise.Laplace(std=0.1)]
OBSERVERS = [sv.observers.eavesdropper(), sv.observers.curious_agent(1), sv.observers.final_model()]


def audit(step, sensitivity, law, observer, **more):
    scheme, algorithm = sv.noise.independent(law), sv.algorithms.atc(step_size=step)
    return sv.audit(RING, algorithm, scheme, observer, sensitivity=sensitivity, **{**ASKED, **more})


@pytest.mark.parametrize("observer", OBSERVERS, ids=lambda observer: observer.name)
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(
    ("step", "sensitivity"), [(1e300, 2.0), (1e150, 2.0), (1e90, 1e90), (lambda t: 10.0 ** (100 * t), 1.0)]
)
def test_a_step_that_overflows_is_a_divergence(step, sensitivity, law, observer):
    with pytest.raises(
        sv.Diverged, match=r"in round (1|3) 'atc' moves a model by .*squares overflow.*Lower the step size"
    ):
        audit(step, sensitivity, law, observer)


@pytest.mark.parametrize("observer", OBSERVERS, ids=lambda observer: observer.name)
@pytest.mark.parametrize("clip", [1e12, 1e50])
def test_noise_below_the_last_digits_gives_no_verdict(clip, observer):
    with pytest.raises(sv.ConfigError, match=r"standard deviations of the noise apart; above 1e\+08 double precision"):
        audit(0.1, 2.0 * clip, LAWS[0], observer)


def test_a_large_but_resolved_distance_is_still_audited():
    assert audit(0.1, 1e6, LAWS[0], OBSERVERS[0]).passed


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e200])
def test_scores_that_overflow_are_a_divergence(bad):
    scores = np.zeros((2, 10))
    scores[1, 3] = bad
    with pytest.raises(sv.Diverged, match=r"scores of the attack 'fitted' reach .*says nothing about the guarantee"):
        require_finite_scores(scores, "fitted")


def test_an_audit_of_one_run_refuses_too():
    federation, algorithm = sv.topologies.federation(10), sv.algorithms.fedavg(step_size=1e200, local_steps=1)
    noise = sv.noise.independent(sv.noise.Gaussian(std=0.1))
    with pytest.raises(sv.Diverged, match="squares overflow"):
        one_run_audit(
            federation, algorithm, noise, sv.observers.server(), rounds=2, sensitivity=1.0, delta=1e-5, confidence=0.9
        )


def test_a_run_that_overflows_names_the_step_without_warnings():
    problem = sv.problems.linear_regression(np.ones((4, 3, 2)), np.ones((4, 3)), ridge=0.1)
    for batch_size in (None, 2):
        with pytest.raises(sv.Diverged, match=r"left the finite numbers in round 1.*step size"):
            sv.simulate(
                problem, RING, sv.algorithms.atc(step_size=1e300), sv.noise.none(), rounds=3, dtype="float64",
                batch_size=batch_size, progress=False,
            )  # fmt: skip
