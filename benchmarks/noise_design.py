"""How long designing noise takes, by size: a free covariance and pair keys on links, in units of one inverse of a K x K matrix in the same run.

    python benchmarks/noise_design.py                     20 to 1,000 agents, and any one colluder among 20
    python benchmarks/noise_design.py --quick             the smallest sizes, to see that it runs
    python benchmarks/noise_design.py --json FILE         the numbers as JSON too

Erdos-Renyi graphs of about ten links an agent (six at 20 agents), seed 0, ATC with Metropolis weights, contraction 0.99 a round, steady average error.
Gains are independent noise over the design at equal privacy for a reader of every message; a gap is what the design costs above its dual bound.
"""

import argparse
import json
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from measure import peak_mb, timed

import sottovoce as sv
from sottovoce.design.free import free_covariance
from sottovoce.design.pairs import pair_noise
from sottovoce.theory import noise_gains

CONTRACTION, STEP = 0.99, 0.1
FREE_CLOSE = 1e-3  # a relative gap that is good enough for a free covariance, and about what descent on pairs reaches
LEAST_GAIN, MOST_SECONDS = 1.45, 60.0  # of pair keys among 1,000 agents


class Case(NamedTuple):
    """A network, and how many colluders of any choice the pair keys are to bear."""

    agents: int
    density: float
    colluders: int = 0


CASES = (Case(20, 0.3), Case(20, 0.3, 1), Case(50, 0.2), Case(100, 0.1), Case(300, 0.033), Case(1000, 0.01))
QUICK = CASES[:2]


def price_matrix(topology: sv.topologies.Topology) -> np.ndarray:
    """G of the steady average error."""
    atc = sv.algorithms.atc(step_size=STEP)
    asked = {"objective": {"average": 1.0}, "when": "steady", "rounds": 1, "curvature": (1 - CONTRACTION) / STEP}
    return noise_gains(topology, atc, **asked).total


def unit_seconds(count: int) -> float:
    """CPU seconds of one inverse of a covariance of this size: the least of five."""
    root = np.random.default_rng(0).normal(size=(count, count))
    matrix = root @ root.T + count * np.eye(count)
    return min(timed(lambda: np.linalg.inv(matrix))[0].cpu for _ in range(5))


def measured(case: Case) -> dict[str, Any]:
    """One case: gains, gaps, seconds, and seconds over those of one inverse."""
    topology = sv.topologies.erdos_renyi(case.agents, case.density, seed=0)
    G = price_matrix(topology)
    kappa, own, unit = np.ones(case.agents), float(np.trace(G)), unit_seconds(case.agents)
    coalitions = [(members, 1.0) for members in combinations(range(case.agents), case.colluders) if members]
    free_time, free = timed(lambda: free_covariance(G, kappa, close=FREE_CLOSE))
    pair_time, pair = timed(lambda: pair_noise(G, kappa, topology.pairs, coalitions=coalitions))
    prices = {"free": float((G * free.covariance).sum()), "pairs": float((G * pair.covariance).sum())}
    row: dict[str, Any] = {**case._asdict(), "pairs": len(topology.pairs), "inverse_cpu": unit}
    for name, spent, bound in (("free", free_time, free.lower_bound), ("pairs", pair_time, pair.lower_bound)):
        row[name + "_design"] = {
            "gain": own / prices[name],
            "gap": prices[name] / bound - 1.0,
            "cpu": spent.cpu,
            "wall": spent.wall,
            "inverses": spent.cpu / unit,
        }
    row["pairs_over_free"] = pair_time.cpu / free_time.cpu
    return row


def shown(row: dict[str, Any]) -> str:
    """One line of the table."""
    text = f"{row['agents']:>7}{row['pairs']:>7}{row['colluders']:>10}"
    for name in ("free_design", "pairs_design"):
        found = row[name]
        text += f"{found['gain']:>9.3f}{found['gap']:>9.1e}{found['cpu']:>9.2f}{found['inverses']:>10.0f}"
    return text + f"{row['pairs_over_free']:>9.1f}"


def main() -> None:
    """Print the table, and whether a thousand agents are designed for in time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the smallest sizes only")
    parser.add_argument("--json", help="write the numbers here")
    given = parser.parse_args()
    four = f"{'gain':>9}{'gap':>9}{'cpu s':>9}{'inverses':>10}"
    print(f"{'':24}{'free covariance':>37}{'pair keys on links':>37}{'pairs /':>9}")
    print(f"{'agents':>7}{'pairs':>7}{'colluders':>10}{four}{four}{'free':>9}")
    rows = []
    for case in QUICK if given.quick else CASES:
        rows.append(measured(case))
        print(shown(rows[-1]), flush=True)
    print(f"peak memory {peak_mb():.0f} MB")
    for row in rows:
        if row["agents"] == 1000:
            found = row["pairs_design"]
            reached = found["gain"] >= LEAST_GAIN and found["wall"] < MOST_SECONDS
            print(f"1,000 agents: {found['gain']:.3f} in {found['wall']:.0f} s ({'reached' if reached else 'MISSED'})")
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
