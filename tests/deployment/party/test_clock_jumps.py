"""The loop of peers and relays asks a clock that only grows: wall clocks that jump by a day, in both directions, change nothing."""

import contextlib
import itertools
import sys
import threading
import time

import numpy as np
import pytest

from deployment.party.parties import Parties
from deployment.party.test_loop import run_of
from deployment.party.test_run_party import live
from sottovoce.deployment.party import OthersMissing
from sottovoce.deployment.transports import MemoryNetwork

DAY = 86_400.0


@pytest.fixture(autouse=True)
def _open_process(monkeypatch):
    """Leave the limits of the process that runs the tests as they are."""
    monkeypatch.setattr(sys.modules["sottovoce.deployment.party.run_party"], "keep_memory_private", lambda: None)


def test_wall_clocks_that_jump_by_a_day_at_every_look_change_nothing(folder, monkeypatch):
    """A time limit of a minute would be over at once, or never."""
    parties = Parties(folder, run_of("fixed links"))
    network = MemoryNetwork(parties.names)
    true_time, jumps = time.time, itertools.cycle((0.0, DAY, -DAY))
    monkeypatch.setattr(time, "time", lambda: true_time() + next(jumps))
    monkeypatch.setattr(time, "time_ns", lambda: int(1e9 * (true_time() + next(jumps))))
    models = {}

    def one(name):
        with contextlib.suppress(OthersMissing):
            models[name] = live(parties, network, name, time_limit=60).model

    threads = [threading.Thread(target=one, args=(name,), daemon=True) for name in parties.names]
    for thread in threads:
        thread.start()
    until = time.monotonic() + 30.0
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    played = parties.played()
    assert models.keys() == played.keys()
    assert all(np.array_equal(models[name], played[name]) for name in played)
