"""Schedules over rounds: best factors against closed forms, a general solver, dual bounds, the exact recursion and a semidefinite programme."""

import clarabel
import numpy as np
import pytest
from scipy import optimize, sparse

import sottovoce as sv
from sottovoce.design.time import lag_gram, round_gains, round_gram, schedule

ONE = np.ones((1, 1))
ER = sv.topologies.erdos_renyi(20, 0.3, seed=0)


@pytest.mark.parametrize(("c", "rounds", "gain"), [(0.99, 100, 1.083), (0.99, 1000, 5.026), (0.95, 100, 2.595), (0.95, 1000, 25.64)])  # fmt: skip
def test_final_model_of_one_agent_gains_as_in_closed_form(c, rounds, gain):
    found = schedule(round_gains(ONE, c, rounds, ONE, when="final"))
    powers = c ** np.arange(rounds)
    assert found.gain == pytest.approx(rounds * (powers**2).sum() / powers.sum() ** 2, rel=1e-12)
    assert found.gain == pytest.approx(gain, rel=5e-4)


def test_final_model_on_a_random_graph_gains_6_5_with_early_noise_239_times_larger():
    found = schedule(round_gains(ER.matrix, 0.95, 200, np.eye(20), when="final"))
    assert found.gain == pytest.approx(6.534, abs=5e-4)
    assert found.factors[0] / found.factors[-1] == pytest.approx(239, abs=0.5)


def test_mean_over_rounds_gains_little():
    gains = [schedule(round_gains(ONE, c, T, ONE)).gain for c in (0.8, 0.95, 0.99, 1.0) for T in (10, 100, 1000)]
    assert min(gains) >= 1.0
    assert max(gains) < 1.13


def test_account_and_exact_recursion_confirm_the_gain():
    """The other route: mu by the accountant, errors by the exact recursion on mean estimation, where the Hessian is the identity."""
    T = 30
    problem = sv.problems.mean_estimation(np.zeros((20, 1, 2)), radius=1.0)
    algorithm = sv.algorithms.atc(step_size=0.1)  # c = 0.9
    plain = sv.noise.independent(sv.noise.Gaussian(std=1.0))
    for when in ("final", "mean"):
        found = schedule(round_gains(ER.matrix, 0.9, T, np.eye(20), when=when))
        noises = plain, plain.scaled(found.factors)
        mus = [
            sv.account(ER, algorithm, noise, sv.observers.eavesdropper(), rounds=T, sensitivity=1.0).mu
            for noise in noises
        ]
        errors = [
            sv.expected_msd(problem, ER, algorithm, noise, rounds=T)["msd_average"] / 2 for noise in noises
        ]  # two coordinates
        constant, best = [error[-1] if when == "final" else error.mean() for error in errors]
        assert mus[1] == pytest.approx(mus[0], rel=1e-12)
        assert constant == pytest.approx(found.constant, rel=1e-12)
        assert best == pytest.approx(found.error, rel=1e-12)


@pytest.mark.parametrize("cap", [None, 3.0, 1.2, 1.01])
def test_factors_solve_the_problem_with_a_cap(cap):
    rng = np.random.default_rng(3)
    g = rng.exponential(size=9) ** 3
    found = schedule(g, cap=cap)
    assert (found.factors**-2.0).sum() == pytest.approx(9.0, rel=1e-12)
    assert found.error == pytest.approx(found.lower_bound, rel=1e-12)
    if cap is not None:
        assert found.factors.max() <= cap
        assert (found.factors == cap).any()
    # In the precisions 1/f^2 the problem is a convex one with a linear constraint.
    least = 1e-6 if cap is None else cap**-2
    solved = optimize.minimize(
        lambda p: (g / p).sum(), np.ones(9), jac=lambda p: -g / p**2, method="SLSQP", bounds=[(least, None)] * 9,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 9.0, "jac": lambda p: np.ones(9)},
        options={"maxiter": 2000, "ftol": 1e-14},
    )  # fmt: skip
    assert found.error == pytest.approx(solved.fun, rel=1e-5)
    assert found.error <= solved.fun * (1 + 1e-9)
    for _ in range(200):  # no factors within budget and cap do better
        precisions = np.maximum(rng.exponential(size=9), least)
        precisions *= 9.0 / precisions.sum()
        if (precisions >= least).all():
            assert (g / precisions).sum() >= found.lower_bound


def test_a_budget_scales_the_factors():
    g = np.array([1.0, 4.0, 9.0])
    assert schedule(g, budget=6.0).factors == pytest.approx(schedule(g).factors / np.sqrt(2.0), rel=1e-14)
    assert schedule(g, budget=6.0).error == pytest.approx((np.sqrt(g).sum()) ** 2 / 6.0, rel=1e-14)


def test_a_round_without_effect_is_at_the_cap_or_refused():
    assert schedule([0.0, 1.0], cap=5.0).factors[0] == 5.0
    with pytest.raises(sv.ConfigError, match="round 1 does nothing"):
        schedule([0.0, 1.0])


@pytest.mark.parametrize(
    ("given", "more", "message"),
    [
        ([1.0, -1.0], {}, "non-negative"),
        ([], {}, "one per round"),
        ([[1.0]], {}, "one per round"),
        ([0.0, 0.0], {}, "not all zero"),
        ([1.0, np.inf], {}, "finite"),
        ([1.0, 1.0], {"cap": 0.9}, "Raise the cap to at least 1"),
        ([1.0, 1.0], {"cap": 0.0}, "cap = 0.0"),
        ([1.0, 1.0], {"budget": 0.0}, "budget = 0.0"),
    ],
)
def test_schedules_of_nothing_are_refused(given, more, message):
    with pytest.raises(sv.ConfigError, match=message):
        schedule(given, **more)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: round_gains(ONE, 0.9, 3, -ONE), "positive semidefinite"),
        (lambda: round_gains(ONE, 0.9, 3, ONE, when="steady"), "when"),
        (lambda: round_gains(np.ones((2, 3)), 0.9, 3, ONE), "square"),
        (lambda: lag_gram(np.eye(2), 0.9, 3, [1.0]), "Give all of the same"),
        (lambda: lag_gram(ONE, 1.5, 3, ONE), "contraction"),
        (lambda: lag_gram(ONE, 0.5, 0, ONE), "rounds"),
    ],
)
def test_gains_of_nothing_are_refused(call, message):
    with pytest.raises(sv.ConfigError, match=message):
        call()


@pytest.mark.parametrize("when", ["final", "mean"])
def test_gains_equal_the_stacked_network(when):
    """Brute force: models of all rounds as one linear map of all noise, on a graph with unequal weights and any objective."""
    rng = np.random.default_rng(0)
    K, T, c = 4, 5, 0.8
    A = rng.random((K, K))
    A /= A.sum(0)
    S, M = (root @ root.T for root in rng.normal(size=(2, K, K)))
    stacked = np.zeros((T, K, T, K))
    state = np.zeros((K, T, K))  # how every agent's model depends on the noise [T, K]
    for t in range(T):
        message = c * state
        message[np.arange(K), t, np.arange(K)] += 1.0
        state = np.tensordot(A.T, message, axes=1)
        stacked[t] = state
    rounds = [T - 1] if when == "final" else range(T)
    G = sum(np.einsum("ksa,lk,ltb,ab->st", stacked[r], M, stacked[r], S) for r in rounds) / len(rounds)
    assert round_gram(lag_gram(A, c, T, S, weights=M), when) == pytest.approx(G, rel=1e-12)
    assert round_gains(A, c, T, S, weights=M, when=when) == pytest.approx(np.diag(G), rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_a_unit_in_every_round_gains_nothing_from_correlated_rounds(seed):
    """A semidefinite programme over all covariances of the rounds finds the error of the best independent ones."""
    T = 7
    root = np.random.default_rng(seed).normal(size=(T, T))
    G = root @ root.T
    error, Sigma = _best_covariance(G, budget=2.0)
    found = schedule(np.diag(G), budget=2.0)
    assert found.error == pytest.approx(np.sqrt(np.diag(G)).sum() ** 2 / 2.0, rel=1e-12)
    assert error == pytest.approx(found.error, rel=1e-6)
    assert np.diag(np.diag(Sigma)) == pytest.approx(Sigma, abs=1e-3 * Sigma.max())
    assert np.diag(Sigma) == pytest.approx(found.factors**2, rel=1e-2)


def _best_covariance(G, budget):
    """Minimise trace(G Sigma) over [[Sigma, I], [I, Diag(d)]] >= 0, sum d <= budget, with the solver that accounts use."""
    T = len(G)
    rows, columns = np.triu_indices(2 * T)
    order = np.lexsort((rows, columns))  # the upper triangle, column after column
    rows, columns = rows[order], columns[order]
    index = {pair: i for i, pair in enumerate(zip(rows, columns, strict=True))}
    scale = np.where(rows == columns, 1.0, np.sqrt(2.0))
    pairs = [(i, j) for j in range(T) for i in range(j + 1)]
    m = len(pairs) + T
    A, b, cost = np.zeros((len(rows) + 1, m)), np.zeros(len(rows) + 1), np.zeros(m)
    for v, (i, j) in enumerate(pairs):
        A[index[i, j], v] = -scale[index[i, j]]
        cost[v] = G[i, j] * (1.0 if i == j else 2.0)
    for t in range(T):
        A[index[T + t, T + t], len(pairs) + t] = -1.0
        b[index[t, T + t]] = np.sqrt(2.0)
        A[-1, len(pairs) + t] = 1.0
    b[-1] = budget
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.PSDTriangleConeT(2 * T), clarabel.NonnegativeConeT(1)]
    solver = clarabel.DefaultSolver(sparse.csc_matrix((m, m)), cost, sparse.csc_matrix(A), b, cones, settings)
    solution = solver.solve()
    Sigma = np.zeros((T, T))
    for v, (i, j) in enumerate(pairs):
        Sigma[i, j] = Sigma[j, i] = solution.x[v]
    return solution.obj_val, Sigma
