"""Absorption on networks too large for it: what is left out is said, and agents that decide are asked first."""

import pytest

import sottovoce as sv
from sottovoce.accounting.proofs import absorption_certificate

PROMISE = sv.Question(rounds=6, sensitivity=1.0, losses=sv.accounting.ConvexSmooth(1.0))
PARTS = (sv.topologies.erdos_renyi(12, 0.4, seed=1), sv.algorithms.atc(step_size=0.5))
NOISE = sv.noise.independent(sv.noise.Gaussian(std=1.0))


def test_a_programme_that_would_take_too_long_is_left_out_and_said(monkeypatch):
    solved = sv.account(*PARTS, NOISE, sv.observers.final_model(), question=PROMISE)
    assert solved.validity == "absorption"
    assert "not computed" not in solved.reason
    monkeypatch.setattr(absorption_certificate, "MOST_WORK", 100.0)
    found = sv.account(*PARTS, NOISE, sv.observers.final_model(), question=PROMISE)
    assert found.validity == "sent-messages"
    assert found.mu > solved.mu
    assert "12 programmes of" in found.reason
    assert found.reason.count("was not computed") == 1


def test_what_was_spent_on_agents_before_counts(monkeypatch):
    observer = sv.observers.curious_agent(0)
    first = next(
        one
        for one in sv.accounting.account_each(*PARTS, NOISE, observer, question=PROMISE)
        if one.validity == "absorption"
    )
    asked = []

    def counted(self, agent):
        asked.append(agent)
        return 10

    monkeypatch.setattr(absorption_certificate.Absorption, "size", counted)
    monkeypatch.setattr(absorption_certificate, "MOST_WORK", 100.0 * first.agent)
    found = sv.accounting.account_each(*PARTS, NOISE, observer, question=PROMISE)
    assert len(asked) == 11
    assert [one.validity for one in found][first.agent :] == ["sent-messages"] * (11 - first.agent)
    assert "was not computed" in found[-1].reason


def test_the_senders_of_what_is_read_are_asked_first(monkeypatch):
    """On a network of equal agents a neighbour of the observer reaches the bound, so that no programme is solved for the others."""
    solved = []
    solve = absorption_certificate.Absorption.certificate

    def counted(self, agent, sensitivity):
        solved.append(agent)
        return solve(self, agent, sensitivity)

    monkeypatch.setattr(absorption_certificate.Absorption, "certificate", counted)
    found = sv.account(sv.topologies.ring(30), PARTS[1], NOISE, sv.observers.curious_agent(15), question=PROMISE)
    assert found.agent in (14, 16)
    assert solved == [found.agent]


@pytest.mark.parametrize("observer", [sv.observers.server(), sv.observers.curious_agent(1)])
def test_a_relay_has_no_links_to_be_asked_about(observer):
    parts = (sv.topologies.federation(4), sv.algorithms.fedavg(step_size=0.1))
    assert sv.account(*parts, NOISE, observer, question=PROMISE).mu > 0
