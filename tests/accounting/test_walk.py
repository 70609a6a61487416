"""Network privacy of a walking token: published numbers, the law of gaps, and the bounds against exact divergences."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

import sottovoce as sv
from sottovoce.accounting import composition, gaussian, walk
from sottovoce.errors import ConfigError

HOUSES = {"num_agents": 2000, "contributions": 12, "lipschitz": 1.0, "delta": 1e-6}
UNIFORM_3 = np.full((3, 3), 1.0 / 3.0)


def lazy_pair(q):
    """Two agents; the token changes hands with probability q."""
    return np.array([[1.0 - q, q], [q, 1.0 - q]])


def geometric(p, longest):
    t = np.arange(1, longest + 1)
    return t, p * (1.0 - p) ** (t - 1)


# The complete graph, as published.


# Step 5 of the accounting for n = 2000, T_u = 12, L = 1, delta = 1e-6: values computed from the printed formula.
@pytest.mark.parametrize(
    ("target", "std", "order", "local"), [(10.0, 2.57862, 2.39067, 3.74876), (1.0, 20.3619, 14.9067, 29.2694)]
)
def test_calibration_of_the_published_bound_gives_the_reference_numbers(target, std, order, local):
    found = walk.published_std_for(epsilon=target, **HOUSES)
    assert found == pytest.approx(std, rel=2e-6)
    assert walk.largest_order(std=found, sensitivity=2.0) == pytest.approx(order, rel=3e-6)  # the limit binds
    assert target * (1 - 1e-10) < walk.epsilon(std=found, **HOUSES) <= target
    assert walk.epsilon(std=found * (1 - 1e-9), **HOUSES) > target
    local_std = walk.local_std(epsilon=target, contributions=12, sensitivity=2.0, delta=1e-6)
    assert local_std == pytest.approx(local, rel=2e-6)
    assert walk.local_epsilon(contributions=12, std=local_std, sensitivity=2.0, delta=1e-6) == pytest.approx(target)


@pytest.mark.parametrize("std", [0.3, 3.0, 30.0, 300.0])
@pytest.mark.parametrize(("n", "contributions"), [(3, 1), (50, 400), (2000, 12)])
def test_the_published_epsilon_is_the_minimum_over_the_orders_allowed(n, contributions, std):
    limit = (1 + math.sqrt(1 + 2 * (std / 0.7) ** 2)) / 2
    orders = 1 + (limit - 1) * np.geomspace(1e-4, 1.0, 20001)
    values = 4 * contributions * orders * 0.49 * math.log(n) / (std**2 * n) + math.log(1e5) / (orders - 1)
    found = walk.epsilon(num_agents=n, contributions=contributions, std=std, lipschitz=0.7, delta=1e-5)
    assert found == pytest.approx(values.min(), rel=1e-6)
    assert found <= values.min() * (1 + 1e-12)


def test_two_agents_have_no_published_epsilon():
    """In the long run all is seen: one per contribution. The printed 2 ln(n) / n is 0.69 for n = 2."""
    assert 2 * math.log(2) / 2 < 1
    with pytest.raises(sv.UnsupportedClaim, match="two agents"):
        walk.epsilon(**(HOUSES | {"num_agents": 2}), std=3.0)


@pytest.mark.parametrize("rounds", [1, 7, 300])
def test_exact_lags_are_the_geometric_sum_up_to_the_last_round(rounds):
    n, std = 40, 50.0
    with mpmath.workdps(30):
        mean = mpmath.fsum(mpmath.mpf(n - 1) ** (t - 1) / mpmath.mpf(n) ** t / t for t in range(1, rounds + 1))
    rate, limit = 9 * (2.0 / std) ** 2 * float(mean), walk.largest_order(std=std, sensitivity=2.0)
    orders = 1 + (limit - 1) * np.linspace(1e-3, 1, 4001)
    direct = composition.rdp(list(orders), list(rate * orders), 1e-6)
    found = walk.published_epsilon_exact_lag(
        num_agents=n, contributions=9, std=std, lipschitz=1.0, delta=1e-6, rounds=rounds
    )
    assert found == pytest.approx(direct, rel=1e-5)


def test_an_endless_walk_has_the_mean_inverse_lag_ln_n_over_n_minus_1():
    n, std = 40, 50.0
    found = walk.published_epsilon_exact_lag(
        num_agents=n, contributions=9, std=std, lipschitz=1.0, delta=1e-6, rounds=10**9
    )
    rate = 9 * (2.0 / std) ** 2 * math.log(n) / (n - 1)
    shape = walk.RenyiTradeoff(rate=rate, largest_order=walk.largest_order(std=std, sensitivity=2.0))
    assert found == pytest.approx(shape.epsilon(1e-6), rel=1e-12)
    long = walk.published_epsilon_exact_lag(
        num_agents=n, contributions=9, std=std, lipschitz=1.0, delta=1e-6, rounds=1999
    )
    assert long == pytest.approx(found, rel=1e-12)


# The two shapes of a guarantee.


@pytest.mark.parametrize("rate", [1e-4, 0.02, 3.0])
@pytest.mark.parametrize("limit", [1.01, 2.4, 15.0, 1e4])
def test_a_renyi_tradeoff_converts_at_the_best_order_it_may_use(rate, limit):
    shape = walk.RenyiTradeoff(rate=rate, largest_order=limit)
    orders = 1 + (limit - 1) * np.geomspace(1e-7, 1, 40001)
    direct = composition.rdp(list(orders), list(rate * orders), 1e-6)
    assert shape.epsilon(1e-6) == pytest.approx(direct, rel=1e-5)
    assert shape.delta(shape.epsilon(1e-6)) == pytest.approx(1e-6, rel=1e-6)
    b = orders - 1
    log_deltas = b * (rate * orders - 0.5) + b * np.log(b / orders) - np.log(orders)
    assert shape.delta(0.5) == pytest.approx(math.exp(min(0.0, log_deltas.min())), rel=1e-5)
    assert shape.mu is None
    assert shape.epsilon(0.0) == math.inf


@pytest.mark.parametrize("factor", [0.2, 1.0, 7.0])
def test_scaling_the_noise_is_building_the_tradeoff_with_it(factor):
    def build(std):
        return walk.RenyiTradeoff(rate=0.3 / std**2, largest_order=walk.largest_order(std=std, sensitivity=1.7))

    scaled, built = build(2.5).scaled(factor), build(2.5 * factor)
    assert scaled.rate == pytest.approx(built.rate, rel=1e-12)
    assert scaled.largest_order == pytest.approx(built.largest_order, rel=1e-12)
    assert built.largest_order * (built.largest_order - 1) == pytest.approx(2 * (2.5 * factor / 1.7) ** 2, rel=1e-12)
    gaps = walk.complete_gaps(9, rounds=50)
    twice = walk.WalkTradeoff(gaps=gaps, contributions=3, noise_multiplier=2.0).scaled(factor)
    assert twice.epsilon(1e-5) == walk.WalkTradeoff(gaps=gaps, contributions=3, noise_multiplier=2.0 * factor).epsilon(
        1e-5
    )


def test_nothing_revealed_and_everything_revealed():
    assert walk.RenyiTradeoff(rate=0.0, largest_order=2.0).epsilon(0.0) == 0.0
    assert walk.RenyiTradeoff(rate=0.0, largest_order=2.0).delta(0.1) == 0.0
    assert walk.RenyiTradeoff(rate=math.inf, largest_order=2.0).epsilon(0.1) == math.inf
    assert walk.RenyiTradeoff(rate=math.inf, largest_order=2.0).delta(9.0) == 1.0
    unseen = walk.GapLaw(lengths=np.ones(1), probabilities=np.zeros(1))
    assert walk.WalkTradeoff(gaps=unseen, contributions=5, noise_multiplier=0.1).epsilon(0.0) == 0.0


def test_noise_too_small_for_any_order_is_refused():
    with pytest.raises(sv.UnsupportedClaim, match="order above 1"):
        walk.largest_order(std=1e-9, sensitivity=1.0)
    with pytest.raises(sv.UnsupportedClaim, match="order above 1"):
        walk.epsilon(**HOUSES, std=1e-9)


@pytest.mark.parametrize("order", [1.01, 3.0, 40.0, 2000.0])
def test_the_divergence_of_random_gaps_agrees_with_high_precision(order):
    lengths, probabilities = np.array([1.0, 2.0, 5.0]), np.array([0.05, 0.2, 0.6])
    law = walk.GapLaw(lengths=lengths, probabilities=probabilities)
    shape = walk.WalkTradeoff(gaps=law, contributions=7, noise_multiplier=3.0)
    with mpmath.workdps(50):
        s = mpmath.mpf(order) * (mpmath.mpf(order) - 1) / 18
        mean = mpmath.mpf(1) - sum(map(mpmath.mpf, probabilities))
        mean += sum(mpmath.mpf(p) * mpmath.exp(s / mpmath.mpf(h)) for p, h in zip(probabilities, lengths, strict=True))
        exact = 7 * mpmath.log(mean) / (mpmath.mpf(order) - 1)
    assert shape.renyi(order) == pytest.approx(float(exact), rel=1e-12)


@pytest.mark.parametrize("contributions", [1, 2, 4])
@pytest.mark.parametrize("noise_multiplier", [0.7, 3.0])
def test_random_gaps_are_above_the_exact_delta_of_shown_gaps_and_not_far(contributions, noise_multiplier):
    """Shown gaps make a Gaussian mechanism with mu^2 = sum 1 / (r^2 h): the exact delta is the mean over all gaps."""
    lengths, probabilities = np.array([1.0, 3.0, 20.0]), np.array([0.1, 0.4, 0.5])
    law = walk.GapLaw(lengths=lengths, probabilities=probabilities)
    shape = walk.WalkTradeoff(gaps=law, contributions=contributions, noise_multiplier=noise_multiplier)

    def exact(epsilon):
        total = 0.0
        for choice in itertools.product(range(3), repeat=contributions):
            mu = math.sqrt(sum(1 / lengths[list(choice)])) / noise_multiplier
            total += float(np.prod(probabilities[list(choice)])) * gaussian.delta(mu, epsilon)
        return total

    for delta in (1e-3, 1e-6, 1e-9):
        epsilon = shape.epsilon(delta)
        assert exact(epsilon) <= delta
        assert exact(0.75 * epsilon) > delta  # at most a third above the truth
        assert shape.delta(epsilon) == pytest.approx(delta, rel=1e-4)


def test_gaps_of_one_are_the_local_guarantee():
    law = walk.GapLaw(lengths=np.ones(1), probabilities=np.ones(1))
    shape = walk.WalkTradeoff(gaps=law, contributions=12, noise_multiplier=4.0)
    assert shape.renyi(5.0) == pytest.approx(12 * 5.0 / 32, rel=1e-12)
    local = walk.local_epsilon(contributions=12, std=8.0, sensitivity=2.0, delta=1e-6)
    assert shape.epsilon(1e-6) == pytest.approx(local, rel=1e-12)
    assert shape.delta(1.0) == pytest.approx(gaussian.delta(shape.local_mu, 1.0), rel=1e-12)


# The law of gaps.


@pytest.mark.parametrize(
    ("n", "observers", "rounds"), [(5, 1, 30), (300, 1, 10**12), (300, 4, 900), (10**6, 1, 10**12)]
)
def test_gaps_on_the_complete_graph_are_geometric(n, observers, rounds):
    law, p = walk.complete_gaps(n, rounds=rounds, observers=observers), (1 + observers) / n
    assert law.seen == pytest.approx(-math.expm1(rounds * math.log1p(-p)), rel=1e-12)
    if rounds == 10**12:
        exact = p * math.log(1 / p) / (1 - p)
    else:
        t, weights = geometric(p, rounds)
        exact = float(np.sum(weights / t))
    assert exact * (1 - 1e-12) <= law.mean_inverse <= 1.001 * exact


def test_gaps_of_a_matrix_are_the_first_returns_of_all_paths():
    W = walk.transition_matrix(sv.topologies.path(4))
    law = walk.graph_gaps(W, agent=0, observers=[2], rounds=6)
    by_length = np.zeros(7)
    for path in itertools.product(range(4), repeat=6):
        first = next((t for t, holder in enumerate(path, start=1) if holder in (0, 2)), None)
        if first is not None:
            by_length[first] += math.prod(W[a, b] for a, b in itertools.pairwise((0, *path)))
    np.testing.assert_allclose(law.probabilities, by_length[1:], atol=1e-15)
    uniform = walk.graph_gaps(UNIFORM_3, agent=1, observers=[0], rounds=40)
    same = walk.complete_gaps(3, rounds=40).probabilities
    np.testing.assert_allclose(uniform.probabilities[:30], same[:30], rtol=1e-12)
    assert uniform.seen == pytest.approx(same.sum(), rel=1e-15)


def simulated_gaps(W, agent, others, count, longest, rng):
    """Histogram of the time to the next visit of {agent} + others; the last bin holds the longer ones."""
    holder, gap, walking = np.full(count, agent), np.zeros(count, dtype=int), np.ones(count, dtype=bool)
    steps = np.cumsum(W, axis=1)
    for _ in range(longest):
        holder = np.minimum((rng.random(count)[:, None] > steps[holder]).sum(axis=1), len(W) - 1)
        gap += walking
        walking &= ~np.isin(holder, [agent, *others])
    return np.bincount(np.where(walking, longest + 1, gap), minlength=longest + 2)[1:]


@pytest.mark.parametrize(("W", "observer"), [(np.full((6, 6), 1 / 6), 3), (sv.topologies.hypercube(3).matrix, 5)])
def test_a_simulated_walk_has_the_law_of_gaps_and_not_that_of_lags(W, observer):
    """20,000 walks: the truth passes; counting visits of the observer only (first-visit lags) is rejected."""
    count, longest = 20_000, 8
    seen = simulated_gaps(W, 0, [observer], count, longest, np.random.default_rng(1))

    def p_value(law):
        expected = count * np.append(law, 1 - law.sum())
        if (seen[expected == 0] > 0).any():
            return 0.0
        return stats.chisquare(seen[expected > 0], expected[expected > 0]).pvalue

    assert p_value(walk.graph_gaps(W, agent=0, observers=[observer], rounds=longest).probabilities) > 1e-4
    first, mass = [], np.eye(len(W))[0]
    for _ in range(longest):
        mass = mass @ W
        first.append(mass[observer])
        mass[observer] = 0.0
    assert p_value(np.array(first)) < 1e-4


# Amplification by iteration, mixtures of lags, and composition, against exact divergences.


def hidden_lag_divergence(order, lags, probabilities, ratio):
    """D_a between tokens shifted by 1 and not, with noise of variance r^2 k and a lag k that is not shown."""
    stds = ratio * np.sqrt(lags)

    def log_density(x, shift):
        terms = np.log(probabilities) - 0.5 * ((x - shift) / stds) ** 2 - np.log(stds * math.sqrt(2 * math.pi))
        top = terms.max()
        return top + math.log(np.exp(terms - top).sum())

    edge = 12 * stds[-1] + order
    points = [-edge, -5 * ratio, 0.0, 1.0, order, 5 * ratio + order, edge]
    total = sum(
        integrate.quad(
            lambda x: math.exp(order * log_density(x, 1.0) + (1 - order) * log_density(x, 0.0)), a, b, limit=200
        )[0]
        for a, b in itertools.pairwise(sorted(points))
    )
    return math.log(total) / (order - 1)


@pytest.mark.parametrize("n", [2, 3, 10])
@pytest.mark.parametrize("ratio", [1.0, 4.0])
def test_one_contribution_to_identity_steps_is_below_both_bounds_up_to_the_largest_order(n, ratio):
    """Steps 1 to 4: with identity steps the token is a Gaussian of variance r^2 k. At the largest order c = 1."""
    lags, probabilities = geometric(1 / n, 60)
    probabilities[-1] = (1 - 1 / n) ** 59  # all longer lags
    mean = float(np.sum(probabilities / lags))
    limit = walk.largest_order(std=ratio, sensitivity=1.0)
    law = walk.GapLaw(lengths=lags.astype(float), probabilities=probabilities)
    shown_lags = walk.WalkTradeoff(gaps=law, contributions=1, noise_multiplier=ratio)
    for order in (1 + 0.1 * (limit - 1), 1 + 0.5 * (limit - 1), limit):
        single = order * mean / (2 * ratio**2)  # the factor of the appendix and of the authors' program
        hidden, shown = hidden_lag_divergence(order, lags, probabilities, ratio), shown_lags.renyi(order)
        assert hidden <= shown * (1 + 1e-9)
        assert shown <= 2 * single  # weak convexity with c = 1 is enough
        assert shown > single  # and without its factor it is not, once the lag is known


def test_the_factor_without_weak_convexity_fails_for_shown_lags_by_up_to_the_predicted_amount():
    """n = 10 at c = 1: E[e^(1/k) - 1] against E[1/k]."""
    lags, probabilities = geometric(0.1, 400)
    law = walk.GapLaw(lengths=lags.astype(float), probabilities=probabilities)
    limit = walk.largest_order(std=3.0, sensitivity=1.0)
    shown = walk.WalkTradeoff(gaps=law, contributions=1, noise_multiplier=3.0).renyi(limit)
    single = limit * float(np.sum(probabilities / lags)) / 18
    expected = math.log1p(float(probabilities @ np.expm1(1 / lags))) / float(np.sum(probabilities / lags))
    assert shown / single == pytest.approx(expected, rel=1e-9)
    assert 1.1 < shown / single < 2.0


def costs(path, agent, observer):
    """What one way of the token shows through identity steps, by gaps, and by lags: three sums, in units of 1 / r^2."""
    exact = gap_sum = lag_sum = 0.0
    for start, holder in enumerate(path):
        if holder == agent:
            rest = path[start + 1 :]
            ends = [t for t, other in enumerate(rest, start=1) if other in (agent, observer)]
            lags = [t for t, other in enumerate(rest, start=1) if other == observer]
            gap_sum += 1 / ends[0] if ends else 0.0
            lag_sum += 1 / lags[0] if lags else 0.0
    visits = [t for t, holder in enumerate(path) if holder == observer]
    for before, visit in zip([-1, *visits], visits, strict=False):
        between = path[before + 1 : visit]
        if agent in between:
            first = between.index(agent)  # an observer who knows the token up to there: only later noise hides
            exact += between.count(agent) ** 2 / (len(between) - first)
    return exact, gap_sum, lag_sum


def test_on_every_way_gaps_cover_what_is_shown_and_lags_do_not():
    """All ways of 8 hops among 3 agents. Lags fail: (u, u, v) shows 2 while 1 + 1/2 is counted."""
    assert costs((0, 0, 1), 0, 1) == (2.0, 2.0, 1.5)
    table = np.array([costs(path, 0, 1) for path in itertools.product(range(3), repeat=8)])
    assert (table[:, 1] >= table[:, 0] - 1e-12).all()
    assert (table[:, 2] < table[:, 0] - 1e-12).mean() > 0.1


@pytest.mark.parametrize("W", [UNIFORM_3, lazy_pair(0.5), lazy_pair(0.1), sv.topologies.path(3).matrix])
@pytest.mark.parametrize("order", [1.1, 4.0, 30.0])
def test_the_proven_divergence_covers_the_exact_one_over_all_ways(W, order):
    """Eight hops, the way is shown, identity steps: D_a = ln E e^(s cost) / (a - 1) exactly."""
    ratio, T, K = 2.0, 8, len(W)
    s = order * (order - 1) / (2 * ratio**2)
    logarithms = []
    for path in itertools.product(range(K), repeat=T):
        probability = math.prod([1 / K, *(W[a, b] for a, b in itertools.pairwise(path))])
        if probability > 0:
            logarithms.append(math.log(probability) + s * costs(path, 0, 1)[0])
    exact = float(special.logsumexp(logarithms)) / (order - 1)
    law = walk.graph_gaps(W, agent=0, observers=[1], rounds=T)
    proven = walk.WalkTradeoff(gaps=law, contributions=T, noise_multiplier=ratio).renyi(order)
    assert exact <= proven


def test_adding_up_first_visit_lags_is_false_for_a_lazy_pair():
    """Agent 1 knows the whole way and sees each of the first 20 contributions: D_a = 20 a / (2 r^2), the local value.

    Twice the mean of 1/lag with the law of first visits, q (1 - q)^(t - 1), counts about half of it for q = 0.1. The
    gaps give the exact value less the chance that the token does not come back.
    """
    q, ratio, order = 0.1, 10.0, 2.0
    lags, probabilities = geometric(q, 2000)
    added = 20 * 2 * order * float(np.sum(probabilities / lags)) / (2 * ratio**2)
    local = 20 * order / (2 * ratio**2)
    assert added < 0.52 * local
    law = walk.graph_gaps(lazy_pair(q), agent=0, observers=[1], rounds=2000)
    proven = walk.WalkTradeoff(gaps=law, contributions=20, noise_multiplier=ratio)
    assert proven.renyi(order) == pytest.approx(local, rel=1e-12)


def test_the_proven_epsilon_is_below_the_published_one_in_the_reference_setting():
    """Snapshots of our own numbers beside the published 10 and 1."""
    for target, snapshot in ((10.0, 3.74776), (1.0, 0.359789)):
        std = walk.published_std_for(epsilon=target, **HOUSES)
        arguments = {"num_agents": 2000, "contributions": 12, "sensitivity": 2.0, "delta": 1e-6, "rounds": 20_000}
        assert walk.proven_epsilon(std=std, **arguments) == pytest.approx(snapshot, rel=1e-5)
        found = walk.proven_std_for(epsilon=target, **arguments)
        assert found < 0.5 * std
        assert target * (1 - 1e-9) < walk.proven_epsilon(std=found, **arguments) <= target


@pytest.mark.parametrize("n", [5, 30, 1000])
def test_from_five_agents_on_with_noise_not_below_the_sensitivity_the_published_epsilon_is_confirmed(n):
    for contributions, std, delta in itertools.product((1, 30, 1000), (2.0, 20.0, 200.0), (1e-3, 1e-9)):
        published = walk.epsilon(num_agents=n, contributions=contributions, std=std, lipschitz=1.0, delta=delta)
        proven = walk.proven_epsilon(
            num_agents=n, contributions=contributions, std=std, sensitivity=2.0, delta=delta, rounds=10**12
        )
        assert proven <= published


def test_more_observers_see_more_and_all_of_them_see_everything():
    arguments = {"num_agents": 50, "contributions": 12, "std": 10.0, "sensitivity": 2.0, "delta": 1e-6, "rounds": 600}
    values = [walk.proven_epsilon(**arguments, observers=m) for m in (1, 5, 20, 49)]
    assert values == sorted(values)
    local = walk.local_epsilon(contributions=12, std=10.0, sensitivity=2.0, delta=1e-6)
    assert values[0] < 0.6 * local
    assert values[-1] == pytest.approx(local, rel=1e-9)
    with pytest.raises(sv.ConfigError, match="at most 49"):
        walk.proven_epsilon(**arguments, observers=50)


# Any graph.


def direct_lag_sums(W, rounds):
    total, power = np.zeros_like(W), np.eye(len(W))
    for t in range(1, rounds + 1):
        power = power @ W
        total += power / t
    return total


def test_lag_sums_of_the_hypercube_give_the_reference_number():
    # sum_t (W^t)_01 / t, T = 1000, Metropolis weights: 1.0730103936523088 by powers;
    # with ln T for H_T 1.000795945956281.
    S = walk.lag_sums(sv.topologies.hypercube(3), rounds=1000)
    assert S[0, 1] == pytest.approx(1.0730103936523088, rel=1e-12)
    harmonic = sum(1 / t for t in range(1, 1001))
    assert S[0, 1] - (harmonic - math.log(1000)) / 8 == pytest.approx(1.000795945956281, rel=1e-12)


@pytest.mark.parametrize("rounds", [1, 2, 13, 10_000, 10_001, 30_000])
@pytest.mark.parametrize(
    "W",
    [sv.topologies.path(7).matrix, sv.topologies.erdos_renyi(9, 0.5, seed=2).matrix, lazy_pair(0.999), lazy_pair(1e-4)],
)
def test_lag_sums_by_eigenvalues_are_those_by_powers(W, rounds):
    np.testing.assert_allclose(walk.lag_sums(W, rounds=rounds), direct_lag_sums(W, rounds), rtol=1e-7, atol=1e-9)


def test_pairwise_values_follow_from_the_lag_sums():
    graph, T, N, std = sv.topologies.ring(9), 60, 40, 12.0
    S = walk.lag_sums(graph, rounds=T)
    rate = walk.published_pairwise_rate(graph, rounds=T, contributions=N, std=std, sensitivity=0.5)
    epsilons = walk.published_pairwise_epsilon(graph, rounds=T, contributions=N, std=std, sensitivity=0.5, delta=1e-6)
    others = ~np.eye(9, dtype=bool)
    assert np.isnan(np.diag(rate)).all()
    assert np.isnan(np.diag(epsilons)).all()
    np.testing.assert_allclose(rate[others], 2 * N * 0.25 / (2 * std**2) * S[others], rtol=1e-12)
    limit = walk.largest_order(std=std, sensitivity=0.5)
    assert epsilons[2, 5] == walk.RenyiTradeoff(rate=rate[2, 5], largest_order=limit).epsilon(1e-6)
    np.testing.assert_allclose(epsilons, np.roll(epsilons, (1, 1), axis=(0, 1)), rtol=1e-9)  # all agents are alike
    assert epsilons[0, 1] > epsilons[0, 2] > epsilons[0, 4]
    local = walk.local_epsilon(contributions=N, std=std, sensitivity=0.5, delta=1e-6)
    crowded = walk.published_pairwise_epsilon(
        graph, rounds=10**9, contributions=N, std=std, sensitivity=0.5, delta=1e-6
    )
    assert crowded[0, 1] == local  # the published bound is above the local one there


def test_known_senders_show_what_the_neighbours_see():
    graph = sv.topologies.path(5)
    hidden, known = (walk.lag_sums(graph, rounds=200, sender=sender) for sender in ("hidden", "known"))
    assert known[0, 2] == max(hidden[0, 1], hidden[0, 2], hidden[0, 3])
    assert known[0, 1] == hidden[0, 0]
    assert (known >= hidden).all()
    with pytest.raises(sv.ConfigError, match="sender"):
        walk.lag_sums(graph, rounds=200, sender="both")


def test_the_proven_epsilon_on_the_uniform_walk_is_that_of_the_complete_graph():
    arguments = {"rounds": 300, "contributions": 20, "std": 7.0, "sensitivity": 1.0, "delta": 1e-6}
    graph = walk.proven_graph_epsilon(np.full((20, 20), 0.05), agent=3, observers=[4, 5], **arguments)
    assert graph == pytest.approx(walk.proven_epsilon(num_agents=20, observers=2, **arguments), rel=1e-9)
    ring = sv.topologies.ring(20)
    near, far, both = (walk.proven_graph_epsilon(ring, agent=0, observers=o, **arguments) for o in ([1], [9], [1, 9]))
    assert far < near <= both
    with pytest.raises(sv.ConfigError, match="its own data"):
        walk.proven_graph_epsilon(ring, agent=0, observers=[0], **arguments)
    with pytest.raises(sv.ConfigError, match="different numbers"):
        walk.proven_graph_epsilon(ring, agent=0, observers=[20], **arguments)
    with pytest.raises(sv.ConfigError, match="different numbers"):
        walk.proven_graph_epsilon(ring, agent=0, observers=[], **arguments)


@pytest.mark.parametrize(
    ("matrix", "error", "words"),
    [
        ([[0.0, 1.0], [1.0, 0.0]], sv.IncompatibleChoice, "keep the token"),
        (np.eye(3), sv.IncompatibleChoice, "connect the graph"),
        ([[0.5, 0.5], [0.2, 0.8]], sv.IncompatibleChoice, "not symmetric"),
        ([[0.5, 0.4], [0.4, 0.5]], sv.ConfigError, "sum to 1"),
        ([[1.5, -0.5], [-0.5, 1.5]], sv.ConfigError, "at least 0"),
        ([[math.nan, 1.0], [1.0, 0.0]], sv.ConfigError, "sum to 1"),
        ([[0.5, 0.5]], sv.ConfigError, "square"),
        ([[True, False], [False, True]], sv.ConfigError, "real"),
        (sv.topologies.ring(5).with_dropout(0.1), sv.IncompatibleChoice, "static"),
    ],
)
def test_walks_that_are_not_covered_are_refused(matrix, error, words):
    with pytest.raises(error, match=words):
        walk.lag_sums(matrix, rounds=10)


# How often the token visits.


@pytest.mark.parametrize(("n", "rounds", "failure"), [(10, 10, 1e-6), (1000, 10**6, 1e-6), (5, 37, 0.2)])
def test_likely_contributions_are_the_smallest_exact_number(n, rounds, failure):
    most, probability = walk.likely_contributions(num_agents=n, rounds=rounds, failure_probability=failure)
    assert probability == failure

    def tail(count):  # P(visits > count), by the incomplete beta function
        with mpmath.workdps(40):
            return float(mpmath.betainc(count + 1, rounds - count, 0, mpmath.mpf(1) / n, regularized=True))

    assert tail(most) <= failure < tail(most - 1)


def exact_tail(W, rounds, most):
    """P(more than `most` visits of agent 0 among `rounds` holders, from a uniform start), by counting."""
    K = len(W)
    mass = np.zeros((most + 2, K))  # visits, the last row holds more
    mass[1, 0], mass[0, 1:] = 1 / K, 1 / K
    for _ in range(rounds - 1):
        moved = mass @ W
        mass = moved.copy()
        mass[1:, 0] = moved[:-1, 0]
        mass[-1, 0] += moved[-1, 0]
        mass[0, 0] = 0.0
    return float(mass[-1].sum())


@pytest.mark.parametrize("W", [lazy_pair(0.02), sv.topologies.ring(7).matrix, lazy_pair(0.9)])
@pytest.mark.parametrize("failure", [0.2, 1e-3])
def test_likely_contributions_on_a_graph_are_exceeded_rarely(W, failure):
    most, _ = walk.likely_contributions_on_graph(W, rounds=1500, failure_probability=failure)
    assert exact_tail(W, 1500, most) <= failure


def test_a_slow_walk_needs_more_than_independent_visits_would():
    """Power: Hoeffding's bound for independent holders (l = 0) fails for a token that rarely moves."""
    W, T, failure = lazy_pair(0.02), 1500, 1e-3
    independent = math.floor(T / 2 + math.sqrt(0.5 * T * math.log(1 / failure)))
    assert exact_tail(W, T, independent) > 10 * failure


def test_a_likely_number_takes_its_failure_probability_off_delta():
    likely = walk.LikelyContributions(12, 4e-7)
    split = walk.epsilon(**(HOUSES | {"contributions": likely}), std=5.0)
    assert split == walk.epsilon(**(HOUSES | {"delta": 1e-6 - 4e-7}), std=5.0)
    with pytest.raises(sv.UnsupportedClaim, match="leaves nothing"):
        walk.epsilon(**(HOUSES | {"contributions": walk.LikelyContributions(12, 1e-6)}), std=5.0)


CALLS = {
    walk.epsilon: HOUSES | {"std": 5.0},
    walk.published_epsilon_exact_lag: HOUSES | {"std": 5.0, "rounds": 100},
    walk.published_std_for: HOUSES | {"epsilon": 1.0},
    walk.proven_epsilon: {
        "num_agents": 9,
        "contributions": 2,
        "std": 1.0,
        "sensitivity": 1.0,
        "delta": 0.1,
        "rounds": 5,
    },
    walk.proven_std_for: {
        "num_agents": 9,
        "contributions": 2,
        "epsilon": 1.0,
        "sensitivity": 1.0,
        "delta": 0.1,
        "rounds": 5,
    },
    walk.local_epsilon: {"contributions": 2, "std": 1.0, "sensitivity": 1.0, "delta": 0.1},
    walk.local_std: {"contributions": 2, "epsilon": 1.0, "sensitivity": 1.0, "delta": 0.1},
    walk.largest_order: {"std": 1.0, "sensitivity": 1.0},
    walk.RenyiTradeoff: {"rate": 1.0, "largest_order": 2.0},
    walk.likely_contributions: {"num_agents": 5, "rounds": 10, "failure_probability": 0.1},
}


@pytest.mark.parametrize("bad", [math.nan, -1.0, True, "x", None])
@pytest.mark.parametrize(
    ("function", "name"), [(function, name) for function, given in CALLS.items() for name in given]
)
def test_what_is_no_number_in_its_range_is_refused(function, name, bad):
    function(**CALLS[function])
    with pytest.raises(sv.ConfigError, match=name):
        function(**(CALLS[function] | {name: bad}))


@pytest.mark.parametrize(
    ("lengths", "probabilities"),
    [
        ([0.5], [1.0]),
        ([1.0, 2.0], [0.8, 0.3]),
        ([1.0], [-0.1]),
        ([1.0, 2.0], [1.0]),
        ([math.nan], [0.5]),
        ([1.0], [math.nan]),
    ],
)
def test_what_is_no_law_of_gaps_is_refused(lengths, probabilities):
    with pytest.raises(sv.ConfigError):
        walk.GapLaw(lengths=np.array(lengths), probabilities=np.array(probabilities))


def test_calibration_and_account_are_inverse_for_small_and_large_epsilon():
    def excess(log_std, target):
        return walk.epsilon(std=math.exp(log_std), **HOUSES) - target

    for target in (0.01, 0.5, 30.0):
        std = walk.published_std_for(epsilon=target, **HOUSES)
        assert walk.epsilon(std=std, **HOUSES) == pytest.approx(target, rel=1e-9)
        assert std == pytest.approx(math.exp(optimize.brentq(excess, -3, 10, args=(target,))), rel=1e-9)


def test_matrices_that_lose_mass_or_are_not_symmetric_are_refused():
    losing = np.full((3, 3), 0.3)
    with pytest.raises(ConfigError, match="rows that sum to one"):
        walk.graph_gaps(losing, agent=0, observers=[1], rounds=5)
    uneven = np.array([[0.5, 0.5, 0.0], [0.25, 0.5, 0.25], [0.0, 0.5, 0.5]])
    with pytest.raises(ConfigError, match="symmetric"):
        walk.likely_contributions_on_graph(uneven, rounds=50, failure_probability=1e-3)
