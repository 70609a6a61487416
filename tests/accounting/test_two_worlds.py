"""The simulator and the accountant see the same: no record of two worlds gives away more than is stated, whatever a user plays.

Beside that, the test itself is tested: where a guarantee is called exact the records attain it, most questions are answered, and a guarantee of
something else than what is played is refuted. How records are read is said in two_worlds.py.
"""

import collections
import itertools
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import sottovoce as sv
from accounting import user_algorithms as own
from accounting.random_plays import FAMILIES, HUB, LISTED, RING, UNEVEN, examples, observers, plays
from accounting.two_worlds import Data, Parts, Stage, all_signs, half_changes, judge

TRIANGLE = sv.topologies.ring(3)
GAUSSIAN, LAPLACE = sv.noise.Gaussian(std=0.7), sv.noise.Laplace(std=0.7)
EVERYTHING = sv.observers.eavesdropper()
HIDDEN = sv.observers.coalition([1, 2])


def checked(number):
    # Examples are as small as they get, and to make one smaller means to compile many.
    return settings(
        max_examples=number, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate], report_multiple_bugs=False,
    )  # fmt: skip


def verdicts_of(made):
    """(observer, question, verdict) of everything that is asked about an example; one program plays all its worlds."""
    asked_of = plays(made)
    stage = Stage(made.parts, asked_of[0][0])
    for data, asked in asked_of:
        for (observer, question), verdict in zip(asked, judge(stage, data, asked), strict=True):
            yield observer, question, verdict


class Tally:
    """How often guarantees were of each kind, and how near to them records came."""

    def __init__(self):
        self.kinds = collections.Counter()
        self.reached = []  # attained / stated of exact ones

    def hold(self, made):
        for observer, question, verdict in verdicts_of(made):
            self.kinds["refused" if verdict is None else verdict.validity] += 1
            if verdict is not None:
                assert verdict.holds, (made, observer.name, question, verdict)
                if verdict.validity == "exact" and question["unit"] == "agent":  # a record's may need other reactions
                    self.reached.append(verdict.attained / verdict.stated)

    @property
    def finite(self):
        """The share of questions with a finite answer, which alone can be refuted."""
        return 1.0 - (self.kinds["refused"] + self.kinds["infinite"]) / self.kinds.total()


# One or several of every family; that more is found in more examples is for the slow test to see.


def test_no_record_gives_away_more_than_is_stated():
    tally = Tally()

    @checked(10)
    @given(st.sampled_from(sorted(FAMILIES)).flatmap(examples))
    def run(made):
        tally.hold(made)

    run()
    assert tally.finite > 0.4
    assert len(tally.reached) > 5
    assert np.mean(np.array(tally.reached) > 1 - 1e-6) > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_no_record_gives_away_more_than_is_stated_in_any_family(family):
    tally = Tally()
    run = checked(12)(given(examples(family))(tally.hold))
    run()
    assert tally.finite > 0.3
    assert (tally.kinds["exact"] > 0) == (family != "box")  # of projected models the bound is never called exact


# What is selected from a record of everything is what the observer's own record shows, and the noise in it is what was asked for.


def simple_data(topology, rounds, *, numbers=1, size=1.0, far=1.0, signs=None, middle=0.0):
    """Constant gradients in one dimension; agent 0 changes by `size`, along with signs [pairs, T]."""
    table = np.random.default_rng(0).normal(size=(topology.num_agents, rounds, 2 * numbers, 1))
    table[0] = middle
    used = np.ones((1, rounds)) if signs is None else np.asarray(signs, float)
    changes = half_changes(used, [1.0], size=size, far=far, numbers=numbers)
    return Data(0, table, changes, np.zeros((topology.num_agents, 1, 1)))


@pytest.mark.parametrize(
    ("topology", "scheme"),
    [
        (HUB, sv.noise.central(GAUSSIAN)),
        pytest.param(RING, sv.noise.independent(GAUSSIAN, per_edge=True), marks=pytest.mark.slow),
        pytest.param(UNEVEN, sv.noise.gradient(LAPLACE), marks=pytest.mark.slow),
    ],
    ids=["relay", "links", "gradients"],
)
def test_an_observers_own_record_is_a_part_of_the_record_of_everything(topology, scheme):
    parts, data = Parts(topology, own.adapt_then_combine(0.3), scheme, 3), simple_data(topology, 3)
    stage = Stage(parts, data, repeats=5)
    flat = np.concatenate([block.reshape(2, 5, -1) for block in stage.record(data)[0]], axis=2)
    for observer in (*observers(topology)[:2], sv.observers.curious_agent(2) + sv.observers.final_model()):
        alone = Stage(parts, data, repeats=5, observer=observer).record(data)[0]
        expected = np.concatenate([block.reshape(2, 5, -1) for block in alone], axis=2)
        if not observer.final_model:  # a place that is empty for who does not get it
            expected = expected[:, :, :-1]
        np.testing.assert_allclose(flat[:, :, stage.rows(observer)], expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    "law",
    [
        GAUSSIAN,
        pytest.param(LAPLACE, marks=pytest.mark.slow),
        pytest.param(sv.noise.L2Laplace(scale=0.7), marks=pytest.mark.slow),
    ],
    ids=["gaussian", "laplace", "l2"],
)
def test_sources_are_recorded_with_the_scale_of_their_round(law):
    factors = [1.0, 0.25, 3.0]
    noise = sv.noise.independent(law).scaled(factors)
    data = simple_data(TRIANGLE, 3)
    stage = Stage(Parts(TRIANGLE, own.adapt_then_combine(0.3), noise, 3), data)
    (found,) = stage.affine_maps(data)
    rows = stage.rows(HIDDEN) & ~stage.rows(sv.observers.links([(0, 1), (0, 2), (1, 2), (2, 1)]))
    known = found.matrix[rows].reshape(3, 2, 9)  # [T, sources of agents 1 and 2, draws]
    expected = np.zeros((3, 2, 3, 3))
    for t, (place, agent) in itertools.product(range(3), enumerate((1, 2))):
        expected[t, place, t, agent] = law.scale * factors[t]
    np.testing.assert_allclose(known.reshape(3, 2, 3, 3), expected, atol=1e-12)


# Power: a guarantee for something else than what is played does not stand.


def parts(algorithm, noise=None, rounds=4, topology=RING):
    return Parts(topology, algorithm, sv.noise.independent(GAUSSIAN) if noise is None else noise, rounds)


MISTAKES = {
    "a step of half the size": (
        parts(own.adapt_then_combine(0.3)),
        parts(own.adapt_then_combine(0.15)),
    ),
    "a step that does not shrink": (
        parts(own.adapt_then_combine(0.3)),
        parts(own.adapt_then_combine(lambda t: 0.3 / t)),
    ),
    "one larger step, in the last round": (
        parts(own.adapt_then_combine(lambda t: 0.3 + 0.01 * (t == 4))),
        parts(own.adapt_then_combine(0.3)),
    ),
    "an exchange that is forgotten": (
        parts(own.repeated(0.3, 2)),
        parts(own.repeated(0.3, 1)),
    ),
    "a memory of gradients": (parts(own.momentum(0.3, 0.5)), parts(own.adapt_then_combine(0.3))),
    "three steps in a message": (parts(own.local(0.3, 3)), parts(own.adapt_then_combine(0.3))),
    "noise that shrinks": (
        parts(own.adapt_then_combine(0.3), sv.noise.independent(GAUSSIAN).scaled(lambda t: 1.0 / t)),
        parts(own.adapt_then_combine(0.3)),
    ),
    "own copies without noise": (
        parts(own.adapt_then_combine(0.3), sv.noise.independent(GAUSSIAN, self_noise=False)),
        parts(own.adapt_then_combine(0.3)),
    ),
    "noise that cancels": (
        parts(own.adapt_then_combine(0.3), sv.noise.graph_homomorphic(LAPLACE)),
        parts(own.adapt_then_combine(0.3), sv.noise.independent(LAPLACE)),
    ),
    "a Laplace law a little narrower": (
        parts(own.beside(0.3), sv.noise.independent(LAPLACE.scaled(0.9999))),
        parts(own.beside(0.3), sv.noise.independent(LAPLACE)),
    ),
    "a step twice as large, seen through a relay": (
        parts(own.adapt_then_combine(0.6), topology=HUB),
        parts(own.adapt_then_combine(0.3), topology=HUB),
    ),
    "other weights in every second round": (
        parts(own.beside(0.3), sv.noise.independent(GAUSSIAN, self_noise=False), topology=LISTED),
        parts(own.beside(0.3), sv.noise.independent(GAUSSIAN, self_noise=False)),
    ),
}


FAST_MISTAKES = (
    "one larger step, in the last round",
    "an exchange that is forgotten",
    "a Laplace law a little narrower",
)


@pytest.mark.parametrize(
    "mistake", [pytest.param(one, marks=[] if one in FAST_MISTAKES else pytest.mark.slow) for one in MISTAKES]
)
def test_a_guarantee_of_something_else_is_refuted(mistake):
    played, accounted = MISTAKES[mistake]
    observer = sv.observers.server() if played.topology.relay else EVERYTHING
    data = simple_data(played.topology, played.rounds, numbers=played.algorithm.gradients_per_round)
    (verdict,) = judge(Stage(played, data), data, [(observer, {"sensitivity": 1.0})], accounted)
    assert math.isfinite(verdict.stated)
    assert not verdict.holds


def test_reactions_of_others_refute_the_linear_view_of_a_hidden_path():
    # Agent 1 hides its model from agent 2; steep losses carry the difference on, which the linear view does not know.
    path = sv.topologies.path(3)
    line = parts(own.adapt_then_combine(0.3), rounds=4, topology=path)
    data = simple_data(path, 4)
    data.response[1] = -20.0
    curious = sv.observers.curious_agent(2)
    (verdict,) = judge(Stage(line, data), data, [(curious, {"sensitivity": 1.0})])
    found = sv.account(path, line.algorithm, line.noise, curious, rounds=4, sensitivity=1.0, agent=0)
    assert found.linear_validity == "exogenous-gradients"
    assert found.linear_mu * 1.1 < verdict.attained <= found.mu


# Random links and tokens: what is visible is held fixed.

PAIRS = sv.topologies.path(3).with_random_pair()
TOKEN = sv.topologies.complete(2).with_walk()


@pytest.mark.parametrize("scheme", ["self", pytest.param("clean", marks=pytest.mark.slow)])
def test_no_pattern_of_links_gives_away_more_than_is_stated(scheme):
    played = parts(
        own.adapt_then_combine(0.3), sv.noise.independent(GAUSSIAN, self_noise=scheme == "self"), 3, PAIRS
    )  # fmt: skip
    data = simple_data(PAIRS, 3)
    (verdict,) = judge(Stage(played, data, repeats=400), data, [(EVERYTHING, {"sensitivity": 1.0})])
    assert verdict.holds
    assert verdict.attained > 0.7 * verdict.stated


@pytest.mark.parametrize("contributions", [2, pytest.param(None, marks=pytest.mark.slow)])
def test_no_path_of_a_token_gives_away_more_than_is_stated(contributions):
    walk = sv.algorithms.random_walk(step_size=0.3, contributions=contributions)
    data = simple_data(TOKEN, 3)
    stage = Stage(parts(walk, rounds=3, topology=TOKEN), data, repeats=600)
    (verdict,) = judge(stage, data, [(EVERYTHING, {"sensitivity": 1.0})])
    assert verdict.holds
    assert verdict.attained == pytest.approx(verdict.stated, rel=1e-9)


# Single precision: the same steps and factors, rounded.


DECREASING = {
    "averaging": own.several_exchanges(lambda t: 0.3 / (1 + t**2), 2),
    "momentum": own.momentum(lambda t: 0.3 * 0.7**t, 0.6),
    "fedavg": sv.algorithms.fedavg(step_size=lambda t: 0.3 / (1 + 0.1 * t), local_steps=2),
}


@pytest.mark.parametrize(
    "algorithm", ["averaging", *(pytest.param(one, marks=pytest.mark.slow) for one in ("momentum", "fedavg"))]
)
def test_single_precision_uses_the_same_steps_and_factors(algorithm):
    noise = sv.noise.independent(GAUSSIAN).scaled(lambda t: 1.0 / t**0.5)
    made = DECREASING[algorithm]
    played, data = Parts(RING, made, noise, 4), simple_data(RING, 4, numbers=made.gradients_per_round)
    maps = {}
    for dtype in ("float32", "float64"):
        stage = Stage(played, data, dtype=dtype)
        (maps[dtype],) = stage.maps(data)
    assert maps["float64"].off < 1e-12
    assert 1e-12 < maps["float32"].off < 1e-5
    for name in ("matrix", "constants"):
        single, double = (getattr(maps[dtype], name) for dtype in ("float32", "float64"))
        np.testing.assert_allclose(single, double, atol=2e-5 * np.abs(double).max())


# The whole grid: every algorithm with every scheme, law, observer and unit, once.

PEER_GRAPH, GRID_ROUNDS = sv.topologies.ring(5), 4
GRID_LAWS = {"gaussian": GAUSSIAN, "laplace": LAPLACE, "l2": sv.noise.L2Laplace(scale=0.7)}
GRID_SCHEMES = {
    "self": sv.noise.independent,
    "clean": lambda law: sv.noise.independent(law, self_noise=False),
    "edge": lambda law: sv.noise.independent(law, per_edge=True),
    "edge-clean": lambda law: sv.noise.independent(law, per_edge=True, self_noise=False),
    "homomorphic": sv.noise.graph_homomorphic,
    "local": sv.noise.local_graph_homomorphic,
    "gopa": lambda law: sv.noise.gopa(law, pairwise_std=1.5),
    "gradient": sv.noise.gradient,
    "central": sv.noise.central,
}
GRID_ALGORITHMS = {
    "atc": (PEER_GRAPH, sv.algorithms.atc(step_size=0.5)),
    "cta": (PEER_GRAPH, sv.algorithms.cta(step_size=lambda t: 0.5 / t)),
    "consensus": (PEER_GRAPH, sv.algorithms.consensus(step_size=0.5)),
    "dgd": (PEER_GRAPH, sv.algorithms.dgd(step_size=0.5, gradient_rounds=3)),
    "gossip": (PEER_GRAPH, sv.algorithms.gossip()),
    "muffliato": (PEER_GRAPH, sv.algorithms.muffliato(step_size=0.5, gossip_steps=2)),
    "three matrices": (
        PEER_GRAPH,
        sv.algorithms.three_matrix(step_size=0.5, first=PEER_GRAPH, middle=PEER_GRAPH, last=PEER_GRAPH),
    ),
    "listed": (LISTED, sv.algorithms.atc(step_size=0.5)),
    "fedavg": (HUB, sv.algorithms.fedavg(step_size=0.5)),
    "gradients": (HUB, sv.algorithms.fedavg(step_size=0.5, exchange="gradient", server_step_size=0.8)),
    "local steps": (HUB, sv.algorithms.fedavg(step_size=0.5, local_steps=3)),
    "admm": (HUB, sv.algorithms.inexact_admm(penalty=2.0)),
    "walk": (TOKEN, sv.algorithms.random_walk(step_size=0.5)),
    "pairs": (PAIRS, sv.algorithms.consensus(step_size=0.5)),
    "own momentum": (PEER_GRAPH, own.momentum(0.5, 0.5)),
    "own tracking": (PEER_GRAPH, own.tracking(0.5)),
}
GRID_UNITS = {
    "agent": {},
    "record": {"unit": "record"},
    "person": {"unit": "person"},
    "promised record": {"unit": "record", "losses": sv.accounting.ConvexSmooth(2.0)},
    "promised agent": {"losses": sv.accounting.ConvexSmooth(2.0), "same_model": True},
    "contracting record": {"unit": "record", "losses": sv.accounting.ConvexSmooth(2.0, 0.5)},
}


def grid_data(topology, numbers, unit):
    """Reactions that the unit and its promise allow."""
    rng, K = np.random.default_rng(3), topology.num_agents
    table = rng.normal(size=(K, GRID_ROUNDS, 2 * numbers, 1))
    table[0] = table[0, 0, 0]
    response = rng.uniform(-1.0, 1.0, size=(K, 1, 1))
    if "losses" in GRID_UNITS[unit]:
        response = rng.choice([GRID_UNITS[unit]["losses"].nu, 2.0], size=(K, 1, 1))
    if unit == "agent":
        response[0] = 0.0
    return Data(0, table, all_signs(GRID_ROUNDS, [1.0], size=1.0, numbers=numbers), response)


def cells(algorithm, scheme, law):
    """(unit, observer, verdict) for all units and observers; one program plays all of them."""
    topology, made = GRID_ALGORITHMS[algorithm]
    drawn = topology is TOKEN or topology is PAIRS  # who sees all links knows all that is drawn about them
    listening = [EVERYTHING] if drawn else observers(topology)
    played = Parts(topology, made, GRID_SCHEMES[scheme](GRID_LAWS[law]), GRID_ROUNDS)
    stage = Stage(played, grid_data(topology, made.gradients_per_round, "agent"), repeats=1500 if drawn else None)
    for unit, words in GRID_UNITS.items():
        asked = [(observer, {"sensitivity": 1.0, **words}) for observer in listening]
        found = judge(stage, grid_data(topology, made.gradients_per_round, unit), asked)
        yield from ((unit, observer.name, verdict) for observer, verdict in zip(listening, found, strict=True))


@pytest.mark.exhaustive
@pytest.mark.parametrize("law", GRID_LAWS)
@pytest.mark.parametrize("scheme", GRID_SCHEMES)
@pytest.mark.parametrize("algorithm", GRID_ALGORITHMS)
def test_no_record_gives_away_more_than_is_stated_in_any_cell(algorithm, scheme, law, record_property):
    try:
        found = list(cells(algorithm, scheme, law))
    except sv.IncompatibleChoice as refusal:
        pytest.skip(str(refusal))
    answered = [verdict for *_, verdict in found if verdict is not None]
    record_property("answered", len(answered))
    record_property("finite", sum(math.isfinite(verdict.stated) for verdict in answered))
    for unit, observer, verdict in found:
        assert verdict is None or verdict.holds, (unit, observer, verdict)
