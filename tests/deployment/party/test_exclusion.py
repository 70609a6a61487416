"""Going on without somebody who is lost: all who remain under one agreement, every exchange once, and nobody who should not is left out."""

import numpy as np
import pytest

import sottovoce as sv
from deployment.agent.cases import FEDERATION, GRAPH, LATTICE, LAW, public_run
from deployment.party.remaining import Remaining
from sottovoce.deployment.party import Excluded
from sottovoce.deployment.party.doubts import out_of_reach
from sottovoce.deployment.party.exclusion import Exclusion, SecondSelf
from sottovoce.deployment.store import Store
from sottovoce.deployment.terms import Agreement

ATC = sv.algorithms.atc(step_size=0.05)
NOISE = sv.noise.independent(LAW)
GRAPHS = {"graph": GRAPH, "ring": sv.topologies.ring(5), "complete": sv.topologies.complete(5), "relay": FEDERATION}


def run_on(graph: str, rounds: int = 6):
    algorithm = sv.algorithms.fedavg(step_size=0.05) if graph == "relay" else ATC
    return public_run(GRAPHS[graph], algorithm, NOISE, rounds=rounds)


def lose_when(parties: Remaining, name: str, committed: int) -> None:
    """Play until a party has committed an exchange, and kill it there."""
    parties.play(until=lambda: name in parties.running and parties.committed(name) >= committed)
    parties.lose(name)


def check_all_went_on(parties: Remaining, lost: set[str]) -> Agreement:
    """All who remain have a model under the same agreement without the lost, and played every exchange once."""
    remaining = [name for name in parties.names if name not in lost]
    assert sorted(parties.ended) == sorted(remaining), parties.ended
    agreements = {parties.ended[name].digest for name in remaining}
    assert len(agreements) == 1
    agreement = parties.ended[remaining[0]]
    for name in remaining:
        assert np.isfinite(parties.model(name)).all()
        assert name in [member.name for member in agreement.members]
    check_said_once(parties)
    check_taken(parties)
    return agreement


def check_said_once(parties: Remaining) -> None:
    """No party has written down an exchange twice, under whatever agreement and after whatever crash: what it prepared and did not write down it has not sent."""
    assert len(parties.written) == len(set(parties.written))
    assert {name for name, _ in parties.written} <= set(parties.names)


def check_taken(parties: Remaining) -> None:
    """Whatever was taken is the weighted sum of what came, the weight of whoever is missing on the own copy."""
    if parties.run.topology.relay:
        return
    matrix = parties.run.topology.matrix
    for entry in parties.log:
        if entry[0] != "taken":
            continue
        _, name, _, own, heard, after = entry
        k = int(name.removeprefix("agent-"))
        senders = {int(each.removeprefix("agent-")): words.view(np.int64) for each, words in heard.items()}
        others = 1.0 - sum(matrix[sender, k] for sender in senders)
        expected = others * own + sum(matrix[sender, k] * words for sender, words in senders.items())
        np.testing.assert_allclose(after[0], expected, atol=1.0, rtol=1e-12)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("committed", [0, 2, 5])
def test_those_who_remain_go_on_under_one_agreement(graph, committed, folder) -> None:
    parties = Remaining(folder, run_on(graph), minimum=3, seed=committed)
    lose_when(parties, "agent-1", committed)
    parties.play()
    agreement = check_all_went_on(parties, {"agent-1"})
    if agreement.continues is None:  # the last exchange was committed by all: there is nothing to go on with
        assert committed == 5
        return
    assert agreement.continues.excluded == ("agent-1",)
    assert agreement.agents == ("agent-0", "agent-2", "agent-3", "agent-4")
    # Every exchange after the cut was played by all, and none before it under the new agreement.
    for name in agreement.agents:
        positions = [entry[2] for entry in parties.log if entry[:2] == ("prepared", name)]
        assert sorted(set(positions)) == list(range(6))
        assert len(positions) == len(set(positions))


def test_models_after_the_cut_are_those_of_the_run_without_the_lost(folder) -> None:
    """From the states at the cut, the same as the recursion on the smaller network, written with whole matrices."""
    parties = Remaining(folder, run_on("graph", rounds=8), minimum=3)
    lose_when(parties, "agent-3", 3)
    parties.play()
    agreement = check_all_went_on(parties, {"agent-3"})
    cut = agreement.continues.after
    kept = [0, 1, 2, 4]
    before = GRAPH.matrix
    matrix = before[np.ix_(kept, kept)] + np.diag(before[3, kept])
    at = {entry[1:3]: entry[5][0] for entry in parties.log if entry[0] == "taken"}
    state = np.stack([at[f"agent-{k}", cut] for k in kept]) * LATTICE.unit
    from deployment.agent.cases import PROBLEM
    from deployment.party.remaining import Draws

    for position in range(cut + 1, 8):
        data = [{name: values[k] for name, values in PROBLEM.arrays.items()} for k in kept]
        step = np.stack([w - 0.05 * PROBLEM.gradient(w, d) for w, d in zip(state, data, strict=True)])
        noise = np.stack([Draws(f"agent-{k}", 3).source(position, 0, LAW.std / LATTICE.unit) for k in kept])
        state = matrix.T @ (step + LATTICE.unit * noise)
    models = np.stack([parties.model(f"agent-{k}") for k in kept])
    np.testing.assert_allclose(models, state, atol=8 * 3 * LATTICE.unit)


@pytest.mark.parametrize("seed", [0, 3, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 40))])
def test_wherever_somebody_is_lost_and_others_crash_all_who_remain_agree(seed, folder) -> None:
    parties = Remaining(folder, run_on(["graph", "ring", "complete", "relay"][seed % 4]), minimum=3, seed=seed)
    chance = parties.chance
    lose_when(parties, f"agent-{seed % 5}", chance.randrange(5))
    parties.crash_at = lambda name, moment: parties.crashes < 6 and chance.random() < 0.02
    parties.play()
    assert parties.crashes
    check_all_went_on(parties, {f"agent-{seed % 5}"})


@pytest.mark.parametrize("moment", ["before going on", "after going on", "before commit", "after commit"])
def test_a_party_that_crashes_while_going_on_comes_back_under_the_same_agreement(moment, folder) -> None:
    parties = Remaining(folder, run_on("complete"), minimum=3)
    lose_when(parties, "agent-1", 2)
    crashed = []

    def once(name: str, now: str) -> bool:
        if name == "agent-2" and now == moment and not crashed and parties.running["agent-2"].going_on.lost:
            crashed.append(name)
            return True
        return moment == "after going on" and name == "agent-2" and now == moment and not crashed

    parties.crash_at = once
    parties.play()
    check_all_went_on(parties, {"agent-1"})


def test_two_who_are_lost_at_once_are_left_out_together(folder) -> None:
    parties = Remaining(folder, run_on("complete"), minimum=3)
    lose_when(parties, "agent-1", 2)
    parties.lose("agent-4")
    parties.play()
    agreement = check_all_went_on(parties, {"agent-1", "agent-4"})
    assert agreement.agents == ("agent-0", "agent-2", "agent-3")


def test_one_who_is_lost_after_another_is_left_out_in_a_second_step(folder) -> None:
    parties = Remaining(folder, run_on("complete", rounds=12), minimum=3)
    lose_when(parties, "agent-1", 2)
    parties.play(until=lambda: all(one.course.agreement.continues for one in parties.running.values()))
    lose_when(parties, "agent-4", 8)
    parties.play()
    agreement = check_all_went_on(parties, {"agent-1", "agent-4"})
    assert agreement.continues.excluded == ("agent-4",)
    assert agreement.began_with == 5


def test_one_who_is_lost_while_others_vote_is_left_out_too(folder) -> None:
    parties = Remaining(folder, run_on("complete"), minimum=3)
    lose_when(parties, "agent-1", 2)
    parties.play(until=lambda: any(one.going_on.lost for one in parties.running.values()))
    parties.lose("agent-4")
    parties.play()
    check_all_went_on(parties, {"agent-1", "agent-4"})


def test_fewer_than_the_minimum_wait(folder) -> None:
    parties = Remaining(folder, run_on("complete"), minimum=4)
    lose_when(parties, "agent-1", 2)
    parties.lose("agent-2")
    parties.play(seconds=60)
    assert not parties.ended
    assert all(one.course.agreement == parties.agreement for one in parties.running.values())


def test_two_halves_of_a_divided_network_do_not_exclude_each_other(folder) -> None:
    """Three of five go on; the two others never do, and learn of it when the network is whole again."""
    parties = Remaining(folder, run_on("complete"), minimum=3)
    parties.play(until=lambda: all(parties.committed(name) >= 1 for name in parties.names))
    parts = {"agent-0", "agent-1"}, {"agent-2", "agent-3", "agent-4"}
    parties.cut_links = {frozenset((one, other)) for one in parts[0] for other in parts[1]}
    parties.play(seconds=40, until=lambda: len(parties.ended) == 3)
    assert set(parties.ended) == parts[1]
    for name in parts[0]:
        assert parties.running[name].course.agreement == parties.agreement
        assert not parties.running[name].going_on.lost


def test_an_excluded_party_that_comes_back_is_told_and_stops(folder) -> None:
    parties = Remaining(folder, run_on("complete", rounds=40), minimum=3)
    lose_when(parties, "agent-1", 2)
    parties.play(until=lambda: all(one.course.agreement.continues for one in parties.running.values()))
    parties.gone.discard("agent-1")
    parties.start("agent-1")
    parties.play()
    assert isinstance(parties.ended["agent-1"], Excluded)
    assert "comes back in a new run only" in str(parties.ended["agent-1"])
    del parties.ended["agent-1"]
    check_all_went_on(parties, {"agent-1"})


def test_who_comes_back_after_two_exclusions_is_told_too(folder) -> None:
    parties = Remaining(folder, run_on("complete", rounds=60), minimum=3)
    lose_when(parties, "agent-1", 2)
    parties.play(until=lambda: all(one.course.agreement.continues for one in parties.running.values()))
    lose_when(parties, "agent-4", 8)
    twice = ("agent-4",)
    parties.play(
        until=lambda: all(one.course.agreement.continues.excluded == twice for one in parties.running.values())
    )
    parties.gone.discard("agent-1")
    parties.start("agent-1")
    parties.play()
    assert isinstance(parties.ended.pop("agent-1"), Excluded)
    check_all_went_on(parties, {"agent-1", "agent-4"})


def test_who_is_heard_of_by_somebody_is_not_left_out(folder) -> None:
    """One cut link stalls the run; the other neighbours still hear the party, so that nobody goes on without it."""
    parties = Remaining(folder, run_on("complete"), minimum=3)
    parties.play(until=lambda: all(parties.committed(name) >= 1 for name in parties.names))
    parties.cut_links = {frozenset(("agent-0", "agent-1"))}
    parties.play(seconds=60)
    assert not parties.ended
    assert all(one.course.agreement == parties.agreement for one in parties.running.values())


def test_nobody_is_lost_before_the_first_exchange(folder) -> None:
    parties = Remaining(folder, run_on("complete"), minimum=3)
    parties.gone.add("agent-1")
    parties.play(seconds=60)
    assert not any(one.going_on.lost for one in parties.running.values())


def test_the_ledger_counts_the_run_once(folder) -> None:
    parties = Remaining(folder, run_on("complete"), minimum=3)
    lose_when(parties, "agent-1", 2)
    parties.play()
    check_all_went_on(parties, {"agent-1"})
    from sottovoce.deployment.ledger import Ledger
    from sottovoce.deployment.privacy import Cost

    with Store.open(parties.store_path("agent-0"), writer=False) as store:
        runs = store.runs()
        assert [run.status for run in runs] == ["closed", "closed"]
        assert runs[0].entry == runs[1].entry
        totals = Ledger(store).totals()
        assert totals.runs == 1
        assert totals.spent == pytest.approx(Cost.gaussian(0.5).epsilon(1e-5))


@pytest.mark.parametrize("committed", [3, 4, 5])
def test_a_round_of_several_exchanges_is_gone_on_with_in_its_middle(committed, folder) -> None:
    """Batch and noise of a round are drawn once; what was drawn stays with the run, whatever agreement holds."""
    algorithm = sv.algorithms.muffliato(step_size=0.05, gossip_steps=3)
    run = public_run(sv.topologies.complete(5), algorithm, sv.noise.gradient(LAW), rounds=3, batch_size=4)
    parties = Remaining(folder, run, minimum=3, seed=committed)
    lose_when(parties, "agent-1", committed)
    parties.play()
    agreement = check_all_went_on(parties, {"agent-1"})
    for name in agreement.agents:
        assert [drawn for drawn in parties.drawn if drawn[0] == name] == [(name, t, 0) for t in (1, 2, 3)]


def test_a_relay_that_hears_a_party_after_the_vote_goes_on_without_it(folder) -> None:
    parties = Remaining(folder, run_on("relay"), minimum=3)
    parties.play(until=lambda: all(parties.committed(name) >= 1 for name in parties.names))
    parties.cut_links = {frozenset(("agent-1", "relay"))}
    relay = parties.running["relay"]
    parties.play(until=lambda: bool(relay.going_on.lost))
    parties.cut_links = {frozenset(("agent-2", "relay"))}  # its vote is missing, so that there is no cut
    parties.play(until=lambda: relay.loop.phase == "speak")
    parties.cut_links = set()
    parties.play()
    assert isinstance(parties.ended.pop("agent-1"), Excluded)
    check_all_went_on(parties, {"agent-1"})


def test_who_has_its_model_votes_without_a_neighbour_whom_only_it_knows_to_be_lost(folder) -> None:
    """agent-3 talks to agent-2 and agent-4 alone: with both others lost or done, agent-4 has to say so."""
    parties = Remaining(folder, run_on("graph"), minimum=3)
    lose_when(parties, "agent-2", 4)
    parties.play(until=lambda: parties.running["agent-4"].loop.model is not None)
    parties.lose("agent-3")
    parties.play()
    check_all_went_on(parties, {"agent-2", "agent-3"})


def test_who_has_voted_commits_nothing_before_the_cut_is_known(folder) -> None:
    """All words of the next exchange are there, but others, who hear the party in question, do not vote: who has voted waits."""
    parties = Remaining(folder, run_on("complete"), minimum=3)
    parties.play(until=lambda: all(parties.committed(name) >= 1 for name in parties.names))
    voted_at = parties.committed("agent-0")
    assert parties.running["agent-0"].going_on.exclusion.vote({"agent-1"}, voted_at)
    parties.play(seconds=20)
    assert parties.committed("agent-0") == voted_at


@pytest.mark.parametrize("seconds", [6, 20])
def test_a_link_that_heals_leaves_nothing_behind(seconds, folder) -> None:
    """Nobody has voted meanwhile, so that the run goes on with everybody."""
    parties = Remaining(folder, run_on("complete"), minimum=3)
    parties.play(until=lambda: all(parties.committed(name) >= 1 for name in parties.names))
    parties.cut_links = {frozenset(("agent-0", "agent-1"))}
    parties.play(seconds=seconds)
    assert not any(one.going_on.lost for one in parties.running.values())
    assert any(event == "lost" for _, event, _ in parties.said) is False
    parties.cut_links = set()
    parties.play()
    assert {agreement.digest for agreement in parties.ended.values()} == {parties.agreement.digest}
    assert len(parties.ended) == 5


def test_a_partition_without_a_majority_heals_too(folder) -> None:
    parties = Remaining(folder, run_on("complete"), minimum=4)
    parties.play(until=lambda: all(parties.committed(name) >= 1 for name in parties.names))
    parts = {"agent-0", "agent-1"}, {"agent-2", "agent-3", "agent-4"}
    parties.cut_links = {frozenset((one, other)) for one in parts[0] for other in parts[1]}
    parties.play(seconds=30)
    parties.cut_links = set()
    parties.play()
    assert {agreement.digest for agreement in parties.ended.values()} == {parties.agreement.digest}


def test_a_relay_goes_on_without_an_agent_that_is_lost_in_the_first_exchange(folder) -> None:
    parties = Remaining(folder, run_on("relay"), minimum=3)
    parties.play(until=lambda: all(one.loop.phase != "greet" for one in parties.running.values()))
    parties.lose("agent-1")
    parties.play()
    check_all_went_on(parties, {"agent-1"})


def test_a_statement_of_ones_own_that_the_store_does_not_know_stops_a_party(folder) -> None:
    """Its store was set back, or a second process has its keys."""
    parties = Remaining(folder, run_on("complete"), minimum=3)
    lose_when(parties, "agent-1", 2)
    parties.play(until=lambda: any(one.going_on.lost for one in parties.running.values()))
    voter = next(name for name, one in parties.running.items() if one.going_on.lost)
    known = parties.running[voter].going_on.exclusion
    own = next(blob for blob in known.signed() if known.read(blob).party == voter)
    forgetful = Exclusion(
        parties.agreement, parties.identities[voter], parties.roster, kept=[], keep=lambda statements: None
    )
    with pytest.raises(SecondSelf, match="a second process runs with its keys, or its store was set back"):
        forgetful.take(own)


@pytest.mark.parametrize(
    ("doubts", "left", "expected"),
    [
        ({"a": "b", "c": "b"}, "", "b"),
        ({"a": "b"}, "", ""),  # c hears b
        ({"a": "b"}, "c", "b"),  # c has finished and left
        ({"a": "b", "b": "a"}, "", ""),  # one cut link
        ({"a": "bc"}, "", "bc"),  # whoever is alone doubts everybody; the minimum of agents holds it back
    ],
)
def test_who_is_out_of_reach_is_heard_by_none_of_its_neighbours(doubts, left, expected) -> None:
    triangle = {name: frozenset("abc") - {name} for name in "abc"}
    said = {name: frozenset(names) for name, names in doubts.items()}
    assert out_of_reach(said, triangle, frozenset(left)) == frozenset(expected)
