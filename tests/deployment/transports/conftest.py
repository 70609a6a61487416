"""Members for tests of transports: keys and a roster for the NAMES of a test file, at free ports of this machine."""

import pytest

from deployment.transports.test_direct import free_ports
from sottovoce.deployment.identity import Roster, new_identity


@pytest.fixture(scope="module")
def parties(request, tmp_path_factory):
    """(identities by name, their roster)."""
    names, folder = request.module.NAMES, tmp_path_factory.mktemp("parties") / "keys"
    ports = free_ports(len(names))
    found = {name: new_identity(name, folder, f"127.0.0.1:{port}") for name, port in zip(names, ports, strict=True)}
    return found, Roster.of([each.entry() for each in found.values()])
