"""All parties of a plan as processes, and what a test can do to them.

Processes are forked from a server that has imported what they need, since Python and its imports take longer to start than a party takes to come
back; the time until a party is back counts from when its process is ready to greet.
"""

import multiprocessing
import os
import random
import signal
import socket
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from deployment.network.process import AT, COMMITTED, READY, RELAY, ROSTER, TABLE, Plan, live, spent
from deployment.network.proxy import Link, Links, Weather
from deployment.party.parties import DIGEST
from deployment.relays import Relay
from sottovoce.deployment.identity import Roster, new_identity
from sottovoce.deployment.ledger import Ledger, create_ledger
from sottovoce.deployment.privacy import Cost
from sottovoce.deployment.store import Store

TESTS = Path(__file__).parents[2]
_LOOK = 0.005  # seconds between two looks at the table


def fork_server():
    """Makes processes in a few milliseconds."""
    known = os.environ.get("PYTHONPATH", "")
    if str(TESTS) not in known.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join([str(TESTS), *filter(None, [known])])
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["deployment.party.victim", "deployment.network.process"])
    ready = context.Process(target=len, args=("",))
    ready.start()
    ready.join()
    return context


def quiet_ports(count: int) -> list[int]:
    """Ports that stay free while their party is dead: the system gives none of them to connections of its own accord."""
    found: list[int] = []
    for port in random.sample(range(10_000, 32_000), 50 * count):
        with socket.socket() as tried:
            if len(found) < count and tried.connect_ex(("127.0.0.1", port)) != 0:
                found.append(port)
    return found


def ring_links(names: list[str]) -> list[Link]:
    """Both directions of every link on a ring."""
    around = list(zip(names, [*names[1:], names[0]], strict=True))
    return [*around, *((two, one) for one, two in around)]


class Processes:
    """One run, from keys and ledgers to models."""

    def __init__(
        self, plan: Plan, forks, *, weather: Weather | None = None, seed: int = 0, target=live, address=None
    ) -> None:
        """Make keys, ledgers and links; nothing is started.

        Args:
            plan: what is run.
            forks: of `fork_server`.
            weather: of all links in the beginning.
            seed: of their jitter.
            target: what a process does with the plan and its name.
            address: number -> where a party listens; left out: on loopback, behind links that can be disturbed.
        """
        plan.folder.mkdir(mode=0o700, exist_ok=True, parents=True)
        np.zeros((plan.agents, 3)).tofile(plan.folder / TABLE)
        ports = quiet_ports(plan.agents)
        entries = []
        for number, name in enumerate(plan.names):
            where = address(number) if address else f"127.0.0.1:{ports[number]}"
            entries.append(new_identity(name, plan.folder / name, where).entry())
            create_ledger(
                self._path(plan, name), name=name, unit="record", adjacency="replace", delta=1e-5, budget=10.0
            )
        roster = Roster.of(entries)
        roster.save(plan.folder / ROSTER)
        self.relay = None
        if plan.transport == "nats":
            self.relay = Relay(plan.folder / RELAY, roster)
            self.relay.start()
            port = int(self.relay.address.address.partition(":")[2])
            targets = {(name, RELAY): port for name in plan.names}
        else:
            targets = {} if address else {way: ports[plan.names.index(way[1])] for way in ring_links(plan.names)}
        self.links = Links(targets, seed=seed, weather=weather)
        self.plan = replace(plan, ports={way: self.links.port(way) for way in targets})
        self._target = target
        self.table, self._forks = self.plan.table(), forks
        self.running: dict[str, multiprocessing.Process] = {}

    @staticmethod
    def _path(plan: Plan, name: str) -> Path:
        return plan.folder / name / "store.sqlite"

    def start(self, names: Iterable[str] | None = None) -> None:
        """Start some parties, or all."""
        for name in self.plan.names if names is None else names:
            self.table[self.plan.names.index(name), READY] = 0.0
            self.running[name] = self._forks.Process(target=self._target, args=(self.plan, name), daemon=True)
            self.running[name].start()

    def kill(self, names: Iterable[str]) -> int:
        """Kill some parties at once, with SIGKILL; returns how many were alive."""
        victims = [self.running[name] for name in names]
        for victim in victims:
            if victim.is_alive():
                victim.kill()
        for victim in victims:
            victim.join()
        return sum(victim.exitcode == -signal.SIGKILL for victim in victims)

    def wait(self, seconds: float) -> None:
        """Wait until all are done."""
        until = time.monotonic() + seconds
        for name, process in self.running.items():
            process.join(max(0.0, until - time.monotonic()))
            assert process.exitcode is not None, f"{name} is not done after {seconds} s: {self.table[:, COMMITTED]}"
            assert process.exitcode == 0, f"{name} ended with {process.exitcode}"

    def committed(self) -> np.ndarray:
        """[parties] exchanges in each store."""
        return np.array(self.table[:, COMMITTED])

    def until(self, exchanges: float, seconds: float) -> float:
        """Wait until all have committed so many; returns the time when the last one had."""
        deadline = time.monotonic() + seconds
        while self.table[:, COMMITTED].min() < exchanges:
            assert time.monotonic() < deadline, f"{self.committed()} after {seconds} s, not {exchanges}"
            time.sleep(_LOOK)
        return float(self.table[:, AT].max())

    def ready(self, names: Iterable[str], seconds: float) -> float:
        """Wait until parties that were started are ready to greet; returns when the last one was."""
        rows = [self.plan.names.index(name) for name in names]
        deadline = time.monotonic() + seconds
        while not all(self.table[rows, READY]):
            assert time.monotonic() < deadline, f"not ready after {seconds} s"
            time.sleep(_LOOK)
        return float(self.table[rows, READY].max())

    def end(self) -> None:
        """Leave no process and no port behind."""
        for process in self.running.values():
            if process.is_alive():
                process.kill()
            process.join()
        self.links.close()
        if self.relay is not None:
            self.relay.kill()

    def models(self) -> dict[str, np.ndarray]:
        """What the stores say in the end, whose keys are erased."""
        found = {}
        for name in self.plan.names:
            with Store.open(self._path(self.plan, name), writer=False) as store:
                assert store.run(DIGEST).run_key is None
                found[name] = store.model(DIGEST)
        return found

    def ledgers_are_exact(self) -> bool:
        """Whether every ledger has one reservation, all of which is spent, as the meter says."""
        return all(self._ledger_is_exact(name) for name in self.plan.names)

    def _ledger_is_exact(self, name: str) -> bool:
        with Store.open(self._path(self.plan, name), writer=False) as store:
            ledger, record = Ledger(store), store.run(DIGEST)
            (reserved,) = ledger.standing().values()
            totals = ledger.totals()
            # A reservation and the beginning are all that was ever written.
            return (
                len(ledger.entries()) == 2
                and record.spent == spent(self.plan, self.plan.run.end - 1)
                and Cost.parse(record.spent) == reserved.cost
                and totals.spent == totals.reserved
            )
