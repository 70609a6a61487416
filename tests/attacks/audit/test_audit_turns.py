"""Audits of records in turns: the stated guarantee stands, and one that counts a turn too little falls."""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.attacks.audit import audit
from sottovoce.errors import ConfigError, IncompatibleChoice, UnsupportedClaim

RING, ALL = sv.topologies.ring(3), sv.observers.eavesdropper()
ATC = sv.algorithms.atc(step_size=1.0)
BATCH, ROUNDS, CLIP = sv.problems.cyclic_batch(2), 6, 0.5
NOISE = sv.noise.independent(sv.noise.Gaussian(std=0.25))
QUESTION = {"rounds": ROUNDS, "unit": "record", "delta": 1e-4, "confidence": 0.99, "pairs": 4000}


def worlds():
    """Agent 0 has four records, of which the third lies on one side or on the other, far beyond the clip."""
    made = []
    for value in (9.0, -9.0):
        points = np.zeros((3, 4, 2))
        points[0, 2, 0] = value
        made.append(sv.problems.mean_estimation(points, radius=10.0).with_clipping(CLIP, "l2"))
    return tuple(made)


def stated():
    return worlds()[0].sensitivity(unit="record", adjacency="replace", norm="l2", batch=BATCH)


def test_an_audit_of_turns_shows_much_of_what_is_stated_and_no_more():
    found = audit(
        RING, ATC, NOISE, ALL, sensitivity=stated(), participation=BATCH.participation(ROUNDS), worlds=worlds(), batch=BATCH, **QUESTION
    )  # fmt: skip
    assert found.guarantee.mu == pytest.approx(np.sqrt(3) * (2 * 2 * CLIP / 4) / 0.25, rel=1e-12)
    assert found.attack == "fitted"
    assert found.passed
    assert found.tradeoff_mu.mu > 0.5 * found.guarantee.mu


def test_noise_at_half_of_the_promise_is_caught():
    found = audit(
        RING, ATC, NOISE, ALL, sensitivity=stated(), participation=BATCH.participation(ROUNDS), worlds=worlds(), batch=BATCH,
        played=NOISE.scaled(0.5), **QUESTION,
    )  # fmt: skip
    assert not found.passed


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"participation": "once"}, UnsupportedClaim, "Audit batch.participation"),
        ({"participation": sv.accounting.cyclic(2, 2)}, UnsupportedClaim, "Audit batch.participation"),
        ({"participation": sv.accounting.cyclic(3, 2), "batch": None}, UnsupportedClaim, "every-round"),
        ({"worlds": None}, ConfigError, "canaries have one record"),
        ({"batch_size": 2}, ConfigError, "Give one of them"),
        ({"attack": "likelihood"}, IncompatibleChoice, "attack='fitted'"),
        ({"attack": "transcript"}, IncompatibleChoice, "attack='fitted'"),
    ],
)
def test_audits_that_no_run_keeps_to_are_refused(changes, error, message):
    given = {"participation": BATCH.participation(ROUNDS), "worlds": worlds(), "batch": BATCH} | changes
    with pytest.raises(error, match=message):
        audit(RING, ATC, NOISE, ALL, sensitivity=stated(), **QUESTION, **given)
