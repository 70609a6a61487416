"""A relay that is gone, comes back, lies or is slow, as parties meet it."""

import asyncio
import contextlib
import dataclasses
import importlib.util
import logging
import os
import sys
import time

import pytest

from deployment.relays import Relay
from deployment.transports.test_direct import issued
from deployment.transports.test_relay_members import as_member, certified, without_permissions, words
from sottovoce.deployment.identity import new_identity, renew_identity
from sottovoce.deployment.relays import configuration, connection, look_at_mailboxes, mailboxes, opening
from sottovoce.deployment.transports import NatsTransport, arriving, leaving, line
from sottovoce.deployment.transports.cover import Cover
from sottovoce.deployment.transports.parts import cut
from sottovoce.errors import ConfigError

NAMES = ("ada", "bea", "cyd")


@pytest.fixture(scope="module")
def shared(parties, tmp_path_factory):
    with Relay(tmp_path_factory.mktemp("relay"), parties[1]) as relay:
        yield relay


@pytest.fixture
def own(parties, tmp_path):
    """A relay that a test may kill."""
    with Relay(tmp_path / "relay", parties[1]) as relay:
        yield relay


@pytest.fixture
def opened(parties):
    identities, roster = parties
    running = []

    def open_(name: str, address, **options) -> NatsTransport:
        transport = NatsTransport(identities[name], roster, address, **options)
        transport.open()
        running.append(transport)
        return transport

    yield open_
    for each in running:
        each.close()


def until(true, seconds: float = 8.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def next_after(transport: NatsTransport, taken: bytes) -> bytes:
    """The next blob that is not the one already taken, which a relay killed before it had heard so delivers a second time."""
    blob = transport.recv(5).blob
    return transport.recv(5).blob if blob == taken else blob


def waiting(relay: Relay, name: str) -> int:
    return look_at_mailboxes(relay.folder).waiting[name]


@pytest.mark.parametrize("keep_disk", [True, False])
def test_a_relay_that_was_killed_is_found_again(own, opened, keep_disk):
    ada, bea = opened("ada", own.address), opened("bea", own.address)
    ada.send("bea", b"before")
    bea.recv(5).done()
    own.kill()
    until(lambda: ada.trouble("bea"))
    assert "relay" in ada.trouble("bea")
    ada.send("bea", b"meanwhile")
    until(lambda: ada.busy("bea"))
    assert not ada.busy("cyd")
    own.start(keep_disk=keep_disk)
    assert next_after(bea, b"before") == b"meanwhile"
    until(lambda: not ada.trouble("bea"))
    until(lambda: not ada.busy("bea"))


def test_a_message_that_is_never_confirmed_keeps_nobody_from_sending_for_ever(parties, monkeypatch):
    identities, roster = parties
    covers = {"bea": Cover(identities["ada"], roster["bea"])}
    published = []

    async def publish(to: str, content: bytes, number: int) -> None:
        published.append(number)

    async def play() -> None:
        queue = leaving.Leaving(covers, 10**6, 10**5)
        sending = asyncio.ensure_future(queue.run(publish))
        queue.put("bea", b"words")
        assert queue.busy("bea")
        await asyncio.sleep(0.05)
        assert len(published) == 1
        assert queue.busy("bea")
        queue.confirmed(published[0], "")
        assert not queue.busy("bea")
        assert 0.0 < queue.answers_within < 1.0
        queue.put("bea", b"more")
        await asyncio.sleep(0.05)
        assert queue.busy("bea")
        monkeypatch.setattr(leaving, "_BUSY", 0.01)
        assert not queue.busy("bea")
        sending.cancel()

    asyncio.run(play())


@pytest.mark.slow
def test_a_relay_that_hangs_is_given_up_and_found_again(own, opened):
    ada, bea = opened("ada", own.address), opened("bea", own.address)
    own.pause()
    try:
        ada.send("bea", b"meanwhile")
        until(lambda: "does not answer" in bea.trouble("ada"), 20.0)
    finally:
        own.resume()
    assert bea.recv(10).blob == b"meanwhile"


@pytest.mark.slow
def test_what_a_party_without_a_connection_is_sent_waits_at_the_relay(own, opened):
    """Both ends lose the relay; one of them, and what it sends, comes back first."""
    ada, bea = opened("ada", own.address), opened("bea", own.address)
    bea._thread.loop.call_soon_threadsafe(lambda: setattr(bea._line, "_relay", dataclasses.replace(own.address, address="127.0.0.1:1")))  # fmt: skip
    until(lambda: waiting(own, "bea") == 0)  # it has acknowledged its message to itself
    own.kill()
    own.start()
    until(lambda: not ada.trouble("bea"))
    ada.send("bea", b"kept")
    until(lambda: waiting(own, "bea") == 1)
    time.sleep(0.3)  # in which the server writes it
    own.kill()
    own.start()  # and the message is still there
    bea._thread.loop.call_soon_threadsafe(lambda: setattr(bea._line, "_relay", own.address))
    assert bea.recv(8).blob == b"kept"


def test_the_relay_keeps_a_message_until_it_is_done(shared, opened):
    ada, bea = opened("ada", shared.address), opened("bea", shared.address)
    ada.send("bea", os.urandom(3 * 2**20))
    delivery = bea.recv(5)
    assert waiting(shared, "bea") == 4  # parts
    time.sleep(0.1)
    assert waiting(shared, "bea") == 4
    delivery.done()
    until(lambda: waiting(shared, "bea") == 0)
    bea.close()
    delivery.done()  # after the end nothing happens


def test_a_message_that_comes_again_while_it_is_held_is_not_taken_twice(parties, tmp_path, opened, monkeypatch):
    monkeypatch.setattr(opening, "ACKNOWLEDGED_WITHIN", 0.3)
    with Relay(tmp_path / "relay", parties[1]) as relay:
        ada, bea = opened("ada", relay.address), opened("bea", relay.address)
        ada.send("bea", b"once")
        delivery = bea.recv(5)
        assert bea.recv(1.0) is None  # delivered again three times meanwhile
        assert waiting(relay, "bea") == 1  # and not acknowledged by that
        delivery.done()
        until(lambda: waiting(relay, "bea") == 0)
        # Without the comparison it is taken again and again.
        ada.send("bea", b"twice")
        bea.recv(5)
        bea._thread.loop.call_soon_threadsafe(bea._arriving._held["ada"].clear)
        bea._thread.loop.call_soon_threadsafe(bea._arriving._assemblies["ada"]._closed.clear)
        again = bea.recv(2)
        assert again.blob == b"twice"
        again.done()
        bea.close(), ada.close()


@pytest.mark.slow
def test_signs_of_work_keep_the_relay_from_delivering_again(parties, tmp_path, opened, monkeypatch):
    monkeypatch.setattr(opening, "ACKNOWLEDGED_WITHIN", 0.3)

    def deliveries(relay, progress: float) -> int:
        monkeypatch.setattr(line, "_PROGRESS", progress)
        bea = opened("bea", relay.address)
        ada = opened("ada", relay.address)
        counted = []
        take = bea._arriving.take
        bea._arriving.take = lambda *given: (counted.append(given), take(*given))
        ada.send("bea", b"held")
        delivery = bea.recv(5)
        time.sleep(0.9)
        delivery.done()
        ada.close(), bea.close()
        return len(counted)

    with Relay(tmp_path / "relay", parties[1]) as relay:
        assert deliveries(relay, 0.1) == 1
        assert deliveries(relay, 99.0) > 1


def test_a_start_leaves_unread_what_was_sent_to_an_earlier_one(own, opened):
    ada = opened("ada", own.address)
    bea = opened("bea", own.address)
    bea.close()
    for _ in range(5):
        ada.send("bea", b"for an earlier start")
    until(lambda: waiting(own, "bea") == 5)
    bea = opened("bea", own.address)
    ada.send("bea", b"for this start")
    delivery = bea.recv(5)
    assert delivery.blob == b"for this start"
    delivery.done()
    until(lambda: waiting(own, "bea") == 0)
    bea._line._begun = False  # a start that has not begun reads nothing
    ada.send("bea", b"early")
    assert bea.recv(0.3) is None


def test_a_relay_with_another_certificate_is_refused(shared, parties, opened, tmp_path):
    _, roster = parties
    other = configuration.configured(roster, shared.address.address, tmp_path / "other").relay
    ada = opened("ada", other)
    assert "another certificate" in ada.trouble("bea")
    ada.close()
    assert waiting(shared, "bea") == 0


def test_a_certificate_that_the_relays_own_has_issued_is_refused(parties, opened, tmp_path, monkeypatch):
    """Chains lead to the relay's certificate; only the comparison keeps the impostor out."""
    identities, roster = parties
    authority = certified(identities["ada"], authority=True)
    relay = Relay(tmp_path / "relay", roster)
    secret, chain = issued(authority, identities["bea"], authority=False)
    (relay.folder / "relay.key").write_bytes(secret)
    (relay.folder / "relay.pem").write_bytes(chain)
    relay.start(mailboxes=False)
    with contextlib.closing(contextlib.ExitStack()) as stack:
        stack.callback(relay.kill)
        pinned = dataclasses.replace(relay.address, certificate=authority.certificate)
        refused = opened("ada", pinned)
        assert "another certificate" in refused.trouble("bea")
        monkeypatch.setattr(connection, "shown_certificate", lambda client: authority.certificate)
        let_in = opened("bea", pinned)
        until(lambda: "no mailbox" in let_in.trouble("ada"))


def test_a_server_without_tls_is_refused(parties, opened, tmp_path):
    def without_tls(text: str) -> str:
        return without_permissions(text).replace('"verify_and_map": true', '"verify": false')

    _, roster = parties
    relay = Relay(tmp_path / "relay", roster)
    port = relay.address.address.rpartition(":")[2]
    (relay.folder / "nats.conf").write_text(f'listen: "127.0.0.1:{port}"\n')
    relay.start(mailboxes=False)
    try:
        ada = opened("ada", relay.address)
        assert "another certificate" in ada.trouble("bea")
        ada.send("bea", b"nobody reads this")
        time.sleep(0.3)
        assert "another certificate" in ada.trouble("bea")
    finally:
        relay.kill()


@pytest.mark.slow
def test_a_relay_without_mailboxes_says_so_and_is_used_as_soon_as_it_has_them(parties, opened, tmp_path):
    relay = Relay(tmp_path / "relay", parties[1])
    relay.start(mailboxes=False)
    try:
        ada, bea = opened("ada", relay.address), opened("bea", relay.address)
        ada.send("bea", b"lost")
        until(lambda: "sottovoce relay open" in ada.trouble("bea"))
        opening.open_mailboxes(relay.folder)
        deadline, found = time.monotonic() + 8, None
        while found is None and time.monotonic() < deadline:
            ada.send("bea", b"found")
            found = bea.recv(0.2)
        assert found.blob in (b"lost", b"found")
        until(lambda: not ada.trouble("bea"))
    finally:
        for each in (ada, bea):
            each.close()
        relay.kill()


def test_mail_of_others_that_is_pushed_to_a_party_is_not_taken(shared, parties, opened):
    """A member may have its own mail delivered wherever it likes; the subject still says whose mailbox it is from."""
    identities, _ = parties
    ada, bea = opened("ada", shared.address), opened("bea", shared.address)
    cyd, inbox = identities["cyd"], bea._line._inbox
    ada.send("cyd", b"for cyd")
    until(lambda: waiting(shared, "cyd") == 1)

    async def push(client):
        await client.publish(mailboxes.next_messages(mailboxes.token(cyd.public_key)), b"1", reply=f"{inbox}.m.1")
        await client.flush(1)

    as_member(shared, cyd, push)
    assert bea.recv(0.3) is None
    assert bea.trouble("ada") == ""  # who has nothing to do with it
    ada.send("bea", b"for bea")
    assert bea.recv(5).blob == b"for bea"


def test_a_flood_of_one_member_is_dropped_and_takes_no_room_of_others(shared, parties, opened, monkeypatch):
    monkeypatch.setattr(arriving, "MOST_HELD", 50)
    identities, roster = parties
    bea, cyd = opened("bea", shared.address, max_blob=100_000), opened("cyd", shared.address)
    subject = words("sv.BEA.ADA", identities)

    cover = Cover(identities["ada"], roster["bea"])

    async def flood(client):
        for number in range(400):
            parts = cut(bytes(9000), 5000)
            await client.publish(subject, cover.sealed(next(parts)) if number % 2 else b"garbage")
        for _ in range(200):
            await client.publish(subject, cover.sealed(next(cut(b"", 5000))))
        await client.flush(5)

    as_member(shared, identities["ada"], flood)
    cyd.send("bea", b"heard")
    until(lambda: bea._inbox.waiting_bytes("cyd"))
    assert len(bea._arriving._held["ada"]) <= 50
    assert bea._arriving._assemblies["ada"].size <= 100_000 + 4 * 256
    assert bea.trouble("ada")
    found = [bea.recv(1), bea.recv(1)]
    assert ("cyd", b"heard") in [(each.sender, each.blob) for each in found]  # each has its turn
    while (each := bea.recv(0.2)) is not None:
        each.done()
    for each in found:
        each.done()


def test_a_party_that_reads_nothing_for_a_while_loses_nothing_that_fits(shared, opened):
    ada, bea = opened("ada", shared.address), opened("bea", shared.address)
    blobs = [os.urandom(200_000) for _ in range(100)]
    for blob in blobs:
        ada.send("bea", blob)
    until(lambda: ada._leaving.idle)
    time.sleep(0.2)
    found = []
    for _ in blobs:
        delivery = bea.recv(5)
        delivery.done()
        found.append(delivery.blob)
    assert found == blobs
    until(lambda: waiting(shared, "bea") == 0)


def test_what_waits_for_a_relay_that_is_gone_stays_bounded(parties, opened, tmp_path):
    relay = Relay(tmp_path / "relay", parties[1])
    ada = opened("ada", relay.address, max_blob=10_000)
    for number in range(500):
        ada.send("bea", b"%4d" % number + bytes(1000))
    until(lambda: list(ada._leaving._waiting["bea"]) and list(ada._leaving._waiting["bea"])[-1][:4] == b" 499")
    assert sum(map(len, ada._leaving._waiting["bea"])) <= 10_000
    start = time.monotonic()
    ada.close()
    assert time.monotonic() - start < 1.0


@pytest.mark.slow
def test_nothing_of_the_library_is_written_on_the_terminal(own, opened, capfd, caplog):
    with caplog.at_level(logging.WARNING):
        ada, bea = opened("ada", own.address), opened("bea", own.address)
        own.kill()
        until(lambda: "reached" in ada.trouble("bea"))
        own.start(keep_disk=False)
        ada.send("bea", b"again")
        bea.recv(5).done()
        ada.close(), bea.close()
    assert capfd.readouterr().err == ""
    assert [record.getMessage() for record in caplog.records] == []


def test_an_answer_that_does_not_end_is_given_up():
    async def play():
        reader = connection._Bounded(None, 10_000)
        await reader.parse(b"MSG sv.a.b 1 9000\r\n" + bytes(5000))
        with pytest.raises(connection.ProtocolError):
            await reader.parse(bytes(3000) + b"x" * 8000)
        for beginning in (b"MSG sv.a.b 1 99999999999\r\n", b"INFO {" + b"x" * 20_000):
            reader = connection._Bounded(None, 10_000)
            with pytest.raises(connection.ProtocolError):
                await reader.parse(beginning)

    with contextlib.suppress(AttributeError):  # there is nobody to hand a message to
        asyncio.run(play())


@pytest.mark.parametrize("covered", [True, False])
def test_what_lies_on_the_relays_disk_cannot_be_read(own, opened, monkeypatch, covered):
    if not covered:
        monkeypatch.setattr(Cover, "sealed", lambda self, content, size=0: content)
        monkeypatch.setattr(Cover, "opened", lambda self, message: message)
    ada, bea = opened("ada", own.address), opened("bea", own.address)
    secret = os.urandom(3000)
    ada.send("bea", b"greetings from ada" + secret)
    assert secret in bea.recv(5).blob
    time.sleep(0.3)
    own.kill()
    disk = b"".join(path.read_bytes() for path in own.store.rglob("*") if path.is_file())
    assert len(disk) > len(secret)
    assert (secret in disk, b"greetings from" in disk) == (not covered, not covered)


def test_a_renewed_certificate_has_to_be_in_the_roster(shared, parties, tmp_path):
    _, roster = parties
    folder = tmp_path / "keys"
    eve = new_identity("eve", folder, "127.0.0.1:7999")
    full = roster.added(eve.entry())
    renewed = renew_identity("eve", folder)
    with pytest.raises(ConfigError, match="another certificate of eve"):
        NatsTransport(renewed, full, shared.address)
    assert "closed" in repr(NatsTransport(renewed, full.replaced(renewed.entry()), shared.address))


def test_it_says_what_to_install_where_nats_is_missing(monkeypatch):
    for name in ("nats", "nats.aio", "nats.aio.client"):
        monkeypatch.setitem(sys.modules, name, None)
    again = importlib.util.spec_from_file_location("connection_without_nats", connection.__file__)
    with pytest.raises(ConfigError, match=r"pip install 'sottovoce\[deploy\]'"):
        again.loader.exec_module(importlib.util.module_from_spec(again))
