"""Sources that three agents and more know: prices and linear views against the stacked covariance."""

import math

import numpy as np
import pytest

import sottovoce as sv
from accounting.brute_force import largest, leak
from accounting.stacked_maps import stacked, table_noise

ROUNDS, STEP, STD = 4, 0.3, 0.8
TOPOLOGY = sv.topologies.erdos_renyi(6, 0.5, seed=0)
ATC = sv.algorithms.atc(step_size=STEP)
OWNERS = [[k] for k in range(6)] + [[0, 1, 2], [1, 3, 4, 5], [2, 5], [0, 3, 4]]


def table() -> np.ndarray:
    rng = np.random.default_rng(2)
    factors = np.zeros((6, len(OWNERS)))
    for source, owners in enumerate(OWNERS):
        factors[owners, source] = rng.uniform(0.5, 1.5, len(owners)) * rng.choice([-1.0, 1.0], len(owners))
    return factors


@pytest.mark.parametrize("members", [(), (0,), (3,), (1, 4), (0, 2, 4)])
def test_coalitions_know_every_source_that_a_member_knows(members):
    factors, agent = table(), 5
    known = np.array([any(k in members for k in owners) for owners in OWNERS])
    left = factors[:, ~known]
    outside = [k for k in range(6) if k not in members]
    price = np.linalg.inv(STD**2 * left[outside] @ left[outside].T)[outside.index(agent), outside.index(agent)]
    observer = sv.observers.coalition(members) if members else sv.observers.eavesdropper()
    found = sv.account(
        TOPOLOGY, ATC, table_noise(factors, OWNERS, std=STD), observer, rounds=ROUNDS, sensitivity=1.0, agent=agent
    )
    assert found.mu == pytest.approx(STEP * math.sqrt(ROUNDS * price), rel=1e-10)
    seen = stacked(
        TOPOLOGY.matrix, STEP, [STD * factors] * ROUNDS, known=[known] * ROUNDS, members=members, everything=not members
    )
    assert found.linear_mu == pytest.approx(math.sqrt(largest(leak(seen, agent).gram)), rel=1e-6)
    assert found.linear_mu <= found.mu * (1 + 1e-9)
    assert "agents outside the observer follow the protocol" in found.assumptions


def test_a_source_of_all_is_no_noise_to_a_member():
    # The third owner is the one that a table of two columns would forget.
    factors = np.hstack([0.1 * np.eye(6), np.ones((6, 1))])
    noise = table_noise(factors, [[k] for k in range(6)] + [list(range(6))])
    complete = sv.topologies.complete(6)
    outside = sv.account(complete, ATC, noise, sv.observers.eavesdropper(), rounds=1, sensitivity=1.0, agent=0)
    inside = sv.account(complete, ATC, noise, sv.observers.curious_agent(4), rounds=1, sensitivity=1.0, agent=0)
    assert inside.mu == pytest.approx(STEP / 0.1, rel=1e-10)
    assert outside.mu == pytest.approx(STEP * math.sqrt(100.0 - 100.0**2 / (1 + 600.0)), rel=1e-10)


def test_simulation_and_exact_theory_agree():
    problem = sv.problems.mean_estimation(np.random.default_rng(0).standard_normal((6, 1, 2)), radius=5.0)
    noise = table_noise(table(), OWNERS, std=0.3)
    exact = sv.expected_msd(problem, TOPOLOGY, ATC, noise, rounds=6)
    run = sv.simulate(problem, TOPOLOGY, ATC, noise, rounds=6, repeats=4000, seed=1, dtype="float64", progress=False)
    measured = run.metrics["msd_average"]
    error = measured.std(axis=0) / math.sqrt(measured.shape[0])
    assert (np.abs(measured.mean(axis=0) - exact["msd_average"]) < 4.5 * error).all()
    wrong = sv.expected_msd(problem, TOPOLOGY, ATC, noise.scaled(1.2), rounds=6)["msd_average"]
    assert (np.abs(measured.mean(axis=0) - wrong) > 4.5 * error).all()
