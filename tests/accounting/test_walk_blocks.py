"""Contributions to a token that are hidden together: laws of costs against all ways of small walks, reference numbers, and what must never happen."""

import itertools
import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import sottovoce as sv
from sottovoce.accounting import gaussian, walk
from sottovoce.accounting.walk import even_spread, faces, plans, whole_walk
from sottovoce.accounting.walk.faces import Grid
from sottovoce.accounting.walk.passages import passages_to

DELTA = 1e-5
LAZY = np.array([[0.5, 0.3, 0.2, 0.0], [0.3, 0.1, 0.2, 0.4], [0.2, 0.2, 0.35, 0.25], [0.0, 0.4, 0.25, 0.35]])
SMALL = {
    "complete(3)": (sv.topologies.complete(3).matrix, 7),
    "ring(4)": (sv.topologies.ring(4).matrix, 7),
    "path(5)": (sv.topologies.path(5).matrix, 6),
    "lazy": (LAZY, 6),
}


def ways(W, rounds):
    """(way, probability) of every way of the token that can be, from a uniform start."""
    K = len(W)

    def further(way, probability):
        if len(way) == rounds + 1:
            yield way, probability
            return
        for k in np.flatnonzero(W[way[-1]]):
            yield from further((*way, int(k)), probability * W[way[-1], k])

    for start in range(K):
        yield from further((start,), 1.0 / K)


def blocks_of(way, agent, observers, contributions):
    """The distances H_1 < ... < H_k of every block that ends, one tuple for each."""
    made, now, found = 0, [], []
    for hop, holder in enumerate(way):
        if holder in observers:
            if now:
                found.append(tuple(hop - at for at in reversed(now)))
            now = []
        if holder == agent and made < contributions and hop < len(way) - 1:
            made += 1
            now.append(hop)
    return found


def costs_over_ways(W, rounds, agent, observers, contributions, plan):
    """{cost: probability} with the costs of blocks as `plan` has them."""
    found = {}
    for way, probability in ways(W, rounds):
        cost = sum(plan(block) for block in blocks_of(way, agent, observers, contributions))
        found[cost] = found.get(cost, 0.0) + probability
    return found


def least(block):
    return walk.block_costs(block).least


def grid_for(rounds, spacing, points):
    return Grid(spacing=spacing, points=points, cells=rounds + 1, hops=1)


def passages_of(W, agent, observers, rounds):
    return walk.graph_passages(W, agent=agent, observers=observers, rounds=rounds)


# The laws of times


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("observers", [(1,), (1, 2)])
def test_laws_of_times_are_those_of_all_ways(name, observers):
    W, rounds = SMALL[name]
    found = passages_of(W, 0, observers, rounds)
    loops, exits, last, arrivals = (np.zeros(rounds + 1) for _ in range(4))
    back = {member: np.zeros(rounds + 1) for member in observers}
    for way, probability in ways(W, rounds):
        given_start = probability * len(W)
        first = next((t for t, k in enumerate(way) if k == 0), None)
        if first is not None:
            arrivals[first] += probability
        if way[0] == 0:
            event = next((t for t, k in enumerate(way) if t and (k == 0 or k in observers)), None)
            if event is not None:
                (loops if way[event] == 0 else exits)[event] += given_start
            seen = next((t for t, k in enumerate(way) if k in observers), None)
            if seen is not None:
                last[seen] += given_start
        elif way[0] in observers and first is not None:
            back[way[0]][first] += given_start
    soonest = np.max([np.cumsum(law) for law in back.values()], axis=0)
    for computed, expected in (
        (found.loops, loops),
        (found.exits, exits),
        (found.last_exits, last),
        (found.arrivals, arrivals),
        (np.cumsum(found.returns), soonest),
    ):
        assert np.allclose(computed, expected, rtol=1e-12, atol=1e-14)


def test_the_complete_graph_has_the_laws_of_its_matrix_and_all_agents_at_once_those_of_each():
    topology = sv.topologies.complete(6)
    for observers in ((2,), (2, 3, 5)):
        closed = walk.complete_passages(6, rounds=40, observers=len(observers))
        listed = passages_of(topology.matrix, 0, observers, 40)
        for name in ("loops", "exits", "last_exits", "arrivals", "returns"):
            assert np.allclose(getattr(closed, name), getattr(listed, name), rtol=1e-10, atol=1e-16), name
    for u, one in passages_to(LAZY, 2, rounds=25):
        alone = passages_of(LAZY, u, (2,), 25)
        for name in ("loops", "exits", "last_exits", "arrivals", "returns"):
            assert np.allclose(getattr(one, name), getattr(alone, name), rtol=1e-11, atol=1e-16), name


@pytest.mark.parametrize("name", SMALL)
def test_likely_visits_have_the_law_of_all_ways(name):
    W, rounds = SMALL[name]
    counted = {}
    for way, probability in ways(W, rounds):
        visits = way[:-1].count(0)
        counted[visits] = counted.get(visits, 0.0) + probability
    for allowed in (0.3, 0.05, 1e-3):
        most, failure = walk.likely_visits(passages_of(W, 0, (1,), rounds), failure_probability=allowed)
        more = sum(probability for visits, probability in counted.items() if visits > most)
        one_less = sum(probability for visits, probability in counted.items() if visits > most - 1)
        assert failure == pytest.approx(more, rel=1e-9, abs=1e-14)
        assert more <= allowed
        assert one_less > allowed or most == 1


def test_a_search_for_visits_can_be_ended():
    passages = passages_of(sv.topologies.ring(6).matrix, 0, (3,), 60)
    whole, failure = walk.likely_visits(passages, failure_probability=1e-9)
    most, left = walk.likely_visits(passages, failure_probability=1e-9, most=5)
    assert failure <= 1e-9 < left
    assert most == 5 < whole


# The even plan: exact but for the grid


@pytest.mark.parametrize("contributions", [1, 2, 4])
@pytest.mark.parametrize("observers", [(1,), (3,)])
@pytest.mark.parametrize("name", ["ring(4)", "path(5)", "lazy"])
def test_the_even_plan_has_the_law_of_all_ways_with_every_cost_rounded_up(name, observers, contributions):
    W, rounds = SMALL[name]
    passages = passages_of(W, 0, observers, rounds)
    grid = grid_for(rounds, 0.05, 400)
    found = whole_walk.costs_of_walk(even_spread.even_spectra(passages, contributions, grid), passages, grid)

    def rounded(block):
        return sum(math.ceil((2 * j + 1) / H / grid.spacing * (1 + 1e-14)) for j, H in enumerate(block))

    expected = np.zeros(grid.points)
    for cost, probability in costs_over_ways(W, rounds, 0, observers, contributions, rounded).items():
        expected[int(cost)] += probability
    assert np.abs(found - expected).max() < 1e-12


@pytest.mark.parametrize("plan", ["even", "least"])
@pytest.mark.parametrize("contributions", [1, 3, 7])
@pytest.mark.parametrize("name", SMALL)
def test_stated_laws_are_never_below_all_ways_and_close_to_them(name, contributions, plan):
    W, rounds = SMALL[name]
    law = walk.cost_law(passages_of(W, 0, (1,), rounds), contributions, plan=plan)
    costs = least if plan == "least" else lambda block: walk.block_costs(block).even
    exact = costs_over_ways(W, rounds, 0, (1,), contributions, costs)
    for cost in (one for one in exact if one):
        above = sum(probability for one, probability in exact.items() if one >= cost * (1 - 1e-12))
        assert law.above(cost * (1 - 1e-9) - 1e-9) >= above - 1e-12
    mean = sum(cost * probability for cost, probability in exact.items())
    assert mean <= law.mean <= 1.04 * mean + 0.01
    for epsilon in (0.0, 1.0, 3.0):
        truth = sum(p * gaussian.delta(math.sqrt(cost) / 1.3, epsilon) for cost, p in exact.items() if cost)
        assert truth <= law.delta(1.3, epsilon) <= 1.06 * truth + 1e-9


# The least plan: the faces of a random hull


def majorant(block):
    """(contributions, hops) of every face of the least concave majorant, the steepest first."""
    corners = [(0, 0)]
    for i, H in enumerate(block, start=1):
        while len(corners) > 1 and (i - corners[-1][1]) * (corners[-1][0] - corners[-2][0]) >= (
            corners[-1][1] - corners[-2][1]
        ) * (H - corners[-1][0]):
            corners.pop()
        corners.append((H, i))
    return [(b[1] - a[1], b[0] - a[0]) for a, b in itertools.pairwise(corners)]


def pooled_cost(block, levels):
    """What the module says: faces steeper than the level below the steepest one together, by the chord; the others as they are."""
    split = majorant(block)
    steepest = split[0][0] / split[0][1]
    m = max(i for i, b in enumerate(levels) if steepest <= b)
    a, b = (levels[m + 1] if m + 1 < len(levels) else 0.0), levels[m]
    steep = [(n, s) for n, s in split if n / s > a]
    cost = (a + b) * sum(n for n, _ in steep) - a * b * sum(s for _, s in steep)
    return cost + sum(n * n / s for n, s in split if n / s <= a)


@pytest.mark.parametrize("levels", [[1.0, 0.613, 0.377, 0.171], [1.0, 0.4], [1.0]])
def test_blocks_have_the_law_of_their_faces(levels):
    """All sequences of up to five loops and an exit; the grid is so fine that rounding does not show."""
    loops, exits = np.zeros(61), np.zeros(61)
    loops[1:5], exits[1:8] = [0.2, 0.1, 0.25, 0.05], [0.05, 0.1, 0.05, 0.0, 0.1, 0.02, 0.08]
    passages = walk.Passages(loops=loops, exits=exits, last_exits=exits, arrivals=loops, returns=loops)
    spacing, points = 1e-3, 16_384
    grid = Grid(spacing=spacing, points=points, cells=1, hops=61)
    found = np.fft.irfft(faces.block_spectra(passages, 6, np.array(levels), grid)[0][:, 0], points)
    for k in range(1, 7):
        exact = {}
        for gaps in itertools.product(range(1, 5), repeat=k - 1):
            weight = math.prod(loops[gap] for gap in gaps)
            for first in np.flatnonzero(exits):
                block = tuple(np.cumsum([first, *gaps]).tolist())
                cost = pooled_cost(block, levels)
                exact[cost] = exact.get(cost, 0.0) + weight * exits[first]
        mass = sum(exact.values())
        assert found[k - 1].sum() == pytest.approx(mass, rel=1e-12)
        mean = sum(cost * p for cost, p in exact.items()) / mass
        computed = found[k - 1] @ np.arange(points) * spacing / mass
        assert mean - 1e-12 <= computed <= mean + 2 * k * spacing
        for cost in list(exact)[::7]:
            reached = sum(p for one, p in exact.items() if one >= cost)
            at = math.floor((cost - 1e-9) / spacing)
            assert found[k - 1][at:].sum() >= reached - 1e-13
            assert found[k - 1][at + 4 * k :].sum() <= reached + 1e-13


def test_the_price_of_a_chord_is_bounded_and_never_negative():
    """(a + b) l - a b s against l^2 / s, at every slope between the two rates."""
    for ratio in (1.12, 1.25, 1.8):
        levels = faces.rates(ratio, 0.01)
        assert levels[0] == 1.0
        assert levels[-1] == pytest.approx(0.01)
        assert (levels[:-1] / levels[1:] <= ratio * (1 + 1e-12)).all()
        for b, a in itertools.pairwise(levels):
            slopes = np.linspace(a, b, 50)
            excess = ((a + b) - a * b / slopes) / slopes - 1.0
            assert excess.min() >= -1e-12
            assert excess.max() <= (ratio - 1) ** 2 / (4 * ratio) * (1 + 1e-9)


def test_transforms_lose_less_than_what_is_allowed_for_them():
    """The same recursion of the even plan with direct sums of numbers that are not negative."""
    W, rounds, contributions = sv.topologies.ring(6).matrix, 40, 5
    passages = passages_of(W, 0, (3,), rounds)
    grid = grid_for(rounds, 0.05, 256)
    spectra, _ = even_spread.even_spectra(passages, contributions, grid)
    now = np.zeros((rounds + 1, grid.points))
    now[:, 0] = passages.exits
    for j in range(contributions):
        moved = np.zeros_like(now)
        for t in range(1, rounds + 1):
            moved[t] = np.roll(now[t], math.ceil((2 * j + 1) / t / grid.spacing * (1 + 1e-14)))
        computed = np.fft.irfft(spectra[j], grid.points)
        assert np.abs(computed - moved).sum() < 0.1 * plans._allowance(rounds, contributions, contributions)
        now = np.stack([sum(passages.loops[s] * moved[t - s] for s in range(1, t + 1)) + np.zeros(grid.points)
                        for t in range(rounds + 1)])  # fmt: skip


# Reference numbers: Metropolis weights, uniform start, noise as large as a contribution, delta 1e-5

RING = (sv.topologies.ring(30), 1500, 50)
CUBE = (sv.topologies.hypercube(5), 110, 3)
REGULAR = (sv.topologies.from_networkx(nx.random_regular_graph(3, 24, seed=0)), 320, 13)


def stated(case, u, v, resolution="fine"):
    topology, rounds, contributions = case
    return walk.blocks_tradeoff(
        topology, agent=u, observers=[v], rounds=rounds, contributions=contributions, std=1.0, sensitivity=1.0,
        resolution=resolution,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("case", "pair", "asked", "today"),
    [
        (RING, (0, 15), 18.5, 38.02),
        (RING, (0, 1), 46.5, 48.38),
        (CUBE, (0, 31), 3.5, 7.04),
        (CUBE, (0, 1), 6.9, 7.77),
        (REGULAR, (0, 12), 10.3, 15.40),
        (REGULAR, (0, 13), 17.2, 18.39),
    ],
)
def test_distance_hides_what_it_should(case, pair, asked, today):
    found = stated(case, *pair)
    assert found.gaps.epsilon(DELTA) == pytest.approx(today, rel=2e-3)
    assert found.epsilon(DELTA) <= asked


def simulated_costs(case, u, v, *, count, seed):
    """[count] least and even costs of ways drawn by the library's own walk."""
    topology, rounds, contributions = case
    drawn = sv.topologies.walk_paths(topology.with_walk(), rounds, seed=seed, repeats=count)
    costs = [[walk.block_costs(block) for block in blocks_of(way.tolist(), u, {v}, contributions)] for way in drawn]
    return {plan: np.array([sum(getattr(one, plan) for one in row) for row in costs]) for plan in ("least", "even")}


def test_the_laws_are_above_ways_that_were_drawn_and_near_them_where_hops_are_counted_one_by_one():
    topology = sv.topologies.hypercube(3)
    case = (topology, 11, 3)
    drawn = simulated_costs(case, 0, 7, count=4000, seed=3)
    passages = passages_of(topology.matrix, 0, (7,), 11)
    for plan, costs in drawn.items():
        law = walk.cost_law(passages, 3, plan=plan, resolution="finest")
        error = costs.std() / math.sqrt(len(costs))
        assert costs.mean() - 4 * error <= law.mean <= costs.mean() + 4 * error + 0.01
        for cost in (0.05, 0.15, 0.3, 0.6):
            seen = int((costs > cost).sum())
            low, high = stats.binomtest(seen, len(costs)).proportion_ci(0.9999)
            assert law.above(cost - 0.02) >= low
            assert law.above(cost + 0.02) <= high
    # Power: a law with one contribution less, or with the even costs for the least, is noticed.
    error = drawn["least"].std() / math.sqrt(4000)
    assert walk.cost_law(passages, 2).mean < drawn["least"].mean() - 4 * error


@pytest.mark.slow
@pytest.mark.parametrize(("case", "pair"), [(RING, (0, 15)), (RING, (0, 1)), (REGULAR, (0, 12)), (CUBE, (0, 31))])
def test_epsilon_agrees_with_ways_that_were_drawn(case, pair):
    """The average over 6,000 ways has a heavy tail: its own error is judged by halves of the sample."""
    costs = simulated_costs(case, *pair, count=6000, seed=1)["least"]
    law = walk.least_law_of(stated(case, *pair, resolution="finest"))
    error = costs.std() / math.sqrt(len(costs))
    assert costs.mean() - 4 * error <= law.mean <= 1.2 * (costs.mean() + 4 * error)
    held = np.sort(costs)
    for share in (0.5, 0.9, 0.99):
        low = held[int(share * len(held)) - round(4 * math.sqrt(share * (1 - share) * len(held)))]
        assert law.above(low) >= 1 - share - 1e-9
    epsilon = law.epsilon(1.0, DELTA, most=1000.0)
    drawn = np.mean([gaussian.delta(math.sqrt(cost), epsilon) for cost in costs if cost > 0])
    assert drawn <= 3 * DELTA


# What must never happen

TODAY = st.fixed_dictionaries(
    {
        "graph": st.sampled_from(["ring(4)", "path(5)", "lazy", "complete(3)"]),
        "rounds": st.integers(2, 40),
        "contributions": st.integers(1, 8),
        "std": st.floats(0.3, 20.0),
        "delta": st.floats(1e-9, 0.3),
    }
)


def epsilon_of(case, *, observers=(1,), resolution="fine", **change):
    case = {**case, **change}
    return walk.blocks_epsilon(
        SMALL[case["graph"]][0], agent=0, observers=observers, rounds=case["rounds"], contributions=case["contributions"],
        std=case["std"], sensitivity=1.0, delta=case["delta"], resolution=resolution,
    )  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(case=TODAY)
def test_never_above_what_gaps_say(case):
    gaps = walk.proven_graph_epsilon(
        SMALL[case["graph"]][0], agent=0, observers=[1], rounds=case["rounds"], contributions=case["contributions"], std=case["std"],
        sensitivity=1.0, delta=case["delta"],
    )  # fmt: skip
    local = gaussian.epsilon(math.sqrt(case["contributions"]) / case["std"], case["delta"])
    for resolution in ("fast", "fine"):
        assert epsilon_of(case, resolution=resolution) <= min(gaps, local) * (1 + 1e-12)


@settings(max_examples=25, deadline=None)
@given(case=TODAY)
def test_more_noise_fewer_contributions_and_fewer_observers_never_say_more(case):
    found = epsilon_of(case)
    slack = 1.02  # grids of different laws round differently
    assert epsilon_of(case, std=1.1 * case["std"]) <= found * (1 + 1e-9)
    assert epsilon_of(case, delta=1.5 * case["delta"]) <= found * (1 + 1e-9)
    if case["contributions"] > 1:
        assert epsilon_of(case, contributions=case["contributions"] - 1) <= slack * found + 1e-6
    assert found <= slack * epsilon_of(case, observers=(1, 2)) + 1e-6


def test_plans_cost_the_same_where_the_agent_cannot_return_before_the_observer():
    """On a path of two agents that always changes hands, each block has one contribution and one noise."""
    loops, exits = np.zeros(21), np.zeros(21)
    exits[1] = 1.0
    passages = walk.Passages(loops=loops, exits=exits, last_exits=exits, arrivals=np.eye(21)[0], returns=np.eye(21)[1])
    for plan in ("even", "least"):
        law = walk.cost_law(passages, 4, plan=plan)
        assert law.delta(2.0, 1.0) == pytest.approx(gaussian.delta(1.0, 1.0), rel=0.01)
    gaps = walk.gap_cost_law(walk.GapLaw(lengths=np.ones(1), probabilities=np.ones(1)), 4)
    assert gaps.delta(2.0, 1.0) == pytest.approx(gaussian.delta(1.0, 1.0), rel=1e-3)


def test_a_cap_in_the_middle_of_a_block_and_the_end_of_the_run_are_counted():
    W, rounds = SMALL["path(5)"]
    free, capped = (walk.cost_law(passages_of(W, 0, (4,), rounds), N) for N in (6, 2))
    assert capped.mean < 0.98 * free.mean
    shorter = walk.cost_law(passages_of(W, 0, (4,), rounds - 1), 6)
    assert shorter.mean < 0.9 * free.mean
    # Within four hops the far end is not reached and back: one contribution or more, seen once at the most.
    assert walk.cost_law(passages_of(W, 0, (4,), 3), 6).mean < 1e-15


def test_gaps_compose_like_independent_gaussians():
    gaps = walk.GapLaw(lengths=np.array([1.0, 3.0, 10.0]), probabilities=np.array([0.2, 0.5, 0.2]))
    law = walk.gap_cost_law(gaps, 3)
    choices = [(1.0, 0.2), (1 / 3, 0.5), (0.1, 0.2), (0.0, 0.1)]
    for epsilon in (0.0, 0.7, 3.0):
        exact = sum(
            math.prod(p for _, p in picked)
            * (gaussian.delta(math.sqrt(total) / 1.4, epsilon) if (total := sum(c for c, _ in picked)) else 0.0)
            for picked in itertools.product(choices, repeat=3)
        )
        assert exact <= law.delta(1.4, epsilon) <= exact * 1.002


@pytest.mark.parametrize("contributions", [2**14 + 3, 140_000, 204_500, 2**20, 2**20 + 1])
def test_very_many_gaps_never_go_round_to_small_costs(contributions):
    gaps = walk.complete_gaps(20, rounds=contributions)
    law = walk.gap_cost_law(gaps, contributions)
    assert law.mean >= contributions * gaps.mean_inverse
    typical = contributions * gaps.mean_inverse - 6 * math.sqrt(contributions)
    assert law.above(typical) > 0.999


def test_several_tokens_add_up_their_costs():
    one = walk.cost_law(passages_of(LAZY, 0, (3,), 30), 4)
    both = one.repeated(2)
    assert both.mean == pytest.approx(2 * one.mean, rel=1e-9)
    direct = np.convolve(one.masses, one.masses)
    assert np.abs(direct[: len(both.masses)] - both.masses[: len(direct)]).max() < 1e-14
    many = one.repeated(200)
    assert 200 * one.mean * (1 - 1e-9) <= many.mean <= 200 * (one.mean + 2 * one.spacing)
    asked = {
        "agent": 0,
        "observers": [3],
        "rounds": 30,
        "contributions": 4,
        "std": 2.0,
        "sensitivity": 1.0,
        "delta": 1e-6,
    }
    assert walk.blocks_epsilon(LAZY, **asked) < walk.blocks_epsilon(LAZY, tokens=2, **asked)


def test_without_a_cap_the_number_of_visits_is_what_counts():
    topology = sv.topologies.ring(8)
    asked = {"agent": 0, "observers": [4], "rounds": 200, "std": 2.0, "sensitivity": 1.0, "delta": 1e-6}
    free = walk.blocks_tradeoff(topology, contributions=None, **{k: v for k, v in asked.items() if k != "delta"})
    assert walk.least_law_of(free) is not None
    capped = walk.blocks_epsilon(topology, contributions=25, **asked)
    assert capped <= free.epsilon(1e-6) < 0.6 * free.gaps.epsilon(1e-6)


def test_epsilon_and_delta_are_inverse_and_small_deltas_fall_back():
    found = stated(CUBE, 0, 31)
    for delta in (1e-8, 1e-5, 1e-2):
        epsilon = found.epsilon(delta)
        assert found.delta(epsilon) <= delta
        assert found.delta(epsilon * (1 - 1e-6)) > delta * (1 - 1e-9)
    assert found.epsilon(1e-30) == found.gaps.epsilon(1e-30)  # below the allowance only the moments speak
    assert math.isinf(found.epsilon(0.0))
    law = walk.least_law_of(found)
    assert law.allowance < 2e-10


def test_where_nothing_is_ever_seen_epsilon_is_zero():
    far = sv.topologies.path(9)
    assert walk.blocks_epsilon(
        far, agent=0, observers=[8], rounds=7, contributions=3, std=0.1, sensitivity=1.0, delta=1e-6
    ) == pytest.approx(0.0, abs=0)


def test_a_matrix_of_pairs_has_the_epsilon_of_every_pair():
    topology, asked = (
        sv.topologies.grid(2, 3),
        {"rounds": 40, "contributions": 3, "std": 2.0, "delta": 1e-6, "resolution": "fast"},
    )
    told = []
    table = walk.pairwise_epsilon(topology, sensitivity=1.5, progress=lambda *at: told.append(at), **asked)
    assert told == [(done, 6) for done in range(1, 7)]
    assert np.isnan(np.diag(table)).all()
    for u, v in ((0, 1), (5, 0), (2, 3)):
        alone = walk.blocks_epsilon(topology, agent=u, observers=[v], sensitivity=1.5, **asked)
        assert table[u, v] == pytest.approx(alone, rel=1e-9)
    assert table[0, 5] < table[0, 1]


@pytest.mark.slow
def test_processes_find_the_same_matrix():
    asked = {"rounds": 30, "contributions": 3, "std": 2.0, "sensitivity": 1.0, "delta": 1e-6}
    alone, together = (walk.pairwise_epsilon(sv.topologies.ring(5), workers=number, **asked) for number in (1, 2))
    assert np.array_equal(alone, together, equal_nan=True)


@pytest.mark.parametrize(
    "change",
    [
        {"agent": 1},
        {"std": 0.0},
        {"delta": 0.0},
        {"rounds": 0},
        {"contributions": 0},
        {"tokens": 0},
        {"resolution": "x"},
    ],
)
def test_what_makes_no_sense_is_refused(change):
    asked = {
        "agent": 0,
        "observers": [1],
        "rounds": 9,
        "contributions": 2,
        "std": 1.0,
        "sensitivity": 1.0,
        "delta": 1e-6,
    }
    with pytest.raises(sv.ConfigError):
        walk.blocks_epsilon(LAZY, **{**asked, **change})
