"""The reference experiment: 30 agents, 2 parameters, 1000 rounds, 20 repeats, 3 algorithms with 4 noise schemes.

Compared with an author's loop and with batched NumPy, after checking that all three agree with exact theory.
"""

import statistics
from typing import Any

import numpy as np
from baselines import ALGORITHMS, SCHEMES, AuthorLoop, BatchedNumpy
from measure import Timed, compare, peak_mb, timed
from scipy import stats

import sottovoce as sv
from sottovoce.simulation import Settings, chunks

STEP_SIZE, STD = 0.2, 0.2
BURN_IN = 60  # rounds left out of the comparison with theory: the models start at zero and settle by then
REPEATS = 20
METRICS = ("msd_centroid", "msd_average")
THEORY_ROUNDS = 150  # later rounds equal the last of these


def reference_setting() -> tuple[Any, Any, dict[str, Any], dict[str, Any]]:
    features, targets, _ = sv.problems.synthetic_regression(num_agents=30, samples=100, dimension=2, seed=0)
    problem = sv.problems.linear_regression(features, targets, ridge=0.01)
    topology = sv.topologies.geometric(30, 0.4, seed=5)  # everyone has at least four neighbours
    law = sv.noise.Laplace(std=STD)
    noises = {
        "none": sv.noise.none(),
        "independent": sv.noise.independent(law, per_edge=True),
        "graph_homomorphic": sv.noise.graph_homomorphic(law),
        "local_graph_homomorphic": sv.noise.local_graph_homomorphic(law),
    }
    algorithms = {name: getattr(sv.algorithms, name)(step_size=STEP_SIZE) for name in ALGORITHMS}
    return problem, topology, algorithms, noises


def agreement(curves: dict[tuple[str, str], np.ndarray], theory: dict[tuple[str, str], np.ndarray]) -> dict[str, Any]:
    """Compare the mean over repeats and settled rounds, curves [2, rounds, R], with exact expectations [2, rounds].

    A difference is an error when a t-test over the repeats rejects at 1e-4 (24 tests per implementation).
    """
    worst_t, worst_relative = 0.0, np.zeros(2)
    for key, values in curves.items():
        rounds, repeats = values.shape[1:]
        expected = theory[key][:, np.minimum(np.arange(BURN_IN, rounds), theory[key].shape[1] - 1)].mean(axis=1)
        per_repeat = values[:, BURN_IN:].mean(axis=1, dtype=float)  # [2, R]
        error = np.abs(per_repeat.mean(axis=1) - expected)
        worst_t = max(worst_t, float(np.max(error / per_repeat.std(axis=1, ddof=1)) * np.sqrt(repeats)))
        worst_relative = np.maximum(worst_relative, error / expected)
    limit = float(stats.t.ppf(1 - 0.5e-4, repeats - 1))
    return {
        "agrees": worst_t < limit,
        "worst_t": worst_t,
        "limit": limit,
        "worst_relative": dict(zip(METRICS, map(float, worst_relative), strict=True)),
    }


def reference(quick: bool) -> dict[str, Any]:
    """30 agents, 2 parameters, 1000 rounds, 20 repeats, 3 algorithms x 4 schemes against the loop and batched NumPy."""
    problem, topology, algorithms, noises = reference_setting()
    turns, loop_rounds, batch_rounds, rounds = (3, 80, 60, 200) if quick else (8, 100, 125, 1000)
    run = dict(repeats=REPEATS, batch_size=1)

    def whole() -> Any:
        return sv.simulate(problem, topology, algorithms, noises, rounds=rounds, record=METRICS, progress=False, **run)

    first, runs = timed(whole)  # the compilation cache is empty: see engine.py
    again, _ = timed(whole)
    # One chunk is one whole experiment; tracing and compilation fall into the first, which is not timed.
    settings = Settings(rounds=(turns + 1) * rounds, chunk=rounds, **run)
    later = chunks(problem, topology, algorithms, noises, settings, record=METRICS)
    next(later)
    engine_memory = peak_mb()

    loop = AuthorLoop(problem, topology, step_size=STEP_SIZE, std=STD, seed=1)
    setting = dict(step_size=STEP_SIZE, std=STD, repeats=REPEATS)
    batched = {s: BatchedNumpy(problem, topology, noises, shared=s, **setting) for s in (False, True)}
    pairs = [(a, s) for a in ALGORITHMS for s in SCHEMES]
    seconds: dict[str, list[float]] = {"engine": [], "loop": [], "batched": [], "batched_shared": []}
    walls: dict[str, list[float]] = {name: [] for name in seconds}
    loop_curves: dict[Any, list[np.ndarray]] = {pair: [] for pair in pairs}
    batched_curves: list[dict[Any, np.ndarray]] = []

    def note(name: str, measured: Timed, share: float) -> None:
        seconds[name].append(measured.cpu / share)
        walls[name].append(measured.wall / share)

    for _ in range(turns):
        note("engine", timed(lambda: next(later))[0], 1.0)
        measured, curves = timed(lambda: batched[False].run(batch_rounds))
        note("batched", measured, batch_rounds / rounds)
        batched_curves.append(curves)
        note("batched_shared", timed(lambda: batched[True].run(batch_rounds))[0], batch_rounds / rounds)
        measured, repeat = timed(lambda: {pair: loop.run(*pair, loop_rounds) for pair in pairs})
        note("loop", measured, loop_rounds / rounds / REPEATS)
        for pair in pairs:
            loop_curves[pair].append(repeat[pair])

    theory = {}
    for a, s in pairs:
        exact = sv.expected_msd(problem, topology, algorithms[a], noises[s], rounds=THEORY_ROUNDS, batch_size=1)
        theory[a, s] = np.stack([exact[m] for m in METRICS])
    measured_curves = {
        "engine": {key: np.stack([run.metrics[m].T for m in METRICS]) for key, run in runs.items()},
        "batched": {pair: np.concatenate([part[pair] for part in batched_curves], axis=1) for pair in pairs},
        "loop": {pair: np.stack(parts, axis=-1) for pair, parts in loop_curves.items()},
    }
    steady = statistics.median(seconds["engine"])
    return {
        "setting": {"agents": 30, "links": len(topology.links), "dimension": 2, "rounds": rounds, "repeats": REPEATS},
        "turns": turns,
        "agreement_with_theory": {name: agreement(curves, theory) for name, curves in measured_curves.items()},
        "cpu_seconds": {
            "engine, first call, empty cache": first.cpu,
            "engine, second call, re-traced, cached": again.cpu,
            "engine, without tracing and compilation": steady,
            "loop (extrapolated)": statistics.median(seconds["loop"]),
            "batched NumPy": statistics.median(seconds["batched"]),
            "batched NumPy, draws shared": statistics.median(seconds["batched_shared"]),
        },
        "wall_seconds": {
            "engine, first call, empty cache": first.wall,
            "engine, second call, re-traced, cached": again.wall,
            **{name: statistics.median(values) for name, values in walls.items()},
        },
        "scaled_up": {
            "loop": f"{turns} times {loop_rounds} of {rounds} rounds of one of {REPEATS} repeats of each combination",
            "batched": f"{turns} times {batch_rounds} of {rounds} rounds",
        },
        "ratios": {
            "loop, without compilation": compare(seconds["loop"], seconds["engine"], 500),
            "loop, with compilation": compare(seconds["loop"], [first.cpu] * turns, 50),
            "loop, second call": compare(seconds["loop"], [again.cpu] * turns),
            "batched, without compilation": compare(seconds["batched"], seconds["engine"], 5),
            "batched, draws shared": compare(seconds["batched_shared"], seconds["engine"]),
            "batched, with compilation": compare(seconds["batched"], [first.cpu] * turns),
        },
        "peak_mb": {"engine": engine_memory, "all": peak_mb()},
    }
