"""Rounds in which a record takes part: the placements, and the worst of them."""

import itertools
import math

import numpy as np
import pytest

import sottovoce as sv
from accounting import brute_force as brute
from sottovoce.accounting import cyclic, poisson
from sottovoce.accounting.question.participation import patterns

RING = sv.topologies.ring(6)
A = RING.matrix
LAW = sv.noise.Gaussian(std=0.7)
NOISE = {
    "self": sv.noise.independent(LAW),
    "clean": sv.noise.independent(LAW, self_noise=False),
    "homomorphic": sv.noise.graph_homomorphic(LAW),
}
SMOOTH = sv.accounting.ConvexSmooth(beta=1.0)
ALL = sv.observers.eavesdropper()


def rows(participation, rounds):
    return [tuple(np.flatnonzero(pattern)) for pattern in patterns(participation, rounds)]


def test_every_round_is_one_pattern():
    assert rows("every-round", 4) == [(0, 1, 2, 3)]
    assert rows(poisson(0.3), 4) == [(0, 1, 2, 3)]


def test_once_is_every_single_round():
    assert rows("once", 3) == [(0,), (1,), (2,)]


@pytest.mark.parametrize(
    ("times", "gap", "rounds"),
    [(1, 1, 3), (3, 4, 12), (2, 5, 6), (3, 1, 3), (4, 2, 10), (1, 9, 2), (3, 4, 10), (2, 3, 5)],
)
def test_a_cycle_is_placed_wherever_it_fits_and_is_cut_short_where_the_run_ends(times, gap, rounds):
    """By brute force: all sets of at most `times` rounds with this distance, less those that another one contains."""
    chains = [
        set(chosen)
        for count in range(1, times + 1)
        for chosen in itertools.combinations(range(rounds), count)
        if all(later - earlier == gap for earlier, later in itertools.pairwise(chosen))
    ]
    expected = [tuple(sorted(one)) for one in chains if not any(one < other for other in chains)]
    assert sorted(rows(cyclic(times, gap), rounds)) == sorted(expected)


@pytest.mark.parametrize(("times", "gap", "rounds"), [(3, 4, 8), (2, 3, 3), (5, 1, 4)])
def test_a_cycle_that_does_not_fit_is_refused(times, gap, rounds):
    with pytest.raises(sv.ConfigError, match="spans"):
        patterns(cyclic(times, gap), rounds)


@pytest.mark.parametrize("value", [0, -1, 1.5, True, None, "2", math.nan])
def test_cycles_are_made_of_whole_numbers(value):
    with pytest.raises(sv.ConfigError, match="times"):
        cyclic(value, 1)
    with pytest.raises(sv.ConfigError, match="gap"):
        cyclic(1, value)


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1, math.nan, math.inf, True, None, "0.1"])
def test_rates_are_probabilities_above_zero(rate):
    with pytest.raises(sv.ConfigError, match="rate"):
        poisson(rate)


@pytest.mark.parametrize("norm", [0.0, -1.0, math.nan, math.inf, True, "1"])
def test_norms_of_records_are_positive(norm):
    with pytest.raises(sv.ConfigError, match="record_norm"):
        poisson(0.1, record_norm=norm)


@pytest.mark.parametrize("participation", ["twice", None, 0.5])
def test_unknown_participation_is_refused(participation):
    with pytest.raises(sv.ConfigError, match="participation"):
        patterns(participation, 3)


def account(scheme, observer, participation, *, kind="atc", rounds=6, factors=None, **more):
    noise = NOISE[scheme] if factors is None else NOISE[scheme].scaled(factors)
    algorithm = getattr(sv.algorithms, kind)(step_size=0.4)
    arguments = {"rounds": rounds, "sensitivity": 1.0, "agent": 2, "unit": "record", "losses": SMOOTH, **more}
    return sv.account(RING, algorithm, noise, observer, participation=participation, **arguments)


def worst(scheme, watcher, chosen, *, kind="atc", rounds=6, factors=None):
    scales = 0.7 * np.ones(rounds) if factors is None else 0.7 * np.asarray(factors)
    Q = brute.leak(brute.stack([getattr(brute, kind)(A, 0.4, s) for s in scales], scheme, watcher), 2).gram
    return math.sqrt(max(brute.largest(Q[np.ix_(rows, rows)]) for rows in chosen))


def test_the_longest_step_counts_where_steps_change():
    algorithm = sv.algorithms.atc(step_size=lambda t: 0.1 * t)
    found = sv.account(
        RING, algorithm, NOISE["self"], ALL, rounds=6, sensitivity=1.0, agent=2, unit="record", participation="once"
    )
    assert found.mu == pytest.approx(0.6 / 0.7, rel=1e-12)


CYCLES = [np.array([s, s + 2, s + 4]) for s in range(2)]


@pytest.mark.parametrize("scheme", NOISE)
@pytest.mark.parametrize("kind", ["atc", "cta", "consensus"])
def test_early_records_leak_longest_to_a_reader_of_all_messages(kind, scheme):
    found = account(scheme, ALL, cyclic(3, 2), kind=kind)
    truth = worst(scheme, brute.Watcher(everything=True), CYCLES, kind=kind)
    assert found.linear_mu == pytest.approx(truth, rel=1e-9)
    if kind != "consensus":  # whose promised steps act beside the combination
        assert found.mu == pytest.approx(truth, rel=1e-9)


@pytest.mark.parametrize("kind", ["atc", "cta"])
def test_the_weakest_noise_counts_where_noise_changes(kind):
    # Used once, with self-noise: step / (scale of the round that sends it); the last gradient of CTA is not sent.
    factors = [4.0, 3.0, 2.0, 1.5, 1.2, 0.5]
    found = account("self", ALL, "once", kind=kind, factors=factors)
    assert found.mu == pytest.approx(0.4 / (0.7 * 0.5), rel=1e-12)
    truth = worst("self", brute.Watcher(everything=True), [np.array([t]) for t in range(6)], kind=kind, factors=factors)
    assert found.linear_mu == pytest.approx(truth, rel=1e-9)
    rising = account("self", ALL, "once", kind=kind, factors=factors[::-1])
    assert rising.mu == pytest.approx(0.4 / (0.7 * (0.5 if kind == "atc" else 1.2)), rel=1e-12)


@pytest.mark.parametrize("factors", [None, [2.0, 1.0, 0.5, 0.5, 1.0, 2.0]])
@pytest.mark.parametrize("participation", ["once", "cyclic"])
@pytest.mark.parametrize(
    ("observer", "watcher"),
    [
        (sv.observers.curious_agent(4), brute.Watcher(members=(4,))),
        (sv.observers.links([(2, 3)]), brute.Watcher(links=((2, 3),))),
        (sv.observers.final_model(), brute.Watcher(final=True)),
    ],
    ids=["curious", "link", "final"],
)
@pytest.mark.parametrize("scheme", ["self", "clean"])
def test_the_worst_placement_counts_for_partial_observers(scheme, observer, watcher, participation, factors):
    chosen = [np.array([t]) for t in range(6)] if participation == "once" else CYCLES
    found = account(scheme, observer, "once" if participation == "once" else cyclic(3, 2), factors=factors)
    truth = worst(scheme, watcher, chosen, factors=factors)
    assert found.linear_mu == pytest.approx(truth, rel=1e-6)
    # The proven value is for the worst placement too: it cannot be below the linear view of any.
    assert found.mu >= truth * (1 - 1e-6)
    every = account(scheme, observer, "every-round", factors=factors)
    assert found.mu <= every.mu * (1 + 1e-5)


def test_taking_part_less_often_reveals_less():
    values = [account("homomorphic", ALL, cyclic(times, 1)).mu for times in range(1, 7)]
    assert values == sorted(values)
    assert values[0] == pytest.approx(account("homomorphic", ALL, "once").mu, rel=1e-12)
    assert values[-1] == pytest.approx(account("homomorphic", ALL, "every-round").mu, rel=1e-12)


def test_pure_epsilon_adds_up_over_the_rounds_of_the_worst_placement():
    law = sv.noise.Laplace(std=math.sqrt(2.0))
    algorithm = sv.algorithms.atc(step_size=0.4)
    found = sv.account(
        RING, algorithm, sv.noise.independent(law), ALL, rounds=6, sensitivity=1.0, unit="record", participation=cyclic(3, 2)
    )  # fmt: skip
    assert found.pure_epsilon == pytest.approx(3 * 0.4, rel=1e-12)
