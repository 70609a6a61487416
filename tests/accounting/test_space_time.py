"""Readers of every message under noise correlated across agents and rounds: against the stacked covariance of all messages."""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.accounting import space_time
from sottovoce.accounting.linear_view.worst_direction import worst_direction
from sottovoce.attacks.likelihood import worst_changes
from sottovoce.errors import ConfigError, UnsupportedClaim

K, T, STEP = 6, 5, 0.4
TOPOLOGY = sv.topologies.erdos_renyi(K, 0.5, seed=1)


def random_covariance(seed: int = 0, n: int = K * T) -> np.ndarray:
    root = np.random.default_rng(seed).normal(size=(n, n))
    return root @ root.T / n + 0.1 * np.eye(n)


def stacked_gram(covariance: np.ndarray, agent: int, own: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Q from the covariance of everything that is sent: every message as a row over all gradients and all noise, played agent by agent.

    An own copy of multiple s[k] of the message's noise; the models are followed as linear functions of (gradients, noise).
    """
    A, width = TOPOLOGY.matrix, 2 * K * T
    models, rows = np.zeros((K, width)), []
    for t in range(T):
        gradient, noise = np.zeros((K, width)), np.zeros((K, width))
        gradient[np.arange(K), t * K + np.arange(K)] = 1.0
        noise[np.arange(K), K * T + t * K + np.arange(K)] = 1.0
        plain = models - steps[t] * gradient
        rows.append(plain + noise)
        models = np.stack(
            [sum(A[m, k] * (plain[m] + (own[k] if m == k else 1.0) * noise[m]) for m in range(K)) for k in range(K)]
        )
    stacked = np.concatenate(rows)
    shift, carried = stacked[:, agent : K * T : K], stacked[:, K * T :]
    return shift.T @ np.linalg.solve(carried @ covariance @ carried.T, shift)


@pytest.mark.parametrize("s", [1.0, 0.5, 0.0, -0.4])
@pytest.mark.parametrize("agent", [0, 3])
def test_the_matrix_is_that_of_the_stacked_covariance_of_all_messages(s, agent):
    covariance, steps = random_covariance(), STEP * np.linspace(1.0, 0.5, T)
    factors = np.ones(K)
    factors[agent] = s
    expected = stacked_gram(covariance, agent, factors, steps)
    own = (float(TOPOLOGY.self_weights[agent]), s)
    found = space_time.gram(covariance, num_agents=K, rounds=T, step_size=steps, agent=agent, own=own)
    assert np.abs(found - expected).max() <= 1e-10 * np.abs(expected).max()
    if s == 1.0:
        plain = space_time.gram(covariance, num_agents=K, rounds=T, step_size=steps, agent=agent)
        assert np.abs(plain - expected).max() <= 1e-10 * np.abs(expected).max()
    else:  # power: an own copy taken for the message gives another matrix
        plain = space_time.gram(covariance, num_agents=K, rounds=T, step_size=steps, agent=agent)
        assert np.abs(plain - expected).max() > 1e-2 * np.abs(expected).max()


@pytest.mark.parametrize("s", [1.0, 0.5, 0.0, -0.4])
def test_mu_is_the_dual_and_is_reached_by_fixed_changes(s):
    covariance, agent = random_covariance(3), 2
    factors = np.ones(K)
    factors[agent] = s
    Q = stacked_gram(covariance, agent, factors, np.full(T, STEP))
    found = space_time.mu(
        covariance, num_agents=K, rounds=T, step_size=STEP, sensitivity=2.0, agent=agent, own=(float(TOPOLOGY.self_weights[agent]), s)
    )  # fmt: skip
    v = worst_changes(Q, T)
    reached = 2.0 * np.sqrt(np.sum(v * (Q @ v)))
    assert reached <= found.mu * (1 + 1e-9)
    assert reached == pytest.approx(found.mu, rel=1e-5)
    assert found.attained == pytest.approx(found.mu, rel=1e-5)


def test_independent_rounds_give_the_closed_form():
    spatial = random_covariance(5, K)
    covariance = np.kron(np.eye(T), spatial)
    found = space_time.mu(covariance, num_agents=K, rounds=T, step_size=STEP, sensitivity=1.5, agent=4)
    assert found.mu == pytest.approx(STEP * 1.5 * np.sqrt(T * np.linalg.inv(spatial)[4, 4]), rel=1e-9)
    assert found.attained == pytest.approx(found.mu, rel=1e-9)


def test_a_promise_needs_absolute_values_where_rounds_are_correlated():
    """Two rounds, c rho = 0.5, precision [[1, -0.9], [-0.9, 1]]: replacing rho by c rho in Q says 2.15, and a difference that turns round costs 5.95."""
    covariance = np.linalg.inv(np.array([[1.0, -0.9], [-0.9, 1.0]]))
    losses = sv.accounting.ConvexSmooth(2.0)  # step 1 = 2 / beta: steps may turn round, c = 1
    found = space_time.mu(
        covariance, num_agents=1, rounds=2, step_size=1.0, sensitivity=1.0, agent=0, own=(0.5, 0.0), losses=losses
    )
    assert found.mu**2 == pytest.approx(5.95, rel=1e-9)
    changes = np.array([1.0, -1.5])  # 0.5 turned round, and a gradient change of one
    assert changes @ np.linalg.inv(covariance) @ changes == pytest.approx(5.95)
    shortcut = np.array([[1.0, 0.0], [0.5, 1.0]])
    wrong = shortcut.T @ np.linalg.inv(covariance) @ shortcut
    assert float(worst_direction(wrong).upper) == pytest.approx(2.15, abs=0.01)


def test_what_is_no_covariance_is_refused():
    good = {"num_agents": 2, "rounds": 2, "step_size": 0.1, "sensitivity": 1.0, "agent": 0}
    with pytest.raises(ConfigError, match="shape"):
        space_time.mu(np.eye(3), **good)
    with pytest.raises(ConfigError, match="symmetric"):
        space_time.mu(np.eye(4) + 0.1 * np.eye(4, k=1), **good)
    with pytest.raises(UnsupportedClaim, match="no noise"):
        space_time.mu(np.diag([1.0, 1.0, 0.0, 1.0]), **good)
    with pytest.raises(UnsupportedClaim, match="eigenvalue"):
        space_time.mu(np.ones((4, 4)), **good)
    with pytest.raises(ConfigError, match="agent = 2"):
        space_time.mu(np.eye(4), **(good | {"agent": 2}))
    with pytest.raises(ConfigError, match="own"):
        space_time.mu(np.eye(4), **good, own=(1.5, 0.0))
    with pytest.raises(ConfigError, match="step_size"):
        space_time.mu(np.eye(4), **(good | {"step_size": [0.1]}))
