"""Whoever computes something for a topology, an algorithm and a noise refuses the same choices with the same words."""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.attacks.likelihood import matched_filter
from sottovoce.linear import check_together
from sottovoce.simulation.views import layout, measure, views

LAW = sv.noise.Gaussian(std=1.0)
PROBLEM = sv.problems.mean_estimation(np.zeros((4, 2, 3)), radius=1.0)
OTHERS = sv.problems.mean_estimation(np.zeros((5, 2, 3)), radius=1.0)
RING, FEDERATION = sv.topologies.ring(4), sv.topologies.federation(4)
EAVESDROPPER = sv.observers.eavesdropper()
ATC = sv.algorithms.atc(step_size=0.1)
TWICE = sv.algorithms.Algorithm(
    name="twice",
    exchanges=(sv.algorithms.Exchange(lambda w, gradient, t: w - 0.1 * gradient(w, 1), lambda w, received, gradient, t: received),),
)  # fmt: skip


def recorded(problem, topology, algorithm, noise):
    return measure([problem, problem], topology, algorithm, noise, EAVESDROPPER, None, rounds=3, repeats=1)


ASKED_WITH_DATA = {
    "simulate": lambda *parts: sv.simulate(*parts, rounds=3, progress=False),
    "expected_msd": lambda *parts: sv.expected_msd(*parts, rounds=3),
    "steady_state": lambda *parts: sv.theory.steady_state(*parts),
    "observe": lambda *parts: sv.observe(*parts, EAVESDROPPER, rounds=3),
    "views": lambda *parts: views(*parts, EAVESDROPPER, rounds=3),
    "measure": recorded,
}
ASKED = {
    "account": lambda *parts: sv.account(*parts, EAVESDROPPER, rounds=3, sensitivity=1.0),
    "pairwise": lambda *parts: sv.accounting.pairwise_linear_mu(*parts, rounds=3, sensitivity=1.0),
    "layout": lambda *parts: layout(*parts, EAVESDROPPER),
    "matched filter": lambda *parts: matched_filter(
        *parts, EAVESDROPPER, rounds=3, sensitivity=1.0, agent=0, direction=np.ones(3)
    ),
}
REFUSED = {
    "a relay's gradients among peers": (
        RING, sv.algorithms.fedavg(step_size=0.1, exchange="gradient"), sv.noise.independent(LAW), "has no relay"
    ),
    "a token without a walk": (RING, sv.algorithms.random_walk(step_size=0.1), sv.noise.independent(LAW), "Use topology.with_walk"),
    "gradients beyond those declared": (RING, TWICE, sv.noise.independent(LAW), "takes gradient number 1 in round 1"),
}  # fmt: skip


def messages(case):
    topology, algorithm, noise, words = REFUSED[case]
    found = {}
    for name, ask in ASKED_WITH_DATA.items():
        with pytest.raises(sv.SottovoceError, match=words) as refusal:
            ask(PROBLEM, topology, algorithm, noise)
        found[name] = str(refusal.value)
    for name, ask in ASKED.items():
        with pytest.raises(sv.SottovoceError, match=words) as refusal:
            ask(topology, algorithm, noise)
        found[name] = str(refusal.value)
    return found


@pytest.mark.parametrize("case", REFUSED)
def test_every_entry_refuses_with_the_same_words(case):
    topology, algorithm, noise, _ = REFUSED[case]
    with pytest.raises(sv.SottovoceError) as border:
        check_together(topology, algorithm, noise, rounds=3)
    assert set(messages(case).values()) == {str(border.value)}


@pytest.mark.parametrize("name", ASKED_WITH_DATA)
def test_other_agents_than_the_topology_has_are_refused_by_every_entry_that_gets_data(name):
    with pytest.raises(sv.ConfigError, match="data for 5 agents but the topology has 4"):
        ASKED_WITH_DATA[name](OTHERS, RING, ATC, sv.noise.none())


def test_what_goes_together_is_let_through():
    check_together(RING, ATC, sv.noise.independent(LAW), rounds=3)
    check_together(RING, ATC, sv.noise.independent(LAW), rounds=3, problem=PROBLEM, batch_size=2)
    check_together(FEDERATION, sv.algorithms.fedavg(step_size=0.1), sv.noise.central(LAW), rounds=3, problem=PROBLEM)
    with pytest.raises(sv.ConfigError, match="batch_size = 3, but agent 0 has 2 records"):
        check_together(RING, ATC, sv.noise.none(), rounds=3, problem=PROBLEM, batch_size=3)
