"""The audit in one run: its theorem for replaced values, the scores by two routes, what it refutes and what it cannot, and what it refuses."""

import json
import math

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom, chi2, kstest, norm

import sottovoce as sv
from sottovoce.accounting import gaussian
from sottovoce.attacks.audit import audit
from sottovoce.attacks.audit import one_run as module
from sottovoce.attacks.audit.one_run import (
    canary_run,
    one_run_audit,
    planned_guesses,
    play,
    prepare_scores,
    right_guesses,
)
from sottovoce.attacks.bounds import one_run

RING, HUB, CROWD = sv.topologies.ring(6), sv.topologies.federation(6), sv.topologies.federation(500)
ATC, FEDAVG = sv.algorithms.atc(step_size=0.5), sv.algorithms.fedavg(step_size=0.5)
GAUSSIAN, LAPLACE = sv.noise.Gaussian(std=1.0), sv.noise.Laplace(std=math.sqrt(2.0))  # Laplace of scale 1
SERVER, EVERYTHING = sv.observers.server(), sv.observers.eavesdropper()
CLIP = sv.clipping.Clip(1.0, "l2")
ASKED = {"rounds": 3, "sensitivity": 2.0, "delta": 1e-5, "confidence": 0.95}
RUNS = 200
ALLOWED = int(binom.ppf(0.9999, RUNS, 0.05))  # too high bounds among RUNS, each with probability at most 0.05


def canaries_of(topology, algorithm, noise, observer, *, rounds=3, sensitivity=2.0, adjacency="replace", canaries=None):
    return canary_run(
        topology, algorithm, noise, observer, rounds=rounds, sensitivity=sensitivity, adjacency=adjacency, canaries=canaries
    )  # fmt: skip


def played(run, runs, seed=0):
    """Scores [runs, m] of independent runs, the first half of them with other coins than the second."""
    drawn = np.random.default_rng(seed + 100).random((2, len(run.canaries))) < 0.5
    prepared = prepare_scores(run)
    scores = play(run, prepared, drawn, seed, repeats=runs // 2)
    return prepared, np.repeat(drawn, runs // 2, axis=0), scores.reshape(runs, -1)


def bounds_of(scores, coins, r, *, delta):
    m = scores.shape[1]
    rights = [right_guesses(s, c, r) for s, c in zip(scores, coins, strict=True)]
    return np.array([one_run(m, r, v, delta=delta, confidence=0.95).epsilon for v in rights])


# The theorem between two values, on mechanisms whose epsilon is known in closed form. m = 300 coins, RUNS experiments.


def test_replaced_values_need_no_factor_under_randomised_response():
    # Each coin turned over with probability 1 - q, q = e^eps / (1 + e^eps): eps-DP between the values, and nothing smaller.
    rng, m, epsilon = np.random.default_rng(3), 300, 1.5
    coins = rng.random((RUNS, m)) < 0.5
    said = coins ^ (rng.random((RUNS, m)) >= expit(epsilon))
    found = bounds_of(np.where(said, 1.0, -1.0), coins, m, delta=0.0)
    assert (found > epsilon).sum() <= ALLOWED
    assert (found > 0.75 * epsilon).sum() > ALLOWED  # a truth a quarter lower would be refuted
    assert (found > epsilon / 2).mean() > 0.99  # a factor two would give away half of it


def test_replaced_values_need_no_factor_under_gaussian_noise():
    # -1/2 or +1/2 with noise of std 1/mu: mu-GDP between the values.
    rng, m, mu, delta = np.random.default_rng(4), 300, 1.0, 1e-4
    coins = rng.random((RUNS, m)) < 0.5

    def shown(really, r):
        read = np.where(coins, 0.5, -0.5) + rng.standard_normal((RUNS, m)) / really
        return bounds_of(read, coins, r, delta=delta)

    assert (shown(mu, 60) > gaussian.epsilon(mu, delta)).sum() <= ALLOWED
    assert (shown(4.0 * mu, 250) > gaussian.epsilon(mu, delta)).mean() > 0.8  # a quarter of the noise is refuted
    assert (shown(mu, 60) > gaussian.epsilon(mu / 4.0, delta)).mean() > 0.9  # and so is a promise of a quarter of mu


# The same on recorded runs, each with coins and noise of its own.


def test_the_bound_of_recorded_runs_is_below_the_truth_as_often_as_promised_and_refutes_half_the_noise():
    # One round, Laplace of scale 1, gradients 1 apart, step 1: epsilon = 1, which half of all uplinks attain.
    topology, algorithm = sv.topologies.federation(100), sv.algorithms.fedavg(step_size=1.0)
    truth = sv.account(topology, algorithm, sv.noise.independent(LAPLACE), SERVER, rounds=1, sensitivity=1.0)
    assert truth.epsilon(0.0) == pytest.approx(1.0)

    def shown(factor):
        noise = sv.noise.independent(LAPLACE).scaled(factor)
        prepared, coins, scores = played(
            canaries_of(topology, algorithm, noise, SERVER, rounds=1, sensitivity=1.0), RUNS
        )
        r = planned_guesses(prepared.rehearsal, 100, delta=0.0, confidence=0.95)
        return bounds_of(scores, coins, r, delta=0.0)

    as_promised = shown(1.0)
    assert (as_promised > 1.0).sum() <= ALLOWED
    assert (as_promised > 0.6).sum() > ALLOWED
    assert (shown(0.5) > 1.0).sum() > 2 * ALLOWED


# Scores.


def agrees(values):
    """Whether mean, variance and shape are those of a standard normal law, each at a level of 1e-4."""
    n = len(values)
    tails = (
        chi2.sf(n * values.var(), n - 1),
        chi2.cdf(n * values.var(), n - 1),
        norm.sf(abs(values.mean()) * math.sqrt(n)),
    )
    return min(*tails, kstest(values, norm.cdf).pvalue / 2) > 0.5e-4


PEERS = {
    "everything": (RING, ATC, sv.noise.independent(GAUSSIAN), EVERYTHING),
    "curious": (RING, sv.algorithms.cta(step_size=0.5), sv.noise.graph_homomorphic(GAUSSIAN), sv.observers.curious_agent(1)),
    "gradients": (RING, ATC, sv.noise.gradient(GAUSSIAN), sv.observers.coalition([1, 4])),
    "broadcast": (HUB, FEDAVG, sv.noise.independent(GAUSSIAN), sv.observers.curious_agent(1)),
    "final model": (RING, ATC, sv.noise.independent(GAUSSIAN), sv.observers.final_model()),
    "local steps": (HUB, sv.algorithms.fedavg(step_size=0.5, local_steps=2), sv.noise.independent(GAUSSIAN), SERVER),
    "clipped": (HUB, sv.algorithms.fedavg(step_size=0.5, local_steps=2, update_clip=CLIP), sv.noise.independent(GAUSSIAN), SERVER),
}  # fmt: skip


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("case", [pytest.param(c, marks=[] if c == "curious" else pytest.mark.slow) for c in PEERS])
def test_scores_are_log_likelihood_ratios_whatever_the_other_coins(case, adjacency):
    # N(+-mu^2/2, mu^2): half its own variance from 0, on either side. 600 runs; the tests are those of all canaries together.
    size = 1.0 if adjacency == "add-remove" and case == "clipped" else 2.0
    run = canaries_of(*PEERS[case], adjacency=adjacency, sensitivity=size)
    prepared, coins, scores = played(run, 600)
    seen = prepared.mu > 1e-9
    mu, signs = prepared.mu[seen], np.where(coins, 1.0, -1.0)[:, seen]
    standard = ((scores[:, seen] - signs * mu**2 / 2.0) / mu).ravel()
    assert agrees(standard)
    assert not agrees(1.2 * standard)
    assert not agrees(standard / 1.2)
    assert not agrees(standard + 0.2)
    np.testing.assert_allclose(scores[:, ~seen], 0.0, atol=1e-9)


@pytest.mark.parametrize(
    ("exchange", "adjacency"),
    [
        ("model", "add-remove"),
        *(pytest.param(*other, marks=pytest.mark.slow) for other in (("model", "replace"), ("gradient", "replace"), ("gradient", "add-remove"))),
    ],
)  # fmt: skip
def test_uplinks_and_matched_filters_have_the_same_scores(adjacency, exchange, monkeypatch):
    algorithm = sv.algorithms.fedavg(step_size=0.5, local_steps=2, server_step_size=0.7, exchange=exchange)
    topology = sv.topologies.federation(4, "records", records=[1, 2, 3, 4])
    noise = sv.noise.independent(GAUSSIAN).scaled(lambda t: 1.0 / t)
    run = canaries_of(topology, algorithm, noise, SERVER, sensitivity=[1.0, 1.0, 2.0, 3.0], adjacency=adjacency)
    uplinks, _, scores = played(run, 6)
    monkeypatch.setattr(module, "_reads_uplinks", lambda run: False)
    filters, _, others = played(run, 6)
    assert (uplinks.name, filters.name) == ("uplinks", "likelihood")
    np.testing.assert_allclose(scores, others, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(uplinks.mu, filters.mu, rtol=1e-9)
    assert np.ptp(scores) > 1.0


@pytest.mark.slow
def test_under_sampling_only_the_rounds_count_in_which_an_agent_came():
    # Given that it came n times the score is N(+-n mu_1^2/2, n mu_1^2), mu_1 = 2C / std = 2; n ~ Bin(4, 1/2), so that E|mean| = n mu_1^2 / 2 = 4.
    algorithm = sv.algorithms.fedavg(step_size=0.5, participation=0.5, update_clip=CLIP)
    run = canaries_of(HUB, algorithm, sv.noise.independent(GAUSSIAN), SERVER, rounds=4)
    prepared, coins, scores = played(run, 1500)
    signed = np.where(coins, scores, -scores)
    assert prepared.mu is None
    assert (scores == 0.0).mean() == pytest.approx(1 / 16, abs=0.012)  # 9000 scores: one standard error is 0.0026
    assert signed.mean() == pytest.approx(4.0, abs=0.15)  # std sqrt(8 + 4) / sqrt(9000) = 0.037
    assert signed.var() == pytest.approx(12.0, rel=0.08)  # E[4 n] + Var[2 n] = 8 + 4


def test_the_number_of_guesses_is_planned_without_the_coins_and_is_smaller_for_weaker_scores():
    z = np.random.default_rng(0).standard_normal(20_000)
    plans = [planned_guesses(mu**2 / 2 + mu * z, 500, delta=1e-5, confidence=0.95) for mu in (1.0, 3.0, 12.0)]
    assert plans[0] < plans[1] < plans[2] == 500


def test_rounding_decides_no_guess():
    # Scores that are equal but for rounding, which tells the coins: the surest hundred must be no better than all.
    rng = np.random.default_rng(5)
    coins = rng.random(1000) < 0.5
    said = coins ^ (rng.random(1000) < 0.3)
    scores = np.where(said, 1.0, -1.0) * np.where(said == coins, 1.0 + 4e-16, 1.0)
    assert right_guesses(scores, coins, 1000) == (said == coins).sum()
    assert (
        50 < right_guesses(scores, coins, 100) < 90
    )  # Bin(100, 0.7) within four standard errors; 100 if rounding decided


# The audit.


def test_a_crowd_with_the_noise_promised_passes_and_a_quarter_of_it_is_refuted():
    noise = sv.noise.independent(sv.noise.Gaussian(std=4.0))
    found = one_run_audit(CROWD, sv.algorithms.fedavg(step_size=1.0), noise, SERVER, **ASKED)
    assert found.passed
    assert found.attack == "uplinks"
    np.testing.assert_allclose(found.computed_mu, 2.0 * math.sqrt(3) / 4.0)
    assert found.guarantee.mu == pytest.approx(2.0 * math.sqrt(3) / 4.0)
    assert 0.2 < found.ratio < 0.7
    broken = one_run_audit(
        CROWD, sv.algorithms.fedavg(step_size=1.0), noise, SERVER, **ASKED, played=noise.scaled(0.25)
    )
    assert not broken.passed
    assert broken.ratio > 1.0
    assert "FAILED" in str(broken)


@pytest.mark.slow
def test_half_the_laplace_noise_is_refuted_by_a_crowd():
    noise = sv.noise.independent(LAPLACE)
    asked = ASKED | {"rounds": 1, "delta": 0.0, "sensitivity": 1.0}
    algorithm = sv.algorithms.fedavg(step_size=1.0)
    assert one_run_audit(CROWD, algorithm, noise, SERVER, **asked).passed
    assert not one_run_audit(CROWD, algorithm, noise, SERVER, **asked, played=noise.scaled(0.5)).passed


@pytest.mark.slow
def test_ten_thousand_runs_show_more_than_five_hundred_canaries():
    noise, asked = sv.noise.independent(sv.noise.Gaussian(std=2.0)), ASKED | {"rounds": 1, "delta": 1e-3}
    one = one_run_audit(CROWD, sv.algorithms.fedavg(step_size=1.0), noise, SERVER, **asked)
    many = audit(HUB, sv.algorithms.fedavg(step_size=1.0), noise, SERVER, **asked, pairs=5000)
    assert one.epsilon == pytest.approx(many.epsilon)
    assert one.lower.epsilon < many.lower.epsilon < one.epsilon


def test_what_nobody_hears_shows_nothing():
    # What the first agents of a path send does not reach the last one in three rounds.
    found = one_run_audit(
        sv.topologies.path(14), ATC, sv.noise.independent(GAUSSIAN), sv.observers.curious_agent(13), **ASKED, canaries=range(10)
    )  # fmt: skip
    assert (found.m, found.lower.epsilon, found.ratio, found.passed) == (10, 0.0, 0.0, True)
    np.testing.assert_allclose(found.scores, 0.0, atol=1e-9)


def test_without_noise_every_guess_is_right_and_nothing_was_promised():
    found = one_run_audit(RING, ATC, sv.noise.none(), EVERYTHING, **ASKED)
    assert (found.m, found.r, found.v) == (6, 6, 6)
    assert np.isinf(found.scores).all()
    assert found.passed
    # All of six right: q^6 = 0.05, up to delta.
    assert found.lower.epsilon == pytest.approx(math.log(0.05 ** (1 / 6) / (1 - 0.05 ** (1 / 6))), rel=1e-2)
    assert json.loads(json.dumps(found.describe(), allow_nan=False))["computed_infinite"] is True
    added = one_run_audit(
        RING, ATC, sv.noise.none(), EVERYTHING, **(ASKED | {"adjacency": "add-remove", "sensitivity": 1.0})
    )
    assert added.v == 6


def test_the_promise_is_that_of_the_worst_canary():
    parts = sv.topologies.path(7), ATC, sv.noise.independent(GAUSSIAN), sv.observers.curious_agent(0)
    sizes = [1.0, 5.0, 1.0, 2.0, 1.0, 1.0, 1.0]
    some = one_run_audit(*parts, **(ASKED | {"sensitivity": sizes}), canaries=[4, 3])
    assert some.guarantee.agent == 3
    expected = sv.account(*parts, rounds=3, sensitivity=sizes, agent=3).epsilon(1e-5)
    assert some.epsilon == pytest.approx(expected)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_run_and_another_one_another():
    first, again, other = (one_run_audit(*PEERS["curious"], **ASKED, seed=seed) for seed in (2, 2, 3))
    np.testing.assert_array_equal(first.scores, again.scores)
    np.testing.assert_array_equal(first.coins, again.coins)
    assert not np.allclose(first.scores, other.scores)


def test_it_says_what_it_found():
    found = one_run_audit(*PEERS["everything"], **ASKED, guesses=4)
    assert found.r == 4
    assert f"{found.v} of them right" in str(found)
    assert "NOT REFUTED" in str(found)
    described = json.loads(json.dumps(found.describe(), allow_nan=False))
    assert described["r"] == 4
    assert described["lower"] == json.loads(json.dumps(one_run(6, 4, found.v, delta=1e-5, confidence=0.95).describe()))


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"delta": 1.0}, sv.ConfigError, "delta"),
        ({"confidence": 0.3}, sv.ConfigError, "confidence"),
        ({"guesses": 7}, sv.ConfigError, "6 canaries"),
        ({"guesses": 0}, sv.ConfigError, "guesses"),
        ({"guesses": True}, sv.ConfigError, "guesses"),
        ({"seed": -1}, sv.ConfigError, "seed"),
        ({"rounds": 0}, sv.ConfigError, "rounds"),
        ({"sensitivity": math.nan}, sv.ConfigError, "sensitivity"),
        ({"canaries": []}, sv.ConfigError, "at least one"),
        ({"canaries": [1, 1]}, sv.ConfigError, "different"),
        ({"canaries": [6]}, sv.ConfigError, "0 to 5"),
        ({"canaries": [True]}, sv.ConfigError, "canary"),
        ({"canaries": [1], "observer": sv.observers.curious_agent(1)}, sv.ConfigError, "outside"),
        ({"adjacency": "swap"}, sv.ConfigError, "adjacency"),
        ({"losses": sv.accounting.ConvexSmooth(1.0, 0.5)}, sv.UnsupportedClaim, "curvature"),
        ({"noise": sv.noise.independent(LAPLACE)}, sv.IncompatibleChoice, "Gaussian"),
    ],
)  # fmt: skip
def test_what_cannot_be_audited_in_one_run_is_refused(change, error, match):
    asked = {"noise": sv.noise.independent(GAUSSIAN), "observer": EVERYTHING} | ASKED | change
    with pytest.raises(error, match=match):
        one_run_audit(RING, ATC, asked.pop("noise"), asked.pop("observer"), **asked)


def test_samples_of_agents_are_refused_to_who_does_not_read_the_uplinks():
    algorithm = sv.algorithms.fedavg(step_size=0.5, participation=0.5, update_clip=CLIP)
    with pytest.raises(sv.IncompatibleChoice, match="draws agents"):
        one_run_audit(HUB, algorithm, sv.noise.independent(GAUSSIAN), sv.observers.curious_agent(0), **ASKED)
