"""gRPC on loopback: blobs arrive whole, strangers and impostors do not get in, and nobody fills another's memory."""

import datetime as dt
import importlib.util
import shutil
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from sottovoce.deployment.identity import Identity, Roster, load_identity, new_identity, pem, renew_identity
from sottovoce.deployment.transports import Delivery, GrpcTransport, direct
from sottovoce.deployment.transports.direct import listening
from sottovoce.deployment.transports.outgoing import METHOD, PART
from sottovoce.errors import ConfigError

NAMES = ("ada", "bea", "cyd")


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.fixture(scope="module")
def parties(tmp_path_factory) -> tuple[dict[str, Identity], Roster, Path]:
    folder = tmp_path_factory.mktemp("parties") / "keys"
    ports = free_ports(len(NAMES))
    found = {name: new_identity(name, folder, f"127.0.0.1:{port}") for name, port in zip(NAMES, ports, strict=True)}
    return found, Roster.of([each.entry() for each in found.values()]), folder


@pytest.fixture
def opened(parties):
    """Open transports by name; all are closed in the end."""
    identities, roster, _ = parties
    running = []

    def open_(name: str, **options) -> GrpcTransport:
        transport = GrpcTransport(identities[name], roster, **options)
        transport.open()
        running.append(transport)
        return transport

    yield open_
    for each in running:
        each.close()


def until_in_trouble(transport: GrpcTransport, peer: str) -> str:
    deadline = time.monotonic() + 5
    while not transport.trouble(peer) and time.monotonic() < deadline:
        time.sleep(0.01)
    return transport.trouble(peer)


def test_what_is_sent_before_the_other_listens_arrives(opened):
    ada = opened("ada")
    ada.send("bea", b"early")
    assert "unavailable" in until_in_trouble(ada, "bea")
    bea = opened("bea")
    assert bea.recv(5) == Delivery("ada", b"early")
    assert ada.trouble("bea") == ""


def test_closing_does_not_wait_for_one_that_is_gone(opened):
    ada = opened("ada")
    ada.send("bea", b"nobody there")
    until_in_trouble(ada, "bea")
    start = time.monotonic()
    ada.close()
    assert time.monotonic() - start < 2.5  # of the three seconds that it would give to one that is there


def test_a_second_process_at_the_same_address_is_refused(opened, parties):
    opened("ada")
    identities, roster, _ = parties
    with pytest.raises(ConfigError, match="the port is taken, perhaps by a second process"):
        GrpcTransport(identities["ada"], roster).open()


def raw_channel(server: Identity, secret: bytes | None, chain: bytes | None) -> grpc.Channel:
    """A channel to a party's server with any certificate."""
    credentials = grpc.ssl_channel_credentials(pem(server.certificate), private_key=secret, certificate_chain=chain)
    options = [("grpc.ssl_target_name_override", server.entry().server_name), ("grpc.enable_http_proxy", 0)]
    return grpc.secure_channel(server.address, credentials, options=options)


def refusal(channel: grpc.Channel, blobs=(b"let me in",)) -> grpc.RpcError:
    with channel, pytest.raises(grpc.RpcError) as caught:
        channel.stream_unary(METHOD)(iter(blobs), timeout=5)
    return caught.value


def issued(by: Identity, name_of: Identity, *, authority: bool) -> tuple[bytes, bytes]:
    """A fresh key and a certificate in somebody's name that another member has signed, (PEM, PEM)."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.load_der_x509_certificate(by.certificate)
    named = x509.load_der_x509_certificate(name_of.certificate)
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(named.subject)
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(named.serial_number)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(named.extensions.get_extension_for_class(x509.SubjectAlternativeName).value, critical=False)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .sign(load_pem_private_key(by.tls_secret, None), SHA256())
    )
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return secret, certificate.public_bytes(Encoding.PEM)


@pytest.mark.parametrize("authority", [False, True])
def test_a_member_cannot_issue_a_certificate_in_the_name_of_another(opened, parties, authority):
    identities, *_ = parties
    cyd = opened("cyd")
    secret, forged = issued(identities["ada"], identities["bea"], authority=authority)
    refused = refusal(raw_channel(identities["cyd"], secret, forged + identities["ada"].certificate_pem))
    # TLS itself lets it in, since the chain leads to a member: only the comparison keeps it out.
    assert refused.code() is grpc.StatusCode.UNAUTHENTICATED
    assert "not in the roster" in refused.details()
    assert cyd.recv(0.1) is None


def test_a_client_talks_to_nobody_with_a_certificate_that_another_member_issued(opened, parties):
    identities, *_ = parties
    secret, forged = issued(identities["ada"], identities["bea"], authority=True)
    taken = []

    def take(parts, context):
        taken.extend(parts)
        return b""

    service, _, method = METHOD.strip("/").partition("/")
    handlers = {method: grpc.stream_unary_rpc_method_handler(take)}
    server = grpc.server(ThreadPoolExecutor(1), options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    chain = forged + identities["ada"].certificate_pem
    server.add_secure_port(identities["bea"].address, grpc.ssl_server_credentials([(secret, chain)]))
    server.start()
    cyd = opened("cyd")
    cyd.send("bea", b"for bea alone")
    assert "certificate" in until_in_trouble(cyd, "bea").lower()
    assert taken == []
    server.stop(0).wait()


def test_strangers_do_not_get_in(opened, parties, tmp_path):
    identities, *_ = parties
    bea = opened("bea")
    stranger = new_identity("bea", tmp_path / "stranger", identities["bea"].address)
    for secret, chain in ((None, None), (stranger.tls_secret, stranger.certificate_pem)):
        assert refusal(raw_channel(identities["bea"], secret, chain)).code() is grpc.StatusCode.UNAVAILABLE
    assert bea.recv(0.1) is None


def test_a_renewed_certificate_has_to_be_in_the_roster(opened, parties, tmp_path):
    identities, roster, folder = parties
    moved = tmp_path / "keys"
    shutil.copytree(folder, moved)
    renewed = renew_identity("ada", moved)
    assert load_identity("ada", moved).certificate == renewed.certificate
    with pytest.raises(ConfigError, match="another certificate of ada"):
        GrpcTransport(renewed, roster)
    bea = opened("bea")
    assert refusal(raw_channel(identities["bea"], renewed.tls_secret, renewed.certificate_pem)).code() in (
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.UNAUTHENTICATED,
    )
    assert bea.recv(0.1) is None
    GrpcTransport(renewed, roster.replaced(renewed.entry()))


def member_channel(parties, name: str, to: str) -> grpc.Channel:
    identities, *_ = parties
    return raw_channel(identities[to], identities[name].tls_secret, identities[name].certificate_pem)


def test_a_blob_above_the_limit_ends_the_stream_and_is_not_kept(opened, parties):
    bea = opened("bea", max_blob=3 * PART)
    parts = [bytes(PART)] * 4 + [b""]
    assert refusal(member_channel(parties, "ada", "bea"), parts).code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    too_large_for_one_part = [bytes(PART + 1)]
    assert (
        refusal(member_channel(parties, "ada", "bea"), too_large_for_one_part).code()
        is grpc.StatusCode.RESOURCE_EXHAUSTED
    )
    assert bea.recv(0.1) is None


@pytest.mark.parametrize("size", [pytest.param(1000, marks=pytest.mark.slow), PART - 1])
def test_a_flood_of_one_member_is_not_read_and_takes_no_room_of_others(opened, parties, size):
    quota = 4 * PART
    bea, cyd = opened("bea", max_blob=quota), opened("cyd")
    pulled, stop = [0], threading.Event()

    def flood():
        while not stop.is_set():
            pulled[0] += 1
            yield bytes(size)

    with member_channel(parties, "ada", "bea") as channel:
        call = channel.stream_unary(METHOD).future(flood())
        before, deadline = -1, time.monotonic() + 30
        most = quota + 24 * PART  # what waits, and what the windows of both ends and the kernel hold
        while pulled[0] != before and time.monotonic() < deadline and pulled[0] * (size + 5) < most:
            before = pulled[0]
            time.sleep(0.2)
        assert bea._inbox.waiting_bytes("ada") <= quota
        held = pulled[0] * (size + 5)  # with the frame that gRPC puts around it
        assert held < most
        cyd.send("bea", b"heard")
        deadline = time.monotonic() + 5
        while not bea._inbox.waiting_bytes("cyd") and time.monotonic() < deadline:
            time.sleep(0.01)
        assert Delivery("cyd", b"heard") in [bea.recv(1), bea.recv(1)]  # each has its turn
        stop.set()
        call.cancel()


def test_a_second_stream_of_one_member_ends_the_first(opened, parties):
    bea = opened("bea")
    go_on = threading.Event()

    def slow():
        yield b"first"
        go_on.wait(5)
        yield b"from a stream that has ended"

    with member_channel(parties, "ada", "bea") as one, member_channel(parties, "ada", "bea") as other:
        first = one.stream_unary(METHOD).future(slow())
        assert bea.recv(5) == Delivery("ada", b"first")
        other.stream_unary(METHOD)(iter([b"second"]), timeout=5)
        assert bea.recv(5) == Delivery("ada", b"second")
        assert first.exception(timeout=5) is not None
        go_on.set()
        assert bea.recv(0.1) is None


def test_it_listens_on_loopback_only_where_the_address_says_so():
    assert listening("127.0.0.1:7443") == "127.0.0.1:7443"
    assert listening("127.9.0.1:7443") == "127.9.0.1:7443"
    assert listening("localhost:7443") == "127.0.0.1:7443"
    assert listening("hospital-3.example.org:7443") == "0.0.0.0:7443"
    assert listening("10.1.2.3:7443") == "0.0.0.0:7443"


def test_a_party_may_listen_elsewhere_than_it_is_reached(opened, parties):
    identities, roster, _ = parties
    (port,) = free_ports(1)
    opened("ada", listen=f"127.0.0.1:{port}")
    opened("bea")
    with socket.create_connection(("127.0.0.1", port), timeout=2), pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", int(identities["ada"].address.rpartition(":")[2])), timeout=2)
    with pytest.raises(ConfigError, match="host:port"):
        GrpcTransport(identities["ada"], roster, listen="everywhere")


def test_it_says_what_to_install_where_grpc_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "grpc", None)
    again = importlib.util.spec_from_file_location("direct_without_grpc", direct.__file__)
    with pytest.raises(ConfigError, match=r"pip install 'sottovoce\[deploy\]'"):
        again.loader.exec_module(importlib.util.module_from_spec(again))
