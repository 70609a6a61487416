"""A stall is seen from far away: who is missing, where, and how far; and nothing but what people see depends on it."""

import pytest

import sottovoce as sv
from deployment.agent.cases import SCHEMES, peers
from deployment.party.parties import Parties, public_run, same
from deployment.party.test_loop import run_of
from deployment.party.test_refusals import advance, play_on
from sottovoce.deployment.identity.refusals import Malformed
from sottovoce.deployment.party import wire
from sottovoce.deployment.party.stalls import AFTER, LARGEST, LATEST, MOST, Missing, Stalls, in_words, packed, unpacked

PATH = sv.topologies.from_edges(5, [(0, 1), (1, 2), (2, 3), (3, 4)], weights="metropolis")
NAMES = ("basel", "bern", "chur", "davos")


def along_a_path(folder, rounds: int = 10) -> Parties:
    return Parties(folder, public_run(PATH, peers(PATH)["atc"], SCHEMES["independent"], rounds=rounds))


def wait(parties: Parties, seconds: float) -> None:
    """Let time pass, with everybody who is there looking around many times a second."""
    for _ in range(int(seconds / 0.05)):
        parties.now += 0.05
        for loop in [*parties.loops.values()]:
            loop.advance(0.0)


def stalled(parties: Parties, dead: str = "party-0") -> int:
    """End one party in the middle of a run, wait for long, and return where it stood."""
    for name in parties.names:
        parties.start(name)
    advance(parties, lambda: parties.loops[dead].position >= 3 and parties.loops[dead].phase == "hear")
    stood = parties.loops[dead].position
    parties.end(dead)
    wait(parties, 25.0)
    return stood


def test_a_stall_reaches_distance_h_h_minus_one_rounds_after_the_neighbours(folder):
    parties = along_a_path(folder)
    stood = stalled(parties)
    near = parties.loops["party-1"].position
    assert stood <= near <= stood + 1  # its last words may have left
    for hops in (1, 2, 3, 4):
        loop = parties.loops[f"party-{hops}"]
        assert loop.position - near <= hops - 1
        assert loop.position == near + hops - 1, "nobody stops earlier than it has to"
        assert loop._post.missing == (Missing("party-0", near, hops),)
    said = in_words(parties.loops["party-3"]._post.missing[0], parties.loops["party-3"].position)
    assert said.startswith(
        f"party-0 is missing at exchange {near}, 3 links away; this party stands at exchange {near + 2}."
    )
    assert "at most 2 rounds after the neighbours of party-0" in said


def test_who_is_back_is_missed_no_longer_and_models_are_the_same(folder):
    parties = along_a_path(folder)
    stalled(parties)
    parties.start("party-0")
    wait(parties, 1.5)
    assert all(loop._post.missing == () for loop in parties.loops.values())
    events = [event for name, event, _ in parties.logged if name == "party-4"]
    assert (events.count("waiting"), events.count("moving")) == (1, 1)
    assert play_on(parties, list(parties.loops)) == []
    assert same(parties.models(), parties.played())


def test_on_a_ring_with_a_chord_everybody_learns_the_distance(folder):
    parties = Parties(folder, run_of("fixed links", rounds=10))  # 0-1-2-3-4-0 and 0-2
    stalled(parties, "party-3")
    found = {name: loop._post.missing for name, loop in parties.loops.items()}
    assert {name: [(each.party, each.hops) for each in missing] for name, missing in found.items()} == {
        "party-0": [("party-3", 2)],
        "party-1": [("party-3", 2)],
        "party-2": [("party-3", 1)],
        "party-4": [("party-3", 1)],
    }


def test_lies_about_missing_parties_change_no_model_and_are_refused_where_they_cannot_be(folder):
    parties = along_a_path(folder, rounds=6)
    stalled(parties)
    liar, told = parties.loops["party-2"]._post, len(parties.logged)
    lies = iter(
        [b"\xff" * 11, b"\x01", b"\x00" * (LARGEST + 11), packed([Missing("party-4", 2**40, 1)], parties.names)]
    )
    liar.stalls.packed = lambda missing: next(lies, b"")
    wait(parties, 10.0)
    refused = [
        values["kind"] for name, event, values in parties.logged[told:] if (name, event) == ("party-1", "refused")
    ]
    assert refused == ["Malformed"] * 3
    parties.start("party-0")
    assert play_on(parties, list(parties.loops)) == []
    assert same(parties.models(), parties.played())


def test_a_party_that_moves_tells_nobody_anything(folder):
    parties = along_a_path(folder, rounds=4)
    kinds = set()
    begun = parties.start

    def watched(name):
        loop = begun(name)
        seal = loop._post._session.seal
        loop._post._session.seal = lambda peer, kind, *rest: (kinds.add(kind), seal(peer, kind, *rest))[1]
        return loop

    parties.start = watched
    parties.play()
    assert kinds == {wire.WORDS, wire.RECEIPT}


def test_what_travels_is_short_and_names_members_only():
    many = [Missing(NAMES[number % 4], number, 1 + number) for number in range(MOST)]
    assert unpacked(packed(many, NAMES), NAMES, "bern") == many
    assert len(packed(many, NAMES)) == LARGEST <= 100
    for content in (packed(many, NAMES) + bytes(11), b"\x04" + bytes(9) + b"\x01", bytes(11), bytes(10)):
        with pytest.raises(Malformed):
            unpacked(content, NAMES, "bern")


def test_a_rumour_that_goes_round_in_circles_ends():
    """Two parties that wait for each other, and each take over what the other has said of a third."""
    stalls = {name: Stalls(NAMES, name) for name in ("basel", "bern")}
    said = [Missing("chur", 7, 1)]
    for step in range(8):
        teller, listener = ("basel", "bern") if step % 2 else ("bern", "basel")
        stalls[listener].heard(teller, stalls[teller].packed(said), float(step))
        said = stalls[listener].missing(7, [teller], [], float(step))
    assert said == []


def test_where_exchanges_take_long_others_are_told_later():
    def told_after(step: float) -> float:
        stalls, now = Stalls(NAMES, "basel"), 0.0
        for _ in range(20):
            now += step
            stalls.due(now, now)
        waited = 0.0
        while not stalls.due(now, now + waited):
            waited += 0.1
        return waited

    assert told_after(0.01) == pytest.approx(AFTER, abs=0.2)
    assert told_after(1.5) == pytest.approx(4.5, abs=0.2)
    assert told_after(60.0) == pytest.approx(LATEST, abs=0.2)


def test_the_word_of_a_neighbour_is_forgotten_and_one_that_is_silent_is_missing_itself():
    stalls = Stalls(NAMES, "basel")
    stalls.heard("bern", stalls.packed([Missing("chur", 7, 1)]), 100.0)
    assert stalls.missing(8, ["bern"], [], 101.0) == [Missing("chur", 7, 2)]
    assert stalls.missing(8, ["bern"], [], 120.0) == []
    assert stalls.missing(8, ["bern"], ["bern"], 101.0) == [Missing("bern", 8, 1)]
    assert stalls.missing(8, [], [], 101.0) == []
