"""A store that was put back from a copy is noticed by those who met it before."""

import itertools
import shutil

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from deployment.store.stores import DIGEST, begun, committed, made
from sottovoce.deployment.store import Counters, Proof, RestoredBackup, Store
from sottovoce.errors import ProtocolError

OURS, THEIRS = (Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in (1, 2))
OUR_KEY, THEIR_KEY = (key.public_key().public_bytes_raw() for key in (OURS, THEIRS))


def signed(key, counters):
    content = counters.to_bytes()
    return Proof(content, key.sign(b"sottovoce/counters/1\0" + content))


def counters(exchanges, boots=1, entries=1, store=b"s" * 16):
    return Counters(store=store, exchanges=exchanges, boots=boots, entries=entries)


@pytest.fixture
def peer(tmp_path):
    (tmp_path / "peer").mkdir()
    with Store.open(made(tmp_path / "peer")) as store:
        yield store


def test_counters_come_back_as_they_were():
    given = counters(5, 2**40, 3)
    assert Counters.from_bytes(given.to_bytes()) == given
    for content in (b"", given.to_bytes()[:-1], given.to_bytes() + b"x", b"x" + given.to_bytes()[1:]):
        with pytest.raises(ProtocolError, match="not the counters"):
            Counters.from_bytes(content)


@pytest.mark.parametrize("smaller", [counters(4, 2, 2), counters(5, 1, 2), counters(5, 2, 1), counters(9, 1, 9)])
def test_a_peer_that_shows_less_than_before_is_refused(peer, smaller):
    peer.seen(THEIR_KEY, *signed(THEIRS, counters(5, 2, 2)))
    with pytest.raises(RestoredBackup, match="signed 5 exchanges"):
        peer.seen(THEIR_KEY, *signed(THEIRS, smaller))
    for same_or_more in (counters(5, 2, 2), counters(5, 3, 2), counters(6, 3, 3)):
        peer.seen(THEIR_KEY, *signed(THEIRS, same_or_more))


def test_what_was_seen_is_remembered_over_runs_and_restarts(tmp_path):
    path = made(tmp_path)
    with Store.open(path) as store:
        store.seen(THEIR_KEY, *signed(THEIRS, counters(5)))
    with Store.open(path) as store:
        begun(store)
        with pytest.raises(RestoredBackup):
            store.seen(THEIR_KEY, *signed(THEIRS, counters(4)))
        assert store.highest(THEIR_KEY) == (signed(THEIRS, counters(5)),)


def test_a_message_that_was_overtaken_is_no_restored_backup(peer):
    peer.noted(THEIR_KEY, *signed(THEIRS, counters(5)))
    peer.noted(THEIR_KEY, *signed(THEIRS, counters(4)))
    assert peer.highest(THEIR_KEY) == (signed(THEIRS, counters(5)),)
    with pytest.raises(RestoredBackup):
        peer.seen(THEIR_KEY, *signed(THEIRS, counters(4)))


def test_counters_of_two_data_sets_of_one_identity_are_two_stories(peer):
    peer.seen(THEIR_KEY, *signed(THEIRS, counters(50, store=b"a" * 16)))
    peer.seen(THEIR_KEY, *signed(THEIRS, counters(3, store=b"b" * 16)))
    assert len(peer.highest(THEIR_KEY)) == 2
    assert peer.highest(OUR_KEY) == ()


def test_counters_that_somebody_else_signed_are_refused(peer):
    for proof in (
        signed(OURS, counters(5)),
        Proof(counters(5).to_bytes(), bytes(64)),
        Proof(counters(5).to_bytes(), b""),
    ):
        for take in (peer.seen, peer.noted):
            with pytest.raises(ProtocolError, match="did not sign"):
                take(THEIR_KEY, *proof)
    assert peer.highest(THEIR_KEY) == ()


def test_a_restored_store_learns_from_its_own_signature_that_it_sent_more(tmp_path, peer):
    """The story of a backup: copied between two runs, put back after more was sent, with its lock file gone too."""
    path = made(tmp_path, "ours.ledger")
    with Store.open(path) as ours:
        begun(ours)
        peer.seen(OUR_KEY, *signed(OURS, ours.counters()))
    shutil.copy(path, tmp_path / "copy")
    with Store.open(path) as ours:
        ours.check_not_behind(OUR_KEY, peer.highest(OUR_KEY))
        ours.boot(DIGEST)
        peer.noted(OUR_KEY, *signed(OURS, committed(ours, 0)))
        ours.check_not_behind(OUR_KEY, peer.highest(OUR_KEY))
    shutil.copy(tmp_path / "copy", path)
    path.chmod(0o600)
    path.with_name(path.name + ".lock").unlink()
    with Store.open(path) as ours:
        with pytest.raises(RestoredBackup, match="our own signature"):
            ours.check_not_behind(OUR_KEY, peer.highest(OUR_KEY))
        with pytest.raises(RestoredBackup):
            peer.seen(OUR_KEY, *signed(OURS, ours.counters()))


def test_a_peers_word_alone_stops_nobody(tmp_path):
    with Store.open(made(tmp_path)) as ours:
        more = counters(999, store=ours.counters().store)
        ours.check_not_behind(OUR_KEY, [signed(THEIRS, more), Proof(more.to_bytes(), bytes(64)), Proof(b"", b"")])
        with pytest.raises(RestoredBackup):
            ours.check_not_behind(OUR_KEY, [signed(OURS, more)])


def test_counters_only_grow(tmp_path):
    with Store.open(made(tmp_path)) as store:
        shown = [store.counters()]
        for act in (
            lambda: begun(store),
            lambda: store.boot(DIGEST),
            lambda: committed(store, 0),
            lambda: committed(store, 1),
        ):
            act()
            shown.append(store.counters())
        assert all(
            later.behind(earlier) is False and earlier.behind(later) for earlier, later in itertools.pairwise(shown)
        )
