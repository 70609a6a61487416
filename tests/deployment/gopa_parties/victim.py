"""A role of a run with GOPA as a process of its own, over gRPC or, where the folder has a relay.json, over a relay, which a test lets die at a moment of its choice.

It kills itself with SIGKILL at a moment such as "after commit 2", the third of that name ("": never). What it sends is written down before it is sent.
"""

import os
import signal
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

from deployment.agent.cases import PROBLEM
from deployment.gopa_parties.roles import LATTICE, public_run
from deployment.recorded import Recorded
from sottovoce.deployment.agent import Rehearsed, own_of
from sottovoce.deployment.gopa_parties import Records, run_gopa
from sottovoce.deployment.identity import load_identity, load_roster
from sottovoce.deployment.ledger import Ledger
from sottovoce.deployment.party import Place
from sottovoce.deployment.privacy import Cost
from sottovoce.deployment.store import Store
from sottovoce.deployment.terms import without_masks
from sottovoce.deployment.transports import direct, relayed  # noqa: F401  before processes are forked
from sottovoce.experiments.rehearsing.process import transport_of
from sottovoce.experiments.rehearsing.saved_draws import SavedDraws

DIGEST = bytes(range(32))
RUN = "a-run"
WHOLE = 0.8  # mu of all rounds


def agreement(roster, time_limit: int):
    order = ("agent", "board", "beacon")
    members = sorted(roster, key=lambda entry: (order.index(entry.role), entry.name))
    return SimpleNamespace(
        digest=DIGEST,
        run=RUN,
        canonical=lambda: b"an agreement",
        time_limit=time_limit,
        fraction_bits=LATTICE.fraction_bits,
        collude="all",
        members=[SimpleNamespace(name=e.name, role=e.role, key=e.identity_key.hex()) for e in members],
    )


def live(folder: Path, rounds: int, time_limit: int, name: str, moment: str) -> None:
    """Take part until the run is done, or until the moment to die."""
    run = public_run(rounds=rounds)
    identity, roster = load_identity(name, folder / name), load_roster(folder / "roster.json")
    agreed = agreement(roster, time_limit)
    counted: Counter[str] = Counter()

    def at(what: str) -> None:
        now = f"{what} {counted[what]}"
        counted[what] += 1
        with (folder / name / "moments.txt").open("a") as file:
            file.write(f"{now}\n")
        if now == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    records = None
    if identity.role == "agent":
        number = int(name[-1])
        draws = SavedDraws(folder / "draws", without_masks(run))
        records = Records(own_of(PROBLEM, number), Rehearsed(without_masks(run), LATTICE, draws, number))

    def reserve():
        cost = Cost.gaussian(WHOLE) if records else Cost.pure(0.0)
        return Ledger(store).reserve(RUN, DIGEST, cost, unit="agent", adjacency="replace", observer="all others")

    def spent(done):
        return (Cost.gaussian(WHOLE * (done / rounds) ** 0.5) if records else Cost.pure(0.0)).describe()

    with Store.open(folder / name / "store.sqlite") as store:
        transport = Recorded(transport_of(folder, identity, roster), name, folder / name / "blobs.jsonl")
        place = Place(identity=identity, roster=roster, store=store, transport=transport, folder=folder / name)
        run_gopa(agreed, run, place, records, reserve=reserve, spent=spent, moment=at)
