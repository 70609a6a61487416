"""Lower bound <= guarantee, for every algorithm, scheme, law and observer.

Of all combinations 762 have a finite guarantee. `make test-exhaustive` plays all of them. The slow tests play 154, in which every two of (algorithm,
scheme, law, observer) that occur together in any of the 762 occur together once; the fast tests play ten.
The sensitivity is set so that the guarantee is mu = 3, or a pure epsilon of 3, where it scales. All cases together are wrongly failed with
probability at most 0.001. That an audit fails a false guarantee is shown in test_broken_noise.py; here worlds must be told apart better than by
chance, in every fast case and in most slow ones, and as far as computed where that is known.
"""

import itertools
import math

import pytest

import sottovoce as sv
from sottovoce.attacks.audit import audit

PEERS, HUB = sv.topologies.erdos_renyi(6, 0.6, seed=2), sv.topologies.federation(6)
RING = sv.topologies.ring(6)
ROUNDS, DELTA, FAMILY = 7, 1e-3, 0.001
LAWS = {
    "gaussian": sv.noise.Gaussian(std=1.0),
    "laplace": sv.noise.Laplace(std=1.0),
    "l2": sv.noise.L2Laplace(scale=1.0),
}
SCHEMES = {
    "self": sv.noise.independent,
    "clean": lambda law: sv.noise.independent(law, self_noise=False),
    "edge": lambda law: sv.noise.independent(law, per_edge=True),
    "homomorphic": sv.noise.graph_homomorphic,
    "local": sv.noise.local_graph_homomorphic,
    "gopa": lambda law: sv.noise.gopa(law, pairwise_std=2.0),
    "gradient": sv.noise.gradient,
    "central": sv.noise.central,
}
ALGORITHMS = {
    "atc": (RING, sv.algorithms.atc(step_size=0.5)),
    "cta": (PEERS, sv.algorithms.cta(step_size=0.5)),
    "consensus": (PEERS, sv.algorithms.consensus(step_size=0.5)),
    "dgd": (PEERS, sv.algorithms.dgd(step_size=0.5, gradient_rounds=4)),
    "gossip": (PEERS, sv.algorithms.gossip()),
    "muffliato": (RING, sv.algorithms.muffliato(step_size=0.5, gossip_steps=2)),
    "walk": (sv.topologies.complete(6).with_walk(), sv.algorithms.random_walk(step_size=0.5, contributions=3)),
    "pairs": (RING.with_random_pair(), sv.algorithms.atc(step_size=0.5)),
    "dropout": (RING.with_dropout(0.3), sv.algorithms.consensus(step_size=0.5)),
    "fedavg": (HUB, sv.algorithms.fedavg(step_size=0.5)),
    "local steps": (HUB, sv.algorithms.fedavg(step_size=0.5, local_steps=3)),
    "sampled": (HUB, sv.algorithms.fedavg(step_size=0.5, participation=0.5)),
    "admm": (HUB, sv.algorithms.inexact_admm(penalty=2.0)),
}
PEER_OBSERVERS = {
    "eavesdropper": sv.observers.eavesdropper(),
    "curious": sv.observers.curious_agent(1),
    "coalition": sv.observers.coalition([1, 3]),
    "link": sv.observers.links([(0, 1)]),
    "model": sv.observers.final_model(),
    "eavesdropper and model": sv.observers.eavesdropper() + sv.observers.final_model(),
}
HUB_OBSERVERS = {
    "server": sv.observers.server(),
    "curious": sv.observers.curious_agent(1),
    "server and coalition": sv.observers.server() + sv.observers.coalition([1, 3]),
    "model": sv.observers.final_model(),
}


def observers_of(algorithm):
    return HUB_OBSERVERS if ALGORITHMS[algorithm][0].relay else PEER_OBSERVERS


# Every algorithm with every scheme and law, observers in turn; `ADDED` has the pairs that this leaves out, found by a greedy cover.
IN_TURN = [
    (a, s, w, list(observers_of(a))[(i + 2 * j + 3 * k) % len(observers_of(a))])
    for i, a in enumerate(ALGORITHMS)
    for j, s in enumerate(SCHEMES)
    for k, w in enumerate(LAWS)
]
ADDED = [
    ("gossip", "local", "gaussian", "link"),
    ("atc", "self", "gaussian", "eavesdropper and model"),
    ("cta", "gradient", "gaussian", "eavesdropper and model"),
    ("consensus", "gradient", "gaussian", "model"),
    ("dgd", "self", "gaussian", "coalition"),
    ("dgd", "self", "gaussian", "eavesdropper and model"),
    ("gossip", "clean", "gaussian", "model"),
    ("muffliato", "self", "gaussian", "model"),
    ("walk", "self", "gaussian", "curious"),
    ("walk", "self", "gaussian", "coalition"),
    ("walk", "self", "gaussian", "model"),
    ("walk", "self", "gaussian", "eavesdropper and model"),
    ("pairs", "gradient", "gaussian", "eavesdropper and model"),
    ("dropout", "gradient", "gaussian", "model"),
    ("sampled", "self", "gaussian", "server"),
]
FAST = [
    ("atc", "self", "gaussian", "eavesdropper"),
    ("cta", "homomorphic", "gaussian", "curious"),
    ("consensus", "self", "laplace", "eavesdropper"),
    ("gossip", "gradient", "gaussian", "coalition"),
    ("muffliato", "gradient", "gaussian", "curious"),
    ("walk", "self", "gaussian", "curious"),
    ("pairs", "self", "laplace", "eavesdropper"),
    ("fedavg", "gopa", "gaussian", "curious"),
    ("local steps", "self", "l2", "server"),
    ("admm", "self", "gaussian", "server"),
]
CLIPPED = {
    "in full": {"local_steps": 3},
    "sampled": {"local_steps": 2, "participation": 0.5},
    "a fixed number": {"agents_per_round": 3},
}
SAMPLED_NOISE = {"own": sv.noise.independent, "central": sv.noise.central}
EVERY = [(a, s, w, o) for a in ALGORITHMS for s in SCHEMES for w in LAWS for o in observers_of(a)]
# The share of an algorithm's cases that must be told apart, chosen after looking at a run of all 154: there 144 were (AUC above 1/2 at 99.9 %), of
# each algorithm in turn 81 % or more, and all that were added. The misses are Laplace laws read by a fitted attack, seven of ten with a source per
# link. The 44 distances that are known by computation were within two standard errors.
TOLD_APART = 0.75
CASES = len(EVERY) + len(IN_TURN) + len(ADDED) + len(FAST) + 3 * len(CLIPPED) * len(SAMPLED_NOISE)


def question(algorithm, scheme, law, observer):
    """The arguments of an account with a finite guarantee of a moderate size; None where there is no such guarantee."""
    topology, made = ALGORITHMS[algorithm]
    try:
        parts = topology, made, SCHEMES[scheme](LAWS[law]), observers_of(algorithm)[observer]
        guarantee = sv.account(*parts, rounds=ROUNDS, sensitivity=1.0)
    except (sv.IncompatibleChoice, sv.UnsupportedClaim):
        return None  # refused: there is nothing to hold an attack against
    if guarantee.mu is None:
        return parts, 1.0
    if math.isinf(guarantee.mu) or guarantee.mu == 0:
        return None
    return parts, 3.0 / (guarantee.mu if guarantee.pure_epsilon is None else guarantee.pure_epsilon)


def held(parts, sensitivity, *, pairs, **options):
    return audit(
        *parts, rounds=ROUNDS, sensitivity=sensitivity, delta=DELTA, confidence=1.0 - FAMILY / CASES, pairs=pairs, seed=3, **options
    )  # fmt: skip


def told_apart(found):
    return found.auc.interval(0.999)[0] > 0.5


def as_far_as_computed(found):
    """Whether the scores are as far apart as computed, within five standard errors of the distance of two samples of normal scores."""
    if found.computed_mu is None:
        return True
    error = math.sqrt((2.0 + found.computed_mu**2 / 4.0) / found.pairs)
    return abs(found.gaussian.estimate - found.computed_mu) < 5 * error


@pytest.mark.parametrize("case", FAST, ids="-".join)
def test_no_attack_shows_more_than_is_promised(case):
    asked = question(*case)
    assert asked is not None
    found = held(*asked, pairs=600)
    assert found.passed
    assert told_apart(found)
    assert as_far_as_computed(found)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_no_attack_shows_more_than_is_promised_with_any_scheme_and_law(algorithm):
    told = []
    for case in (one for one in IN_TURN if one[0] == algorithm):
        asked = question(*case)
        if asked is None:
            continue
        found = held(*asked, pairs=2000)
        assert found.passed, (case, found.explain())
        assert as_far_as_computed(found), (case, found.explain())
        told.append(told_apart(found))
    assert len(told) >= 5
    assert sum(told) >= TOLD_APART * len(told)


@pytest.mark.slow
@pytest.mark.parametrize("case", ADDED, ids="-".join)
def test_no_attack_shows_more_than_is_promised_to_any_observer(case):
    asked = question(*case)
    assert asked is not None
    found = held(*asked, pairs=2000)
    assert found.passed, found.explain()
    assert as_far_as_computed(found), found.explain()
    assert told_apart(found)


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", EVERY, ids="-".join)
def test_no_attack_shows_more_than_is_promised_at_all(case, record_property):
    asked = question(*case)
    if asked is None:
        pytest.skip("nothing is promised")
    found = held(*asked, pairs=1500)
    record_property("ratio", found.ratio)
    record_property("worst_ratio", found.worst_ratio)
    assert found.passed, found.explain()


@pytest.mark.slow
def test_every_two_parts_that_have_a_guarantee_together_are_played_together():
    finite = [case for case in EVERY if question(*case) is not None]
    played = [case for case in (*IN_TURN, *ADDED) if case in set(finite)]
    assert (len(finite), len(set(played)), len(played)) == (762, 154, 154)
    for x, y in itertools.combinations(range(4), 2):
        assert {(case[x], case[y]) for case in finite} == {(case[x], case[y]) for case in played}


@pytest.mark.parametrize(
    ("how", "noise", "observer"),
    [
        pytest.param(how, noise, o, marks=[] if (how, o) == ("sampled", "model") else pytest.mark.slow)
        for how in CLIPPED
        for noise in SAMPLED_NOISE
        for o in ("server", "curious", "model")
    ],
)
def test_no_attack_shows_more_than_is_promised_of_clipped_updates(how, noise, observer):
    algorithm = sv.algorithms.fedavg(step_size=0.5, update_clip=sv.clipping.Clip(0.5, "l2"), **CLIPPED[how])
    parts = HUB, algorithm, SAMPLED_NOISE[noise](sv.noise.Gaussian(std=0.8)), HUB_OBSERVERS[observer]
    found = held(parts, 1.0, pairs=600)
    assert found.passed
