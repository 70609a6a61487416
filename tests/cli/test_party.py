"""`sottovoce party run`: nobody takes part without having seen what it costs, and nothing is sent that the ledger does not allow."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from sottovoce.deployment.identity import Roster, load_identity, load_roster, new_identity
from sottovoce.deployment.ledger import Ledger, create_ledger
from sottovoce.deployment.party import Place
from sottovoce.deployment.privacy import Cost
from sottovoce.deployment.store import Store
from sottovoce.errors import BudgetExhausted, ConfigError
from sottovoce.experiments import prepare_joining, read, take_part

FILE = """
[experiment]
name = "wards"
rounds = 6
[topology]
kind = "complete"
agents = 3
[problem]
kind = "logistic_regression"
data = "all.csv"
owner = "ward"
target = "ill"
positive = "yes"
ridge = 0.01
bounds = { age = [0, 100], pulse = [40, 180] }
[algorithm]
kind = "atc"
step_size = 0.5
[noise]
kind = "independent"
law = "gaussian"
std = 0.5
self_noise = true
[privacy]
unit = "record"
clip = 0.5
clip_norm = "l2"
delta = 1e-5
observers = ["eavesdropper"]
[deployment]
run = "wards-1"
roster = "roster.json"
records = { east = 40, north = 40, west = 40 }
time_limit = 60
"""
NAMES = ("east", "north", "west")


class NoLine:
    """A transport of a machine that is not connected."""

    def open(self):
        raise ConnectionError

    def close(self):
        pass


def free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    for each in held:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


@pytest.fixture
def wards(tmp_path):
    """Three wards with keys, a roster, records of their own and ledgers."""
    tmp_path.chmod(0o700)
    (tmp_path / "wards.toml").write_text(FILE)
    entries = []
    for number, (name, port) in enumerate(zip(NAMES, free_ports(3), strict=True)):
        entries.append(new_identity(name, tmp_path / f"keys-{name}", f"127.0.0.1:{port}").entry())
        generator = np.random.default_rng(number)
        ages = generator.integers(1, 99, 40)
        rows = [f"{age},{generator.integers(50, 150)},{'yes' if age > 50 else 'no'}" for age in ages]
        (tmp_path / f"{name}.csv").write_text("age,pulse,ill\n" + "\n".join(rows) + "\n")
        create_ledger(
            tmp_path / f"{name}.ledger", name=name, unit="record", adjacency="replace", delta=1e-5, budget=20.0
        )
    Roster.of(entries).save(tmp_path / "roster.json")
    return tmp_path


def words_of(name: str, *more: str) -> list[str]:
    return ["party", "run", "wards.toml", "--data", f"{name}.csv", "--as", name, "--keys", f"keys-{name}", "--store", f"{name}.ledger", *more]  # fmt: skip


def test_without_acceptance_it_shows_what_there_is_to_accept_and_nothing_happens(sottovoce, wards):
    told = sottovoce(*words_of("east"))
    words = " ".join(told.stdout.split())
    assert told.exit_code == 2, told.output
    assert re.search(r"what it costs epsilon \d+\.\d+ at delta = 1e-05", words)
    assert "all other agents together" in words
    assert "each party its own model, nobody any other" in words
    assert re.search(r"epsilon 0 before, \d+\.\d+ after, of 20", words)
    assert "Compare the digest with the other parties" in words
    assert all(len(line) <= 80 for line in told.stdout.splitlines() if "--accept" not in line)
    with Store.open(wards / "east.ledger") as store:
        assert store.runs() == []
        assert len(Ledger(store).entries()) == 1


def test_whoever_is_asked_reads_whom_the_guarantee_trusts(sottovoce, wards):
    def shown(*more):
        return " ".join(sottovoce(*words_of("east"), *more).stdout.split())

    assert "who is trusted nobody" in shown()
    assert "who is trusted all but 1 of the others, not to put together" in shown("deployment.collude=1")
    relay = new_identity("relay", wards / "keys-relay", "127.0.0.1:7443", role="relay").entry()
    Roster.of([*load_roster(wards / "roster.json").entries, relay]).save(wards / "roster.json")
    federation = ("topology.kind=federation", "algorithm.kind=fedavg", "noise.self_noise=~", "privacy.observers=~")
    assert "who is trusted nobody" in shown(*federation)
    trusted = shown(*federation, "noise.kind=central", "deployment.relay=trusted")
    assert "who is trusted the relay: it reads all that this party sends, before any noise" in trusted
    assert "reads all messages" not in trusted, "the trusted relay reads them, and nothing is promised against it"


def test_a_key_that_the_roster_does_not_list_is_refused_before_anybody_is_asked(sottovoce, wards):
    new_identity("east", wards / "other", "127.0.0.1:7443")
    told = sottovoce(*words_of("east", "--keys", "other"))
    assert told.exit_code == 2
    assert "lists another certificate of east" in told.stderr
    assert not told.stdout


def test_all_parties_are_shown_the_same_digest(sottovoce, wards):
    digests = {json.loads(sottovoce(*words_of(name, "--json")).stdout)["digest"] for name in NAMES}
    assert len(digests) == 1
    changed = json.loads(sottovoce(*words_of("east", "--json"), "noise.std=0.4").stdout)["digest"]
    assert changed not in digests


def test_another_digest_is_not_what_was_accepted(sottovoce, wards):
    told = sottovoce(*words_of("east", "--accept", "0" * 64))
    assert told.exit_code == 2
    assert "is not the digest of what this file, this roster and this program resolve to" in told.stderr
    assert not (wards / "parties").exists()


def test_a_folder_that_cannot_be_is_refused_before_anything_is_reserved(sottovoce, wards, monkeypatch):
    digest = json.loads(sottovoce(*words_of("east", "--json")).stdout)["digest"]
    (wards / "closed").mkdir()
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: not (mode & os.W_OK) and allowed(path, mode))
    for out in ("east.csv", "east.csv/below", "closed"):
        told = sottovoce(*words_of("east", "--accept", digest, "--out", out))
        assert told.exit_code == 2, told.output
        assert "cannot be a folder of results" in told.stderr
    with Store.open(wards / "east.ledger") as store:
        assert store.runs() == []


def test_over_the_budget_nothing_is_sent(sottovoce, wards):
    digest = json.loads(sottovoce(*words_of("east", "--json"), "noise.std=0.005").stdout)["digest"]
    for more in ([], ["--accept", digest]):
        told = sottovoce(*words_of("east", *more), "noise.std=0.005")
        assert told.exit_code == 3, told.output
        assert "above its budget of 20" in told.stderr
        assert "--accept" not in told.stdout, "nobody is told to accept what the ledger refuses"
    with Store.open(wards / "east.ledger") as store:
        assert store.runs() == []


def test_what_is_missing_is_said(sottovoce, wards):
    assert "needs --keys and --store" in sottovoce("party", "run", "wards.toml", "--as", "east").stderr
    (wards / "east.ledger").unlink()
    told = sottovoce(*words_of("east"))
    assert told.exit_code == 2
    assert "sottovoce ledger create east.ledger -u record -a replace -d 1e-05" in told.stderr
    assert "No such command 'stop'" in sottovoce("party", "stop", "wards.toml").stderr
    assert (
        "learns from its own records"
        in sottovoce(*[w for w in words_of("west") if w not in ("--data", "west.csv")]).stderr
    )


def test_a_party_with_fewer_records_than_agreed_is_refused(sottovoce, wards):
    lines = (wards / "east.csv").read_text().splitlines()
    (wards / "east.csv").write_text("\n".join(lines[:30]) + "\n")
    assert "counts on at least 40 records of east, and its file has 29" in sottovoce(*words_of("east")).stderr


def test_a_run_goes_on_with_the_records_with_which_it_began_and_no_others(wards):
    """With more records than agreed a run costs less, and so much is reserved; with fewer after a crash it would cost more than the ledger says."""
    data, members = wards / "east.csv", load_roster(wards / "roster.json")
    few, many = data.read_text(), "".join(data.read_text().splitlines(keepends=True)[1:]) * 9

    def joined():
        return prepare_joining(read(wards / "wards.toml"), members, "east", data)

    with Store.open(wards / "east.ledger") as store:
        identity = load_identity("east", wards / "keys-east")
        place = Place(identity=identity, roster=members, store=store, transport=NoLine(), folder=wards)
        data.write_text(few + many)  # ten times what was agreed on
        with pytest.raises(ConnectionError):
            take_part(joined(), place, data=data)
        reserved = Ledger(store).totals().reserved
        data.write_text(few)
        assert joined().deployed.cost.epsilon(1e-5) > 5 * reserved
        with pytest.raises(ConfigError, match=r"'wards-1' began with another file than .*east\.csv is now"):
            take_part(joined(), place, data=data)
        assert Ledger(store).totals().reserved == reserved
        store.give_up(joined().agreement.digest)
        with pytest.raises(ConfigError, match="'wards-1' was erased in this store"):
            take_part(joined(), place, data=data)


def test_a_file_that_is_exchanged_after_it_was_read_does_not_lend_a_run_its_digest(wards):
    """The ledger says which records a run may go on with: those that it learnt from, not those that lay at the same place a moment later."""
    data, members = wards / "east.csv", load_roster(wards / "roster.json")
    first = data.read_text()

    def joined():
        return prepare_joining(read(wards / "wards.toml"), members, "east", data)

    with Store.open(wards / "east.ledger") as store:
        identity = load_identity("east", wards / "keys-east")
        place = Place(identity=identity, roster=members, store=store, transport=NoLine(), folder=wards)
        begun = joined()
        data.write_text(first.replace("yes", "no"))
        with pytest.raises(ConnectionError):
            take_part(begun, place, data=data)
        with pytest.raises(ConfigError, match="began with another file"):
            take_part(joined(), place, data=data)
        data.write_text(first)
        with pytest.raises(ConnectionError):  # the records with which it began
            take_part(joined(), place, data=data)


def test_a_run_does_not_go_on_when_it_is_found_to_cost_more_than_was_reserved(wards):
    """As after an upgrade that mends an account: what is guaranteed is the reservation, and it would be too small."""
    data, members = wards / "east.csv", load_roster(wards / "roster.json")
    joining = prepare_joining(read(wards / "wards.toml"), members, "east", data)
    dearer = replace(joining.deployed, cost=Cost.gaussian(1.01 * joining.deployed.cost.value))
    with Store.open(wards / "east.ledger") as store:
        identity = load_identity("east", wards / "keys-east")
        place = Place(identity=identity, roster=members, store=store, transport=NoLine(), folder=wards)
        for _ in range(2):  # begun, and gone on with
            with pytest.raises(ConnectionError):
                take_part(joining, place, data=data)
        with pytest.raises(BudgetExhausted, match="was reserved for the run 'wards-1' when it began"):
            take_part(replace(joining, deployed=dearer), place, data=data)


@pytest.mark.slow
def test_three_parties_learn_together_and_the_ledgers_say_so(sottovoce, wards):
    digest = json.loads(sottovoce(*words_of("east", "--json")).stdout)["digest"]
    processes = {
        name: subprocess.Popen(
            [sys.executable, "-c", "from sottovoce.cli import main; main()", *words_of(name, "--accept", digest, "--json")],
            cwd=wards, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ,
        )
        for name in NAMES
    }  # fmt: skip
    for name, process in processes.items():
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        value = json.loads(out)
        assert value["releasable"] is False
        assert value["unacknowledged"] == []
        kept = json.loads((wards / value["folder"] / "model.json").read_text())
        assert kept["releasable"] is False
        assert "not for release" in kept["why"]
        (wards / "new.csv").write_text("age,pulse\n70,90\n")
        told = sottovoce("predict", value["folder"], "new.csv", "--out", f"{name}-answers.csv").stdout
        assert "simulated" not in told
        assert "for those alone who have it" in " ".join(told.split())
        with Store.open(wards / f"{name}.ledger", writer=False) as store:
            assert [run.status for run in store.runs()] == ["closed"]
            totals = Ledger(store).totals()
            assert totals.runs == 1
            assert 0 < totals.spent <= totals.reserved * (1 + 1e-9) <= 20.0
    again = sottovoce(*words_of("east", "--accept", digest))
    assert again.exit_code == 0, again.output


@pytest.mark.slow
def test_two_wards_finish_without_the_third_that_is_killed_for_good(sottovoce, wards):
    agreed = (
        "deployment.lost_neighbour=exclude", "deployment.minimum_agents=2", "deployment.exclude_after=3", "experiment.rounds=400", "noise.std=4",
    )  # fmt: skip
    asked = sottovoce(*words_of("east"), *agreed)
    assert "after 3 s of silence the others go on without it" in " ".join(asked.stdout.split())
    digest = json.loads(sottovoce(*words_of("east", "--json"), *agreed).stdout)["digest"]
    processes = {
        name: subprocess.Popen(
            [sys.executable, "-c", "from sottovoce.cli import main; main()", *words_of(name, "--accept", digest, "--json"), *agreed],
            cwd=wards, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ,
        )
        for name in NAMES
    }  # fmt: skip
    log = wards / "parties" / "wards-1" / "west" / "metrics.jsonl"
    until = time.monotonic() + 90
    while time.monotonic() < until and not (log.exists() and log.stat().st_size > 0):
        time.sleep(0.05)
    processes["west"].kill()
    processes["west"].communicate()
    models = []
    for name in ("east", "north"):
        out, err = processes[name].communicate(timeout=120)
        assert processes[name].returncode == 0, err
        models.append((wards / json.loads(out)["folder"] / "model.safetensors").read_bytes())
        with Store.open(wards / f"{name}.ledger", writer=False) as store:
            assert len(store.runs()) == 2
            totals = Ledger(store).totals()
            assert totals.runs == 1
            assert totals.spent == pytest.approx(totals.reserved, rel=1e-6)
        events = [
            json.loads(line) for line in (wards / "parties/wards-1" / name / "log.jsonl").read_text().splitlines()
        ]
        assert [event["without"] for event in events if event["event"] == "goes on"] == [["west"]]
    again = sottovoce(*words_of("east", "--accept", digest), *agreed)
    assert again.exit_code == 0, again.output
