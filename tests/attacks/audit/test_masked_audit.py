"""Audits of masked averages: no attack shows more than is promised, and forgotten masks or too little noise are caught.

Twelve agents; the guarantee has no mu, so that the verdict rests on epsilon at one delta. All cases together are wrongly failed with probability at most 0.001.
"""

import math

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import sottovoce as sv
from sottovoce.attacks.audit import audit
from sottovoce.attacks.audit.canaries import canary_worlds
from sottovoce.attacks.audit.choice import AuditedRun, prepare_attack
from sottovoce.attacks.audit.many_runs import _play
from sottovoce.attacks.audit.masked import masked_statistic
from sottovoce.attacks.bounds import clopper_pearson
from sottovoce.simulation.views import measure, observe

K, DELTA, FAMILY = 12, 1e-2, 0.001
HUB = sv.topologies.federation(K)
NOISE = sv.noise.independent(sv.noise.Gaussian(std=1.0))
MASKS = {"uniform": {}, "gaussian": {"pairwise_ratio": 20.0}}
SILENCE = {"all": {}, "silent": {"silence": 0.2, "minimum_agents": 9}}
OBSERVERS = {
    "server": sv.observers.server(),
    "curious": sv.observers.curious_agent(1),
    "half": sv.observers.colluding_server(0.5),
}
CASES = [(m, s, o) for m in MASKS for s in SILENCE for o in OBSERVERS]
FAST = [("uniform", "all", "half"), ("gaussian", "silent", "curious")]


def masked(**others):
    return sv.algorithms.fedavg(step_size=1.0, aggregation=sv.algorithms.Gopa(**({"partners": 8} | others)))


def held(algorithm, observer, *, rounds=2, pairs=2000, **options):
    return audit(
        HUB, algorithm, NOISE, observer, rounds=rounds, sensitivity=3.0 / math.sqrt(rounds), delta=DELTA,
        confidence=1.0 - FAMILY / len(CASES), pairs=pairs, seed=4, **options,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("masks", "silence", "observer"),
    [pytest.param(*case, marks=[] if case in FAST else pytest.mark.slow) for case in CASES],
)
def test_no_attack_shows_more_than_is_promised(masks, silence, observer):
    found = held(masked(**MASKS[masks], **SILENCE[silence]), OBSERVERS[observer])
    assert found.attack == "likelihood"
    assert found.passed, found.explain()
    assert found.guarantee.mu is None
    assert 0.1 < found.lower.epsilon <= found.epsilon < math.inf


def test_scores_are_as_far_apart_as_the_sum_of_all_agents_tells():
    # Eight partners of eleven: everybody is connected, and two rounds of 3/sqrt(2) in the sum of twelve noises are mu = 3/sqrt(12).
    found = held(masked(), OBSERVERS["server"])
    mu, error = 3.0 / math.sqrt(K), math.sqrt(2.0 / 2000)
    assert abs(found.gaussian.estimate - mu) < 5 * error
    assert (
        abs(found.gaussian.estimate - 3.0 / math.sqrt(K / 2)) > 5 * error
    )  # the noise of half of them would be noticed
    # The guarantee is nearly that of one Gaussian of this mu.
    assert found.epsilon < 1.1 * sv.accounting.gaussian.epsilon(mu, DELTA)


@pytest.mark.slow
def test_the_fitted_attack_plays_too_and_shows_no_more():
    found = held(masked(), OBSERVERS["curious"], attack="fitted")
    assert found.passed
    assert found.auc.interval(0.999)[0] > 0.5
    with pytest.raises(sv.IncompatibleChoice, match="without masks"):
        held(masked(), OBSERVERS["server"], attack="transcript")


@pytest.mark.parametrize("masks", [pytest.param("uniform"), pytest.param("gaussian", marks=pytest.mark.slow)])
def test_half_the_own_noise_is_caught(masks):
    assert not held(masked(**MASKS[masks]), OBSERVERS["server"], rounds=1, played=NOISE.scaled(0.5)).passed


@pytest.mark.parametrize(
    ("masks", "played"),
    [
        ("uniform", masked()._replace(aggregation=None)),
        pytest.param("uniform", masked(pairwise_ratio=0.3), marks=pytest.mark.slow),
        pytest.param("gaussian", masked(pairwise_ratio=0.3), marks=pytest.mark.slow),
    ],
    ids=["forgotten", "small instead of uniform", "small instead of large"],
)
def test_masks_that_are_forgotten_or_too_small_are_caught(masks, played):
    promised = sv.account(HUB, masked(**MASKS[masks]), NOISE, OBSERVERS["server"], rounds=1, sensitivity=3.0)
    worlds = canary_worlds(HUB, played, sensitivity=3.0, agent=0, axis=[1.0, 0.0])
    run = AuditedRun(
        topology=HUB, algorithm=played, noise=NOISE, observer=OBSERVERS["server"], rounds=1, worlds=worlds, agent=0, batch_size=None, pairs=2000
    )  # fmt: skip
    first, second = _play(run, prepare_attack(run, "best"), seed=4)
    assert clopper_pearson(first, second, delta=DELTA, confidence=1.0 - FAMILY).epsilon > promised.epsilon(DELTA)


@pytest.fixture(scope="module")
def regressions():
    """Two worlds whose gradients react to the model: agent 2 has another record."""
    generator = np.random.default_rng(0)
    features = [generator.normal(size=(4, 2)) for _ in range(5)]
    targets = [x @ np.array([1.0, -0.5]) + generator.normal(size=4) for x in features]
    changed = [t + 2.0 * (k == 2) for k, t in enumerate(targets)]
    return [sv.problems.linear_regression(features, t, ridge=0.1) for t in (targets, changed)]


@pytest.mark.parametrize(
    "masks",
    [
        pytest.param({"partners": 1}, marks=pytest.mark.slow),
        {"partners": 1, "silence": 0.3, "minimum_agents": 4},
        pytest.param({"partners": 2, "pairwise_ratio": 2.0, "silence": 0.3, "minimum_agents": 4}, marks=pytest.mark.slow),
    ],
    ids=["uniform", "uniform, silent", "gaussian, silent"],
)  # fmt: skip
def test_scores_are_the_log_ratio_of_densities_written_out(regressions, masks):
    rounds, repeats, std, p = 3, 12, 0.4, 2
    hub, noise = sv.topologies.federation(5), sv.noise.independent(sv.noise.Gaussian(std=std))
    algorithm = sv.algorithms.fedavg(step_size=0.2, server_step_size=0.7, aggregation=sv.algorithms.Gopa(**masks))
    observer, chosen = sv.observers.curious_agent(0), {"rounds": rounds, "repeats": repeats, "seed": 6, "honest": p}
    seen = observe(regressions[0], hub, algorithm, noise, observer, **chosen)
    statistic = masked_statistic(tuple(regressions), algorithm, noise, rounds=rounds, agent=p)
    scores = measure([regressions[0]], hub, algorithm, noise, observer, statistic, **chosen)[0]
    expected = [written_out(regressions, algorithm, seen, r, std) for r in range(repeats)]
    np.testing.assert_allclose(scores, expected, atol=1e-9)
    assert np.std(expected) > 0.1


def written_out(worlds, algorithm, seen, r, std):
    """The log ratio of one run: a normal density of all rows of a round, its covariance from every noise and every mask."""
    aggregation, total, model = algorithm.aggregation, 0.0, np.zeros(2)
    for t in range(seen.rounds):
        board = type(seen.board)(*(part[r, t] for part in seen.board))
        rows = np.flatnonzero(seen.active[0][r, t])
        sums = (board.parts[None, :] == rows[:, None]).astype(float)  # [rows, K]
        covariance = std**2 * sums @ sums.T
        if math.isfinite(aggregation.pairwise_ratio):
            covariance += mask_covariance(board, aggregation, std)[np.ix_(rows, rows)]
        densities = []
        for world in worlds:
            psi = np.stack([model - 0.2 * np.asarray(world.gradient(model, data_of(world, k))) for k in range(5)])
            left = seen.messages[0][r, t][rows] - sums @ psi
            densities.append(sum(multivariate_normal.logpdf(x, cov=covariance) for x in left.T) if len(rows) else 0.0)
        total += densities[1] - densities[0]
        model = model + 0.7 * (seen.broadcast[0][r, t] - model)
    return total


def data_of(world, agent):
    return {name: np.asarray(values)[agent] for name, values in world.arrays.items()}


def mask_covariance(board, aggregation, std):
    K = len(board.parts)
    counts = board.published.sum() >= (aggregation.minimum_agents or K)
    honest, covariance = ~board.members, np.zeros((K, K))
    for u, v in {(min(u, v), max(u, v)) for u, row in enumerate(board.picks.tolist()) for v in row}:
        known = not (honest[u] and honest[v])
        revealed = counts and not (board.published[u] and board.published[v])
        if not known and not revealed:
            step = np.zeros(K)
            step[u], step[v] = 1.0, -1.0
            covariance += (aggregation.pairwise_ratio * std) ** 2 * np.outer(step, step)
    return covariance


def test_what_has_no_density_is_refused(regressions):
    algorithm, worlds = masked(), tuple(regressions)
    with pytest.raises(sv.IncompatibleChoice, match="round 2"):
        masked_statistic(worlds, algorithm, NOISE.scaled([1.0, 0.0, 1.0]), rounds=3, agent=0)
    with pytest.raises(sv.IncompatibleChoice, match="batch_size = 2"):
        masked_statistic(worlds, algorithm, NOISE, rounds=3, agent=0, batch_size=2)
    with pytest.raises(sv.IncompatibleChoice, match="no board"):
        masked_statistic(worlds, algorithm._replace(aggregation=None), NOISE, rounds=3, agent=0)
