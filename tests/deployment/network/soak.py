"""A long run with one fault after the other, and what has to hold in the end (`benchmarks/soak.py` says how it is measured).

suffer    one fault, and the time until all go on;   soak    a whole run;   claims    what has to hold, and whether it does
"""

import itertools
import json
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from deployment.network.process import Plan
from deployment.network.processes import Processes, fork_server

PARTIES, DIMENSION = 8, 50
UNDISTURBED = 20  # rounds between two faults, at most
LEFT_ALONE = 30  # rounds for the beginning, the end, and those that pass while all recover
RECOVERY_S, GROWTH, WARM = 3.0, 0.05, 200
LONG = 1000  # rounds after which every party has a process that is old enough
LONGEST_S = 60.0  # after which a run is given up
SHORTEST_S, LONGEST_PARTITION_S = 0.2, 12.0
SPELLS = 4  # parts of a run, in each of which three other parties are killed, so that every party has processes that grow old


class Fault(NamedTuple):
    """What is done to whom."""

    kind: str  # kill, partition, cut, relay
    parties: tuple[str, ...]
    mode: str  # silent or reset; disk kept or disk lost; empty where it does not matter
    seconds: float  # until it is over
    after: int  # rounds since the last one


class Recovered(NamedTuple):
    """What came of a fault."""

    fault: Fault
    position: int  # the most exchanges that a party had committed when it was over
    seconds: float


def faults(names: list[str], rounds: int, at_least: int, seed: int, *, relay: bool = False) -> Iterator[Fault]:
    """What happens, one after the other, from a seed; `relay` says whether there is one to be killed."""
    chance = random.Random(seed)
    shuffled = chance.sample(names, len(names))
    most = max(1, min(UNDISTURBED, (rounds - LEFT_ALONE) // (at_least + 1)))
    for number in itertools.count():
        kind = chance.choices(("kill", "partition", "cut", "relay"), (5, 4, 1, 3 * relay))[0]
        after = chance.randint(max(1, most // 2), most)
        if kind == "relay":
            yield Fault(kind, (), chance.choice(("disk kept", "disk lost")), chance.uniform(0.0, 1.0), after)
            continue
        if kind == "kill":
            first = 2 * (SPELLS * number // at_least)
            mortal = [shuffled[(first + k) % len(names)] for k in range(3)]
            some = tuple(sorted(chance.sample(mortal, chance.choice((1, 1, 1, 2, 3)))))
            yield Fault(kind, some, "", chance.uniform(0.0, 1.0), after)
            continue
        start, count = chance.randrange(len(names)), chance.choice((1, 1, len(names) // 2))
        some = tuple(sorted(names[(start + k) % len(names)] for k in range(count)))
        long = chance.random() < 0.1
        seconds = chance.uniform(5.0, LONGEST_PARTITION_S) if long else chance.uniform(SHORTEST_S, 3.0)
        if kind == "cut":
            yield Fault(kind, some, "", 0.0, after)
        else:
            yield Fault(kind, some, chance.choice(("silent", "reset")), seconds, after)


def suffer(run: Processes, fault: Fault) -> Recovered:
    """Let a fault happen and pass, and wait until all go on."""
    if fault.kind == "kill":
        run.kill(fault.parties)
        time.sleep(fault.seconds)
        run.start(fault.parties)
        over = run.ready(fault.parties, LONGEST_S)
    elif fault.kind == "relay":
        run.relay.kill()
        time.sleep(fault.seconds)
        run.relay.start(keep_disk=fault.mode == "disk kept")
        over = time.monotonic()
    elif fault.kind == "partition":
        ways = run.links.between(fault.parties)
        run.links.change(ways, mode=fault.mode)
        time.sleep(fault.seconds)
        run.links.change(ways, mode="open")
        over = time.monotonic()
    else:
        run.links.cut(run.links.between(fault.parties))
        over = time.monotonic()
    furthest = int(run.committed().max())
    there = run.until(min(furthest + 1, run.plan.rounds), LONGEST_S)
    return Recovered(fault, furthest, max(0.0, there - over))


def disturb(run: Processes, at_least: int, seed: int) -> Iterator[Recovered]:
    """One fault after the other, until there is no room for another before the end."""
    run.until(1, LONGEST_S)
    position, names = 1, run.plan.names
    for fault in faults(names, run.plan.rounds, at_least, seed, relay=run.relay is not None):
        if position + fault.after + PARTIES >= run.plan.rounds:
            return
        run.until(position + fault.after, LONGEST_S)
        found = suffer(run, fault)
        yield found
        position = int(run.committed().min())


def growths(folder: Path, names: list[str]) -> dict[str, list[tuple[int, float]]]:
    """Per party: (exchanges, growth) of every process that went on for long enough, from its own 200th exchange to its last look."""
    found: dict[str, list[tuple[int, float]]] = {name: [] for name in names}
    for name in names:
        looks: dict[int, list[dict[str, int]]] = {}
        for line in (folder / name / "memory.jsonl").read_text().splitlines():
            look = json.loads(line)
            looks.setdefault(look["pid"], []).append(look)
        for each in looks.values():
            late = [look for look in each if look["since"] >= WARM]
            if len(late) > 1:
                found[name].append((late[-1]["since"], late[-1]["rss"] / late[0]["rss"] - 1.0))
    return found


def in_words(number: int, one: Recovered) -> str:
    """One line of the table."""
    fault = one.fault
    whom = ", ".join(name.removeprefix("party-") for name in fault.parties)
    what = f"{fault.kind} {fault.mode}".strip()
    late = "" if one.seconds < RECOVERY_S else "  too slow"
    return f"{number:>4} {one.position:>6} {what:<17} {whom:<11} {fault.seconds:>6.2f} {one.seconds:>9.2f}{late}"


def soak(
    folder: Path,
    *,
    rounds: int,
    at_least: int,
    seed: int,
    transport: Literal["grpc", "nats"] = "grpc",
    show: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Play one run with its faults, show a line for each, and return what was found."""
    plan = Plan(folder=folder, agents=PARTIES, dimension=DIMENSION, rounds=rounds, seed=seed, transport=transport)
    expected, load, begun = plan.played(), os.getloadavg()[0], time.monotonic()
    run = Processes(plan, fork_server(), seed=seed)
    found: list[Recovered] = []
    show(f"{'':>4} {'round':>6} {'fault':<17} {'parties':<11} {'lasted':>6} {'recovered':>9}")
    try:
        run.start()
        for one in disturb(run, at_least, seed):
            found.append(one)
            show(in_words(len(found), one))
        run.wait(LONGEST_S)
        took = time.monotonic() - begun
        models = run.models()
        exact = run.ledgers_are_exact()
    finally:
        run.end()
    return {
        "rounds": rounds,
        "seed": seed,
        "transport": transport,
        "faults": [{**one.fault._asdict(), "position": one.position, "recovery_s": one.seconds} for one in found],
        "asked": at_least,
        "same_models": all(np.array_equal(models[name], expected[name]) for name in plan.names),
        "exact_ledgers": exact,
        "growth": growths(folder, plan.names),
        "seconds": took,
        "load": [load, os.getloadavg()[0]],
    }


def claims(found: dict[str, Any]) -> dict[str, bool]:
    """What has to hold, and whether it does."""
    slowest = max(fault["recovery_s"] for fault in found["faults"])
    grown = [each for some in found["growth"].values() for each in some]
    largest = max((growth for _, growth in grown), default=0.0)
    old = sum(bool(some) for some in found["growth"].values())
    kinds = sorted({fault["kind"] for fault in found["faults"]})
    held = {
        f"{len(found['faults'])} faults ({', '.join(kinds)}); {found['asked']} asked": len(found["faults"])
        >= found["asked"],
        "models of the undisturbed run, bit by bit": found["same_models"],
        "ledgers exact: one reservation each, all of it spent": found["exact_ledgers"],
        f"slowest recovery {slowest:.2f} s, below {RECOVERY_S:g}": slowest < RECOVERY_S,
    }
    if found["rounds"] < LONG:
        return held
    words = f"memory {100 * largest:+.1f} % at most after round {WARM}: {len(grown)} processes of {old} parties"
    return {**held, words: largest < GROWTH and old == PARTIES}
