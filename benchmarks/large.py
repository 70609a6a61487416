"""Single ATC steps on large networks and large models, float32, ten neighbours, full gradients w - x, no metrics."""

import statistics
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from baselines import LargeStep
from measure import Timed, compare, milliseconds, peak_mb, timed
from parts import engine_parts

import sottovoce as sv
from sottovoce.simulation import Settings, chunks

STEP_SIZE, STD = 0.1, 0.1


def regular_graph(num_agents: int) -> Any:
    """Five random Hamiltonian cycles: ten neighbours each, a few have less where cycles share a link."""
    generator = np.random.default_rng(0)
    cycles = [generator.permutation(num_agents) for _ in range(5)]
    pairs = np.concatenate([np.stack([cycle, np.roll(cycle, -1)], axis=1) for cycle in cycles])
    return sv.topologies.from_edges(num_agents, np.unique(np.sort(pairs, axis=1), axis=0))


def mean_problem(num_agents: int, dimension: int) -> Any:
    points = np.random.default_rng(1).uniform(-1, 1, (num_agents, 1, dimension)).astype(np.float32)
    return sv.problems.mean_estimation(points, radius=1.0)


def large_noises() -> dict[str, Any]:
    laplace, gaussian = sv.noise.Laplace(std=STD), sv.noise.Gaussian(std=STD)
    return {
        "none": sv.noise.none(),
        "graph_homomorphic": sv.noise.graph_homomorphic(laplace),
        "independent": sv.noise.independent(laplace, per_edge=True),
        "independent_gaussian": sv.noise.independent(gaussian, per_edge=True),
    }


def started(problem: Any, topology: Any, scheme: str, *, rounds: int, chunk: int) -> Iterator[Any]:
    """The engine's chunks of ATC with one scheme and no metrics, after the first, which traces and compiles."""
    later = chunks(
        problem,
        topology,
        {"atc": sv.algorithms.atc(step_size=STEP_SIZE)},
        {scheme: large_noises()[scheme]},
        Settings(rounds=rounds + chunk, chunk=chunk),
        record=(),
    )
    next(later)
    return later


def fastest_combine(step: LargeStep, *, tries: int) -> str:
    """Choose between scipy's sparse product and gathered accumulation."""
    seconds: dict[str, list[float]] = {"combine_csr": [], "combine_take": []}
    for name in tries * tuple(seconds):
        step.combine = getattr(step, name)
        seconds[name].append(timed(lambda: step.run(1))[0].cpu)
    best = min(seconds, key=lambda name: min(seconds[name]))
    step.combine = getattr(step, best)
    return best.removeprefix("combine_")


def large_step(num_agents: int, dimension: int, *, rounds: int, turns: int) -> dict[str, Any]:
    topology, problem = regular_graph(num_agents), mean_problem(num_agents, dimension)
    engines = {s: started(problem, topology, s, rounds=turns * rounds, chunk=rounds) for s in large_noises()}
    rows = {}
    engine_memory = peak_mb()
    for scheme, later in engines.items():
        step = LargeStep(problem, topology, scheme, step_size=STEP_SIZE, std=STD)
        combine = fastest_combine(step, tries=5)
        ours, theirs = [], []
        for _ in range(turns):
            ours.append(timed(lambda later=later: next(later))[0])
            theirs.append(timed(lambda step=step: step.run(rounds))[0])
        rows[scheme] = {
            "engine_ms": milliseconds(ours, rounds),
            "numpy_ms": milliseconds(theirs, rounds),
            "numpy_combine": combine,
            "ratio": compare([t.cpu for t in theirs], [t.cpu for t in ours], 1),
            "wall_ratio": compare([t.wall for t in theirs], [t.wall for t in ours]),
        }
    return {
        "setting": {"agents": num_agents, "links": len(topology.links), "dimension": dimension},
        "turns": turns,
        "rounds_per_turn": rounds,
        "schemes": rows,
        "peak_mb": {"engine": engine_memory, "all": peak_mb()},
    }


def many_of_both(quick: bool) -> dict[str, Any]:
    """1000 agents with 1000 parameters."""
    return large_step(300, 300, rounds=20, turns=2) if quick else large_step(1000, 1000, rounds=20, turns=7)


def many_agents(quick: bool) -> dict[str, Any]:
    """100 000 agents with 10 parameters."""
    return large_step(10_000, 10, rounds=10, turns=2) if quick else large_step(100_000, 10, rounds=10, turns=7)


def memcpy_gb_per_second(size: int, threads: int) -> float:
    """Bytes read plus bytes written per wall second, copying between two arrays that are in memory already."""
    source, target = np.ones(size, np.float32), np.zeros(size, np.float32)
    pieces = list(zip(np.array_split(target, threads), np.array_split(source, threads), strict=True))
    with ThreadPoolExecutor(threads) as pool:

        def copy() -> None:
            list(pool.map(lambda piece: np.copyto(*piece), pieces))

        return 8e-9 * size / min(timed(copy)[0].wall for _ in range(6))


def many_parameters(quick: bool) -> dict[str, Any]:
    """100 agents with 1 000 000 parameters: per round, per part, and against memcpy."""
    num_agents, dimension = (100, 20_000) if quick else (100, 1_000_000)
    topology, problem = regular_graph(num_agents), mean_problem(num_agents, dimension)
    rows = {}
    for scheme in ("graph_homomorphic", "none"):  # the larger first: only its peak memory is its own
        rows[scheme] = profiled(problem, topology, scheme, rounds=5, turns=2 if quick else 4)
    return {
        "setting": {"agents": num_agents, "links": len(topology.links), "dimension": dimension},
        "schemes": rows,
        "peak_mb": {"engine": rows["graph_homomorphic"]["peak_mb_so_far"], "all": peak_mb()},
    }


def profiled(problem: Any, topology: Any, scheme: str, *, rounds: int, turns: int) -> dict[str, Any]:
    """The engine's round, its parts on their own, NumPy's round and memcpy, in turn."""
    later = started(problem, topology, scheme, rounds=turns * rounds, chunk=rounds)
    memory = peak_mb()
    step = LargeStep(problem, topology, scheme, step_size=STEP_SIZE, std=STD)
    combine = fastest_combine(step, tries=2)
    parts = engine_parts(problem, topology, large_noises()[scheme], step_size=STEP_SIZE)
    size = problem.num_agents * problem.dimension
    ours, theirs, copies = [], [], []
    spent: dict[str, list[Timed]] = {name: [] for name in parts}
    for _ in range(turns):
        ours.append(timed(lambda: next(later))[0])
        theirs.append(timed(lambda: step.run(1))[0])
        copies.append([memcpy_gb_per_second(size, threads) for threads in (1, 2)])
        for name, part in parts.items():
            spent[name].append(timed(lambda part=part: part(rounds))[0])
    wall = milliseconds(ours, rounds)["wall"] / 1e3
    # Words per parameter. Step: read w and x, write the message. Combination: read own and every neighbour's message, write w. A noise
    # term is written once and read twice.
    words = 3 + len(topology.links) / problem.num_agents + 2 + (3 if scheme == "graph_homomorphic" else 0)
    return {
        "engine_ms": milliseconds(ours, rounds),
        "numpy_ms": milliseconds(theirs, 1),
        "numpy_combine": combine,
        "ratio": compare([t.cpu * rounds for t in theirs], [t.cpu for t in ours], 1),
        "wall_ratio": compare([t.wall * rounds for t in theirs], [t.wall for t in ours]),
        "parts_ms": {name: milliseconds(values, rounds) for name, values in spent.items()},
        "gb_per_second": {
            "least traffic": 12e-9 * size / wall,
            "as executed": 4e-9 * words * size / wall,
            "memcpy, 1 thread": statistics.median(one for one, _ in copies),
            "memcpy, 2 threads": statistics.median(two for _, two in copies),
        },
        "peak_mb_so_far": memory,
    }
