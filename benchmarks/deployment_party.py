"""One party of benchmarks/deployment.py, as a process: `python benchmarks/deployment_party.py FOLDER NAME [--jax] [--profile FILE]`.

It reads what the benchmark prepared, takes part like any party (`sottovoce party run` calls the same functions), and ends with one line of JSON: when it
was ready, its memory in the middle of the run, and where the thread that computes spent its time. Parties with linear models run with imports of JAX
blocked.
"""

import argparse
import cProfile
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

PHASES = {  # what the thread that computes does, and the functions in which it does it
    "prepare": ("AgentWork", "prepare"),
    "commit": ("Book", "commit"),
    "seal": ("Session", "seal"),
    "hand over": ("Transport", "send"),
    "wait": ("Transport", "recv"),
    "open": ("Session", "open"),
    "counters": ("Book", "noted"),
    "take": ("AgentWork", "take"),
}


def memory_mb() -> dict[str, float]:
    """10^6 bytes of this process: its own and its share of what it has in common with others (pss), and all that it can see (rss)."""
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()
    return {
        line.split(":")[0].lower(): int(line.split()[1]) * 1024 / 1e6
        for line in lines
        if line.startswith(("Pss:", "Rss:", "Pss_Anon:"))
    }


class Clock:
    """Seconds spent inside functions, from the moment when the party is ready."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forget what was counted."""
        self.seconds = dict.fromkeys(PHASES, 0.0)

    def watch(self, phase: str, owner: Any, name: str) -> None:
        """Count a method's time towards a phase."""
        inner = getattr(owner, name)

        def counted(*given: Any, **named: Any) -> Any:
            begun = time.perf_counter()
            try:
                return inner(*given, **named)
            finally:
                self.seconds[phase] += time.perf_counter() - begun

        setattr(owner, name, counted)


def take_part(folder: Path, name: str) -> dict[str, Any]:
    """Run one party from its files, and return what was measured."""
    from sottovoce.deployment.identity import Session, load_identity, load_roster
    from sottovoce.deployment.party import AgentWork, Place
    from sottovoce.deployment.party.book import Book
    from sottovoce.deployment.store import Store
    from sottovoce.experiments import joining as party
    from sottovoce.experiments.rehearsing.process import transport_of

    config = parsed(folder)
    roster, identity = load_roster(folder / "roster.json"), load_identity(name, folder / name / "keys")
    joining = party.prepare_joining(config, roster, name, folder / name / "records.npz")
    clock, found = Clock(), {"prepared": time.time()}
    transport = transport_of(folder, identity, roster)
    owners = {each.__name__: each for each in (AgentWork, Book, Session)} | {"Transport": type(transport)}
    for phase, (owner, method) in PHASES.items():
        clock.watch(phase, owners[owner], method)
    with Store.open(folder / name / "store.sqlite") as store:
        place = Place(
            identity=identity,
            roster=roster,
            store=store,
            transport=transport,
            folder=folder / name,
        )
        data = folder / name / "records.npz"
        served = party.take_part(joining, place, data=data, progress=onlooker(found, clock))
    return {**found, "unacknowledged": served.unacknowledged, "phases": clock.seconds, "jax": "jax" in loaded()}


def loaded() -> list[str]:
    """Modules that were imported, without those that are blocked."""
    return [name for name, module in sys.modules.items() if module is not None]


def parsed(folder: Path) -> Any:
    """The file of the run, as the rehearsal wrote it."""
    from sottovoce.experiments.config.toml_file import parse

    return parse(json.loads((folder / "config.json").read_text(encoding="utf-8")), source="the benchmark")


def onlooker(found: dict[str, Any], clock: Clock) -> Callable[[Any], None]:
    """Takes down when the greetings end and begins to count there; takes the memory in the middle of the run."""

    def look(now: Any) -> None:
        if "ready" not in found and now.phase != "greet":
            found["ready"], found["cpu_before"] = time.time(), time.process_time()
            clock.restart()
            found["thread"] = time.thread_time()
        if "memory" not in found and now.position >= now.end // 2:
            found["memory"] = memory_mb()
        if "done" not in found and now.phase in ("settle", "done"):
            found["done"], found["cpu"] = time.time(), time.process_time() - found.get("cpu_before", 0.0)
            found["thread"] = time.thread_time() - found["thread"]

    return look


@contextmanager
def profiled(path: Path | None) -> Iterator[None]:
    """Write what cProfile sees of this thread, where it was asked for."""
    if path is None:
        yield
        return
    profile = cProfile.Profile()
    try:
        with profile:
            yield
    finally:
        profile.dump_stats(path)


def main() -> None:
    """Take part, print, and leave."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("folder", type=Path)
    options.add_argument("name")
    options.add_argument("--jax", action="store_true")
    options.add_argument("--profile", type=Path)
    asked = options.parse_args()
    if not asked.jax:
        sys.modules["jax"] = sys.modules["jaxlib"] = None  # type: ignore[assignment]
    with profiled(asked.profile) if asked.profile else nullcontext():
        found = take_part(asked.folder, asked.name)
    print(json.dumps(found), flush=True)
    os._exit(0)  # the store is closed; gRPC would take a second to put its threads away


if __name__ == "__main__":
    main()
