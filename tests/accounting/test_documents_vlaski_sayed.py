"""Vlaski & Sayed, Lemma 11.4 and eq. 11.47, against transcripts whose densities are worked out message by message."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from sottovoce.accounting.documents import (
    vlaski_sayed_epsilon,
    vlaski_sayed_epsilon_as_printed,
    vlaski_sayed_sensitivity,
)

STEP, SCALE, BOUND, K = 0.4, 10.0, 1.0, 6
RING = (np.eye(K) + np.roll(np.eye(K), 1, axis=0) + np.roll(np.eye(K), -1, axis=0)) / 3.0
OWN_FACTOR = {"self-noise": 1.0, "clean": 0.0, "graph-homomorphic": -2.0}  # -(1 - a)/a at a = 1/3


def pull(models):
    """Bounded gradients of the agents that are not protected: functions of their own models."""
    return BOUND * np.tanh(models) / models.shape[1]


def one_step(models, own_gradient, agent=0):
    gradients = pull(models)
    gradients[agent] = own_gradient
    return models - STEP * gradients


def combine(phi, messages, factor):
    """w_k = sum over l != k of a_lk m_l, plus a_kk times the own copy phi_k + factor (m_k - phi_k)."""
    self_weight = np.diag(RING)[:, None]
    return RING.T @ messages - self_weight * messages + self_weight * (phi + factor * (messages - phi))


def log_density(messages, gradients, factor):
    """Log density of a whole transcript [T, K, d] of ATC on the ring, given agent 0's gradients [T, d]."""
    models, total = np.zeros(messages.shape[1:]), 0.0
    for message, gradient in zip(messages, gradients, strict=True):
        phi = one_step(models, gradient)
        total -= np.abs(message - phi).sum() / SCALE  # the constants cancel in a ratio
        models = combine(phi, message, factor)
    return total


def worst_messages(gradients, changed, factor, seed=0):
    """A transcript on which every coordinate of agent 0 lies beyond both means, on the side of the first world."""
    rng = np.random.default_rng(seed)
    shape = (K, gradients.shape[1])
    ours, theirs, transcript = np.zeros(shape), np.zeros(shape), []
    for mine, other in zip(gradients, changed, strict=True):
        phi, phi_changed = one_step(ours, mine), one_step(theirs, other)
        message = phi + rng.laplace(scale=SCALE, size=shape)
        message[0] = phi[0] + rng.uniform(0.0, 5.0) * np.sign(phi[0] - phi_changed[0])
        transcript.append(message)
        ours, theirs = combine(phi, message, factor), combine(phi_changed, message, factor)
    return np.array(transcript)


def worst_log_ratio(gradients, changed, scheme):
    factor = OWN_FACTOR[scheme]
    messages = worst_messages(gradients, changed, factor)
    return log_density(messages, gradients, factor) - log_density(messages, changed, factor)


def opposite(rounds, direction):
    gradients = np.tile(np.asarray(direction, dtype=float), (rounds, 1))
    return gradients, -gradients


def printed(rounds, *, norm="l1", dimension=1):
    return vlaski_sayed_epsilon_as_printed(
        step_size=STEP, gradient_bound=BOUND, scale=SCALE, rounds=rounds, norm=norm, dimension=dimension
    )


# 2, 2.94 and 26: sum_i ||d_i||_1 / b with d_i = rho d_{i-1} + 0.8 for rho = 0, 1/3, 1, by hand.
@pytest.mark.parametrize(("scheme", "exact"), [("self-noise", 2.0), ("clean", 2.94), ("graph-homomorphic", 26.0)])
def test_worst_transcripts_of_25_rounds_reach_the_exact_epsilon(scheme, exact):
    assert worst_log_ratio(*opposite(25, [BOUND]), scheme) == pytest.approx(exact, rel=1e-9)


def test_the_printed_epsilon_is_exact_for_graph_homomorphic_noise():
    for rounds in (1, 2, 10, 25):
        attained = worst_log_ratio(*opposite(rounds, [BOUND]), "graph-homomorphic")
        assert printed(rounds).value == pytest.approx(attained, rel=1e-9)
    assert printed(25).upper_bound


def test_the_printed_epsilon_is_loose_for_independent_noise():
    """Quadratic where the truth is linear: 1, 5.5 and 13 times too large after 1, 10 and 25 rounds."""
    for rounds, factor in ((1, 1.0), (10, 5.5), (25, 13.0)):
        attained = worst_log_ratio(*opposite(rounds, [BOUND]), "self-noise")
        assert printed(rounds).value == pytest.approx(factor * attained, rel=1e-9)


@pytest.mark.parametrize("scheme", OWN_FACTOR)
def test_no_pattern_of_gradient_changes_costs_more_than_the_printed_epsilon(scheme):
    """All 256 pairs of sign patterns over 4 rounds; the worst pair is opposite throughout."""
    patterns = [BOUND * np.array(p)[:, None] for p in itertools.product((-1.0, 1.0), repeat=4)]
    worst = max(worst_log_ratio(ours, theirs, scheme) for ours, theirs in itertools.product(patterns, repeat=2))
    assert worst == pytest.approx(worst_log_ratio(*opposite(4, [BOUND]), scheme), rel=1e-9)
    assert worst <= printed(4).value * (1 + 1e-12)
    if scheme == "graph-homomorphic":
        assert worst > 0.99 * printed(4).value


def test_ordinary_transcripts_stay_below_the_printed_epsilon():
    rng = np.random.default_rng(3)
    gradients, changed = opposite(8, [BOUND])
    ratios = []
    for seed in range(200):
        messages = worst_messages(gradients, changed, -2.0, seed)
        messages[:, 0] += rng.laplace(scale=SCALE, size=(8, 1))
        ratios.append(log_density(messages, gradients, -2.0) - log_density(messages, changed, -2.0))
    assert max(np.abs(ratios)) <= printed(8).value * (1 + 1e-12)


def test_an_l2_bound_in_two_dimensions_breaks_the_printed_epsilon_and_not_the_mended_one():
    diagonal = BOUND * np.ones(2) / math.sqrt(2.0)  # l2 norm BOUND, l1 norm sqrt(2) BOUND
    attained = worst_log_ratio(*opposite(10, diagonal), "graph-homomorphic")
    as_printed = printed(10, norm="l2", dimension=2)
    assert attained == pytest.approx(math.sqrt(2.0) * as_printed.value, rel=1e-9)
    assert not as_printed.upper_bound
    mended = vlaski_sayed_epsilon(step_size=STEP, gradient_bound=BOUND, scale=SCALE, rounds=10, norm="l2", dimension=2)
    assert mended.upper_bound
    assert mended.value == pytest.approx(attained, rel=1e-9)


def test_the_norms_agree_in_one_dimension_and_the_mended_form_equals_the_printed_one_in_l1():
    base = {"step_size": STEP, "gradient_bound": BOUND, "scale": SCALE, "rounds": 7}
    assert vlaski_sayed_epsilon_as_printed(norm="l2", dimension=1, **base).upper_bound
    for norm, dimension in (("l2", 1), ("l1", 5)):
        mended = vlaski_sayed_epsilon(norm=norm, dimension=dimension, **base)
        assert mended.value == vlaski_sayed_epsilon_as_printed(norm=norm, dimension=dimension, **base).value


def test_separate_draws_for_each_neighbour_are_not_covered():
    """One round, two neighbours, own copy clean: the two losses of 2 mu G / b add up to twice the printed value."""
    phi, phi_changed = STEP * BOUND, -STEP * BOUND
    heard = np.array([1.0, 2.0])  # beyond both means
    loss = np.sum(
        stats.laplace.logpdf(heard, loc=phi, scale=SCALE) - stats.laplace.logpdf(heard, loc=phi_changed, scale=SCALE)
    )
    assert loss == pytest.approx(2.0 * printed(1).value, rel=1e-12)


def test_runs_with_equal_noise_stay_within_the_lemma_and_come_close_to_it():
    """Gradients that push outwards double every difference: after 60 rounds 0.9 of the lemma is exceeded."""
    rng, rounds = np.random.default_rng(5), 60
    ours = theirs = np.zeros((K, 1))
    for i in range(1, rounds + 1):
        noise = rng.laplace(scale=1e-3, size=(K, 1))
        states = []
        for models, own in ((ours, -BOUND), (theirs, BOUND)):
            gradients = -BOUND * np.sign(models)
            gradients[0] = own
            phi = models - STEP * gradients
            states.append(combine(phi, phi + noise, -2.0))
        ours, theirs = states
        stated = vlaski_sayed_sensitivity(step_size=STEP, gradient_bound=BOUND, rounds=i)
        assert np.abs(ours - theirs).max() <= stated.value * (1 + 1e-12)
    assert np.abs(ours - theirs).max() > 0.9 * stated.value
    assert stated.upper_bound
