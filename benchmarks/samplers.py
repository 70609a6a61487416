"""Draws of the integer samplers a second on one core, keystream included, beside floating-point noise of NumPy.

    python benchmarks/samplers.py                 a table
    python benchmarks/samplers.py --json FILE     the numbers as JSON too

Every turn draws with each sampler and with NumPy's own generator (standard_normal or laplace, times the scale, rounded
to int64), and ratios are formed within a turn: a shared machine changes from one minute to the next. Seconds are of the
processor, all threads together (nothing here uses a second one); the load of the machine is printed. "fresh key" asks
the operating system for a key for every vector, as a party does for its own noise.
"""

import argparse
import json
import os
import statistics
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from measure import timed

import sottovoce as sv
from sottovoce.deployment.integers import RoundedGaussian, RoundedLaplace, SecretRandomness, stream_words

TARGET, STRETCH = 10e6, 20e6  # draws a second, keystream included
DRAWS, TURNS = 1_000_000, 7
EXPONENTS = (20, 24, 28)
FACTOR = 1.1  # of a power of two, so that no scale is one
KEY = bytes(range(32))


def numpy_noise(generator: np.random.Generator, law: str, std: float) -> np.ndarray:
    """The same in floating point, with a generator for simulations: fast, and no protection."""
    if law == "Gaussian":
        real = generator.standard_normal(DRAWS)
        real *= std
    else:
        real = generator.laplace(scale=std / np.sqrt(2), size=DRAWS)
    return np.rint(real, out=real).astype(np.int64)


def fresh(law: str, std: float, dimension: int) -> Callable[[], Any]:
    """Vectors of so many entries, DRAWS in all, each from a key of the operating system."""
    kinds = {"Gaussian": sv.noise.Gaussian(std=1.0), "Laplace": sv.noise.Laplace(std=1.0)}
    randomness, positions = SecretRandomness(kinds[law], dimension, lambda other: KEY, run=KEY), count()
    return lambda: [randomness.source(next(positions), 0, std) for _ in range(DRAWS // dimension)]


def rows() -> dict[str, tuple[str, Callable[[], Any]]]:
    """What is measured: the law that NumPy draws beside it, and the work."""
    works: dict[str, tuple[str, Callable[[], Any]]] = {}
    for law, kind in (("Gaussian", RoundedGaussian), ("Laplace", RoundedLaplace)):
        for exponent in EXPONENTS:
            sampler = kind(std=FACTOR * 2.0**exponent)
            works[f"{law}, std 2^{exponent}"] = (law, lambda sampler=sampler: sampler.from_key(KEY, DRAWS))
        works[f"{law}, std 2^24, fresh key, d = 1e4"] = (law, fresh(law, FACTOR * 2.0**24, 10_000))
        works[f"{law}, std 2^24, fresh key, d = 1e2"] = (law, fresh(law, FACTOR * 2.0**24, 100))
    works["words alone, 2 for a draw"] = ("Gaussian", lambda: stream_words(KEY, 2 * DRAWS))
    return works


def measure() -> dict[str, dict[str, float]]:
    """Median draws a second, the best turn, and the ratio to NumPy within each turn."""
    generator, works = np.random.default_rng(1), rows()
    seconds: dict[str, list[float]] = {name: [] for name in works}
    ratios: dict[str, list[float]] = {name: [] for name in works}
    for _, work in works.values():
        work()
    for _ in range(TURNS):
        beside = {
            law: timed(lambda law=law: numpy_noise(generator, law, FACTOR * 2.0**24))[0].cpu
            for law in ("Gaussian", "Laplace")
        }
        for name, (law, work) in works.items():
            seconds[name].append(timed(work)[0].cpu)
            ratios[name].append(beside[law] / seconds[name][-1])
    return {
        name: {
            "draws_a_second": DRAWS / statistics.median(seconds[name]),
            "best": DRAWS / min(seconds[name]),
            "worst": DRAWS / max(seconds[name]),
            "of_numpy": statistics.median(ratios[name]),
        }
        for name in works
    }


def main() -> None:
    """Measure, print, and write if asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the numbers here too")
    options = parser.parse_args()
    before = os.getloadavg()[0]
    results = measure()
    load = f"load of the machine {before:.1f} before, {os.getloadavg()[0]:.1f} after, {os.cpu_count()} cores"
    print("million draws a second on one core, keystream included")
    print(f"{'':38}{'median':>8}{'worst':>8}{'best':>8}{'of NumPy':>10}")
    for name, row in results.items():
        speeds = (row[column] / 1e6 for column in ("draws_a_second", "worst", "best"))
        print(f"{name:38}" + "".join(f"{speed:8.1f}" for speed in speeds) + f"{row['of_numpy']:9.2f}x")
    drawn = [row["draws_a_second"] for name, row in results.items() if ", std 2^" in name and "fresh" not in name]
    print(f"slowest law: {min(drawn) / 1e6:.1f}; target {TARGET / 1e6:g}, stretch {STRETCH / 1e6:g}; {load}")
    if options.json:
        options.json.write_text(json.dumps({"load": load, "draws": DRAWS, "turns": TURNS, "rows": results}, indent=1))


if __name__ == "__main__":
    main()
