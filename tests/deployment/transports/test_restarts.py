"""Processes that are killed and come back: what is sent again until it is answered gets there, over real sockets."""

import contextlib
import random
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from deployment.transports.test_direct import free_ports
from sottovoce.deployment.identity import Roster, new_identity
from sottovoce.deployment.transports import GrpcTransport

ECHO = """
import sys
from pathlib import Path
from sottovoce.deployment.identity import load_identity, load_roster
from sottovoce.deployment.transports import GrpcTransport
folder = Path(sys.argv[1])
transport = GrpcTransport(load_identity("echo", folder), load_roster(folder / "roster.json"))
transport.open()
print("open", flush=True)
while True:
    delivery = transport.recv(1.0)
    if delivery is not None:
        transport.send(delivery.sender, delivery.blob)
"""


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "keys"


def started(folder) -> subprocess.Popen:
    process = subprocess.Popen([sys.executable, "-c", ECHO, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "open\n"
    return process


@pytest.mark.slow
def test_a_party_that_is_killed_again_and_again_hears_everything_in_the_end(folder):
    one, two = free_ports(2)
    caller = new_identity("caller", folder, f"127.0.0.1:{one}")
    echo = new_identity("echo", folder, f"127.0.0.1:{two}")
    roster = Roster.of([caller.entry(), echo.entry()])
    roster.save(folder / "roster.json")
    transport = GrpcTransport(caller, roster)
    transport.open()
    process, chance = started(folder), random.Random(17)
    heard, kills, deadline = 0, 3, time.monotonic() + 120
    try:
        for number in range(90):
            blob = number.to_bytes(4, "big") * 20_000
            if number % 30 == 20 and kills:
                kills -= 1
                transport.send("echo", blob)
                time.sleep(chance.uniform(0.0, 0.01))
                process.send_signal(signal.SIGKILL)
                process.wait()
                process.stdout.close()
                process = started(folder)
            answer = None
            while answer != blob and time.monotonic() < deadline:
                transport.send("echo", blob)
                delivery = transport.recv(0.5)
                while delivery is not None and delivery.blob != blob:
                    delivery = transport.recv(0.2)  # echoes of what was sent more than once
                answer = delivery.blob if delivery else None
            heard += answer == blob
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        transport.close()
    assert heard == 90
    assert kills == 0


def test_a_line_that_goes_silent_is_given_up_and_found_again(folder, monkeypatch):
    """The other machine loses power, or a router drops everything: nothing says so but the missing answer to a ping."""
    from sottovoce.deployment.transports import direct

    # An attempt to connect whose bytes the line swallows is given up after a second, not after twenty.
    shorter = {
        "grpc.keepalive_time_ms": 300,
        "grpc.keepalive_timeout_ms": 300,
        "grpc.http2.ping_timeout_ms": 300,
        "grpc.min_reconnect_backoff_ms": 1000,
    }
    options = [(name, shorter.get(name, value)) for name, value in direct._OPTIONS]
    monkeypatch.setattr(direct, "_OPTIONS", options)
    one, two, middle = free_ports(3)
    caller = new_identity("caller", folder, f"127.0.0.1:{one}")
    far = new_identity("far", folder, f"127.0.0.1:{middle}")  # it is reached through a line that can be cut
    roster = Roster.of([caller.entry(), far.entry()])
    near_end, far_end = GrpcTransport(caller, roster), GrpcTransport(far, roster, listen=f"127.0.0.1:{two}")
    near_end.open(), far_end.open()
    line = Line(middle, two)
    try:
        near_end.send("far", b"before")
        assert far_end.recv(5).blob == b"before"
        line.silent = True
        near_end.send("far", b"into the silence")
        assert far_end.recv(0.5) is None
        deadline = time.monotonic() + 20
        while not near_end.trouble("far") and time.monotonic() < deadline:
            time.sleep(0.05)
        assert near_end.trouble("far")
        line.silent = False
        found = None
        while found is None and time.monotonic() < deadline:
            near_end.send("far", b"after")
            found = far_end.recv(0.3)
            found = None if found and found.blob == b"before" else found  # the broken stream may not have delivered it
        assert found is not None
        assert found.blob in (b"after", b"into the silence")
    finally:
        near_end.close(), far_end.close(), line.close()


def test_what_a_broken_stream_did_not_deliver_is_sent_over_the_next_one(folder):
    """The blob was handed to gRPC, which has put it into a connection that nobody will ever read."""
    one, two, middle = free_ports(3)
    caller = new_identity("caller", folder, f"127.0.0.1:{one}")
    far = new_identity("far", folder, f"127.0.0.1:{middle}")
    roster = Roster.of([caller.entry(), far.entry()])
    near_end, far_end = GrpcTransport(caller, roster), GrpcTransport(far, roster, listen=f"127.0.0.1:{two}")
    near_end.open(), far_end.open()
    line = Line(middle, two)
    try:
        near_end.send("far", b"before")
        assert far_end.recv(5).blob == b"before"
        line.silent = True
        near_end.send("far", b"lost with the connection")
        time.sleep(0.2)
        line.cut()
        line.silent = False
        arrived = [delivery.blob for delivery in (far_end.recv(5), far_end.recv(5))]
        assert arrived == [b"before", b"lost with the connection"]
    finally:
        near_end.close(), far_end.close(), line.close()


class Line:
    """A relay of bytes on loopback that can fall silent without closing anything."""

    def __init__(self, port: int, to: int) -> None:
        self.silent, self._to, self._ends = False, to, []
        self._server = socket.create_server(("127.0.0.1", port))
        self._start(self._accept)

    def _start(self, target, *arguments) -> None:
        threading.Thread(target=target, args=arguments, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                one, _ = self._server.accept()
                other = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                return
            self._ends += [one, other]
            self._start(self._carry, one, other)
            self._start(self._carry, other, one)

    def _carry(self, source, target) -> None:
        try:
            while data := source.recv(65536):
                if not self.silent:
                    target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def cut(self) -> None:
        for end in self._ends:
            with contextlib.suppress(OSError):  # its other end has left already
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._server.close()
        for end in self._ends:
            end.close()
