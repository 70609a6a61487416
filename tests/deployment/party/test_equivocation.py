"""A sender that says one thing to some neighbours and another to others is found, with evidence; an honest one never is."""

import json

import numpy as np
import pytest

import sottovoce as sv
from deployment.agent.cases import FEDERATED, FEDERATION, LATTICE, LAW, PROBLEM, SCHEMES, every_run, problem
from deployment.agent.recursion import Table
from deployment.party.parties import DIGEST, Parties, public_run, same
from deployment.party.test_loop import SHAPES, run_of
from deployment.party.test_refusals import advance
from sottovoce.deployment.agent import Wiring
from sottovoce.deployment.identity.refusals import Forged
from sottovoce.deployment.party import passing, testimony
from sottovoce.deployment.party.evidence import Caught, keep_evidence, kept_evidence, parse_evidence
from sottovoce.deployment.party.statements import PURPOSE, Claim, Statement, digest_of, signed_bytes
from sottovoce.errors import ConfigError, SottovoceError

ROUNDS = 5
EDGES = {
    "ring": (6, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)]),
    "path": (5, [(1, 0), (0, 2), (2, 3), (3, 4)]),  # party-0 has a neighbour on both sides
    "grid": (6, [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)]),
    "complete": (5, [(a, b) for a in range(5) for b in range(a)]),
}
PROBLEMS = {5: PROBLEM, 6: problem(6)}
KEPT_BACK = ("ring", "grid", "complete")  # networks in which others can talk without the cheat


def network(shape: str, folder, seed: int = 0) -> tuple[Parties, str, int]:
    """Parties, who will cheat, and the diameter."""
    if shape == "federation":
        run = public_run(FEDERATION, FEDERATED["fedavg"], SCHEMES["independent"], rounds=ROUNDS)
        return Parties(folder, run, seed=seed), "relay", 2
    agents, edges = EDGES[shape]
    topology = sv.topologies.from_edges(agents, edges, weights="metropolis")
    run = public_run(topology, sv.algorithms.atc(step_size=0.05), sv.noise.independent(LAW), rounds=ROUNDS)
    steps = np.linalg.matrix_power(topology.matrix > 0, 1).astype(int)
    diameter = next(k for k in range(1, agents) if (np.linalg.matrix_power(steps, k) > 0).all())
    return Parties(folder, run, seed=seed, problem=PROBLEMS[agents]), "party-0", diameter


def claim_of(parties: Parties, name: str, position: int, words: bytes) -> Claim:
    """What a cheat signs: anything it likes, with its own key."""
    salt = bytes(32)
    content = signed_bytes(DIGEST, name, position, digest_of(salt, words))
    return Claim(salt, parties.identities[name].sign(PURPOSE, content))


def other_words(words: bytes) -> bytes:
    return (np.frombuffer(words, dtype=np.uint64) + np.uint64(2**20)).tobytes()


def cheat(parties: Parties, name: str, position: int, deceived: set[str], *, keeps_back: bool) -> None:
    """Let a party that has started send other words to some, each with a genuine statement of its own."""
    post = parties.loops[name]._post
    told = post._testimony
    send, claim = post._send_words, told.claim

    def sent(receiver, at, words, **how):
        lie = at == position and receiver in deceived
        told.claim = (lambda p, w: claim_of(parties, name, p, w)) if lie else claim
        send(receiver, at, other_words(words) if lie else words, **how)

    post._send_words = sent
    if keeps_back:
        told.take_in = lambda peer, bundle: told.passing.take(peer, bundle._replace(statements=[])) or []
        told.passing.add = lambda statement, but: None


def stopped(parties: Parties, cheater: str, *, steps: int = 60_000) -> dict[str, tuple[int, Caught]]:
    """Play on until all honest parties are done or have found the cheat: who, where, what."""
    left, found = set(parties.names), {}
    for _ in range(steps):
        if left <= {cheater}:
            return found
        parties.now += 0.002
        name = parties.chance.choice(sorted(left))
        try:
            if parties.loops[name].advance(0.0):
                parties.end(name)
                left.discard(name)
        except Caught as caught:
            found[name] = (parties.loops[name].position, caught)
            parties.end(name)
            left.discard(name)
    raise AssertionError({name: (loop.phase, loop.position) for name, loop in parties.loops.items()})


def deceive(folder, shape: str, position: int, which: int, *, keeps_back: bool, seed: int = 0):
    parties, cheater, diameter = network(shape, folder, seed)
    for name in parties.names:
        parties.start(name)
    receivers = parties.work(cheater).receivers(position)
    cheat(parties, cheater, position, {receivers[which % len(receivers)]}, keeps_back=keeps_back)
    return parties, cheater, diameter, stopped(parties, cheater)


def check_found(folder, shape: str, position: int, which: int, *, keeps_back: bool) -> None:
    parties, cheater, diameter, found = deceive(folder, shape, position, which, keeps_back=keeps_back)
    honest = set(parties.names) - {cheater}
    # Who has its model may have left before anybody could tell it; while words go on, all are told within the diameter.
    assert set(found) >= honest if position + diameter < ROUNDS else found.keys() & honest, found.keys()
    assert min(where for where, _ in found.values()) <= position + diameter
    for _, caught in found.values():
        assert (caught.evidence.sender, caught.evidence.position) == (cheater, position)
        caught.evidence.check()
        assert caught.evidence.identity_key == parties.identities[cheater].public_key


@pytest.mark.parametrize("position", range(ROUNDS))
def test_two_versions_of_a_message_are_found_on_a_ring_at_any_exchange_even_the_last(position, folder):
    check_found(folder, "ring", position, position, keeps_back=True)


@pytest.mark.parametrize("shape", ["path", "grid", "complete", "federation"])
def test_two_versions_of_the_last_message_are_found_in_any_network(shape, folder):
    check_found(folder, shape, ROUNDS - 1, 1, keeps_back=shape in KEPT_BACK)


def test_the_end_of_a_run_is_no_loophole(folder):
    """In whatever order parties come to their end, somebody is still there when both versions meet."""
    for seed in range(6):
        parties, cheater, _, found = deceive(folder / str(seed), "ring", ROUNDS - 1, 0, keeps_back=True, seed=seed)
        assert found.keys() & (set(parties.names) - {cheater}), f"seed {seed}"


@pytest.mark.slow
@pytest.mark.parametrize("shape", [*EDGES, "federation"])
def test_two_versions_are_found_whoever_is_deceived_whenever(shape, folder):
    for position in range(ROUNDS):
        parties, cheater, _ = network(shape, folder / str(position))
        for which in range(len(parties.work(cheater).receivers(position))):
            check_found(folder / f"{position}-{which}", shape, position, which, keeps_back=shape in KEPT_BACK)


@pytest.mark.parametrize("shape", ["ring", "complete"])
def test_nobody_finds_it_where_statements_are_not_passed_on(shape, folder, monkeypatch):
    """The power of the tests above."""
    monkeypatch.setattr(passing.Passing, "add", lambda self, statement, *, but: None)
    monkeypatch.setattr(passing.Passing, "begin", lambda self, name, known: None)
    monkeypatch.setattr(testimony.Testimony, "complete", lambda self, names: True)
    parties, _, _, found = deceive(folder, shape, 1, 0, keeps_back=False)
    assert found == {}
    assert not same(parties.models(), parties.played()), "nobody's model shows that it was deceived"


def test_on_a_path_nobody_finds_a_cheat_in_the_middle_that_keeps_back_what_it_hears(folder):
    """The limit that the documentation states."""
    *_, found = deceive(folder, "path", 1, 0, keeps_back=True)
    assert found == {}


def test_a_party_that_crashes_still_knows_what_it_was_told(folder):
    """The one that was deceived dies after it has written down the words, before it has passed anything on, and comes back."""
    parties, cheater, _ = network("ring", folder)
    for name in parties.names:
        parties.start(name)
    cheat(parties, cheater, 0, {"party-1"}, keeps_back=True)
    deceived = parties.loops["party-1"]
    deceived._post._testimony.passing.bundle = lambda name, *, onwards: passing.NOTHING
    advance(parties, lambda: deceived.position == 1 and deceived.phase == "hear")
    lie = deceived._post._testimony._known[0, 0].statement
    parties.end("party-1")
    again = parties.start("party-1")
    assert again._post._testimony._known[0, 0].statement == lie
    found = stopped(parties, cheater)
    assert set(found) >= set(parties.names) - {cheater}


def test_words_under_a_statement_of_other_words_are_refused_at_once(folder):
    parties, cheater, _ = network("ring", folder)
    for name in parties.names:
        parties.start(name)
    post = parties.loops[cheater]._post
    claim = post._testimony.claim
    post._testimony.claim = lambda position, words: claim(position, words)
    send = post._session.seal

    def sealed(receiver, kind, position, payload):
        lie = kind == "words" and receiver == "party-1" and position == 1
        return send(receiver, kind, position, payload[:-24] + other_words(payload[-24:]) if lie else payload)

    post._session.seal = sealed
    with pytest.raises(AssertionError):
        stopped(parties, cheater, steps=4_000)
    assert parties.loops["party-1"].position == 1
    assert parties.loops["party-1"]._post.refused.counts[cheater] == {"Forged": pytest.approx(3, abs=3)}


def test_words_without_a_statement_are_refused(folder):
    parties, cheater, _ = network("ring", folder)
    for name in parties.names:
        parties.start(name)
    parties.loops[cheater]._post._testimony.claim = lambda position, words: testimony.NO_CLAIM
    with pytest.raises(AssertionError):
        stopped(parties, cheater, steps=3_000)
    assert parties.loops["party-1"].position == 0
    assert set(parties.loops["party-1"]._post.refused.counts[cheater]) == {"Forged"}


def test_two_versions_for_one_receiver_are_evidence_too(folder):
    parties, cheater, _ = network("ring", folder)
    for name in parties.names:
        parties.start(name)
    post = parties.loops[cheater]._post
    send = post._send_words

    def twice(receiver, position, words, **how):
        send(receiver, position, words, **how)
        claim, lie = post._testimony.claim, other_words(words)
        post._testimony.claim = lambda p, w: claim_of(parties, cheater, p, w)
        send(receiver, position, lie)
        post._testimony.claim = claim

    post._send_words = twice
    found = stopped(parties, cheater)
    assert set(found) >= set(parties.names) - {cheater}


def told(folder) -> tuple[Parties, testimony.Testimony]:
    """A ring in its first exchange, and what party-2 knows."""
    parties, _, _ = network("ring", folder)
    for name in parties.names:
        parties.start(name)
    return parties, parties.loops["party-2"]._post._testimony


def statement(parties: Parties, number: int, position: int, words: bytes, *, signer: int | None = None) -> Statement:
    name = f"party-{number}"
    digest = digest_of(bytes(32), words)
    by = parties.identities[name if signer is None else f"party-{signer}"]
    return Statement(number, position, digest, by.sign(PURPOSE, signed_bytes(DIGEST, name, position, digest)))


def passed(mine: testimony.Testimony, peer: str, *statements: Statement) -> list:
    return mine.take_in(peer, passing.Bundle(0, 0, 0, list(statements)))


def test_a_false_statement_neither_displaces_a_good_one_nor_hides_it(folder):
    parties, mine = told(folder)
    good, false = statement(parties, 0, 0, b"words"), statement(parties, 0, 0, b"others", signer=5)
    blind = good._replace(signature=false.signature)
    assert passed(mine, "party-1", good) == []
    assert [type(each) for each in passed(mine, "party-3", false)] == [Forged]
    assert [type(each) for each in passed(mine, "party-3", blind)] == [Forged]  # the same words under a false signature
    assert mine._known[0, 0].statement == good
    parties, mine = told(folder / "other order")
    good, bad = statement(parties, 0, 0, b"words"), statement(parties, 0, 0, b"others")
    assert passed(mine, "party-3", blind) == []  # believed until it contradicts something
    assert passed(mine, "party-1", good) == []
    assert mine._known[0, 0].statement == good
    with pytest.raises(Caught):
        passed(mine, "party-1", bad)


def test_statements_that_nobody_makes_are_refused_and_take_no_room(folder):
    _parties, mine = told(folder)
    of_nobody = [Statement(number, 0, bytes(32), bytes(64)) for number in (6, 2**16 - 1)]
    late = Statement(0, ROUNDS, bytes(32), bytes(64))
    assert len(passed(mine, "party-1", *of_nobody, late)) == 3
    assert passed(mine, "party-1", *(Statement(0, 2**63 + k, bytes(32), bytes(64)) for k in range(100))) == []
    assert mine._known == {}
    many = [Statement(7, 0, bytes(32), bytes(64))] * 500
    assert len(passed(mine, "party-1", *many)) == testimony.MOST_REFUSED


def test_a_party_that_starts_late_in_a_run_takes_statements_of_its_own_time(folder, monkeypatch):
    monkeypatch.setattr(testimony, "SLACK", -6)  # with six parties the window is one exchange
    parties, mine = told(folder)
    late = ROUNDS - 1
    passed(mine, "party-1", statement(parties, 0, late, b"words"))
    assert (0, late) not in mine._known
    advance(parties, lambda: parties.loops["party-2"].position == late and parties.loops["party-2"].phase == "hear")
    parties.end("party-2")
    mine = parties.start("party-2")._post._testimony
    mine._known.clear()
    passed(mine, "party-1", statement(parties, 0, late, b"words"))
    assert (0, late) in mine._known


def test_what_others_call_evidence_is_checked(folder):
    parties, mine = told(folder)
    one, two = statement(parties, 0, 0, b"words"), statement(parties, 0, 0, b"others")
    forged = statement(parties, 0, 0, b"others", signer=5)
    for pair in ([one, one], [one, forged], [one, two._replace(position=1)], [one], [one._replace(sender=9), two]):
        with pytest.raises((Forged, testimony.Malformed)):
            mine.accuse(testimony.packed(pair))
    with pytest.raises(
        Caught, match=r"party-0 has signed two different messages.*Models since exchange 0 are affected"
    ):
        mine.accuse(testimony.packed([one, two]))


def test_evidence_is_a_file_that_anybody_can_check(folder):
    parties, mine = told(folder)
    with pytest.raises(Caught) as caught:
        mine.accuse(testimony.packed([statement(parties, 0, 0, words) for words in (b"a", b"b")]))
    path = keep_evidence(caught.value.evidence, folder)
    assert path.name == "evidence-party-0-0.json"
    again = parse_evidence(path.read_bytes())
    again.check()
    assert kept_evidence(folder, DIGEST) == again
    assert kept_evidence(folder, bytes(32)) is None
    value = json.loads(path.read_text())
    for change in ({"position": 1}, {"sender": "party-1"}, {"agreement": "00" * 32}, {"identity_key": "00" * 32}):
        with pytest.raises(Forged):
            parse_evidence(json.dumps(value | change).encode()).check()
    value["statements"][1] = value["statements"][0]
    with pytest.raises(Forged, match="say the same"):
        parse_evidence(json.dumps(value).encode()).check()
    with pytest.raises(ConfigError, match="no evidence"):
        parse_evidence(b"{}")


@pytest.mark.parametrize("shape", SHAPES)
def test_broadcasts_are_those_whose_receivers_get_the_same_words(shape, folder):
    """Held against the words that agents really make."""
    parties = Parties(folder, run_of(shape, rounds=2))
    made: dict[tuple[str, int], dict[str, bytes]] = {}
    begun = parties.start

    def start(name):
        loop = begun(name)
        send = loop._post.send_words

        def sent(receiver, position, words):
            made.setdefault((name, position), {})[receiver] = words
            send(receiver, position, words)

        loop._post.send_words = sent
        return loop

    parties.start = start
    assert same(parties.play(), parties.played())
    works = {name: parties.work(name) for name in parties.names}
    for (name, position), words in made.items():
        alike = len(words) > 1 and len(set(words.values())) == 1
        assert works[name].is_broadcast(parties.names.index(name), position) == alike


@pytest.mark.slow
def test_honest_parties_are_never_accused_whatever_they_run(folder):
    played = 0
    for number, (what, run) in enumerate(every_run(links=("static", "dropout"), rounds=2)):
        try:
            Wiring(run, LATTICE, Table(7, run.dimension, run.noise.law), relay_trusted=True)
        except SottovoceError:
            continue
        if number % 3:
            continue
        parties = Parties(folder / str(number), run, seed=number)
        parties.crash_at = lambda name, moment, parties=parties: parties.chance.random() < 0.01
        assert same(parties.play(), parties.played()), what
        played += 1
    assert played > 20
