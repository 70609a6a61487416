"""Parties as processes over gRPC, killed with SIGKILL: before and after every commit, send and receipt, one by one, and at any time."""

import json
import multiprocessing
import os
import random
import signal
import socket
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from deployment.agent.cases import LATTICE, PROBLEM
from deployment.agent.recursion import Rehearsal, Table
from deployment.party.eavesdropper import plaintexts
from deployment.party.parties import DIGEST, same
from deployment.party.test_loop import run_of
from deployment.party.victim import live
from sottovoce.deployment.agent import play
from sottovoce.deployment.identity import Roster, new_identity
from sottovoce.deployment.ledger import create_ledger
from sottovoce.deployment.privacy import Cost
from sottovoce.deployment.store import Store

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not sys.platform.startswith("linux"), reason="processes are forked from one that has imported everything"
    ),
]
ROUNDS = 2
PATIENCE = 60.0


def free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    for each in held:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


@pytest.fixture(scope="module")
def forks():
    """Makes processes in a few milliseconds: from a server that has imported what they need, and has not opened anything."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]), prepend=os.pathsep)
        yield _started()


def _started():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["deployment.party.victim"])
    ready = context.Process(target=len, args=("",))
    ready.start()
    ready.join()
    return context


class Run:
    """One run of all parties as processes."""

    def __init__(self, folder: Path, shape: str, forks, rounds: int = ROUNDS) -> None:
        self.folder, self.shape, self.forks, self.rounds = folder, shape, forks, rounds
        folder.mkdir(mode=0o700, exist_ok=True)
        self.run = run_of(shape, rounds=rounds)
        self.names = [f"party-{k}" for k in range(self.run.num_agents)] + (["relay"] if self.run.topology.relay else [])
        self.identities = {}
        for name, port in zip(self.names, free_ports(len(self.names)), strict=True):
            role = "relay" if name == "relay" else "agent"
            self.identities[name] = new_identity(name, folder / name, f"127.0.0.1:{port}", role=role)
            create_ledger(self.store(name), name=name, unit="record", adjacency="replace", delta=1e-5, budget=10.0)
        self.roster = Roster.of([each.entry() for each in self.identities.values()])
        self.roster.save(folder / "roster.json")
        self.processes = {}

    def store(self, name: str) -> Path:
        return self.folder / name / "store.sqlite"

    def start(self, name: str, moment: str = "") -> None:
        arguments = (self.folder, self.shape, self.rounds, name, moment)
        self.processes[name] = self.forks.Process(target=live, args=arguments, daemon=True)
        self.processes[name].start()

    def wait(self, name: str) -> int:
        process = self.processes[name]
        process.join(PATIENCE)
        assert process.exitcode is not None, f"{name} is still there after {PATIENCE} s"
        return process.exitcode

    def end(self) -> None:
        for process in self.processes.values():
            if process.is_alive():
                process.kill()
            process.join()

    def models(self):
        found = {}
        for name in self.names:
            with Store.open(self.store(name), writer=False) as store:
                record = store.run(DIGEST)
                assert record.status == "closed"
                assert record.run_key is None
                assert Cost.parse(record.spent).value == pytest.approx(0.5)
                found[name] = store.model(DIGEST)
        return found

    def played(self):
        table = Table(7, self.run.dimension, self.run.noise.law)
        models = play(self.run, LATTICE, PROBLEM, lambda agent: Rehearsal(table, agent), table, relay_trusted=True)
        return {name: model for name, model in zip(self.names, models, strict=False)} | (
            {"relay": models[0][:0]} if "relay" in self.names else {}
        )

    def wire(self) -> SimpleNamespace:
        """What the eavesdropper needs: all blobs in the order of time, and the keys of all starts."""
        blobs, keys, boots = [], {}, {}
        for name in self.names:
            blobs += [json.loads(line) for line in (self.folder / name / "blobs.jsonl").read_text().splitlines()]
            starts = [line.split() for line in (self.folder / name / "starts.txt").read_text().splitlines()]
            boots[name] = [bytes.fromhex(boot) for boot, _ in starts]
            keys[name] = bytes.fromhex(starts[0][1])
            assert {key for _, key in starts} == {starts[0][1]}, "a second key of the run"
        sent = [(sender, to, bytes.fromhex(blob)) for _, sender, to, blob in sorted(blobs)]
        return SimpleNamespace(
            identities=self.identities, roster=self.roster, run_keys=keys, boots=boots, wires=SimpleNamespace(sent=sent)
        )

    def check(self) -> None:
        """Same models as without a network, everything erased, and one plaintext for each exchange."""
        assert same(self.models(), self.played())
        said = plaintexts(self.wire())
        assert len(said) >= self.run.end
        assert all(len(set(versions)) == 1 for versions in said.values())


def undisturbed_moments(folder: Path, shape: str, name: str, forks) -> list[str]:
    run = Run(folder, shape, forks)
    try:
        for each in run.names:
            run.start(each)
        assert [run.wait(each) for each in run.names] == [0] * len(run.names)
    finally:
        run.end()
    run.check()
    return (folder / name / "moments.txt").read_text().split("\n")[:-1]


def killed_at(folder: Path, shape: str, name: str, moment: str, forks) -> bool:
    """Kill a party at one of its moments, start it again, and check the run; returns whether that moment came."""
    run = Run(folder, shape, forks)
    try:
        for each in run.names:
            run.start(each, moment if each == name else "")
        code = run.wait(name)
        if code != 0:
            assert code == -signal.SIGKILL
            run.start(name)
            assert run.wait(name) == 0
        assert [run.wait(each) for each in run.names if each != name] == [0] * (len(run.names) - 1)
    finally:
        run.end()
    run.check()
    return code != 0


@pytest.mark.parametrize(
    ("shape", "name"), [("fixed links", "party-1"), ("one-way links", "party-0"), ("a relay", "relay")]
)
def test_killed_before_and_after_every_commit_send_and_receipt(shape, name, folder, forks):
    moments = undisturbed_moments(folder / "undisturbed", shape, name, forks)
    assert len(set(moments)) == len(moments)
    died = {moment for moment in moments if killed_at(folder / moment.replace(" ", "-"), shape, name, moment, forks)}
    always = {moment for moment in moments if not moment.startswith(("before ack", "after ack"))}
    assert len(always) >= 4 * ROUNDS + 2
    assert always <= died  # how many receipts are sent depends on who is faster
    assert len(died) >= 0.7 * len(moments)
    if shape == "one-way links":
        assert {"before ack 0", "after ack 0"} <= died


def test_killed_at_fifty_moments_chosen_by_chance(folder, forks):
    chance = random.Random(5)
    shapes = (
        "fixed links",
        "one pair at a time",
        "links that drop out",
        "a relay and few agents at a time",
        "two exchanges a round",
    )
    for number in range(10):
        run = Run(folder / str(number), shapes[number % len(shapes)], forks, rounds=12)
        kills = 0
        try:
            for name in run.names:
                run.start(name)
            while kills < 5:
                time.sleep(chance.uniform(0.05, 0.3))
                name = chance.choice(run.names)
                if run.processes[name].is_alive():
                    run.processes[name].kill()
                    run.processes[name].join()
                    kills += run.processes[name].exitcode == -signal.SIGKILL
                run.start(name)
            assert [run.wait(each) for each in run.names] == [0] * len(run.names)
        finally:
            run.end()
        run.check()
