"""Audits of noise that enters again: near the guarantee and below it, and able to find what was promised and not played."""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.attacks.likelihood import matched_filter
from sottovoce.errors import IncompatibleChoice

K, T = 5, 5
RING = sv.topologies.ring(K)
ATC = sv.algorithms.atc(step_size=0.5)
MEMORY = np.stack([np.full(K, 0.6), 0.2 * np.arange(K) / K])[None]
NOISE = sv.noise.gopa(sv.noise.Gaussian(std=0.8), pairwise_std=0.7)._replace(memory=MEMORY)
ASK = {"rounds": T, "sensitivity": 1.0, "delta": 1e-2, "confidence": 0.999, "pairs": 20_000, "seed": 3}


def test_an_eavesdropper_comes_near_the_guarantee_and_stays_below():
    found = sv.audit(RING, ATC, NOISE, sv.observers.eavesdropper(), **ASK)
    assert found.attack == "likelihood"
    assert found.passed
    assert found.guarantee.validity == "exact"
    assert found.computed_mu == pytest.approx(found.guarantee.mu, rel=1e-9)
    assert found.lower.epsilon <= found.guarantee.epsilon(1e-2)
    assert found.tradeoff_mu.mu >= 0.9 * found.guarantee.mu


@pytest.mark.parametrize("played", ["half the noise", "noise that is taken out less"])
def test_noise_that_was_promised_and_not_played_is_found(played):
    other = NOISE.scaled(0.5) if played == "half the noise" else NOISE._replace(memory=MEMORY * 2.5)
    found = sv.audit(RING, ATC, NOISE, sv.observers.eavesdropper(), **ASK, played=other)
    assert found.refuted


@pytest.mark.parametrize("observer", [sv.observers.curious_agent(1), sv.observers.coalition([0, 2])])
def test_others_stay_below_too(observer):
    found = sv.audit(RING, ATC, NOISE, observer, **(ASK | {"pairs": 5000}))
    assert found.passed
    assert found.computed_mu <= found.guarantee.mu * (1 + 1e-9)


def test_the_filter_is_the_stated_linear_view():
    for observer in (sv.observers.eavesdropper(), sv.observers.curious_agent(1)):
        stated = sv.account(RING, ATC, NOISE, observer, rounds=T, sensitivity=1.0, agent=3)
        found = matched_filter(RING, ATC, NOISE, observer, rounds=T, sensitivity=1.0, agent=3)
        assert found.mu == pytest.approx(stated.linear_mu, rel=1e-6)


def test_attacks_that_do_not_follow_memory_refuse_it():
    with pytest.raises(IncompatibleChoice, match="noise of earlier rounds again"):
        sv.audit(RING, ATC, NOISE, sv.observers.eavesdropper(), **ASK, attack="transcript")
