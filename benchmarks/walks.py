"""How long an account of a walking token takes, beside what it says: gaps by moments, and all contributions between two looks together.

    python benchmarks/walks.py                  one pair of each network at every resolution, then all pairs of 60 agents
    python benchmarks/walks.py --quick          small sizes, to see that it runs; its times mean nothing
    --no-pairs                                  without all pairs, which take some minutes
    --json FILE                                 write the numbers there

Noise is as large as a contribution, delta is 1e-5, agents contribute T/n times. Seconds are CPU seconds of one core, in turn within one run; all pairs are
measured by the wall clock, with two processes. Nothing fails when a target is missed: it is said.
"""

import argparse
import json
import os
from pathlib import Path
from typing import Any

ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
os.environ.update(ONE_THREAD)  # BLAS reads it once, when NumPy is loaded

import numpy as np  # noqa: E402
from measure import timed  # noqa: E402

import sottovoce as sv  # noqa: E402
from sottovoce.accounting import walk  # noqa: E402

DELTA = 1e-5
UNIT: dict[str, Any] = {"std": 1.0, "sensitivity": 1.0, "delta": DELTA}
PAIR_LIMIT, ALL_LIMIT = 30.0, 300.0  # seconds
CASES = {  # topology, hops, contributions, pairs
    "hypercube of 32": (lambda: sv.topologies.hypercube(5), 110, 3, [(0, 1), (0, 31)]),
    "ring of 30": (lambda: sv.topologies.ring(30), 1500, 50, [(0, 1), (0, 15)]),
    "geometric, 60": (lambda: sv.topologies.geometric(60, 0.22, seed=4), 1500, 25, [(0, 4)]),
    "complete, 2000": (lambda: sv.topologies.complete(2000), 20_000, 12, [(0, 1)]),
}


def main() -> None:
    """Measure, print tables, and write the numbers if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--no-pairs", action="store_true")
    parser.add_argument("--json", type=Path, default=None)
    asked = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    print(
        f"{'network':<16} {'pair':>8} {'gaps':>8} {'fast':>8} {'fine':>8}   {'seconds: gaps':>13} {'fast':>7} {'fine':>7}"
    )
    rows = [row for name in CASES for row in measured(name, asked.quick)]
    found: dict[str, Any] = {"one pair": rows}
    slowest = max(row["fine"]["seconds"] for row in rows)
    print(f"\nslowest pair {slowest:.1f} s: {_verdict(slowest, PAIR_LIMIT)}")
    if not asked.no_pairs:
        found["all pairs"] = all_pairs(asked.quick)
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n")


def measured(name: str, quick: bool) -> list[dict[str, Any]]:
    """One row for each pair of a network."""
    make, hops, contributions, pairs = CASES[name]
    topology = make()
    hops, contributions = (30, 2) if quick else (hops, contributions)
    rows = []
    for u, v in pairs:
        setting = {"agent": u, "observers": [v], "rounds": hops, "contributions": contributions, **UNIT}
        spent, by_gaps = timed(lambda setting=setting: by_moments(topology, **setting))
        row: dict[str, Any] = {"network": name, "pair": [u, v], "gaps": {"epsilon": by_gaps, "seconds": spent.cpu}}
        for resolution in ("fast", "fine"):
            spent, found = timed(
                lambda setting=setting, at=resolution: walk.blocks_epsilon(topology, resolution=at, **setting)
            )
            row[resolution] = {"epsilon": found, "seconds": spent.cpu}
        values = " ".join(f"{row[key]['epsilon']:>8.3f}" for key in ("gaps", "fast", "fine"))
        times = f"{row['gaps']['seconds']:>13.3f} {row['fast']['seconds']:>7.2f} {row['fine']['seconds']:>7.2f}"
        print(f"{name:<16} {f'{u}, {v}':>8} {values}   {times}", flush=True)
        rows.append(row)
    return rows


def by_moments(topology: sv.topologies.Topology, **setting: Any) -> float:
    """What gaps and Renyi moments say."""
    if topology.is_uniform:
        without = {key: value for key, value in setting.items() if key not in ("agent", "observers")}
        return walk.proven_epsilon(num_agents=topology.num_agents, **without)
    return walk.proven_graph_epsilon(topology, **setting)


def all_pairs(quick: bool) -> dict[str, float]:
    """All ordered pairs of 60 agents, 1,500 hops, with two processes."""
    topology = sv.topologies.ring(6) if quick else CASES["geometric, 60"][0]()
    hops, contributions = (30, 2) if quick else (1500, 25)
    spent, table = timed(
        lambda: walk.pairwise_epsilon(
            topology, rounds=hops, contributions=contributions, workers=2, progress=_told, **UNIT
        )
    )
    print(
        f"\nall {table.size - len(table)} pairs: {spent.wall:.0f} s by the wall clock, {_verdict(spent.wall, ALL_LIMIT)}"
    )
    print(f"epsilon from {np.nanmin(table):.2f} to {np.nanmax(table):.2f}; load {os.getloadavg()[0]:.1f} at the end")
    return {"wall": spent.wall, "least": float(np.nanmin(table)), "largest": float(np.nanmax(table))}


def _told(done: int, total: int) -> None:
    if done % 20 == 0:
        print(f"{done} of {total} observers", flush=True)


def _verdict(seconds: float, limit: float) -> str:
    return f"{limit:g} s {'kept' if seconds <= limit else 'missed'}"


if __name__ == "__main__":
    main()
