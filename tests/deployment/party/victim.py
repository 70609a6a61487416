"""A party as a process of its own, over gRPC or, where the folder has a relay.json, over a relay, which a test lets die at a moment of its choice.

It kills itself with SIGKILL at a moment such as "after commit 2", the third of that name ("": never). For the eavesdropper it writes down every blob before it is sent, its key
of the run and the fresh bytes of every start.
"""

import hashlib
import os
import signal
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

from deployment.agent.cases import LATTICE, PROBLEM
from deployment.agent.recursion import Rehearsal, Table
from deployment.party.test_loop import run_of
from deployment.recorded import Recorded
from sottovoce.deployment.agent import Wiring, own_of
from sottovoce.deployment.identity import load_identity, load_roster
from sottovoce.deployment.ledger import Ledger
from sottovoce.deployment.party import AgentWork, Place, RelayWork, run_party
from sottovoce.deployment.privacy import Cost
from sottovoce.deployment.store import Store
from sottovoce.deployment.transports import direct, relayed  # noqa: F401  before processes are forked
from sottovoce.experiments.rehearsing.process import transport_of

DIGEST = hashlib.sha256(b"an agreement").digest()
RUN = "a-run"


def live(folder: Path, shape: str, rounds: int, name: str, moment: str) -> None:
    """Take part until the run is done, or until the moment to die."""
    run = run_of(shape, rounds=rounds)
    identity, roster = load_identity(name, folder / name), load_roster(folder / "roster.json")
    names = [
        *sorted(entry.name for entry in roster if entry.role == "agent"),
        *(e.name for e in roster if e.role == "relay"),
    ]
    number, table = names.index(name), Table(7, run.dimension, run.noise.law)
    agreement = SimpleNamespace(
        digest=DIGEST, run=RUN, canonical=lambda: b"an agreement", time_limit=60, dimension=run.dimension
    )
    wiring = Wiring(run, LATTICE, table, relay_trusted=True)
    counted: Counter[str] = Counter()

    def at(what: str) -> None:
        now = f"{what} {counted[what]}"
        counted[what] += 1
        with (folder / name / "moments.txt").open("a") as file:
            file.write(f"{now}\n")
        if now == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    def work_of(session):
        with (folder / name / "starts.txt").open("a") as file:
            file.write(f"{session.boot.hex()} {session._run_key.private_bytes_raw().hex()}\n")
        if name == "relay":
            return RelayWork(wiring, names, Rehearsal(table, number))
        return AgentWork(wiring, names, number, own_of(PROBLEM, number), Rehearsal(table, number))

    def reserve():
        return Ledger(store).reserve(
            RUN, DIGEST, Cost.gaussian(0.5), unit="record", adjacency="replace", observer="all others"
        )

    with Store.open(folder / name / "store.sqlite") as store:
        transport = Recorded(transport_of(folder, identity, roster), name, folder / name / "blobs.jsonl")
        place = Place(identity=identity, roster=roster, store=store, transport=transport, folder=folder / name)
        spent = [Cost.gaussian(0.5 * ((p + 1) / run.end) ** 0.5).describe() for p in range(run.end)]
        served = run_party(agreement, place, work_of, reserve=reserve, spent=spent.__getitem__, moment=at)
    assert served.unacknowledged == (), served
