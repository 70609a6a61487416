"""Nothing secret in what a party shows of itself: logs, measures, status, health, metrics, output; over gRPC, with every secret of the run known."""

import base64
import io
import re
import sys
import threading
import time
from urllib.request import urlopen

import numpy as np
import pytest

from deployment.agent.cases import PROBLEM
from deployment.party.parties import DIGEST, Parties
from deployment.party.spilled import everything_in, forms_of_bytes, forms_of_keys, forms_of_numbers, spilled
from deployment.party.test_loop import run_of
from deployment.party.test_run_party import live
from deployment.transports.test_direct import free_ports
from sottovoce.deployment.agent import own_of
from sottovoce.deployment.identity import Roster, Session, renew_identity
from sottovoce.deployment.party import AgentWork, Operation
from sottovoce.deployment.party.journal import LOG, METRICS, Journal
from sottovoce.deployment.party.standing import STATUS
from sottovoce.deployment.store import Store
from sottovoce.deployment.transports import GrpcTransport

SHOWN = (LOG, METRICS, STATUS)


class Wires:
    """Real gRPC between the parties of one process."""

    def __init__(self, parties: Parties) -> None:
        ports = free_ports(len(parties.names))
        for name, port in zip(parties.names, ports, strict=True):
            parties.identities[name] = renew_identity(name, parties.folder / name, address=f"127.0.0.1:{port}")
        parties.roster = Roster.of([each.entry() for each in parties.identities.values()])
        self._parties = parties

    def transport(self, name: str) -> GrpcTransport:
        return GrpcTransport(self._parties.identities[name], self._parties.roster)


def telling(secrets: set[bytes]):
    """The work of an agent, all secrets of which are taken down on the way."""

    class Telling(AgentWork):
        def prepare(self, position, state, held, heard):
            spoken = super().prepare(position, state, held, heard)
            for array in (state, spoken.state, *spoken.held.values(), *spoken.words.values()):
                secrets.update(forms_of_numbers(np.asarray(array)))
            return spoken

        def take(self, position, state, held, heard):
            taken = super().take(position, state, held, heard)
            secrets.update(forms_of_numbers(np.asarray(taken)))
            return taken

    return Telling


def pages(port: int, stop: threading.Event) -> bytes:
    """What health and metrics say as long as they are there."""
    seen = b""
    while not stop.is_set():
        for page in ("health", "metrics"):
            try:
                with urlopen(f"http://127.0.0.1:{port}/{page}", timeout=5) as answer:
                    seen += answer.read()
            except OSError:
                continue
        time.sleep(0.05)
    return seen


@pytest.fixture
def run(folder, monkeypatch, capfd):
    """(what was shown, every secret) of a run of five parties over gRPC."""
    monkeypatch.setattr(sys.modules["sottovoce.deployment.party.run_party"], "keep_memory_private", lambda: None)
    parties, secrets, streams = Parties(folder, run_of("fixed links", rounds=12)), set(), io.StringIO()
    wires, (port,), stop, seen = Wires(parties), free_ports(1), threading.Event(), []
    keys = {}
    fresh = sys.modules["sottovoce.deployment.party.run_party"].new_run_key
    monkeypatch.setattr(
        sys.modules["sottovoce.deployment.party.run_party"], "new_run_key", lambda: keys.setdefault(len(keys), fresh())
    )
    greet = Session.greet

    def greeted(self, *given):
        hello = greet(self, *given)
        secrets.update(forms_of_bytes(self.pair_key(hello.party)))
        return hello

    monkeypatch.setattr(Session, "greet", greeted)
    source = parties.table.source

    def drawn(*address):
        secrets.update(forms_of_numbers(found := source(*address)))
        return found

    monkeypatch.setattr(parties.table, "source", drawn)
    reading = threading.Thread(target=lambda: seen.append(pages(port, stop)))
    threads = [
        threading.Thread(
            target=live,
            args=(parties, wires, name),
            kwargs={
                "work": telling(secrets),
                "operation": Operation(health=f"127.0.0.1:{port}" if name == "party-0" else "", log_to=streams),
            },
        )
        for name in parties.names
    ]
    for thread in (reading, *threads):
        thread.start()
    for thread in threads:
        thread.join(90)
    stop.set()
    reading.join(30)
    for name in parties.names:
        secrets |= forms_of_keys(folder / name)
        with Store.open(parties.store_path(name), writer=False) as store:
            secrets |= forms_of_bytes(store.secret())
            model = forms_of_numbers(store.model(DIGEST))
    assert len(keys) == len(parties.names)
    for key in keys.values():
        secrets |= forms_of_bytes(key)
    for number in range(len(parties.names)):
        for part in own_of(PROBLEM, number).data:
            secrets |= forms_of_numbers(np.asarray(part))
    out, err = capfd.readouterr()
    shown = everything_in(folder, SHOWN) + b"".join(seen) + streams.getvalue().encode() + (out + err).encode()
    return shown, secrets - model, folder


def test_nothing_that_a_party_shows_of_itself_is_secret_and_the_search_finds_what_is_planted(run):
    shown, secrets, folder = run
    assert len(secrets) > 500
    for word in (
        b'"event":"started"',
        b'"phase":"done"',
        b"sottovoce_sent_bytes_total",
        b'"status": "ok"',
        b'"resends"',
    ):
        assert re.sub(rb"\s", b"", word) in re.sub(rb"\s", b"", shown), "nothing was shown"
    assert spilled(secrets, shown) == []
    rest = sorted(secrets)[:: max(1, len(secrets) // 20)]
    for secret in rest:  # whatever of it somebody logs by mistake is found
        journal = Journal(folder / "planted")
        journal.log("planted", value=secret.decode("latin-1"))
        journal.close()
        assert spilled([secret, *forms_of_bytes(secret)], everything_in(folder / "planted", SHOWN))
        (folder / "planted" / LOG).unlink()


@pytest.mark.parametrize("shift", range(7))
def test_the_search_finds_bytes_however_they_are_written(shift):
    secret = bytes(range(100, 132))
    around = bytes(shift) + secret + b"more"
    for text in (around, around.hex().encode(), base64.b64encode(around), base64.urlsafe_b64encode(around)):
        assert spilled(forms_of_bytes(secret), b"{" + text + b"}")
    assert spilled(forms_of_numbers(np.array([-12345678901234567, 3])), b"[1, -12345678901234567]")
    assert not spilled(forms_of_bytes(secret), bytes(range(90, 131)))
