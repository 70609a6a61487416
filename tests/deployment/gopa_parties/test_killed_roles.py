"""Agents, board and beacon as processes over gRPC, killed with SIGKILL before and after what they write and send."""

import json
import multiprocessing
import os
import signal
import socket
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import sottovoce as sv
from deployment.agent.cases import PROBLEM
from deployment.gopa_parties.roles import AGENTS, LATTICE, SEED, public_run
from deployment.gopa_parties.victim import DIGEST, WHOLE, agreement, live
from sottovoce.deployment.agent import Rehearsed, final_model, own_of
from sottovoce.deployment.gopa import Kind, Message, open_message
from sottovoce.deployment.gopa_parties import contribution, moved, plan_of
from sottovoce.deployment.gopa_parties.value import first_state
from sottovoce.deployment.identity import Roster, new_identity
from sottovoce.deployment.ledger import create_ledger
from sottovoce.deployment.privacy import Cost
from sottovoce.deployment.store import Store
from sottovoce.deployment.terms import without_masks
from sottovoce.experiments.rehearsing.saved_draws import SavedDraws, save_draws

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not sys.platform.startswith("linux"), reason="processes are forked from one that has imported everything"
    ),
]
ROUNDS, PATIENCE, UNITS = 2, 120.0, 4.0
EVERYBODY = frozenset(range(AGENTS))


@pytest.fixture(scope="module")
def forks():
    """Makes processes in a few milliseconds: from a server that has imported what they need, and has not opened anything."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]), prepend=os.pathsep)
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["deployment.gopa_parties.victim"])
        ready = context.Process(target=len, args=("",))
        ready.start()
        ready.join()
        yield context


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """(a folder with the integers that a simulation drew, the model that it ends with)."""
    folder, run = tmp_path_factory.mktemp("simulated"), without_masks(public_run(rounds=ROUNDS))
    known = {"rounds": ROUNDS, "seed": SEED, "fraction_bits": LATTICE.fraction_bits}
    parts = PROBLEM, run.topology, run.algorithm, run.noise
    save_draws(sv.simulation.drawn(*parts, **known), run, folder / "draws")
    found = sv.simulate(
        *parts, **known, dtype="float64", draws="sources", start=run.initial_model, record=(), progress=False
    )
    return folder / "draws", np.asarray(found.models)[0][0]


class Run:
    """One run of all roles as processes."""

    def __init__(self, folder: Path, forks, draws: Path, time_limit: int = 80) -> None:
        self.folder, self.forks, self.time_limit = folder, forks, time_limit
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / "draws").symlink_to(draws)
        self.names = [*(f"agent-{n}" for n in range(AGENTS)), "board", "beacon"]
        with_ports = zip(self.names, free_ports(len(self.names)), strict=True)
        entries = []
        for name, port in with_ports:
            role = name.split("-")[0]
            entries.append(new_identity(name, folder / name, f"127.0.0.1:{port}", role=role).entry())
            create_ledger(self.store(name), name=name, unit="agent", adjacency="replace", delta=1e-5, budget=10.0)
        self.roster = Roster.of(entries)
        self.roster.save(folder / "roster.json")
        self.processes = {}

    def store(self, name: str) -> Path:
        return self.folder / name / "store.sqlite"

    def start(self, name: str, moment: str = "", days: int = 0) -> None:
        arguments = (self.folder, ROUNDS, self.time_limit, name, moment, days)
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

    def models(self, counted: list[frozenset[int]]) -> dict[str, np.ndarray]:
        """What all agents ended with; who was in all sums has spent what was reserved."""
        found = {}
        for name in self.names[:AGENTS]:
            with Store.open(self.store(name), writer=False) as store:
                record = store.run(DIGEST)
                assert record.status == "closed"
                assert record.run_key is None
                assert store.current(DIGEST) is None
                spent = Cost.parse(record.spent).value
                assert spent <= WHOLE * (1 + 1e-9)
                if all(int(name[-1]) in parties for parties in counted):
                    assert spent == pytest.approx(WHOLE)
                found[name] = store.model(DIGEST)
        return found

    def counted(self, name: str) -> list[frozenset[int]]:
        """Who was in the sum of each round, as one agent has read it."""
        lines = [json.loads(line) for line in (self.folder / name / "log.jsonl").read_text().splitlines()]
        found = {line["number"]: frozenset(line["parties"]) for line in lines if line["event"] == "round"}
        return [found[number] for number in sorted(found)]

    def said(self, name: str) -> Iterator[Message]:
        """Every message of rounds that left a role, as often as it did."""
        for line in (self.folder / name / "blobs.jsonl").read_text().splitlines():
            blob = bytes.fromhex(json.loads(line)[3])
            if blob[:1] in (b"M", b"H"):
                yield open_message(blob[1:])

    def replayed(self, counted: list[frozenset[int]]) -> np.ndarray:
        """The model when these agents are in the sums, in plain integers and without any protocol."""
        run = public_run(rounds=ROUNDS)
        plan = plan_of(run, agreement(self.roster, self.time_limit))
        draws = SavedDraws(self.folder / "draws", without_masks(run))
        state = first_state(plan)
        for round_, parties in enumerate(counted, start=1):
            made = [
                contribution(
                    plan, n, own_of(PROBLEM, n), state, round_, Rehearsed(without_masks(run), LATTICE, draws, n)
                )
                for n in sorted(parties)
            ]
            units = sum(one.value + one.own_noise for one in made)
            state = moved(plan, state, round_, _Sum(units * LATTICE.unit / len(parties)))
        return final_model(without_masks(run), LATTICE, state)

    def check(self, counted: list[frozenset[int]] | None = None) -> None:
        """Everybody has the model of these sums, and nobody said anything in two versions."""
        wanted = [EVERYBODY] * ROUNDS if counted is None else counted
        models = self.models(wanted)
        assert self.counted("agent-0") == wanted
        expected = self.replayed(wanted)
        assert all(np.array_equal(model, expected) for model in models.values())
        said = defaultdict(set)
        for name in self.names:
            for message in self.said(name):
                said[name, message.run, message.kind].add((message.reference, message.payload))
        assert len(said) >= ROUNDS * (3 * AGENTS + 1) - 2 * sum(len(EVERYBODY - parties) for parties in wanted)
        assert all(len(versions) == 1 for versions in said.values())
        assert sum(kind is Kind.PUBLISH for _, _, kind in said) >= sum(map(len, wanted))


class _Sum:
    def __init__(self, mean: np.ndarray) -> None:
        self.mean = mean


def free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    for each in held:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


def finished(run: Run, *, killed: str, moment: str) -> bool:
    """Kill a role at one of its moments, start it again, and wait for the end; whether that moment came."""
    try:
        for each in run.names:
            run.start(each, moment if each == killed else "")
        code = run.wait(killed)
        if code != 0:
            assert code == -signal.SIGKILL
            run.start(killed)
            assert run.wait(killed) == 0
        assert [run.wait(each) for each in run.names if each != killed] == [0] * (len(run.names) - 1)
    finally:
        run.end()
    return code != 0


def test_seven_processes_end_with_the_model_of_the_simulation(tmp_path, forks, simulated):
    draws, model = simulated
    run = Run(tmp_path / "run", forks, draws)
    assert not finished(run, killed="agent-0", moment="")
    run.check()
    assert np.abs(run.models([EVERYBODY] * ROUNDS)["agent-0"] - model).max() / LATTICE.unit < UNITS
    moments = (tmp_path / "run" / "agent-0" / "moments.txt").read_text().split("\n")[:-1]
    assert [each for each in moments if "commit" in each] == [
        f"{when} commit {number}" for number in range(3 * ROUNDS) for when in ("before", "after")
    ]


@pytest.mark.parametrize("when", ["before commit", "after commit", "before send", "after send"])
def test_an_agent_killed_before_it_is_ready_changes_nothing(when, tmp_path, forks, simulated):
    """Killed around registration, and before it has written down that it is ready."""
    died = []
    for number in (0, 3, 4) if when == "before commit" else (0, 3):
        run = Run(tmp_path / str(number), forks, simulated[0])
        died.append(finished(run, killed="agent-2", moment=f"{when} {number}"))
        run.check()
    assert all(died)


@pytest.mark.parametrize("moment", ["after commit 4", "before send 4", "after send 4", "before commit 5", "after commit 5", "before send 5", "after send 5"])  # fmt: skip
def test_an_agent_killed_once_it_is_ready_is_at_worst_left_out_of_that_sum(moment, tmp_path, forks, simulated):
    run = Run(tmp_path / "run", forks, simulated[0], time_limit=12)
    assert finished(run, killed="agent-2", moment=moment)
    counted = run.counted("agent-0")
    # What was sent may have arrived, and then the round went on without a gap.
    allowed = [[EVERYBODY, EVERYBODY - {2}]] + [[EVERYBODY] * ROUNDS] * ("after send" in moment)
    assert counted in allowed
    run.check(counted)
    published = {message.round_number for message in run.said("agent-2") if message.kind is Kind.PUBLISH}
    assert published == {1, 2} if moment == "after send 5" else published == {1}


@pytest.mark.parametrize("when", ["before finish 0", "after finish 0"])
def test_an_agent_killed_at_the_end_has_its_model(when, tmp_path, forks, simulated):
    run = Run(tmp_path / "run", forks, simulated[0], time_limit=16)
    assert finished(run, killed="agent-2", moment=when)
    run.check()


@pytest.mark.parametrize("name", ["board", "beacon"])
@pytest.mark.parametrize("when", ["before commit", "after commit"])
def test_board_and_beacon_killed_go_on_with_what_they_have_written(name, when, tmp_path, forks, simulated):
    for number in range(0, 8, 2) if name == "board" else range(ROUNDS):
        run = Run(tmp_path / str(number), forks, simulated[0])
        assert finished(run, killed=name, moment=f"{when} {number}")
        run.check()


@pytest.mark.parametrize(
    ("jumps", "silent"),
    [
        ({"agent-2": "after commit 4"}, {2}),  # it was ready and has not published
        ({"agent-2": "after commit 3", "board": "after commit 1", "beacon": "after commit 1", "agent-4": "after send 2"}, set()),
    ],
)  # fmt: skip
@pytest.mark.parametrize("days", [1, -1])
def test_clocks_that_jump_by_a_day_leave_at_most_one_sum_without_them(jumps, silent, days, tmp_path, forks, simulated):
    run = Run(tmp_path / "run", forks, simulated[0], time_limit=12)
    try:
        for each in run.names:
            run.start(each, jumps.get(each, ""), days if each in jumps else 0)
        assert [run.wait(each) for each in run.names] == [0] * len(run.names)
    finally:
        run.end()
    run.check([EVERYBODY, EVERYBODY - silent])
    log = [json.loads(line) for line in (run.folder / "agent-2" / "log.jsonl").read_text().splitlines()]
    reasons = [line["reason"] for line in log if line["event"] == "silent"]
    assert len(reasons) == len(silent)
    assert all("The clock was set or the machine slept" in reason for reason in reasons)


def test_an_agent_that_does_not_return_is_left_out_of_a_repaired_sum(tmp_path, forks, simulated):
    """It dies in the last round, ready but not published, and finds the model of the others when it comes back."""
    run = Run(tmp_path / "run", forks, simulated[0], time_limit=12)
    try:
        for each in run.names:
            run.start(each, "before commit 5" if each == "agent-2" else "")
        assert run.wait("agent-2") == -signal.SIGKILL
        for name in run.names[:2]:
            assert run.wait(name) == 0
        time.sleep(1.0)
        run.start("agent-2")
        assert [run.wait(each) for each in run.names] == [0] * len(run.names)
    finally:
        run.end()
    with Store.open(run.store("agent-2"), writer=False) as store:
        late = store.model(DIGEST)
    counted = run.counted("agent-0")
    assert counted == [EVERYBODY, EVERYBODY - {2}]
    assert run.counted("agent-2")[-1] == EVERYBODY - {2}
    assert np.array_equal(late, run.replayed(counted))
