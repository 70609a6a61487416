"""Roles of GOPA as they are operated: asked to stop and started again, looked at, and with nothing secret in what is shown."""

import sys
import threading
import time
from contextlib import ExitStack

import numpy as np
import pytest

from deployment.agent.cases import PROBLEM
from deployment.gopa_parties.roles import AGENTS, LATTICE, SEED, public_run
from deployment.gopa_parties.victim import DIGEST, RUN, agreement
from deployment.party.spilled import everything_in, forms_of_bytes, forms_of_keys, forms_of_numbers, spilled
from deployment.transports.test_direct import free_ports
from sottovoce import simulation
from sottovoce.deployment.agent import Rehearsed, own_of
from sottovoce.deployment.gopa_parties import Records, run_gopa
from sottovoce.deployment.identity import Roster, new_identity
from sottovoce.deployment.ledger import Ledger, create_ledger
from sottovoce.deployment.party import Operation, Place, Stopped, read_status
from sottovoce.deployment.party.journal import LOG, METRICS
from sottovoce.deployment.party.standing import STATUS
from sottovoce.deployment.privacy import Cost
from sottovoce.deployment.store import Store
from sottovoce.deployment.terms import without_masks
from sottovoce.deployment.transports import GrpcTransport

ROUNDS = 3


class Roles:
    """All roles of one run, each a thread with gRPC, a store and a log of its own."""

    def __init__(self, folder, monkeypatch) -> None:
        monkeypatch.setattr(
            sys.modules["sottovoce.deployment.gopa_parties.run_gopa"], "keep_memory_private", lambda: None
        )
        self.folder, self.run, self.secrets, self.ended = folder, public_run(rounds=ROUNDS), set(), {}
        self.names = [*(f"agent-{n}" for n in range(AGENTS)), "board", "beacon"]
        self.identities = {
            name: new_identity(name, folder / name, f"127.0.0.1:{port}", role=name.split("-")[0])
            for name, port in zip(self.names, free_ports(len(self.names)), strict=True)
        }
        self.roster = Roster.of([each.entry() for each in self.identities.values()])
        for name in self.names:
            create_ledger(self.path(name), name=name, unit="agent", adjacency="replace", delta=1e-5, budget=10.0)
        plain = without_masks(self.run)
        parts = PROBLEM, plain.topology, plain.algorithm, plain.noise
        self.draws = simulation.drawn(*parts, rounds=ROUNDS, seed=SEED, fraction_bits=LATTICE.fraction_bits)
        self.threads, self.asked = {}, dict.fromkeys(self.names, 0)

    def path(self, name):
        return self.folder / name / "store.sqlite"

    def start(self, name, health="") -> None:
        self.threads[name] = threading.Thread(target=self._live, args=(name, health))
        self.threads[name].start()

    def join(self, *names) -> None:
        for name in names:
            self.threads[name].join(60)
            assert not self.threads[name].is_alive(), name

    def _live(self, name, health) -> None:
        with ExitStack() as stack:
            store = stack.enter_context(Store.open(self.path(name)))
            place = Place(
                identity=self.identities[name], roster=self.roster, store=store, folder=self.folder / name,
                transport=GrpcTransport(self.identities[name], self.roster),
                operation=Operation(health=health, asked_to_stop=lambda: self.asked[name]),
            )  # fmt: skip
            records, cost = None, Cost.pure(0.0)
            if name.startswith("agent"):
                number = int(name[-1])
                drawn = Rehearsed(without_masks(self.run), LATTICE, self.draws, number)
                records, cost = Records(own_of(PROBLEM, number), drawn), Cost.gaussian(0.5)
            try:
                self.ended[name] = run_gopa(
                    agreement(self.roster, 40), self.run, place, records,
                    reserve=lambda: Ledger(store).reserve(RUN, DIGEST, cost, unit="agent", adjacency="replace", observer="all others"),
                    spent=lambda rounds: cost.describe(), moment=lambda moment: self._note(store),
                )  # fmt: skip
            except Stopped as stopped:
                self.ended[name] = stopped

    def _note(self, store) -> None:
        """Take down what the store keeps at this moment: keys, states, what was said and will be."""
        record, kept = store.run(DIGEST), store.current(DIGEST)
        if record.run_key is not None:
            self.secrets |= forms_of_bytes(record.run_key)
        if kept is not None:
            for array in (kept.state, *(value for name, value in kept.held.items() if name != "wire version")):
                self.secrets |= {form for form in forms_of_numbers(np.asarray(array)) if len(form) >= 32}


@pytest.fixture
def roles(tmp_path, monkeypatch):
    tmp_path.chmod(0o700)
    return Roles(tmp_path, monkeypatch)


def test_roles_that_are_asked_to_stop_go_on_later_and_show_no_secret(roles):
    folder = roles.folder
    for name in ("board", "agent-0", "agent-1"):
        roles.start(name)
    until = time.monotonic() + 30
    waiting = {}
    while time.monotonic() < until and len(waiting.get("awaited", ())) != 3:
        time.sleep(0.2)
        waiting = read_status(folder / "board")["standing"] or {}
    assert sorted(waiting["awaited"]) == ["agent-2", "agent-3", "agent-4"]
    heard = {other["name"]: other["heard"] for other in waiting["others"]}
    assert heard["agent-0"] is not None
    assert heard["agent-4"] is None
    for name in ("board", "agent-0"):
        roles.asked[name] = 15  # while others are missing
    roles.join("board", "agent-0")
    assert {name: roles.ended[name].exit_code for name in ("board", "agent-0")} == {"board": 143, "agent-0": 143}
    assert read_status(folder / "board")["ended"]["how"] == "stopped"
    roles.asked = dict.fromkeys(roles.names, 0)
    for name in roles.names:
        if name != "agent-1":
            roles.start(name)
    roles.join(*roles.names)
    models = [roles.ended[f"agent-{n}"].model for n in range(AGENTS)]
    assert all(np.array_equal(model, models[0]) for model in models)
    for name in roles.names:
        status = read_status(folder / name)
        assert status["ended"]["how"] == "done"
        assert status["standing"]["sent_bytes"] > 1000
        assert status["standing"]["boots"] == (2 if name in ("board", "agent-0") else 1)
        roles.secrets |= forms_of_keys(folder / name)
        with Store.open(roles.path(name), writer=False) as store:
            roles.secrets |= forms_of_bytes(store.secret())
    shown = everything_in(folder, (LOG, METRICS, STATUS))
    assert b'"event":"round"' in shown
    assert len(roles.secrets) > 100
    assert spilled(roles.secrets - forms_of_numbers(models[0]), shown) == []
