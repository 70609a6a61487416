"""One party of a rehearsal, as a process: `python -m sottovoce.experiments.rehearsing.process FOLDER NAME`.

It reads what the rehearsal prepared in the folder, takes part like any party, and writes a line of JSON on its output from time to time.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from sottovoce.deployment.agent import Rehearsed, RehearsedCoin
from sottovoce.deployment.identity import Identity, Roster, load_identity, load_roster
from sottovoce.deployment.integers import Lattice
from sottovoce.deployment.party import Place, Progress, memory_kb
from sottovoce.deployment.store import Store
from sottovoce.deployment.terms import without_masks
from sottovoce.deployment.transports import Transport
from sottovoce.errors import SottovoceError
from sottovoce.experiments.config.toml_file import parse
from sottovoce.experiments.joining import Joining, prepare_joining, take_part
from sottovoce.experiments.rehearsing.saved_draws import SavedDraws

CONFIG, ROSTER, STORE, KEYS, DRAWS = "config.json", "roster.json", "store.sqlite", "keys", "draws"
RELAY = "relay.json"  # where the folder has it, parties talk over the relay that it names
_PAUSE = 0.2  # seconds between two lines


def main(folder: Path, name: str) -> int:
    """Take part, and return an exit code."""
    try:
        _take_part(folder, name)
    except SottovoceError as error:
        _tell(event="refused", reason=str(error), kind=type(error).__name__)
        return 2
    return 0


def _take_part(folder: Path, name: str) -> None:
    config = parse(json.loads((folder / CONFIG).read_text(encoding="utf-8")), source="the rehearsal")
    roster, identity = load_roster(folder / ROSTER), load_identity(name, folder / name / KEYS)
    joining = prepare_joining(config, roster, name, None, shares=True)
    _tell(event="prepared", digest=joining.agreement.digest.hex())
    told = [0.0]

    def progress(now: Progress) -> None:
        if time.monotonic() - told[0] >= _PAUSE or now.phase == "done":
            told[0] = time.monotonic()
            _tell(event="progress", **now._asdict())

    with Store.open(folder / name / STORE) as store:
        place = Place(
            identity=identity,
            roster=roster,
            store=store,
            transport=transport_of(folder, identity, roster),
            folder=folder / name,
            relayed=(folder / RELAY).exists(),
        )
        served = take_part(joining, place, data=None, progress=progress, **_drawing(joining, folder))
    _tell(event="done", unacknowledged=served.unacknowledged, memory=memory_kb())


def transport_of(folder: Path, identity: Identity, roster: Roster) -> Transport:
    """Direct connections, or the relay of the folder."""
    if (folder / RELAY).exists():
        from sottovoce.deployment.relays import load_relay
        from sottovoce.deployment.transports import NatsTransport

        return NatsTransport(identity, roster, load_relay(folder / RELAY))
    from sottovoce.deployment.transports import GrpcTransport

    return GrpcTransport(identity, roster)


def _drawing(joining: Joining, folder: Path) -> dict[str, Any]:
    """Where random numbers come from: the simulation's, if the rehearsal saved them, else the operating system."""
    if not (folder / DRAWS).is_dir() or joining.name not in joining.names:
        return {}
    run, lattice = without_masks(joining.parts.run), Lattice(joining.agreement.fraction_bits)
    draws, number = SavedDraws(folder / DRAWS, run), joining.names.index(joining.name)
    return {
        "randomness": lambda session: Rehearsed(run, lattice, draws, number),
        "coin": RehearsedCoin(run, draws),
    }


def _tell(**values: Any) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    code = main(Path(sys.argv[1]), sys.argv[2])
    sys.stdout.flush()
    os._exit(code)  # the store is closed; gRPC would take a second to put its threads away
