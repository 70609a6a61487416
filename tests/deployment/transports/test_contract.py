"""What every transport between processes keeps, over real sockets: direct gRPC and a relay."""

import os
import time

import pytest

from deployment.relays import Relay
from sottovoce.deployment.identity import refusals
from sottovoce.deployment.transports import GrpcTransport, NatsTransport
from sottovoce.errors import ConfigError

NAMES = ("ada", "bea", "cyd")
MIB = 2**20


@pytest.fixture(scope="module")
def relay(parties, tmp_path_factory):
    with Relay(tmp_path_factory.mktemp("relay"), parties[1]) as running:
        yield running


@pytest.fixture(params=["grpc", "nats"])
def opened(request, parties):
    """Open transports by name; all are closed in the end."""
    identities, roster = parties
    running = []

    def open_(name: str, **options):
        if request.param == "grpc":
            transport = GrpcTransport(identities[name], roster, **options)
        else:
            transport = NatsTransport(identities[name], roster, request.getfixturevalue("relay").address, **options)
        transport.open()
        running.append(transport)
        return transport

    yield open_
    for each in running:
        each.close()


def taken(transport, count: int = 1, seconds: float = 5.0):
    found = []
    for _ in range(count):
        delivery = transport.recv(seconds)
        assert delivery is not None, f"{len(found)} of {count} have come"
        delivery.done()
        found.append((delivery.sender, delivery.blob))
    return found


def test_blobs_arrive_whole_and_in_order_whatever_their_size(opened):
    ada, bea = opened("ada"), opened("bea")
    blobs = [b"", b"x", *(os.urandom(size) for size in (MIB - 20, MIB - 1, MIB, MIB + 1, 3 * MIB, 80_000))]
    for blob in blobs:
        ada.send("bea", blob)
    assert taken(bea, len(blobs)) == [("ada", blob) for blob in blobs]
    bea.send("ada", b"back")
    assert taken(ada) == [("bea", b"back")]
    assert ada.recv(0) is None


def test_a_party_that_starts_again_is_found_again(opened):
    ada, bea = opened("ada"), opened("bea")
    ada.send("bea", b"one")
    assert taken(bea) == [("ada", b"one")]
    bea.close()
    again = opened("bea")
    deadline, found = time.monotonic() + 8, None
    while found is None and time.monotonic() < deadline:  # one that was handed over to the old start may be lost
        ada.send("bea", b"two")
        found = again.recv(0.2)
        found = None if found and found.blob == b"one" else found  # the broken stream may not have delivered it
    assert found.blob == b"two"
    assert found.sender == "ada"


def test_closing_sends_what_is_queued(opened):
    ada, bea = opened("ada"), opened("bea")
    ada.send("bea", b"the line stands")
    taken(bea, seconds=10)
    for _ in range(5):
        ada.send("bea", bytes(100_000))
    ada.close()
    assert len(taken(bea, 5)) == 5
    with pytest.raises(ConfigError, match="closed"):
        ada.send("bea", b"")
    with pytest.raises(ConfigError, match="closed"):
        ada.recv(0)
    assert ada.trouble("bea") == ""


def test_who_sends_is_busy_until_everything_has_left(opened):
    ada, bea = opened("ada"), opened("bea")
    assert not ada.busy("bea")
    ada.send("bea", b"one")
    assert taken(bea, seconds=10) == [("ada", b"one")]
    deadline = time.monotonic() + 5
    while ada.busy("bea") and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not ada.busy("bea")
    assert not ada.busy("cyd")


def test_what_cannot_be_sent_is_refused_at_once(opened):
    ada = opened("ada", max_blob=1000)
    with pytest.raises(ConfigError, match="at most 1000"):
        ada.send("bea", bytes(1001))
    with pytest.raises(refusals.UnknownParty):
        ada.send("eve", b"")
    with pytest.raises(ConfigError, match="itself"):
        ada.send("ada", b"")
    with pytest.raises(ConfigError, match="open already"):
        ada.open()


def test_nothing_is_taken_twice_and_each_sender_has_its_turn(opened):
    ada, bea, cyd = opened("ada"), opened("bea"), opened("cyd")
    for number in range(20):
        ada.send("cyd", b"a%d" % number)
        bea.send("cyd", b"b%d" % number)
    found = taken(cyd, 40)
    assert sorted(found) == sorted([("ada", b"a%d" % n) for n in range(20)] + [("bea", b"b%d" % n) for n in range(20)])
    assert cyd.recv(0.1) is None
