"""Noise of pair keys: reference values, another route, exact scaling, floors, caps, coalitions, and a bound that nothing goes below."""

from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from scipy.optimize import minimize

import sottovoce as sv
from sottovoce.design import pairs as module
from sottovoce.design.pair_bound import DualPoint, lower_bound
from sottovoce.design.pairs import pair_noise
from sottovoce.errors import ConfigError, IncompatibleChoice

GRAPHS = {
    "ring": sv.topologies.ring(20),
    "grid": sv.topologies.grid(4, 5),
    "random": sv.topologies.erdos_renyi(20, 0.3, seed=0),
    "geometric": sv.topologies.geometric(30, 0.35, seed=0),
    "star": sv.topologies.star(20),
    "karate": sv.topologies.from_networkx(nx.Graph(nx.karate_club_graph().edges())),
}


def steady_price(topology, contraction):
    """G of the average steady MSD of ATC with Hessian h I: A (sum_j c^2j A^j (I / K) A'^j) A', the sum by doubling its length."""
    a = np.asarray(topology.matrix)
    total, power = np.eye(len(a)) / len(a), contraction * a
    for _ in range(40):
        total, power = total + power @ total @ power.T, power @ power
    return a @ total @ a.T


def price(G, made):
    return float((G * made.covariance).sum())


def gain(G, made):
    return float(np.trace(G)) / price(G, made)


def hidden(made, members=()):
    """[K] the [S_H^-1]_pp against a coalition, with S_H put together source by source; members 0."""
    K = len(made.own)
    honest = [k for k in range(K) if k not in members]
    s = np.zeros((K, K))
    for k in honest:
        s[k, k] = made.own[k] ** 2
    for (i, j), (a, b) in zip(made.pairs, made.factors, strict=True):
        if i in honest and j in honest:
            column = np.zeros(K)
            column[i], column[j] = a, b
            s += np.outer(column, column)
    result = np.zeros(K)
    result[honest] = np.diag(np.linalg.inv(s[np.ix_(honest, honest)]))
    return result


def singles(K, size=1):
    return [(members, 1.0) for members in combinations(range(K), size)]


def random_case(rng, K=4):
    root = rng.normal(size=(K, K + 1))
    every = np.array(list(combinations(range(K), 2)))
    chosen = every[rng.permutation(len(every))[: max(2, len(every) - 1)]]
    return root @ root.T, rng.uniform(0.5, 2.0, K), chosen


# Independent noise over the best of pair keys on links, c = 0.99 and 0.95: the table of the issue that asked for designs.
@pytest.mark.parametrize(
    ("name", "slow_mixing", "fast_mixing"),
    [
        ("ring", 2.968, 2.029),
        ("grid", 3.575, 2.032),
        ("random", 4.078, 2.082),
        ("geometric", 3.976, 2.379),
        ("star", 1.108, 1.014),
        ("karate", 1.735, 1.277),
    ],
)
def test_gains_are_the_published_ones_and_proven_optimal(name, slow_mixing, fast_mixing):
    for contraction, expected in ((0.99, slow_mixing), (0.95, fast_mixing)):
        topology = GRAPHS[name]
        G = steady_price(topology, contraction)
        made = pair_noise(G, 1.0, topology.pairs)
        assert gain(G, made) == pytest.approx(expected, abs=6e-4)
        assert 0.0 <= price(G, made) / made.lower_bound - 1.0 < 2e-5
        assert hidden(made).max() == pytest.approx(1.0, rel=1e-11)


@pytest.mark.parametrize(
    ("topology", "expected"), [(sv.topologies.path(4), 1.04149486), (sv.topologies.star(5), 1.51816987)]
)
def test_small_networks_have_their_published_prices(topology, expected):
    G = steady_price(topology, 0.9)
    made = pair_noise(G, 1.0, topology.pairs)
    assert price(G, made) == pytest.approx(expected, rel=3e-6)
    assert made.lower_bound <= expected * (1 + 1e-8)


def test_every_agent_alike_costs_what_the_spectrum_of_a_ring_says():
    """On a ring S is a polynomial of degree one in the ring's Laplacian: one ratio, found here by a scan."""
    topology = sv.topologies.ring(7)
    G = steady_price(topology, 0.9)
    cosines = np.cos(2 * np.pi * np.arange(7) / 7)
    weights = (1 + 2 * cosines) / 3
    gains = weights**2 / (1 - 0.81 * weights**2) / 7
    ratios = np.linspace(0, 10, 200_001)[:, None]
    spectrum = 1 + ratios * (2 - 2 * cosines)
    best = ((gains * spectrum).sum(axis=1) * (1 / spectrum).mean(axis=1)).min()
    assert price(G, pair_noise(G, 1.0, topology.pairs)) == pytest.approx(best, rel=1e-5)


def by_general_optimiser(G, kappa, pairs, coalitions, floor, cap, seed):
    """Stds and factors by SLSQP from random starts, constraints written out with dense inverses."""
    K, m = len(G), len(pairs)
    rng = np.random.default_rng(seed)

    def made(x):
        return module.PairNoise(own=x[:K], pairs=pairs, factors=x[K:].reshape(m, 2), lower_bound=0.0)

    def slack(x):
        parts = [1.0 - hidden(made(x)) / kappa, x[:K] ** 2 - floor]
        parts += [1.0 - hidden(made(x), members) / allowed for members, allowed in coalitions]
        if cap is not None:
            parts.append(cap - np.diag(made(x).covariance))
        return np.concatenate(parts)

    best = np.inf
    for _ in range(3):
        start = np.concatenate([np.sqrt(1.2 / kappa + floor), 0.3 * rng.normal(size=2 * m)])
        found = minimize(
            lambda x: float((G * made(x).covariance).sum()),
            start,
            constraints={"type": "ineq", "fun": slack},
            method="SLSQP",
            options={"maxiter": 300, "ftol": 1e-10},
        )
        if slack(found.x).min() > -1e-7:
            best = min(best, found.fun)
    return best


@pytest.mark.parametrize("asked", ["plain", "coalitions", "floor", "cap", "all"])
def test_a_general_optimiser_finds_the_same_price(asked):
    rng = np.random.default_rng(3)
    G, kappa, pairs = random_case(rng)
    coalitions = [((0,), 1.5 * kappa), ((2,), 1.2 * kappa)] if asked in ("coalitions", "all") else []
    floor = 0.45 if asked in ("floor", "all") else 0.0
    cap = 2.4 / kappa.min() if asked in ("cap", "all") else None
    made = pair_noise(G, kappa, pairs, coalitions=coalitions, own_floor=floor, cap=cap)
    other = by_general_optimiser(G, kappa, pairs, coalitions, floor, cap, seed=1)
    assert price(G, made) == pytest.approx(other, rel=2e-5)
    assert made.lower_bound <= other * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_the_larger_solver_agrees_with_the_smaller(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    topology = sv.topologies.erdos_renyi(12, 0.4, seed=seed)
    G, kappa = steady_price(topology, 0.9), rng.uniform(0.5, 2.0, 12)
    asked = [{}, {"own_floor": 0.3}, {"cap": 3.0}, {"coalitions": [((k,), kappa) for k in range(3)]}][seed]
    small = pair_noise(G, kappa, topology.pairs, **asked)
    monkeypatch.setattr(module, "MOST_UNKNOWNS", 0)
    large = pair_noise(G, kappa, topology.pairs, **asked)
    assert price(G, small) <= price(G, large) * (1 + 1e-5) <= 1.01 * price(G, small)
    assert 0.9 * small.lower_bound < large.lower_bound <= price(G, small)


def random_noise_that_meets(rng, G, kappa, pairs, coalitions, floor, cap):
    """Price of random noise, scaled or mixed with own noise until all constraints hold as a reader of this test would check them."""
    K = len(G)
    spread = np.exp(rng.normal(scale=0.5))
    own = np.sqrt(floor + rng.uniform(0.05, 2.0, K) / kappa)
    factors = spread * rng.normal(size=(len(pairs), 2))
    alone = np.sqrt(np.maximum(floor, 1.0 / np.min([kappa, *(allowed for _, allowed in coalitions)], axis=0)))
    for share in np.linspace(1.0, 0.0, 21):
        mixed = module.PairNoise(
            own=np.sqrt(share * own**2 + (1 - share) * alone**2 * (1 + 1e-12)),
            pairs=pairs,
            factors=np.sqrt(share) * factors,
            lower_bound=0.0,
        )
        ratio = max([(hidden(mixed) / kappa).max(), *((hidden(mixed, m) / allowed).max() for m, allowed in coalitions)])
        scaled = module.PairNoise(
            own=mixed.own * ratio**0.5, pairs=pairs, factors=mixed.factors * ratio**0.5, lower_bound=0.0
        )
        if ((scaled.own**2 >= floor).all()) and (cap is None or (np.diag(scaled.covariance) <= cap * (1 + 1e-9)).all()):
            return price(G, scaled)
    raise AssertionError("own noise alone meets everything")


@pytest.mark.parametrize("seed", range(12))
def test_no_noise_that_meets_what_is_asked_is_below_the_bound(seed):
    rng = np.random.default_rng(seed)
    G, kappa, pairs = random_case(rng, K=5)
    coalitions = [((1,), 1.3 * kappa), ((2, 4), kappa)] if seed % 2 else []
    floor = 0.3 if seed % 3 == 0 else 0.0
    cap = 3.0 / kappa.min() if seed % 4 < 2 else None
    made = pair_noise(G, kappa, pairs, coalitions=coalitions, own_floor=floor, cap=cap)
    problem = module._checked(G, kappa, pairs, coalitions, floor, cap)
    lowest = min(random_noise_that_meets(rng, G, kappa, pairs, coalitions, floor, cap) for _ in range(20))
    assert made.lower_bound <= price(G, made) <= lowest * (1 + 1e-6)
    # whatever a solver says: dual points out of nowhere, and wrong ones near the right one
    best = price(G, made) * (1 + 1e-9)
    views = len(problem.kappa)
    near = np.linalg.inv(made.covariance)
    for scale in (1e-3, 0.1, 1.0, 30.0):
        weights, caps = scale * rng.exponential(size=(views, 5)), scale * rng.exponential(size=5) * (seed % 4 < 2)
        noisy = near + 0.05 * rng.normal(size=(views, 5, 5))
        for vectors in (rng.normal(size=(views, 5, 5)), noisy):
            assert lower_bound(problem, DualPoint(weights, vectors, caps)) <= best
    assert lower_bound(problem, DualPoint(weights, np.full_like(noisy, np.nan), caps)) <= best


@pytest.mark.parametrize("nonsense", ["nothing", "singular", "random"])
def test_a_solver_that_fails_costs_gain_and_nothing_else(nonsense, monkeypatch):
    topology = GRAPHS["random"]
    G, rng = steady_price(topology, 0.99), np.random.default_rng(0)
    honest = price(G, pair_noise(G, 1.0, topology.pairs))

    def broken(problem, found):
        m = len(problem.pairs)
        if nonsense == "nothing":
            return
        own = np.zeros(20) if nonsense == "singular" else rng.exponential(size=20)
        blocks = module.Blocks(own, *(rng.exponential(size=(2, m))), 0.1 * rng.normal(size=m))
        found(blocks, DualPoint(rng.exponential(size=(1, 20)), rng.normal(size=(1, 20, 20)), np.zeros(20)))

    monkeypatch.setattr(module, "solve_barrier", broken)
    made = pair_noise(G, 1.0, topology.pairs)
    assert gain(G, made) >= 1.0
    assert hidden(made).max() <= 1.0 + 1e-11
    assert made.lower_bound <= honest


def test_a_floor_of_own_noise_costs_what_was_published():
    topology = GRAPHS["random"]
    G = steady_price(topology, 0.99)
    for floor, expected in ((0.1, 4.078), (0.25, 3.030), (0.5, 1.844)):
        made = pair_noise(G, 1.0, topology.pairs, own_floor=floor)
        assert gain(G, made) == pytest.approx(expected, abs=1e-3)
        assert (made.own**2 >= floor * (1 - 1e-14)).all()
        assert hidden(made).max() == pytest.approx(1.0, rel=1e-11)
        assert price(G, made) / made.lower_bound < 1 + 1e-5


def test_scaling_down_does_not_break_a_floor(monkeypatch):
    """A proposal that hides too much is scaled down, but for the floor."""
    topology = GRAPHS["random"]
    G = steady_price(topology, 0.99)
    free = pair_noise(G, 1.0, topology.pairs, own_floor=0.25)

    def lavish(problem, found):
        blocks = module.blocks_of(2.0 * free.own**2, np.sqrt(2.0) * free.factors)
        found(blocks, DualPoint(np.zeros((1, 20)), np.zeros((1, 20, 20)), np.zeros(20)))

    monkeypatch.setattr(module, "solve_barrier", lavish)
    made = pair_noise(G, 1.0, topology.pairs, own_floor=0.25)
    assert made.factors.any()
    assert (made.own**2 >= 0.25 * (1 - 1e-14)).all()
    assert hidden(made).max() == pytest.approx(1.0, rel=1e-11)


def test_a_floor_that_hides_enough_is_the_optimum():
    G = steady_price(GRAPHS["grid"], 0.99)
    made = pair_noise(G, 1.0, GRAPHS["grid"].pairs, own_floor=1.7)
    assert np.allclose(made.own**2, 1.7, rtol=1e-14)
    assert not made.factors.any()
    assert made.lower_bound == pytest.approx(1.7 * np.trace(G), rel=1e-5)


def test_a_cap_holds_and_costs_gain():
    topology, gains = GRAPHS["random"], []
    G = steady_price(topology, 0.99)
    for cap in (1.0, 1.2, 1.5, 3.0):
        made = pair_noise(G, 1.0, topology.pairs, cap=cap)
        assert np.diag(made.covariance).max() <= cap * (1 + 1e-12)
        assert hidden(made).max() <= 1.0 + 1e-11
        assert price(G, made) / made.lower_bound < 1 + 1e-5
        gains.append(gain(G, made))
    assert gains[0] == pytest.approx(1.0, rel=1e-14)
    assert np.diff(gains).min() > 0.05
    assert gains[-1] == pytest.approx(4.078, abs=1e-3)


def test_scaling_up_does_not_break_a_cap(monkeypatch):
    """A proposal that hides too little is scaled up, and mixed with own noise where that is more than the cap allows."""
    topology = GRAPHS["random"]
    G = steady_price(topology, 0.99)
    free = pair_noise(G, 1.0, topology.pairs)

    def keen(problem, found):
        blocks = module.blocks_of(0.3 * free.own**2, np.sqrt(0.3) * free.factors)
        found(blocks, DualPoint(np.zeros((1, 20)), np.zeros((1, 20, 20)), np.zeros(20)))

    monkeypatch.setattr(module, "solve_barrier", keen)
    made = pair_noise(G, 1.0, topology.pairs, cap=1.5)
    assert made.factors.any()
    assert np.diag(made.covariance).max() == pytest.approx(1.5, rel=1e-9)
    assert np.diag(made.covariance).max() <= 1.5
    assert hidden(made).max() <= 1.0 + 1e-11


def test_agents_whose_cap_is_their_own_noise_leave_the_others_their_pairs():
    topology = sv.topologies.erdos_renyi(10, 0.5, seed=1)
    G, cap = steady_price(topology, 0.95), np.full(10, 4.0)
    cap[[2, 5]] = 1.0
    made = pair_noise(G, 1.0, topology.pairs, cap=cap)
    touched = np.isin(topology.pairs, [2, 5]).any(axis=1)
    assert not made.factors[touched].any()
    assert made.factors[~touched].any()
    assert price(G, made) / made.lower_bound < 1 + 1e-5
    nearly = pair_noise(G, 1.0, topology.pairs, cap=np.where(cap == 1.0, 1.0 + 1e-5, cap))
    assert price(G, nearly) == pytest.approx(price(G, made), rel=1e-2)


def test_any_one_colluder_leaves_the_published_gains():
    for name, expected in (("ring", 1.766), ("grid", 2.620), ("random", 3.300)):
        topology = GRAPHS[name]
        G = steady_price(topology, 0.99)
        made = pair_noise(G, 1.0, topology.pairs, coalitions=singles(20))
        assert gain(G, made) == pytest.approx(expected, abs=1e-3)
        assert price(G, made) / made.lower_bound < 1 + 1e-5
        worst = max(hidden(made, members).max() for members, _ in singles(20))
        assert worst == pytest.approx(1.0, rel=1e-11)


def test_two_colluders_on_a_ring_leave_own_noise_alone():
    topology = sv.topologies.ring(10)
    G = steady_price(topology, 0.99)
    made = pair_noise(G, 1.0, topology.pairs, coalitions=singles(10, 2))
    assert gain(G, made) == pytest.approx(1.0, abs=1e-6)
    assert price(G, made) <= np.trace(G) * (1 + 1e-14)
    assert made.lower_bound == pytest.approx(np.trace(G), rel=1e-5)


def test_a_design_for_readers_alone_fails_against_a_colluder():
    topology = GRAPHS["geometric"]
    made = pair_noise(steady_price(topology, 0.99), 1.0, topology.pairs)
    assert max(hidden(made, (k,)).max() for k in range(30)) > 100


def test_without_pairs_own_noise_is_optimal():
    G, kappa, _ = random_case(np.random.default_rng(0))
    made = pair_noise(G, kappa, np.empty((0, 2)))
    assert made.own**2 == pytest.approx(1.0 / kappa)
    assert made.lower_bound == pytest.approx(price(G, made), rel=1e-14)


def test_where_pairs_do_not_help_own_noise_is_returned_as_it_is():
    made = pair_noise(np.diag([1.0, 2.0, 3.0]), 1.0, [[0, 1], [1, 2]])
    assert not made.factors.any()
    assert (made.own == 1.0).all()
    assert made.lower_bound == pytest.approx(6.0, rel=1e-5)


def test_a_network_that_averages_at_once_needs_a_centres_noise_only():
    """On a complete graph G has rank one; pair noise then cancels, the more the larger it is, and the central bound is approached."""
    topology = sv.topologies.complete(10)
    G = steady_price(topology, 0.99)
    made = pair_noise(G, 1.0, topology.pairs)
    assert gain(G, made) == pytest.approx(10.0, rel=1e-3)
    assert gain(G, made) <= np.trace(G) / made.lower_bound <= 10.0 * (1 + 1e-9)


def test_units_do_not_matter():
    rng = np.random.default_rng(5)
    G, kappa, pairs = random_case(rng, K=5)
    units = np.exp(3.0 * rng.normal(size=5))
    made = pair_noise(G, kappa, pairs)
    other = pair_noise(1e6 * G / np.outer(units, units), kappa / units**2, pairs)
    assert other.lower_bound == pytest.approx(1e6 * made.lower_bound, rel=1e-4)
    assert other.own == pytest.approx(made.own * units, rel=1e-2)


def test_an_agent_without_a_target_has_next_to_no_noise_and_the_bound_knows():
    G, _, pairs = random_case(np.random.default_rng(2))
    kappa = np.array([1.0, 1.0, np.inf, 1.0])
    made = pair_noise(G, kappa, pairs)
    assert made.own[2] ** 2 < 0.01
    finite = pair_noise(G, np.where(np.isfinite(kappa), kappa, 1e7), pairs)
    assert made.lower_bound <= price(G, finite)
    assert price(G, made) <= 1.001 * finite.lower_bound
    alone = pair_noise(G, np.inf, pairs, coalitions=[((0,), 1.0)])
    assert hidden(alone, (0,)).max() == pytest.approx(1.0, rel=1e-11)


def test_progress_is_told_and_falls():
    told = []
    pair_noise(steady_price(GRAPHS["grid"], 0.99), 1.0, GRAPHS["grid"].pairs, progress=lambda a, b: told.append((a, b)))
    prices, bounds = np.array(told).T
    assert len(told) > 3
    assert (np.diff(prices) <= 0).all()
    assert (np.diff(bounds) >= 0).all()
    assert prices[-1] == pytest.approx(1 / 3.575, rel=1e-3)


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        ({"cap": 0.9}, IncompatibleChoice, "1 / kappa"),
        ({"cap": 1.5, "own_floor": 2.0}, IncompatibleChoice, "floor"),
        ({"cap": 1.5, "coalitions": [((0,), 0.5)]}, IncompatibleChoice, "No noise meets both"),
        ({"kappa": 0.0}, ConfigError, "kappa"),
        ({"kappa": np.inf}, ConfigError, "nothing is asked"),
        ({"kappa": [1.0, 1.0]}, ConfigError, "4 agents"),
        ({"own_floor": -1.0}, ConfigError, "own_floor"),
        ({"own_floor": np.inf}, ConfigError, "own_floor"),
        ({"pairs": [[0, 0]]}, ConfigError, "different"),
        ({"pairs": [[0, 4]]}, ConfigError, "different"),
        ({"pairs": [[0.5, 1.0]]}, ConfigError, "two agents"),
        ({"coalitions": [((4,), 1.0)]}, ConfigError, "members"),
        ({"G": -np.eye(4)}, ConfigError, "semi-definite"),
        ({"G": np.triu(np.ones((4, 4)))}, ConfigError, "symmetric"),
        ({"G": np.ones((4, 3))}, ConfigError, "square"),
    ],
)
def test_what_cannot_be_is_refused(asked, error, words):
    given = {"G": np.eye(4) + 1.0, "kappa": 1.0, "pairs": [[0, 1], [2, 3]]} | asked
    with pytest.raises(error, match=words):
        pair_noise(**given)


@pytest.mark.slow
def test_more_colluders_and_larger_networks_have_the_published_gains():
    for name, size, expected in (("geometric", 1, 3.219), ("random", 2, 2.608)):
        topology = GRAPHS[name]
        K = topology.num_agents
        G = steady_price(topology, 0.99)
        made = pair_noise(G, 1.0, topology.pairs, coalitions=singles(K, size))
        assert gain(G, made) == pytest.approx(expected, abs=1e-3)
        assert price(G, made) / made.lower_bound < 1 + 1e-4


@pytest.mark.slow
def test_a_thousand_agents():
    topology = sv.topologies.erdos_renyi(1000, 0.01, seed=0)
    G = steady_price(topology, 0.99)
    made = pair_noise(G, 1.0, topology.pairs)
    assert len(topology.pairs) == 4907
    assert gain(G, made) > 1.465
    assert np.diag(np.linalg.inv(made.covariance)).max() == pytest.approx(1.0, rel=1e-10)
    assert 1.0 <= price(G, made) / made.lower_bound < 1.005
