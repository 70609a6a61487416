"""Parties in one process for tests: real identities, sessions, stores and agents; the wires between them and the clock are the test's.

`Parties.play` lets one party after the other do what it can, in an order that a seed gives, and starts those again that a test let crash. What a
crash leaves is what a killed process leaves: the file of the store.
"""

import hashlib
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from deployment.agent.cases import LATTICE, PROBLEM, public_run
from deployment.agent.recursion import Rehearsal, Table
from sottovoce.deployment.agent import Wiring, own_of, play
from sottovoce.deployment.identity import Roster, Session, new_identity, new_run_key
from sottovoce.deployment.ledger import Ledger, create_ledger
from sottovoce.deployment.party import AgentWork, RelayWork
from sottovoce.deployment.party.book import Book
from sottovoce.deployment.party.loop import Loop, all_others
from sottovoce.deployment.party.neighbours import Neighbours
from sottovoce.deployment.party.post import Post
from sottovoce.deployment.party.testimony import Testimony
from sottovoce.deployment.privacy import Cost
from sottovoce.deployment.store import Store
from sottovoce.deployment.transports import Delivery

DIGEST = hashlib.sha256(b"an agreement").digest()
RUN = "a-run"


class Crash(Exception):
    """The end of a process."""


@dataclass
class Wires:
    """Blobs under way; some are lost or come twice, and all are kept for a test to look at."""

    chance: random.Random
    loss: float = 0.0
    twice: float = 0.0
    waiting: dict[str, list[Delivery]] = field(default_factory=dict)
    sent: list[tuple[str, str, bytes]] = field(default_factory=list)

    def send(self, sender: str, to: str, blob: bytes) -> None:
        self.sent.append((sender, to, blob))
        for probability in (1.0, self.twice):
            if self.chance.random() < probability and self.chance.random() >= self.loss and to in self.waiting:
                self.waiting[to].append(Delivery(sender, blob))


@dataclass
class Wire:
    """One party's end; waiting costs no time."""

    wires: Wires
    name: str
    max_blob: int = 2**30

    def open(self) -> None:
        self.wires.waiting[self.name] = []

    def send(self, to: str, blob: bytes) -> None:
        self.wires.send(self.name, to, blob)

    def recv(self, timeout: float) -> Delivery | None:
        waiting = self.wires.waiting[self.name]
        return waiting.pop(0) if waiting else None

    def busy(self, to: str) -> bool:
        return False

    def close(self) -> None:
        del self.wires.waiting[self.name]


class Parties:
    """All parties of one run; agents are called party-0, party-1, ..., a relay `relay`."""

    def __init__(
        self, folder: Path, run, *, seed: int = 0, loss: float = 0.0, twice: float = 0.0, problem=PROBLEM
    ) -> None:
        self.folder, self.run, self.chance, self.problem = folder, run, random.Random(seed), problem
        self.wires = Wires(self.chance, loss, twice)
        self.names = [f"party-{k}" for k in range(run.num_agents)] + (["relay"] if run.topology.relay else [])
        self.identities = {
            name: new_identity(name, folder / name, f"127.0.0.1:{9000 + k}", role=re.sub(r"party-\d+", "agent", name))
            for k, name in enumerate(self.names)
        }
        self.roster = Roster.of([identity.entry() for identity in self.identities.values()])
        self.table = Table(7, run.dimension, run.noise.law)
        self.run_keys: dict[str, bytes] = {}
        self.boots: dict[str, list[bytes]] = {name: [] for name in self.names}
        self.stores: dict[str, Store] = {}
        self.loops: dict[str, Loop] = {}
        self.logged: list[tuple[str, str, dict]] = []
        self.moments: list[tuple[str, str]] = []
        self.crash_at: Callable[[str, str], bool] = lambda name, moment: False
        self.now, self.crashes = 0.0, 0
        for name in self.names:
            create_ledger(self.store_path(name), name=name, unit="record", adjacency="replace", delta=1e-5, budget=10.0)

    def store_path(self, name: str) -> Path:
        return self.folder / name / "store.sqlite"

    def start(self, name: str) -> Loop:
        """Start the process of a party, for the first time or after a crash."""
        store = self.stores[name] = Store.open(self.store_path(name))
        if store.run(DIGEST) is None:
            reservation = Ledger(store).reserve(
                RUN, DIGEST, Cost.gaussian(0.5), unit="record", adjacency="replace", observer="all others"
            )
            self.run_keys[name] = new_run_key()
            store.begin_run(DIGEST, RUN, b"an agreement", reservation, self.run_keys[name])
        boot = self.chance.randbytes(32)
        self.boots[name].append(boot)
        session = Session(self.identities[name], self.roster, DIGEST, RUN, store.run(DIGEST).run_key, boot)
        wire = Wire(self.wires, name)
        wire.open()
        watch = SimpleNamespace(
            clock=lambda: self.now,
            moment=lambda moment: self._moment(name, moment),
            log=lambda event, **values: self.logged.append((name, event, values)),
        )
        work = self.work(name)
        spent = [Cost.gaussian(0.5 * ((p + 1) / work.end) ** 0.5).describe() for p in range(work.end)]
        book = Book(
            store,
            DIGEST,
            self.identities[name],
            self.roster,
            hears_first=work.hears_first,
            end=work.end,
            spent=spent.__getitem__,
        )
        session.remember(book.run_keys)
        neighbours = Neighbours(all_others(work, range(work.end)))
        post = Post(session, wire, neighbours, book, watch, Testimony(session, work, book.statements))
        self.loops[name] = Loop(work, book, post, watch, lambda position, seconds: None)
        return self.loops[name]

    def work(self, name: str):
        number = self.names.index(name)
        wiring = Wiring(self.run, LATTICE, self.table, relay_trusted=True)
        randomness = Rehearsal(self.table, number)
        if name == "relay":
            return RelayWork(wiring, self.names, randomness)
        return AgentWork(wiring, self.names, number, own_of(self.problem, number), randomness)

    def _moment(self, name: str, moment: str) -> None:
        self.moments.append((name, moment))
        if self.crash_at(name, moment):
            raise Crash

    def end(self, name: str) -> None:
        """What happens to a store whose process is killed: nothing more is written."""
        self.stores.pop(name)._database.close()
        self.loops.pop(name)
        self.wires.waiting.pop(name, None)

    def play(self, *, steps: int = 200_000) -> dict[str, np.ndarray]:
        """Let all parties run to the end, and return their models."""
        for name in self.names:
            self.start(name)
        left = set(self.names)
        for _ in range(steps):
            if not left:
                return self.models()
            self.now += 0.002
            name = self.chance.choice(sorted(left))
            try:
                if self.loops[name].advance(0.0):
                    self.end(name)
                    left.discard(name)
            except Crash:
                self.crashes += 1
                self.end(name)
                self.start(name)
        stuck = {name: (loop.phase, loop.position, loop.awaited()) for name, loop in self.loops.items()}
        raise AssertionError(f"stuck after {steps} steps: {stuck}")

    def models(self) -> dict[str, np.ndarray]:
        found = {}
        for name in self.names:
            with Store.open(self.store_path(name), writer=False) as store:
                found[name] = store.model(DIGEST)
        return found

    def played(self) -> dict[str, np.ndarray]:
        """What the same run gives in one process, without parties."""
        models = play(
            self.run, LATTICE, self.problem, lambda agent: Rehearsal(self.table, agent), self.table, relay_trusted=True
        )
        return dict(zip(self.names, [*models, np.zeros(0)], strict=False))


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    """Whether all models are the same, bit for bit."""
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


__all__ = ["DIGEST", "RUN", "Crash", "Parties", "Wire", "Wires", "public_run", "same"]
