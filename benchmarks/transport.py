"""Sealed messages between processes on one machine: time of a round, memory, and time until everybody is there.

    python benchmarks/transport.py                              16 parties on a ring, 80 kB to each neighbour
    python benchmarks/transport.py --graph complete --parties 8
    python benchmarks/transport.py --bytes 8000000 --rounds 20  a model of a million parameters
    python benchmarks/transport.py --json FILE                  the numbers as JSON too

Every party is a process of its own. In a round it seals one message for each neighbour, sends them, and opens what the neighbours sent; nothing is
computed or stored, so this is what keys and gRPC cost alone. All processes share the machine's cores. The target for the ring is 40 ms.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from sottovoce.deployment.identity import (
    Roster,
    Session,
    fresh_boot,
    is_hello,
    load_identity,
    load_roster,
    new_identity,
    new_run_key,
)
from sottovoce.deployment.transports import GrpcTransport

TARGET_MS = 40.0
WARM = 10  # rounds that are not counted
DIGEST = bytes(32)


def neighbours(graph: str, number: int, parties: int) -> list[str]:
    """Names of those that a party talks to."""
    if graph == "ring":
        return sorted({f"p{(number + step) % parties}" for step in (-1, 1)} - {f"p{number}"})
    return [f"p{other}" for other in range(parties) if other != number]


def memory_mb() -> float:
    """This process's own memory and its share of what it has in common with others."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024 / 1e6
    return float("nan")


class Party:
    """One party, which does nothing but talk."""

    def __init__(self, folder: Path, number: int, graph: str) -> None:
        roster = load_roster(folder / "roster.json")
        me = load_identity(f"p{number}", folder)
        self.neighbours = neighbours(graph, number, len(roster))
        self.session = Session(me, roster, DIGEST, "benchmark", new_run_key(), fresh_boot())
        self.transport = GrpcTransport(me, roster)
        self.early: list[tuple[str, int]] = []

    def meet(self) -> None:
        """Say hello until all neighbours have answered with something sealed, so that nobody is left without a key."""
        missing, unheard, due = set(self.neighbours), set(self.neighbours), 0.0
        while missing or unheard:
            if time.monotonic() > due:
                due = time.monotonic() + 0.5
                for name in missing | unheard:
                    self.transport.send(name, self.session.hello({}))
            delivery = self.transport.recv(0.1)
            if delivery is None:
                continue
            if is_hello(delivery.blob):
                if delivery.sender in missing:
                    self.session.greet(delivery.blob)
                    missing.discard(delivery.sender)
                    self.transport.send(delivery.sender, self.session.hello({}))
                self.transport.send(delivery.sender, self.session.seal(delivery.sender, "ready", 0, b""))
            elif delivery.sender not in missing and self._opened(delivery.sender, delivery.blob) == "ready":
                unheard.discard(delivery.sender)

    def round(self, number: int, payload: bytes) -> None:
        """Send to all neighbours, and wait for all of them."""
        for name in self.neighbours:
            self.transport.send(name, self.session.seal(name, "words", number, payload))
        missing = set(self.neighbours) - {sender for sender, position in self.early if position == number}
        while missing:
            delivery = self.transport.recv(30.0)
            if delivery is None:
                raise SystemExit(f"nothing came for 30 s; missing: {missing}")
            if (
                not is_hello(delivery.blob)
                and self._opened(delivery.sender, delivery.blob) == "words"
                and self.early[-1][1] == number
            ):
                missing.discard(delivery.sender)

    def _opened(self, sender: str, blob: bytes) -> str:
        opened = self.session.open(sender, blob)
        if opened.kind == "words":
            self.early.append((sender, opened.position))
        return opened.kind


def play(folder: Path, number: int, graph: str, rounds: int, size: int) -> None:
    """One party's part; prints its numbers as JSON."""
    party = Party(folder, number, graph)
    party.transport.open()
    party.meet()
    ready = time.time()
    payload, times = os.urandom(size), []
    for position in range(WARM + rounds):
        begun = time.perf_counter()
        party.round(position, payload)
        times.append(time.perf_counter() - begun)
    numbers = {"times": times[WARM:], "ready": ready, "memory_mb": memory_mb(), "cpu_s": time.process_time()}
    party.transport.close()
    print(json.dumps(numbers))


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens at."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def measure(parties: int, graph: str, rounds: int, size: int) -> dict[str, Any]:
    """Play all parties, each in a process."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "keys"
        ports = free_ports(parties)
        entries = [new_identity(f"p{k}", folder, f"127.0.0.1:{port}").entry() for k, port in enumerate(ports)]
        Roster.of(entries).save(folder / "roster.json")
        begun = time.time()
        command = [sys.executable, __file__, "--folder", str(folder), "--graph", graph]
        shape = ["--rounds", str(rounds), "--bytes", str(size)]
        processes = [
            subprocess.Popen([*command, *shape, "--play", str(number)], stdout=subprocess.PIPE, text=True)
            for number in range(parties)
        ]
        found = [json.loads(process.communicate(timeout=600)[0]) for process in processes]
    slowest = [max(party["times"][position] for party in found) for position in range(rounds)]
    middle = [statistics.median(party["times"][position] for party in found) for position in range(rounds)]
    return {
        "parties": parties,
        "graph": graph,
        "bytes": size,
        "round_ms": 1e3 * statistics.median(middle),
        "slowest_party_ms": 1e3 * statistics.median(slowest),
        "memory_mb": statistics.mean(party["memory_mb"] for party in found),
        "ready_s": max(party["ready"] for party in found) - begun,
        "load": os.getloadavg()[0],
        "cores": len(os.sched_getaffinity(0)),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--parties", type=int, default=16)
    options.add_argument("--graph", choices=("ring", "complete"), default="ring")
    options.add_argument("--bytes", type=int, default=80_000)
    options.add_argument("--rounds", type=int, default=100)
    options.add_argument("--json", type=Path)
    options.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options.add_argument("--play", type=int, help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.play is not None:
        play(asked.folder, asked.play, asked.graph, asked.rounds, asked.bytes)
        return
    found = measure(asked.parties, asked.graph, asked.rounds, asked.bytes)
    print(
        f"{asked.parties} parties, {asked.graph}, {asked.bytes:,} bytes to each neighbour, {found['cores']} cores at load {found['load']:.1f}"
    )
    print(f"round, median          {found['round_ms']:8.1f} ms   (target for the ring: {TARGET_MS:g})")
    print(f"slowest party, median  {found['slowest_party_ms']:8.1f} ms")
    print(f"memory of a party      {found['memory_mb']:8.1f} MB   (its share of what processes have in common)")
    print(f"all ready after        {found['ready_s']:8.1f} s")
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
