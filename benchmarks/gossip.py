"""How fast the exact pairwise loss of gossip averaging is, on the four networks of Cyffers et al. 2022, Fig. 1a (2048 agents), 10 rounds.

The peer forms the powers of the weights and takes a singular value decomposition per attacker; both look at the same few attackers in the
same run. Every case runs in a child process with BLAS on one thread and two workers. Nothing fails when a target is missed: it is said.

    python benchmarks/gossip.py                 every case; writes benchmarks/results/gossip.json
    python benchmarks/gossip.py --quick         small sizes, to see that it runs and agrees; its times mean nothing
    python benchmarks/gossip.py --case NAME     one case
    --output FILE                               write the results there (with --quick or --case nothing is written otherwise)
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
os.environ.update(ONE_THREAD)  # BLAS reads it once, when NumPy is loaded

import numpy as np  # noqa: E402
from engine import rounded  # noqa: E402
from measure import peak_mb, timed  # noqa: E402

import sottovoce as sv  # noqa: E402
from accounting import facts, print_case, row  # noqa: E402
from sottovoce.accounting import gossip  # noqa: E402
from sottovoce.errors import ConfigError  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "gossip.json"
UNIT = {"std": 1.0, "sensitivity": 1.0}
WORKERS = 2

Topology = sv.topologies.Topology


def first_connected(make: Callable[[int], Topology]) -> Topology:
    for seed in range(1000):
        try:
            return make(seed)
        except ConfigError:
            continue
    raise ConfigError("none of 1000 seeds gives a connected network. Use a denser one.")


def hypercube(quick: bool) -> Topology:
    return sv.topologies.hypercube(6 if quick else 11)


def erdos_renyi(quick: bool) -> Topology:
    n = 64 if quick else 2048
    return first_connected(lambda seed: sv.topologies.erdos_renyi(n, math.log(n) / n, seed=seed))


def geometric(quick: bool) -> Topology:
    n, radius = (64, 0.25) if quick else (2048, 0.07)
    return first_connected(lambda seed: sv.topologies.geometric(n, radius, seed=seed))


def grid(quick: bool) -> Topology:
    return sv.topologies.grid(8, 8) if quick else sv.topologies.grid(45, 45)


NETWORKS = {make.__name__: make for make in (hypercube, erdos_renyi, geometric, grid)}


def by_powers(powers: list[np.ndarray], topology: Topology, attacker: int) -> np.ndarray:
    """[K] mu from the vectors as they are written, with the usual rank tolerance of a pseudo-inverse."""
    vectors = np.concatenate([power[:, topology.neighbours(attacker)] for power in powers], axis=1)
    vectors[attacker] = 0.0
    left, sizes, _ = np.linalg.svd(vectors, full_matrices=False)
    kept = left[:, sizes > 1e-12 * sizes[0]]
    return np.sqrt((kept**2).sum(axis=1))


def measured(name: str, quick: bool) -> dict[str, Any]:
    topology, T = NETWORKS[name](quick), 4 if quick else 10
    K = topology.num_agents
    degrees = np.bincount(topology.links[:, 1], minlength=K)
    spent, loss = timed(lambda: gossip.pairwise(topology, rounds=T, workers=WORKERS, **UNIT))
    peak = peak_mb()
    W = topology.weights.toarray()
    forming, powers = timed(lambda: [np.linalg.matrix_power(W, t) for t in range(T)])
    few, ratios, differs = list(range(0, K, K // 8)), [], 0.0
    for _ in range(1 if quick else 3):
        slow, peer = timed(lambda: [by_powers(powers, topology, attacker) for attacker in few])
        fast, ours = timed(lambda: gossip.pairwise(topology, rounds=T, attackers=few, **UNIT))
        ratios.append((slow.cpu + forming.cpu * len(few) / K) / fast.cpu)  # powers are formed once for all attackers
    for i, attacker in enumerate(few):
        others = np.delete(np.arange(K), attacker)
        differs = max(differs, float(np.abs(peer[i][others] - ours.upper[others, i]).max()))
    setting = {"agents": K, "mean_degree": float(degrees.mean()), "largest_degree": int(degrees.max()), "rounds": T}
    summary = loss.describe()
    rows = [
        row("all pairs, wall clock, two workers", spent.wall, "s", below=200),
        row("all pairs, CPU", spent.cpu, "s"),
        row("peak memory", peak, "MB", below=4000),
        row("width of the bracket", loss.gap, "local", below=1e-4),
        row("attackers with a direction left open", int(loss.undecided.sum()), "agents", below=1),
        row("mean squared loss", summary["mean_squared_mu"], "local"),
        row("fully exposed pairs", summary["fully_exposed"], "share"),
        row(f"{len(few)} attackers, times faster than powers and SVD", statistics.median(ratios), "x"),
        row("largest difference from powers and SVD", differs, "local"),
    ]
    return {"setting": setting, "rows": rows}


def run_case(name: str, quick: bool) -> dict[str, Any]:
    """Run a case in a child process, so that peak memory is its own."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "case.json"
        command = [sys.executable, __file__, "--child", name, "--output", str(output)]
        subprocess.run([*command, "--quick"] if quick else command, check=True)
        return dict(json.loads(output.read_text()))


def main() -> None:
    parser = argparse.ArgumentParser(description="Benchmark the exact pairwise loss of gossip averaging.")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs and agrees")
    parser.add_argument("--case", choices=NETWORKS, help="only this case")
    parser.add_argument("--output", type=Path, help="file for the results")
    parser.add_argument("--child", choices=NETWORKS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        options.output.write_text(json.dumps(measured(options.child, options.quick)))
        return
    names = list(NETWORKS) if options.case is None else [options.case]
    results: dict[str, Any] = {"facts": facts(options.quick), "cases": {}}
    print(", ".join(f"{name} {value}" for name, value in results["facts"].items()))
    for name in names:
        results["cases"][name] = run_case(name, options.quick)
        print_case(name, results["cases"][name], options.quick)
    output = options.output or (RESULTS if options.case is None and not options.quick else None)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(rounded(results), indent=1) + "\n")


if __name__ == "__main__":
    main()
