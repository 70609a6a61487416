"""Parties in network namespaces, between which a fifth of all packets is lost: the kernels' TCP, gRPC and the parties bear it together."""

import time

import pytest

from deployment.network.namespaces import Switch, address, live_apart, try_to_move_out
from deployment.network.process import Plan
from deployment.network.processes import Processes
from deployment.party.parties import same

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def allowed(forks):
    """Leaves a test out where the system does not let it make network namespaces, and says so."""
    here, there = forks.Pipe(duplex=False)
    tried = forks.Process(target=try_to_move_out, args=(there,))
    tried.start()
    why = here.recv() if here.poll(20.0) else "no answer"
    tried.join()
    here.close(), there.close()
    if why:
        pytest.skip(f"NOT SHOWN HERE: network namespaces are not allowed on this machine ({why})")


@pytest.fixture
def apart(allowed, folder, forks):
    """Starts a plan's parties in namespaces, and the switch between them."""
    ended = []

    def start(loss: float, **plan) -> tuple[Processes, Switch]:
        run = Processes(Plan(folder=folder, **plan), forks, target=live_apart, address=address)
        switch = Switch(folder, loss=loss, seed=run.plan.seed)
        ended.extend([run.end, switch.close])
        run.start()
        return run, switch

    yield start
    for end in ended:
        end()


def test_a_fifth_of_all_packets_lost(apart):
    run, switch = apart(loss=0.2, agents=4, dimension=10, rounds=6)
    run.wait(120.0)
    assert same(run.models(), run.plan.played())
    assert run.ledgers_are_exact()
    assert switch.lost > 0.1 * (switch.lost + switch.carried) > 5


def test_no_packet_for_ten_seconds(apart):
    run, switch = apart(loss=0.0, agents=4, rounds=200)
    run.until(10, 30.0)
    switch.loss = 1.0
    time.sleep(10.0)
    switch.loss = 0.0
    healed, furthest = time.monotonic(), run.committed().max()
    assert furthest < 200
    assert run.until(furthest + 1, 60.0) - healed < 3.0
    run.wait(60.0)
    assert same(run.models(), run.plan.played())
