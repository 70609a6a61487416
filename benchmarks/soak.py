"""Eight parties as processes, and one fault after the other: is everything as if nothing had happened?

    python benchmarks/soak.py                                  2,000 rounds, at least 100 faults: some five minutes
    --transport grpc|nats --rounds T --faults N --seed S        another run; the same seed gives the same faults
    --folder DIR --json FILE                                    where stores lie (left out: in memory, if there is such a folder); the numbers

    kill        one to three parties at once get SIGKILL, and are started again
    partition   a party, or half of the ring, hears nothing of the others and they nothing of it: connections hang, or are reset
    cut         all connections of a party are ended; new ones are let through
    relay       over NATS: the relay gets SIGKILL and is started again, with its disk or without; over when its mailboxes are open

A fault comes after 20 undisturbed rounds at the latest. Recovery is measured from the end of the fault (connections are let through again, or the new
process is ready to greet: Python and its imports take longer than that) until all parties have committed an exchange that none of them had
committed then. Processes are forked from a server that has imported everything.

Claims, each of which has to hold: the models of the undisturbed run, bit by bit; every ledger with one reservation, all of it spent, and nothing
else; every recovery below 3 s; the memory of every process that went on for more than 200 rounds grows by less than 5 % after them. Exit code 1
where one does not hold.
"""

import argparse
import json
import os
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

# In place of this folder, in which another file has the name of the tests' package.
sys.path[0] = str(Path(__file__).parents[1] / "tests")

from deployment.network.soak import PARTIES, claims, soak  # noqa: E402

MEMORY = Path("/dev/shm")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--transport", choices=("grpc", "nats"), default="grpc")
    options.add_argument("--rounds", type=int, default=2000)
    options.add_argument("--faults", type=int, default=100)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--folder", type=Path)
    options.add_argument("--json", type=Path)
    asked = options.parse_args()
    print(
        f"{PARTIES} parties over {asked.transport}, {asked.rounds} rounds, seed {asked.seed}, load {os.getloadavg()[0]:.1f}\n"
    )
    parent = asked.folder or (MEMORY if MEMORY.is_dir() else None)
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        found = soak(
            Path(folder),
            rounds=asked.rounds,
            at_least=asked.faults,
            seed=asked.seed,
            transport=asked.transport,
            show=partial(print, flush=True),
        )
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n")
    held = claims(found)
    times = sorted(fault["recovery_s"] for fault in found["faults"])
    print(
        f"\nrecovery: median {np.median(times):.2f} s, 90 % {np.quantile(times, 0.9):.2f} s, slowest {times[-1]:.2f} s"
    )
    print(f"{found['seconds']:.0f} seconds; load {found['load'][0]:.1f} before, {found['load'][1]:.1f} after")
    for claim, holds in held.items():
        print(f"  {'holds ' if holds else 'FAILS '} {claim}")
    return 0 if all(held.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
