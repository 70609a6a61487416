"""A connection to a relay: TLS with one's own certificate, to the one certificate of relay.json and to no other.

The certificate that the other end has shown is compared byte for byte before anything is published; a chain that leads to it is not enough. A
server that leaves TLS out is refused. No proxy is used. The client library connects once; who calls tries again. What it holds of an answer that
does not end is bounded, and it writes nothing on the terminal.
"""

import asyncio
import contextlib
import logging
import os
import ssl
import tempfile
from collections.abc import Iterator

from sottovoce.deployment.identity import pem
from sottovoce.deployment.relays.relay_file import Relay
from sottovoce.errors import ConfigError

try:
    from nats.aio.client import Client
    from nats.errors import Error as NatsError
    from nats.errors import ProtocolError
    from nats.protocol.parser import Parser
except ImportError as error:
    raise ConfigError(
        f"Messages over a relay need nats-py, which cannot be imported ({error}). Install it: pip install 'sottovoce[deploy]'."
    ) from error

CONNECTING = 5  # seconds for each step on the way to a connection
_PING = 10  # seconds between two signs of life; after three without an answer the connection is given up
_ENDING = 2.0  # seconds for the end of a connection
_LOOK = 0.2  # seconds between two looks at a connection
_BESIDE_PAYLOAD = 2**16  # bytes of a control line, headers and what was read ahead

# The library would write what it meets on the terminal; callers say it in their own words.
logging.getLogger("nats").addHandler(logging.NullHandler())
logging.getLogger("nats").propagate = False
logging.getLogger("asyncio").addFilter(lambda record: "eof_received() has no effect" not in record.getMessage())


class _Bounded(Parser):
    """Reads what the server says, and gives up where a message or a line is longer than any can be."""

    def __init__(self, client: Client, most: int) -> None:
        super().__init__(client)
        self._most = most

    async def parse(self, data: bytes = b"") -> None:
        """Take in some bytes."""
        await super().parse(data)
        if len(self.buf) > self._most or self.needed > self._most:
            raise ProtocolError


async def connect(relay: Relay, secret: bytes, certificate: bytes, inbox: str) -> Client:
    """Connect once.

    Args:
        relay: to whom.
        secret: own P-256 key, PEM.
        certificate: own, DER.
        inbox: what stands before subjects of answers.

    Raises:
        OSError, TimeoutError, NatsError: it cannot be reached, or is not the relay.
    """
    client = Client()
    client._ps = _Bounded(client, relay.max_payload + _BESIDE_PAYLOAD)
    failures: list[Exception] = []

    async def failed(error: Exception) -> None:
        failures.append(error)
        del failures[:-1]

    try:
        await client.connect(
            f"tls://{relay.address}",
            tls=_context(relay, secret, certificate),
            tls_hostname="relay.invalid",
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=CONNECTING,
            ping_interval=_PING,
            max_outstanding_pings=2,
            error_cb=failed,
            inbox_prefix=inbox,
            pending_size=0,
        )
    except (OSError, TimeoutError, NatsError) as error:
        _abandon(client)
        raise (failures[-1] if failures and not isinstance(error, OSError) else error) from error
    except BaseException:
        _abandon(client)
        raise
    if shown_certificate(client) != relay.certificate:
        _abandon(client)
        raise ssl.SSLError("the server shows another certificate than the relay's")
    return client


async def until_closed(client: Client) -> None:
    """Wait until a connection has ended; the library's own word for it does not come where it fails while it ends."""
    reading = client._reading_task
    while client.is_connected and reading is not None and not reading.done():
        await asyncio.wait({reading}, timeout=_LOOK)


async def end(client: Client) -> None:
    """End a connection, however the other end is."""
    with contextlib.suppress(Exception):  # whatever the library meets on the way
        await asyncio.wait_for(client.close(), _ENDING)
    _abandon(client)


def shown_certificate(client: Client) -> bytes:
    """The certificate of the other end, DER; empty where it has shown none."""
    writer = getattr(client._transport, "_io_writer", None)
    secured = writer.get_extra_info("ssl_object") if writer is not None else None
    return (secured.getpeercert(binary_form=True) or b"") if secured is not None else b""


def _abandon(client: Client) -> None:
    """Cut a connection that is of no use, without another word."""
    writer = getattr(client._transport, "_io_writer", None)
    if writer is not None:
        writer.transport.abort()


def _context(relay: Relay, secret: bytes, certificate: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the whole certificate is compared
    context.load_verify_locations(cadata=pem(relay.certificate).decode("ascii"))
    with _as_file(secret + pem(certificate)) as path:
        context.load_cert_chain(path)
    return context


@contextlib.contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A name under which the TLS library can read a secret: in memory where the system can do that, else in a private file for a moment."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("key")
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:  # pragma: no cover - systems without files in memory
        file.write(content)
        file.flush()
        yield file.name


def in_words(error: BaseException) -> str:
    """Why a relay could not be reached, in a few words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return "the server at the relay's address has another certificate than relay.json says"
    if isinstance(error, TimeoutError):
        return "the relay does not answer"
    text = str(error).strip() or type(error).__name__
    return f"the relay cannot be reached: {text}"
