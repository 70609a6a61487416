"""Membership inference: no signal without use, full signal from memory, and never more than the guarantee allows."""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.attacks import bounds
from sottovoce.attacks import membership as mi
from sottovoce.errors import ConfigError, Diverged, IncompatibleChoice

CANARIES = 4


def memorising_problem(*, agents=1, size=24, dimension=40, ridge=1e-4):
    """More parameters than records, and the first four labels of agent 0 turned round."""
    random = np.random.default_rng(0)
    features = random.normal(size=(agents, size, dimension)) / np.sqrt(dimension)
    labels = np.sign(features @ random.normal(size=dimension))
    labels[0, :CANARIES] *= -1
    return sv.problems.logistic_regression(features, labels, ridge=ridge)


@pytest.fixture(scope="module")
def overfitted():
    problem = memorising_problem()
    members = mi.random_halves(problem, runs=120, seed=1)
    models = mi.train(problem, members, combination=[[1.0]], step_size=20.0, rounds=400, noise_std=0.0, seed=0)
    return problem, members[:, 0], models[:, 0]


def test_training_on_a_mask_is_training_on_the_records_it_keeps():
    """Three agents, two of them with padding, clipped: the same diffusion written in NumPy on the members alone."""
    random = np.random.default_rng(2)
    features = [random.normal(size=(n, 3)) for n in (6, 4, 4)]
    labels = [np.resize([1.0, -1.0], n) for n in (6, 4, 4)]
    problem = sv.problems.logistic_regression(features, labels, ridge=0.05).with_clipping(0.4, "l2")
    topology = sv.topologies.path(3)
    members = mi.random_halves(problem, runs=2, seed=3)
    assert (members.sum(-1) == problem.sizes // 2).all()
    found = mi.train(problem, members, combination=topology.matrix, step_size=0.5, rounds=7, noise_std=0.0, seed=0)
    for run in range(2):
        models = np.zeros((3, 3))
        for _ in range(7):
            steps = []
            for k in range(3):
                kept = np.flatnonzero(members[run, k])
                x, y = features[k][kept], labels[k][kept]
                each = -(y / (1 + np.exp(y * (x @ models[k]))))[:, None] * x
                each *= np.minimum(1.0, 0.4 / np.linalg.norm(each, axis=1))[:, None]
                steps.append(each.mean(0) + 0.05 * models[k])
            models = topology.matrix.T @ (models - 0.5 * np.array(steps))
        np.testing.assert_allclose(found[run], models, atol=1e-12)


def test_noise_has_the_standard_deviation_asked_for_and_is_independent_over_runs():
    """One round, 3000 runs, identity combination: 5 standard errors of a deviation are 3 % with 18,000 numbers."""
    problem = sv.problems.mean_estimation(np.zeros((2, 2, 3)), radius=1.0)
    members = np.ones((3000, 2, 2), dtype=bool)
    models = mi.train(problem, members, combination=np.eye(2), step_size=1.0, rounds=1, noise_std=0.3, seed=5)
    assert models.std() == pytest.approx(0.3, rel=0.03)
    assert abs(np.corrcoef(models.reshape(3000, 6).T) - np.eye(6)).max() < 5 / np.sqrt(3000)
    other = mi.train(problem, members[:2], combination=np.eye(2), step_size=1.0, rounds=1, noise_std=0.3, seed=6)
    assert abs(other[0] - other[1]).min() > 0.0


def test_the_loss_of_a_record_is_its_own_without_the_ridge():
    problem = memorising_problem(agents=2, size=4, dimension=3, ridge=0.7)
    models = np.random.default_rng(4).normal(size=(5, 3))
    margins = problem.labels * np.einsum("rd,knd->rkn", models, problem.features)
    losses = mi.record_losses(problem, models)
    np.testing.assert_allclose(losses, np.log1p(np.exp(-margins)), rtol=1e-12)
    np.testing.assert_allclose(mi.logit_confidence(losses), margins, atol=1e-10)
    linear = sv.problems.linear_regression(problem.features, problem.labels, ridge=0.7)
    expected = (problem.labels - np.einsum("rd,knd->rkn", models, problem.features)) ** 2
    np.testing.assert_allclose(mi.record_losses(linear, models), expected, rtol=1e-10, atol=1e-13)


def test_logit_confidence_is_finite_at_the_ends_and_monotone():
    losses = np.array([0.0, 1e-20, 1e-3, np.log(2.0), 1.0, 50.0, 1e4])
    phi = mi.logit_confidence(losses)
    assert np.isfinite(phi).all()
    assert (np.diff(phi) < 0).all()
    assert phi[3] == pytest.approx(0.0, abs=1e-15)
    assert phi[-1] == pytest.approx(-1e4)
    np.testing.assert_array_equal(mi.loss_threshold(losses), -losses)


def test_likelihood_ratio_is_the_ratio_of_the_fitted_normal_laws():
    from scipy.stats import norm

    random = np.random.default_rng(6)
    shadows, members = random.normal(size=(40, 3)), random.random((40, 3)) < 0.5
    observed = random.normal(size=(5, 3))
    online = mi.likelihood_ratio(observed, shadows, members, mode="online", variance="record")
    offline = mi.likelihood_ratio(observed, shadows, members, mode="offline", variance="record")
    for i in range(3):
        inside, outside = shadows[members[:, i], i], shadows[~members[:, i], i]
        laws = [norm(part.mean(), part.std(ddof=1)) for part in (inside, outside)]
        np.testing.assert_allclose(online[:, i], laws[0].logpdf(observed[:, i]) - laws[1].logpdf(observed[:, i]))
        np.testing.assert_allclose(norm.cdf(offline[:, i]), laws[1].cdf(observed[:, i]))
    shared = mi.likelihood_ratio(observed, shadows, members, mode="offline", variance="shared")
    deviations = np.concatenate([shadows[~members[:, i], i] - shadows[~members[:, i], i].mean() for i in range(3)])
    spread = np.sqrt((deviations**2).sum() / (len(deviations) - 3))
    centres = np.array([shadows[~members[:, i], i].mean() for i in range(3)])
    np.testing.assert_allclose(shared, (observed - centres) / spread)


@pytest.mark.parametrize("mode", ["online", "offline"])
def test_a_memorised_mislabelled_record_is_found(overfitted, mode):
    """60 shadow models attack 60 others; the loss alone already tells, the ratio as well."""
    problem, members, models = overfitted
    phi = mi.logit_confidence(mi.record_losses(problem, models))[:, 0]
    scores = mi.likelihood_ratio(phi[60:], phi[:60], members[:60], mode=mode, variance="shared")
    canaries = bounds.auc(*mi.by_membership(scores[:, :CANARIES], members[60:, :CANARIES]))
    assert canaries.value > 0.97
    assert bounds.auc(*mi.by_membership(scores, members[60:])).value > 0.9


def test_the_loss_of_a_memorised_record_is_small(overfitted):
    problem, members, models = overfitted
    scores = mi.loss_threshold(mi.record_losses(problem, models))[:, 0]
    found = bounds.auc(*mi.by_membership(scores[:, :CANARIES], members[:, :CANARIES]))
    assert found.value > 0.95
    assert bounds.auc(*mi.by_membership(-scores, members)).value < 0.2


def test_a_record_that_was_never_used_gives_no_signal(overfitted):
    """The same models with somebody else's coins: AUC 1/2 within four of its standard errors, which are below 0.03."""
    problem, members, models = overfitted
    coins = np.random.default_rng(9).random(members.shape) < 0.5
    phi = mi.logit_confidence(mi.record_losses(problem, models))[:, 0]
    for mode in ("online", "offline"):
        scores = mi.likelihood_ratio(phi[60:], phi[:60], coins[:60], mode=mode, variance="shared")
        found = bounds.auc(*mi.by_membership(scores, coins[60:]))
        assert found.standard_error < 0.03
        assert abs(found.value - 0.5) < 4 * found.standard_error


def attacked(noise_std, runs=1200):
    """LiRA on one canary of agent 0 by who holds its final model, with half of the runs as shadows.

    Nobody else has the canary's feature, so that only the canary moves its weight.
    """
    random = np.random.default_rng(10)
    features, labels = random.normal(size=(3, 8, 4)), np.resize([1.0, -1.0], (3, 8))
    features[:, :, 3], features[0, 0] = 0.0, (0.0, 0.0, 0.0, 4.0)
    problem = sv.problems.logistic_regression(features, labels).with_clipping(1.0, "l2")
    members = mi.random_halves(problem, runs=runs, seed=11)
    models = mi.train(
        problem,
        members,
        combination=sv.topologies.ring(3).matrix,
        step_size=0.5,
        rounds=10,
        noise_std=noise_std,
        seed=12,
    )
    phi = mi.logit_confidence(mi.record_losses(problem, models[:, 0]))[:, 0, :1]
    half, inside = runs // 2, members[:, 0, :1]
    scores = mi.likelihood_ratio(phi[half:], phi[:half], inside[:half], mode="offline", variance="record")
    return mi.by_membership(scores, inside[half:])


def test_the_attack_stays_below_the_guarantee_and_catches_noise_that_is_too_small():
    """Guarantee of one replaced record among 4 per agent, clipped to 1, against who reads every message."""
    std = 0.4
    guarantee = sv.account(
        sv.topologies.ring(3), sv.algorithms.atc(step_size=0.5), sv.noise.independent(sv.noise.Gaussian(std=std)),
        sv.observers.eavesdropper(), rounds=10, sensitivity=2.0 / 4, unit="record", adjacency="replace", agent=0,
    )  # fmt: skip
    assert 1.0 < guarantee.mu < 3.0
    honest, broken = attacked(std), attacked(std / 10)
    for found in (
        bounds.tradeoff_mu(*honest, confidence=0.99),
        bounds.clopper_pearson(*honest, delta=1e-2, confidence=0.99),
    ):
        assert not found.contradicts(guarantee)
    assert bounds.tradeoff_mu(*honest, confidence=0.99).mu > 0.05 * guarantee.mu
    assert bounds.tradeoff_mu(*broken, confidence=0.99).contradicts(guarantee)
    assert bounds.auc(*honest).value < 0.8 < bounds.auc(*broken).value


def test_malformed_requests_are_refused():
    problem = memorising_problem(size=4, dimension=3)
    members = mi.random_halves(problem, runs=2, seed=0)
    options = {"combination": [[1.0]], "step_size": 0.1, "rounds": 2, "noise_std": 0.0, "seed": 0}
    for change in (
        {"step_size": 0.0}, {"noise_std": -1.0}, {"noise_std": np.nan}, {"rounds": 0}, {"seed": -1},
        {"combination": [[0.5]]}, {"combination": np.eye(2)},
    ):  # fmt: skip
        with pytest.raises(ConfigError):
            mi.train(problem, members, **{**options, **change})
    for wrong in (members.astype(float), members[:, :, :3], members & False):
        with pytest.raises(ConfigError, match="members"):
            mi.train(problem, wrong, **options)
    with pytest.raises(IncompatibleChoice, match="even"):
        mi.random_halves(memorising_problem(size=5, dimension=3), runs=2, seed=0)
    with pytest.raises(IncompatibleChoice, match="targets"):
        mi.record_losses(sv.problems.mean_estimation(np.zeros((1, 2, 2)), radius=1.0), np.zeros((1, 2)))
    with pytest.raises(ConfigError, match="losses"):
        mi.logit_confidence([-0.1])
    with pytest.raises(ConfigError, match="Train more"):
        mi.likelihood_ratio(np.zeros((1, 1)), np.ones((3, 1)), np.ones((3, 1), bool), mode="online", variance="record")
    with pytest.raises(ConfigError, match="agree"):
        mi.likelihood_ratio(
            np.zeros((1, 1)), np.ones((3, 1)), np.zeros((3, 1), bool), mode="offline", variance="shared"
        )
    with pytest.raises(ConfigError, match="mode"):
        mi.likelihood_ratio(np.zeros((1, 1)), np.ones((3, 1)), np.zeros((3, 1), bool), mode="both", variance="shared")


def test_training_that_diverges_is_refused():
    problem = sv.problems.linear_regression(np.ones((1, 2, 1)), np.ones((1, 2)))
    members = np.ones((1, 1, 2), dtype=bool)
    with pytest.raises(Diverged, match="step_size"):
        mi.train(problem, members, combination=[[1.0]], step_size=100.0, rounds=400, noise_std=0.0, seed=0)
