"""Subsets of fixed size: closed form of one round, concrete populations as lower bounds, other accountants on either side."""

import math
import sys

import dp_accounting
import mpmath
import numpy as np
import pytest
import scipy.fft
from dp_accounting import rdp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr
from scipy.stats import hypergeom

import sottovoce as sv
from sottovoce.accounting import fixed_size, gaussian, subsampled

DESIGN = {"noise_multiplier": 1.0, "sampling_rate": 0.1, "rounds": 10}
COARSE = 1e-3
SLACK = 1e-14  # rounding of the cells' own sums


def one_round(noise_multiplier, sampling_rate, epsilon):
    """Q delta, at the epsilon that sampling turns into this one; 40 digits."""
    with mpmath.workdps(40):
        q, mu = mpmath.mpf(sampling_rate), 1 / mpmath.mpf(noise_multiplier)
        plain = mpmath.log1p(mpmath.expm1(epsilon) / q)
        tails = mpmath.ncdf(mu / 2 - plain / mu), mpmath.ncdf(-mu / 2 - plain / mu)
        return float(q * (tails[0] - mpmath.exp(plain) * tails[1]))


@pytest.mark.parametrize(
    ("sigma", "q"), [(0.2, 0.999), (0.3, 0.3), (0.5, 0.01), (1.0, 0.1), (1.0, 0.5), (3.0, 0.9), (10.0, 0.7)]
)
def test_one_round_is_the_closed_form_at_points_of_the_grid_and_above_it_between(sigma, q):
    for epsilon in (0.0, 0.05, 2.0):
        design = {"noise_multiplier": sigma, "sampling_rate": q, "rounds": 1, "grid": COARSE}
        exact = one_round(sigma, q, epsilon)
        assert exact <= fixed_size.delta(**design, epsilon=epsilon) <= exact * (1 + 1e-8) + 1e-14
        between = epsilon + 0.35 * COARSE
        exact = one_round(sigma, q, between)
        assert exact <= fixed_size.delta(**design, epsilon=between) <= exact * (1 + 1e-3) + 1e-14


@given(sigma=st.floats(0.2, 30.0), q=st.floats(1e-4, 0.9999), epsilon=st.floats(0.0, 4.0), grid=st.floats(1e-3, 0.5))
@settings(max_examples=40, deadline=None)
def test_no_grid_is_below_the_closed_form(sigma, q, epsilon, grid):
    ours = fixed_size.delta(noise_multiplier=sigma, sampling_rate=q, rounds=1, epsilon=epsilon, grid=grid)
    assert ours >= one_round(sigma, q, epsilon)


@given(sigma=st.floats(0.3, 30.0), q=st.floats(1e-3, 0.999), grid=st.floats(1e-3, 0.1))
@settings(max_examples=40, deadline=None)
def test_the_losses_are_a_distribution_with_the_profile_at_every_order_on_both_sides_of_one(sigma, q, grid):
    """Sums over the table against 1 - a + a h(1 / a): the mirrored half has the profile of the exchanged worlds."""
    one_sided, infinite = fixed_size._losses(1 / sigma, q, grid)
    losses = grid * np.arange(len(one_sided))
    mirrored = one_sided[1:] * np.exp(-losses[1:])
    assert math.fsum([*one_sided, *mirrored, infinite]) == pytest.approx(1.0, abs=1e-14)
    points = len(losses) // 3, len(losses) // 8
    for i in points:
        order = -losses[i]
        reached = math.fsum(one_sided * -np.expm1(order - losses)) + infinite
        reached += math.fsum(mirrored[:i] * -np.expm1(order + losses[1 : i + 1]))
        exact = 1 - math.exp(order) + math.exp(order) * one_round(sigma, q, losses[i])
        assert reached == pytest.approx(exact, abs=1e-13)


class Cells:
    """Both worlds of one round, seen through cells of the real line: a post-processing, so every divergence is too small.

    A population of K values at -1 and +1, `high` of the K - 1 others at +1; the first unit is +1 in one world and -1 in
    the other. A round sums m of them and adds noise of standard deviation `std`.
    """

    def __init__(self, *, std, size, population, high, swapped=False, cells=1200):
        edges = np.linspace(-size - 9 * std, size + 9 * std, cells - 1)
        worlds = []
        for own in (1, -1):
            masses = np.zeros(cells)
            for inside, drawn in ((size / population, size - 1), (1 - size / population, size)):
                for k in range(drawn + 1):
                    chance = inside * hypergeom(population - 1, high, drawn).pmf(k)
                    mean = 2 * k - drawn + (own if drawn < size else 0)
                    masses += chance * np.diff(ndtr((edges - mean) / std), prepend=0.0, append=1.0)
            worlds.append(masses)
        self.p, q = worlds[::-1] if swapped else worlds
        self.loss = np.log(np.maximum(self.p, 1e-300) / np.maximum(q, 1e-300))
        order = np.argsort(self.loss)
        self.sorted = self.loss[order]
        self.above = [np.append(np.cumsum(masses[order][::-1])[::-1], 0.0) for masses in (self.p, q)]

    def delta(self, epsilon):
        """H of one round, at an array of epsilons of any sign."""
        first = np.searchsorted(self.sorted, epsilon, side="right")
        return self.above[0][first] - np.exp(epsilon) * self.above[1][first]


def truth(rounds, epsilon):
    """H of up to three rounds: a sum over the cells of all but the last."""
    if len(rounds) == 1:
        return float(rounds[0].delta(np.array(epsilon)))
    left = epsilon - rounds[0].loss
    if len(rounds) == 3:
        return sum(p * truth(rounds[1:], e) for p, e in zip(rounds[0].p, left, strict=True) if p > 1e-15)
    return float(rounds[0].p @ rounds[1].delta(left))


@pytest.mark.parametrize(("size", "population"), [(1, 10), (3, 10), (4, 5)])
@pytest.mark.parametrize("std", [1.2, 4.0])
def test_no_population_exceeds_one_or_two_rounds_and_one_attains_the_first(size, population, std):
    """All others low, all high, half; both orders of the worlds; the second round may see the others differently."""
    design = {"noise_multiplier": std / 2, "sampling_rate": size / population, "grid": COARSE}
    worlds = [
        Cells(std=std, size=size, population=population, high=high, swapped=swapped)
        for high in (0, population - 1, population // 2)
        for swapped in (False, True)
    ]
    for epsilon in (0.0, 0.2, 1.0, 3.0):
        bound = fixed_size.delta(**design, rounds=1, epsilon=epsilon)
        reached = [truth([world], epsilon) for world in worlds]
        assert max(reached) <= bound + SLACK
        assert max(reached) >= bound * 0.995 - 1e-12
        assert epsilon == 0.0 or max(reached[4:]) < bound * 0.95  # half and half is not the worst
        bound = fixed_size.delta(**design, rounds=2, epsilon=epsilon)
        reached = [truth([first, second], epsilon) for first in worlds for second in worlds]
        assert max(reached) <= bound + SLACK
        assert max(reached) >= bound * 0.6 - 1e-12


def test_no_population_exceeds_three_rounds():
    design = {"noise_multiplier": 0.8, "sampling_rate": 0.3, "rounds": 3, "grid": COARSE}
    low, high, half = (Cells(std=1.6, size=3, population=10, high=n, cells=500) for n in (0, 9, 5))
    for epsilon in (0.3, 2.0):
        reached = [truth(run, epsilon) for run in ([low] * 3, [high] * 3, [low, high, low], [half, low, half])]
        bound = fixed_size.delta(**design, epsilon=epsilon)
        assert bound * 0.8 < max(reached) <= bound


def test_accounting_it_as_poisson_sampling_of_single_units_is_below_the_truth():
    """Noise over C instead of 2C, add-remove: what is right for Poisson sampling promises too little here."""
    std, size, population = 2.0, 3, 10
    low = Cells(std=std, size=size, population=population, high=0)
    for rounds, epsilon in ((1, 0.5), (2, 0.5), (2, 1.5)):
        poisson = {"noise_multiplier": std, "sampling_rate": 0.3, "rounds": rounds, "grid": COARSE, "epsilon": epsilon}
        reached = truth([low] * rounds, epsilon)
        assert subsampled.delta(**poisson, adjacency="add-remove") < reached / 2
        assert subsampled.delta(**poisson, adjacency="replace") < reached * 0.99
        assert reached <= fixed_size.delta(**(poisson | {"noise_multiplier": std / 2}))


def test_drawing_real_subsets_shows_the_divergence_stated_and_not_that_of_poisson_sampling():
    """400,000 sums per world of 3 of 10 units, all others at -1. Event: the sum exceeds the point where P = e^0.5 Q.

    The estimate's standard error is 6e-4; truth accepted within 4 of them, the add-remove number 50 away.
    """
    std, size, population, epsilon, draws = 2.0, 3, 10, 0.5, 400_000
    rng = np.random.default_rng(20240)
    threshold = -size + 1 + std**2 / 2 * math.log1p(math.expm1(epsilon) * population / size)
    frequencies = []
    for own in (1.0, -1.0):
        drawn = rng.random((draws, population)).argpartition(size, axis=1)[:, :size]
        sums = np.where(drawn == 0, own, -1.0).sum(axis=1) + std * rng.standard_normal(draws)
        frequencies.append((sums > threshold).mean())
    estimate = frequencies[0] - math.exp(epsilon) * frequencies[1]
    error = math.sqrt(
        sum(w**2 * f * (1 - f) / draws for w, f in zip((1.0, math.exp(epsilon)), frequencies, strict=True))
    )
    stated = fixed_size.delta(noise_multiplier=std / 2, sampling_rate=0.3, rounds=1, epsilon=epsilon)
    wrong = subsampled.delta(noise_multiplier=std, sampling_rate=0.3, rounds=1, epsilon=epsilon, adjacency="add-remove")
    assert abs(estimate - stated) < 4 * error
    assert estimate - wrong > 20 * error


RUNS = [  # noise multiplier, m, K, rounds, delta, grid
    (1.0, 1, 10, 10, 1e-5, 1e-3),
    (2.0, 1, 2, 100, 1e-6, 1e-3),
    (5.0, 1, 10, 2000, 1e-6, 1e-4),
    (1.0, 10, 1000, 1000, 1e-5, 1e-3),
    (20.0, 1, 100, 10_000, 1e-5, 1e-4),
]


@pytest.mark.parametrize(("sigma", "size", "population", "rounds", "delta", "grid"), RUNS)
def test_the_bound_lies_between_the_run_of_one_population_and_renyi_accounting(
    sigma, size, population, rounds, delta, grid
):
    """Below: all others alike in every round, whose worlds are those of Poisson add-remove at the SAME multiplier.

    Above: dp-accounting's Renyi accountant for subsets without replacement (Wang, Balle & Kasiviswanathan 2019).
    """
    design = {"noise_multiplier": sigma, "sampling_rate": size / population, "rounds": rounds, "delta": delta} | {
        "grid": grid
    }
    ours = fixed_size.epsilon(**design)
    accountant = rdp.RdpAccountant(neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE)
    event = dp_accounting.GaussianDpEvent(sigma)
    accountant.compose(dp_accounting.SampledWithoutReplacementDpEvent(population, size, event), rounds)
    attained = subsampled.epsilon(**design, adjacency="add-remove")
    assert attained * (1 - 1e-3) < ours < accountant.get_epsilon(delta)
    assert ours < 1.4 * attained
    # The same noise, each unit drawn by its own coin: its replaced worlds are mixtures with the same rest, which is less.
    replaced = subsampled.epsilon(**(design | {"noise_multiplier": 2 * sigma}), adjacency="replace")
    added = subsampled.epsilon(**(design | {"noise_multiplier": 2 * sigma}), adjacency="add-remove")
    assert added < replaced < ours


def test_the_renyi_accountant_counts_noise_per_replaced_unit_as_we_do():
    """With everybody drawn it must lie a little above the exact mu = sqrt(T) / sigma, not above twice that."""
    accountant = rdp.RdpAccountant(neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE)
    accountant.compose(dp_accounting.SampledWithoutReplacementDpEvent(7, 7, dp_accounting.GaussianDpEvent(5.0)), 10)
    exact = fixed_size.epsilon(noise_multiplier=5.0, sampling_rate=1.0, rounds=10, delta=1e-5)
    assert exact == gaussian.epsilon(math.sqrt(10) / 5.0, 1e-5)
    assert exact < accountant.get_epsilon(1e-5) < 1.2 * exact


def test_nearly_everybody_drawn_is_nearly_no_sampling():
    everybody = fixed_size.epsilon(**(DESIGN | {"sampling_rate": 1.0}), delta=1e-5)
    nearly = [
        fixed_size.epsilon(**(DESIGN | {"sampling_rate": q}), delta=1e-5, grid=COARSE) for q in (0.9, 0.99, 1 - 1e-9)
    ]
    assert nearly[0] < nearly[1] < nearly[2]
    assert nearly[2] == pytest.approx(everybody, abs=1e-4)
    assert fixed_size.delta(**(DESIGN | {"sampling_rate": 1.0}), epsilon=everybody) == pytest.approx(1e-5, rel=1e-9)


def test_more_noise_fewer_drawn_and_fewer_rounds_cost_less():
    def cost(**change):
        return fixed_size.epsilon(**(DESIGN | change), delta=1e-5, grid=COARSE)

    assert cost(noise_multiplier=2.0) < cost() < cost(noise_multiplier=0.5)
    assert cost(sampling_rate=0.01) < cost() < cost(sampling_rate=0.5)
    assert cost(rounds=1) < cost() < cost(rounds=100)
    assert cost() - 1e-3 < fixed_size.epsilon(**DESIGN, delta=1e-5, grid=1e-4) < cost() < cost(rounds=11)


@pytest.mark.parametrize("rounds", [1, 20])
def test_epsilon_is_the_smallest_one_that_delta_allows(rounds):
    design = DESIGN | {"rounds": rounds, "grid": COARSE}
    epsilon = fixed_size.epsilon(**design, delta=1e-5)
    assert 1e-5 * (1 - 1e-6) < fixed_size.delta(**design, epsilon=epsilon) <= 1e-5
    assert fixed_size.epsilon(**design, delta=0.9) == 0.0


# Rounding: the same table composed in extended precision, and the exact Gaussian.
@pytest.mark.parametrize(("sigma", "q", "rounds"), [(1.0, 0.1, 10), (5.0, 0.1, 1000), (2.0, 0.5, 100)])
def test_the_rounding_set_aside_covers_the_accountants_error(sigma, q, rounds):
    one_sided, infinite = fixed_size._losses(1 / sigma, q, 1e-2)
    table = one_sided.astype(np.longdouble)
    losses = np.longdouble(1e-2) * np.arange(len(table))
    length = scipy.fft.next_fast_len(2 * rounds * len(table))
    buffer = np.zeros(length, np.longdouble)
    buffer[: len(table)] = table
    buffer[len(buffer) - len(table) + 1 :] = (table[1:] * np.exp(-losses[1:]))[::-1]
    composed = scipy.fft.ifft(scipy.fft.fft(buffer) ** rounds).real
    positions = np.longdouble(1e-2) * np.arange(length // 2)
    package = fixed_size._composed(sigma, q, rounds, 1e-2)
    for epsilon in (0.1, 1.0, 3.0, 8.0):
        beyond = positions > epsilon
        exact = -np.sum(np.expm1(epsilon - positions[beyond]) * composed[: length // 2][beyond]) + rounds * infinite
        plain = float(package.get_delta_for_epsilon(epsilon))
        assert abs(plain - exact) < fixed_size._ROUNDING_PER_ROUND * rounds / 4 + 2e-15
        assert fixed_size._charged(package, epsilon, rounds) > exact


@pytest.mark.parametrize(("sigma", "rounds"), [(100.0, 10_000), (1.0, 10), (0.4, 1)])
def test_without_sampling_the_table_gives_the_exact_gaussian(sigma, rounds):
    mu = math.sqrt(rounds) / sigma
    composed = fixed_size._composed(sigma, 1.0, rounds, 1e-4)
    for epsilon in np.linspace(0.0, 9.0, 19):
        exact = gaussian.delta(mu, float(epsilon))
        charged = fixed_size._charged(composed, float(epsilon), rounds)
        assert exact <= charged <= exact * (1 + 1e-3) + 2 * fixed_size._ROUNDING_PER_ROUND * rounds + 2e-15


def test_a_delta_within_the_rounding_is_refused():
    with pytest.raises(sv.UnsupportedClaim, match="rounding"):
        fixed_size.epsilon(**(DESIGN | {"rounds": 10_000}), delta=1e-11, grid=COARSE)
    with pytest.raises(sv.UnsupportedClaim, match="rounding"):
        fixed_size.epsilon(**(DESIGN | {"rounds": 1}), delta=1e-15, grid=COARSE)


def test_losses_that_no_grid_of_ours_holds_are_refused_with_the_grid_that_does():
    with pytest.raises(sv.ConfigError, match=r"grid of at least"):
        fixed_size.epsilon(noise_multiplier=0.01, sampling_rate=0.5, rounds=1, delta=1e-5)
    with pytest.raises(sv.ConfigError, match=r"Use a grid of 0\.0\d+ or more"):
        fixed_size.epsilon(noise_multiplier=0.12, sampling_rate=0.5, rounds=100_000, delta=1e-5, grid=COARSE)


def test_without_the_package_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(sv.ConfigError, match=r"pip install sottovoce\[accounting\]"):
        fixed_size.epsilon(**DESIGN, delta=1e-5)
    assert fixed_size.epsilon(**(DESIGN | {"sampling_rate": 1.0}), delta=1e-5) > 0


@pytest.mark.parametrize(
    "bad",
    [
        {"noise_multiplier": 0.0},
        {"noise_multiplier": math.nan},
        {"noise_multiplier": True},
        {"sampling_rate": 0.0},
        {"sampling_rate": 1.01},
        {"sampling_rate": math.nan},
        {"rounds": 0},
        {"rounds": 2.5},
        {"rounds": True},
        {"grid": 0.0},
        {"grid": 2.0},
    ],
)
def test_malformed_designs_are_refused_by_both_functions(bad):
    with pytest.raises(sv.ConfigError):
        fixed_size.epsilon(**(DESIGN | bad), delta=1e-5)
    with pytest.raises(sv.ConfigError):
        fixed_size.delta(**(DESIGN | bad), epsilon=1.0)


def test_malformed_targets_are_refused_and_add_remove_is_not_offered():
    for delta in (0.0, 1.0, math.nan, True):
        with pytest.raises(sv.ConfigError):
            fixed_size.epsilon(**DESIGN, delta=delta)
    for epsilon in (-1.0, math.inf, math.nan):
        with pytest.raises(sv.ConfigError):
            fixed_size.delta(**DESIGN, epsilon=epsilon)
    with pytest.raises(TypeError, match="adjacency"):
        fixed_size.epsilon(**DESIGN, delta=1e-5, adjacency="add-remove")
