"""Private averaging by GOPA: measured variance against a trusted curator and against local privacy; time and memory.

    python benchmarks/gopa.py variance                  10,000 parties, 10,000 entries, one round
    python benchmarks/gopa.py million                   1,000,000 parties, one entry, and the worst party's mu
    python benchmarks/gopa.py variance --json FILE      the numbers as JSON too

The variance of the average is measured over the entries of one round, whose errors are independent: with 10,000 entries
its standard error is 1.4 %. Half the parties are honest, and noise is calibrated for them alone: 5 % above the least
own noise, as Gaussian masks need it, and 0.01 % above it, which is enough for uniform masks. Both rounds are played
with uniform masks; which masks cancel makes no difference to the average.
"""

import argparse
import json
import math
from typing import Any

import numpy as np
from measure import peak_mb, timed

from sottovoce.accounting import gaussian, gopa
from sottovoce.accounting.gopa.integers import IntegerNoise, integer_delta
from sottovoce.deployment.gopa import (
    FixedPoint,
    RoundedGaussian,
    UniformMasks,
    play_blocks,
    play_round,
    simulated_sources,
)
from sottovoce.deployment.integers import signed

RHO, EPSILON, DELTA = 0.5, 0.1, 4e-7
ENCODING = FixedPoint(clip=0.5, fraction_bits=20)  # l2 diameter 1
AT_MOST, AT_LEAST = 2.4, 0.4  # variance over central; local over variance, per party
SLACKS = {"5 % slack": 0.05, "uniform masks": 1e-4}


def vectors(num_parties: int, dimension: int) -> np.ndarray:
    """[n, d] encoded vectors inside the ball, every party's another one, in the memory of one row and one column."""
    largest = math.floor(ENCODING.largest / math.sqrt(dimension))
    line = np.random.default_rng(1).integers(-largest, largest + 1, size=num_parties + dimension - 1)
    return np.lib.stride_tricks.sliding_window_view(line, dimension)


def measured(units: np.ndarray, *, out_degree: int, std: float, seed: int) -> tuple[float, np.ndarray]:
    """Mean square of the error of the average over the entries, in the unit of the values, and the pairs."""
    n, squares, edges = len(units), [], np.empty(0)
    own = RoundedGaussian(std=std * 2**ENCODING.fraction_bits)
    for block in play_blocks(units, seed, out_degree=out_degree, own_noise=own, masks=UniformMasks()):
        error = signed(block.played.total - units[:, block.columns].sum(axis=0).view(np.uint64))
        squares.append((error / (n * 2.0**ENCODING.fraction_bits)) ** 2)
        edges = block.sources.edges
    return float(np.concatenate(squares).mean()), edges


def stated_delta(edges: np.ndarray, *, num_parties: int, std: float, dimension: int) -> float:
    """The delta of the worst honest party on the graph that was drawn, in whole numbers, with uniform masks."""
    honest = gopa.from_pairs(num_parties // 2, edges[(edges < num_parties // 2).all(axis=1)])
    size, unit = int(honest.sizes.min()), 2**ENCODING.fraction_bits
    own = RoundedGaussian(std=std * unit)
    return integer_delta(
        EPSILON,
        IntegerNoise(own_std=own.std, honest_parties=size, dimension=dimension, mask_std=math.inf),
        mu=unit / (own.std * math.sqrt(size)),
        sensitivity=unit,
        sampler_error=own.total_variation * size * dimension,
    )


def variance(num_parties: int, out_degree: int, dimension: int) -> list[dict[str, Any]]:
    """One round per slack."""
    target = {"epsilon": EPSILON, "delta": DELTA, "sensitivity": 1.0}
    central, local = gopa.central_variance(num_parties, **target), gopa.local_variance(num_parties, **target)
    least = gaussian.std(**target) / math.sqrt(RHO * num_parties)
    print(f"n = {num_parties}, rho = {RHO}, k = {out_degree}, d = {dimension}, epsilon = {EPSILON}, delta = {DELTA}")
    print(f"central {central:.5e}   local {local:.5e}   standard error {math.sqrt(2 / dimension):.1%}")
    print(f"{'':14}{'own std':>10}{'predicted':>12}{'measured':>12}{'x central':>11}{'x below local':>15}{'delta':>11}")
    rows, units = [], vectors(num_parties, dimension)
    for seed, (name, slack) in enumerate(SLACKS.items()):
        std = (1.0 + slack) * least
        spent, (found, edges) = timed(lambda: measured(units, out_degree=out_degree, std=std, seed=seed))  # noqa: B023
        row = {
            "name": name,
            "own_std": std,
            "predicted": std**2 / num_parties,
            "measured": found,
            "times_central": found / central,
            "times_below_local": local / found,
            "delta": stated_delta(edges, num_parties=num_parties, std=std, dimension=dimension),
            "reached": found / central <= AT_MOST and local / found >= AT_LEAST * num_parties,
            "mask_words": len(edges) * dimension,
            "cpu_s": spent.cpu,
            "wall_s": spent.wall,
            "peak_mb": peak_mb(),
        }
        rows.append(row)
        print(
            f"{name:14}{std:10.6f}{row['predicted']:12.5e}{found:12.5e}{row['times_central']:11.3f}"
            f"{row['times_below_local']:15.0f}{row['delta']:11.3e}   {'reached' if row['reached'] else 'MISSED'}"
            f"   {row['mask_words']:.2e} mask words, {spent.cpu:.0f} s CPU, {spent.wall:.0f} s, {peak_mb():.0f} MB"
        )
    return rows


def million(num_parties: int, out_degree: int) -> dict[str, Any]:
    """A round of many parties with one entry, one per cent silent, and the worst honest party of a drawn graph."""
    found = round_of_many(num_parties, out_degree)
    print(f"n = {num_parties}, k = {out_degree}, d = 1, 1 % silent and repaired; sum exact: {found['exact']}")
    print(f"graph and sources {found['sources_s']:.1f} s; round {found['round_s']:.1f} s; {found['round_mb']:.0f} MB")
    graph = gopa.k_out_graph(num_parties, out_degree, honest_parties=num_parties // 2, seed=0)
    spent, worst = timed(lambda: gopa.worst_mu(graph, independent_std=0.06, pairwise_std=10.0, sensitivity=1.0))
    print(
        f"worst of {num_parties // 2} honest parties: mu <= {worst.mu_upper:.6f}, found {worst.mu_value:.6f}, "
        f"{spent.wall:.1f} s, {peak_mb():.0f} MB"
    )
    worst_numbers = {"worst_mu_s": spent.wall, "mu_upper": worst.mu_upper, "mu_value": worst.mu_value}
    return found | worst_numbers | {"peak_mb": peak_mb()}


def round_of_many(num_parties: int, out_degree: int) -> dict[str, Any]:
    own = RoundedGaussian(std=0.06 * 2**16)
    drawing, sources = timed(
        lambda: simulated_sources(
            0, num_parties=num_parties, dimension=1, out_degree=out_degree, own_noise=own, masks=UniformMasks()
        )
    )
    generator = np.random.default_rng(1)
    units = generator.integers(-(2**15), 2**15, size=(num_parties, 1))
    survivors = generator.random(num_parties) > 0.01
    playing, played = timed(lambda: play_round(units, sources, survivors=survivors))
    exact = bool(signed(played.total)[0] == (units + sources.own_noise)[survivors].sum())
    return {"exact": exact, "sources_s": drawing.wall, "round_s": playing.wall, "round_mb": peak_mb()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["variance", "million"])
    parser.add_argument("--parties", type=int, help="10,000 for variance, 1,000,000 for million")
    parser.add_argument("--picks", type=int, help="k: 40 for variance, 20 for million")
    parser.add_argument("--entries", type=int, default=10_000)
    parser.add_argument("--json", help="write the numbers to this file")
    asked = parser.parse_args()
    if asked.what == "variance":
        found: Any = variance(asked.parties or 10_000, asked.picks or 40, asked.entries)
    else:
        found = million(asked.parties or 1_000_000, asked.picks or 20)
    if asked.json:
        with open(asked.json, "w") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
