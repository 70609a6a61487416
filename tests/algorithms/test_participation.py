"""Agents who take part in some rounds only, clipped updates, batches of local steps, and noise in gradients."""

import numpy as np
import pytest
from scipy import stats

import sottovoce as sv

K, N, D = 8, 12, 3
STEP = 0.2
FEDERATION = sv.topologies.federation(K)
NONE = sv.noise.none()


def problem(ridge=0.1):
    generator = np.random.default_rng(5)
    features = generator.normal(size=(K, N, D))
    return sv.problems.linear_regression(features, features @ np.ones(D) + generator.normal(size=(K, N)), ridge=ridge)


def run(algorithm, noise=NONE, *, topology=FEDERATION, given=None, rounds=1, **more):
    options = {"dtype": "float64", "progress": False, "seed": 1, **more}
    return sv.simulate(given or problem(), topology, algorithm, noise, rounds=rounds, **options)


def full_gradients(given, w):
    return np.stack([given.gradient(w, {name: values[k] for name, values in given.arrays.items()}) for k in range(K)])


def who_took_part(models, weight):
    """[repeats, K] read off the first model: w_1 = -step weight / K times the sum of the drawn agents' gradients."""
    gradients = full_gradients(problem(), np.zeros(D))
    subsets = np.array([[(s >> k) & 1 for k in range(K)] for s in range(2**K)])
    sums = -STEP * weight / K * subsets @ gradients
    distance = np.abs(models[:, None, :] - sums[None]).max(axis=-1)
    assert (distance.min(axis=1) < 1e-12).all()  # every model is the sum over some set of agents
    return subsets[distance.argmin(axis=1)]


@pytest.mark.parametrize("exchange", ["model", "gradient"])
def test_poisson_agents_are_drawn_by_independent_coins_and_divided_by_what_is_expected(exchange):
    rate, repeats = 0.3, 1500
    algorithm = sv.algorithms.fedavg(step_size=STEP, participation=rate, exchange=exchange)
    drawn = who_took_part(run(algorithm, repeats=repeats).models[:, 0], 1 / rate)
    each = drawn.mean(axis=0)
    error = np.sqrt(rate * (1 - rate) / repeats)
    assert np.abs(each - rate).max() < 4 * error
    assert np.abs(each - 0.4).min() > 4 * error  # another rate would be noticed
    sizes = np.bincount(drawn.sum(axis=1), minlength=K + 1)
    law = stats.binom.pmf(np.arange(K + 1), K, rate) * repeats
    kept = law > 5
    assert stats.chisquare(sizes[kept], law[kept] * sizes[kept].sum() / law[kept].sum()).pvalue > 1e-3
    correlations = np.corrcoef(drawn.T) - np.eye(K)
    assert np.abs(correlations).max() < 5 / np.sqrt(repeats)


def test_a_fixed_number_of_agents_is_drawn_and_every_set_is_as_likely():
    size, repeats = 2, 2800
    algorithm = sv.algorithms.fedavg(step_size=STEP, agents_per_round=size)
    drawn = who_took_part(run(algorithm, repeats=repeats).models[:, 0], K / size)
    assert (drawn.sum(axis=1) == size).all()
    pairs = np.array([np.flatnonzero(row) for row in drawn])
    counts = np.bincount(pairs[:, 0] * K + pairs[:, 1], minlength=K * K).reshape(K, K)[np.triu_indices(K, 1)]
    assert stats.chisquare(counts).pvalue > 1e-3
    skewed = counts + (np.arange(len(counts)) < 14) * 40 - (np.arange(len(counts)) >= 14) * 40
    assert stats.chisquare(skewed).pvalue < 1e-6


def test_draws_are_fresh_in_every_round_and_the_same_alone_or_in_company():
    sampled = sv.algorithms.fedavg(step_size=STEP, participation=0.5)
    first, second = (run(sampled, rounds=rounds, repeats=40).models[:, 0] for rounds in (1, 2))
    gradients = np.stack([full_gradients(problem(), w).mean(axis=0) for w in first])
    moved = second - first
    assert not np.allclose(moved, -STEP * gradients)  # not everybody
    assert len(np.unique(np.round(moved - first, 9), axis=0)) > 20
    together = run({"a": sampled, "all": sv.algorithms.fedavg(step_size=STEP)}, rounds=2, repeats=40)
    np.testing.assert_allclose(together["a", "none"].models[:, 0], second, atol=1e-14)


def test_the_average_over_draws_is_the_step_of_all_agents():
    w = -STEP * full_gradients(problem(), np.zeros(D)).mean(axis=0)
    for options in ({"participation": 0.4}, {"agents_per_round": 3}):
        models = run(sv.algorithms.fedavg(step_size=STEP, **options), repeats=3000).models[:, 0]
        error = models.std(axis=0) / np.sqrt(len(models))
        assert (np.abs(models.mean(axis=0) - w) < 4 * error).all()
        assert (np.abs(models.mean(axis=0) - 0.8 * w) > 4 * error).any()


def test_taking_part_with_probability_one_is_everybody():
    for options in ({"participation": 1.0}, {"agents_per_round": K}):
        found = run(sv.algorithms.fedavg(step_size=STEP, **options), rounds=5).models
        np.testing.assert_allclose(found, run(sv.algorithms.fedavg(step_size=STEP), rounds=5).models, atol=1e-13)


def test_own_noise_comes_with_those_who_take_part_and_the_relays_noise_always():
    zero = sv.problems.linear_regression(np.zeros((K, N, D)), np.zeros((K, N)), ridge=0.0)
    law = sv.noise.Gaussian(std=1.0)
    algorithm = sv.algorithms.fedavg(step_size=STEP, agents_per_round=2)
    own, relay = (
        run(algorithm, noise, given=zero, repeats=2000).models[:, 0]
        for noise in (sv.noise.independent(law), sv.noise.central(law))
    )
    # Two of eight, each counting four times in an average of eight: variance 2 (4/8)^2 = 1/2; the relay's own: 1.
    assert own.var() == pytest.approx(0.5, rel=0.08)
    assert relay.var() == pytest.approx(1.0, rel=0.08)
    everyone = run(sv.algorithms.fedavg(step_size=STEP), sv.noise.central(law), given=zero, repeats=5).models
    assert (everyone == everyone[:, :1]).all()  # the same for every agent
    assert np.ptp(everyone) > 0


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_a_clipped_update_has_the_norm_of_its_bound_and_the_direction_it_had(norm):
    clip = sv.clipping.Clip(0.05, norm)
    algorithm = sv.algorithms.fedavg(step_size=STEP, local_steps=4, update_clip=clip)
    message = algorithm.exchanges[0].message
    w = np.array([0.4, -0.2, 0.1])
    sent = message(w, lambda w, step=0: 3 * w + step, 1) - w
    free = (
        sv.algorithms.fedavg(step_size=STEP, local_steps=4).exchanges[0].message(w, lambda w, step=0: 3 * w + step, 1)
        - w
    )
    assert sv.clipping.vector_norm(sent, norm) == pytest.approx(0.05, rel=1e-12)
    np.testing.assert_allclose(sent / np.linalg.norm(sent), free / np.linalg.norm(free), rtol=1e-12)
    wide = sv.algorithms.fedavg(step_size=STEP, local_steps=4, update_clip=sv.clipping.Clip(50.0, norm))
    np.testing.assert_array_equal(wide.exchanges[0].message(w, lambda w, step=0: 3 * w + step, 1) - w, free)


def test_a_simulated_run_clips_every_agents_update():
    clip = sv.clipping.Clip(0.01, "l2")
    models = run(sv.algorithms.fedavg(step_size=STEP, local_steps=3, update_clip=clip), rounds=6).models
    by_hand = np.zeros(D)
    given = problem()
    for _ in range(6):
        local = np.tile(by_hand, (K, 1))
        for _ in range(3):
            local = local - STEP * np.stack([full_gradients(given, local[k])[k] for k in range(K)])
        by_hand = by_hand + np.mean([sv.clipping.clip_vector(one - by_hand, clip) for one in local], axis=0)
    np.testing.assert_allclose(models[0], np.tile(by_hand, (K, 1)), atol=1e-13)


def test_every_local_step_draws_a_batch_of_its_own():
    # With one batch for both steps of a one-record batch, the second gradient would vanish for the record fitted by the first.
    features = np.zeros((K, 2, 2))
    features[:, 0, 0] = features[:, 1, 1] = 1.0
    given = sv.problems.linear_regression(features, np.ones((K, 2)), ridge=0.0)
    two = sv.algorithms.fedavg(step_size=0.5, local_steps=2)  # step 1/2 fits one record exactly
    models = run(two, given=given, batch_size=1, repeats=400).models[:, 0] * K  # agents fitted per coordinate
    both = (models.sum(axis=1) - K) / K  # an agent that drew both records adds 2, else 1
    assert both.mean() == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(400 * K))


def test_noise_in_gradients_is_fresh_for_every_step_agent_and_round():
    zero = sv.problems.linear_regression(np.zeros((K, N, D)), np.zeros((K, N)), ridge=0.0)
    noise = sv.noise.gradient(sv.noise.Gaussian(std=2.0))
    for steps, rounds in ((1, 1), (3, 1), (1, 4), (3, 2)):
        algorithm = sv.algorithms.fedavg(step_size=STEP, local_steps=steps)
        models = run(algorithm, noise, given=zero, rounds=rounds, repeats=1500).models[:, 0]
        variance = (STEP * 2.0) ** 2 * steps * rounds / K
        assert models.var() == pytest.approx(variance, rel=0.1)
        assert np.abs(models.mean()) < 4 * np.sqrt(variance / models.size)


def test_noise_in_the_only_gradient_is_message_noise_of_the_step_times_its_size():
    given, law = problem(), sv.noise.Gaussian(std=0.7)
    inside = run(sv.algorithms.atc(step_size=STEP), sv.noise.gradient(law), given=given, rounds=3, repeats=1500).models
    outside = run(
        sv.algorithms.atc(step_size=STEP), sv.noise.independent(law.scaled(STEP)), given=given, rounds=3, repeats=1500
    ).models
    spread = [models[:, 0].std(axis=0) for models in (inside, outside)]
    np.testing.assert_allclose(*spread, rtol=0.08)
    assert np.abs(inside[:, 0].mean(axis=0) - outside[:, 0].mean(axis=0)).max() < 5 * spread[0].max() / np.sqrt(750)


def test_schemes_in_one_comparison_keep_their_noise_apart():
    law = sv.noise.Gaussian(std=0.3)
    schemes = {
        "none": NONE,
        "gradient": sv.noise.gradient(law),
        "own": sv.noise.independent(law),
        "relay": sv.noise.central(law),
    }
    algorithm = sv.algorithms.fedavg(step_size=STEP, local_steps=2)
    together = run(algorithm, schemes, rounds=4, repeats=2)
    for name, noise in schemes.items():
        alone = run(algorithm, noise, rounds=4, repeats=2)
        np.testing.assert_allclose(together["fedavg", name].models, alone.models, atol=1e-13)
    assert np.ptp([one.models[0, 0, 0] for one in together.values()]) > 1e-3


# What is refused


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.5, float("nan"), True, "half", None])
def test_a_probability_outside_zero_to_one_is_refused(rate):
    with pytest.raises(sv.ConfigError, match="participation = "):
        sv.algorithms.fedavg(step_size=STEP, participation=rate)


@pytest.mark.parametrize("size", [0, -1, 2.0, True])
def test_a_number_of_agents_that_is_not_whole_is_refused(size):
    with pytest.raises(sv.ConfigError, match="agents_per_round = "):
        sv.algorithms.fedavg(step_size=STEP, agents_per_round=size)


def test_more_agents_than_there_are_and_two_samplings_at_once_are_refused():
    with pytest.raises(sv.ConfigError, match="there are 8 agents"):
        run(sv.algorithms.fedavg(step_size=STEP, agents_per_round=9))
    with pytest.raises(sv.ConfigError, match="keep one"):
        sv.algorithms.fedavg(step_size=STEP, participation=0.5, agents_per_round=3)


@pytest.mark.parametrize(
    ("algorithm", "words"),
    [
        (sv.algorithms.fedavg(step_size=STEP, participation=0.5), "a sample of agents"),
        (sv.algorithms.fedavg(step_size=STEP, exchange="gradient"), "exchange='gradient'"),
        (sv.algorithms.inexact_admm(penalty=2.0), "inexact ADMM"),
    ],
)
def test_what_needs_a_relay_is_refused_among_peers(algorithm, words):
    ring = sv.topologies.ring(K)
    with pytest.raises(sv.IncompatibleChoice, match=words):
        run(algorithm, topology=ring)
    with pytest.raises(sv.IncompatibleChoice, match=words):
        sv.account(ring, algorithm, NONE, sv.observers.eavesdropper(), rounds=2, sensitivity=1.0)


def test_central_noise_is_refused_among_peers_and_pair_noise_for_a_sample():
    law = sv.noise.Gaussian(std=1.0)
    with pytest.raises(sv.IncompatibleChoice, match="added by a relay"):
        run(sv.algorithms.atc(step_size=STEP), sv.noise.central(law), topology=sv.topologies.ring(K))
    with pytest.raises(sv.IncompatibleChoice, match="shared by pairs"):
        run(sv.algorithms.fedavg(step_size=STEP, participation=0.5), sv.noise.gopa(law, pairwise_std=1.0))


def test_gradients_that_would_share_their_noise_are_refused():
    from sottovoce.algorithms import Algorithm, Exchange

    twice = Algorithm(
        "twice", (Exchange(lambda w, g, t: w - 0.1 * g(w), lambda w, received, g, t: received - 0.1 * g(received)),)
    )
    noise = sv.noise.gradient(sv.noise.Gaussian(std=1.0))
    with pytest.raises(sv.IncompatibleChoice, match="carry the same noise"):
        run(twice, noise)
    with pytest.raises(sv.IncompatibleChoice, match="carry the same noise"):
        sv.account(FEDERATION, twice, noise, sv.observers.server(), rounds=2, sensitivity=1.0)
    dgd = sv.algorithms.dgd(step_size=STEP, gradient_rounds=2)
    with pytest.raises(sv.IncompatibleChoice, match="without noise after its gradient rounds"):
        run(dgd, noise, rounds=4)
    beyond = Algorithm("beyond", (Exchange(lambda w, g, t: w - 0.1 * g(w, 1), lambda w, received, g, t: received),))
    with pytest.raises(sv.ConfigError, match="takes gradient number 1"):
        run(beyond)


def test_exact_theory_refuses_samples_and_noise_in_gradients():
    law = sv.noise.Gaussian(std=1.0)
    for algorithm, noise in (
        (sv.algorithms.fedavg(step_size=STEP, participation=0.5), NONE),
        (sv.algorithms.atc(step_size=STEP), sv.noise.gradient(law)),
    ):
        with pytest.raises(sv.UnsupportedClaim, match="exact mean-square theory"):
            sv.expected_msd(problem(), FEDERATION, algorithm, noise, rounds=2)


def test_exact_theory_agrees_with_central_noise():
    law = sv.noise.Gaussian(std=0.2)
    algorithm = sv.algorithms.fedavg(step_size=STEP)
    exact = sv.expected_msd(problem(), FEDERATION, algorithm, sv.noise.central(law), rounds=6)["msd_average"]
    found = run(algorithm, sv.noise.central(law), rounds=6, repeats=1500).metrics["msd_average"]
    error = found.std(axis=0) / np.sqrt(len(found))
    assert (np.abs(found.mean(axis=0) - exact) < 4.5 * error).all()
    other = sv.expected_msd(problem(), FEDERATION, algorithm, sv.noise.independent(law), rounds=6)["msd_average"]
    assert (np.abs(found.mean(axis=0) - other) > 4.5 * error).any()  # local noise of the same size would be noticed
