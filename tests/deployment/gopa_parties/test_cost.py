"""What a run with GOPA reserves before its first message covers what its finished rounds have revealed."""

import math
from dataclasses import replace

import numpy as np
import pytest

import sottovoce as sv
from deployment.agent.cases import DIMENSION
from deployment.gopa_parties.roles import AGENTS, LATTICE, Roles, identities, plan_for, public_run
from sottovoce.accounting.gopa import from_pairs, party_mu
from sottovoce.deployment.gopa import Phase, guarantee
from sottovoce.deployment.gopa_parties import hidden, masked_guarantee, published_rounds
from sottovoce.deployment.privacy import deployed_guarantee, gradient_arithmetic
from sottovoce.deployment.terms import without_masks
from sottovoce.errors import ConfigError, IncompatibleChoice

WHOLE = sv.algorithms.Gopa(partners=4)
GAUSSIAN = sv.algorithms.Gopa(partners=4, pairwise_ratio=2.0)


def clipped_problem():
    generator = np.random.default_rng(3)
    features = [generator.normal(size=(20, DIMENSION)) for _ in range(AGENTS)]
    labels = [np.sign(part.sum(axis=1) + 0.1) for part in features]
    return sv.problems.logistic_regression(features, labels, ridge=0.01).with_clipping(1.0, "l2")


PROBLEM = clipped_problem()


def in_the_open(run, *, unit):
    return deployed_guarantee(
        without_masks(run),
        agent=0,
        sensitivity=PROBLEM.sensitivity(unit=unit, adjacency="replace", norm="l2", batch_size=None, agent=0),
        arithmetic=gradient_arithmetic(PROBLEM, batch_size=None, agent=0),
        fraction_bits=LATTICE.fraction_bits,
        collude="all",
        relay_trusted=False,
        released_to="public",
        losses=None,
        unit=unit,
        adjacency="replace",
    )


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return identities(tmp_path_factory.mktemp("keys"))


@pytest.mark.parametrize("gopa", [WHOLE, GAUSSIAN], ids=["uniform", "gaussian"])
@pytest.mark.parametrize("collude", [1, "all"])
def test_a_reservation_covers_what_finished_rounds_reveal(gopa, collude, tmp_path):
    run = public_run(rounds=2, gopa=gopa)
    roles = Roles(tmp_path, run, collude=collude, time_limit=64)
    roles.play()
    reserved = masked_guarantee(roles.plan, in_the_open(run, unit="agent"))
    transcripts = [ended.transcript for ended in roles.ended[0]]
    coalition = [4] if collude == 1 else [1, 2, 3, 4]
    found = guarantee(transcripts, coalition=coalition, party=0)
    for epsilon in (0.5, 2.0, 5.0):
        assert found.tradeoff.delta(epsilon) <= reserved.guarantee.tradeoff.delta(epsilon)
    # It is not far above either: a star of neighbours is all that is counted of a complete graph.
    (way, _) = found.tradeoff.ways
    assert way.mu <= reserved.cost.value <= 1.5 * way.mu
    assert reserved.by_position[-1] == reserved.cost


def test_a_star_of_honest_neighbours_is_the_worst_that_is_left(keys):
    """The share against the exact account of the star, for Gaussian masks."""
    run = public_run(gopa=GAUSSIAN)
    plan = plan_for(run, keys, collude=1, time_limit=64)
    found = hidden(plan)
    assert found.neighbours == 3
    star = from_pairs(4, np.array([(0, 1), (0, 2), (0, 3)]))
    exact = party_mu(star, independent_std=1.0, pairwise_std=2.0, sensitivity=1.0, parties=[0])[0]
    assert math.sqrt(found.share) == pytest.approx(float(exact), rel=1e-12)


@pytest.mark.parametrize(
    ("gopa", "collude", "neighbours"),
    [
        (WHOLE, "all", 0),
        (WHOLE, 1, 3),
        (WHOLE, 2, 0),  # 3 (5 + 2) > 4 x 5: two drop lists could be signed
        (sv.algorithms.Gopa(partners=4, silence=0.1, minimum_agents=4), 1, 0),  # 3 (5 + 1) > 4 x 4
        (sv.algorithms.Gopa(partners=1), 1, 0),
    ],
)
def test_masks_count_only_where_honest_neighbours_are_sure(gopa, collude, neighbours, keys):
    plan = plan_for(public_run(gopa=gopa), keys, collude=collude, time_limit=64)
    found = hidden(plan)
    assert found.neighbours == neighbours
    assert found.share == 1 / (1 + neighbours)


def test_how_many_neighbours_are_kept_follows_from_who_may_be_silent(keys):
    silent = sv.algorithms.Gopa(partners=3, silence=0.1, minimum_agents=4)
    assert plan_for(public_run(gopa=silent), keys).least_neighbours == 2
    assert plan_for(public_run(gopa=WHOLE), keys).least_neighbours == 4


def test_records_are_protected_as_in_the_open_where_all_may_collude(keys):
    run = public_run(gopa=WHOLE, update_clip=None, local_steps=1)
    plain = in_the_open(run, unit="record")
    assert plain.cost.kind == "gaussian"
    alone = masked_guarantee(plan_for(run, keys), plain)
    assert alone.cost.value == pytest.approx(plain.cost.value, rel=1e-8)
    assert alone.cost.value >= plain.cost.value
    among = masked_guarantee(plan_for(run, keys, collude=1, time_limit=64), plain)
    assert among.cost.value == pytest.approx(plain.cost.value / 2, rel=1e-8)
    assert among.total_variation > 0
    assert "any 1 other agents" in among.guarantee.observer


def test_the_meter_counts_rounds_in_which_something_may_have_been_published(keys):
    run = public_run(gopa=WHOLE)
    found = masked_guarantee(plan_for(run, keys), in_the_open(run, unit="agent"))
    values = [0.0, *(cost.value for cost in found.by_position)]
    assert np.allclose(np.diff(np.square(values)), values[-1] ** 2 / run.rounds)
    # Registering and being ready give nothing away; from the publication on a round counts.
    assert [published_rounds(position) for position in (0, 1, 2, 5, 8, 9, 10)] == [0, 0, 1, 1, 1, 1, 2]


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"noise": sv.noise.none()}, IncompatibleChoice, "noise of the agents' own"),
        ({"topology": sv.topologies.federation(AGENTS - 1)}, ConfigError, "agents are members"),
        ({"algorithm": sv.algorithms.fedavg(step_size=0.1)}, IncompatibleChoice, "no aggregation"),
        (
            {"noise": sv.noise.independent(sv.noise.Gaussian(std=1.0)).scaled(lambda t: 0.0 * t)},
            IncompatibleChoice,
            "in every round",
        ),
    ],
)
def test_a_plan_that_protects_nobody_is_refused(change, error, words, keys):
    run = replace(public_run(gopa=sv.algorithms.Gopa(partners=2)), **change)
    with pytest.raises(error, match=words):
        plan_for(run, keys)


def test_a_time_limit_that_leaves_no_time_is_refused(keys):
    with pytest.raises(ConfigError, match="at least 8 s"):
        plan_for(public_run(), keys, time_limit=7)


def test_an_agent_that_did_not_publish_has_revealed_nothing_more(tmp_path):
    """A round that is given up counts for those who published, and the reservation covers it."""
    run = public_run(rounds=1, gopa=WHOLE)
    roles = Roles(tmp_path, run, collude=1, time_limit=64)
    roles.play(until=lambda r: r.board.log.transcript is not None and r.board.log.transcript.phase is Phase.PUBLICATION)
    roles.end(3)
    roles.play()
    (ended,) = roles.ended[0]
    assert ended.sum is None
    reserved = masked_guarantee(roles.plan, in_the_open(run, unit="agent"))
    found = guarantee(ended.transcript, coalition=[], party=0)
    assert found.tradeoff.delta(1.0) <= reserved.guarantee.tradeoff.delta(1.0)


def test_masks_are_not_counted_where_a_queue_could_outlast_the_deadlines(keys):
    """What a transport still sends while it is closed has to be out before anybody reveals masks."""
    long, short = (plan_for(public_run(gopa=WHOLE), keys, collude=1, time_limit=seconds) for seconds in (60, 59))
    assert hidden(long).neighbours == 3
    assert (hidden(short).neighbours, hidden(short).share) == (0, 1.0)
    assert "could leave after its masks were revealed" in hidden(short).reason
