"""Rizk et al. 2023, eq. 28-31, 55 and 67, against exact losses, worst-case distributions and integrals."""

import math

import numpy as np
import pytest
from scipy import optimize, signal, stats

import sottovoce as sv
from sottovoce.accounting.documents import (
    rizk_epsilon,
    rizk_failure_probability,
    rizk_mutual_information,
    rizk_sensitivity,
)

P, STEP, ROUNDS, STD = 3, 0.4, 100, 1.0
CURVATURE = np.array([[0.02], [1.0], [1.0]])  # the protected agent 0 has the flattest loss
CENTRE, CHANGED = np.array([[0.0], [1.0], [-1.0]]), np.array([[5.0], [1.0], [-1.0]])


def combine(psi, sent):
    """ATC with all weights 1/P and graph-homomorphic noise: the own copy is psi - (P - 1) (sent - psi)."""
    return sent.mean(axis=0) + (psi - (P - 1) * (sent - psi) - sent) / P


def run(centres, noise):
    """Messages and pre-noise models [T, P, runs] on the losses h_k (w - c_k)^2 / 2."""
    models, sent, clean = np.zeros(noise.shape[1:]), [], []
    for z in noise:
        psi = models - STEP * CURVATURE * (models - centres)
        sent.append(psi + z)
        clean.append(psi)
        models = combine(psi, psi + z)
    return np.array(sent), np.array(clean)


def log_density(messages, centres):
    """Log density of all messages up to a constant, replayed: given them every noise and own copy is known."""
    models, total = np.zeros(messages.shape[1:]), np.zeros(messages.shape[2:])
    for message in messages:
        psi = models - STEP * CURVATURE * (models - centres)
        total += log_laplace(message - psi)
        models = combine(psi, message)
    return total


def log_laplace(noise, std=STD):
    """Up to a constant, summed over the first axis. (SciPy takes the logarithm of an underflowing density.)"""
    return -math.sqrt(2.0) / std * np.abs(noise).sum(axis=0)


def documents_epsilon():
    """Eq. 31 with the true Delta(j): on quadratic losses two runs with equal noise differ by a fixed vector."""
    noise = np.random.default_rng(1).laplace(scale=STD / math.sqrt(2.0), size=(ROUNDS, P, 2))
    distances = np.linalg.norm(run(CENTRE, noise)[1] - run(CHANGED, noise)[1], axis=1)
    np.testing.assert_allclose(distances[:, 0], distances[:, 1], atol=1e-12)
    return rizk_epsilon(distances[:, 0], num_agents=P, std=STD)


def test_formula_by_hand():
    """sqrt(2) 4 / 0.5 (0 + 1 + 2) and 1 + 2 + sqrt(4) 3."""
    assert rizk_epsilon([0.0, 1.0, 2.0], num_agents=4, std=0.5).value == pytest.approx(24.0 * math.sqrt(2.0))
    stated = rizk_sensitivity(error_bound=1.0, changed_error_bound=2.0, optimum_shift=3.0, num_agents=4)
    assert stated.value == pytest.approx(9.0)
    assert not stated.upper_bound
    with pytest.raises(sv.ConfigError, match="empty"):
        rizk_epsilon([], num_agents=4, std=0.5)


def test_messages_lose_more_than_the_documents_epsilon_almost_surely_under_graph_homomorphic_noise():
    """At equal noise no agent's models differ by more than 0.09; at equal messages agent 0's differ by up to 2.8."""
    stated = documents_epsilon()
    assert not stated.upper_bound
    noise = np.random.default_rng(2).laplace(scale=STD / math.sqrt(2.0), size=(ROUNDS, P, 2000))
    messages, _ = run(CENTRE, noise)
    losses = log_density(messages, CENTRE) - log_density(messages, CHANGED)
    # "With high probability" would be exceeded rarely; this is exceeded in every run.
    assert np.mean(losses > stated.value) > 0.999
    assert losses.max() <= exact_epsilon() * (1 + 1e-9)


def exact_epsilon():
    """At equal messages d_j = (1 - mu h) d_{j-1} + mu h 5, and epsilon = sqrt(2) sum_j d_j / sigma."""
    d, total = 0.0, 0.0
    for _ in range(ROUNDS):
        d = (1.0 - STEP * 0.02) * d + STEP * 0.02 * 5.0
        total += math.sqrt(2.0) * d / STD
    return total


def test_the_documents_epsilon_is_below_the_exact_one_under_graph_homomorphic_noise():
    """A transcript below both worlds' models in every round attains the exact value, 5.5 times the document's."""
    models, far = np.zeros((P, 1)), []
    for _ in range(ROUNDS):
        psi = models - STEP * CURVATURE * (models - CENTRE)
        far.append(psi - 1.0)
        models = combine(psi, far[-1])
    attained = log_density(np.array(far), CENTRE) - log_density(np.array(far), CHANGED)
    assert attained[0] == pytest.approx(exact_epsilon(), rel=1e-9)
    assert documents_epsilon().value < attained[0] / 5.0


def test_the_documents_epsilon_is_below_the_exact_one_for_one_message_in_many_dimensions():
    """Independent noise, two agents, first round, M = 100: l2 norms lose sqrt(100) and the factor P gives back 2."""
    std = 0.5
    psi, psi_changed = np.zeros(100), np.full(100, 0.01)
    heard = psi - 1.0  # beyond both means in every coordinate
    exact = log_laplace(heard - psi, std) - log_laplace(heard - psi_changed, std)
    stated = rizk_epsilon([float(np.linalg.norm(psi - psi_changed))], num_agents=2, std=std)
    assert exact == pytest.approx(5.0 * stated.value, rel=1e-9)


def test_unbounded_gradients_leave_no_finite_epsilon():
    """Two curvatures instead of two centres: the further out the public point, the larger the loss of one message."""

    def loss(point):
        psi, psi_changed = np.array([point * (1.0 - STEP * 0.5)]), np.array([point * (1.0 - STEP * 1.0)])
        return log_laplace(psi - psi) - log_laplace(psi - psi_changed)

    assert loss(1e6) == pytest.approx(1e3 * loss(1e3), rel=1e-9)
    assert loss(1e6) > 1e5


@pytest.mark.parametrize(("x", "y", "ratio"), [(0.1, 0.1, 1.0), (0.3, 0.05, 1.0), (0.2, 0.6, 3.0), (0.5, 0.0, 0.5)])
def test_eq_29_holds_in_one_round_however_the_two_runs_depend_on_each_other(x, y, ratio):
    """Worst joint law of the two errors with these mean squares, by linear programming on a grid."""
    B, B_changed = 1.0, ratio
    levels = np.linspace(0.0, 2.0, 81)
    u, v = (grid.ravel() for grid in np.meshgrid(levels, levels))  # errors in units of B and B'
    fails = B * u + B_changed * v >= B + B_changed
    worst = optimize.linprog(
        -fails.astype(float), A_ub=np.array([u**2, v**2]), b_ub=[x, y], A_eq=np.ones((1, u.size)), b_eq=[1.0]
    )
    stated = rizk_failure_probability(
        mean_square_error=x * B**2,
        changed_mean_square_error=y * B_changed**2,
        error_bound=B,
        changed_error_bound=B_changed,
    )
    sharp = ((B * math.sqrt(x) + B_changed * math.sqrt(y)) / (B + B_changed)) ** 2
    assert stated.value == pytest.approx(1.0 - (1.0 - x) * (1.0 - y))
    assert 0.9 * sharp <= -worst.fun <= sharp * (1 + 1e-9)
    assert sharp <= stated.value
    assert stated.upper_bound


def test_several_rounds_may_fail_more_often_than_eq_29_says_of_one():
    """Four rounds, each with both errors at their bounds in its own tenth of all cases, and zero otherwise."""
    errors = np.eye(4, 10)  # [round, case], equal for both runs, in units of B = B'
    mean_square = float(np.mean(errors[0] ** 2))
    one_round = rizk_failure_probability(
        mean_square_error=mean_square,
        changed_mean_square_error=mean_square,
        error_bound=1.0,
        changed_error_bound=1.0,
    )
    some_round_fails = np.mean((2.0 * errors >= 2.0).any(axis=0))
    assert np.mean(2.0 * errors[0] >= 2.0) <= one_round.value < some_round_fails


def test_eq_29_is_refused_where_a_factor_turns_negative():
    """Two negative factors would multiply to a chance above one."""
    with pytest.raises(sv.ConfigError, match="larger error bounds"):
        rizk_failure_probability(
            mean_square_error=3.0, changed_mean_square_error=3.0, error_bound=1.0, changed_error_bound=1.0
        )


def mutual_information(message, noise):
    """I(w; w + g) = h(w + g) - h(g) for two densities, by convolution on a grid."""
    x = np.linspace(-40.0, 40.0, 80001)
    step = x[1] - x[0]

    def entropy(density):
        positive = density[density > 1e-300]
        return -np.sum(positive * np.log(positive)) * step

    total = signal.fftconvolve(message(x), noise(x), mode="same") * step
    return entropy(np.maximum(total, 0.0)) - entropy(noise(x))


def laplace(std):
    return lambda x: stats.laplace.pdf(x, scale=std / math.sqrt(2.0))


def normal(std):
    return lambda x: stats.norm.pdf(x, scale=std)


@pytest.mark.parametrize(("sigma_w", "sigma_g"), [(1.0, 1.0), (2.0, 1.0), (0.5, 1.5)])
def test_eq_55_is_exact_for_gaussian_messages_and_noise_and_too_small_for_laplace_noise(sigma_w, sigma_g):
    stated = {
        noise: rizk_mutual_information(message_variance=sigma_w**2, noise_variance=sigma_g**2, noise=noise)
        for noise in ("gaussian", "laplace")
    }
    value = stated["gaussian"].value
    assert mutual_information(normal(sigma_w), normal(sigma_g)) == pytest.approx(value, rel=1e-6)
    assert stated["gaussian"].upper_bound
    assert mutual_information(laplace(sigma_w), normal(sigma_g)) < value
    assert mutual_information(normal(sigma_w), laplace(sigma_g)) > 1.01 * value
    assert not stated["laplace"].upper_bound
