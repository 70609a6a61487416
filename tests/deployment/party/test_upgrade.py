"""A party that is stopped, upgraded and started again in the middle of a run: same version of the messages, same models; another, one sentence."""

import importlib.metadata
import json
import sys
import threading
import time

import numpy as np
import pytest

from deployment.party.parties import DIGEST, RUN, Parties, same
from deployment.party.test_loop import run_of
from deployment.party.test_refusals import advance, begun, play_on
from deployment.party.test_run_party import live
from sottovoce.deployment.identity import Session, packing
from sottovoce.deployment.identity.refusals import DifferentVersion
from sottovoce.deployment.party import Operation, Stopped, read_status, wire
from sottovoce.deployment.store import Store
from sottovoce.deployment.transports import MemoryNetwork
from sottovoce.errors import ConfigError


def another_release(monkeypatch, version: str = "9.9.9") -> None:
    monkeypatch.setattr(importlib.metadata.Distribution, "version", property(lambda self: version))


def test_a_party_that_is_stopped_and_upgraded_in_the_middle_goes_on_to_the_same_models(folder, monkeypatch):
    monkeypatch.setattr(sys.modules["sottovoce.deployment.party.run_party"], "keep_memory_private", lambda: None)
    parties = Parties(folder, run_of("fixed links", rounds=40))
    network, served, ended = MemoryNetwork(parties.names), {}, []

    def committed() -> int:
        with Store.open(parties.store_path("party-1"), writer=False) as store:
            run = store.run(DIGEST)
            return -1 if run is None else run.position

    def first():
        seen = []
        asked = Operation(asked_to_stop=lambda: 15 * (bool(seen) and seen[-1].position >= 5))
        try:
            live(parties, network, "party-1", seen=seen, operation=asked)
        except Stopped as stopped:
            ended.append(stopped)

    def last(name):
        served[name] = live(parties, network, name)

    threads = [threading.Thread(target=last, args=(name,)) for name in parties.names if name != "party-1"]
    threads.append(threading.Thread(target=first))
    for thread in threads:
        thread.start()
    threads[-1].join(60)
    assert [stopped.exit_code for stopped in ended] == [143]
    assert 5 <= committed() < 40
    stood = read_status(folder / "party-1")
    assert stood["ended"]["how"] == "stopped"
    events = [json.loads(line) for line in (folder / "party-1" / "log.jsonl").read_text().splitlines()]
    assert [event["event"] for event in events[-2:]] == ["asked to stop", "ended"]
    another_release(monkeypatch)
    last("party-1")
    for thread in threads:
        thread.join(60)
    expected = parties.played()
    assert all(np.array_equal(served[name].model, expected[name]) for name in parties.names)
    again = read_status(folder / "party-1")
    assert (again["program"], again["ended"]["how"], again["standing"]["boots"]) == ("9.9.9", "done", 2)
    assert stood["program"] != "9.9.9"


def test_a_run_that_began_with_another_version_is_refused_before_anything_is_sent_and_the_others_wait(folder):
    parties = begun(folder)
    parties.end("party-2")
    sent = len(parties.wires.sent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "VERSION", 99)
        with pytest.raises(
            ConfigError, match=r"begun with version \d+ of the messages .* speaks version 99\. Nothing was sent"
        ):
            parties.start("party-2")
    assert len(parties.wires.sent) == sent
    store = parties.stores.pop("party-2")
    assert store.run(DIGEST).boots == 1, "a start that was refused is none"
    store._database.close()
    parties.wires.waiting.pop("party-2", None)
    for _ in range(100):
        parties.now += 0.05
        for loop in parties.loops.values():
            loop.advance(0.0)
    assert all(loop.phase in ("speak", "hear") for loop in parties.loops.values())
    parties.start("party-2")
    assert play_on(parties, list(parties.loops)) == []
    assert same(parties.models(), parties.played())


def hello_of(parties: Parties, name: str, version: int) -> bytes:
    """A greeting of a release with another version of the messages, signed by its party."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "VERSION", version)
        session = Session(parties.identities[name], parties.roster, DIGEST, RUN, parties.run_keys[name], bytes(32))
        hello = session.hello({"boot": 7, "taken": 0})
    proof = parties.loops[name]._book.proof
    return wire.greeting(wire.Greeting(True, wire.UNKNOWN, proof, (), hello))


def test_before_the_start_two_versions_refuse_each_other_in_one_sentence(folder):
    parties = Parties(folder, run_of("fixed links"))
    for name in ("party-0", "party-1"):
        parties.start(name)
    parties.wires.send("party-1", "party-0", hello_of(parties, "party-1", packing.VERSION + 1))
    with pytest.raises(DifferentVersion, match=rf"party-1 speaks version {packing.VERSION + 1} of the messages"):
        advance(parties, lambda: False, names=["party-0"])
    answers = [blob for sender, to, blob in parties.wires.sent if (sender, to) == ("party-0", "party-1")]
    assert answers, "the other end has to learn it too"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "VERSION", packing.VERSION + 1)
        with pytest.raises(DifferentVersion, match="party-0 speaks version"):
            advance(parties, lambda: False, names=["party-1"])
    assert all(blob[:1] == wire.HELLO for _, _, blob in parties.wires.sent)


def test_a_run_that_has_begun_refuses_the_other_version_answers_and_waits(folder):
    parties = begun(folder)
    told, sent = len(parties.logged), len(parties.wires.sent)
    parties.wires.send("party-1", "party-0", hello_of(parties, "party-1", packing.VERSION + 1))
    advance(parties, lambda: not parties.wires.waiting["party-0"], names=["party-0"])
    refused = [
        values["kind"] for name, event, values in parties.logged[told:] if (name, event) == ("party-0", "refused")
    ]
    assert refused == ["DifferentVersion"]
    assert ("party-0", "party-1", wire.HELLO) in {
        (sender, to, blob[:1]) for sender, to, blob in parties.wires.sent[sent:]
    }
    assert play_on(parties, list(parties.loops)) == []
    assert same(parties.models(), parties.played())


def test_a_version_that_somebody_on_the_way_wrote_stops_nobody(folder):
    parties = Parties(folder, run_of("fixed links"))
    for name in parties.names:
        parties.start(name)
    genuine = hello_of(parties, "party-1", packing.VERSION)
    hello = wire.read_greeting(genuine).hello
    changed = wire.greeting(wire.read_greeting(genuine)._replace(hello=hello[:1] + b"\x63" + hello[2:]))
    parties.wires.send("party-1", "party-0", changed)
    began = time.monotonic()
    assert play_on(parties, list(parties.loops)) == []
    assert ("party-0", "refused", "Forged") in {
        (name, event, values.get("kind")) for name, event, values in parties.logged
    }
    assert same(parties.models(), parties.played())
    assert time.monotonic() - began < 60
