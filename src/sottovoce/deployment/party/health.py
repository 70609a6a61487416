"""Health and metrics of a party over HTTP, on loopback alone.

    GET /health     200 while the party moves, or waits as it should; 503 when it has not looked around for long, or has stopped
    GET /metrics    what Prometheus reads

One thread, one connection at a time, a second and 4 kB for each, no bodies, no other methods, at most a hundred answers a second: whoever plays with it
can keep others on this machine from an answer, and can neither slow the party nor make it hold anything. A page in a browser that sends another
host's name is refused.
"""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable
from http import HTTPStatus

from sottovoce.deployment.identity import is_loopback, split_address
from sottovoce.deployment.party.exposition import CONTENT_TYPE
from sottovoce.errors import ConfigError

_SECONDS = 1.0  # for one connection, from its first byte to its last
_LARGEST = 4096  # bytes of a request
_BACKLOG = 4
_PACE = 0.01  # seconds between two answers
_CLOSING = 3.0
Health = tuple[bool, dict[str, object]]


def health_address(address: str) -> tuple[str, int]:
    """(host, port) at which health may be served.

    Raises:
        ConfigError: it is no address of loopback.
    """
    host, port = split_address(address)
    if not is_loopback(host):
        raise ConfigError(
            f"--health {address} could be reached from other machines; health and metrics are served on loopback alone. Give 127.0.0.1:{port}, and let "
            "whoever collects metrics run on this machine."
        )
    return host, port


class HealthServer:
    """Answers until it is closed."""

    def __init__(self, address: str, health: Callable[[], Health], metrics: Callable[[], str]) -> None:
        """Listen.

        Args:
            address: host:port of loopback.
            health: whether all is well, and a few words.
            metrics: the page of measures.

        Raises:
            ConfigError: another address, or one that is taken.
        """
        where = health_address(address)
        self._health, self._metrics = health, metrics
        try:
            self._socket = socket.create_server(where, backlog=_BACKLOG)
        except OSError as error:
            raise ConfigError(
                f"health cannot be served at {address} ({error.strerror}). Give another port to --health, or stop who has it."
            ) from error
        self._socket.settimeout(0.5)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="sottovoce-health", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._closed.set()
        self._thread.join(_CLOSING)
        self._socket.close()

    def _serve(self) -> None:
        while not self._closed.is_set():
            with contextlib.suppress(OSError):  # nobody came, or whoever came has gone
                connection, _ = self._socket.accept()
                with connection:
                    self._answer(connection)
                time.sleep(_PACE)

    def _answer(self, connection: socket.socket) -> None:
        until = time.monotonic() + _SECONDS
        request = b""
        while b"\r\n\r\n" not in request and len(request) <= _LARGEST:
            connection.settimeout(max(0.001, until - time.monotonic()))
            part = connection.recv(_LARGEST)
            if not part or time.monotonic() > until:
                return
            request += part
        status, content_type, body = self._page(request)
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
            "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
        )
        connection.settimeout(max(0.001, until - time.monotonic()))
        connection.sendall(head.encode("ascii") + body)

    def _page(self, request: bytes) -> tuple[HTTPStatus, str, bytes]:
        plain, lines = "text/plain; charset=utf-8", request.partition(b"\r\n\r\n")[0].split(b"\r\n")
        words = lines[0].split(b" ")
        if len(request) > _LARGEST or len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return HTTPStatus.BAD_REQUEST, plain, b"a short GET is needed\n"
        if words[0] != b"GET":
            return HTTPStatus.METHOD_NOT_ALLOWED, plain, b"only GET\n"
        if not _for_this_machine(lines[1:]):
            return HTTPStatus.FORBIDDEN, plain, b"ask for 127.0.0.1\n"
        if words[1] == b"/health":
            well, value = self._health()
            status = HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE
            return status, "application/json", (json.dumps(value) + "\n").encode("ascii")
        if words[1] == b"/metrics":
            return HTTPStatus.OK, CONTENT_TYPE, self._metrics().encode()
        return HTTPStatus.NOT_FOUND, plain, b"there are /health and /metrics\n"


def _for_this_machine(headers: list[bytes]) -> bool:
    """Whether a request names this machine, as a browser that was led here by another name does not."""
    hosts = [line[5:].strip().decode("latin-1") for line in headers if line[:5].lower() == b"host:"]
    return all(is_loopback(host.rpartition(":")[0] if ":" in host else host) for host in hosts)
