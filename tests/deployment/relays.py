"""A real relay for tests: nats-server with the configuration that `sottovoce relay config` writes, on a free port of this machine.

    with Relay(folder, roster) as relay:
        transport = NatsTransport(identity, roster, relay.address)
        relay.kill()                    # SIGKILL
        relay.start(keep_disk=False)    # as after the loss of its disk; `keep_disk=True`: as after a crash

The server is the one that SOTTOVOCE_NATS_SERVER names, that `make test` has brought, or that is on the path.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from sottovoce.deployment.identity import Roster
from sottovoce.deployment.relays import Limits, configured, open_mailboxes
from sottovoce.deployment.relays import Relay as Address

ROOT = Path(__file__).parents[2]
PATIENCE = 10.0


def nats_server() -> str:
    """Path of the program.

    Raises:
        AssertionError: there is none.
    """
    brought = ROOT / ".venv" / "nats" / "usr" / "sbin" / "nats-server"
    found = os.environ.get("SOTTOVOCE_NATS_SERVER") or (
        str(brought) if brought.exists() else shutil.which("nats-server")
    )
    assert found, (
        "nats-server is missing: `make nats` brings it where apt-get can, else put an official release on the PATH"
    )
    return found


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


class Relay:
    """A server of its own, in a folder of its own."""

    def __init__(self, folder: Path, roster: Roster, limits: Limits | None = None, change=lambda text: text) -> None:
        """Write the configuration; nothing runs yet.

        Args:
            folder: for all files of the relay.
            roster: the members.
            limits: what they can make it keep.
            change: of nats.conf, for tests that show what a line of it is good for.
        """
        self.folder, self.log = folder, folder / "server.log"
        written = configured(roster, f"127.0.0.1:{free_port()}", folder, limits)
        self.address: Address = written.relay
        path = folder / "nats.conf"
        path.write_text(change(path.read_text()))
        self._process: subprocess.Popen | None = None

    def __enter__(self) -> "Relay":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def store(self) -> Path:
        """Where messages lie."""
        return self.folder / "store"

    def start(self, *, keep_disk: bool = True, mailboxes: bool = True) -> None:
        """Start the server and open the mailboxes."""
        if not keep_disk:
            shutil.rmtree(self.store, ignore_errors=True)
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                [nats_server(), "-c", "nats.conf"], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        host, port = self.address.address.split(":")
        deadline = time.monotonic() + PATIENCE
        while True:
            assert self._process.poll() is None, f"nats-server has ended: {self.log.read_text()[-2000:]}"
            try:
                socket.create_connection((host, int(port)), timeout=1).close()
                break
            except OSError:
                assert time.monotonic() < deadline, f"nats-server does not listen: {self.log.read_text()[-2000:]}"
                time.sleep(0.02)
        if mailboxes:
            open_mailboxes(self.folder)

    def kill(self) -> None:
        """End the server at once, as a crash does."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    def pause(self) -> None:
        """Have the server do nothing, with all connections open."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)
