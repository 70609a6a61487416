"""Clocks that jump by a day while parties run: nothing in a run depends on the time of day, but for the validity of certificates.

With libfaketime (`make faketime` brings Debian's, unpacked and not installed) the jump is seen by everything in a process, gRPC, TLS and SQLite
included; without it by Python alone, which is tried anyway.
"""

import contextlib
import json
import os
import pickle
import subprocess
import sys
import time
from datetime import datetime
from itertools import chain
from pathlib import Path

import pytest

from deployment.network.process import COMMITTED, Plan, live
from deployment.network.processes import TESTS, Processes
from deployment.network.proxy import Weather
from deployment.party.parties import same

pytestmark = pytest.mark.slow
DAY = 86_400
ALONE = (
    "import sys, pickle; from deployment.network.process import live; live(*pickle.loads(bytes.fromhex(sys.argv[1])))"
)


def libfaketime() -> Path | None:
    """The library that stands between a process and the system's clock."""
    folders = (TESTS.parent / ".venv" / "faketime" / "usr" / "lib", Path("/usr/lib"))
    known = (Path(each) for each in filter(None, [os.environ.get("SOTTOVOCE_FAKETIME")]))
    found = chain.from_iterable(folder.glob("*/faketime/libfaketime.so.1") for folder in folders)
    return next(chain(known, found), None)


def live_with_jumps(plan: Plan, name: str) -> None:
    """A party whose Python sees another day as soon as it has committed a few exchanges: a later one, an earlier one, the right one."""
    days = {"party-0": 1, "party-1": -1}.get(name, 0)
    row, real = plan.table()[plan.names.index(name)], time.time
    time.time = lambda: real() + days * DAY * (10 <= row[COMMITTED] < 30)
    live(plan, name)


def test_the_day_that_python_sees_changes_nothing(folder, forks):
    run = Processes(Plan(folder=folder, agents=3, rounds=60), forks, target=live_with_jumps)
    try:
        run.start()
        for exchanges in (15, 35):
            run.until(exchanges, 30.0)
            run.links.cut()
        run.wait(60.0)
        assert same(run.models(), run.plan.played())
    finally:
        run.end()


class Alone(subprocess.Popen):
    """A process that was started by itself, with what `Processes` asks of one."""

    exitcode = property(subprocess.Popen.poll)

    def is_alive(self) -> bool:
        return self.poll() is None

    def join(self, seconds: float | None = None) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(seconds)


def started_with_clocks(run: Processes, library: Path) -> dict[str, Path]:
    """Start every party under a clock of its own; returns the files that say how far each is from the right one."""
    clocks = {name: run.plan.folder / f"{name}.clock" for name in run.plan.names}
    for name, clock in clocks.items():
        clock.write_text("+0\n")
        seen = {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(clock),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]),
        }
        words = pickle.dumps((run.plan, name)).hex()
        run.running[name] = Alone([sys.executable, "-c", ALONE, words], env={**os.environ, **seen})
    return clocks


def test_the_day_that_a_whole_process_sees_changes_nothing(folder, forks):
    library = libfaketime()
    if library is None:
        pytest.skip("NOT SHOWN HERE: libfaketime is missing; `make faketime` brings it where apt-get can")
    run = Processes(Plan(folder=folder, agents=3, rounds=150), forks, weather=Weather(delay=0.05))
    days = ((-1, 1, 0), (0, 0, 0), (1, -1, 0))
    try:
        clocks = started_with_clocks(run, library)
        for number, shifts in enumerate(days):
            run.until(10 + 40 * number, 60.0)
            for clock, day in zip(clocks.values(), shifts, strict=True):
                clock.write_text(f"{day:+d}d\n")
            time.sleep(1.5)  # they look at the file every second
            assert run.committed().max() < 150
            run.links.cut()  # new connections look at certificates, at the time that each end sees
        run.wait(60.0)
        assert same(run.models(), run.plan.played())
        assert run.ledgers_are_exact()
    finally:
        run.end()
    for name, day in zip(run.plan.names, days[-1], strict=True):
        last = json.loads((folder / name / "log.jsonl").read_text().splitlines()[-1])
        assert abs(datetime.fromisoformat(last["time"]).timestamp() - time.time() - day * DAY) < 600  # it had jumped
