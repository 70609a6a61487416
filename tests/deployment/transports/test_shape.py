"""Messages of one size at fixed times: what the relay sees does not depend on what is sent."""

import asyncio
import os
import threading
import time

import pytest

from deployment.relays import Relay
from deployment.transports.test_relay_members import as_member, without_permissions
from sottovoce.deployment.relays import mailboxes
from sottovoce.deployment.transports import NatsTransport, Shape, read_shape
from sottovoce.deployment.transports.cover import BESIDE, Cover
from sottovoce.deployment.transports.parts import HEADER
from sottovoce.errors import ConfigError, ProtocolError

NAMES = ("ada", "bea", "cyd", "eye")
SHAPE = Shape(2000, 0.04)


@pytest.fixture(scope="module")
def relay(parties, tmp_path_factory):
    """One whose members may listen to everything, so that a test sees what the relay sees."""
    with Relay(tmp_path_factory.mktemp("relay"), parties[1], change=without_permissions) as running:
        yield running


class Watched:
    """All that is published at the relay while something is played: (subject, bytes)."""

    def __init__(self, relay: Relay, eye) -> None:
        self.seen: list[tuple[str, bytes]] = []
        self._ready, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=as_member, args=(relay, eye, self._watch))

    async def _watch(self, client) -> None:
        async def keep(message) -> None:
            self.seen.append((message.subject, message.data))

        for subject in ("sv.*.*", "$JS.ACK.>"):
            await client.subscribe(subject, cb=keep)
        await client.flush(1)
        self._ready.set()
        while not self._over.is_set():
            await asyncio.sleep(0.02)
        await client.flush(1)

    def __enter__(self) -> "Watched":
        self._thread.start()
        assert self._ready.wait(5)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def published(watched: Watched, sender) -> list[tuple[str, bytes]]:
    token = mailboxes.token(sender.public_key)
    mine = [(subject, data) for subject, data in watched.seen if subject.startswith("sv.") and subject.endswith(token)]
    return [(subject.split(".")[1], data) for subject, data in mine]


def watched_run(relay, parties, blobs) -> tuple[list[tuple[str, bytes]], int, float, list[bytes]]:
    """What ada publishes in a second in which it sends blobs to bea, the acknowledgements of bea, the seconds, and what bea gets."""
    identities, roster = parties
    with Watched(relay, identities["eye"]) as watched:
        ada, bea = (NatsTransport(identities[name], roster, relay.address, shape=SHAPE) for name in ("ada", "bea"))
        bea.open()
        began = time.monotonic()
        ada.open()
        for blob in blobs:
            ada.send("bea", blob)
        got = []
        while time.monotonic() - began < 1.0 or (len(got) < len(blobs) and time.monotonic() - began < 10.0):
            delivery = bea.recv(0.05)
            if delivery is not None:
                got.append(delivery.blob)  # and `done` is never called
        lasted = time.monotonic() - began
        seen = published(watched, identities["ada"])
        box = mailboxes.mailbox(mailboxes.token(identities["bea"].public_key))
        acknowledged = sum(subject.startswith(f"$JS.ACK.{box}.") for subject, _ in watched.seen)
        ada.close(), bea.close()
    return seen, acknowledged, lasted, got


def test_the_relay_sees_the_same_whether_much_is_sent_or_nothing(relay, parties):
    identities, _ = parties
    tokens = [mailboxes.token(identities[name].public_key) for name in NAMES if name != "ada"]
    secret = b"this is in no message" * 3
    for blobs in ([], [secret, os.urandom(9000), b"", secret * 50]):
        seen, acknowledged, lasted, got = watched_run(relay, parties, blobs)
        assert got == blobs
        assert {len(data) for _, data in seen} == {SHAPE.size}
        beats = [to for to, _ in seen if to in tokens]
        assert len(seen) == len(beats) + 1  # the message to oneself at the beginning
        assert beats == (tokens * len(beats))[: len(beats)]  # one to everybody in turn, and never two
        # A beat every so many seconds and no more; on a busy machine some are late.
        assert 0.2 * 3 * lasted / SHAPE.seconds < len(beats) <= 3 * (lasted / SHAPE.seconds + 2)
        assert all(b"in no message" not in data and bytes(16) not in data for _, data in seen)
        assert len({data for _, data in seen}) == len(seen)
        # Acknowledged at once: nothing was called done, and dummies cannot be told from the rest.
        assert acknowledged == pytest.approx(beats.count(tokens[0]), abs=4)


def test_only_the_other_party_opens_a_cover(parties):
    identities, roster = parties
    sealed = Cover(identities["ada"], roster["bea"]).sealed(b"content", 500)
    assert len(sealed) == 500
    assert len(Cover(identities["ada"], roster["bea"]).sealed(b"content")) == BESIDE + 7
    for content in (b"content", b"", bytes(2000)):
        sent = Cover(identities["ada"], roster["bea"]).sealed(content, 500)
        assert Cover(identities["bea"], roster["ada"]).opened(sent) == content
    for who, from_ in (("cyd", "ada"), ("ada", "bea"), ("bea", "cyd")):
        with pytest.raises(ProtocolError, match="does not open"):
            Cover(identities[who], roster[from_]).opened(sealed)
    for wrong in (b"", sealed[:20], sealed[:-1] + bytes([sealed[-1] ^ 1])):
        with pytest.raises(ProtocolError, match="does not open"):
            Cover(identities["bea"], roster["ada"]).opened(wrong)
    assert HEADER + BESIDE + 64 < 256


@pytest.mark.parametrize(
    "shape", [Shape(255, 1.0), Shape(2**20 + 1, 1.0), Shape(1000, 0.001), Shape(1000, float("inf"))]
)
def test_a_shape_that_cannot_be_kept_is_refused(relay, parties, shape):
    identities, roster = parties
    with pytest.raises(ConfigError, match="cannot be sent"):
        NatsTransport(identities["ada"], roster, relay.address, shape=shape)


def test_a_shape_is_read_from_a_text():
    assert read_shape("90000/0.1") == Shape(90000, 0.1)
    for text in ("", "90000", "a/b", "1/2/3"):
        with pytest.raises(ConfigError, match="BYTES/SECONDS"):
            read_shape(text)
