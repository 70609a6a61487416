"""`run_party` from beginning to end, among threads of this process."""

import json
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from deployment.agent.cases import LATTICE, PROBLEM
from deployment.agent.recursion import Rehearsal
from deployment.party.parties import DIGEST, RUN, Parties
from deployment.party.test_equivocation import claim_of, other_words
from deployment.party.test_loop import run_of
from sottovoce.deployment.agent import Wiring, own_of
from sottovoce.deployment.ledger import Ledger
from sottovoce.deployment.party import AgentWork, Operation, OthersMissing, Place, run_party
from sottovoce.deployment.party.evidence import parse_evidence
from sottovoce.deployment.party.post import Post
from sottovoce.deployment.privacy import Cost
from sottovoce.deployment.store import Store
from sottovoce.deployment.transports import MemoryNetwork
from sottovoce.errors import BudgetExhausted, CheatingProven, ConfigError


@pytest.fixture(autouse=True)
def _open_process(monkeypatch):
    """Leave the limits of the process that runs the tests as they are."""
    monkeypatch.setattr(sys.modules["sottovoce.deployment.party.run_party"], "keep_memory_private", lambda: None)


def live(
    parties: Parties,
    network,
    name: str,
    *,
    time_limit: float = 30,
    cost=None,
    seen=None,
    operation=None,
    work=AgentWork,
):
    """One party, through the function that the command calls."""
    number = parties.names.index(name)
    agreement = SimpleNamespace(
        digest=DIGEST,
        run=RUN,
        canonical=lambda: b"an agreement",
        time_limit=time_limit,
        dimension=parties.run.dimension,
        lost_neighbour="wait",
        continues=None,
    )
    wiring = Wiring(parties.run, LATTICE, parties.table)
    with Store.open(parties.store_path(name)) as store:
        place = Place(
            identity=parties.identities[name], roster=parties.roster, store=store, transport=network.transport(name),
            folder=parties.folder / name, trouble=lambda other: f"{other} does not answer", operation=operation or Operation(),
        )  # fmt: skip
        return run_party(
            agreement,
            place,
            lambda session: work(
                wiring, parties.names, number, own_of(PROBLEM, number), Rehearsal(parties.table, number)
            ),
            reserve=lambda: Ledger(store).reserve(
                RUN, DIGEST, cost or Cost.gaussian(0.5), unit="record", adjacency="replace", observer="all others"
            ),
            spent=lambda position: Cost.gaussian(0.1).describe(),
            progress=(lambda progress: None) if seen is None else seen.append,
        )


def test_all_parties_end_with_their_models_and_a_closed_run_is_only_read_back(folder):
    parties = Parties(folder, run_of("fixed links", rounds=3))
    network, served, seen = MemoryNetwork(parties.names), {}, []
    threads = [
        threading.Thread(target=lambda name=name: served.update({name: live(parties, network, name, seen=seen)}))
        for name in parties.names
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    expected = parties.played()
    assert {name: each.unacknowledged for name, each in served.items()} == dict.fromkeys(parties.names, ())
    assert all(np.array_equal(served[name].model, expected[name]) for name in parties.names)
    assert {progress.phase for progress in seen} >= {"hear", "done"}
    again = live(parties, network, "party-1")  # nobody else is there any more
    assert np.array_equal(again.model, expected["party-1"])
    measured = [json.loads(line) for line in (folder / "party-1" / "metrics.jsonl").read_text().splitlines()]
    assert [each["position"] for each in measured] == [0, 1, 2]
    events = [json.loads(line)["event"] for line in (folder / "party-1" / "log.jsonl").read_text().splitlines()]
    assert events[0] == "started"
    assert events[-2:] == ["stopped", "ended"]


def test_who_finds_a_cheat_keeps_the_evidence_and_does_not_go_on(folder, monkeypatch):
    parties = Parties(folder, run_of("fixed links", rounds=4))
    network, ends = MemoryNetwork(parties.names), {}
    send = Post._send_words

    def lie(post, receiver, position, words, **how):
        if (post._session.party, receiver, position) != ("party-0", "party-1", 1):
            return send(post, receiver, position, words, **how)
        claim, post._testimony.claim = post._testimony.claim, lambda p, w: claim_of(parties, "party-0", p, w)
        send(post, receiver, position, other_words(words), **how)
        post._testimony.claim = claim

    monkeypatch.setattr(Post, "_send_words", lie)

    def party(name: str) -> None:
        try:
            live(parties, network, name, time_limit=5)
        except (CheatingProven, OthersMissing) as end:
            ends[name] = end

    threads = [threading.Thread(target=party, args=(name,)) for name in parties.names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    found = [name for name, end in ends.items() if isinstance(end, CheatingProven)]
    assert found
    for name in found:
        evidence = parse_evidence((folder / name / "evidence-party-0-1.json").read_bytes())
        evidence.check()
        events = [json.loads(line) for line in (folder / name / "log.jsonl").read_text().splitlines()]
        assert any(each["event"] == "equivocation" and each["sender"] == "party-0" for each in events)
    network.carry = lambda sender, to, blob: pytest.fail("something was sent")
    with pytest.raises(CheatingProven, match="Models since exchange 1 are affected"):
        live(parties, network, found[0])


def test_who_waits_for_others_too_long_says_for_whom(folder):
    parties = Parties(folder, run_of("fixed links"))
    with pytest.raises(
        OthersMissing,
        match=r"Not heard of for 0\.1 seconds.*: party-2, party-4\. .*Not reached: party-2: party-2 does not answer",
    ):
        live(parties, MemoryNetwork(parties.names), "party-3", time_limit=0.1)
    with Store.open(parties.store_path("party-3")) as store:
        assert store.run(DIGEST).position == -1


def test_over_the_budget_not_even_a_greeting_is_sent(folder):
    parties = Parties(folder, run_of("fixed links"))
    network = MemoryNetwork(parties.names)
    network.carry = lambda sender, to, blob: pytest.fail("something was sent")
    with pytest.raises(BudgetExhausted):
        live(parties, network, "party-3", cost=Cost.gaussian(50.0))


def test_messages_that_no_blob_holds_are_refused_before_anything_is_sent(folder):
    parties = Parties(folder, run_of("fixed links"))
    with pytest.raises(ConfigError, match="this transport carries 100"):
        live(parties, MemoryNetwork(parties.names, max_blob=100), "party-3")


def test_a_cancelled_run_is_not_taken_up_again(folder):
    parties = Parties(folder, run_of("fixed links"))
    network = MemoryNetwork(parties.names)
    with pytest.raises(OthersMissing):
        live(parties, network, "party-3", time_limit=0.05)
    with Store.open(parties.store_path("party-3")) as store:
        Ledger(store).cancel(DIGEST)
    with pytest.raises(ConfigError, match="was cancelled in this store"):
        live(parties, network, "party-3")
