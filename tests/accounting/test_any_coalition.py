"""Any so many agents: the worst choice of members, for the agent named or for the worst."""

from itertools import combinations

import pytest

import sottovoce as sv
from sottovoce.accounting import account_each, sent_by_round

TOPOLOGY = sv.topologies.erdos_renyi(6, 0.5, seed=1)
NOISE = sv.noise.gopa(sv.noise.Gaussian(std=0.3), pairwise_std=0.9)
ALGORITHM = sv.algorithms.atc(step_size=0.2)
ASKED = {"rounds": 5, "sensitivity": 1.0}
PAIR = sv.observers.any_coalition(2)


def of(observer, **more):
    return sv.account(TOPOLOGY, ALGORITHM, NOISE, observer, **{**ASKED, **more})


def test_it_is_the_largest_over_all_choices():
    each = [of(sv.observers.coalition(chosen)).mu for chosen in combinations(range(6), 2)]
    found = of(PAIR)
    assert found.mu == pytest.approx(max(each), rel=1e-12)
    assert max(each) > 1.05 * min(each)  # so that a wrong choice would show
    assert found.observer == "any 2 agents"


def test_of_one_agent_only_coalitions_without_it_count():
    each = [of(sv.observers.coalition(chosen), agent=3).mu for chosen in combinations([0, 1, 2, 4, 5], 2)]
    assert of(PAIR, agent=3).mu == pytest.approx(max(each), rel=1e-12)


def test_more_members_and_more_to_read_never_learn_less():
    assert of(sv.observers.any_coalition(1)).mu <= of(PAIR).mu <= of(PAIR + sv.observers.eavesdropper()).mu


def test_what_it_has_learnt_after_every_round_ends_at_its_guarantee():
    by_round = sent_by_round(TOPOLOGY, ALGORITHM, NOISE, PAIR, **ASKED)
    assert by_round[-1].mu == pytest.approx(of(PAIR).mu, rel=1e-12)
    assert [one.mu for one in by_round] == sorted(one.mu for one in by_round)


def test_calibrated_noise_meets_the_target_against_it():
    noise = sv.calibrate(TOPOLOGY, ALGORITHM, NOISE, PAIR, epsilon=1.0, delta=1e-5, **ASKED)
    assert sv.account(TOPOLOGY, ALGORITHM, noise, PAIR, **ASKED).epsilon(1e-5) == pytest.approx(1.0, rel=1e-6)


def test_an_account_of_each_agent_asks_for_one_observer():
    with pytest.raises(sv.ConfigError, match="agent=k"):
        account_each(TOPOLOGY, ALGORITHM, NOISE, PAIR, **ASKED)
