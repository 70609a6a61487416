"""Cyffers & Bellet 2022 as printed: its numbers, its conditions, and what independent routes say about them."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

import sottovoce as sv
from sottovoce.accounting import documents, walk

GRADIENT = {"epsilon": 0.1, "delta": 1e-6, "num_agents": 1000, "rounds": 10**6, "failure_probability": 1e-6}
SUM = {"epsilon": 0.1, "delta": 1e-12, "num_agents": 1000, "rounds": 10**6, "slack": 1e-6, "failure_probability": 1e-6}
RING = {"epsilon": 0.1, "delta": 1e-9, "passes": 100, "slack": 1e-6}
HISTOGRAM = {"epsilon": 0.1, "delta": 1e-3, "values": 5, "num_agents": 2000}
SENDERS = GRADIENT | {"spotted_failure_probability": 1e-6}
LEMMA = {"num_agents": 2000, "contributions": 12, "std": 20.3619, "lipschitz": 1.0, "delta": 1e-6, "factor": "lemma"}
CALLS = {
    documents.cyffers_complete_gradient_epsilon: GRADIENT,
    documents.cyffers_complete_sum_epsilon: SUM,
    documents.cyffers_known_senders_epsilon: SENDERS,
    documents.cyffers_lemma_epsilon: LEMMA,
    documents.cyffers_ring_epsilon: RING,
    documents.cyffers_ring_histogram_share: HISTOGRAM,
}


@pytest.mark.parametrize("statement", CALLS)
def test_every_statement_names_the_document_and_says_why(statement):
    found = statement(**CALLS[statement])
    assert isinstance(found, documents.DocumentStatement)
    assert found.source.startswith("Cyffers & Bellet 2022")
    assert found.upper_bound
    assert found.verdict in str(found)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, 0.0, True, "x", None])
@pytest.mark.parametrize(
    ("statement", "name"), [(statement, name) for statement, given in CALLS.items() for name in given]
)
def test_no_statement_takes_what_is_no_number_in_its_range(statement, name, bad):
    # Two agents or fewer are malformed for most formulas and unsupported for the lemma.
    with pytest.raises(sv.ConfigError, match=name):
        statement(**(CALLS[statement] | {name: bad}))


def test_theorem_1_is_advanced_composition_over_the_passes():
    # epsilon = 0.1, K = 100, delta' = 1e-6: evaluation of the printed formula, 6.30823.
    found = documents.cyffers_ring_epsilon(**RING)
    assert found.value == pytest.approx(6.30823, rel=2e-6)
    assert "delta = 1.1e-06" in found.verdict
    assert "collude" in found.verdict


def test_theorem_2_answers_are_private_without_the_other_agents_whenever_it_is_confirmed():
    """Randomized response over L values: the exact local epsilon is the log of the ratio of answer probabilities."""
    for epsilon, delta, n, L in itertools.product((0.01, 0.4), (1e-3, 1e-6), (1001, 1989, 1990, 10**5), (2, 9)):
        found = documents.cyffers_ring_histogram_share(epsilon=epsilon, delta=delta, num_agents=n, values=L)
        truth, lie = 1 - found.value + found.value / L, found.value / L
        assert found.upper_bound == (math.log(truth / lie) <= epsilon * (1 + 1e-9))
    assert documents.cyffers_ring_histogram_share(**(HISTOGRAM | {"delta": 1e-6, "num_agents": 1990})).upper_bound
    assert not documents.cyffers_ring_histogram_share(**(HISTOGRAM | {"delta": 1e-6, "num_agents": 1989})).upper_bound


def test_theorem_4_gives_the_reference_numbers_and_is_confirmed():
    # epsilon = 0.1, n = 1000, delta = d = 1e-6: evaluation of the printed formula, 0.737453 (q = 27.631) and 5.26739.
    short = documents.cyffers_complete_gradient_epsilon(**GRADIENT)
    long = documents.cyffers_complete_gradient_epsilon(**(GRADIENT | {"rounds": 10**8}))
    assert short.value == pytest.approx(0.737453, rel=2e-6)
    assert long.value == pytest.approx(5.26739, rel=2e-6)
    assert short.upper_bound
    assert long.upper_bound
    saturated = documents.cyffers_complete_gradient_epsilon(**(GRADIENT | {"rounds": 10**3}))
    assert saturated.value == short.value  # q is 2 ln(1/delta) = 27.631 for both


def test_theorem_4_is_not_confirmed_for_three_agents_and_a_long_walk():
    found = documents.cyffers_complete_gradient_epsilon(
        **(GRADIENT | {"epsilon": 0.9, "num_agents": 3, "rounds": 3000})
    )
    assert not found.upper_bound
    assert "only" in found.verdict


def test_theorem_3_bounds_every_cycle_it_speaks_of():
    """3 epsilon / sqrt(n) is above ln(1 + (1 - (1 - 1/n)^m)(e^(epsilon / sqrt m) - 1)) for every m up to n."""
    for n, epsilon in itertools.product((2, 10, 1000), (0.01, 0.99)):
        m = np.arange(1, n + 1)
        cycle = np.log1p(-np.expm1(m * math.log1p(-1 / n)) * np.expm1(epsilon / np.sqrt(m)))
        assert cycle.max() <= 3 * epsilon / math.sqrt(n)
    found = documents.cyffers_complete_sum_epsilon(**SUM)
    cycles, step = math.ceil(1203.5842127324534 + 1000), 0.3 / math.sqrt(1000)
    by_hand = math.sqrt(2 * cycles * math.log(1e6)) * step + cycles * step * math.expm1(step)
    assert found.value == pytest.approx(by_hand, rel=1e-12)
    with pytest.raises(sv.ConfigError, match="below 1"):
        documents.cyffers_complete_sum_epsilon(**(SUM | {"delta": 1e-3}))


def test_app_g_adds_the_spotted_contributions():
    found = documents.cyffers_known_senders_epsilon(**SENDERS)
    visits = documents.cyffers_visits(num_agents=1000, rounds=10**6, failure_probability=1e-6)
    spotted = 2 * visits / 1000 + math.sqrt(6 * visits * math.log(1e6) / 1000)
    assert found.value == pytest.approx(0.7374527472 + 0.1 * spotted, rel=1e-9)


@pytest.mark.parametrize("std", [2.57862, 20.3619])
def test_the_program_is_short_of_the_lemma_and_both_are_confirmed_in_the_reference_setting(std):
    lemma = documents.cyffers_lemma_epsilon(**(LEMMA | {"std": std}))
    program = documents.cyffers_lemma_epsilon(**(LEMMA | {"std": std, "factor": "program"}))
    assert lemma.value == walk.epsilon(num_agents=2000, contributions=12, std=std, lipschitz=1.0, delta=1e-6)
    assert program.value < lemma.value
    assert lemma.upper_bound
    assert program.upper_bound
    order = walk.largest_order(std=std, sensitivity=2.0)  # both use it: the difference is half the lemma's divergence
    half = 2 * 12 * order * math.log(2000) / (std**2 * 2000)
    assert lemma.value - program.value == pytest.approx(half, rel=1e-9)


def test_the_program_is_not_confirmed_where_contributions_are_many():
    crowded = {"num_agents": 10, "contributions": 1000, "std": 20.0}
    assert documents.cyffers_lemma_epsilon(**(LEMMA | crowded)).upper_bound
    assert not documents.cyffers_lemma_epsilon(**(LEMMA | crowded | {"factor": "program"})).upper_bound


def test_the_printed_number_of_visits_is_too_small_for_one_visit_on_average_and_safe_for_a_thousand():
    for rounds, safe in ((100, False), (100_000, True)):
        printed = documents.cyffers_visits(num_agents=100, rounds=rounds, failure_probability=1e-6)
        exceeded = stats.binom.sf(math.floor(printed), rounds, 0.01)
        assert (exceeded <= 1e-6) == safe
    assert documents.cyffers_visits(num_agents=1000, rounds=10**6, failure_probability=1e-6) == pytest.approx(1203.5842)


@pytest.mark.parametrize(
    ("statement", "name", "outside"),
    [
        (documents.cyffers_complete_gradient_epsilon, "epsilon", 1.0),
        (documents.cyffers_complete_gradient_epsilon, "delta", 0.5),
        (documents.cyffers_complete_sum_epsilon, "epsilon", 1.0),
        (documents.cyffers_ring_histogram_share, "epsilon", 0.5),
        (documents.cyffers_ring_histogram_share, "delta", 0.01),
        (documents.cyffers_ring_histogram_share, "num_agents", 1000),
        (documents.cyffers_lemma_epsilon, "factor", "half"),
    ],
)
def test_outside_its_conditions_the_document_states_nothing(statement, name, outside):
    with pytest.raises(sv.ConfigError, match=name):
        statement(**(CALLS[statement] | {name: outside}))
