"""Parties as processes over links that are late, slow, silent or cut, and over blobs that come twice and out of order: same models, exact ledgers."""

import random
import time

import numpy as np
import pytest

from deployment.network.process import Plan
from deployment.network.processes import Processes
from deployment.network.proxy import Weather
from deployment.network.rough import Rough
from deployment.party.parties import same
from sottovoce.deployment.transports import MemoryNetwork

slow = pytest.mark.slow
TRANSPORTS = pytest.mark.parametrize("transport", ["grpc", "nats"])


@pytest.fixture
def started(folder, forks, request):
    """Starts the parties of a plan; the seed of everything that is drawn is printed with a failure."""
    running = []

    def start(weather: Weather | None = None, **plan) -> Processes:
        seed = plan.setdefault("seed", 11)
        request.node.add_report_section("setup", "seed", str(seed))
        run = Processes(Plan(folder=folder, **plan), forks, weather=weather, seed=seed)
        running.append(run)
        run.start()
        return run

    yield start
    for run in running:
        run.end()


def check(run: Processes, seconds: float = 60.0) -> None:
    """Every party ends, with the models of the run without a network and everything spent once."""
    run.wait(seconds)
    assert same(run.models(), run.plan.played())
    assert run.ledgers_are_exact()


@slow
@TRANSPORTS
def test_200_ms_with_jitter(transport, started):
    check(started(Weather(delay=0.2, jitter=0.1), rounds=4, transport=transport))


@slow
@TRANSPORTS
def test_one_kilobyte_a_second(transport, started):
    check(started(Weather(rate=1000), agents=4, dimension=10, rounds=5, transport=transport), seconds=110.0)


@slow
@TRANSPORTS
def test_duplicates_and_another_order(transport, started):
    check(started(twice=0.4, late=0.4, rounds=12, transport=transport))


@slow
@pytest.mark.parametrize(("transport", "mode"), [("grpc", "silent"), ("grpc", "reset"), ("nats", "silent")])
def test_a_partition_of_ten_seconds(transport, mode, started):
    run = started(rounds=40, transport=transport)
    run.until(5, 30.0)
    away = run.links.between(["party-0", "party-1"])
    run.links.change(away, mode=mode)
    time.sleep(10.0)
    stuck = run.committed()
    assert stuck.min() < 40  # it was felt
    run.links.change(away, mode="open")
    healed = time.monotonic()
    assert run.until(stuck.max() + 1, 30.0) - healed < 3.0
    check(run)


@slow
@pytest.mark.parametrize(("transport", "rounds", "pause"), [("grpc", 150, 0.3), ("nats", 200, 1.0)])
def test_connections_cut_at_any_time(transport, rounds, pause, started):
    chance = random.Random(3)
    run = started(rounds=rounds, transport=transport)
    cut = 0
    while run.committed().min() < rounds - 10:
        time.sleep(chance.uniform(0.1 * pause, pause))
        ways = run.links.between([chance.choice(run.plan.names)])
        cut += run.links.cut(chance.sample(ways, min(2, len(ways))))
    assert cut > 4
    check(run)


@slow
@pytest.mark.parametrize("disk", ["kept", "lost"])
def test_the_relay_killed(disk, started):
    run = started(rounds=60, transport="nats")
    for exchanges in (5, 25, 45):
        run.until(exchanges, 30.0)
        run.relay.kill()
        run.relay.start(keep_disk=disk == "kept")
        there = time.monotonic()
        assert run.until(min(60, run.committed().max() + 1), 30.0) - there < 3.0
    check(run)


@slow
@TRANSPORTS
def test_several_parties_killed_at_once(transport, started):
    chance = random.Random(4)
    run = started(agents=6, rounds=60, transport=transport)
    for number in range(5):
        run.until(2 + 10 * number, 30.0)
        some = run.plan.names if number == 2 else chance.sample(run.plan.names, 3)
        assert run.kill(some) == len(some)
        run.start(some)
        ready = run.ready(some, 30.0)
        assert run.until(run.committed().max() + 1, 30.0) - ready < 3.0
    check(run)


def test_a_blob_that_is_held_back_is_overtaken_and_none_is_lost():
    network = MemoryNetwork(("a", "b"))
    rough, other = Rough(network.transport("a"), seed=1, twice=0.3, late=0.3), network.transport("b")
    rough.open(), other.open()
    for number in range(200):
        rough.send("b", number.to_bytes(2, "big"))
    until = time.monotonic() + 0.4
    while time.monotonic() < until:
        rough.recv(0.05)
    found = []
    while (delivery := other.recv(0.0)) is not None:
        found.append(int.from_bytes(delivery.blob, "big"))
    assert set(found) == set(range(200))
    assert len(found) == 200 + rough.doubled
    assert np.any(np.diff(found) < 0)
    rough.close(), other.close()
