"""Parties as processes over gRPC, with somebody on every line who changes bytes: the same models, since no change goes unnoticed."""

import sys

import pytest

from deployment.party.parties import same
from deployment.party.test_killed_processes import Run, forks, free_ports
from deployment.transports.test_flipped_lines import Proxy

__all__ = ["forks"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are forked"),
]


def test_bytes_that_are_changed_on_the_line_change_no_model(forks, folder):
    run = Run(folder / "run", "fixed links", forks, rounds=6)
    proxies = []
    for name, real in zip(run.names, free_ports(len(run.names)), strict=True):
        (run.folder / name / "listen.txt").write_text(f"127.0.0.1:{real}")
        near = int(run.identities[name].address.rpartition(":")[2])
        proxies.append(Proxy(near, real, every=9_000, most=3))
    try:
        for name in run.names:
            run.start(name)
        assert [run.wait(name) for name in run.names] == [0] * len(run.names)
    finally:
        run.end()
        for proxy in proxies:
            proxy.close()
    assert sum(proxy.changed for proxy in proxies) >= 5, "nothing was attacked"
    assert same(run.models(), run.played())
