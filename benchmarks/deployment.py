"""What a run among real parties costs: seconds of a round, memory of a party, and time until all are ready.

    python benchmarks/deployment.py                         all of it, some five minutes
    python benchmarks/deployment.py --only ring network     some of it
    --parties N --parameters D --rounds T                   other sizes; then nothing is held against a target
    --folder DIR --json FILE                                the disk to be measured; the numbers as JSON

    ring, erdos_renyi   16 parties, 10 000 parameters, linear regression, imports of JAX blocked
    relayed             the ring, over a relay on the same machine (nats-server, see tools/local_relay.py)
    million             4 parties on a ring, 1 000 000 parameters
    network             16 parties on a ring with a small neural network, on JAX
    commit, samplers    the store and the noise alone, by benchmarks/store.py and benchmarks/samplers.py

Every party is a process with its own keys, its own store on disk (every exchange is flushed before anything of it is sent) and gRPC with mutual TLS over
loopback, or a relay; messages are sealed. It calls what `sottovoce party run` calls. All processes share the machine's cores, so times depend on whatever else runs
there: the load before and after stands beside each number, as do processor seconds, which depend on it least. On the ring, sealed messages of the same
size alone (benchmarks/transport.py) are measured in the same minute, and the ratio is given.

A round's time is the median over the parties; median and 90 % are over rounds, the first ones left out. "Where it goes" is the thread that computes;
waiting for neighbours includes whatever they do. Memory is each party's own and its share of what processes have in common, in the middle of the run.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import samplers
import store
import transport
from deployment_party import PHASES

from sottovoce.deployment.identity import load_roster
from sottovoce.experiments import parse, prepare_rehearsal

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "tools"))

from local_relay import Relay  # noqa: E402

RECORDS = 8  # of a party: gradients cost little
WARM = 5  # rounds that are not counted
CLASSES, WIDTH = 2, 64
READY_S = 25.0
LONGEST_S = 600  # after which processes are ended


class Case(NamedTuple):
    """One run, and what was asked of it."""

    graph: str
    parties: int
    parameters: int
    rounds: int
    target_ms: float | None
    target_mb: float | None
    jax: bool = False
    relay: bool = False


CASES = {
    "ring": Case("ring", 16, 10_000, 100, 80.0, 80.0),
    "erdos_renyi": Case("erdos_renyi", 16, 10_000, 100, 150.0, 80.0),
    "relayed": Case("ring", 16, 10_000, 100, 200.0, None, relay=True),
    "million": Case("ring", 4, 1_000_000, 15, None, None),
    "network": Case("ring", 16, 10_000, 15, None, 140.0, jax=True),
}
ALONE = ("commit", "samplers")


def tables(case: Case) -> dict[str, Any]:
    """The file of a case."""
    graph = {"probability": 0.3, "seed": 2} if case.graph == "erdos_renyi" else {}
    problem: dict[str, Any] = {"kind": "linear_regression", "ridge": 0.01}
    features = case.parameters
    if case.jax:
        features = (case.parameters - WIDTH - (WIDTH + 1) * CLASSES) // WIDTH
        problem = {"kind": "classification", "ridge": 0.01, "hidden": WIDTH, "classes": CLASSES}
    return {
        "experiment": {"name": "benchmark", "rounds": WARM + case.rounds},
        "topology": {"kind": case.graph, "agents": case.parties, **graph},
        "problem": {"data": "records.npz", **problem},
        "algorithm": {"kind": "atc", "step_size": 0.1},
        "noise": {"kind": "independent", "law": "gaussian", "std": 0.5, "self_noise": True},
        "privacy": {"unit": "record", "clip": 0.5, "clip_norm": "l2", "delta": 1e-5, "observers": ["eavesdropper"]},
        "deployment": {
            "run": "benchmark",
            "roster": "roster.json",
            "features": features,
            "records": {f"party-{number:02d}": RECORDS for number in range(case.parties)},
            "time_limit": 120,
        },
    }


def write_records(folder: Path, names: tuple[str, ...], case: Case, features: int) -> None:
    """A file of plain numbers for every party."""
    draw = np.random.default_rng(0)
    for name in names:
        targets = np.arange(RECORDS) % CLASSES if case.jax else draw.uniform(-1.0, 1.0, RECORDS)
        np.savez(folder / name / "records.npz", features=draw.uniform(-1.0, 1.0, (RECORDS, features)), targets=targets)


def measure(case: Case, parent: Path | None) -> dict[str, Any]:
    """Play one run, each party in a process, and return what it took."""
    with tempfile.TemporaryDirectory(dir=parent) as temporary:
        folder, asked, load = Path(temporary), tables(case), os.getloadavg()[0]
        rehearsal = prepare_rehearsal(parse(asked, source="the benchmark"), folder, secret=True)
        write_records(folder, rehearsal.names, case, asked["deployment"]["features"])
        with ExitStack() as running:
            if case.relay:
                relay = running.enter_context(Relay(folder / "nats", load_roster(folder / "roster.json")))
                relay.tell(folder)
            begun = time.time()
            found = play(folder, rehearsal.names, jax=case.jax)
        # [parties, rounds] seconds; one exchange is one round here
        seconds = np.array([_seconds(folder / name / "metrics.jsonl") for name in rehearsal.names])[:, WARM:]
    rounds = 1e3 * np.median(seconds, axis=0)
    memory = [each["memory"]["pss"] for each in found]
    return {
        **case._asdict(),
        "parameters": rehearsal.agreement.dimension,
        "round_ms": float(np.median(rounds)),
        "round_90_ms": float(np.quantile(rounds, 0.9)),
        "slowest_party_ms": 1e3 * float(np.median(seconds.max(axis=0))),
        "cpu_ms": 1e3 * statistics.mean(each["cpu"] for each in found) / (WARM + case.rounds),
        "ready_s": max(each["ready"] for each in found) - begun,
        "start_cpu_s": statistics.mean(each["cpu_before"] for each in found),
        "memory_mb": statistics.mean(memory),
        "largest_memory_mb": max(memory),
        "where_ms": {
            phase: 1e3 * statistics.mean(each["phases"][phase] for each in found) / (WARM + case.rounds)
            for phase in PHASES
        },
        "jax_imported": any(each["jax"] for each in found),
        "load": [load, os.getloadavg()[0]],
    }


def play(folder: Path, names: tuple[str, ...], *, jax: bool) -> list[dict[str, Any]]:
    """Start all parties and wait for what each of them prints; none is left behind."""
    command = [sys.executable, str(HERE / "deployment_party.py"), str(folder)]
    with ExitStack() as started:
        processes = []
        for name in names:
            process = subprocess.Popen([*command, name, *(["--jax"] if jax else [])], stdout=subprocess.PIPE, text=True)
            started.callback(_end, process)
            processes.append(process)
        deadline = time.monotonic() + LONGEST_S
        said = [process.communicate(timeout=max(1.0, deadline - time.monotonic()))[0] for process in processes]
    failed = [name for name, process in zip(names, processes, strict=True) if process.returncode]
    if failed:
        raise SystemExit(f"{', '.join(failed)} ended with an error, which stands above.")
    return [json.loads(each) for each in said]


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()


def _seconds(path: Path) -> list[float]:
    return [json.loads(line)["seconds"] for line in path.read_text(encoding="utf-8").splitlines()]


def show(name: str, found: dict[str, Any], *, held: bool) -> None:
    """Print one case; `held` says whether its sizes are those that targets are for."""
    load = "{:.0f} before, {:.0f} after".format(*found["load"])
    print(f"\n{name}: {found['parties']} parties, {found['parameters']:,} parameters, {found['rounds']} rounds")
    print(f"  load {load}; {os.cpu_count()} cores")
    rows = [
        ("round, median", found["round_ms"], "ms", found["target_ms"]),
        ("round, 90 %", found["round_90_ms"], "ms", None),
        ("slowest party of a round, median", found["slowest_party_ms"], "ms", None),
        ("processor time of a party and round", found["cpu_ms"], "ms", None),
        ("memory of a party, mean", found["memory_mb"], "MB", found["target_mb"]),
        ("all ready after", found["ready_s"], "s", READY_S if found["parties"] == CASES["ring"].parties else None),
        ("processor time of a start", found["start_cpu_s"], "s", None),
    ]
    for what, value, unit, target in rows:
        print(f"  {what:37}{value:9.1f} {unit}{verdict(value, target) if held else ''}")
    if "messages_alone_ms" in found:
        alone, times = found["messages_alone_ms"], found["times_messages_alone"]
        print(f"  {'sealed messages alone, median':37}{alone:9.1f} ms   a round is {times:.1f} times it")
    spent = [f"{phase} {value:.1f}" for phase, value in found["where_ms"].items()]
    print(f"  where it goes, ms: {', '.join(spent[:4])},\n{'':21}{', '.join(spent[4:])}")


def verdict(value: float, target: float | None) -> str:
    """Whether a target was reached."""
    return "" if target is None else f"  target {target:g}: {'reached' if value <= target else 'missed'}"


def beside_messages(found: dict[str, Any]) -> dict[str, Any]:
    """The same ring with sealed messages of the same size and nothing else, and how many times longer a whole round takes."""
    alone = transport.measure(found["parties"], "ring", found["rounds"], 8 * found["parameters"])
    return {
        **found,
        "messages_alone_ms": alone["round_ms"],
        "times_messages_alone": found["round_ms"] / alone["round_ms"],
        "messages_alone_load": alone["load"],
    }


def alone(name: str, parent: Path | None) -> dict[str, Any]:
    """The store or the samplers by themselves, by their own benchmarks."""
    before = os.getloadavg()[0]
    if name == "samplers":
        rows = samplers.measure()
        drawn = {law: row["draws_a_second"] for law, row in rows.items() if ", std 2^" in law and "fresh" not in law}
        slowest = min(drawn, key=lambda law: drawn[law])
        print(f"\nsamplers, keystream included; load {before:.0f} before, {os.getloadavg()[0]:.0f} after")
        reached = "reached" if drawn[slowest] >= samplers.TARGET else "missed"
        speed = f"{drawn[slowest] / 1e6:.1f} million draws a second"
        print(f"  slowest law ({slowest}): {speed}\n  target {samplers.TARGET / 1e6:g}: {reached}")
        return {"slowest": slowest, "draws_a_second": drawn[slowest], "rows": rows, "load": before}
    found = {}
    print(f"\ncommit of one exchange, alone; load {before:.0f} before")
    for dimension, target in store.TARGETS.items():
        with tempfile.TemporaryDirectory(dir=parent) as folder:
            row = store.measure(Path(folder), dimension, 40)
        found[str(dimension)] = row
        took = f"{row['commit_ms']:.1f} ms, {row['ratio']:.1f} times a bare write and flush"
        print(f"  {dimension:>9,} parameters: {took}{verdict(row['commit_ms'], target)}")
    return found


def main() -> None:
    """Measure, print, and write if asked."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", nargs="+", choices=(*CASES, *ALONE), default=(*CASES, *ALONE))
    options.add_argument("--parties", type=int)
    options.add_argument("--parameters", type=int)
    options.add_argument("--rounds", type=int)
    options.add_argument("--folder", type=Path, help="on the disk to be measured")
    options.add_argument("--json", type=Path)
    asked = options.parse_args()
    sizes = {key: getattr(asked, key) for key in ("parties", "parameters", "rounds") if getattr(asked, key)}
    results: dict[str, Any] = {}
    for name in asked.only:
        if name in ALONE:
            results[name] = alone(name, asked.folder)
            continue
        found = measure(CASES[name]._replace(**sizes), asked.folder)
        results[name] = beside_messages(found) if name == "ring" else found
        show(name, results[name], held=not sizes)
        if asked.json:  # whatever happens later, this was measured
            asked.json.write_text(json.dumps(results, indent=1) + "\n")
    if asked.json:
        asked.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
