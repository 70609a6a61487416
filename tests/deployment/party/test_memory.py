"""What a party does about its memory."""

import sys
import tracemalloc
from pathlib import Path

import pytest

from deployment.store.stores import DIGEST, begun, exchange, made
from sottovoce.deployment.party.quiet import give_back_free_memory
from sottovoce.deployment.store import Store

BLOCK, COUNT = 4000, 10_000  # large enough for the C library's own blocks, small enough for its heap


def resident_bytes() -> int:
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


@pytest.mark.skipif(sys.platform != "linux", reason="memory is given back on Linux")
def test_freed_memory_is_given_back():
    held = [bytes(BLOCK) for _ in range(COUNT)]
    last = bytes(BLOCK)  # lies behind them, so that the heap does not become shorter by itself
    held.clear()
    before = resident_bytes()
    give_back_free_memory()
    assert before - resident_bytes() > BLOCK * COUNT // 2
    assert len(last) == BLOCK


def test_a_store_remembers_nothing_of_exchanges_that_are_over(tmp_path):
    """Python's connections to SQLite remember every blob that was opened in place: 90 bytes each, for ever."""
    with Store.open(made(tmp_path)) as store:
        begun(store)
        for position in range(100):
            store.commit(DIGEST, position, **exchange(position, 5))
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            for position in range(100, 200):
                store.commit(DIGEST, position, **exchange(position, 5))
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert after - before < 20_000
