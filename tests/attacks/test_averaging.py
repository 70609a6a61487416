"""Averaging noisy copies: the exact variance, on hand-made copies and on recorded views."""

import numpy as np
import pytest
from scipy import optimize, stats

import sottovoce as sv
from sottovoce.attacks.averaging import (
    average_copies,
    average_from_views,
    average_over_links,
    average_over_rounds,
    converged_covariance,
)
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.simulation.views import observe

K, D = 5, 2
COMPLETE, RING = sv.topologies.complete(K), sv.topologies.ring(K)
ATC = sv.algorithms.atc(step_size=0.25)
LAW = sv.noise.Gaussian(std=0.7)
# Every agent's points average to zero, where all agents start: the run begins at its fixed point, and h = 1.
STILL = sv.problems.mean_estimation(
    np.stack([np.array([[1.0, -2.0], [-1.0, 2.0]]) * (k + 1) for k in range(K)]), radius=20.0
)


def fits(ratio, count):
    """Two-sided chi-square test at 1e-4 that a mean square of this many Gaussian numbers is one."""
    p = stats.chi2.cdf(ratio * count, count)
    return min(p, 1 - p) > 5e-5


def test_independent_copies_shrink_the_variance_by_their_number():
    found = average_copies(np.ones((7, D)), 0.49 * np.eye(7), weighting="equal")
    assert found.variance == pytest.approx(0.07)
    assert found.reduction == pytest.approx(7)
    np.testing.assert_allclose(found.estimates, np.ones(D))


def test_best_weights_beat_every_other_unbiased_weighting():
    root = np.random.default_rng(0).standard_normal((4, 4))
    C = root @ root.T
    found = average_copies(np.zeros((4, 1)), C, weighting="best")
    search = optimize.minimize(
        lambda v: v @ C @ v, np.full(4, 0.25), constraints={"type": "eq", "fun": lambda v: v.sum() - 1}, tol=1e-14
    )
    assert found.variance == pytest.approx(search.fun, rel=1e-6)
    np.testing.assert_allclose(found.weights, search.x, atol=1e-4)
    assert found.variance < average_copies(np.zeros((4, 1)), C, weighting="equal").variance


def test_copies_whose_noises_cancel_give_the_value_itself():
    z, value = np.random.default_rng(0).standard_normal((50, 1, D)), np.array([3.0, -1.0])
    factors = np.array([1.0, -2.0, 0.5])[:, None]
    found = average_copies(value + factors * z, factors @ factors.T, weighting="best")
    np.testing.assert_allclose(found.estimates, np.broadcast_to(value, (50, D)), atol=1e-12)
    assert found.variance == 0.0
    assert found.reduction == np.inf
    with pytest.raises(IncompatibleChoice, match="without noise"):
        found.error_ratio(value)


@pytest.mark.parametrize(("topology", "copies"), [(RING, 2), (COMPLETE, 4)])
def test_noise_per_link_is_divided_by_the_number_of_links_read(topology, copies):
    noise = sv.noise.independent(LAW, per_edge=True)
    views = observe(STILL, topology, ATC, noise, sv.observers.eavesdropper(), rounds=1, repeats=600)
    found = average_from_views(views, sender=1, topology=topology, noise=noise, weighting="equal")
    assert found.variance == pytest.approx(LAW.std**2 / copies)
    assert found.reduction == pytest.approx(copies)
    ratio, count = found.error_ratio(np.zeros(D)), 600 * D
    assert fits(ratio, count)
    assert not fits(ratio * (3 / 2) ** 2, count)
    assert not fits(ratio * (2 / 3) ** 2, count)


def test_copies_of_a_broadcast_gain_nothing_and_are_refused():
    messages = np.zeros((1, 1, len(RING.links), D))
    given = {"topology": RING, "weighting": "equal"}
    with pytest.raises(IncompatibleChoice, match="same noise"):
        average_over_links(messages, RING.links, sender=0, noise=sv.noise.independent(LAW), **given)
    with pytest.raises(IncompatibleChoice, match="same noise"):
        average_over_links(messages, RING.links, sender=0, noise=sv.noise.graph_homomorphic(LAW), **given)
    with pytest.raises(IncompatibleChoice, match="no noise on links"):
        average_over_links(messages, RING.links, sender=0, noise=sv.noise.none(), **given)


def test_one_link_is_not_enough():
    tapped = np.flatnonzero((RING.links == (0, 1)).all(axis=1))
    noise = sv.noise.independent(LAW, per_edge=True)
    with pytest.raises(IncompatibleChoice, match="1 of the observed links"):
        average_over_links(
            np.zeros((1, 1, 1, D)), RING.links[tapped], sender=0, topology=RING, noise=noise, weighting="best"
        )


@pytest.mark.parametrize("law", [sv.noise.Gaussian(std=0.5), sv.noise.Laplace(std=0.5)])
def test_a_gossip_that_is_run_again_gives_its_values_away(law):
    # The first message of gossip is the agent's own value; every run has fresh noise.
    points = np.random.default_rng(2).standard_normal((K, 3, D))
    problem, noise = sv.problems.mean_estimation(points, radius=9.0), sv.noise.independent(law)
    views = observe(problem, RING, sv.algorithms.gossip(), noise, sv.observers.curious_agent(0), rounds=1, repeats=900)
    row = int(np.flatnonzero(views.layout.links[0][:, 0] == 1)[0])
    again = views.messages[0][:, 0, row].reshape(9, 100, D)
    found = average_over_rounds(again, variance=0.25)
    assert found.variance == pytest.approx(0.0025)
    # 18 means of 100 draws, Gaussian for either law.
    assert fits(found.error_ratio(points[1].mean(axis=0)), 18)
    assert not fits(found.error_ratio(points[1].mean(axis=0) + 0.3), 18)


SCHEMES = [
    sv.noise.independent(LAW),
    sv.noise.independent(LAW, self_noise=False),
    sv.noise.independent(LAW, per_edge=True, self_noise=False),
    sv.noise.graph_homomorphic(LAW),
]


@pytest.mark.parametrize("noise", SCHEMES)
def test_messages_of_a_converged_model_have_the_stated_covariance(noise):
    # Two routes: the recursion unrolled in one formula, and recorded runs that start at the fixed point.
    rounds, repeats, link = 6, 1500, (1, 2)
    C = LAW.std**2 * converged_covariance(RING, noise, link=link, step_size=0.25, curvatures=1.0, rounds=rounds)
    views = observe(STILL, RING, ATC, noise, sv.observers.links([link]), rounds=rounds, repeats=repeats)
    messages = views.messages[0][:, :, 0]
    samples = np.linalg.solve(np.linalg.cholesky(C), messages.transpose(1, 0, 2).reshape(rounds, -1))
    count = samples.size
    assert fits((samples**2).mean(), count)
    assert not fits((samples**2).mean() * 1.2, count)
    # Whitened rounds are uncorrelated: 15 pairs, each correlation within 5 / sqrt(3000).
    correlation = np.corrcoef(samples)[np.triu_indices(rounds, 1)]
    assert np.abs(correlation).max() < 5 / np.sqrt(samples.shape[1])
    found = average_copies(messages, C, weighting="best")
    assert found.variance <= average_copies(messages, C, weighting="equal").variance * (1 + 1e-12)
    assert fits(found.error_ratio(np.zeros(D)), repeats * D)


def test_a_lone_step_of_the_covariance_by_hand():
    # Self-noise: x_1 = A'z_1; agent k then sends (1 - mu h) x_1 + z_2, so C_12 = (1 - mu h) a_kk and C_22 = 1 + (1 - mu h)^2 sum_l a_lk^2.
    C = converged_covariance(
        RING, sv.noise.independent(LAW), link=(1, 2), step_size=0.25, curvatures=np.full(K, 2.0), rounds=2
    )
    a = RING.matrix[:, 1]
    np.testing.assert_allclose(C, [[1.0, 0.5 * a[1]], [0.5 * a[1], 1.0 + 0.25 * (a**2).sum()]], atol=1e-14)


def test_averaging_a_converged_model_gains_less_than_independent_copies():
    noise = sv.noise.independent(LAW)
    C = converged_covariance(RING, noise, link=(1, 2), step_size=0.25, curvatures=1.0, rounds=40)
    found = average_copies(np.zeros((40, 1)), C, weighting="equal")
    assert 1.0 < found.reduction < 40.0


@pytest.mark.parametrize(
    "covariance",
    [np.eye(3), np.array([[1.0, 0.5], [0.0, 1.0]]), np.array([[1.0, 2.0], [2.0, 1.0]]), np.full((2, 2), np.nan)],
)
def test_what_is_no_covariance_is_refused(covariance):
    with pytest.raises(ConfigError, match="covariance"):
        average_copies(np.zeros((2, D)), covariance, weighting="equal")


@pytest.mark.parametrize("links", [RING.links[:4], RING.links * 1.0, RING.links + 0.5, RING.links > 0])
def test_links_that_are_no_whole_numbered_pairs_are_refused(links):
    messages = np.zeros((1, 1, len(RING.links), D))
    with pytest.raises(ConfigError, match="links have"):
        average_over_links(messages, links, sender=0, topology=RING, noise=SCHEMES[2], weighting="equal")


def test_other_malformed_input_is_named():
    with pytest.raises(ConfigError, match="weighting"):
        average_copies(np.zeros((2, D)), np.eye(2), weighting="median")
    with pytest.raises(ConfigError, match="variance"):
        average_over_rounds(np.zeros((1, 2, D)), variance=0.0)
    with pytest.raises(ConfigError, match="2 curvatures"):
        converged_covariance(RING, SCHEMES[0], link=(0, 1), step_size=0.1, curvatures=[1.0, 2.0], rounds=2)
    with pytest.raises(ConfigError, match="not in the topology"):
        converged_covariance(RING, SCHEMES[0], link=(0, 2), step_size=0.1, curvatures=1.0, rounds=2)
    with pytest.raises(IncompatibleChoice, match="change from round to round"):
        converged_covariance(RING.with_dropout(0.1), SCHEMES[0], link=(0, 1), step_size=0.1, curvatures=1.0, rounds=2)
