"""A process that is ended at any point of a transaction leaves all of it or nothing."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from deployment.store import crashing
from deployment.store.stores import DIGEST, RUN_KEY, begun, committed, exchange, is_exchange, made
from sottovoce.deployment.store import AnotherWriter, Store, StoreError

TESTS = Path(__file__).parents[2]


def started(path, *words):
    paths = [str(TESTS), str(TESTS.parent / "src")]
    return subprocess.Popen(
        [sys.executable, crashing.__file__, str(path), *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def crash(path, point, *steps):
    process = started(path, point, *steps)
    _, told = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL, told


@pytest.fixture
def path(tmp_path):
    return made(tmp_path)


POINTS = {"begun": False, "written": False, "committed": True}  # whether what was done is there afterwards


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_a_run_begins_with_its_reservation_or_not_at_all(path, point):
    crash(path, f"begin: {point}", "begin")
    with Store.open(path) as store:
        there = POINTS[point]
        assert (store.run(DIGEST) is not None) == there
        assert len(store.entries()) == store.counters().entries == 1 + there


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_an_exchange_is_whole_or_absent(path, point):
    with Store.open(path) as store:
        begun(store)
        committed(store, 0)
    crash(path, f"commit: {point}", "commit")
    with Store.open(path, writer=False) as reader:
        assert is_exchange(reader, int(POINTS[point]))
    with Store.open(path) as store:
        assert is_exchange(store, int(POINTS[point]))
        committed(store, int(POINTS[point]) + 1)


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_a_boot_is_counted_in_both_places_or_in_none(path, point):
    with Store.open(path) as store:
        begun(store)
    crash(path, f"boot: {point}", "boot")
    with Store.open(path) as store:
        assert store.boots(DIGEST) == store.counters().boots == int(POINTS[point])


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_a_run_that_ends_is_erased_however_it_was_interrupted(path, point):
    with Store.open(path) as store:
        begun(store)
        committed(store, 0)
        for peer in ("bo", "cy"):
            store.acknowledged(DIGEST, peer, 0)
    crash(path, f"finish: {point}", "finish")
    with Store.open(path) as store:
        if not POINTS[point]:
            assert is_exchange_without_messages(store)
            store.finish(DIGEST, None)
        assert store.current(DIGEST) is None
        assert store.run(DIGEST).status == "closed"
        assert remains(path, RUN_KEY) == []


def is_exchange_without_messages(store):
    return np.array_equal(store.current(DIGEST).state, exchange(0)["state"]) and store.run(DIGEST).run_key == RUN_KEY


def remains(path, content):
    return [each.name for each in path.parent.iterdir() if content in each.read_bytes()]


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_what_was_reserved_is_given_back_with_the_end_of_its_run(path, point):
    crash(path, f"cancel: {point}", "begin", "cancel")
    with Store.open(path) as store:
        there = POINTS[point]
        assert (store.run(DIGEST).status == "cancelled") == there
        assert len(store.entries()) == 2 + there


@pytest.mark.slow
@pytest.mark.parametrize("point", [f"{use}: {point}" for use in ("open", "close") for point in POINTS])
def test_opening_and_closing_may_be_interrupted(path, point):
    with Store.open(path) as store:
        begun(store)
        committed(store, 0)
    crash(path, point, "boot")
    with Store.open(path) as store:
        assert is_exchange(store, 0)


@pytest.mark.slow
@pytest.mark.parametrize("dimension", [100, 200_000])
def test_at_random_moments_nothing_that_was_told_is_lost_and_nothing_is_half(path, dimension):
    """What the process printed it could have sent: an exchange that it told of must be there, whole; the one under way is whole or absent."""
    with Store.open(path) as store:
        begun(store)
        store.commit(DIGEST, 0, **exchange(0, dimension))
    chance = random.Random(17)
    for _ in range(15):
        process = started(path, "for-ever", str(dimension))
        assert process.stdout.readline() == "ready\n"
        time.sleep(chance.uniform(0.0, 0.15))
        process.kill()
        told, _ = process.communicate(timeout=60)
        # A line that the kill cut off counts as not told.
        last = max((int(line) for line in told.splitlines(keepends=True) if line.endswith("\n")), default=0)
        with Store.open(path) as store:
            found = store.current(DIGEST)
            assert found.position >= last
            assert np.array_equal(found.state, exchange(found.position, dimension)["state"])
            assert store.counters().exchanges == found.position + 1
            sent = {(out.peer, out.payload) for out in store.outgoing(DIGEST) if out.position == found.position}
            assert sent == set(exchange(found.position, dimension)["outgoing"].items())
    assert found.position > 15


@pytest.mark.slow
def test_a_second_process_is_refused_while_the_first_one_writes(path):
    with Store.open(path) as store:
        begun(store)
        committed(store, 0)
    process = started(path, "for-ever", "10")
    try:
        assert process.stdout.readline() == "ready\n"
        with pytest.raises(AnotherWriter, match="one run at a time"):
            Store.open(path)
        with Store.open(path, writer=False) as reader:
            first, deadline = reader.run(DIGEST).position, time.monotonic() + 30
            while reader.run(DIGEST).position == first and time.monotonic() < deadline:
                time.sleep(0.01)
            assert reader.run(DIGEST).position > first
    finally:
        process.kill()
        process.communicate(timeout=60)
    with Store.open(path) as store:
        assert store.run(DIGEST).position > 0


@pytest.mark.slow
def test_a_full_disk_keeps_what_was_there(path):
    """The size of files is limited by the system itself, in a process of its own; what it could not write is not there, all else is."""
    with Store.open(path) as store:
        begun(store)
        committed(store, 0)
    process = started(path, "limit 700000", *["commit"] * 60)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 1, told
    assert "StoreError" in told
    assert "the disk" in told
    with Store.open(path) as store:
        position = store.run(DIGEST).position
        assert 0 < position < 60
        assert is_exchange(store, position)


def test_a_full_database_sends_nothing_and_is_usable_when_opened_again(path):
    with Store.open(path) as store:
        begun(store)
        committed(store, 0)
        connection = store._database.connection
        connection.execute("PRAGMA max_page_count = 1")  # SQLite takes the pages there are: not one more
        with pytest.raises(StoreError, match="the disk is full"):
            store.commit(DIGEST, 1, **exchange(1, 100_000))
        with pytest.raises(StoreError, match="Open it again"):
            committed(store, 1)
    with Store.open(path) as store:
        assert is_exchange(store, 0)
        committed(store, 1)
        assert is_exchange(store, 1)


@pytest.mark.parametrize("part", ["beginning", "middle", "end"])
def test_a_damaged_file_is_refused(path, part):
    with Store.open(path) as store:
        begun(store)
        for position in range(4):
            store.commit(DIGEST, position, **exchange(position, 20_000))
    content = bytearray(path.read_bytes())
    start = {"beginning": 0, "middle": len(content) // 2, "end": len(content) - 65536}[part]
    content[start : start + 65536] = os.urandom(65536)
    path.write_bytes(bytes(content))
    with pytest.raises(StoreError, match=r"damaged|no database"):
        everything(path)


def everything(path):
    with Store.open(path) as store:
        return store.current(DIGEST), store.outgoing(DIGEST)


def test_a_shortened_file_is_refused(path):
    with Store.open(path) as store:
        begun(store)
        store.commit(DIGEST, 0, **exchange(0, 20_000))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(StoreError, match="damaged"):
        Store.open(path)


def test_a_file_that_may_not_be_written_is_refused(path, monkeypatch):
    """Root may write everything, so that SQLite itself is told to."""
    from sottovoce.deployment.store import database

    opened = database._connected
    monkeypatch.setattr(database, "_connected", lambda path, *, writer: opened(path, writer=False))
    with pytest.raises(StoreError, match="may not be written"):
        Store.open(path)
