"""Agents, board and beacon as processes over a relay that is killed, with and without its disk: the model is the one of the sums, bit by bit."""

import sys
import time

import numpy as np
import pytest

from deployment.gopa_parties.roles import LATTICE
from deployment.gopa_parties.test_killed_roles import EVERYBODY, ROUNDS, UNITS, Run, forks, simulated  # noqa: F401  fixtures
from deployment.relays import Relay

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not sys.platform.startswith("linux"), reason="processes are forked from one that has imported everything"
    ),
]


def test_roles_over_a_relay_that_is_killed_end_with_the_model_of_the_simulation(tmp_path, forks, simulated):  # noqa: F811
    draws, model = simulated
    run = Run(tmp_path / "run", forks, draws)
    with Relay(tmp_path / "relay", run.roster) as relay:
        relay.tell(run.folder)
        try:
            for name in run.names:
                run.start(name)
            for moment, keep_disk in (("after commit 0", True), ("after commit 3", False)):
                until(lambda moment=moment: moment in said(run, "agent-0"))
                relay.kill()
                relay.start(keep_disk=keep_disk)
            assert [run.wait(name) for name in run.names] == [0] * len(run.names)
        finally:
            run.end()
    run.check()
    assert np.abs(run.models([EVERYBODY] * ROUNDS)["agent-0"] - model).max() / LATTICE.unit < UNITS


def said(run: Run, name: str) -> str:
    path = run.folder / name / "moments.txt"
    return path.read_text() if path.exists() else ""


def until(true) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)
