"""PN-f-DP's number for a pair: what its public code prints, the definition by hand, and where it is below the truth."""

import itertools
import math

import networkx as nx
import numpy as np
import pytest

from sottovoce import topologies
from sottovoce.accounting import documents, gaussian, walk
from sottovoce.errors import ConfigError, IncompatibleChoice

UNIT = {"std": 1.0, "sensitivity": 1.0, "delta": 1e-5}
PAIR = topologies.complete(2)


def stated(topology, agent, observer, rounds, lags, **options):
    return documents.pn_fdp_epsilon(
        topology, agent=agent, observer=observer, rounds=rounds, lags=lags, **(UNIT | options)
    )


@pytest.mark.parametrize(
    ("topology", "rounds", "pair", "program", "mended"),
    [
        (topologies.hypercube(5), 110, (0, 31), 1.74, 1.87),
        (topologies.from_networkx(nx.random_regular_graph(3, 24, seed=0)), 320, (0, 12), 3.11, 3.28),
        (topologies.from_networkx(nx.ring_of_cliques(3, 8)), 930, (0, 9), 4.59, 4.88),
    ],
    ids=["hypercube", "regular", "cliques"],
)
def test_the_number_is_what_the_public_code_prints(topology, rounds, pair, program, mended):
    """Printed with two digits behind the point, and recomputed with the lags of the code mended."""
    assert stated(topology, *pair, rounds, "program").value == pytest.approx(program, abs=0.0051)
    assert stated(topology, *pair, rounds, "mended").value == pytest.approx(mended, abs=0.0051)


@pytest.mark.parametrize("lags", ["program", "mended"])
@pytest.mark.parametrize("std", [0.7, 3.0])
def test_it_is_the_average_over_independent_lags_until_the_first_look(lags, std):
    """Path 0 - 1 - 2, all lags of three contributions one by one, their probabilities by listing every way."""
    W, T, count = topologies.path(3).matrix, 5, 3
    first = np.zeros(T)
    for way in itertools.product(range(3), repeat=T):
        for t in range(1, T + 1):
            if way[t - 1] == 2 and 2 not in way[: t - 1]:
                first[t - 1] += math.prod(W[a, b] for a, b in itertools.pairwise((0, *way)))
    epsilon = stated(topologies.path(3), 0, 2, T, lags, contributions=count, std=std).value
    noises = [*(t + (lags == "program") for t in range(1, T + 1)), math.inf]
    weights = [*first, 1.0 - first.sum()]
    total = 0.0
    for drawn in itertools.product(range(T + 1), repeat=count):
        square = sum(1.0 / noises[t] for t in drawn)
        if square:
            total += math.prod(weights[t] for t in drawn) * gaussian.delta(math.sqrt(square) / std, epsilon)
    assert total == pytest.approx(1e-5, rel=1e-4)


def test_one_hand_over_is_given_two_noises():
    """Two agents, one hop, one contribution that is seen for certain is the Gaussian mechanism with mu = 1, not 1 / sqrt(2)."""
    swap = np.array([[1e-9, 1 - 1e-9], [1 - 1e-9, 1e-9]])
    program, mended = (stated(swap, 0, 1, 1, lags, contributions=1).value for lags in ("program", "mended"))
    assert program == pytest.approx(gaussian.epsilon(math.sqrt(0.5), 1e-5), rel=1e-4)
    assert mended == pytest.approx(gaussian.epsilon(1.0, 1e-5), rel=1e-4)
    assert (round(program, 3), round(mended, 3)) == (2.943, 4.377)


def clear_cost(way, most):
    """mu^2 of agent 0 towards agent 1 for gradients that do not react, given the way: (contributions)^2 / noises of every block, added up."""
    made = cost = shift = noises = 0
    for holder, receiver in itertools.pairwise(way):
        noises += holder == 0
        shift += holder == 0 and made < most
        made += holder == 0 and made < most
        if receiver == 1:
            cost += shift**2 / noises if shift else 0
            shift = noises = 0
    return cost


def test_two_agents_know_more_than_is_stated_even_with_mended_lags():
    """Whoever is not the holder is the other: the observer knows the way, and that gradients do not react is one case among those promised."""
    costs = [clear_cost(way, 4) for way in itertools.product(range(2), repeat=9)]

    def delta(epsilon):
        return sum(gaussian.delta(math.sqrt(cost), epsilon) for cost in costs if cost) / len(costs)

    program, mended = (stated(PAIR, 0, 1, 8, lags) for lags in ("program", "mended"))
    assert delta(9.486) == pytest.approx(1e-5, rel=1e-3)
    assert (round(program.value, 3), round(mended.value, 3)) == (5.915, 8.806)
    assert delta(mended.value) > 1.5e-5
    assert delta(program.value) > 1e-3
    for one in (program, mended):
        assert not one.upper_bound
        assert "does not hold as claimed" in str(one)


def test_what_is_marked_as_holding_is_proven():
    """One contribution: the mended number counts from a token that u has at once, the proven one from a uniform start."""
    found = stated(topologies.ring(5), 0, 1, 10, "mended", contributions=1)
    proven = walk.blocks_epsilon(topologies.ring(5), agent=0, observers=[1], rounds=10, contributions=1, **UNIT)
    assert found.upper_bound
    assert proven <= found.value


def test_the_code_counts_the_mean_number_of_visits():
    ring = topologies.ring(6)
    assert stated(ring, 0, 3, 20, "program").value == stated(ring, 0, 3, 20, "program", contributions=3).value
    with pytest.raises(ConfigError, match="contributions = 0"):
        stated(ring, 0, 3, 5, "program")


@pytest.mark.parametrize(
    ("change", "words"),
    [({"agent": 1}, "two different"), ({"observer": 2}, "two different"), ({"agent": -1}, "agent"), ({"lags": "t"}, "lags"),
     ({"delta": 1e-11}, "delta"), ({"std": 0.0}, "std"), ({"sensitivity": -1.0}, "sensitivity"), ({"rounds": 0}, "rounds")],
)  # fmt: skip
def test_malformed_questions_are_refused(change, words):
    asked = {"agent": 0, "observer": 1, "rounds": 8, "lags": "mended", **UNIT} | change
    with pytest.raises(ConfigError, match=words):
        documents.pn_fdp_epsilon(PAIR, **asked)


def test_weights_that_are_not_symmetric_are_refused():
    with pytest.raises(IncompatibleChoice, match="symmetric"):
        stated(np.array([[0.5, 0.5], [0.4, 0.6]]), 0, 1, 8, "program")
