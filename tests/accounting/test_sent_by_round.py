"""What messages have given away after each round, for both kinds of laws."""

import math

import pytest

import sottovoce as sv
from sottovoce.accounting import sent_by_round

RING = sv.topologies.ring(5)


def by_round(noise, *, algorithm=sv.algorithms.atc, rounds=4, **other):
    given = {"rounds": rounds, "sensitivity": [1.0, 1.0, 3.0, 1.0, 1.0], **other}
    return sent_by_round(RING, algorithm(step_size=0.5), noise, sv.observers.eavesdropper(), **given)


def test_gaussian_messages_add_up_in_squares_for_the_agent_with_most_to_show():
    found = by_round(sv.noise.independent(sv.noise.Gaussian(std=2.0)))
    assert [one.mu for one in found] == pytest.approx([0.5 * 3.0 / 2.0 * math.sqrt(t) for t in (1, 2, 3, 4)])


def test_laplace_messages_add_up_as_they_are():
    found = by_round(sv.noise.independent(sv.noise.Laplace(std=2.0)))
    assert [one.epsilon(0.0) for one in found] == pytest.approx([0.5 * 3.0 / math.sqrt(2.0) * t for t in (1, 2, 3, 4)])


def test_the_gradient_of_a_round_of_cta_is_sent_in_the_next():
    found = by_round(sv.noise.independent(sv.noise.Gaussian(std=2.0)), algorithm=sv.algorithms.cta)
    assert [one.mu for one in found] == pytest.approx([0.5 * 3.0 / 2.0 * math.sqrt(t) for t in (0, 1, 2, 3)])


def test_after_the_last_round_it_is_what_a_reader_of_everything_learns():
    noise = sv.noise.independent(sv.noise.Gaussian(std=2.0), self_noise=False)
    whole = sv.account(
        RING, sv.algorithms.atc(step_size=0.5), noise, sv.observers.eavesdropper(), rounds=4, sensitivity=[1.0, 1.0, 3.0, 1.0, 1.0]
    )  # fmt: skip
    assert by_round(noise)[-1].mu == pytest.approx(whole.mu)


def test_members_of_the_observer_are_nobody_to_protect():
    found = sent_by_round(
        RING, sv.algorithms.atc(step_size=0.5), sv.noise.independent(sv.noise.Gaussian(std=2.0)), sv.observers.curious_agent(2), rounds=1,
        sensitivity=[1.0, 1.0, 3.0, 1.0, 1.0],
    )  # fmt: skip
    assert [one.mu for one in found] == pytest.approx([0.25])


def test_secret_samples_are_known_for_the_whole_run_only():
    found = by_round(
        sv.noise.independent(sv.noise.Gaussian(std=2.0)), unit="record", adjacency="add-remove", participation=sv.accounting.poisson(0.5)
    )  # fmt: skip
    assert found is None


@pytest.mark.parametrize("law", [sv.noise.Gaussian(std=2.0), sv.noise.Laplace(std=2.0)])
def test_the_first_round_without_noise_is_the_one_that_is_named(law):
    noise = sv.noise.independent(law).scaled([1.0, 1.0, 0.0, 0.0])
    found = by_round(noise)
    assert [math.isinf(one.epsilon(1e-6)) for one in found] == [False, False, True, True]
    told = sv.account(
        RING, sv.algorithms.atc(step_size=0.5), noise, sv.observers.eavesdropper(), rounds=4, sensitivity=1.0
    )
    assert told.validity == "infinite"
    assert "In round 3 something of agent" in told.reason


def test_a_record_needs_no_promise_where_its_own_agent_goes_on_from_what_it_sent():
    """Agent 0 gives itself no weight, so that its models follow from messages; the other two keep clean copies of theirs."""
    network = sv.topologies.from_matrix([[0.0, 0.5, 0.5], [0.5, 0.3, 0.2], [0.5, 0.2, 0.3]])
    question = {"rounds": 4, "sensitivity": 1.0, "unit": "record"}
    run = (
        network,
        sv.algorithms.atc(step_size=0.5),
        sv.noise.independent(sv.noise.Gaussian(std=1.0), self_noise=False),
    )
    assert sv.account(*run, sv.observers.eavesdropper(), agent=0, **question).mu == pytest.approx(0.5 * math.sqrt(4))
    with pytest.raises(sv.UnsupportedClaim, match="needs a promise"):
        sv.account(*run, sv.observers.eavesdropper(), agent=1, **question)
