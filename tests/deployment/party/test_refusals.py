"""What a party refuses, and that nothing of it was sent: stores that were set back, second processes, other terms, full disks, forged words."""

import hashlib
import shutil

import numpy as np
import pytest

from deployment.party.eavesdropper import plaintexts
from deployment.party.parties import DIGEST, RUN, Parties, same
from deployment.party.test_loop import run_of
from sottovoce.deployment.identity import Session, new_run_key
from sottovoce.deployment.identity.refusals import DifferentAgreement
from sottovoce.deployment.party import wire
from sottovoce.deployment.party.post import Heard
from sottovoce.deployment.store import AnotherWriter, RestoredBackup, Store, StoreError


def advance(parties: Parties, until, *, steps: int = 20_000, names=None) -> None:
    """Let parties move, one after the other, until something holds."""
    for step in range(steps):
        if until():
            return
        parties.now += 0.002
        chosen = sorted(names or parties.loops)
        parties.loops[chosen[step % len(chosen)]].advance(0.0)
    raise AssertionError("it never came to that")


def begun(folder, *, rounds: int = 6, position: int = 3) -> Parties:
    """Parties in the middle of a run."""
    parties = Parties(folder, run_of("fixed links", rounds=rounds))
    for name in parties.names:
        parties.start(name)
    advance(parties, lambda: parties.loops["party-2"].position >= position)
    return parties


def copy_of(parties: Parties, name: str, to) -> None:
    """A backup of a store, taken while its process is stopped."""
    parties.end(name)
    to.mkdir(mode=0o700)
    for path in parties.store_path(name).parent.glob("store.sqlite*"):
        shutil.copy2(path, to / path.name)
    parties.start(name)


def put_back(parties: Parties, name: str, backup) -> None:
    parties.end(name)
    for path in parties.store_path(name).parent.glob("store.sqlite*"):
        path.unlink()
    for path in backup.glob("store.sqlite*"):
        shutil.copy2(path, parties.store_path(name).parent / path.name)


def test_a_store_that_was_set_back_sends_nothing_more(folder):
    parties = begun(folder)
    copy_of(parties, "party-2", folder / "backup")
    advance(parties, lambda: parties.loops["party-2"].position >= 5)
    put_back(parties, "party-2", folder / "backup")
    sent = len(parties.wires.sent)
    parties.start("party-2")
    with pytest.raises(RestoredBackup, match="with our own signature"):
        advance(parties, lambda: False)
    later = parties.wires.sent[sent:]
    assert all(blob[:1] == wire.HELLO for sender, _, blob in later if sender == "party-2")
    assert all(len(set(versions)) == 1 for versions in plaintexts(parties).values())


def test_others_refuse_a_store_that_was_set_back_even_if_it_would_go_on(folder, monkeypatch):
    parties = begun(folder)
    copy_of(parties, "party-2", folder / "backup")
    advance(parties, lambda: parties.loops["party-2"].position >= 5)
    put_back(parties, "party-2", folder / "backup")
    loop = parties.start("party-2")
    monkeypatch.setattr(loop._book, "look_back", lambda proofs: None)  # a party that does not listen to proofs
    told, stood = len(parties.logged), parties.loops["party-0"].position
    with pytest.raises(AssertionError, match="never came"):
        advance(parties, lambda: parties.loops["party-0"].position > stood + 1, steps=3_000)
    refusals = [(name, values["sender"]) for name, event, values in parties.logged[told:] if event == "refused"]
    assert {("party-0", "party-2"), ("party-1", "party-2")} <= set(refusals)


def test_a_second_process_on_the_same_store_is_refused(folder):
    parties = begun(folder)
    with pytest.raises(AnotherWriter):
        Store.open(parties.store_path("party-2"))


def test_a_second_process_on_a_copy_is_not_talked_to(folder):
    """Two copies of one store are started once each: others talk to the first, and refuse the second start of the same number."""
    parties = begun(folder, position=1)
    parties.end("party-2")
    (folder / "copy").mkdir(mode=0o700)
    for path in parties.store_path("party-2").parent.glob("store.sqlite*"):
        shutil.copy2(path, folder / "copy" / path.name)
    first = parties.start("party-2")
    advance(parties, lambda: first.phase != "greet")
    second_store = Store.open(folder / "copy" / "store.sqlite")
    second_store.boot(DIGEST)
    boot = bytes(32)
    session = Session(parties.identities["party-2"], parties.roster, DIGEST, RUN, parties.run_keys["party-2"], boot)
    hello = session.hello({"boot": second_store.boots(DIGEST), "taken": 0})
    parties.wires.send(
        "party-2", "party-0", wire.greeting(wire.Greeting(True, wire.UNKNOWN, first._book.proof, (), hello))
    )
    told = len(parties.logged)
    advance(parties, lambda: len(parties.logged) > told, names=["party-0"])
    name, event, values = parties.logged[told]
    assert (name, event, values["sender"], values["kind"]) == ("party-0", "refused", "party-2", "Equivocation")
    assert "runs twice" in values["reason"]
    second_store.close()


def test_a_neighbour_with_another_agreement_is_refused_in_words_before_anything_is_sent(folder):
    parties = Parties(folder, run_of("fixed links"))
    other = hashlib.sha256(b"another agreement").digest()
    parties.start("party-0")
    session = Session(parties.identities["party-1"], parties.roster, other, RUN, new_run_key(), bytes(32))
    shown = wire.Greeting(True, wire.UNKNOWN, parties.start("party-1")._book.proof, (), session.hello({"boot": 1}))
    parties.wires.send("party-1", "party-0", wire.greeting(shown))
    with pytest.raises(DifferentAgreement, match=r"Nothing was sent\. Compare the two files"):
        advance(parties, lambda: False, names=["party-0"])
    assert all(blob[:1] == wire.HELLO for _, _, blob in parties.wires.sent)


def test_on_a_full_disk_nothing_is_sent_and_the_run_goes_on_later(folder):
    parties = begun(folder)
    victim = parties.loops["party-2"]
    connection = parties.stores["party-2"]._database.connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    sent = len(parties.wires.sent)
    before = victim.position

    def fill(position, state, held, outgoing, run_keys, commit=victim._book.commit):
        commit(position, state, {**held, "more": np.zeros(200_000)}, outgoing, run_keys)

    victim._book.commit = fill
    with pytest.raises(StoreError):
        advance(parties, lambda: False)
    words = [blob for sender, _, blob in parties.wires.sent[sent:] if sender == "party-2" and blob[:1] != wire.HELLO]
    with Store.open(parties.store_path("party-2"), writer=False) as store:
        committed = store.run(DIGEST).position
    assert committed <= before + 1
    parties.end("party-2")
    parties.start("party-2")
    advance(parties, lambda: all(loop.phase in ("settle", "done") for loop in parties.loops.values()))
    assert all(len(set(versions)) == 1 for versions in plaintexts(parties).values())
    assert len(words) < 100


def test_words_from_somebody_who_is_not_expected_are_not_kept(folder):
    parties = begun(folder)
    loop = parties.loops["party-3"]  # its neighbours are 2 and 4
    told = len(parties.logged)
    loop._take_in(Heard("party-0", loop.position, bytes(24)))
    loop._take_in(Heard("party-2", 10_000, bytes(24)))
    reasons = [values["reason"] for _, event, values in parties.logged[told:] if event == "refused"]
    assert len(reasons) == 2
    assert all("nothing is expected" in reason for reason in reasons)


def play_on(parties: Parties, names: list[str], *, steps: int = 20_000) -> list[str]:
    """Let some parties go on, and return those that did not come to an end."""
    left = list(names)
    for _ in range(steps):
        parties.now += 0.002
        for name in [*left]:
            if parties.loops[name].advance(0.0):
                parties.end(name)
                left.remove(name)
        if not left:
            break
    return left


def test_neighbours_gone_in_the_last_exchange_are_served_when_they_come_back(folder):
    """All finish but one, which dies with the last words untaken; the others leave, and are started again for its sake."""
    parties = Parties(folder, run_of("fixed links", rounds=2))
    for name in parties.names:
        parties.start(name)
    advance(parties, lambda: parties.loops["party-3"].position == 1 and parties.loops["party-3"].phase == "hear")
    parties.end("party-3")
    others = [name for name in parties.names if name != "party-3"]
    waiting = play_on(parties, others, steps=4_000)
    assert waiting, "nobody waited for the one that died"
    for name in waiting:
        assert parties.loops[name].phase == "settle"
        parties.end(name)  # their time limit
    for name in (*waiting, "party-3"):
        parties.start(name)
    assert play_on(parties, [*waiting, "party-3"]) == []
    assert same(parties.models(), parties.played())


def test_a_greeting_is_taken_only_from_the_party_that_signed_it(folder):
    parties = begun(folder)
    blobs = {sender: blob for sender, _, blob in parties.wires.sent if blob[:1] == wire.HELLO}
    strange = wire.read_greeting(blobs["party-1"]).hello
    stands = parties.loops["party-2"]._book.proof
    mixed = wire.greeting(wire.read_greeting(blobs["party-2"])._replace(hello=strange, mine=stands))
    told = len(parties.logged)
    parties.wires.send("party-2", "party-0", mixed)
    advance(parties, lambda: not parties.wires.waiting["party-0"], names=["party-0"])
    refused = [
        (name, values["kind"])
        for name, event, values in parties.logged[told:]
        if (name, event) == ("party-0", "refused")
    ]
    assert refused == [("party-0", "WrongSender")]
