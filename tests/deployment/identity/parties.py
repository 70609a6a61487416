"""Parties for tests: keys and rosters made once, and sessions that know each other."""

import tempfile
from functools import cache
from pathlib import Path

from sottovoce.deployment.identity import Identity, Roster, Session, fresh_boot, new_identity, new_run_key

DIGEST = bytes(range(32))
RUN = "demo"
FIRST_PORT = 7000


@cache
def identity(name: str, port: int = 0) -> Identity:
    """Keys of a party at a port of loopback, the same ones whenever a test asks."""
    with tempfile.TemporaryDirectory() as folder:
        return new_identity(name, Path(folder) / "keys", f"127.0.0.1:{port or FIRST_PORT + sum(map(ord, name))}")


def roster(*names: str) -> Roster:
    return Roster.of([identity(name).entry() for name in names])


def session(
    name: str, among: Roster, *, run_key: bytes | None = None, digest: bytes = DIGEST, run: str = RUN
) -> Session:
    return Session(identity(name), among, digest, run, run_key or new_run_key(), fresh_boot())


def greeted(*names: str) -> dict[str, Session]:
    """Sessions of all of them, after everybody has said hello to everybody."""
    sessions = {name: session(name, roster(*names)) for name in names}
    for one in names:
        for other in names:
            if one != other:
                sessions[one].greet(sessions[other].hello({"boot": 1}))
    return sessions
