"""Clocks that are set by a day, forward and back, in every phase: the run ends, everybody has the same model, and nobody says anything in two versions."""

import pytest

from deployment.gopa_parties.roles import AGENTS, DAY, Roles, public_run, said_once, same
from sottovoce.deployment.gopa import Phase

EVERYBODY = frozenset(range(AGENTS))
PHASES = (Phase.REGISTRATION, Phase.PREPARATION, Phase.PUBLICATION, Phase.REPAIR)
WHO = {"an agent": (3,), "the board": ("board",), "several": (0, 3, "board"), "everybody": (*range(AGENTS), "board")}


def until(roles, round_, phase):
    def reached(_):
        log = roles.board.log
        return log.round_ == round_ and log.transcript is not None and log.transcript.phase is phase

    roles.play(until=reached)


@pytest.mark.parametrize("by", [DAY, -DAY])
@pytest.mark.parametrize("who", WHO)
def test_a_clock_that_jumps_changes_no_sum_but_the_one_of_its_publication(who, by, tmp_path):
    """From the second round on it jumps in one phase of each; in the last of these rounds an agent is missing, so that there is something to repair."""
    roles = Roles(tmp_path, public_run(rounds=6))
    for round_, phase in enumerate(PHASES, start=2):
        if phase is Phase.REPAIR:
            until(roles, round_, Phase.PUBLICATION)
            roles.end(1)
        until(roles, round_, phase)
        for each in WHO[who]:
            roles.set[each] += by
        if phase is Phase.REPAIR:
            until(roles, round_ + 1, Phase.REGISTRATION)
            roles.start(1)
    roles.play()
    assert same(roles.models())
    assert len(roles.models()) == AGENTS
    assert said_once(roles)
    silent = EVERYBODY & {*WHO[who]}  # between READY and its publication: it stays silent
    enough = len(EVERYBODY - silent) >= roles.plan.least
    third = EVERYBODY - silent if enough else None
    found = [None if ended.sum is None else ended.sum.parties for ended in roles.ended[0]]
    assert found == [EVERYBODY] * 3 + [third, EVERYBODY - {1}, EVERYBODY]
    times = [ended.transcript.terms.publish_until for ended in roles.ended[0]]
    assert times == [roles.plan.times.publish] * 6  # no time of day is in the terms


@pytest.mark.parametrize("by", [DAY, -DAY])
def test_clocks_that_were_always_wrong_do_no_harm(by, tmp_path):
    roles = Roles(tmp_path, public_run(rounds=2))
    for n, each in enumerate((*range(AGENTS), "board")):
        roles.set[each] = n * by
    roles.play()
    assert same(roles.models())
    assert [ended.sum.parties for ended in roles.ended[0]] == [EVERYBODY] * 2
