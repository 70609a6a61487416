"""Rounds of Laplace noise together: closed forms of few rounds, exact lower bounds, another accountant, simulation."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import gammainc
from scipy.stats import binom

from sottovoce.accounting import pure
from sottovoce.accounting.mechanisms import laplace, loss_grid
from sottovoce.accounting.mechanisms.round_values import few_values, rounds_of
from sottovoce.errors import ConfigError

value = st.floats(1e-3, 12.0)


def one_round(v, epsilon):
    """H of one Laplace round, for any epsilon."""
    return 0.0 if epsilon >= v else -math.expm1(epsilon if epsilon <= -v else 0.5 * (epsilon - v))


def two_rounds(v1, v2, epsilon):
    """H of two rounds by the closed form of the docstring."""
    s, x = v1 + v2, abs(epsilon)
    inside = math.exp(-0.5 * s) * (1 + min(min(v1, v2) / 2, (s - x) / 4))
    return 1 - math.exp(0.5 * epsilon) * (inside if x <= s else math.exp(-0.5 * x))


def over_a_round(v, rest, epsilon, kinks):
    """The mean of rest(epsilon - L) over the loss L of one round: two atoms and a density, integrated between kinks."""
    ends = sorted({kink for kink in kinks if -v < kink < v} | {-v, v})
    inner = sum(
        quad(lambda x: 0.25 * math.exp(0.5 * (x - v)) * rest(epsilon - x), a, b, epsabs=1e-15, epsrel=1e-12)[0]
        for a, b in itertools.pairwise(ends)
    )
    return 0.5 * rest(epsilon - v) + 0.5 * math.exp(-v) * rest(epsilon + v) + inner


def three_rounds(v1, v2, v3, epsilon):
    s, d = v1 + v2, abs(v1 - v2)
    kinks = [epsilon - s, epsilon + s, epsilon - d, epsilon + d]
    return over_a_round(v3, lambda e: two_rounds(v1, v2, e), epsilon, kinks)


def sign_test(v, rounds, delta):
    """The epsilon of an observer who keeps of every round only whether it is above v / 2: a true lower bound."""
    p = 1 - 0.5 * math.exp(-0.5 * v)
    k = np.arange(rounds + 1)
    losses, masses = (2 * k - rounds) * math.log(p / (1 - p)), binom.pmf(k, rounds, p)
    low, high = 0.0, float(losses[-1])
    for _ in range(80):
        middle = 0.5 * (low + high)
        reached = float(masses @ -np.expm1(np.minimum(middle - losses, 0.0)))
        low, high = (middle, high) if reached > delta else (low, middle)
    return low


def test_the_number_of_the_issue():
    """A thousand rounds of 0.01 at delta = 1e-5: pure composition says 10, privacy-loss distributions 1.196."""
    found = laplace.epsilon([0.01] * 1000, 1e-5)
    assert sign_test(0.01, 1000, 1e-5) == pytest.approx(1.19448, abs=1e-5)
    assert found == pytest.approx(1.1957, abs=1e-4)
    assert found >= sign_test(0.01, 1000, 1e-5)
    assert laplace.epsilon([0.01] * 1000, 0.0) == pytest.approx(10.0, rel=1e-12)


@settings(deadline=None)
@given(st.floats(1e-8, 200.0), st.floats(0.0, 1.0, exclude_max=True))
def test_one_round_is_the_closed_form(v, share):
    epsilon = share * v
    exact = float(-mpmath.expm1((mpmath.mpf(epsilon) - mpmath.mpf(v)) / 2))
    assert exact <= laplace.delta([v], epsilon) <= exact * (1 + 1e-9) + 1e-12
    delta = min(exact, 0.999)
    true = float(mpmath.mpf(v) + 2 * mpmath.log1p(-mpmath.mpf(delta)))
    assert true <= laplace.epsilon([v], delta) <= max(0.0, true) + 1e-12 * (1 + v)


@settings(deadline=None)
@given(value, value, st.floats(0.0, 0.98))
def test_two_rounds_are_never_below_their_closed_form_and_close_to_it(v1, v2, share):
    epsilon = share * (v1 + v2)
    exact = two_rounds(v1, v2, epsilon)
    assert exact == pytest.approx(
        over_a_round(v1, lambda e: one_round(v2, e), epsilon, [epsilon - v2, epsilon + v2]), abs=1e-11
    )
    assert laplace.delta([v1, v2], epsilon) >= exact - 1e-14
    if exact > 1e-9:
        found = laplace.epsilon([v1, v2], exact)
        assert epsilon * (1 - 1e-9) - 1e-12 <= found <= epsilon * 1.002 + 0.002 * (v1 + v2)


@settings(deadline=None, max_examples=60)
@given(value, value, value, st.floats(0.0, 0.95))
def test_three_rounds_are_never_below_an_integral_and_close_to_it(v1, v2, v3, share):
    epsilon = share * (v1 + v2 + v3)
    exact = three_rounds(v1, v2, v3, epsilon)
    assert laplace.delta([v1, v2, v3], epsilon) >= exact - 1e-12
    if exact > 1e-6:
        found = laplace.epsilon([v1, v2, v3], exact)
        assert epsilon * (1 - 1e-6) - 1e-9 <= found <= epsilon * 1.002 + 0.002 * (v1 + v2 + v3)


@settings(deadline=None)
@given(st.lists(value, min_size=2, max_size=6), st.floats(0.0, 1.0), st.floats(-0.99, 0.99))
def test_a_change_split_over_coordinates_is_dominated_by_one_coordinate(parts, split, share):
    """The theorem behind all this, at epsilons of both signs, with the closed forms alone."""
    v1, v2 = parts[0], parts[1]
    epsilon = share * (v1 + v2)
    assert two_rounds(v1, v2, epsilon) <= one_round(v1 + v2, epsilon) + 1e-14
    moved = split * min(v1, v2)
    assert two_rounds(v1, v2, epsilon) <= two_rounds(max(v1, v2) + moved, min(v1, v2) - moved, epsilon) + 1e-14


@pytest.mark.parametrize("dimension", [2, 3, 10])
@pytest.mark.parametrize("v", [0.3, 2.0, 8.0])
def test_spherical_noise_in_any_dimension_is_dominated_by_one_dimension(dimension, v):
    """H of exp(-||x||_2) by integration over radius and angle; strictly smaller, and far from it in high dimension."""
    norm = quad(lambda r: r ** (dimension - 1) * math.exp(-r), 0, np.inf)[0]
    sphere = quad(lambda a: math.sin(a) ** (dimension - 2), 0, math.pi)[0]
    for share in (-0.5, 0.0, 0.4, 0.9):
        epsilon = share * v

        def kept(angle, epsilon=epsilon):
            """The mass of min(p, e^epsilon q) over e^epsilon along a ray from q's centre at this angle to the change."""

            def along(r):
                distance = math.sqrt(max(0.0, r * r - 2 * r * v * math.cos(angle) + v * v))
                return r ** (dimension - 1) * math.exp(-max(distance, r - epsilon))

            return math.sin(angle) ** (dimension - 2) * quad(along, 0, 60 + v, limit=400, points=[v])[0]

        reached = 1 - quad(kept, 0, math.pi, limit=200)[0] / (norm * sphere)
        assert reached <= one_round(v, epsilon) + 1e-7
        assert reached < one_round(v, epsilon) * 0.999
    assert gammainc(dimension, 60.0 - v) > 1 - 1e-9  # what the integral leaves out


@pytest.mark.parametrize(
    ("v", "rounds", "delta"), [(0.01, 1000, 1e-5), (1e-3, 10**6, 1e-5), (0.02, 200, 1e-9), (0.1, 100, 1e-3)]
)
def test_many_small_rounds_lie_between_a_sign_test_and_a_hundredth_more(v, rounds, delta):
    low, found = sign_test(v, rounds, delta), laplace.epsilon([v], delta, counts=[rounds])
    assert low <= found <= low * (1.01 if v < 0.05 else 1.03)


def other_accountant(values, counts, *, grid, pessimistic):
    total = None
    for v, count in zip(values, counts, strict=True):
        one = pld.from_laplace_mechanism(
            1 / v, value_discretization_interval=grid, pessimistic_estimate=pessimistic, use_connect_dots=pessimistic
        )
        together = one.self_compose(count)
        total = together if total is None else total.compose(together)
    return total


@pytest.mark.parametrize(
    ("values", "counts"),
    [
        ([0.01], [1000]),
        ([1.0], [20]),
        ([0.5, 0.3, 0.11], [10, 5, 50]),
        ([0.07, 0.06, 0.05, 0.002], [30, 1, 40, 500]),
        ([5.0, 1.3], [2, 3]),
    ],
)
def test_another_accountant_is_met_from_both_sides(values, counts):
    upper = other_accountant(values, counts, grid=1e-4, pessimistic=True)
    lower = other_accountant(values, counts, grid=2e-5, pessimistic=False)
    for delta in (1e-3, 1e-6, 1e-9):
        found = laplace.epsilon(values, delta, counts=counts)
        assert lower.get_epsilon_for_delta(delta) * (1 - 1e-6) <= found
        assert found == pytest.approx(upper.get_epsilon_for_delta(delta), rel=2e-3)


def losses_of(random, v, size):
    noise = random.laplace(size=size)
    return np.abs(noise + v) - np.abs(noise)


def test_simulated_losses_accept_epsilon_and_reject_three_per_cent_less():
    """400,000 runs of 30 unequal rounds; five standard errors. 3 % less epsilon is 20 standard errors off."""
    random, values = np.random.default_rng(5), np.array([0.2] * 20 + [0.5, 0.35] * 5)
    losses = sum(losses_of(random, v, 400_000) for v in values)
    epsilon = laplace.epsilon(values, 0.02)

    def excess(claimed):
        delta = np.maximum(0.0, -np.expm1(np.minimum(claimed - losses, 0.0)))
        return (delta.mean() - 0.02) / (delta.std() / math.sqrt(len(losses)))

    assert abs(excess(epsilon)) < 5
    assert excess(0.97 * epsilon) > 20


def test_two_coordinates_and_choices_by_earlier_rounds_stay_below():
    """Rounds whose l1 change is split, or moved between coordinates by what was seen: simulated, never above the account."""
    random, n = np.random.default_rng(7), 400_000
    total = np.zeros(n)
    for _ in range(12):
        split = np.where(total > 0, 0.4, 0.2)  # of a change of 0.4
        first = random.laplace(size=n)
        second = random.laplace(size=n)
        total += np.abs(first + split) - np.abs(first) + np.abs(second + 0.4 - split) - np.abs(second)
    epsilon = laplace.epsilon([0.4] * 12, 0.02)
    reached = np.maximum(0.0, -np.expm1(np.minimum(epsilon - total, 0.0)))
    assert reached.mean() + 5 * reached.std() / math.sqrt(n) < 0.02
    assert reached.mean() > 0.005


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(1e-4, 3.0), st.integers(1, 40)), min_size=1, max_size=8), st.floats(1e-12, 0.3))
def test_never_above_pure_and_monotone_in_rounds_values_and_delta(rounds, delta):
    values, counts = zip(*rounds, strict=True)
    found = laplace.epsilon(values, delta, counts=counts)
    assert found <= pure.epsilon(math.fsum(np.multiply(values, counts)), delta)
    slack = 1.003 * found + 1e-12
    assert laplace.epsilon([*values, 0.1], delta, counts=[*counts, 1]) >= found / 1.003 - 1e-12
    assert laplace.epsilon(np.multiply(values, 1.02), delta, counts=counts) >= found / 1.003 - 1e-12
    assert laplace.epsilon(values, min(0.9, 2 * delta), counts=counts) <= slack
    assert laplace.delta(values, found, counts=counts) <= delta * 1.2 + 1e-15


@settings(deadline=None)
@given(st.lists(st.floats(1e-3, 2.0), min_size=2, max_size=30), st.integers(3, 7))
def test_few_values_majorise_what_they_stand_for(values, digits):
    distinct, counts = rounds_of(values)
    groups, unit = few_values(distinct, counts, digits=digits, upwards=False)
    made = np.repeat(
        [0.5 * unit * group.intervals * 2.0**-group.exponent for group in groups], [group.count for group in groups]
    )
    assert len(made) <= len(values)
    ours, theirs = (np.cumsum(np.pad(np.sort(one)[::-1], (0, 40 - len(one)))) for one in (made, np.array(values)))
    assert (ours >= theirs).all()
    assert ours[-1] <= theirs[-1] + unit * 2.0 ** (1 - digits)
    up, unit = few_values(distinct, counts, digits=digits, upwards=True)
    raised = np.repeat([0.5 * unit * one.intervals * 2.0**-one.exponent for one in up], [one.count for one in up])
    assert (np.sort(raised) >= np.sort(values)).all()


def test_a_grid_of_coarse_spacing_is_above_a_fine_one_and_both_above_the_truth(monkeypatch):
    exact = two_rounds(0.9, 0.9, 1.1)
    found = []
    for resolution in (2, 8, 32, 128):
        monkeypatch.setattr(loss_grid, "RESOLUTION", resolution)
        found.append(laplace.delta([0.9, 0.9], 1.1))
    assert exact < found[3] < found[2] < found[1] < found[0] < 1.5 * exact
    assert found[3] == pytest.approx(exact, rel=1e-4)


def test_tiny_deltas_keep_their_digits():
    """At delta = 1e-120 a Fourier transform would have no digit left; two equal rounds are known in closed form."""
    for below in (1e-3, 1e-6):
        epsilon = 2.0 - below
        exact = float(1 - mpmath.exp(-mpmath.mpf(below) / 2) * (1 + mpmath.mpf(below) / 4))
        assert exact <= laplace.delta([1.0, 1.0], epsilon) <= 1.3 * exact
    low = sign_test(0.005, 4000, 1e-120)
    assert low <= laplace.epsilon([0.005], 1e-120, counts=[4000]) <= 1.01 * low
    assert 0.3e-120 < laplace.delta([0.005], low, counts=[4000]) < 3e-120


def test_extreme_numbers():
    assert laplace.epsilon([], 0.1) == laplace.epsilon([0.0, 0.0], 1e-5) == laplace.delta([0.0], 0.0) == 0.0
    assert laplace.epsilon([math.inf, 1.0], 0.1) == math.inf
    assert laplace.delta([math.inf, 1.0], 5.0) == 1.0
    assert laplace.epsilon([1e-8] * 1000, 1e-5) == 0.0
    assert laplace.delta([1e-8], 0.0, counts=[10_000]) == pytest.approx(1e-6 / math.sqrt(2 * math.pi), rel=1e-3)
    assert laplace.epsilon([200.0] * 3, 1e-300) == pytest.approx(600.0, rel=1e-12)
    assert 500.0 < laplace.epsilon([200.0] * 3, 1 - 1e-9) < 600.0
    assert laplace.epsilon([1.0] * 3, 0.999) == 0.0
    assert laplace.epsilon([1e300, 1e300], 0.5) <= 2e300
    assert laplace.epsilon([1.7e308, 1.7e308], 0.5) == math.inf
    assert laplace.epsilon([1e-310] * 5, 0.0) == pytest.approx(5e-310, rel=1e-3)
    assert laplace.delta([0.3] * 5, 1.5) == 0.0


def test_many_different_values_cost_little_and_lose_little():
    """A million different rounds, against the same million counted in a thousand classes from above and below."""
    values = np.linspace(1e-6, 1e-3, 1_000_000)
    found = laplace.epsilon(values, 1e-5)
    classes = values.reshape(1000, 1000)
    low, high = (
        laplace.epsilon(edge, 1e-5, counts=[1000] * 1000) for edge in (classes.min(axis=1), classes.max(axis=1))
    )
    assert low / 1.001 < found < 1.001 * high
    assert high < 1.004 * low


@pytest.mark.parametrize(
    ("values", "counts"),
    [([-1.0], None), ([math.nan], None), ([[1.0]], None), ("ab", None), ([1.0], [0]), ([1.0], [1.5]), ([1.0], [1, 2])],
)
def test_malformed_rounds_are_refused(values, counts):
    with pytest.raises(ConfigError, match=r"must be|give one"):
        laplace.epsilon(values, 0.1, counts=counts)
    with pytest.raises(ConfigError, match=r"must be|give one"):
        laplace.delta(values, 0.1, counts=counts)


def test_delta_and_epsilon_outside_their_ranges_are_refused():
    for delta in (-0.1, 1.0, math.nan):
        with pytest.raises(ConfigError, match="delta"):
            laplace.epsilon([1.0, 2.0], delta)
    with pytest.raises(ConfigError, match="epsilon"):
        laplace.delta([1.0, 2.0], -1.0)


def test_what_is_cut_off_is_counted(monkeypatch):
    """With as much cut off as delta itself, and more, epsilon may only grow: up to the sum, never below an attack."""
    low, usual = sign_test(0.01, 1000, 1e-5), laplace.epsilon([0.01], 1e-5, counts=[1000])
    for share, most in ((1e-2, 1.3), (10.0, 11.0), (1e4, 11.0)):
        monkeypatch.setattr(loss_grid, "_SET_ASIDE", share)
        found = laplace.epsilon([0.01], 1e-5, counts=[1000])
        assert low <= usual <= found * (1 + 1e-9) <= most
    assert found == pure.epsilon(10.0, 1e-5)


def test_cutting_and_spreading_keep_both_worlds():
    """Spreading keeps the probability under P and under Q; cutting keeps it under P and raises delta everywhere."""
    random, unit = np.random.default_rng(2), 0.3
    masses = random.dirichlet(np.ones(37))
    before = loss_grid.Losses(2, 3, masses, 0.0, 1, 1.0, 0.0)
    after = loss_grid._at(before, 0, unit)

    def losses(grid):
        return -(grid.start + np.arange(len(grid.masses))) * unit / 2**grid.exponent

    assert after.masses.sum() == pytest.approx(masses.sum(), rel=1e-14)
    assert after.masses @ np.exp(-losses(after)) == pytest.approx(masses @ np.exp(-losses(before)), rel=1e-13)
    cut = loss_grid._shortened(before, 0.2)
    assert len(cut.masses) < len(masses)
    assert cut.masses.sum() + cut.infinite == pytest.approx(1.0, rel=1e-14)
    for epsilon in np.linspace(-6.0, 2.0, 50):
        reached = [
            grid.infinite + grid.masses @ -np.expm1(np.minimum(epsilon - losses(grid), 0.0))
            for grid in (before, after, cut)
        ]
        assert reached[0] <= min(reached[1:]) + 1e-15
