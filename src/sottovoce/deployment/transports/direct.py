"""Direct gRPC with mutual TLS: every party listens, and opens one stream to each party that it sends to.

Who may talk is decided by whole certificates. A server asks for the client's certificate and compares it, byte for byte, with those of the roster: a
chain that leads to a member is not enough, since any member could issue a certificate in another's name. A client trusts the one certificate of the
party that it wants to reach. No proxy is used. Blobs travel in parts over streams that stay open, so that a blob costs no call of its own.

What one member can make another hold is bounded: `max_blob` bytes that wait and as many of the blob that is arriving; beyond it is not read from.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from typing import Any

from sottovoce.deployment.identity import Identity, Roster, der, is_loopback, pem, split_address
from sottovoce.deployment.transports.inbox import Inbox
from sottovoce.deployment.transports.network_thread import NetworkThread
from sottovoce.deployment.transports.transport import Delivery
from sottovoce.errors import ConfigError

# gRPC would write every failed attempt on the terminal; `trouble` says it in the words of this package's callers.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

try:
    import grpc
    import grpc.aio
except ImportError as error:
    raise ConfigError(
        f"Direct messages between parties need grpcio, which cannot be imported ({error}). Install it: pip install 'sottovoce[deploy]'."
    ) from error

from sottovoce.deployment.transports.outgoing import METHOD, PART, Outgoing

LARGEST_BLOB = 2**26  # 64 MiB, 8 million parameters
_CLOSING = 3.0  # seconds
_OPENING = 30.0  # seconds until a party listens, on a machine that is busy
_AHEAD = 4 * 2**20
_OPTIONS: list[tuple[str, Any]] = [
    ("grpc.max_receive_message_length", PART),
    ("grpc.max_send_message_length", PART),
    ("grpc.enable_http_proxy", 0),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    # Without this one newer releases wait a minute for the answer to a ping, whatever the line above says.
    ("grpc.http2.ping_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    # For how long an attempt to connect may go on, whatever its name: at 1 kB/s the certificates alone take some seconds.
    ("grpc.min_reconnect_backoff_ms", 20_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
]
_SERVER_OPTIONS = [
    *_OPTIONS,
    ("grpc.so_reuseport", 0),  # a second process on the same port is refused, rather than given every other message
    ("grpc.max_concurrent_streams", 4),
    # What one stream may send ahead of being read: enough for distant parties, and no more than this, however fast they are.
    ("grpc.http2.lookahead_bytes", _AHEAD),
    ("grpc.http2.bdp_probe", 0),
]


class GrpcTransport:
    """Sends and takes blobs over gRPC; a thread of its own does the work between `open` and `close`."""

    def __init__(self, identity: Identity, roster: Roster, *, max_blob: int = LARGEST_BLOB, listen: str = "") -> None:
        """Prepare; nothing is opened yet.

        Args:
            identity: who this party is.
            roster: all members; it lists this party with the certificate that `identity` has.
            max_blob: the most bytes in one blob, which also bounds what each other party can make this one hold.
            listen: host:port to listen at, where it is not the address in the roster, for example behind a router.

        Raises:
            ConfigError: the roster has another certificate of this party, or `listen` is no address.
        """
        if roster[identity.name].certificate != identity.certificate:
            raise ConfigError(
                f"The roster lists another certificate of {identity.name} than the one in this party's key file, so that the others would refuse it. "
                "Put this party's newest entry into every roster: sottovoce roster renew."
            )
        if listen:
            split_address(listen)
        self._identity, self._roster, self._max_blob = identity, roster, max_blob
        self._listen = listen or listening(identity.address)
        self._members = {entry.certificate: entry.name for entry in roster if entry.name != identity.name}
        self._streams: dict[str, asyncio.Task[Any]] = {}  # the one stream from each other party
        self._outgoing: dict[str, Outgoing] = {}
        self._thread: NetworkThread | None = None
        self._inbox: Inbox | None = None
        self._server: Any = None

    def __repr__(self) -> str:
        return f"GrpcTransport({self._identity.name} at {self._listen}, {'open' if self._thread else 'closed'})"

    @property
    def max_blob(self) -> int:
        """The most bytes in one blob."""
        return self._max_blob

    def open(self) -> None:
        """Begin to take blobs in.

        Raises:
            ConfigError: nobody can listen at the address.
        """
        if self._thread is not None:
            raise ConfigError("The transport is open already.")
        self._thread = NetworkThread()
        self._inbox = Inbox(tuple(self._members.values()), self._max_blob, self._thread.loop)
        try:
            self._thread.finished(self._serve(), _OPENING)
        except TimeoutError as error:
            self._stop()
            raise ConfigError(
                f"{self._identity.name} could not begin to listen at {self._listen} within {_OPENING:g} seconds. The machine is too busy, or its network hangs; "
                "start the same command again."
            ) from error
        except BaseException:
            self._stop()
            raise

    def send(self, to: str, blob: bytes) -> None:
        """Begin to send a blob and return at once. It may be lost; then it is the caller's to send again.

        Raises:
            ConfigError: the blob is too large.
            UnknownParty: nobody has the name.
        """
        if self._thread is None:
            raise ConfigError("The transport is closed; open it before sending.")
        if len(blob) > self._max_blob:
            raise ConfigError(
                f"A blob of {len(blob)} bytes for {to}; at most {self._max_blob} can be sent. Raise max_blob at all parties."
            )
        if self._roster[to].name == self._identity.name:
            raise ConfigError(f"{to} is this party itself; it has nothing to send to itself.")
        self._thread.soon(self._put, to, blob)

    def recv(self, timeout: float) -> Delivery | None:
        """The next blob, or None when none came within so many seconds."""
        if self._inbox is None:
            raise ConfigError("The transport is closed; open it before asking for blobs.")
        return self._inbox.get(timeout)

    def busy(self, to: str) -> bool:
        """Whether blobs for a party are still on their way out, so that to repeat them now would only lengthen a queue."""
        outgoing = self._outgoing.get(to)
        return outgoing is not None and outgoing.busy

    def trouble(self, peer: str) -> str:
        """Why a party that blobs are for cannot be reached at the moment, in gRPC's words; empty where nothing is known against it."""
        outgoing = self._outgoing.get(peer)
        return outgoing.trouble if outgoing is not None else ""

    def close(self) -> None:
        """Finish what is being sent, for a few seconds at most, and stop; what has arrived and was not asked for is dropped."""
        if self._thread is None:
            return
        with contextlib.suppress(TimeoutError):
            self._thread.finished(self._end(), 2 * _CLOSING)
        self._stop()

    def _stop(self) -> None:
        assert self._thread is not None
        self._thread.stop()
        self._thread = self._inbox = self._server = None
        self._outgoing, self._streams = {}, {}

    async def _serve(self) -> None:
        credentials = grpc.ssl_server_credentials(
            [(self._identity.tls_secret, self._identity.certificate_pem)],
            root_certificates=b"".join(pem(certificate) for certificate in self._members),
            require_client_auth=True,
        )
        self._server = grpc.aio.server(options=_SERVER_OPTIONS)
        service, _, method = METHOD.strip("/").partition("/")
        handlers = {method: grpc.stream_unary_rpc_method_handler(self._carry)}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        try:
            self._server.add_secure_port(self._listen, credentials)
        except RuntimeError as error:
            raise ConfigError(
                f"{self._identity.name} cannot listen at {self._listen}: the port is taken, perhaps by a second process of this party, or the address is "
                "not this machine's. Stop the other process, or give another address to listen at with --listen."
            ) from error
        await self._server.start()

    async def _carry(self, parts: AsyncIterator[bytes], context: Any) -> bytes:
        """Take in the blobs of one stream."""
        sender = self._members.get(_certificate(context), "")
        if not sender:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "this certificate is not in the roster")
        inbox, task = self._inbox, asyncio.current_task()
        assert inbox is not None
        assert task is not None
        if sender in self._streams:
            self._streams[sender].cancel()  # a party has one stream: the newest
        self._streams[sender] = task
        try:
            async for blob in _blobs(parts, self._max_blob, context):
                await inbox.put(sender, blob)
        except asyncio.CancelledError:
            if self._streams.get(sender) is task:
                raise
            task.uncancel()  # gRPC would leave the stream open
            await context.abort(grpc.StatusCode.ABORTED, "a newer stream has taken the place of this one")
        finally:
            if self._streams.get(sender) is task:
                del self._streams[sender]
        return b""

    def _put(self, to: str, blob: bytes) -> None:
        if to not in self._outgoing:
            entry = self._roster[to]
            credentials = grpc.ssl_channel_credentials(
                root_certificates=pem(entry.certificate),
                private_key=self._identity.tls_secret,
                certificate_chain=self._identity.certificate_pem,
            )
            options = [*_OPTIONS, ("grpc.ssl_target_name_override", entry.server_name)]
            channel = grpc.aio.secure_channel(entry.address, credentials, options=options)
            self._outgoing[to] = Outgoing(channel, self._max_blob)
        self._outgoing[to].put(blob)

    async def _end(self) -> None:
        await asyncio.gather(*(outgoing.close(_CLOSING) for outgoing in self._outgoing.values()))
        for stream in [*self._streams.values()]:
            stream.cancel()
        await self._server.stop(0)


def listening(address: str) -> str:
    """Where a party with such an address listens: at loopback if the address says so, else at all of its machine's addresses."""
    host, port = split_address(address)
    if is_loopback(host):
        return f"{'127.0.0.1' if host.lower() == 'localhost' else host}:{port}"
    return f"0.0.0.0:{port}"


async def _blobs(parts: AsyncIterator[bytes], largest: int, context: Any) -> AsyncIterator[bytes]:
    """Whole blobs from their parts; a stream with one that is too large is ended."""
    held: list[bytes] = []
    size = 0
    async for part in parts:
        size += len(part)
        if size > largest:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"a blob has at most {largest} bytes")
        held.append(part)
        if len(part) < PART:
            yield held[0] if len(held) == 1 else b"".join(held)
            held, size = [], 0


def _certificate(context: Any) -> bytes:
    """The other end's certificate, DER; empty where it has none that can be read."""
    found = list(context.auth_context().get("x509_pem_cert", ()))
    try:
        return der(found[0]) if len(found) == 1 else b""
    except ValueError:
        return b""
