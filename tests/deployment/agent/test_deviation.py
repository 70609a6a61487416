"""The bound on the difference between whole and real numbers: by hand where that is easy, and never exceeded."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sottovoce as sv
from deployment.agent.cases import (
    DIMENSION,
    FEDERATED,
    FEDERATION,
    GRAPH,
    LATTICE,
    PROBLEM,
    SCHEMES,
    bound_of,
    peers,
    played,
    public_run,
)
from deployment.agent.recursion import Table, reference
from sottovoce.deployment.agent import Wiring, deviation_bound
from sottovoce.deployment.agent.deviation import ROUNDING

H = ROUNDING * math.sqrt(DIMENSION)
TABLE = Table(1, DIMENSION, None)
BETA, NU = 4.0, 0.0


def units(algorithm, noise, *, topology=GRAPH, rounds=10, beta=BETA, nu=NU) -> float:
    run = public_run(topology, algorithm, SCHEMES[noise], rounds=rounds)
    found = deviation_bound(Wiring(run, LATTICE, TABLE, relay_trusted=True), smoothness=beta, strong_convexity=nu)
    assert found.factor == pytest.approx(found.units / rounds)
    return found.units


def test_averaging_adds_one_rounding_in_a_round():
    """The starting point, the value that the first round makes of it, and one state after every round."""
    assert units(peers(GRAPH)["gossip"], "none", beta=1.0) == pytest.approx(H * (1 + 1 + 10))


def test_rounds_without_gradients_are_multiplied_out():
    """Taken one by one, the norms of accelerated rounds grow without end; multiplied out, they stay."""
    plain, accelerated = (
        units(peers(GRAPH)[name], "none", beta=1.0, rounds=60) for name in ("gossip", "gossip, accelerated")
    )
    assert plain < accelerated < 2 * plain


def test_atc_with_a_step_that_stretches_nothing_adds_two_roundings_in_a_round():
    for step in (0.1, 0.5):
        assert units(sv.algorithms.atc(step_size=step), "none") == pytest.approx(H * (1 + 2 * 10))


def test_strong_convexity_keeps_the_bound_for_ever():
    """The step shrinks differences by 0.8: message and state are rounded, and the state's part is shrunk once more."""
    found = units(sv.algorithms.atc(step_size=0.1), "none", nu=2.0, rounds=200)
    assert found == pytest.approx(H * 2 / (1 - 0.8))


def test_consensus_stretches_nothing_while_steps_are_below_twice_the_self_weight_over_beta():
    least = GRAPH.self_weights.min()
    short, long = (units(sv.algorithms.consensus(step_size=c * 2 * least / BETA), "none") for c in (1.0, 1.2))
    assert short == pytest.approx(H * (1 + 10))
    assert long > 1.1 * short


def test_a_step_that_is_too_long_makes_the_bound_grow_without_end():
    assert units(sv.algorithms.atc(step_size=0.6), "none", rounds=60) > 1e6 * H
    assert units(sv.algorithms.atc(step_size=1e30), "none", rounds=60) == math.inf


def test_losses_that_are_not_convex_cost_the_whole_step():
    """Message and state of one round, from a starting point that is stretched by 1 + step beta."""
    found = units(sv.algorithms.atc(step_size=0.1), "none", rounds=1, nu=-BETA)
    assert found == pytest.approx(H * (1.4 + 2))


def test_words_weighed_by_their_senders_are_each_rounded():
    ring = sv.topologies.ring(5)
    apart = units(sv.algorithms.atc(step_size=0.1), "local_graph_homomorphic", topology=ring, rounds=3)
    assert apart == pytest.approx(H * (1 + 3 * 3))  # two neighbours and the own copy; their sum is on the lattice


def test_fractions_of_noise_and_noisy_gradients_are_rounded_too():
    plain = units(sv.algorithms.atc(step_size=0.1), "independent", rounds=1)
    own = units(sv.algorithms.atc(step_size=0.1), "graph_homomorphic", rounds=1)
    # Of two neighbours with unequal weights, whoever weighs itself most and not one half: there the multiple is whole.
    assert own == pytest.approx(plain + H * max(a for a in GRAPH.self_weights if a != 0.5))
    assert units(sv.algorithms.atc(step_size=0.1), "gradient", rounds=1) == pytest.approx(plain + 0.1 * H)


def test_several_local_steps_stretch_nothing_either():
    three = sv.algorithms.fedavg(step_size=0.5, local_steps=3)
    assert units(three, "none", topology=FEDERATION) == pytest.approx(H * (1 + 10 * 2))


def test_a_relay_rounds_its_average_and_agents_the_state_after_it():
    found = units(FEDERATED["fedavg, gradients"], "none", topology=FEDERATION, rounds=1)
    # The message counts s mu, so does the average, and the state is rounded once more.
    assert found == pytest.approx(H * (1 + 2 * 0.7 * 0.05 + 1))


def test_clipped_updates_are_measured_and_not_bounded():
    with pytest.raises(sv.UnsupportedClaim, match="Measure the difference"):
        units(FEDERATED["fedavg, clipped"], "none", topology=FEDERATION)


@settings(max_examples=6)
@given(
    seed=st.integers(0, 2**32), name=st.sampled_from(["atc", "cta", "consensus", "fedavg", "three_matrix", "muffliato"])
)
def test_no_noise_takes_a_run_beyond_its_bound(seed, name):
    run = public_run(GRAPH, peers(GRAPH)[name], SCHEMES["graph_homomorphic"], rounds=6)
    table = Table(seed, DIMENSION, run.noise.law)
    apart = np.abs(played(run, table) - reference(run, LATTICE, PROBLEM, table)).max() / LATTICE.unit
    assert apart <= bound_of(run, table)
