"""How many federated rounds per second, against Flower's simulation and pfl, for one problem that all three solve alike.

Logistic regression with 100 clients, 64 features, 100 records each; FedAvg, every client in every round, one full-batch gradient step,
uniform weights, no noise, no evaluation:

    w <- w - (mu / K) sum_k grad J_k(w)

Each peer is installed, with the versions below, into an environment of its own; one that cannot be installed is named and left out.
The competitors take turns, each in a fresh process with BLAS on one thread and every core allowed. A process makes a first run, whose
end is its start-up time, then a short and a long one, and rounds per second is the difference in rounds over the difference in
seconds: start-up, tracing and compilation are not in it. The models after the same number of rounds are compared with float64
NumPy first; whoever computes something else is not compared. Rounds per second is wall time, since most of Flower's round is waiting;
for pfl, one process like ours, the ratio in CPU seconds is given too, which a busy machine changes less.

The numbers say what a round costs besides arithmetic. All clients here are one compiled array program. The peers do more in a round:

    Flower  serialises the model to every client and every reply back, schedules each client on a worker process of Ray, keeps clients
            apart, and asks every 0.1 s for new messages and for replies
    pfl     samples, seeds, trains and adds up the users one by one in Python, and gathers metrics of each; here with a NumPy model,
            which needs none of its deep-learning frameworks

Their price is per client and round, so that it vanishes when a client works for seconds; they also run what cannot be written as one
array program, and Flower the same code on real clients. Nothing fails when a target is missed: it is said.

    python benchmarks/federated.py                  writes benchmarks/results/federated.json
    python benchmarks/federated.py --quick          one turn, few rounds, to see that it runs; its ratios mean nothing
    --skip PEER                                     leave a peer out (may be given twice; nothing is written without --output)
    --environments DIR                              where the peers are installed (default: the user's cache folder)
    --output FILE                                   write the results there
"""

import argparse
import contextlib
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from engine import ONE_THREAD, rounded, verdict_of
from measure import compare

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "federated.json"
CLIENTS, RECORDS, FEATURES, STEP_SIZE = 100, 100, 64, 0.1
COMMON = 25  # rounds that everyone runs, after which the models must agree
TOLERANCE = 1e-5  # of the model's largest entry: float32, sums in any order
TURN_SECONDS, INSTALL_SECONDS = 300, 1200
COMPILE_EVENT = "/jax/core/compile/backend_compile_duration"

# What a competitor writes: ready_at, versions, and for each run seconds and models, with cpu_seconds where it is one process.
Turn = dict[str, Any]


class Competitor(NamedTuple):
    """Who runs, and how long: the first run is start-up, the last two give the rate."""

    script: str
    lengths: tuple[int, ...]
    quick_lengths: tuple[int, ...]
    requirements: tuple[str, ...] = ()  # none: runs in this environment
    target: float | None = None  # how many times its rounds per second are asked of us

    def rounds(self, quick: bool) -> tuple[int, ...]:
        return self.quick_lengths if quick else self.lengths


# Ours comes between the peers. Its runs above 512 rounds share a program, which the second one compiles; the later ones take it from
# the cache if compiling took long enough to be stored there, and otherwise compile again.
COMPETITORS = {
    "flower": Competitor(
        "federated_flower.py",
        (1, 5, COMMON),
        (1, 5, COMMON),
        ("flwr[simulation]==1.41.0", "ray==2.55.1", "numpy==2.4.6"),
        300,
    ),
    "sottovoce": Competitor("federated.py", (COMMON, 1024, 1024, 17408), (COMMON, 1024, 1024, 5120)),
    "pfl": Competitor("federated_pfl.py", (1, COMMON, 425), (1, COMMON, 75), ("pfl==0.6.0", "numpy==2.4.6"), 100),
}
OURS = "sottovoce"
PEERS = tuple(name for name, one in COMPETITORS.items() if one.requirements)
BESIDES = {
    "flower": "serialises every message, schedules each client on a Ray worker process, keeps clients apart, polls every 0.1 s",
    "pfl": "samples, seeds, trains and adds up the users one by one in Python, with metrics of each",
}


def main() -> None:
    if len(sys.argv) > 1 and sys.argv[1] == "--child":
        run_ours(*sys.argv[2:4], lengths=[int(number) for number in sys.argv[4:]])
        return
    parser = argparse.ArgumentParser(description="Benchmark federated rounds against Flower and pfl.")
    parser.add_argument("--quick", action="store_true", help="one turn, few rounds, to see that it runs")
    parser.add_argument("--skip", action="append", choices=PEERS, default=[], help="leave this peer out")
    parser.add_argument("--environments", type=Path, default=cache_folder(), help="where the peers are installed")
    parser.add_argument("--output", type=Path, help="file for the results")
    options = parser.parse_args()
    known = facts(options.quick)
    print(", ".join(f"{name} {value}" for name, value in known.items()))
    interpreters, skipped = install_peers(options.environments, options.skip)
    turns = take_turns(interpreters, skipped, turns=1 if options.quick else 5, quick=options.quick)
    results = {"facts": known, **summary(turns, skipped, options.quick)}
    print_results(results)
    output = options.output or (None if options.quick or options.skip else RESULTS)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(rounded(results), indent=1) + "\n")


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "sottovoce" / "benchmarks"


def facts(quick: bool) -> dict[str, Any]:
    return {
        "quick": quick,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "blas_threads": 1,
        "load_average": round(os.getloadavg()[0], 1),  # before anything of ours
        "python": platform.python_version(),
        **{package: metadata.version(package) for package in ("sottovoce", "jax", "numpy")},
    }


def run_ours(data: str, output: str, *, lengths: list[int]) -> None:
    """What a peer's script does, here with the library."""
    import jax

    import sottovoce as sv

    compiled: list[float] = []  # seconds that the compiler itself reports, in the run under way

    def listen(event: str, seconds: float, **_: Any) -> None:
        if event == COMPILE_EVENT:
            compiled.append(seconds)

    jax.monitoring.register_event_duration_secs_listener(listen)
    with np.load(data) as held:
        problem = sv.problems.logistic_regression(held["features"], held["labels"])
        step_size = float(held["step_size"])
    federation = sv.topologies.federation(problem.num_agents)
    algorithm, noise = sv.algorithms.fedavg(step_size=step_size), sv.noise.none()
    versions = {name: metadata.version(name) for name in ("sottovoce", "jax")}
    result: Turn = {"versions": versions, "seconds": [], "cpu_seconds": [], "compile_seconds": [], "models": []}
    for rounds in lengths:
        compiled.clear()
        before, cpu_before = time.perf_counter(), time.process_time()
        run = sv.simulate(problem, federation, algorithm, noise, rounds=rounds, record=(), progress=False)
        result["seconds"].append(time.perf_counter() - before)
        result["cpu_seconds"].append(time.process_time() - cpu_before)
        result["compile_seconds"].append(sum(compiled))
        result["models"].append(run.models[0, 0].tolist())  # after the server's average all agents hold the same
        result.setdefault("ready_at", time.time())
    Path(output).write_text(json.dumps(result))


def install_peers(folder: Path, left_out: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """{competitor: interpreter}, and {peer: why it is skipped}."""
    interpreters, skipped = {OURS: sys.executable}, {}
    for name in PEERS:
        if name in left_out:
            skipped[name] = "left out with --skip"
            continue
        found = install(COMPETITORS[name].requirements, folder.expanduser().resolve() / name)
        if found.installed:
            interpreters[name] = str(found.interpreter)
        else:
            skipped[name] = f"could not be installed: {found.problem}"
    for name, reason in skipped.items():
        print(f"{name} is skipped: {reason}")
    return interpreters, skipped


class Installation(NamedTuple):
    interpreter: Path
    problem: str = ""

    @property
    def installed(self) -> bool:
        return not self.problem


def install(requirements: tuple[str, ...], folder: Path) -> Installation:
    """An environment with exactly these requirements, made when it is not there yet."""
    interpreter, complete = folder / "bin" / "python", folder / "requirements.txt"
    wanted = "\n".join(requirements) + "\n"
    if complete.exists() and complete.read_text() == wanted and interpreter.exists():
        return Installation(interpreter)
    if folder.exists() and any(folder.iterdir()) and not (folder / "pyvenv.cfg").exists():
        return Installation(interpreter, f"{folder} is not an environment; give another folder with --environments")
    print(f"installing {' '.join(requirements)} into {folder}", flush=True)
    pip = [str(interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in ([sys.executable, "-m", "venv", "--clear", str(folder)], [*pip, *requirements]):
        with tempfile.TemporaryFile("w+") as log:
            problem = run_bounded(command, dict(os.environ), log, INSTALL_SECONDS)
            if problem:
                return Installation(interpreter, problem)
    complete.write_text(wanted)
    return Installation(interpreter)


def run_bounded(command: list[str], environment: dict[str, str], log: Any, seconds: float) -> str:
    """Run in a process group of its own, of which nothing is left afterwards; what went wrong, or nothing."""
    try:
        process = subprocess.Popen(
            command, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    except OSError as error:
        return str(error)
    try:
        status = process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"stopped after {seconds:g} s"
    finally:
        with contextlib.suppress(ProcessLookupError):  # the usual end: the whole group is gone
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if status == 0:
        return ""
    log.seek(0)
    lines = [line.strip() for line in log.read().splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()] or lines or [f"exit status {status}"]
    return errors[-1][:300]


def take_turns(
    interpreters: dict[str, str], skipped: dict[str, str], *, turns: int, quick: bool
) -> dict[str, list[Turn]]:
    """Everyone once in every turn; a peer that fails is named, and left out from then on."""
    results: dict[str, list[Turn]] = {name: [] for name in COMPETITORS if name in interpreters}
    with tempfile.TemporaryDirectory(prefix="sv") as folder:  # a short name: Ray puts sockets under it
        data = Path(folder) / "data.npz"
        np.savez(data, **make_data())
        for number in range(turns):
            for name in list(results):
                print(f"turn {number + 1} of {turns}: {name}", file=sys.stderr, flush=True)
                turn, problem = take_turn(name, interpreters[name], data, quick)
                if turn is not None:
                    results[name].append(turn)
                elif name == OURS:
                    sys.exit(f"{name} failed: {problem}")
                else:
                    skipped[name] = f"failed in turn {number + 1}: {problem}"
                    print(f"{name} is skipped: {skipped[name]}")
                    del results[name]
    return results


def make_data() -> dict[str, np.ndarray]:
    """Two classes with noisy labels; every client has its own shift."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((CLIENTS, RECORDS, FEATURES)) + 0.3 * rng.standard_normal((CLIENTS, 1, FEATURES))
    margins = features @ rng.standard_normal(FEATURES) + 4 * rng.standard_normal((CLIENTS, RECORDS))
    return {
        "features": features.astype(np.float32),
        "labels": np.where(margins > 0, 1, -1).astype(np.float32),
        "step_size": np.array(STEP_SIZE),
    }


def take_turn(name: str, interpreter: str, data: Path, quick: bool) -> tuple[Turn | None, str]:
    """One process of one competitor: what it measured, or why there is nothing."""
    chosen = COMPETITORS[name]
    with tempfile.TemporaryDirectory(prefix="sv", ignore_cleanup_errors=True) as folder:
        output = Path(folder) / "turn.json"
        environment = {
            **{key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "JAX_COMPILATION_CACHE_DIR")},
            **ONE_THREAD,
            "JAX_PLATFORMS": "cpu",
            "CUDA_VISIBLE_DEVICES": "",
            "SOTTOVOCE_CACHE": str(Path(folder) / "cache"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_HOME": folder,
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_TMPDIR": folder,
            "RAY_worker_niceness": "0",  # 15 by default, which on a busy machine would hold Flower back
        }  # fmt: skip
        mode = ["--child"] if name == OURS else []
        lengths = map(str, chosen.rounds(quick))
        command = [interpreter, str(HERE / chosen.script), *mode, str(data), str(output), *lengths]
        begun = time.time()
        with (Path(folder) / "log.txt").open("w+") as log:
            problem = run_bounded(command, environment, log, TURN_SECONDS)
        if problem or not output.exists():
            return None, problem or "it ended without a result"
        turn: Turn = json.loads(output.read_text())
        turn["start_up"] = turn["ready_at"] - begun
        return turn, ""


def summary(turns: dict[str, list[Turn]], skipped: dict[str, str], quick: bool) -> dict[str, Any]:
    """Rates, start-up and agreement of everyone, and the ratios to those who computed the same."""
    reference = reference_model(make_data(), COMMON)
    spent: dict[str, list[float]] = {}
    competitors: dict[str, Any] = {}
    for name, taken in turns.items():
        lengths = COMPETITORS[name].rounds(quick)
        spent[name] = [seconds_per_round(lengths, turn["seconds"]) for turn in taken]
        rates = [1 / seconds for seconds in spent[name]]
        apart = [np.array(turn["models"][lengths.index(COMMON)]) - reference for turn in taken]
        difference = float(np.abs(apart).max() / np.abs(reference).max())
        competitors[name] = {
            "versions": taken[0]["versions"],
            "rounds_per_second": {"median": statistics.median(rates), "worst": min(rates), "best": max(rates)},
            "start_up_seconds": statistics.median(turn["start_up"] for turn in taken),
            "relative_difference": difference,
            "agrees": difference <= TOLERANCE,
        }
        if name == OURS:
            # Not the difference of two runs: where the program is too quick to compile for the cache, both compile it.
            compilation = [turn["compile_seconds"][-3] for turn in taken]
            competitors[name]["compilation_seconds"] = statistics.median(compilation)
    same = [name for name in PEERS if name in turns and competitors[name]["agrees"] and competitors[OURS]["agrees"]]
    cpu = {
        name: [seconds_per_round(COMPETITORS[name].rounds(quick), turn["cpu_seconds"]) for turn in taken]
        for name, taken in turns.items()
        if "cpu_seconds" in taken[0]
    }
    return {
        "setting": {"clients": CLIENTS, "features": FEATURES, "records": RECORDS, "step_size": STEP_SIZE},
        "turns": len(turns[OURS]),
        "compared_after_rounds": COMMON,
        "competitors": competitors,
        "ratios": {name: compare(spent[name], spent[OURS], COMPETITORS[name].target) for name in same},
        "cpu_ratios": {name: compare(cpu[name], cpu[OURS]) for name in same if name in cpu},
        "skipped": skipped,
        "besides": {name: BESIDES[name] for name in PEERS},
    }


def reference_model(data: dict[str, np.ndarray], rounds: int) -> np.ndarray:
    """The model after a number of rounds, in float64 and for all clients at once."""
    features, labels = data["features"].astype(float), data["labels"].astype(float)
    model = np.zeros(features.shape[2])
    for _ in range(rounds):
        slopes = -labels / (1 + np.exp(labels * (features @ model)))  # [K, n]
        gradients = np.einsum("kn,knd->kd", slopes, features) / labels.shape[1]
        model = model - float(data["step_size"]) * gradients.mean(axis=0)
    return model


def seconds_per_round(lengths: tuple[int, ...], seconds: list[float]) -> float:
    """From the last two runs, a short and a long one, so that what every run pays once does not count."""
    rounds, spent = lengths[-1] - lengths[-2], seconds[-1] - seconds[-2]
    if spent <= 0:
        sys.exit(f"{rounds} more rounds took {spent:.3g} s more; the machine is too busy to measure, run it again.")
    return spent / rounds


def print_results(results: dict[str, Any]) -> None:
    quick = results["facts"]["quick"]
    setting = ", ".join(f"{value:g} {key}" for key, value in results["setting"].items())
    print(f"\n{setting}; {results['turns']} turns; median (worst, best) turn")
    for name, row in results["competitors"].items():
        rate, verdict = row["rounds_per_second"], "agrees with" if row["agrees"] else "DIFFERS from"
        print(
            f"  {name:<10} {rate['median']:8.4g} rounds/s ({rate['worst']:.4g}, {rate['best']:.4g}), start-up "
            f"{row['start_up_seconds']:.1f} s; {verdict} float64 NumPy after {results['compared_after_rounds']} rounds "
            f"({row['relative_difference']:.1e} of the model)"
        )
    compilation = results["competitors"][OURS]["compilation_seconds"]
    print(f"  start-up: until the first run ended, imports included; ours compiles once more, {compilation:.1f} s")
    for name in PEERS:
        if name in results["skipped"]:
            print(f"  {name:<10} skipped: {results['skipped'][name]}")
        elif name not in results["ratios"]:
            print(f"  {name:<10} not compared: the models differ")
        else:
            ratio = results["ratios"][name]
            judged = f"{ratio['median']:8.2f} x, not judged" if quick else verdict_of(ratio)
            print(f"  ours, times {name:<7} {judged}")
        if name in results["cpu_ratios"]:
            print(f"  {'':<19} {verdict_of(results['cpu_ratios'][name])} in CPU seconds")
    print("In every round the peers do what we do not; they gain when clients are heavy:")
    for name, more in results["besides"].items():
        print(f"  {name:<10} {more}")


if __name__ == "__main__":
    main()
