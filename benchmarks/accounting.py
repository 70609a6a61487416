"""How fast the accountant is, against targets and against a brute-force pseudo-inverse in the same run. Run with `make bench`.

The brute force forms the whole map Psi from noise to everything an observer reads, and its singular value decomposition. Every case runs
in a child process with BLAS on one thread. Nothing fails when a target is missed: it is said.

    python benchmarks/accounting.py                 every case; writes benchmarks/results/accounting.json
    python benchmarks/accounting.py --quick         small sizes, to see that it runs and agrees; its times mean nothing
    python benchmarks/accounting.py --case NAME     one case
    --output FILE                                   write the results there (with --quick or --case nothing is written otherwise)
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
os.environ.update(ONE_THREAD)  # BLAS reads it once, when NumPy is loaded

import networkx as nx  # noqa: E402
import numpy as np  # noqa: E402
from engine import rounded  # noqa: E402
from measure import peak_mb, timed  # noqa: E402
from threadpoolctl import threadpool_info  # noqa: E402

import sottovoce as sv  # noqa: E402
from sottovoce.accounting.linear_view.largest_mu import GramView, gram_view  # noqa: E402
from sottovoce.accounting.linear_view.pairwise import pairwise_linear_mu  # noqa: E402
from sottovoce.accounting.linear_view.worst_direction import worst_direction  # noqa: E402
from sottovoce.accounting.mechanisms.closed_forms import every_message_mu  # noqa: E402
from sottovoce.accounting.proofs import WAYS  # noqa: E402
from sottovoce.accounting.proofs.absorption_certificate import absorption_of  # noqa: E402
from sottovoce.accounting.proofs.evidence import Evidence  # noqa: E402
from sottovoce.accounting.question.asked import ask  # noqa: E402
from sottovoce.linear import Rounds, bound_rounds, network_round, observed_round  # noqa: E402
from sottovoce.observers import View, view  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "accounting.json"
STEP, STD = 0.4, 0.7
ATC = sv.algorithms.atc(step_size=STEP)
LAW = sv.noise.Gaussian(std=STD)
BROADCAST = sv.noise.independent(LAW, self_noise=True)

Row = dict[str, Any]


def row(what: str, value: float, unit: str, *, below: float | None = None, above: float | None = None) -> Row:
    """One line of the table, with its target if it has one."""
    value = float(value)
    target = f"< {below:g}" if below is not None else f">= {above:g}" if above is not None else None
    reached = value < below if below is not None else value >= above if above is not None else None
    return {"what": what, "value": value, "unit": unit, "target": target, "reached": reached}


class Network(NamedTuple):
    """A random regular network, ATC with broadcast noise in every copy, seen by agent 0."""

    topology: sv.topologies.Topology
    rounds: int
    neighbour: int  # the first agent that agent 0 hears: among the worst

    @staticmethod
    def regular(agents: int, degree: int, rounds: int) -> "Network":
        topology = sv.topologies.from_networkx(nx.random_regular_graph(degree, agents, seed=0))
        return Network(topology, rounds, int(topology.links[topology.links[:, 1] == 0, 0].min()))

    @property
    def setting(self) -> dict[str, Any]:
        return {"agents": self.topology.num_agents, "links": len(self.topology.links), "rounds": self.rounds}

    def run(self) -> Rounds:
        return bound_rounds(self.topology, ATC, BROADCAST, self.rounds)

    def seen_by(self, agent: int) -> View:
        return view(sv.observers.curious_agent(agent), self.topology)

    def linear(self, run: Rounds | None = None) -> GramView:
        """From the topology, or from its bound rounds, to the neighbour's Gram matrix."""
        bound = self.run() if run is None else run
        found = gram_view(bound, self.seen_by(0), np.array([self.neighbour]), every_round(self.rounds))
        assert found is not None  # far below the largest work
        return found

    def account(self, observer: sv.observers.Observer, **choices: Any) -> sv.Guarantee:
        return sv.account(
            self.topology,
            ATC,
            choices.pop("noise", BROADCAST),
            observer,
            rounds=self.rounds,
            sensitivity=1.0,
            **choices,
        )


def every_round(rounds: int) -> np.ndarray:
    return np.ones((1, rounds), dtype=bool)


def brute_gram(run: Rounds, seen: View, agents: np.ndarray) -> np.ndarray:
    """Q of the agents [P, T, T] from the whole Psi; for runs whose rounds are all alike."""
    system = observed_round(network_round(run.distinct[0]), seen, last=False, centroid=run.centroid.weights)
    F, G, N, H, D, M = (part.toarray() for part in system)
    T, (m, q), P = len(run), M.shape, len(agents)
    psi, phi = np.zeros((T, m, T, q)), np.zeros((T, m, T, P))
    noise, gradient, passed = M, D[:, agents], H
    for lag in range(T):
        later = np.arange(lag, T)
        psi[later, :, later - lag], phi[later, :, later - lag] = run.scales[0] * noise, gradient
        noise, gradient, passed = passed @ N, passed @ G[:, agents], passed @ F
    whitened = np.linalg.pinv(psi.reshape(T * m, T * q), rcond=1e-12) @ phi.reshape(T * m, T * P)
    by_agent = np.ascontiguousarray(whitened.reshape(-1, T, P).transpose(2, 0, 1))
    return np.asarray(by_agent.transpose(0, 2, 1) @ by_agent)


def difference(found: np.ndarray, reference: np.ndarray) -> float:
    """Largest difference, relative to the largest number of the reference."""
    return float(np.abs(found - reference).max() / np.abs(reference).max())


def one_agent(quick: bool) -> dict[str, Any]:
    """One curious agent and its neighbour: the library and the brute force take turns."""
    network = Network.regular(10 if quick else 30, 4, 10 if quick else 100)
    longer = network._replace(rounds=20 if quick else 400)
    rows, turns = [], 1 if quick else 7
    for case, number, target in ((network, turns, 50.0), (longer, 1, None)):
        network.linear()  # loads what is loaded late
        ours, theirs, ratios = [], [], []
        for _ in range(number):
            run = case.run()  # both start from the bound rounds
            fast, found = timed(lambda case=case, run=run: case.linear(run))
            slow, Q = timed(lambda case=case, run=run: brute_gram(run, case.seen_by(0), np.array([case.neighbour])))
            ours, theirs, ratios = [*ours, fast.cpu], [*theirs, slow.cpu], [*ratios, slow.cpu / fast.cpu]
        value, T = found.value(0, 1.0), f"T = {case.rounds}"
        brute_mu = float(np.sqrt(worst_direction(Q[0]).upper))
        rows += [
            row(f"{T}, Gram matrix", statistics.median(ours), "s"),
            row(f"{T}, brute force, {Q.shape[1] * 4} x {Q.shape[1] * (len(case.seen_by(0).members) - 1)}", statistics.median(theirs), "s"),
            row(f"{T}, times faster", statistics.median(ratios), "x", above=target),
            row(f"{T}, Gram matrices differ by", difference(found.gram.values, Q), "relative", below=1e-8),
            row(f"{T}, linear mu differs by", abs(value.mu / brute_mu - 1), "relative", below=1e-8),
        ]  # fmt: skip
    return {"setting": network.setting, "rows": rows}


def many_rounds(quick: bool) -> dict[str, Any]:
    """A long run: the Gram matrix, and the certified worst direction of the neighbour."""
    network = Network.regular(10 if quick else 30, 4, 40 if quick else 1000)
    first, found = timed(network.linear)
    second, value = timed(lambda: found.value(0, 1.0))
    whole, single = timed(lambda: network.account(sv.observers.curious_agent(0), agent=network.neighbour))
    rows = [
        row("Gram matrix of a neighbour", first.cpu, "s", below=4),
        row("with certified linear mu", first.cpu + second.cpu, "s", below=15),
        row("certified to", value.gap, "gap", below=1e-4),
        row("sv.account of the neighbour", whole.cpu, "s"),
        row("and its linear mu differs by", abs(single.linear_mu / value.mu - 1), "relative", below=1e-8),
        row("peak memory", peak_mb(), "MB"),
    ]
    worst, _ = timed(lambda: network.account(sv.observers.curious_agent(0)))
    rows += [
        row("sv.account of the worst agent, without its linear view", worst.cpu, "s"),
        row("peak memory with it", peak_mb(), "MB"),
    ]
    return {"setting": network.setting, "rows": rows}


def many_agents(quick: bool) -> dict[str, Any]:
    """A large network seen by one of its agents."""
    network = Network.regular(40 if quick else 1000, 8, 10 if quick else 100)
    spent, single = timed(lambda: network.account(sv.observers.curious_agent(0), agent=network.neighbour))
    rows = [
        row("sv.account of a neighbour", spent.cpu, "s", below=15),
        row("certified to", single.linear_gap, "gap", below=1e-4),
        row("peak memory", peak_mb(), "MB", below=2000),
    ]
    spent, worst = timed(lambda: network.account(sv.observers.curious_agent(0)))
    rows += [
        row("sv.account of the worst agent", spent.cpu, "s", below=15),
        row("its linear mu, times the neighbour's", worst.linear_mu / single.linear_mu, "ratio", above=1 - 1e-6),
        row("peak memory with it", peak_mb(), "MB", below=2000),
    ]
    return {"setting": network.setting, "rows": rows}


def eavesdropper(quick: bool) -> dict[str, Any]:
    """All messages: closed forms, and sv.account alongside."""
    network = Network.regular(10 if quick else 30, 4, 40 if quick else 1000)
    own = float(network.topology.self_weights[0])  # the same for all agents of a regular graph
    schemes = {
        "self-noise": (0.0, BROADCAST),
        "clean own copy": (own, sv.noise.independent(LAW, self_noise=False)),
        "graph-homomorphic": (1.0, sv.noise.graph_homomorphic(LAW)),
    }
    rows = []
    for name, (feedback, noise) in schemes.items():

        def closed(feedback: float = feedback) -> float:
            return every_message_mu(
                step_size=STEP, sensitivity=1.0, std=STD, gradients_sent=network.rounds, feedback=feedback
            )

        spent, found = timed(lambda noise=noise: network.account(sv.observers.eavesdropper(), noise=noise))
        rows += [
            row(f"{name}, closed form", median_ms(closed), "ms", below=1),
            row(f"{name}, sv.account, worst agent", 1e3 * spent.cpu, "ms"),
            row(f"{name}, they differ by", abs(found.mu / closed() - 1), "relative", below=1e-8),
        ]
    return {"setting": network.setting, "rows": rows}


def median_ms(work: Callable[[], Any]) -> float:
    return 1e3 * statistics.median(timed(work)[0].wall for _ in range(200))


def all_pairs(quick: bool) -> dict[str, Any]:
    """Every agent looks at every other, on an Erdos-Renyi graph; a few observers also by brute force."""
    K, T, p = (20, 5, 0.3) if quick else (271, 10, 10 / 270)
    topology = sv.topologies.erdos_renyi(K, p, seed=0)
    network = Network(topology, T, 1)
    spent, table = timed(lambda: pairwise_linear_mu(topology, ATC, BROADCAST, rounds=T, sensitivity=1.0))
    ratios, differs, gap = [], 0.0, 0.0
    for observer in range(0, K, max(1, K // 9)):
        others, run, seen = np.delete(np.arange(K), observer), network.run(), network.seen_by(observer)
        slow, Q = timed(lambda run=run, seen=seen, others=others: brute_gram(run, seen, others))
        fast, _ = timed(lambda run=run, seen=seen, others=others: gram_view(run, seen, others, every_round(T)))
        best = worst_direction(Q)
        mu = np.sqrt(best.upper)
        ratios.append(slow.cpu / fast.cpu)
        differs = max(differs, difference(table[others, observer], mu))
        gap = max(gap, float((1 - np.sqrt(best.lower / np.where(best.upper > 0, best.upper, 1)))[best.upper > 0].max()))
    setting = {**network.setting, "p": p, "mean_degree": len(topology.links) / K, "pairs": K * (K - 1)}
    rows = [
        row("certified linear mu of all pairs", spent.cpu, "s", below=90),
        row(f"{len(ratios)} observers, certified to", gap, "gap", below=1e-4),
        row("their linear mu differs from brute force by", differs, "relative", below=1e-6),  # twice the gap in mu
        row("their Gram matrices, times faster than brute force", statistics.median(ratios), "x"),
        row("peak memory", peak_mb(), "MB"),
    ]
    return {"setting": setting, "rows": rows}


def absorption(quick: bool) -> dict[str, Any]:
    """The certificate for adaptive gradients, at every distance from the observer."""
    network = Network.regular(10 if quick else 30, 4, 10 if quick else 100)
    graph = nx.Graph(network.topology.links.tolist())
    distance = nx.single_source_shortest_path_length(graph, 0)
    question = sv.Question(rounds=network.rounds, sensitivity=1.0, losses=sv.accounting.ConvexSmooth(beta=1.0))
    asked = ask(network.topology, ATC, BROADCAST, sv.observers.curious_agent(0), question)
    made = absorption_of(Evidence(asked, np.arange(1, network.topology.num_agents), WAYS))
    assert made is not None  # single-owner sources, one per link
    rows = []
    for far in range(1, max(distance.values()) + 1):
        agent = min(one for one in distance if distance[one] == far)
        spent, found = timed(lambda agent=agent: made.certificate(agent, 1.0))
        linear = network.account(sv.observers.curious_agent(0), agent=agent).linear_mu
        rows += [
            row(f"distance {far}, certificate", spent.cpu, "s"),
            row(f"distance {far}, above the best plan by", found.mu / found.lower - 1, "gap", below=1e-4),
            row(f"distance {far}, mu, times the linear mu", found.mu / linear, "ratio", above=1 - 1e-6),
        ]
    return {"setting": network.setting, "rows": rows}


CASES = {case.__name__: case for case in (one_agent, many_rounds, many_agents, eavesdropper, all_pairs, absorption)}
TIMES = ("s", "ms", "x", "MB")


def main() -> None:
    parser = argparse.ArgumentParser(description="Benchmark the accountant.")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs and agrees")
    parser.add_argument("--case", choices=CASES, help="only this case")
    parser.add_argument("--output", type=Path, help="file for the results")
    parser.add_argument("--child", choices=CASES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    refuse_several_threads()
    if options.child is not None:
        options.output.write_text(json.dumps(CASES[options.child](options.quick)))
        return
    names = list(CASES) if options.case is None else [options.case]
    results: dict[str, Any] = {"facts": facts(options.quick), "cases": {}}
    print(", ".join(f"{name} {value}" for name, value in results["facts"].items()))
    print("One BLAS thread; CPU seconds; ratios are medians over turns inside one process.")
    for name in names:
        results["cases"][name] = run_case(name, options.quick)
        print_case(name, results["cases"][name], options.quick)
    output = options.output or (RESULTS if options.case is None and not options.quick else None)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(rounded(results), indent=1) + "\n")


def refuse_several_threads() -> None:
    several = [pool["internal_api"] for pool in threadpool_info() if pool["num_threads"] != 1]
    if several:
        sys.exit(f"{', '.join(several)} runs on several threads; start with {' '.join(f'{k}=1' for k in ONE_THREAD)}.")


def facts(quick: bool) -> dict[str, Any]:
    packages = ("sottovoce", "numpy", "scipy", "clarabel", "networkx")
    return {
        "quick": quick,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "blas_threads": 1,
        "python": platform.python_version(),
        **{package: metadata.version(package) for package in packages},
    }


def run_case(name: str, quick: bool) -> dict[str, Any]:
    """Run a case in a child process, so that peak memory is its own (but for the 100 MB with which every process starts)."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "case.json"
        command = [sys.executable, __file__, "--child", name, "--output", str(output)]
        subprocess.run([*command, "--quick"] if quick else command, check=True)
        return dict(json.loads(output.read_text()))


def print_case(name: str, case: dict[str, Any], quick: bool) -> None:
    print(f"\n{name}: " + ", ".join(f"{key} {value:g}" for key, value in case["setting"].items()))
    print(f"  {'':<56} {'measured':>18} {'target':>10}  verdict")
    for line in case["rows"]:
        measured = f"{line['value']:.3g} {line['unit']}"
        print(f"  {line['what']:<56} {measured:>18} {line['target'] or '':>10}  {verdict(line, quick)}".rstrip())


def verdict(line: Row, quick: bool) -> str:
    if line["reached"] is None:
        return ""
    if quick and line["unit"] in TIMES:
        return "not judged"
    return "reached" if line["reached"] else "MISSED"


if __name__ == "__main__":
    main()
