"""Poisson-sampled Gaussian rounds: conventions of adjacency, golden values, independent oracles."""

import math
import sys

import numpy as np
import pytest
from prv_accountant.dpsgd import DPSGDAccountant
from scipy.optimize import brentq
from scipy.special import ndtr

import sottovoce as sv
from sottovoce.accounting import gaussian, subsampled

DESIGN = {"noise_multiplier": 1.0, "sampling_rate": 0.01, "rounds": 10, "adjacency": "add-remove"}


def hockey_stick(worlds, sigma, epsilon):
    """Exact H(P || Q) of two mixtures of N(m, sigma^2): worlds = (P, Q), each a list of (weight, mean).

    The ratio P / Q of these pairs is monotone in x, so P exceeds e^epsilon Q on one side of a single point.
    """

    def density(x, world):
        return sum(w * math.exp(-((x - m) ** 2) / (2 * sigma**2)) for w, m in world)

    def mass_below(x, world):
        return sum(w * float(ndtr((x - m) / sigma)) for w, m in world)

    p, q = worlds
    far = 1 + 12 * sigma
    excess = lambda x: math.log(density(x, p) / density(x, q)) - epsilon  # noqa: E731
    left, right = excess(-far), excess(far)
    if left * right > 0:  # beyond the range: never or always exceeded
        return max(0.0, 1 - math.exp(epsilon)) if left < 0 else 1 - math.exp(epsilon)
    x = brentq(excess, -far, far, xtol=1e-14)
    below = mass_below(x, p) - math.exp(epsilon) * mass_below(x, q)
    return below if left > 0 else (1 - math.exp(epsilon)) - below


@pytest.mark.parametrize(("q", "sigma"), [(0.05, 0.6), (0.05, 3.0), (0.3, 1.0), (0.9, 0.6), (0.9, 3.0)])
@pytest.mark.parametrize("epsilon", [0.05, 1.5])
def test_one_round_is_the_divergence_of_its_two_mixtures(q, sigma, epsilon):
    """Replace: means -1 and +1. Add-remove: mean 1 against 0, the worse of both orders. Exact at points of the grid."""
    none, plus, minus = [(1.0, 0.0)], [(1 - q, 0.0), (q, 1.0)], [(1 - q, 0.0), (q, -1.0)]
    exact = {
        "replace": hockey_stick((minus, plus), sigma, epsilon),
        "add-remove": max(hockey_stick((plus, none), sigma, epsilon), hockey_stick((none, plus), sigma, epsilon)),
    }
    for adjacency, delta in exact.items():
        ours = subsampled.delta(
            noise_multiplier=sigma, sampling_rate=q, rounds=1, epsilon=epsilon, adjacency=adjacency, grid=1e-3
        )
        assert delta * (1 - 1e-8) <= ours <= delta * (1 + 1e-4) + 1e-13


def test_no_other_pair_of_records_beats_the_opposite_pair_in_the_plane():
    """Records x, x' in the unit disc: H over lengths and angles, for orders on both sides of 1, on a 241 x 241 grid."""
    sigma, grid = 1.0, np.linspace(-8, 8, 241)
    X, Y = np.meshgrid(grid, grid)
    cell = (grid[1] - grid[0]) ** 2

    def bump(x, y):
        return np.exp(-((X - x) ** 2 + (Y - y) ** 2) / (2 * sigma**2)) / (2 * math.pi * sigma**2) * cell

    none = bump(0, 0)
    for q in (0.05, 0.9):
        for growth in (0.3, 1.0, 1.5, 5.0):

            def divergence(one, other, q=q, growth=growth):
                difference = (1 - q) * none + q * one - growth * ((1 - q) * none + q * other)
                return np.maximum(difference, 0).sum()

            opposite = divergence(bump(1, 0), bump(-1, 0))
            assert divergence(bump(1, 0), none) < opposite
            for length in (0.0, 0.5, 1.0):
                for other in (0.5, 1.0):
                    for angle in np.linspace(0, math.pi, 5):
                        v = divergence(bump(length, 0), bump(other * math.cos(angle), other * math.sin(angle)))
                        assert v <= opposite + 1e-6


@pytest.mark.parametrize(("adjacency", "shift"), [("add-remove", 1.0), ("replace", 2.0)])
def test_the_noise_multiplier_is_per_record_and_replace_shifts_twice(adjacency, shift):
    """Without sampling the package's own distribution must equal the exact Gaussian of mu = shift sqrt(T) / sigma."""
    composed = subsampled._accountant(10.0, 1.0, 100, adjacency, 1e-4)
    mu = shift * math.sqrt(100) / 10.0
    for epsilon in (0.5, 2.0, 4.0):
        assert float(composed.get_delta(epsilon)) == pytest.approx(gaussian.delta(mu, epsilon), rel=1e-3)
    ours = subsampled.epsilon(noise_multiplier=10.0, sampling_rate=1.0, rounds=100, delta=1e-5, adjacency=adjacency)
    assert ours == gaussian.epsilon(mu, 1e-5)
    assert subsampled.delta(
        noise_multiplier=10.0, sampling_rate=1.0, rounds=100, epsilon=ours, adjacency=adjacency
    ) == pytest.approx(1e-5, rel=1e-9)


GOLDEN = [  # q, sigma, rounds, delta; PLD with grid 1e-4 for add-remove, its PRV midpoint, PLD for replace
    (0.01, 1.0, 1000, 1e-5, 1.82824365, 1.828239, 2.843446),
    (0.01, 1.0, 10_000, 1e-5, 6.18774500, 6.187713, 10.880807),
    (0.001, 0.7, 100_000, 1e-6, 4.13573927, 4.135254, 6.160841),
    (256 / 60000, 1.1, 14_100, 1e-5, 2.38521079, 2.385124, 4.227935),
    (0.1, 5.0, 2000, 1e-6, 4.38944224, 4.389434, 9.598386),
]


@pytest.mark.parametrize(("q", "sigma", "rounds", "delta", "pld", "prv", "replace"), GOLDEN[4:])
def test_golden_epsilons(q, sigma, rounds, delta, pld, prv, replace):
    """dp-accounting 0.6.0 and prv-accountant 0.2.0; ours lies above by the rounding set aside, and not below either."""
    design = {"noise_multiplier": sigma, "sampling_rate": q, "rounds": rounds, "delta": delta}
    added, replaced = (subsampled.epsilon(**design, adjacency=a) for a in ("add-remove", "replace"))
    assert -1e-8 <= added - pld < 1e-4
    assert -1e-6 <= added - prv < 1e-3
    assert -1e-6 <= replaced - replace < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(("q", "sigma", "rounds", "delta", "pld", "prv", "replace"), GOLDEN[:4])
def test_golden_epsilons_of_long_runs(q, sigma, rounds, delta, pld, prv, replace):
    test_golden_epsilons(q, sigma, rounds, delta, pld, prv, replace)


@pytest.mark.slow
@pytest.mark.parametrize(("q", "sigma", "rounds", "delta"), [row[:4] for row in GOLDEN])
def test_add_remove_lies_within_the_bounds_of_an_independent_accountant(q, sigma, rounds, delta):
    accountant = DPSGDAccountant(sigma, q, rounds, eps_error=0.01, delta_error=delta / 1000)
    lower, _, upper = accountant.compute_epsilon(delta, rounds)
    ours = subsampled.epsilon(
        noise_multiplier=sigma, sampling_rate=q, rounds=rounds, delta=delta, adjacency="add-remove"
    )
    assert lower < ours < upper


def test_a_short_run_lies_within_the_bounds_of_an_independent_accountant():
    accountant = DPSGDAccountant(1.5, 0.02, 50, eps_error=0.01, delta_error=1e-9)
    lower, _, upper = accountant.compute_epsilon(1e-6, 50)
    ours = {
        adjacency: subsampled.epsilon(
            noise_multiplier=1.5, sampling_rate=0.02, rounds=50, delta=1e-6, adjacency=adjacency
        )
        for adjacency in ("add-remove", "replace")
    }
    assert lower < ours["add-remove"] < upper
    assert ours["replace"] > upper


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_delta_and_epsilon_invert_each_other_within_the_grid(adjacency):
    design = {"noise_multiplier": 1.0, "sampling_rate": 0.05, "rounds": 20, "adjacency": adjacency, "grid": 1e-3}
    epsilon = subsampled.epsilon(**design, delta=1e-5)
    assert subsampled.delta(**design, epsilon=epsilon) == pytest.approx(1e-5, rel=1e-3)


def test_sampling_amplifies_and_more_rounds_cost_more():
    def cost(q, rounds):
        return subsampled.epsilon(
            noise_multiplier=1.0, sampling_rate=q, rounds=rounds, delta=1e-5, adjacency="replace", grid=1e-3
        )

    assert cost(0.01, 10) < cost(0.1, 10) < cost(1.0, 10)
    assert cost(0.01, 10) < cost(0.01, 100)


def test_the_plain_accountant_is_below_the_truth_where_we_refuse():
    """10,000 rounds at sigma = 100 without sampling, delta = 1e-12: 7.2385 is exact. With sampling we refuse it."""
    plain = float(subsampled._accountant(100.0, 1.0, 10_000, "add-remove", 1e-4).get_epsilon(1e-12))
    assert plain < gaussian.epsilon(1.0, 1e-12) - 0.01
    with pytest.raises(sv.UnsupportedClaim, match="rounding"):
        subsampled.epsilon(
            noise_multiplier=100.0, sampling_rate=0.5, rounds=10_000, delta=1e-12, adjacency="add-remove"
        )


def test_the_rounding_set_aside_covers_the_error_of_long_compositions():
    """Where the exact answer is known, the package's delta plus our allowance is not below it; without it, it is."""
    rounds, sigma = 10_000, 100.0
    composed = subsampled._accountant(sigma, 1.0, rounds, "add-remove", 1e-4)
    gaps = [float(composed.get_delta(e)) - gaussian.delta(1.0, e) for e in np.linspace(0.5, 9.0, 35)]
    assert min(gaps) < 0
    assert min(gaps) + subsampled._ROUNDING_PER_ROUND * rounds > 0


def test_without_the_package_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(sv.ConfigError, match=r"pip install sottovoce\[accounting\]"):
        subsampled.epsilon(**DESIGN, delta=1e-5)
    assert subsampled.epsilon(**(DESIGN | {"sampling_rate": 1.0}), delta=1e-5) > 0  # the exact formula needs none


@pytest.mark.parametrize(
    "bad",
    [
        {"noise_multiplier": 0.0},
        {"noise_multiplier": math.inf},
        {"noise_multiplier": True},
        {"sampling_rate": 0.0},
        {"sampling_rate": 1.5},
        {"sampling_rate": math.nan},
        {"rounds": 0},
        {"rounds": 2.5},
        {"rounds": True},
        {"adjacency": "substitute"},
        {"grid": 0.0},
    ],
)
def test_malformed_designs_are_refused_by_both_functions(bad):
    with pytest.raises(sv.ConfigError):
        subsampled.epsilon(**(DESIGN | bad), delta=1e-5)
    with pytest.raises(sv.ConfigError):
        subsampled.delta(**(DESIGN | bad), epsilon=1.0)


def test_malformed_targets_are_refused_and_adjacency_has_no_default():
    for delta in (0.0, 1.0, math.nan):
        with pytest.raises(sv.ConfigError):
            subsampled.epsilon(**DESIGN, delta=delta)
    for epsilon in (-1.0, math.inf):
        with pytest.raises(sv.ConfigError):
            subsampled.delta(**DESIGN, epsilon=epsilon)
    with pytest.raises(TypeError, match="adjacency"):
        subsampled.epsilon(noise_multiplier=1.0, sampling_rate=0.1, rounds=1, delta=1e-5)


def test_what_rounding_may_hide_is_set_aside_before_epsilon_is_stated():
    """At a delta a few times the allowance, the delta of the stated epsilon, allowance included, is still the one asked for."""
    design = {"noise_multiplier": 200.0, "sampling_rate": 0.5, "rounds": 4000, "adjacency": "add-remove", "grid": 1e-3}
    allowance = 25 * 2.0**-53 * design["rounds"]
    for delta in (3 * allowance, 30 * allowance):
        stated = subsampled.epsilon(delta=delta, **design)
        assert subsampled.delta(epsilon=stated, **design) <= delta * (1 + 1e-9)
        assert subsampled.delta(epsilon=stated, **design) - allowance > 0.99 * (delta - allowance)
    # Where the grid has no loss left, the allowance remains, and the tail that the accountant cuts off.
    assert allowance <= subsampled.delta(epsilon=60.0, **design) <= 1.01 * allowance


def test_a_delta_is_never_above_one():
    """Where hardly anything is hidden, the rounding that is added would lift it there."""
    lost = {"noise_multiplier": 0.05, "sampling_rate": 0.9, "rounds": 20, "epsilon": 0.0, "grid": 0.1}
    for adjacency in ("replace", "add-remove"):
        assert 0.999 < subsampled.delta(adjacency=adjacency, **lost) <= 1.0
