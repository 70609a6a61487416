"""What designed noise gains at equal privacy, with every number taken twice: by the design and by accountant, theory and simulation.

    python benchmarks/design_gains.py               every part; writes benchmarks/results/design_gains.json
    python benchmarks/design_gains.py --part NAME   one of: graphs, colluders, thousand, losses, rounds
    python benchmarks/design_gains.py --quick       the smallest case of every part, to see that it runs

A gain is the noise part of an error with own noise alone over that of a scheme, both at mu = 1 for whoever reads every message and gets the model.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

import sottovoce as sv
from sottovoce.design.baselines import best_pairwise_ratio, central_bound, equal_privacy
from sottovoce.design.free import free_covariance
from sottovoce.noise import bind
from sottovoce.theory import noise_gains

READER = sv.observers.eavesdropper() + sv.observers.final_model()
STEP, ROUNDS = 0.1, 3000
ATC = sv.algorithms.atc(step_size=STEP)
GRAPHS: dict[str, Callable[[], Any]] = {
    "ring-20": lambda: sv.topologies.ring(20),
    "grid 4x5": lambda: sv.topologies.grid(4, 5),
    "ER(20, 0.3)": lambda: sv.topologies.erdos_renyi(20, 0.3, seed=0),
    "geometric(30, 0.35)": lambda: sv.topologies.geometric(30, 0.35, seed=0),
    "star-20": lambda: sv.topologies.star(20),
    "karate-34": lambda: sv.topologies.from_networkx(nx.Graph(nx.karate_club_graph().edges())),
}


def own_gains(topology: Any, contraction: float, **asked: Any) -> np.ndarray:
    """G of the steady average error, one coordinate."""
    wanted = {"objective": {"average": 1.0}, "when": "steady", "rounds": 1, "curvature": (1 - contraction) / STEP}
    return noise_gains(topology, ATC, **{**wanted, **asked}).total


def at_optimum(topology: Any, contraction: float) -> Any:
    """A problem in one coordinate with this contraction whose models start at its optimum, so that all error is noise."""
    K, size = (
        topology.num_agents,
        np.sqrt((1 - contraction) / STEP / 2),
    )  # the loss (target - feature w)^2 has curvature 2 feature^2
    return sv.problems.linear_regression(np.full((K, 1, 1), size), np.zeros((K, 1)))


def pairs_of(topology: Any) -> np.ndarray:
    return np.array([(i, j) for i, j in topology.links if i < j])


def gain(G: np.ndarray, covariance: np.ndarray) -> float:
    return float(np.trace(G) / np.trace(G @ covariance))


def graphs(*, quick: bool) -> list[dict[str, Any]]:
    """Every graph, both contractions: gopa at its best ratio, the one-step rule, edge keys, free; the last two checked forwards."""
    rows = []
    for name, make in list(GRAPHS.items())[: 1 if quick else None]:
        for contraction in (0.95,) if quick else (0.99, 0.95):
            topology = make()
            A, G, kappa = topology.matrix, own_gains(topology, contraction), np.ones(topology.num_agents)
            one_step = equal_privacy(free_covariance(A @ A.T / len(A), kappa).covariance, kappa)
            row: dict[str, Any] = {
                "graph": name,
                "contraction": contraction,
                "gopa": gain(G, best_pairwise_ratio(G, kappa, pairs_of(topology)).covariance),
                "one step": gain(G, one_step),
                "central bound": float(np.trace(G)) / central_bound(G, kappa, topology.perron),
            }
            problem = at_optimum(topology, contraction)
            for keys in ("edges", "joint"):
                made = sv.noise.design(
                    topology, ATC, {READER: 1.0}, rounds=ROUNDS, sensitivity=1.0, keys=keys, problem=problem
                )
                stated = sv.account(topology, ATC, made.noise, READER, rounds=ROUNDS, sensitivity=1.0)
                forwards = sv.expected_msd(problem, topology, ATC, made.noise, rounds=ROUNDS)["msd_average"][-1]
                row |= {
                    keys: made.gain,
                    f"{keys} gap": made.gap,
                    f"{keys} mu - 1": float(stated.mu or np.inf) - 1.0,
                    f"{keys} error against theory": abs(made.error / forwards - 1.0),
                    f"{keys} simulated": simulated(problem, topology, made, contraction),
                }
            rows.append(row)
            say(row)
    return rows


def simulated(problem: Any, topology: Any, made: Any, contraction: float) -> float:
    """Standard errors between the simulated noise part and the designed one, after the error has settled."""
    rounds = int(12 / (1 - contraction))
    expected = sv.expected_msd(problem, topology, ATC, made.noise, rounds=rounds)["msd_average"][-1]
    run = sv.simulate(problem, topology, ATC, made.noise, rounds=rounds, repeats=400, seed=0, progress=False)
    found = run.metrics["msd_average"][:, -1]
    return float((found.mean() - expected) / (found.std() / np.sqrt(len(found))))


def colluders(*, quick: bool) -> list[dict[str, Any]]:
    """Robust edge keys against any one or any two agents, and what a design without that target is worth there."""
    cases = [
        ("grid 4x5", 1),
        ("ring-20", 1),
        ("ER(20, 0.3)", 1),
        ("geometric(30, 0.35)", 1),
        ("ER(20, 0.3)", 2),
        ("ring-10", 2),
    ]
    rows = []
    for name, size in cases[-1:] if quick else cases:
        topology = sv.topologies.ring(10) if name == "ring-10" else GRAPHS[name]()
        asked: dict[str, Any] = {"rounds": 100, "sensitivity": 1.0, "curvature": 0.01 / STEP}
        anyone = sv.observers.any_coalition(size)
        robust, wall = measured(
            lambda t=topology, a=anyone, k=asked: sv.noise.design(t, ATC, {READER: 1.0, a: 1.0}, **k)
        )
        careless = sv.noise.design(topology, ATC, {READER: 1.0}, **asked)
        stated = sv.account(topology, ATC, careless.noise, anyone, rounds=100, sensitivity=1.0).mu
        row = {
            "graph": name, "colluders": size, "robust edge keys": robust.gain, "gap": robust.gap, "seconds": wall,
            "mu^2 of a design without this target": float(stated or np.inf) ** 2, "notes": list(robust.notes),
        }  # fmt: skip
        rows.append(row)
        say(row)
    return rows


def thousand(*, quick: bool) -> list[dict[str, Any]]:
    """ER(1000, 0.01): free and edge keys, with their times."""
    size = 60 if quick else 1000
    topology = sv.topologies.erdos_renyi(size, 0.15 if quick else 0.01, seed=0)
    G, rows = own_gains(topology, 0.99), []
    gopa = gain(G, best_pairwise_ratio(G, np.ones(size), pairs_of(topology)).covariance)
    for keys in ("joint", "edges"):
        asked: dict[str, Any] = {"rounds": 100, "sensitivity": 1.0, "curvature": 0.01 / STEP, "keys": keys}
        made, wall = measured(lambda k=asked: sv.noise.design(topology, ATC, {READER: 1.0}, **k))
        rows.append({"agents": size, "keys": keys, "gain": made.gain, "gap": made.gap, "seconds": wall, "gopa": gopa})
        say(rows[-1])
    return rows


def losses(*, quick: bool) -> list[dict[str, Any]]:
    """Clipped logistic regression, one record protected at mu = 1: simulated average errors against the predicted ratios."""
    topology, rounds, repeats = sv.topologies.erdos_renyi(20, 0.3, seed=0), 60 if quick else 400, 10 if quick else 100
    random, ridge = np.random.default_rng(0), 0.16
    features = random.normal(size=(20, 50, 5)) / np.sqrt(5)
    labels = np.where(features @ random.normal(size=5) + 0.3 * random.normal(size=(20, 50)) > 0, 1.0, -1.0)
    problem = sv.problems.logistic_regression(features, labels, ridge=ridge).with_clipping(0.5, "l2")
    size = problem.sensitivity(unit="record", adjacency="replace", norm="l2")
    curvature = logistic_curvature(features, labels, problem.optimum, ridge)
    asked: dict[str, Any] = {
        "rounds": rounds,
        "sensitivity": size,
        "unit": "record",
        "curvature": curvature,
        "when": "final",
    }
    G, kappa, A = (
        own_gains(topology, 0.0, curvature=curvature, when="final", rounds=rounds),
        np.ones(20),
        topology.matrix,
    )
    ratio = best_pairwise_ratio(G, kappa, pairs_of(topology)).ratio
    one_step = free_covariance(A @ A.T / 20, kappa).covariance
    schemes = {
        "independent": sv.noise.independent(sv.noise.Gaussian(std=1.0)),
        "gopa": sv.noise.gopa(sv.noise.Gaussian(std=1.0), pairwise_std=ratio),
        "one step": sv.noise.designed(sv.noise.Gaussian(std=1.0), joint=np.linalg.cholesky(one_step)),
        "edge keys": sv.noise.design(topology, ATC, {READER: 1.0}, keys="edges", **asked).noise,
        "free": sv.noise.design(topology, ATC, {READER: 1.0}, keys="joint", **asked).noise,
    }
    question = {"rounds": rounds, "sensitivity": size, "unit": "record"}
    equal = {
        name: noise.scaled(float(sv.account(topology, ATC, noise, READER, **question).mu or np.inf))
        for name, noise in schemes.items()
    }
    clean = sv.simulate(problem, topology, ATC, sv.noise.none(), rounds=rounds, progress=False).metrics["msd_average"][
        0, -1
    ]
    runs = sv.simulate(problem, topology, ATC, equal, rounds=rounds, repeats=repeats, seed=0, progress=False)
    parts = {name: float(run.metrics["msd_average"][:, -1].mean() - clean) for (_, name), run in runs.items()}
    predicted = {name: predicted_error(G, noise, topology) for name, noise in equal.items()}
    rows = [
        {
            "scheme": name,
            "noise part": part,
            "ratio": part / parts["independent"],
            "predicted": predicted[name] / predicted["independent"],
        }
        for name, part in parts.items()
    ]
    for row in rows:
        say(row)
    return rows


def logistic_curvature(features: np.ndarray, labels: np.ndarray, optimum: np.ndarray, ridge: float) -> float:
    """The mean eigenvalue of the Hessian at the optimum, over agents."""
    margins = labels * (features @ optimum)
    weights = 1.0 / (2.0 + np.exp(margins) + np.exp(-margins))
    return ridge + float((weights * (features**2).sum(axis=-1)).mean()) / features.shape[-1]


def predicted_error(G: np.ndarray, noise: Any, topology: Any) -> float:
    """tr(G S) of a scheme, read off its map."""
    bound = bind(noise, topology.active_links())
    kept = np.zeros((topology.num_agents, bound.num_sources))
    np.add.at(kept, (bound.self_index, bound.self_source), noise.std * bound.self_value)
    return float(np.trace(G @ kept @ kept.T))


def rounds(*, quick: bool) -> list[dict[str, Any]]:
    """Sizes by round for the last model, and own noise that remembers for records seen in turns."""
    topology = sv.topologies.erdos_renyi(20, 0.3, seed=0)
    asked: dict[str, Any] = {"sensitivity": 1.0, "keys": "own"}
    last = {**asked, "rounds": 200, "curvature": 0.05 / STEP, "when": "final"}
    white, scheduled = (
        sv.noise.design(topology, ATC, {READER: 1.0}, time=name, **last) for name in ("white", "schedule")
    )
    factors = scheduled.noise.factors(200)
    rows = [
        {
            "case": "sizes by round, last model",
            "gain": white.error / scheduled.error,
            "first over last": factors[0] / factors[-1],
        }
    ]
    say(rows[-1])
    for contraction in (0.95,) if quick else (0.99, 0.95):
        for number in (100,) if quick else (100, 1000):
            turns = sv.accounting.cyclic(number // 10, 10)
            asked = {
                "rounds": number, "sensitivity": 1.0, "unit": "record", "participation": turns, "curvature": (1 - contraction) / STEP,
                "when": "mean", "keys": "own", "time": "own", "bands": 10,
            }  # fmt: skip
            made, wall = measured(lambda k=asked: sv.noise.design(sv.topologies.ring(20), ATC, {READER: 1.0}, **k))
            rows.append(
                {"case": f"turns of 10, {number} rounds, contraction {contraction}", "gain": made.gain, "seconds": wall}
            )
            say(rows[-1])
    return rows


def measured(work: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    result = work()
    return result, time.perf_counter() - began


def say(row: dict[str, Any]) -> None:
    print(
        "  ".join(
            f"{name}: {value:.4g}" if isinstance(value, float) else f"{name}: {value}" for name, value in row.items()
        )
    )


PARTS = {"graphs": graphs, "colluders": colluders, "thousand": thousand, "losses": losses, "rounds": rounds}


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=sorted(PARTS))
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    chosen = PARTS if given.part is None else {given.part: PARTS[given.part]}
    found = {name: part(quick=given.quick) for name, part in chosen.items()}
    if given.part is None and not given.quick:
        target = Path(__file__).parent / "results" / "design_gains.json"
        target.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
