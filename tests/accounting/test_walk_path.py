"""One given path of a token: the cheapest plan against a solver, rational arithmetic, and what observers really see of quadratic losses."""

import math
from fractions import Fraction
from itertools import pairwise, product
from typing import NamedTuple

import clarabel
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import isotonic_regression

import sottovoce as sv
from sottovoce.accounting.walk.path import BlockCosts, WorstPair, block_costs, path_mu, path_mu_of, worst_pair
from sottovoce.errors import ConfigError

U, V, W = 0, 1, 2  # whose data, who looks, a third agent
UNIT = {"std": 1.0, "sensitivity": 1.0}
SMALL = [sv.topologies.complete(3), sv.topologies.path(3), sv.topologies.ring(4), sv.topologies.star(5)]


def cost(path, *, observers=(V,), **other):
    """mu^2 of U on a path of three agents."""
    return path_mu_of(path, **(UNIT | {"agent": U, "observers": observers, "num_agents": 3} | other)) ** 2


class Case(NamedTuple):
    """A random path with a random account, and what it means written out hop by hop."""

    path: np.ndarray  # [T + 1]
    asked: dict
    agent: int
    observers: list[int]
    changes: np.ndarray  # [T] how far the agent's data may move the token
    sigma: np.ndarray  # [T] in units of the token

    @property
    def mu(self):
        return path_mu_of(self.path, agent=self.agent, observers=self.observers, **self.asked)

    @property
    def looks(self):
        return np.flatnonzero(np.isin(self.path, self.observers))


def random_case(rng, *, path=None, agents=None, capped=True, idle=True):
    """Schedules over one or two orders of magnitude; with `idle`, some hops have a step of 0."""
    K = agents or int(rng.integers(2, 6))
    path = rng.integers(0, K, int(rng.integers(2, 18))) if path is None else path
    T = len(path) - 1
    steps = (
        rng.lognormal(0.0, 0.8, T) * ((rng.random(T) < 0.85) | (not idle)) if rng.random() < 0.6 else np.full(T, 0.7)
    )
    std = rng.lognormal(0.0, 0.8, T) if rng.random() < 0.6 else np.full(T, 1.3)
    cap = int(rng.integers(1, 5)) if capped and rng.random() < 0.5 else None
    noise_in, size = str(rng.choice(["gradients", "messages"])), float(rng.lognormal())
    agent, *others = rng.permutation(K).tolist()
    asked = {"num_agents": K, "std": std, "sensitivity": size, "contributions": cap, "step_size": steps}
    changes, made = np.zeros(T), 0
    for s in range(T):
        if path[s] == agent and (cap is None or made < cap):
            changes[s], made = steps[s] * size, made + 1
    sigma = steps * std if noise_in == "gradients" else std
    observers = others[: int(rng.integers(1, K))] if rng.random() < 0.4 else others[:1]
    return Case(path, asked | {"noise_in": noise_in}, agent, observers, changes, sigma)


# Hand cases.


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param([U, V], 1, id="next to the observer"),
        pytest.param([U, W, W, V], 1 / 3, id="the start is a contribution"),
        pytest.param([W, W, U, V], 1, id="noise before a contribution hides nothing"),
        pytest.param([U, U, V], 2, id="twice in a row, then seen"),
        pytest.param([U, U, W, V], 4 / 3, id="twice in a row, then hidden together"),
        pytest.param([U, W, W, U, V], 1 + 1 / 3, id="two faces"),
        pytest.param([U, W, U, V], 1.5, id="a face of its own for the last"),
        pytest.param([U, U, W, W, U, V], 1 + 4 / 4, id="the first two share the noises between"),
        pytest.param([U, W, U, W, V], 1, id="on one line"),
        pytest.param([V, U, W], 0, id="a block that does not end"),
        pytest.param([U, V, U, U], 1, id="only what ended"),
        pytest.param([W, V, W], 0, id="never held"),
        pytest.param([U, W], 0, id="never seen"),
        pytest.param([V, V, U, V], 1, id="the observer's own noise hides nothing"),
        pytest.param([U, V, V, U, V], 2, id="the observer twice in a row"),
        pytest.param([U, V, V, V], 1, id="what is seen again costs nothing again"),
        pytest.param([U, W, V, U, V], 1 / 2 + 1, id="two blocks"),
    ],
)
def test_by_hand(path, expected):
    assert cost(path) == pytest.approx(expected, rel=1e-14)
    assert cost(path, std=4.0, sensitivity=2.0, step_size=0.3) == pytest.approx(expected / 4, rel=1e-14)
    assert cost(path, std=4.0, sensitivity=2.0, step_size=0.5, noise_in="messages") == pytest.approx(
        expected / 16, rel=1e-14
    )


@pytest.mark.parametrize(
    ("path", "cap", "expected"),
    [
        ([U, W, U, U, V], 1, 1 / 4),
        ([U, W, U, U, V], 2, 4 / 4),
        ([U, W, U, U, V], 3, 2 + 1 / 2),
        ([U, W, U, U, V], None, 2 + 1 / 2),
        ([U, V, U, W, V], 1, 1),
        ([U, V, U, W, U, V], 2, 1 + 1 / 3),
    ],
)
def test_behind_the_cap_only_the_first_contributions_in_time_count_and_all_noises_hide(path, cap, expected):
    assert cost(path, contributions=cap) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("distances", "gaps", "even", "least"),
    [
        ([], 0, 0, 0),
        ([1, 2], 2, 2.5, 2),
        ([2, 3], 1.5, 1.5, 4 / 3),
        ([1, 4], 4 / 3, 1.75, 4 / 3),
        ([1, 2, 4], 2.5, 3.75, 2.5),
        ([5, 6, 7], 2.2, 0.2 + 0.5 + 5 / 7, 9 / 7),
    ],
)
def test_three_plans_by_hand(distances, gaps, even, least):
    assert block_costs(distances) == pytest.approx(BlockCosts(gaps, even, least), rel=1e-14)


@pytest.mark.parametrize("distance", [1, 2, 17])
def test_all_plans_are_equal_where_the_agent_cannot_return_before_the_observer(distance):
    assert block_costs([distance]) == pytest.approx((1 / distance,) * 3, rel=1e-15)
    assert cost([U, *[W] * (distance - 1), V]) == pytest.approx(1 / distance, rel=1e-14)


def test_several_observers_see_the_token_as_soon_as_one_of_them_holds_it():
    assert cost([U, W, V]) == pytest.approx(1 / 2)
    assert cost([U, W, V], observers=(V, W)) == pytest.approx(1)
    path, four = [U, W, U, 3, V], {"num_agents": 4}
    assert cost(path, **four) == pytest.approx(4 / 4)
    assert cost(path, observers=(V, W), **four) == pytest.approx(1 + 1 / 2)
    assert cost(path, observers=(V, W, 3), **four) == pytest.approx(2)


def test_steps_of_zero_move_nothing_and_carry_noise_in_messages_only():
    assert cost([U, W, V], step_size=[1, 0]) == pytest.approx(1)
    assert cost([U, W, V], step_size=[1, 0], noise_in="messages") == pytest.approx(1 / 2)
    assert cost([U, W, V], step_size=[0, 1]) == 0
    assert cost([U, W, V], step_size=0) == 0
    assert cost([U, U, V], step_size=[0, 1], contributions=1) == 0  # the visit counts, as it does in a run


def test_a_contribution_that_no_noise_hides_before_the_look_is_infinite():
    assert cost([U, W, V], std=[0, 1]) == 1
    assert cost([U, W, V], std=[1, 0]) == 1
    assert cost([U, V, W], std=[0, 1]) == math.inf
    assert cost([U, U, V], std=[1, 0]) == math.inf
    assert cost([U, U, W, V], std=[1, 0, 1]) == pytest.approx(2**2 / 2)
    matrix = path_mu([U, V, U, W], num_agents=4, std=0, sensitivity=1)
    assert worst_pair(matrix) == WorstPair(U, V, math.inf)
    assert matrix[U, W] == matrix[V, W] == math.inf  # the third sees both
    assert matrix[U, 3] == matrix[W, V] == matrix[W, U] == 0


# The cheapest plan, by other routes.


def cheapest_plan(changes, sigma, looks):
    """Least sum of x_s^2, x = h / sigma, over all plans of the whole path: the programme as it is defined, solved."""
    reached = np.cumsum(changes)
    seen = np.array([max((reached[t - 1] for t in looks if 0 < t <= s), default=0.0) for s in range(len(changes))])
    last = looks[-1] if len(looks) else 0
    hiding = np.flatnonzero((reached > seen) & (np.arange(len(changes)) < last))  # elsewhere there is nothing to shift
    if len(hiding) == 0:
        return 0.0
    scale, own = reached[hiding[-1]], changes[hiding] > 0
    unit = np.sum((changes[hiding][own] / sigma[hiding][own]) ** 2)  # each contribution hidden by its own noise alone
    hidden = np.tril(np.ones((len(hiding), len(hiding)))) * sigma[hiding] / scale
    hidden, limit = hidden[:, sigma[hiding] > 0], reached[hiding] / scale
    equal, size = np.isin(hiding + 1, looks), hidden.shape[1]
    matrix = sparse.csc_array(np.vstack([hidden[equal], hidden[~equal], -np.eye(size)]))
    bounds = np.concatenate([limit[equal], limit[~equal], np.zeros(size)])
    cones = [clarabel.ZeroConeT(int(equal.sum())), clarabel.NonnegativeConeT(int((~equal).sum()) + size)]
    tuned = clarabel.DefaultSettings()
    tuned.verbose, tuned.max_threads = False, 1
    tuned.tol_gap_abs = tuned.tol_gap_rel = tuned.tol_feas = 1e-11
    hessian = sparse.eye_array(size, format="csc") * (200.0 / unit)  # optima above 1, where gaps are relative
    found = clarabel.DefaultSolver(hessian, np.zeros(size), matrix, bounds, cones, tuned).solve()
    assert found.status == clarabel.SolverStatus.Solved
    return found.obj_val * unit / 100.0


def test_the_account_is_the_optimum_of_the_quadratic_programme():
    rng, positive = np.random.default_rng(0), 0
    for _ in range(1500):
        case = random_case(rng)
        found = cheapest_plan(case.changes, case.sigma, case.looks)
        assert case.mu**2 == pytest.approx(found, rel=1e-10)
        positive += found > 0
    assert positive > 1000


def by_fractions(changes, sigma, looks):
    """mu^2 without rounding: from corner to corner, the steepest way up to what has been contributed since."""
    total = Fraction(0)
    for start, end in pairwise([0, *looks.tolist()]):
        points, width, height = [], Fraction(0), Fraction(0)
        for s in reversed(range(start, end)):
            width += Fraction(float(sigma[s])) ** 2
            height += Fraction(float(changes[s]))
            if changes[s] > 0:
                points.append((width, height))
        at = (Fraction(0), Fraction(0))
        while points:
            slopes = [(d - at[1]) / (v - at[0]) for v, d in points]
            best = max(i for i, slope in enumerate(slopes) if slope == max(slopes))
            total += slopes[best] * (points[best][1] - at[1])
            at, points = points[best], points[best + 1 :]
    return total


def test_rounding_is_harmless_for_noise_over_thirty_orders_of_magnitude():
    rng = np.random.default_rng(1)
    for _ in range(300):
        case = random_case(rng, path=rng.integers(0, 3, 40), agents=3, idle=False)
        std, steps = 10.0 ** rng.uniform(-15, 15, 39), 10.0 ** rng.uniform(-15, 15, 39)
        asked = case.asked | {"std": std, "step_size": steps, "sensitivity": 1.0, "noise_in": "messages"}
        exact = by_fractions(np.where(case.changes > 0, steps, 0.0), std, case.looks)
        assert case._replace(asked=asked).mu ** 2 == pytest.approx(float(exact), rel=1e-13)


def test_on_a_path_with_constant_steps_the_account_adds_up_the_least_costs_of_blocks():
    rng = np.random.default_rng(2)
    path = rng.integers(0, 4, 400)
    looks = np.flatnonzero(path == V)
    blocks = [
        [end - s for s in reversed(range(start, end)) if path[s] == U] for start, end in pairwise([0, *looks.tolist()])
    ]
    least = sum(block_costs(block).least for block in blocks)
    assert max(map(len, blocks)) > 4
    assert cost(path, num_agents=4) == pytest.approx(least, rel=1e-12)
    assert least < 0.95 * min(
        sum(block_costs(block).gaps for block in blocks), sum(block_costs(block).even for block in blocks)
    )


@given(st.lists(st.integers(1, 200), min_size=1, max_size=25, unique=True).map(sorted))
@example([1])
def test_no_plan_is_cheaper_than_the_least_and_none_beats_all_contributions_hidden_by_all_noises(distances):
    found, count = block_costs(distances), len(distances)
    assert found.least <= min(found.gaps, found.even) * (1 + 1e-12)
    assert found.least >= max(j**2 / far for j, far in enumerate(distances, start=1)) * (1 - 1e-12)
    overlaps = sum(1 / max(a, b) for a, b in product(distances, repeat=2))
    assert found.even == pytest.approx(overlaps, rel=1e-12)
    assert found.gaps <= count


# What an observer really sees.


def information(case, factors, sigma):
    """[T, T] Q: signs e of the contributions show themselves with mu^2 = e' Q e to an observer who knows its own noise.

    Losses are quadratic: a step multiplies the token by the factor of its hop.
    """
    T = len(sigma)
    noise, moved, seen = np.zeros(T), np.zeros(T), []
    for s in range(T + 1):
        if case.path[s] in case.observers:
            seen.append((noise, moved))
        if s < T:
            noise, moved = factors[s] * noise, factors[s] * moved
            noise[s] = 0.0 if case.path[s] in case.observers else sigma[s]
            moved[s] = case.changes[s]
    if not seen:
        return np.zeros((T, T))
    noises, means = (np.array(rows) for rows in zip(*seen, strict=True))
    shifts = np.linalg.lstsq(noises, means, rcond=1e-12)[0]  # of the unit noises, the least that explain the means
    np.testing.assert_allclose(noises @ shifts, means, atol=1e-9 * np.abs(means).max())
    return shifts.T @ shifts


def largest(Q, changes):
    """mu for the worst signs of the contributions."""
    where = np.flatnonzero(changes)
    signs = np.array(list(product([1.0, -1.0], repeat=max(0, len(where) - 1))))
    signs = np.hstack([np.ones((len(signs), min(1, len(where)))), signs])
    Q = Q[np.ix_(where, where)]
    return math.sqrt(np.einsum("ni,ij,nj->n", signs, Q, signs).max())


def quadratic_factors(rng, case):
    """A curvature for each agent, up to 2 / step; agents at their cap take no step."""
    steps, cap = case.asked["step_size"], case.asked["contributions"] or len(case.path)
    curvature = rng.uniform(0.0, 2.0 / steps.max(), case.asked["num_agents"])
    before = [list(case.path[:s]).count(case.path[s]) for s in range(len(steps))]
    return np.where(np.array(before) < cap, 1.0 - steps * curvature[case.path[:-1]], 1.0)


@pytest.mark.parametrize("topology", SMALL, ids=str)
def test_no_quadratic_losses_show_more_than_stated_and_half_the_noise_is_caught(topology):
    rng, caught = np.random.default_rng(3), 0
    for path in sv.topologies.walk_paths(topology.with_walk(), 10, seed=4, repeats=150):
        case = random_case(rng, path=path[: rng.integers(2, 12)], agents=topology.num_agents, idle=False)
        for _ in range(3):
            factors = quadratic_factors(rng, case)
            shown = largest(information(case, factors, case.sigma), case.changes)
            assert shown <= case.mu * (1 + 1e-9)
            caught += largest(information(case, factors, case.sigma / 2), case.changes) > case.mu * (1 + 1e-9)
    assert caught > 50


def test_steps_that_do_not_react_show_nearly_all_that_is_stated_on_many_paths():
    rng, near, seen = np.random.default_rng(5), 0, 0
    for path in sv.topologies.walk_paths(sv.topologies.ring(4).with_walk(), 10, seed=6, repeats=300):
        case = random_case(rng, path=path, agents=4)
        Q, stated = information(case, np.ones(10), case.sigma), case.mu
        same_signs = math.sqrt(Q.sum())
        assert same_signs <= stated * (1 + 1e-9)
        seen += stated > 0
        near += same_signs > 0.9 * stated > 0
    assert near > 0.3 * seen > 30


def worst_factors(case):
    """The contractions of every hop that show most: what is left over of hop s at the look rises with s as the best fit does."""
    factors = np.zeros(len(case.sigma))
    for start, end in pairwise([0, *case.looks.tolist()]):
        if end > start:
            weights = case.sigma[start:end] ** 2
            left = isotonic_regression(case.changes[start:end] / weights, weights=weights).x
            factors[start + 1 : end] = np.divide(left[:-1], left[1:], out=np.zeros(end - start - 1), where=left[1:] > 0)
    return factors


def test_contractions_that_change_from_hop_to_hop_show_exactly_what_is_stated():
    rng, seen = np.random.default_rng(7), 0
    for _ in range(600):
        case = random_case(rng, capped=False, idle=False)
        factors = worst_factors(case)
        assert ((factors >= 0) & (factors <= 1)).all()
        shown = math.sqrt(information(case, factors, case.sigma).sum())
        assert shown == pytest.approx(case.mu, rel=1e-9)
        seen += shown > 0
    assert seen > 300


# Every pair at once, and what changes with the arguments.


@pytest.mark.parametrize("schedule", ["constant", "changing"])
def test_the_matrix_is_every_pair_one_by_one(schedule):
    rng = np.random.default_rng(8)
    path, K = rng.integers(0, 6, 120), 7
    asked = {"num_agents": K, "std": 0.8, "sensitivity": 1.7, "contributions": 9, "step_size": 0.4}
    if schedule == "changing":
        asked |= {"std": rng.lognormal(size=119), "step_size": rng.lognormal(size=119) * (rng.random(119) < 0.8)}
    matrix = path_mu(path, **asked)
    single = [
        [math.nan if u == v else path_mu_of(path, agent=u, observers=[v], **asked) for v in range(K)] for u in range(K)
    ]
    np.testing.assert_array_equal(matrix, single)
    assert (matrix[6, :6] == 0).all()  # the token never comes to agent 6
    assert (matrix[:6, 6] == 0).all()
    worst = worst_pair(matrix)
    assert worst.mu == matrix[worst.agent, worst.observer] == np.nanmax(matrix) > 0


def test_a_schedule_of_constants_is_a_constant():
    path = np.random.default_rng(9).integers(0, 5, 60)
    for noise_in in ("gradients", "messages"):
        asked = {"num_agents": 5, "sensitivity": 1.1, "contributions": 6, "noise_in": noise_in}
        constant = path_mu(path, std=0.9, step_size=0.3, **asked)
        np.testing.assert_array_equal(constant, path_mu(path, std=np.full(59, 0.9), step_size=[0.3] * 59, **asked))
        times = 1.0 if noise_in == "gradients" else 0.3
        np.testing.assert_allclose(
            constant, path_mu(path, std=0.9, **(asked | {"sensitivity": 1.1 * times})), rtol=1e-12
        )


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=200)
def test_more_noise_a_smaller_cap_and_fewer_observers_never_show_more(seed):
    rng = np.random.default_rng(seed)
    case = random_case(rng, agents=4)
    most = case.mu * (1 + 1e-12)
    more = case.asked["std"] * np.where(rng.random(len(case.sigma)) < 0.3, rng.uniform(1, 5), 1.0)
    assert case._replace(asked=case.asked | {"std": more}).mu <= most
    caps = [case._replace(asked=case.asked | {"contributions": cap}).mu for cap in (1, 2, 3, None)]
    assert all(less <= larger * (1 + 1e-12) for less, larger in pairwise(caps))
    assert max(case._replace(observers=[v]).mu for v in case.observers) <= most
    together = [v for v in range(4) if v != case.agent]
    assert case.mu <= case._replace(observers=together).mu * (1 + 1e-12)
    assert case._replace(asked=case.asked | {"std": case.asked["std"] * 2}).mu == pytest.approx(case.mu / 2, rel=1e-12)


def test_on_the_hypercube_the_mean_over_paths_has_the_reference_numbers():
    """E mu^2 of 32 agents, 110 hops and cap 3: 0.62 at distance 1 and 0.14 at distance 5, each to 5 % (another Monte Carlo)."""
    topology = sv.topologies.hypercube(5).with_walk()
    distance = np.bitwise_count(np.arange(32)[:, None] ^ np.arange(32))
    paths = sv.topologies.walk_paths(topology, 110, seed=10, repeats=300)
    mean = np.mean([path_mu(path, num_agents=32, contributions=3, **UNIT) ** 2 for path in paths], axis=0)
    for apart, expected in ((1, 0.62), (5, 0.14)):
        assert mean[distance == apart].mean() == pytest.approx(expected, rel=0.05)


# Refusals.


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"path": [0]}, "one row of walk_paths"),
        ({"path": [[0, 1, 2]]}, r"shape \(1, 3\)"),
        ({"path": [0.0, 1.0]}, "float64"),
        ({"path": [True, False]}, "bool"),
        ({"path": [[0], [1, 2]]}, "one row of walk_paths"),
        ({"path": [0, 3, 1]}, "agent 3; the agents are 0 to 2"),
        ({"path": [0, -1, 1]}, "agent -1"),
        ({"num_agents": 1}, "num_agents"),
        ({"std": -1.0}, "std has the value -1.0"),
        ({"std": [1.0, math.nan]}, "std has the value nan"),
        ({"std": math.inf}, "std has the value inf"),
        ({"std": [1.0, 1.0, 1.0]}, "each of the 2 hops"),
        ({"std": None}, "std has shape"),
        ({"std": 1e-80}, "Measure models in other units"),
        ({"step_size": [1.0, -0.1]}, "step_size has the value -0.1"),
        ({"step_size": "1"}, "step_size has shape"),
        ({"step_size": True}, "step_size has shape"),
        ({"std": 1e-40, "step_size": 1e-40}, "a step times the std"),
        ({"sensitivity": 0.0}, "sensitivity"),
        ({"sensitivity": math.nan}, "sensitivity"),
        ({"sensitivity": 1e-80}, "Measure models in other units"),
        ({"contributions": 0}, "contributions"),
        ({"contributions": 1.5}, "contributions"),
        ({"noise_in": "model"}, "noise_in"),
    ],
)  # fmt: skip
def test_what_is_no_path_and_no_number_in_its_range_is_refused(changed, words):
    asked = {"path": [0, 2, 1], "num_agents": 3, **UNIT} | changed
    with pytest.raises(ConfigError, match=words):
        path_mu(asked.pop("path"), **asked)
    asked = {"path": [0, 2, 1], "num_agents": 3, **UNIT} | changed
    with pytest.raises(ConfigError, match=words):
        path_mu_of(asked.pop("path"), agent=0, observers=[1], **asked)


@pytest.mark.parametrize(
    ("agent", "observers", "words"),
    [(0, [1, 0], "knows its own data"), (0, [], "different numbers"), (0, [1, 1], "different numbers"), (0, [3], "agents"),
     (0, [True], "agent"), (3, [1], "agent"), (-1, [1], "agent"), (0.0, [1], "agent")],
)  # fmt: skip
def test_observers_are_other_agents_and_different_ones(agent, observers, words):
    with pytest.raises(ConfigError, match=words):
        path_mu_of([0, 2, 1], agent=agent, observers=observers, num_agents=3, **UNIT)


@pytest.mark.parametrize("distances", [[2, 2], [3, 1], [0, 1], [1.0, 2.0], [True]])
def test_distances_are_whole_and_grow(distances):
    with pytest.raises(ConfigError, match="distance"):
        block_costs(distances)


@pytest.mark.parametrize(
    "matrix", [[1.0], [[0.0]], np.zeros((2, 3)), [[0, math.nan], [0, 0]], [[0, -1], [0, 0]], [["a", "b"]] * 2]
)
def test_the_worst_pair_is_one_of_a_matrix_of_pairs(matrix):
    with pytest.raises(ConfigError, match="path_mu"):
        worst_pair(matrix)
