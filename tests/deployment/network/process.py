"""A party as a process over links that a test has in its hands; it says in a table that all can read how far it is.

    table    [parties, 3] float64: exchanges that are committed; when the last one was; when this start was ready to greet  (monotonic clock)
    memory.jsonl    every few exchanges of a process: its number, exchanges since its start, KB

The run is a ring of agents with linear regression, whose random numbers follow from a seed, so that every run of a plan ends with the same models.
"""

import json
import os
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import numpy as np

import sottovoce as sv
from deployment.agent.recursion import Rehearsal, Table
from deployment.network.rough import Rough
from deployment.party.parties import DIGEST, RUN
from sottovoce.deployment.agent import Wiring, own_of, play
from sottovoce.deployment.identity import Roster, load_identity, load_roster
from sottovoce.deployment.integers import Lattice
from sottovoce.deployment.ledger import Ledger
from sottovoce.deployment.party import AgentWork, Place, Progress, memory_kb, run_party
from sottovoce.deployment.privacy import Cost
from sottovoce.deployment.relays import load_relay
from sottovoce.deployment.store import Store
from sottovoce.deployment.terms import PublicRun
from sottovoce.deployment.transports import GrpcTransport, NatsTransport, Transport

LATTICE = Lattice(24)
COST = 0.5  # mu of the whole run
COMMITTED, AT, READY = range(3)  # columns of the table
TABLE, ROSTER, RELAY = "table.bin", "roster.json", "relay"
EVERY = 20  # exchanges between two looks at the memory


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What all processes of a run are told.

    Attributes:
        folder: of the run; each party has its own in it.
        agents: how many parties.
        dimension: of the model.
        rounds: of the run, one exchange each.
        seed: of all random numbers of the run.
        ports: (who, whom) -> the port on loopback where it is reached; left out: as the roster says.
        twice: probability that a blob is sent twice.
        late: probability that a blob is overtaken by others.
        transport: grpc or nats.
        time_limit: seconds after which a party that hears nothing gives up.
    """

    folder: Path
    agents: int = 5
    dimension: int = 3
    rounds: int = 6
    seed: int = 7
    ports: dict[tuple[str, str], int] = field(default_factory=dict)
    twice: float = 0.0
    late: float = 0.0
    transport: Literal["grpc", "nats"] = "grpc"
    time_limit: int = 60

    @property
    def names(self) -> list[str]:
        """All parties."""
        return [f"party-{k}" for k in range(self.agents)]

    @property
    def run(self) -> PublicRun:
        """Its public parts."""
        return PublicRun(
            topology=sv.topologies.ring(self.agents),
            algorithm=sv.algorithms.atc(step_size=0.05),
            noise=sv.noise.independent(sv.noise.Gaussian(std=0.1)),
            rounds=self.rounds,
            batch_size=None,
            initial_model=np.linspace(-0.3, 0.3, self.dimension),
        )

    def problem(self):
        """Linear regression, with records of different numbers."""
        draw = np.random.default_rng(self.seed)
        features = [draw.normal(size=(8 + k, self.dimension)) for k in range(self.agents)]
        targets = [x @ np.ones(self.dimension) + draw.normal(size=len(x)) for x in features]
        return sv.problems.linear_regression(features, targets, ridge=0.1)

    def draws(self) -> Table:
        """The random numbers of all."""
        return Table(self.seed, self.dimension, self.run.noise.law)

    def table(self) -> np.ndarray:
        """[agents, 3] what processes say about themselves, shared by all."""
        return np.memmap(self.folder / TABLE, dtype=np.float64, mode="r+", shape=(self.agents, 3))

    def played(self) -> dict[str, np.ndarray]:
        """The models of the run without a network."""
        table = self.draws()
        models = play(self.run, LATTICE, self.problem(), lambda agent: Drawn(table, agent), table)
        return dict(zip(self.names, models, strict=True))


class Drawn(Rehearsal):
    """Random numbers of one party, without a list of what was asked, which would grow with the run."""

    def _once(self, *question) -> None:
        pass


def spent(plan: Plan, position: int):
    """What the meter says after an exchange."""
    return Cost.gaussian(COST * ((position + 1) / plan.run.end) ** 0.5).describe()


def live(plan: Plan, name: str) -> None:
    """Take part until the run is done."""
    number, run, table, draws = plan.names.index(name), plan.run, plan.table(), plan.draws()
    own = plan.folder / name
    identity, roster = load_identity(name, own), load_roster(plan.folder / ROSTER)
    agreement = SimpleNamespace(
        digest=DIGEST,
        run=RUN,
        canonical=lambda: b"an agreement",
        time_limit=plan.time_limit,
        lost_neighbour="wait",
        dimension=run.dimension,
    )

    def work_of(session):
        work = AgentWork(
            Wiring(run, LATTICE, draws), plan.names, number, own_of(plan.problem(), number), Drawn(draws, number)
        )
        table[number, READY] = time.monotonic()
        return work

    def reserve():
        return Ledger(store).reserve(
            RUN, DIGEST, Cost.gaussian(COST), unit="record", adjacency="replace", observer="all others"
        )

    with Store.open(own / "store.sqlite") as store:
        transport = connected(plan, identity, roster)
        place = Place(identity=identity, roster=roster, store=store, transport=transport, folder=own)
        served = run_party(
            agreement,
            place,
            work_of,
            reserve=reserve,
            spent=lambda position: spent(plan, position),
            progress=Reports(own / "memory.jsonl", table[number], run.end),
        )
    assert served.unacknowledged == (), served


def connected(plan: Plan, identity, roster: Roster) -> Transport:
    """The transport of a party, which reaches others by the links of the plan."""
    if plan.transport == "nats":
        relay = load_relay(plan.folder / RELAY / "relay.json")
        port = plan.ports[identity.name, RELAY]
        return roughened(
            plan, identity.name, NatsTransport(identity, roster, replace(relay, address=f"127.0.0.1:{port}"))
        )
    reached = Roster(
        tuple(
            replace(entry, address=f"127.0.0.1:{plan.ports[identity.name, entry.name]}")
            if (identity.name, entry.name) in plan.ports
            else entry
            for entry in roster
        )
    )
    return roughened(plan, identity.name, GrpcTransport(identity, reached))


def roughened(plan: Plan, name: str, transport: Transport) -> Transport:
    """The transport, with whatever the plan does to blobs."""
    if plan.twice or plan.late:
        seed = plan.seed + 100 * plan.names.index(name)
        return Rough(transport, seed=seed, twice=plan.twice, late=plan.late)
    return transport


class Reports:
    """Writes down how far a process is, and what memory it has."""

    def __init__(self, path: Path, row: np.ndarray, end: int) -> None:
        self._path, self._row, self._end = path, row, end
        self._first: float | None = None
        self._looked = -1

    def __call__(self, progress: Progress) -> None:
        if progress.phase == "greet":
            return
        committed = self._committed(progress)
        if committed > self._row[COMMITTED]:
            self._row[AT] = time.monotonic()
            self._row[COMMITTED] = committed
        self._first = committed if self._first is None else self._first
        since = int(committed - self._first)
        if since // EVERY > self._looked:
            self._looked = since // EVERY
            with self._path.open("a", encoding="ascii") as file:
                file.write(json.dumps({"pid": os.getpid(), "since": since, **memory_kb()}) + "\n")

    def _committed(self, progress: Progress) -> int:
        """How many exchanges an agent has in its store: it hears the words of one that it has written down."""
        if progress.phase in ("settle", "done", "finish"):
            return self._end
        return progress.position + (progress.phase == "hear")
