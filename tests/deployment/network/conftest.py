"""Processes of these tests are forked from one server."""

import sys

import pytest

from deployment.network.processes import fork_server
from deployment.party.conftest import folder

__all__ = ["folder"]


@pytest.fixture(scope="session")
def forks():
    """Makes processes in a few milliseconds."""
    if not sys.platform.startswith("linux"):
        pytest.skip("processes are forked from one that has imported everything")
    return fork_server()
