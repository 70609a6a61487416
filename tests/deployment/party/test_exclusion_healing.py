"""Networks that are divided for longer than anybody is waited for, and heal: where nobody was lost, nobody is left out, and the run goes on."""

import itertools

import pytest

from deployment.party.remaining import SILENCE, Remaining
from deployment.party.test_exclusion import check_all_went_on, run_on

ALONE = [{0}, {1}, {2}, {3}, {4}]  # as where all talk over one relay, and it is down


def divide(parties: Remaining, parts: list[set[int]]) -> None:
    """Let everybody commit something, and cut all links between parts for long."""
    parties.play(
        until=lambda: len(parties.running) == 5 and all(parties.committed(name) >= 1 for name in parties.names)
    )
    of = {f"agent-{number}": part for part, numbers in enumerate(parts) for number in numbers}
    pairs = itertools.combinations(parties.names, 2)
    parties.cut_links = {frozenset((one, other)) for one, other in pairs if of[one] != of[other]}
    parties.play(seconds=5 * SILENCE)
    assert not any(one.going_on.lost for one in parties.running.values())


def check_nobody_is_left_out(parties: Remaining) -> None:
    assert not [event for _, event, _ in parties.said if event == "lost"]
    assert {agreement.digest for agreement in parties.ended.values()} == {parties.agreement.digest}
    assert len(parties.ended) == 5


@pytest.mark.parametrize("graph", ["ring", "complete"])
@pytest.mark.parametrize("parts", [ALONE, [{0, 1}, {2, 3}, {4}]], ids=["all alone", "two pairs and one"])
def test_parts_without_a_majority_that_meet_again_vote_against_nobody(graph, parts, folder) -> None:
    parties = Remaining(folder, run_on(graph), minimum=3, seed=1)
    divide(parties, parts)
    parties.cut_links = set()
    parties.play()
    check_nobody_is_left_out(parties)


@pytest.mark.parametrize("graph", ["ring", "complete"])
def test_who_is_back_a_little_later_than_the_others_is_not_lost(graph, folder) -> None:
    parties = Remaining(folder, run_on(graph), minimum=3)
    divide(parties, ALONE)
    parties.cut_links = {frozenset((name, "agent-2")) for name in parties.names if name != "agent-2"}
    parties.play(seconds=SILENCE / 4)
    parties.cut_links = set()
    parties.play()
    check_nobody_is_left_out(parties)


def test_who_stays_away_after_an_outage_of_all_is_left_out(folder) -> None:
    parties = Remaining(folder, run_on("ring"), minimum=3)
    divide(parties, ALONE)
    parties.lose("agent-2")
    parties.cut_links = set()
    parties.play()
    check_all_went_on(parties, {"agent-2"})
