"""Somebody on the line between two parties who changes bytes: TLS notices every change, and no changed blob arrives."""

import contextlib
import random
import socket
import threading
import time

import pytest

from deployment.transports.test_direct import free_ports
from sottovoce.deployment.identity import Roster, new_identity
from sottovoce.deployment.transports import GrpcTransport

SEED = 7


class Proxy:
    """A loopback port whose connections go on to another one; every so many bytes towards it one bit is changed."""

    def __init__(self, port: int, target: int, every: int, most: int = 100) -> None:
        self._chance, self._target, self._every, self._most = random.Random(SEED), target, every, most
        self.changed = self.connections = 0
        self._server = socket.create_server(("127.0.0.1", port))
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:  # nobody listens there yet
                near.close()
                continue
            self.connections += 1
            self._sockets += [near, far]
            for one, other, changes in ((near, far, True), (far, near, False)):
                threading.Thread(target=self._carry, args=(one, other, changes), daemon=True).start()

    def _carry(self, one: socket.socket, other: socket.socket, changes: bool) -> None:
        left = self._chance.randrange(self._every // 2, self._every)
        try:
            while content := bytearray(one.recv(4096)):
                if changes and left < len(content) and self.changed < self._most:
                    content[left] ^= 1 << self._chance.randrange(8)
                    self.changed += 1
                    changes = False  # one byte of a connection; the next one is of another connection, if there is one
                left -= len(content) if left >= len(content) else 0
                other.sendall(content)
        except OSError:
            pass
        finally:
            for each in (one, other):
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for each in self._sockets:
            each.close()


@pytest.mark.slow
def test_every_changed_byte_ends_the_connection_and_no_changed_blob_arrives(tmp_path):
    near, real, other = free_ports(3)
    ada, bea = (new_identity(n, tmp_path / n, f"127.0.0.1:{p}") for n, p in (("ada", other), ("bea", near)))
    roster = Roster.of([ada.entry(), bea.entry()])
    proxy = Proxy(near, real, every=60_000)
    sender, receiver = GrpcTransport(ada, roster), GrpcTransport(bea, roster, listen=f"127.0.0.1:{real}")
    receiver.open()
    sender.open()
    chance = random.Random(SEED)
    blobs = [chance.randbytes(20_000) for _ in range(20)]
    arrived, until = [], time.monotonic() + 60
    try:
        while proxy.changed < 5 and time.monotonic() < until:
            sender.send("bea", blobs[len(arrived) % len(blobs)])
            delivery = receiver.recv(0.1)
            arrived += [] if delivery is None else [delivery]
    finally:
        sender.close()
        receiver.close()
        proxy.close()
    assert proxy.changed >= 5, "nothing was attacked"
    assert proxy.connections >= proxy.changed  # each change ended its connection, or there would have been no other one
    assert arrived, "nothing got through between two changes"
    assert all(delivery.sender == "ada" and delivery.blob in blobs for delivery in arrived)
