"""One of the parties of `six_processes.py`, as a process: `python benchmarks/six_party.py FOLDER NAME linear|network`.

It is told the names of combinations, one a line, and answers each with a line of JSON when it has played it. A party with a linear model cannot
import JAX: every attempt raises.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

MODELS = ("linear", "network")


class Blocked:
    """An importer that refuses JAX."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Raise for JAX, and leave everything else to others."""
        if name.partition(".")[0] in ("jax", "jaxlib"):
            raise ImportError(f"{name} is blocked here: a party with a linear model does without")


if __name__ == "__main__" and sys.argv[3] == "linear":
    sys.meta_path.insert(0, Blocked())  # type: ignore[arg-type]

import numpy as np  # noqa: E402  the block comes first
from six_combinations import FRACTION_BITS, NAMES, RELAY, Combination, candidates, networks, problem_of  # noqa: E402

from sottovoce.deployment.agent import Rehearsed, RehearsedCoin, Wiring, own_of  # noqa: E402
from sottovoce.deployment.identity import Session, load_identity, load_roster  # noqa: E402
from sottovoce.deployment.integers import Lattice  # noqa: E402
from sottovoce.deployment.ledger import Ledger  # noqa: E402
from sottovoce.deployment.party import AgentWork, Place, RelayWork, Work, run_party  # noqa: E402
from sottovoce.deployment.privacy import Cost  # noqa: E402
from sottovoce.deployment.store import Reservation, Store  # noqa: E402
from sottovoce.errors import SottovoceError  # noqa: E402
from sottovoce.experiments.rehearsing.process import transport_of  # noqa: E402
from sottovoce.experiments.rehearsing.saved_draws import SavedDraws  # noqa: E402

DRAWS, KEYS, RECORDS, ROSTER, STORE = "draws", "keys", "records.npz", "roster.json", "store.sqlite"


def draws_of(folder: Path, number: int) -> Path:
    """Where the random numbers of a combination are, by its place in the list that is played."""
    return folder / DRAWS / str(number)


class Party:
    """One party with its store, which has one run per combination."""

    def __init__(self, folder: Path, name: str, store: Store) -> None:
        self.folder, self.name, self.store = folder, name, store
        self.identity, self.roster = load_identity(name, folder / name / KEYS), load_roster(folder / ROSTER)

    def play(self, one: Combination, number: int) -> None:
        """Take part in one run, from the first greeting to the last receipt."""
        agreed, ledger = one.agreement(self.roster), Ledger(self.store)
        cost = Cost.infinite()  # numbers that follow from a seed protect nothing

        def reserve() -> Reservation:
            terms = agreed.protection
            return ledger.reserve(
                agreed.run, agreed.digest, cost, unit=terms.unit, adjacency=terms.adjacency, observer="everybody"
            )

        place = Place(
            identity=self.identity,
            roster=self.roster,
            store=self.store,
            transport=transport_of(self.folder, self.identity, self.roster),
            folder=self.folder / self.name,
        )
        served = run_party(
            agreed,
            place,
            lambda session: self._work(one, number, session),
            reserve=reserve,
            spent=lambda position: cost.describe(),
        )
        if served.unacknowledged:
            raise SottovoceError(f"{', '.join(served.unacknowledged)} left before everything was acknowledged")

    def _work(self, one: Combination, number: int, session: Session) -> Work:
        run, lattice = one.public_run(), Lattice(FRACTION_BITS)
        draws = SavedDraws(draws_of(self.folder, number), run)
        wiring = Wiring(run, lattice, RehearsedCoin(run, draws), relay_trusted=True)
        if self.name == RELAY:
            return RelayWork(wiring, one.parties, Rehearsed(run, lattice, draws, wiring.relay))
        agent = NAMES.index(self.name)
        with np.load(self.folder / self.name / RECORDS, allow_pickle=False) as kept:
            own = own_of(problem_of([(kept["features"], kept["targets"])], network=one.network))
        return AgentWork(wiring, one.parties, agent, own, Rehearsed(run, lattice, draws, agent))


def jax_is_refused() -> bool:
    """Whether an import of JAX raises here."""
    try:
        import jax  # noqa: F401
    except ImportError:
        return True
    return False


def tell(**values: Any) -> None:
    """Say something to whoever started this process."""
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def main(folder: Path, name: str, model: str) -> int:
    """Play what is asked for until nothing more is."""
    known = {one.name: one for one in (networks() if model == "network" else candidates())}
    with Store.open(folder / name / STORE) as store:
        party = Party(folder, name, store)
        tell(ready=name, jax_refused=model == "linear" and jax_is_refused())
        for line in sys.stdin:
            asked, begun = json.loads(line), time.monotonic()
            try:
                party.play(known[asked["combination"]], asked["number"])
            except SottovoceError as error:
                tell(error=f"{type(error).__name__}: {error}")
                return 2
            tell(seconds=time.monotonic() - begun, jax="jax" in sys.modules)
    return 0


if __name__ == "__main__":
    code = main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
    sys.stdout.flush()
    os._exit(code)  # the store is closed; gRPC would take a second to put its threads away
