"""Six parties, each a process of its own, beside the simulation that is fed the same whole numbers: how far apart their models are.

    python benchmarks/six_processes.py                      a set in which every part meets every kind of links, with and without batches
    python benchmarks/six_processes.py --every              every algorithm with every scheme too
    python benchmarks/six_processes.py --model network      a small network, with JAX at 64 bits: measured, nothing is derived
    python benchmarks/six_processes.py --only gossip        names that have these words in them
    python benchmarks/six_processes.py --transport nats     over a relay (nats-server, see tools/local_relay.py) in place of gRPC
    python benchmarks/six_processes.py --transport both     over both, and whether models are equal bit by bit
    python benchmarks/six_processes.py --json FILE          the numbers as JSON too

Parties have keys, stores and records of their own, talk over gRPC or over a relay, and play one run after the other; a federation has a relay as a seventh
process. With linear models no party can import JAX. Columns, in units of the lattice, 2^-24:

    apart     the largest difference of an entry of any party's model from the simulation's
    bound     rounds x factor: no entry can be further apart; `-` where nothing is derived (networks, updates that are clipped as a whole)
    factor    units per round

B and T are the records of a batch (nothing: all of them) and the number of rounds.
"""

import argparse
import contextlib
import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import six_party
from six_combinations import (
    AGENTS,
    FRACTION_BITS,
    NAMES,
    RELAY,
    SEED,
    Combination,
    candidates,
    covering,
    networks,
    problem_of,
    records,
)
from transport import free_ports

import sottovoce as sv
from sottovoce.deployment.agent import RehearsedCoin, Wiring, deviation_bound
from sottovoce.deployment.identity import Roster, load_roster, new_identity
from sottovoce.deployment.integers import Lattice
from sottovoce.deployment.ledger import create_ledger
from sottovoce.deployment.store import Store
from sottovoce.errors import UnsupportedClaim
from sottovoce.experiments.rehearsing.saved_draws import SavedDraws, save_draws

sys.path.append(str(Path(__file__).parents[1] / "tools"))

from local_relay import Relay

MEMORY = Path("/dev/shm")


class Processes:
    """All parties, waiting for what to play."""

    def __init__(self, folder: Path, model: str) -> None:
        self._errors = {name: (folder / name / "errors.txt").open("w+") for name in (*NAMES, RELAY)}
        self._running = {
            name: subprocess.Popen(
                [sys.executable, six_party.__file__, str(folder), name, model],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors[name],
                text=True,
            )
            for name in (*NAMES, RELAY)
        }
        for name in self._running:
            if self._answer(name)["jax_refused"] != (model == "linear"):
                raise SystemExit(f"{name}: JAX is for parties with a network, and for no other")

    def play(self, one: Combination, number: int) -> float:
        """Let those who take part play a run; returns the seconds of the slowest one."""
        for name in one.parties:
            told = self._running[name].stdin
            assert told is not None  # it was asked for
            told.write(json.dumps({"combination": one.name, "number": number}) + "\n")
            told.flush()
        answers = [self._answer(name) for name in one.parties]
        if not one.network and any(answer["jax"] for answer in answers):
            raise SystemExit(f"{one.name}: a party imported JAX")
        return float(max(answer["seconds"] for answer in answers))

    def _answer(self, name: str) -> dict[str, Any]:
        said = self._running[name].stdout
        assert said is not None  # it was asked for
        line = said.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": "the process ended"}
        if "error" in answer:
            self._errors[name].seek(0)
            raise SystemExit(f"{name}: {answer['error']}\n{self._errors[name].read()}")
        return answer

    def close(self) -> None:
        """Nothing more is to be played."""
        for process in self._running.values():
            with contextlib.suppress(OSError):
                process.stdin.close()  # type: ignore[union-attr]
        for process in self._running.values():
            try:
                process.wait(5.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()  # type: ignore[union-attr]
        for file in self._errors.values():
            file.close()


def prepare(folder: Path) -> None:
    """Keys, roster, ledgers, and every agent's own records."""
    entries = []
    for name, port in zip((*NAMES, RELAY), free_ports(AGENTS + 1), strict=True):
        identity = new_identity(
            name, folder / name / six_party.KEYS, f"127.0.0.1:{port}", role="relay" if name == RELAY else "agent"
        )
        entries.append(identity.entry())
        create_ledger(
            folder / name / six_party.STORE,
            name=name,
            unit="record",
            adjacency="replace",
            delta=1e-5,
            budget="unlimited",
        )
    Roster.of(entries).save(folder / six_party.ROSTER)
    for agent, name in enumerate(NAMES):
        features, targets = records(agent)
        np.savez(folder / name / six_party.RECORDS, features=features, targets=targets)


def simulated(one: Combination, folder: Path) -> np.ndarray:
    """[K, d] the models of the simulation, whose random numbers are left in a folder for the parties."""
    run, problem = one.public_run(), whole_problem(one)
    draws = sv.simulation.drawn(
        problem, run.topology, run.algorithm, run.noise, rounds=run.rounds, seed=SEED, batch_size=run.batch_size,
        fraction_bits=FRACTION_BITS,
    )  # fmt: skip
    save_draws(draws, run, folder)
    found = sv.simulate(
        problem, run.topology, run.algorithm, run.noise, rounds=run.rounds, seed=SEED, batch_size=run.batch_size, dtype="float64",
        draws="sources", fraction_bits=FRACTION_BITS, start=run.initial_model, record=(), progress=False,
    )  # fmt: skip
    return np.asarray(found.models)[0]


def whole_problem(one: Combination) -> Any:
    """The records of all agents, which no party has."""
    return problem_of([records(agent) for agent in range(AGENTS)], network=one.network)


def bound_of(one: Combination, folder: Path) -> float | None:
    """Units that parties and simulation can be apart; None where none is derived."""
    if one.network:
        return None
    run, problem = one.public_run(), whole_problem(one)
    whole, losses = run.batch_size is None, problem.losses
    smooth = float(problem.constants.local_smoothness.max()) if whole else losses.beta
    coin = RehearsedCoin(run, SavedDraws(folder, run))
    wiring = Wiring(run, Lattice(FRACTION_BITS), coin, relay_trusted=True)
    try:
        # A record that is clipped bends its loss no more: nothing but the ridge is left of the curvature from below.
        return deviation_bound(wiring, smoothness=smooth, strong_convexity=losses.nu).units
    except UnsupportedClaim:
        return None


def measure(chosen: Sequence[Combination], model: str, transport: str = "grpc") -> Iterator[dict[str, Any]]:
    """Play one combination after the other among the same processes, and yield a row for each."""
    with (
        tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as temporary,
        contextlib.ExitStack() as running,
    ):
        folder = Path(temporary)
        prepare(folder)
        roster = load_roster(folder / six_party.ROSTER)
        if transport == "nats":
            running.enter_context(Relay(folder / "nats", roster)).tell(folder)
        processes = Processes(folder, model)
        draws = [six_party.draws_of(folder, number) for number in range(len(chosen))]
        # The next runs are simulated while parties play.
        with ThreadPoolExecutor(1) as ahead, contextlib.closing(processes):
            simulations = [ahead.submit(simulated, one, draws[number]) for number, one in enumerate(chosen)]
            try:
                for number, one in enumerate(chosen):
                    expected, digest = simulations[number].result(), one.agreement(roster).digest
                    seconds = processes.play(one, number)
                    models = np.stack([model_of(folder / name / six_party.STORE, digest) for name in NAMES])
                    yield row(one, models, expected, bound_of(one, draws[number]), seconds)
            finally:
                ahead.shutdown(cancel_futures=True)


def model_of(path: Path, digest: bytes) -> np.ndarray:
    """[d] what a party's store says that it ended with."""
    with Store.open(path, writer=False) as store:
        model = store.model(digest)
    assert model is not None  # its process said that it was done
    return model


def row(
    one: Combination, models: np.ndarray, expected: np.ndarray, bound: float | None, seconds: float
) -> dict[str, Any]:
    """What is printed of a combination."""
    run, unit = one.public_run(), 2.0**-FRACTION_BITS
    return {
        "combination": one.name,
        "algorithm": one.algorithm,
        "algorithm_name": run.algorithm.name,
        "scheme": one.scheme,
        "noise_name": run.noise.name,
        "links": one.links,
        "batch": one.batch,
        "rounds": run.rounds,
        "apart": float(np.abs(models - expected).max() / unit),
        "bound": bound if bound is None or math.isfinite(bound) else None,
        "factor": None if bound is None or not math.isfinite(bound) else bound / run.rounds,
        "moved": float(np.abs(expected - run.initial_model).max() / unit),
        "seconds": seconds,
        "models": hashlib.sha256(models.tobytes()).hexdigest(),
    }


HEADING = f"{'algorithm':<19} {'scheme':<23} {'links':<7} {'B':>2} {'T':>3} {'apart':>5} {'bound':>7} {'factor':>7}"
SHORT = {"federation": "relay", "random pair": "pair"}


def in_words(found: dict[str, Any]) -> str:
    """One line of the table."""
    derived = [
        "-" if (one := found[name]) is None else f"{one:.{3 if one < 1e3 else 2}g}" for name in ("bound", "factor")
    ]
    links = SHORT.get(found["links"], found["links"])
    return (
        f"{found['algorithm']:<19.19} {found['scheme']:<23.23} {links:<7} {found['batch'] or '':>2} {found['rounds']:>3} "
        f"{found['apart']:>5.2f} {derived[0]:>7} {derived[1]:>7}"
    )


def summary(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The largest differences of what has a bound, of ADMM, and of what is only measured."""
    kinds = {
        "with a bound": [one for one in rows if one["bound"] is not None and "admm" not in one["algorithm"]],
        "ADMM": [one for one in rows if "admm" in one["algorithm"]],
        "no bound derived": [one for one in rows if one["bound"] is None and "admm" not in one["algorithm"]],
    }
    for kind, ones in kinds.items():
        if ones:
            worst = max(ones, key=lambda one: one["apart"])
            yield f"{kind:<16} {len(ones):>3} runs, largest {worst['apart']:.2f} ({worst['algorithm']}, {worst['scheme']})"
    yield f"every run moved models by {min(one['moved'] for one in rows):.1e} units or more"


def beyond(found: dict[str, Any]) -> bool:
    """Whether parties and simulation are further apart than they can be."""
    return bool(found["bound"] is not None and found["apart"] > found["bound"])


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--model", choices=six_party.MODELS, default="linear")
    options.add_argument("--every", action="store_true")
    options.add_argument("--only", default="")
    options.add_argument("--transport", choices=("grpc", "nats", "both"), default="grpc")
    options.add_argument("--json", type=Path)
    asked = options.parse_args()
    chosen = networks() if asked.model == "network" else covering(candidates(), every=asked.every)
    chosen, begun, rows = [one for one in chosen if asked.only in one.name], time.monotonic(), []
    if not chosen:
        options.error(f"--only {asked.only}: no combination has these words in its name, such as {networks()[0].name}")
    print(f"{len(chosen)} combinations, units of 2^-{FRACTION_BITS}, load {os.getloadavg()[0]:.1f}\n")
    print(HEADING)
    over = ("grpc", "nats") if asked.transport == "both" else (asked.transport,)
    for found, *again in zip(*(measure(chosen, asked.model, each) for each in over), strict=True):
        rows.append(found | {"equal": all(other["models"] == found["models"] for other in again)})
        print(in_words(found), flush=True)
        if not rows[-1]["equal"]:
            print("  its models over a relay are NOT EQUAL", flush=True)
    wrong = [found["combination"] for found in rows if beyond(found)]
    print("", *summary(rows), sep="\n")
    print(f"beyond the bound: {len(wrong)}; {time.monotonic() - begun:.0f} seconds, load {os.getloadavg()[0]:.1f}")
    if asked.transport == "both":
        print(f"models equal bit by bit over gRPC and over a relay: {sum(row['equal'] for row in rows)} of {len(rows)}")
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=2) + "\n")
    return 1 if wrong or not all(row["equal"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
