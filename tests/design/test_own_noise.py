"""Own noise that remembers: reference gains, prices by brute force, the recursion of the contract, and bounds that nothing beats."""

import itertools

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.design.own_noise import class_bound, class_prices, covariance, own_noise, precision_factor
from sottovoce.design.time import lag_gram, round_gram, schedule

ONE = np.ones((1, 1))
RING = sv.topologies.ring(20).matrix


def grams(A, c, rounds, when="mean"):
    return [round_gram(lag_gram(A, c, rounds, own), when) for own in np.eye(len(A))]


@pytest.mark.parametrize(
    ("A", "c", "rounds", "gap", "bands", "gain"),
    [
        (RING, 0.95, 100, 10, 10, 2.12),
        (RING, 0.95, 1000, 10, 10, 2.20),
        (RING, 0.99, 100, 10, 10, 3.03),
        (RING, 0.99, 1000, 10, 10, 3.55),
        (RING, 0.95, 1000, 100, 24, 2.27),
        (RING, 0.99, 1000, 100, 24, 4.13),
        (ONE, 0.95, 100, 10, 10, 3.23),
        (ONE, 0.95, 1000, 10, 10, 3.40),
        (ONE, 0.99, 100, 10, 10, 5.01),
        (ONE, 0.99, 1000, 10, 10, 5.98),
    ],
)
def test_records_in_turns_gain_as_in_the_reference(A, c, rounds, gap, bands, gain):
    found = own_noise(grams(A, c, rounds), 1.0, gap=gap, bands=bands)
    assert found.gain == pytest.approx(gain, rel=0.0025)
    assert found.memory.shape == (1, bands - 1, len(A))
    assert found.lower_bound < found.error


@pytest.mark.parametrize(("c", "gain"), [(1.0, 10.1), (0.99, 7.22), (0.95, 3.53)])
def test_records_seen_once_gain_as_in_the_reference_and_reach_the_bound(c, gain):
    found = own_noise(grams(ONE, c, 100), 1.0, gap=100, bands=100, kind="varying")
    assert found.gain == pytest.approx(gain, rel=0.0025)
    assert found.error == pytest.approx(found.lower_bound, rel=1e-6)
    assert found.error >= found.lower_bound


@pytest.mark.parametrize(("c", "gain"), [(0.99, 10.5), (0.95, 3.74)])
def test_records_seen_once_in_a_thousand_rounds(c, gain):
    found = own_noise(grams(ONE, c, 1000), 1.0, gap=1000, bands=300)
    assert found.gain == pytest.approx(gain, rel=0.005)


def _by_recursion(memory, factors, variance, agent):
    """What the agent adds in round t of the unit fresh noise of round s, [T, T], by the recursion of the contract."""
    T, lags = len(factors), memory.shape[1]
    response = np.zeros((T, T))  # added in round t, of the fresh noise of round s
    for t in range(T):
        m = memory[t if len(memory) > 1 else 0, :, agent if memory.shape[2] > 1 else 0]
        response[t, t] = factors[t] * np.sqrt(variance)
        for j in range(1, min(lags, t) + 1):
            response[t] -= m[j - 1] * response[t - j]
    return response


@pytest.mark.parametrize("kind", ["steady", "varying"])
@pytest.mark.parametrize("rounds", [12, 10])
@pytest.mark.parametrize("when", ["mean", "final"])
def test_tables_have_the_stated_error_price_and_spread_by_brute_force(kind, rounds, when):
    """Unequal agents with prices of their own; a record's worst change by trying all signs, in every class."""
    rng = np.random.default_rng(5)
    K, c, gap, bands = 3, 0.9, 4, 3
    A = rng.random((K, K)) + 0.1
    A /= A.sum(0)
    kappa = np.array([1.0, 2.0, 0.5])
    each = [G + 1e-3 * np.trace(G) / rounds * np.eye(rounds) for G in grams(A, c, rounds, when)]
    found = own_noise(each, kappa, gap=gap, bands=bands, kind=kind)
    error = 0.0
    for p in range(K):
        response = _by_recursion(found.memory, found.factors, found.variances[p], p)
        Sigma = response @ response.T
        error += (each[p] * Sigma).sum()
        assert np.sqrt(np.diag(Sigma)) == pytest.approx(found.message_std[:, p], rel=1e-12)
        half = np.linalg.inv(response)
        X = half.T @ half
        worst = 0.0
        for first in range(gap):
            taken = np.arange(first, rounds, gap)
            for signs in itertools.product([-1.0, 0.0, 1.0], repeat=len(taken)):
                v = np.zeros(rounds)
                v[taken] = signs
                worst = max(worst, v @ X @ v)
        assert worst == pytest.approx(kappa[p], rel=1e-9)
    assert error == pytest.approx(found.error, rel=1e-9)
    assert found.lower_bound <= found.error <= found.independent


@pytest.mark.parametrize("kind", ["steady", "varying"])
def test_no_table_near_by_does_better(kind):
    rng = np.random.default_rng(1)
    G = grams(sv.topologies.path(4).matrix, 0.95, 20)
    common = sum(G)
    found = own_noise(G if kind == "varying" else [common], 1.0, gap=5, bands=5, kind=kind)
    memory = found.memory[:, :, 0]

    def error(m, f):
        return class_prices(precision_factor(m, f), 5).max() * (common * covariance(m, f)).sum()

    best = error(memory, found.factors)
    assert best == pytest.approx(found.error, rel=1e-9)
    for size in (1e-1, 1e-2, 1e-3):
        for _ in range(40):
            factors = found.factors * (1.0 if kind == "steady" else np.exp(size * rng.normal(size=20)))
            assert error(memory + size * rng.normal(size=memory.shape), factors) > best * (1.0 - 1e-9)


def test_varying_tables_are_no_worse_than_steady_ones():
    G = grams(RING, 0.99, 100)
    steady, varying = (own_noise(G, 1.0, gap=10, bands=10, kind=kind) for kind in ("steady", "varying"))
    assert varying.error < steady.error
    assert varying.lower_bound == steady.lower_bound


@pytest.mark.parametrize("gap", [1, 2, 3, 6])
def test_no_noise_of_any_memory_beats_the_bound(gap):
    """Random precisions without bands, scaled to the price that a record attains by the best signs."""
    rng = np.random.default_rng(gap)
    T = 6
    root = rng.normal(size=(T, T))
    G = root @ root.T
    bound = class_bound(G, gap)
    for spread in (0.0, 0.1, 1.0, 3.0):
        for _ in range(50):
            half = np.eye(T) + spread * rng.normal(size=(T, T))
            X = half @ half.T
            price = max(
                np.array(v) @ X[np.ix_(taken, taken)] @ np.array(v)
                for taken in (np.arange(first, T, gap) for first in range(gap))
                for v in itertools.product([-1.0, 1.0], repeat=len(taken))
            )
            assert price * np.trace(G @ np.linalg.inv(X)) >= bound


def test_a_record_in_every_round_needs_the_schedule_and_no_memory():
    """Gap one is a unit in every round: one band, whose factors and bound are those of the schedule."""
    G = round_gram(lag_gram(ONE, 0.9, 30, ONE), "final")
    found = own_noise([G], 1.0, gap=1, bands=1, kind="varying")
    best = schedule(np.diag(G), budget=1.0)
    assert found.error == pytest.approx(best.error, rel=1e-6)
    assert found.memory.shape == (30, 0, 1)
    assert found.factors / found.factors[-1] == pytest.approx(best.factors / best.factors[-1], rel=1e-2)


def test_bands_wider_than_the_gap_are_refused():
    with pytest.raises(sv.IncompatibleChoice, match="Use at most 4 bands"):
        own_noise(grams(ONE, 0.9, 12), 1.0, gap=4, bands=5)
    assert own_noise(grams(ONE, 0.9, 12), 1.0, gap=100, bands=100).memory.shape == (1, 11, 1)


@pytest.mark.parametrize(
    ("given", "more", "message"),
    [
        ([], {}, "one square matrix"),
        ([np.ones((2, 3))], {}, "one square matrix"),
        ([np.eye(2), np.eye(3)], {}, "as many rounds"),
        ([np.eye(2)], {"kappa": 0.0}, "kappa"),
        ([np.eye(2)], {"kappa": [1.0, 1.0]}, "kappa"),
        ([np.eye(2)], {"gap": 0}, "gap"),
        ([np.eye(2)], {"bands": 0}, "bands"),
        ([np.eye(2)], {"kind": "still"}, "kind"),
    ],
)
def test_own_noise_of_nothing_is_refused(given, more, message):
    with pytest.raises(sv.ConfigError, match=message):
        own_noise(given, **{"kappa": 1.0, "gap": 2, "bands": 2} | more)


@pytest.mark.parametrize(("kind", "rounds"), [("steady", 20), ("varying", 20), ("steady", 18)])
def test_accountant_and_exact_recursion_agree_with_the_tables(kind, rounds):
    """The tables as a scheme with memory: mu by the accountant for records in turns, the error by the exact moments."""
    ring, batch = sv.topologies.ring(5), sv.problems.cyclic_batch(5)
    algorithm = sv.algorithms.atc(step_size=0.1)  # Hessian one: c = 0.9
    found = own_noise(grams(ring.matrix, 0.9, rounds), 4.0, gap=5, bands=4, kind=kind)
    assert np.ptp(found.variances) <= 1e-12 * found.variances[0]  # a ring: one standard deviation for all
    noise = sv.noise.independent(sv.noise.Gaussian(std=float(np.sqrt(found.variances[0]))))
    noise = noise.scaled(found.factors)._replace(memory=found.memory)
    stated = sv.account(
        ring, algorithm, noise, sv.observers.eavesdropper(), rounds=rounds, sensitivity=10.0, unit="record",
        participation=batch.participation(rounds),
    )  # fmt: skip
    assert stated.mu == pytest.approx(2.0, rel=1e-9)  # kappa = (mu / (step Delta))^2, step Delta = 1
    problem = sv.problems.mean_estimation(np.zeros((5, 5, 1)), radius=1.0)
    error = sv.expected_msd(problem, ring, algorithm, noise, rounds=rounds)["msd_average"].mean()
    assert error == pytest.approx(found.error, rel=1e-9)
