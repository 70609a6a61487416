"""How long a party waits for the disk: one exchange committed, beside a bare write and flush of the same bytes.

    python benchmarks/store.py [--parameters 10000 1000000] [--turns 40] [--folder DIR] [--json FILE]

An exchange has the state, the own copy, the words for two neighbours and the meter. Both are done in turn, in the same folder, so that the
disk and the machine's load are the same for both. Times are wall-clock milliseconds: waiting for the disk is no CPU time.
"""

import argparse
import json
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from measure import timed

from sottovoce.deployment.ledger import Ledger, create_ledger
from sottovoce.deployment.privacy import Cost
from sottovoce.deployment.store import Store

TARGETS = {10_000: 10.0, 1_000_000: 200.0}  # milliseconds, alone on the machine
DIGEST = bytes(32)
NEIGHBOURS = ("left", "right")


def main() -> None:
    """Measure, print a table, and write the numbers if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parameters", type=int, nargs="+", default=list(TARGETS))
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--folder", type=Path, default=None, help="on the disk to be measured")
    parser.add_argument("--json", type=Path, default=None)
    asked = parser.parse_args()
    found = []
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; milliseconds, {asked.turns} turns\n")
    print(f"{'parameters':>10} {'MB':>6} {'commit':>8} {'95 %':>8} {'worst':>8} {'bare':>8} {'ratio':>6}  target")
    for dimension in asked.parameters:
        with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
            row = measure(Path(folder), dimension, asked.turns)
        found.append(row)
        target = row["target_ms"]
        verdict = "" if target is None else f"{target:g} ms {'reached' if row['commit_ms'] <= target else 'missed'}"
        print(
            f"{dimension:>10} {row['megabytes']:>6.2f} {row['commit_ms']:>8.2f} {row['commit_95_ms']:>8.2f} {row['commit_worst_ms']:>8.2f} "
            f"{row['bare_ms']:>8.2f} {row['ratio']:>6.2f}  {verdict}"
        )
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=2))


def measure(folder: Path, dimension: int, turns: int) -> dict[str, Any]:
    """Commit one exchange after the other, each followed by the same bytes written bare."""
    path = folder / "measured.ledger"
    create_ledger(path, name="measured", unit="record", adjacency="replace", delta=1e-5, budget="unlimited")
    draw = np.random.default_rng(0)
    commits, bare = [], []
    descriptor = os.open(folder / "bare", os.O_WRONLY | os.O_CREAT, 0o600)
    with Store.open(path) as store:
        reservation = Ledger(store).reserve(
            "measured", DIGEST, Cost.gaussian(1.0), unit="record", adjacency="replace", observer="everybody else"
        )
        store.begin_run(DIGEST, "measured", b"{}", reservation, bytes(32))
        for position in range(turns + 2):
            arrays = draw.integers(-(2**40), 2**40, size=(2 + len(NEIGHBOURS), dimension))
            exchange = {
                "state": arrays[:1],
                "held": {"own": arrays[1]},
                "outgoing": {
                    peer: arrays[2 + number].astype("<u8").tobytes() for number, peer in enumerate(NEIGHBOURS)
                },
                "spent": Cost.gaussian(0.01).describe(),
            }
            for peer in NEIGHBOURS:
                store.acknowledged(DIGEST, peer, position - 1)
            commits.append(timed(lambda p=position, e=exchange: store.commit(DIGEST, p, **e))[0].wall)
            content = arrays.tobytes()
            bare.append(timed(lambda c=content: (os.pwrite(descriptor, c, 0), os.fsync(descriptor)))[0].wall)
    os.close(descriptor)
    commits, bare = commits[2:], bare[2:]  # the first ones make the files longer
    return {
        "parameters": dimension,
        "megabytes": len(content) / 1e6,
        "commit_ms": 1e3 * statistics.median(commits),
        "commit_95_ms": 1e3 * float(np.quantile(commits, 0.95)),
        "commit_worst_ms": 1e3 * max(commits),
        "bare_ms": 1e3 * statistics.median(bare),
        "ratio": statistics.median(one / other for one, other in zip(commits, bare, strict=True)),
        "target_ms": TARGETS.get(dimension),
        "load": os.getloadavg()[0],
    }


if __name__ == "__main__":
    main()
