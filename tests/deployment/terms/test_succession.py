"""The agreement without those who were lost: whose weight goes where, what stays, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import sottovoce as sv
from deployment.terms.agreements import agreement, public_run
from sottovoce.deployment.terms import Agreement, check_exclusion, successor
from sottovoce.errors import ConfigError, IncompatibleChoice

EXCLUDE = {"lost_neighbour": "exclude", "minimum_agents": 3, "exclude_after": 5, "releases": "own"}
LAW = sv.noise.Gaussian(std=0.1)
FIVE = sv.topologies.complete(5)


def complete(agents: int = 5):
    return public_run(topology=sv.topologies.complete(agents))


def test_the_weight_of_who_is_lost_goes_back_to_the_receivers_own_copy() -> None:
    run = public_run(topology=sv.topologies.ring(5))
    made, going_on = successor(agreement(run, **EXCLUDE), run, ["agent-4"], after=1)
    before, after = run.topology.matrix, going_on.topology.matrix
    expected = before[:4, :4] + np.diag(before[4, :4])
    np.testing.assert_allclose(after, expected, rtol=1e-15)
    np.testing.assert_allclose(after.sum(axis=0), 1.0, rtol=1e-15)
    assert made.agents == ("agent-0", "agent-1", "agent-2", "agent-3")
    np.testing.assert_allclose(made.learning.networks[0].centroid, 0.25, rtol=1e-12)


def test_shares_of_a_relay_go_to_those_who_remain_in_proportion() -> None:
    run = public_run(
        topology=sv.topologies.federation(4, weights="records", records=[10, 20, 30, 40]),
        algorithm=sv.algorithms.fedavg(step_size=0.1),
    )
    made, going_on = successor(agreement(run, **EXCLUDE), run, ["agent-3"], after=0)
    np.testing.assert_allclose(going_on.topology.perron, np.array([1, 2, 3]) / 6, rtol=1e-15)
    assert [member.role for member in made.members] == ["agent"] * 3 + ["relay"]


@settings(max_examples=30, deadline=None)
@given(st.integers(5, 9), st.integers(0, 2**32 - 1), st.data())
def test_whoever_is_lost_the_others_keep_their_numbers_and_tables(agents, seed, data) -> None:
    links = np.random.default_rng(seed).random((agents, agents)) < 0.7
    edges = [(k, (k + 1) % agents) for k in range(agents)] + [(0, k) for k in range(2, agents - 1) if links[0, k]]
    edges += [(j, k) for j in range(1, agents) for k in range(j + 2, agents) if links[j, k]]
    run = public_run(topology=sv.topologies.from_edges(agents, edges))
    first = agreement(run, **EXCLUDE | {"minimum_agents": agents // 2 + 1})
    lost = data.draw(st.sets(st.integers(0, agents - 1), min_size=1, max_size=agents - agents // 2 - 1))
    try:
        made, going_on = successor(first, run, [f"agent-{k}" for k in lost], after=2)
    except ConfigError:
        reject()  # those who remain cannot all reach each other
    kept = [k for k in range(agents) if k not in lost]
    before = run.topology.matrix
    expected = before[np.ix_(kept, kept)] + np.diag(before[sorted(lost)][:, kept].sum(axis=0))
    np.testing.assert_allclose(going_on.topology.matrix, expected, rtol=1e-13)
    assert made.learning.tables == first.learning.tables
    assert made.noise.factors == first.noise.factors
    assert made.noise.scale == first.noise.scale
    assert made.protection.sensitivity == tuple(first.protection.sensitivity[k] for k in kept)
    assert Agreement.parse(made.canonical()) == made


def test_a_successor_names_what_it_goes_on_with_and_has_a_digest_of_its_own() -> None:
    run = complete()
    first = agreement(run, **EXCLUDE)
    made, _ = successor(first, run, ["agent-1"], after=3)
    assert made.continues is not None
    assert (made.continues.previous, made.continues.after) == (first.digest.hex(), 3)
    assert made.continues.excluded == ("agent-1",)
    others = [successor(first, run, ["agent-1"], after=2)[0], successor(first, run, ["agent-2"], after=3)[0], first]
    assert made.digest not in [other.digest for other in others]


def test_half_of_a_network_cannot_exclude_the_other_half_in_one_step_or_in_two() -> None:
    run = complete(6)
    first = agreement(run, **EXCLUDE | {"minimum_agents": 4})
    with pytest.raises(ConfigError, match="3 agents are left, and the agreement needs 4 of the 6"):
        successor(first, run, ["agent-0", "agent-1", "agent-2"], after=0)
    made, going_on = successor(first, run, ["agent-0", "agent-1"], after=0)
    with pytest.raises(ConfigError, match="3 agents are left, and the agreement needs 4 of the 6"):
        successor(made, going_on, ["agent-2"], after=1)
    with pytest.raises(ConfigError, match="more than half"):
        agreement(run, **EXCLUDE | {"minimum_agents": 3})


def test_who_remains_has_to_reach_all_others() -> None:
    run = public_run(topology=sv.topologies.path(5))
    with pytest.raises(ConfigError):
        successor(agreement(run, **EXCLUDE), run, ["agent-2"], after=0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"noise": sv.noise.graph_homomorphic(LAW)}, "cancels between messages"),
        ({"noise": sv.noise.local_graph_homomorphic(LAW)}, "cancels between messages"),
        ({"noise": sv.noise.gopa(LAW, pairwise_std=1.0)}, "cancels between messages"),
        ({"topology": sv.topologies.complete(5).with_dropout(0.2)}, "public coin"),
        ({"topology": sv.topologies.complete(5).with_random_pair()}, "public coin"),
        (
            {
                "topology": sv.topologies.federation(5),
                "algorithm": sv.algorithms.fedavg(step_size=0.1, agents_per_round=3),
            },
            "public coin",
        ),
        (
            {
                "topology": sv.topologies.federation(5),
                "algorithm": sv.algorithms.fedavg(step_size=0.1),
                "noise": sv.noise.central(LAW),
            },
            "counts for more",
        ),
        (
            {
                "topology": FIVE,
                "algorithm": sv.algorithms.three_matrix(step_size=0.1, first=FIVE, middle=FIVE, last=FIVE),
                "noise": sv.noise.gradient(LAW),
            },
            "weights of its own",
        ),
    ],
)
def test_what_would_leave_noise_without_its_counterpart_is_refused(changes, said) -> None:
    run = replace(complete(), **changes)
    with pytest.raises(IncompatibleChoice, match=said):
        check_exclusion(run)


def test_a_policy_is_whole_or_refused() -> None:
    with pytest.raises(ConfigError, match="exclude_after"):
        agreement(complete(), **EXCLUDE | {"exclude_after": 0})
    with pytest.raises(ConfigError, match="belong to lost_neighbour = 'exclude' alone"):
        agreement(complete(), lost_neighbour="stop", minimum_agents=3)
