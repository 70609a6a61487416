"""The engine on whatever JAX finds: agreement with exact theory, then milliseconds per round of large steps.

    python benchmarks/accelerator.py        needs about 10 GB on the device

Meant for a GPU; it imports only the engine and what lies below it. "GB/s" counts twelve passes over the parameters: ten neighbours
gathered, one model read, one written.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))
import sottovoce as sv
from sottovoce.simulation import Settings, chunks

LAPLACE, GAUSSIAN = sv.noise.Laplace(std=0.1), sv.noise.Gaussian(std=0.1)


def agreement() -> float:
    """Largest |z| of 30 comparisons with exact theory (3 algorithms, 5 schemes, 2 metrics; 2000 repeats)."""
    features, targets, _ = sv.problems.synthetic_regression(
        num_agents=8, samples=20, dimension=2, seed=2, eigenvalues=(0.4, 0.6)
    )
    problem, topology = sv.problems.linear_regression(features, targets, ridge=0.01), sv.topologies.ring(8)
    algorithms = {kind: sv.algorithms.ALGORITHMS[kind](step_size=0.15) for kind in ("consensus", "cta", "atc")}
    noises = {
        "none": sv.noise.none(),
        "edge": sv.noise.independent(LAPLACE, per_edge=True),
        "aggregated": sv.noise.independent(GAUSSIAN, per_edge=True),
        "graph-homomorphic": sv.noise.graph_homomorphic(LAPLACE),
        "local": sv.noise.local_graph_homomorphic(LAPLACE),
    }
    record = ("msd_centroid", "msd_average")
    settings = Settings(rounds=600, repeats=2000, batch_size=1)
    parts = [chunk.metrics for chunk in chunks(problem, topology, algorithms, noises, settings, record=record)]
    worst = 0.0
    for a, algorithm in algorithms.items():
        for n, noise in noises.items():
            exact = sv.expected_msd(problem, topology, algorithm, noise, rounds=600, batch_size=1)
            for name in record:
                values = (
                    np.concatenate([part[a, n][name] for part in parts], axis=1)[:, -300:].astype(float).mean(axis=1)
                )
                error = values.std(ddof=1) / len(values) ** 0.5
                worst = max(worst, abs(values.mean() - exact[name][-300:].mean()) / error)
    return worst


def large_steps(agents: int, dimension: int) -> Iterator[str]:
    """Milliseconds per ATC round on a union of five random cycles."""
    generator = np.random.default_rng(0)
    orders = [generator.permutation(agents) for _ in range(5)]
    edges = np.unique(np.sort(np.concatenate([np.stack([p, np.roll(p, 1)], axis=1) for p in orders]), axis=1), axis=0)
    topology = sv.topologies.from_edges(agents, edges)
    problem = sv.problems.mean_estimation(generator.random((agents, 1, dimension), dtype=np.float32), radius=1.0)
    noises = {
        "none": sv.noise.none(),
        "graph-homomorphic Laplace": sv.noise.graph_homomorphic(LAPLACE),
        "per-edge Gaussian": sv.noise.independent(GAUSSIAN, per_edge=True),
    }
    for name, noise in noises.items():
        running = chunks(
            problem,
            topology,
            {"atc": sv.algorithms.atc(step_size=0.1)},
            {name: noise},
            Settings(rounds=10_000, chunk=50),
            record=(),
        )
        next(running)
        times = []
        for _ in range(4):
            start = time.perf_counter()
            next(running)
            times.append((time.perf_counter() - start) / 50)
        running.close()
        traffic = 12 * 4 * agents * dimension / min(times) / 1e9
        yield f"{agents:>9} x {dimension:<6} {name:26} {1e3 * min(times):7.2f} ms per round, {traffic:5.0f} GB/s"


if __name__ == "__main__":
    print(f"JAX {jax.__version__}, {', '.join(device.device_kind for device in jax.devices())}")
    print(f"agreement with exact theory: worst |z| of 30 is {agreement():.2f}")
    for size in ((1_000_000, 100), (10_000, 10_000)):
        for line in large_steps(*size):
            print(line, flush=True)
