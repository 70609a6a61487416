"""Operating a party by commands: its status while it runs, waits, is stopped or killed, is upgraded, and gets a new certificate."""

import datetime as dt
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from types import SimpleNamespace
from urllib.request import urlopen

import pytest

from cli.test_party import NAMES, free_ports, wards, words_of
from deployment.party.spilled import forms_of_bytes, forms_of_keys, forms_of_numbers, spilled
from deployment.party.test_onlooker import parsed
from sottovoce.deployment.identity import certificates, new_identity
from sottovoce.deployment.ledger import Ledger
from sottovoce.deployment.store import Store

__all__ = ["wards"]
LONG = ("experiment.rounds=400", "noise.std=4", "deployment.time_limit=120")
COMMAND = "from sottovoce.cli import main; main()"
UPGRADED = (
    "import importlib.metadata as m; m.Distribution.version = property(lambda self: '9.9.9' if self.name == 'sottovoce' "
    f"else self.metadata['Version']); {COMMAND}"
)


def digest_of(sottovoce, name: str, *more: str) -> str:
    return json.loads(sottovoce(*words_of(name, "--json"), *more).stdout)["digest"]


def test_where_no_party_is_it_says_what_to_give(sottovoce, wards):
    for words in ((), ("parties/none",), ("--store", "none.ledger"), ("--store", "east.ledger")):
        told = sottovoce("party", "status", *words)
        assert told.exit_code == 2, told.output
        assert told.stderr.startswith("sottovoce: ")


def test_the_digest_does_not_depend_on_the_release(sottovoce, wards, monkeypatch):
    before = digest_of(sottovoce, "east")
    monkeypatch.setattr(importlib.metadata.Distribution, "version", property(lambda self: "9.9.9"))
    assert digest_of(sottovoce, "east") == before


def test_health_that_others_could_reach_is_refused_before_anything_is_read(sottovoce, wards):
    told = sottovoce(*words_of("east", "--health", "0.0.0.0:9100"))
    assert told.exit_code == 2
    told = sottovoce(*words_of("east", "--health", "192.168.0.9:9100"))
    assert told.exit_code == 2
    assert "on loopback alone" in told.stderr


def test_an_expired_certificate_in_the_roster_is_refused_with_its_date_before_the_start(sottovoce, wards, monkeypatch):
    digest = digest_of(sottovoce, "east")
    earlier = SimpleNamespace(now=lambda zone: dt.datetime.now(zone) - dt.timedelta(days=40))
    with monkeypatch.context() as patch:
        patch.setattr(certificates, "dt", SimpleNamespace(datetime=earlier, timedelta=dt.timedelta, UTC=dt.UTC))
        expired = new_identity("west", wards / "expired", "127.0.0.1:7999", days=30).entry()
    members = json.loads((wards / "roster.json").read_text())
    members["entries"] = [each for each in members["entries"] if each["name"] != "west"] + [expired.as_json()]
    (wards / "roster.json").write_text(json.dumps(members))
    told = sottovoce(*words_of("east", "--accept", digest))
    assert told.exit_code == 2
    assert "The certificate of west has expired on" in told.stderr
    with Store.open(wards / "east.ledger") as store:
        assert store.runs() == []


def test_a_roster_with_another_member_is_refused_in_the_middle_of_a_run(sottovoce, wards):
    digest = digest_of(sottovoce, "east")
    renewed(sottovoce, "west")
    assert digest_of(sottovoce, "east") == digest, (
        "a new certificate of the same key changes nothing that was agreed on"
    )
    other = new_identity("west", wards / "other", "127.0.0.1:7999")
    members = json.loads((wards / "roster.json").read_text())
    members["entries"] = [each for each in members["entries"] if each["name"] != "west"] + [other.entry().as_json()]
    (wards / "roster.json").write_text(json.dumps(members))
    told = sottovoce(*words_of("east", "--accept", digest))
    assert told.exit_code == 2
    assert "is not the digest of what this file, this roster and this program resolve to" in told.stderr


class Processes:
    """Parties as processes, by the command that people type."""

    def __init__(self, folder, sottovoce) -> None:
        self.folder, self._sottovoce, self.running, self.shown = folder, sottovoce, {}, b""

    def start(self, name: str, *more: str, program: str = COMMAND) -> None:
        with (self.folder / f"{name}.err").open("ab") as err, (self.folder / f"{name}.out").open("ab") as out:
            self.running[name] = subprocess.Popen(
                [sys.executable, "-c", program, *words_of(name, *more)], cwd=self.folder, stdout=out, stderr=err, env=os.environ
            )  # fmt: skip

    def stop(self, name: str, number: int) -> int:
        self.running[name].send_signal(number)
        return self.running.pop(name).wait(60)

    def status(self, run: str, name: str) -> dict:
        told = self._sottovoce("party", "status", f"parties/{run}/{name}", "--json")
        assert told.exit_code == 0, told.output
        self.shown += told.stdout.encode()
        return json.loads(told.stdout)

    def until(self, run: str, name: str, holds, *, seconds: float = 90) -> dict:
        """The status, as soon as something is so."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if (self.folder / "parties" / run / name / "status.json").exists():
                value = self.status(run, name)
                if value["standing"] is not None and holds(value["standing"]):
                    return value
            time.sleep(0.3)
        raise AssertionError(f"{name} never came to that: {(self.folder / f'{name}.err').read_text()[-2000:]}")

    def done(self) -> None:
        for name, process in self.running.items():
            assert process.wait(120) == 0, (self.folder / f"{name}.err").read_text()[-2000:]
        self.running = {}


@contextmanager
def processes(folder, sottovoce):
    found = Processes(folder, sottovoce)
    try:
        yield found
    finally:
        for process in found.running.values():
            process.kill()
            process.wait(30)


def secrets_of(folder, name: str) -> set[bytes]:
    """What the store of a party holds at this moment, and its keys and records."""
    found = forms_of_keys(folder / f"keys-{name}")
    with Store.open(folder / f"{name}.ledger", writer=False) as store:
        found |= forms_of_bytes(store.secret())
        for run in store.runs():
            if run.run_key is not None:
                found |= forms_of_bytes(run.run_key)
            kept = store.current(run.digest)
            if kept is not None:
                for array in (kept.state, *(kept.held[each] for each in kept.held if each != "wire version")):
                    found |= forms_of_numbers(array)
            for outgoing in store.outgoing(run.digest):
                found |= forms_of_bytes(outgoing.payload)
    rows = (folder / f"{name}.csv").read_text().splitlines()[1:]
    return found | {"\n".join(rows[:3]).encode(), ",".join(row.split(",")[0] for row in rows[:6]).encode()}


@pytest.mark.slow
def test_parties_are_looked_at_stopped_killed_upgraded_and_renewed_in_the_middle_of_a_run(sottovoce, wards):
    digest, (port,) = digest_of(sottovoce, "east", *LONG), free_ports(1)
    accepted = ("--accept", digest, "--log-stderr", *LONG)
    with processes(wards, sottovoce) as run:
        run.start("east", *accepted, "--health", f"127.0.0.1:{port}")
        run.start("north", *accepted)
        greeting = run.until("wards-1", "east", lambda standing: standing["awaited"] == ["west"])
        assert (greeting["process_is"], greeting["standing"]["phase"]) == ("runs", "greet")
        assert greeting["ledger"]["committed"] == -1
        assert "no exchange committed" in sottovoce("party", "status", "parties/wards-1/east").stdout
        assert greeting["ledger"]["reserved"] > greeting["ledger"]["spent_meter"] == 0
        assert run.stop("north", signal.SIGINT) == 130  # while it greets
        run.start("north", *accepted)
        run.start("west", *accepted)
        run.until("wards-1", "east", lambda standing: standing["exchange"] >= 20)
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page:
            measured = parsed(page.read().decode())
        assert measured["sottovoce_neighbours_greeted"] == [("", 2.0)]
        assert urlopen(f"http://127.0.0.1:{port}/health", timeout=5).status == 200
        secrets = secrets_of(wards, "east")
        assert run.stop("west", signal.SIGKILL) == -signal.SIGKILL
        assert run.status("wards-1", "west")["process_is"] == "crashed"
        waiting = run.until("wards-1", "east", lambda standing: standing["missing"])
        assert waiting["standing"]["missing"][0]["party"] == "west"
        told = sottovoce("party", "status", "parties/wards-1/east")
        assert told.exit_code == 0, told.output
        words = " ".join(told.stdout.split())
        assert "waits for west" in words
        assert "west is missing at exchange" in words
        assert "spent so far (a meter)" in words
        assert max(map(len, told.stdout.splitlines())) <= 80
        every = sottovoce("party", "status")
        assert every.exit_code == 0
        assert max(map(len, every.stdout.splitlines())) <= 80
        secrets |= secrets_of(wards, "east")
        for name in ("east", "north"):
            assert run.stop(name, signal.SIGTERM) == 143  # while it waits
        assert (
            b"stopped by SIGTERM, with everything written down; the same command goes on"
            in (wards / "east.err").read_bytes()
        )
        assert run.status("wards-1", "east")["ended"]["how"] == "stopped"
        renewed(sottovoce, "west")
        secrets |= forms_of_keys(wards / "keys-west")
        for name in NAMES:
            run.start(name, *accepted, program=UPGRADED if name == "east" else COMMAND)
        run.done()
        ended = run.status("wards-1", "east")
        assert (ended["program"], ended["ended"]["how"], ended["ledger"]["state"]) == ("9.9.9", "done", "closed")
        renewed(sottovoce, "east")  # and a second run, with the same ledgers
        second = ("deployment.run=wards-2", "noise.std=4")
        assert digest_of(sottovoce, "east", *second) == digest_of(sottovoce, "north", *second) != digest
        for name in NAMES:
            run.start(name, "--accept", digest_of(sottovoce, "east", *second), *second)
        run.done()
        with Store.open(wards / "east.ledger", writer=False) as store:
            assert Ledger(store).totals().runs == 2
            model = set().union(*(forms_of_numbers(store.model(each.digest)) for each in store.runs()))
        shown = run.shown + b"".join(
            path.read_bytes() for name in NAMES for path in wards.glob(f"{name}.*") if path.suffix in (".out", ".err")
        )
    shown += b"".join(path.read_bytes() for path in (wards / "parties").rglob("*") if path.is_file())
    assert b'"event":"asked to stop"' in shown
    assert len(secrets) > 30
    assert spilled(secrets - model, shown) == []


def renewed(sottovoce, name: str) -> None:
    assert sottovoce("keys", "renew", name, "--folder", f"keys-{name}").exit_code == 0
    assert sottovoce("roster", "renew", f"keys-{name}/{name}.entry.json").exit_code == 0
