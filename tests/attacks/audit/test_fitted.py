"""The fitted discriminant: against the optimum known in closed form, on runs it has not seen, and within its memory."""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.attacks.audit.canaries import canary_worlds
from sottovoce.attacks.audit.fitted import feature_statistic, fit, plan_features
from sottovoce.simulation.views import layout, measure, observe

RING = sv.topologies.ring(5)
ATC = sv.algorithms.atc(step_size=0.5)


def distance(scores):
    return (scores[1].mean() - scores[0].mean()) / np.sqrt(scores.var(axis=1).mean())


def gaussian_worlds(runs, seed):
    """Correlated normal features whose best linear score is sqrt(v' C^-1 v) apart."""
    rng = np.random.default_rng(seed)
    root = np.array([[1.0, 0.0, 0.0], [0.9, 0.3, 0.0], [0.0, 0.5, 20.0]])
    change = np.array([0.5, -0.2, 3.0])
    best = np.linalg.norm(np.linalg.solve(root, change))
    made = rng.standard_normal((2, runs, 3)) @ root.T
    made[1] += change
    return made, best


def test_on_normal_features_it_comes_close_to_the_best_score_and_never_beats_it():
    training, best = gaussian_worlds(4000, 1)
    fresh, _ = gaussian_worlds(40_000, 2)
    found = distance(fit(training).scores(fresh))
    assert 0.97 * best < found < 1.02 * best  # the standard error of the distance is 0.7 %
    naive = distance(fresh @ (training[1] - training[0]).mean(axis=0))
    assert naive < 0.9 * best  # correlations matter here


def test_a_feature_without_noise_is_found_among_noisy_ones():
    rng = np.random.default_rng(3)
    training, fresh = rng.standard_normal((2, 2, 400, 4))
    for x in (training, fresh):
        x[:, :, 3] = x[:, :, 0] + x[:, :, 1]
        x[1, :, 3] += 1e-3  # a difference that no noise hides
    scores = fit(training).scores(fresh)
    assert scores[1].min() > scores[0].max()


def test_features_that_say_nothing_tell_nothing_apart():
    rng = np.random.default_rng(4)
    training, fresh = rng.standard_normal((2, 2, 2000, 30))
    training[..., 7] = fresh[..., 7] = 1.0  # always the same
    assert abs(distance(fit(training).scores(fresh))) < 5 * np.sqrt(2 / 2000)
    assert abs(distance(fit(training).scores(training))) > 5 * np.sqrt(
        2 / 2000
    )  # on its own training runs it would seem to


@pytest.mark.parametrize("shape", [(3, 20, 2), (2, 7, 2)])
def test_too_few_training_runs_or_other_worlds_are_refused(shape):
    with pytest.raises(sv.ConfigError, match="two worlds"):
        fit(np.zeros(shape))


def test_the_features_are_the_view_along_the_axis():
    noise, observer = (
        sv.noise.independent(sv.noise.Gaussian(std=1.0)),
        sv.observers.curious_agent(1) + sv.observers.final_model(),
    )
    worlds = canary_worlds(RING, ATC, sensitivity=1.0, agent=2, axis=[1.0, 0.0])
    axis = np.array([0.6, -0.8])
    plan = plan_features(layout(RING, ATC, noise, observer), agent=2, rounds=3)
    options = {"rounds": 3, "repeats": 4, "seed": 6}
    found = measure(worlds, RING, ATC, noise, observer, feature_statistic(plan, axis), **options)[0]
    seen = observe(worlds[0], RING, ATC, noise, observer, **options)
    rows = np.concatenate([seen.messages[0] @ axis, seen.sources[0] @ axis], axis=2)  # [4, 3, E + S]
    np.testing.assert_allclose(found[:, :-2], rows.reshape(4, -1), atol=1e-12)
    np.testing.assert_allclose(found[:, -1], seen.final_model @ axis, atol=1e-12)
    # Agent 1 hears agents 0 and 2: what agent 2 sends, less what it was last seen to send.
    heard = seen.messages[0][:, :, list(map(tuple, seen.layout.links[0])).index((2, 1))] @ axis
    np.testing.assert_allclose(found[:, -2], heard[:, -1], atol=1e-12)  # a sum of differences


@pytest.mark.parametrize(("rounds", "limit"), [(4, 1024), (40, 200), (40, 60)])
def test_a_run_has_no_more_features_than_allowed_and_none_is_lost(rounds, limit):
    rows = layout(RING, ATC, sv.noise.independent(sv.noise.Gaussian(std=1.0)), sv.observers.eavesdropper())
    plan = plan_features(rows, agent=2, rounds=rounds, limit=limit)
    assert plan.number <= limit + len(plan.groups) + 2
    np.testing.assert_array_equal(plan.groups.sum(axis=0), 1.0)  # every message counts in one feature
    assert plan.blocks * plan.block >= rounds
    near = np.flatnonzero((rows.links[0] == 2).any(axis=1))
    assert plan.groups[:, near].sum() == len(near) == (plan.groups[:, near].sum(axis=1) > 0).sum()
