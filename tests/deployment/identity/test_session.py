"""Hellos and sealed messages: what is genuine comes through once, and every other thing has its own refusal."""

import importlib.util
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployment.identity.parties import DIGEST, RUN, greeted, identity, roster, session
from sottovoce.deployment.identity import Opened, Session, fresh_boot, is_hello, new_run_key, packing, refusals
from sottovoce.deployment.identity.channel import WINDOW
from sottovoce.errors import ConfigError, ProtocolError

NAMES = ("ada", "bea", "cyd")


@pytest.fixture(scope="module")
def shared():
    return greeted(*NAMES)


@pytest.fixture
def fresh():
    return greeted("ada", "bea", "cyd")


def test_a_message_comes_through_as_it_was_sent(shared):
    blob = shared["ada"].seal("bea", "words", 7, b"payload")
    assert shared["bea"].open("ada", blob) == Opened("ada", "words", 7, b"payload")
    assert b"payload" not in blob


def test_two_messages_with_one_content_look_different(shared):
    first, second = (shared["ada"].seal("bea", "words", 7, bytes(50)) for _ in range(2))
    assert first[-66:] != second[-66:]


def test_a_hello_and_a_sealed_message_can_be_told_apart(shared):
    assert is_hello(shared["ada"].hello({}))
    assert not is_hello(shared["ada"].seal("bea", "words", 0, b""))


def test_both_ends_have_one_key_for_masks_and_a_third_party_another(shared):
    key = shared["ada"].pair_key("bea")
    assert key == shared["bea"].pair_key("ada")
    assert len({key, shared["ada"].pair_key("cyd"), shared["bea"].pair_key("cyd")}) == 3


def test_the_key_for_masks_is_the_same_after_a_start_and_another_in_another_run():
    among = roster("ada", "bea")
    keys = {name: new_run_key() for name in ("ada", "bea")}

    def key(**terms):
        one, other = (session(name, among, run_key=keys[name], **terms) for name in ("ada", "bea"))
        one.greet(other.hello({}))
        return one.pair_key("bea")

    assert key() == key()
    assert len({key(), key(run="other"), key(digest=bytes(32))}) == 3


def test_a_message_opens_once(fresh):
    blob = fresh["ada"].seal("bea", "words", 0, b"x")
    fresh["bea"].open("ada", blob)
    with pytest.raises(refusals.Repeated, match="came before"):
        fresh["bea"].open("ada", blob)


@settings(max_examples=25)
@given(st.permutations(range(12)), st.lists(st.integers(0, 11), max_size=12))
def test_messages_may_come_in_any_order_and_again_and_each_is_new_once(order, again):
    sessions = greeted("ada", "bea")
    blobs = [sessions["ada"].seal("bea", "words", position, b"") for position in range(12)]
    opened = []
    for position in [*order, *again, *order]:
        try:
            opened.append(sessions["bea"].open("ada", blobs[position]).position)
        except refusals.Repeated:
            continue
    assert opened == list(order)


def test_what_falls_behind_the_window_counts_as_repeated(fresh):
    early, late = (fresh["ada"].seal("bea", "words", position, b"") for position in (0, 1))
    for _ in range(WINDOW - 1):
        newest = fresh["ada"].seal("bea", "words", 2, b"")
    fresh["bea"].open("ada", newest)
    fresh["bea"].open("ada", late)
    with pytest.raises(refusals.Repeated):
        fresh["bea"].open("ada", early)


@pytest.mark.parametrize("what", ["hello", "sealed"])
def test_any_bit_that_is_changed_makes_it_refused(fresh, what):
    blob = fresh["ada"].hello({"boot": 1}) if what == "hello" else fresh["ada"].seal("bea", "words", 3, b"some words")
    for position in range(len(blob)):
        for bit in range(8):
            changed = bytearray(blob)
            changed[position] ^= 1 << bit
            with pytest.raises(ProtocolError):
                fresh["bea"].greet(bytes(changed)) if what == "hello" else fresh["bea"].open("ada", bytes(changed))
    if what == "hello":
        fresh["bea"].greet(blob)
    else:
        assert fresh["bea"].open("ada", blob).payload == b"some words"  # refusals have changed nothing


@given(st.data())
def test_truncated_and_lengthened_blobs_are_refused(shared, data):
    for blob, take in (
        (shared["ada"].hello({}), shared["bea"].greet),
        (shared["ada"].seal("bea", "words", 3, b"w"), lambda blob: shared["bea"].open("ada", blob)),
    ):
        with pytest.raises(ProtocolError):
            take(blob[: data.draw(st.integers(0, len(blob) - 1))])
        with pytest.raises(ProtocolError):
            take(blob + data.draw(st.binary(min_size=1, max_size=9)))


@given(st.binary(max_size=300), st.sampled_from([b"", b"H\x01", b"S\x01", b"S\x01\x00\x08", b"H\x01\x00\x20"]))
def test_any_bytes_are_refused_and_never_break_anything(shared, tail, head):
    for take in (shared["bea"].greet, lambda blob: shared["bea"].open("ada", blob)):
        with pytest.raises(ProtocolError):
            take(head + tail)


def test_each_reason_has_its_own_refusal(fresh):
    ada, bea, cyd = (fresh[name] for name in NAMES)
    with pytest.raises(refusals.WrongReceiver, match="is for another party than cyd"):
        cyd.open("ada", ada.seal("bea", "words", 0, b""))
    with pytest.raises(refusals.WrongSender, match="came from cyd"):
        bea.open("cyd", ada.seal("bea", "words", 0, b""))
    with pytest.raises(refusals.UnknownParty, match="no 'eve'"):
        bea.open("eve", ada.seal("bea", "words", 0, b"").replace(b"\xa3ada", b"\xa3eve"))
    with pytest.raises(refusals.Malformed, match="version 3"):
        bea.open("ada", b"S\x03" + ada.seal("bea", "words", 0, b"")[2:])
    with pytest.raises(refusals.Oversized, match="at most"):
        bea.greet(b"H\x01" + bytes(5000))
    other = session("ada", roster(*NAMES), run="other")
    other.greet(session("bea", roster(*NAMES), run="other").hello({}))
    with pytest.raises(refusals.WrongRun, match="another run than 'demo'"):
        bea.open("ada", other.seal("bea", "words", 0, b""))
    with pytest.raises(refusals.WrongRun, match="takes part in the run 'other'"):
        bea.greet(other.hello({}))


def test_a_payload_above_the_limit_is_refused():
    among = roster("ada", "bea")
    ada = session("ada", among)
    bea = Session(identity("bea"), among, DIGEST, RUN, new_run_key(), fresh_boot(), largest_payload=100)
    ada.greet(bea.hello({}))
    bea.greet(ada.hello({}))
    with pytest.raises(refusals.Oversized, match="at most 100"):
        bea.open("ada", ada.seal("bea", "words", 0, bytes(5000)))


def test_other_agreements_are_named_in_words():
    among = roster("ada", "bea")
    with pytest.raises(
        refusals.DifferentAgreement, match=r"agreements differ: bea has accepted 0{16} .*, ada has accepted 00010203"
    ):
        session("ada", among).greet(session("bea", among, digest=bytes(32)).hello({}))


def test_other_members_are_named_in_words():
    with pytest.raises(refusals.DifferentRoster, match="know different members"):
        session("ada", roster("ada", "bea")).greet(session("bea", roster(*NAMES)).hello({}))


def test_a_second_run_key_is_refused_and_the_first_stays(fresh):
    again = session("bea", roster(*NAMES))
    with pytest.raises(refusals.Equivocation, match="bea shows a second key"):
        fresh["ada"].greet(again.hello({"boot": 2}))
    assert fresh["bea"].open("ada", fresh["ada"].seal("bea", "words", 0, b"x")).payload == b"x"


def test_a_second_run_key_is_refused_by_a_start_that_remembers():
    among = roster("ada", "bea")
    first, second = session("bea", among), session("bea", among)
    before, now = session("ada", among), session("ada", among)
    before.greet(first.hello({}))
    now.remember(before.run_keys)
    with pytest.raises(refusals.Equivocation):
        now.greet(second.hello({}))
    with pytest.raises(refusals.Equivocation):
        before.remember(second_keys := {"bea": next(iter(_keys(second, among).values()))})
    assert before.run_keys != second_keys


def _keys(of: Session, among):
    listener = session("ada", among)
    listener.greet(of.hello({}))
    return listener.run_keys


def test_nobody_says_hello_for_somebody_else(fresh):
    again = session("bea", roster(*NAMES)).hello({"boot": 9})
    with pytest.raises(refusals.WrongSender, match="cyd handed over the hello of bea"):
        fresh["ada"].greet(again, "cyd")
    assert fresh["ada"].greet(fresh["bea"].hello({"boot": 1}), "bea").party == "bea"


def test_the_own_name_from_elsewhere_is_a_second_process(fresh):
    with pytest.raises(refusals.Equivocation, match="second one runs with the same identity"):
        fresh["ada"].greet(session("ada", roster(*NAMES)).hello({}))


def test_keys_that_everybody_knows_are_refused():
    from sottovoce.deployment.identity.hello import Hello, signed_hello

    among = roster("ada", "bea")
    for weak in (bytes(32), b"\x01" + bytes(31), b"\xff" * 31 + b"\x7f"):
        hello = Hello(RUN, DIGEST, among.digest, "bea", weak, fresh_boot(), {}, b"")
        with pytest.raises(refusals.Malformed):
            session("ada", among).greet(signed_hello(identity("bea"), hello))


def test_a_member_cannot_speak_for_another_one():
    from sottovoce.deployment.identity.hello import Hello, signed_hello

    among = roster(*NAMES)
    key = session("cyd", among)
    public = _keys(key, among)["cyd"]
    hello = Hello(RUN, DIGEST, among.digest, "bea", public, fresh_boot(), {}, b"")
    with pytest.raises(refusals.Forged):
        session("ada", among).greet(signed_hello(identity("cyd"), hello))


class TestStarts:
    """A party that starts again is greeted anew; nothing of its earlier starts opens, and no number is used twice."""

    def started_again(self, count: int = 2):
        among, keys = roster("ada", "bea"), {name: new_run_key() for name in ("ada", "bea")}
        ada = session("ada", among, run_key=keys["ada"])
        starts = [session("bea", among, run_key=keys["bea"]) for _ in range(count)]
        for start in starts:
            start.greet(ada.hello({"boot": 1}))
        return ada, starts

    def test_what_was_sealed_before_is_told_from_a_forgery(self):
        ada, (before, after) = self.started_again()
        ada.greet(before.hello({"boot": 1}))
        blob = before.seal("ada", "words", 0, b"")
        lost = ada.seal("bea", "words", 0, b"")
        ada.greet(after.hello({"boot": 2}))
        with pytest.raises(refusals.OtherBoot):
            ada.open("bea", blob)
        with pytest.raises(refusals.OtherBoot):
            after.open("ada", lost)
        assert after.open("ada", ada.seal("bea", "words", 0, b"again")).payload == b"again"

    def test_an_old_hello_brings_no_number_back(self):
        ada, (before, after) = self.started_again()
        hello = before.hello({})
        ada.greet(hello)
        sealed = {ada.seal("bea", "words", 0, bytes(20))[-36:]}
        old = before.seal("ada", "words", 0, b"")
        ada.open("bea", old)
        ada.greet(after.hello({}))
        ada.greet(hello)
        with pytest.raises(refusals.Repeated):
            ada.open("bea", old)
        sealed.add(ada.seal("bea", "words", 0, bytes(20))[-36:])
        assert len(sealed) == 2

    def test_counted_starts_go_forward_only(self):
        ada, (before, after) = self.started_again()
        ada.greet(before.hello({"boot": 4}))
        with pytest.raises(refusals.Equivocation, match="runs twice"):
            ada.greet(after.hello({"boot": 4}))
        ada.greet(after.hello({"boot": 5}))
        with pytest.raises(refusals.Superseded, match="start number 5"):
            ada.greet(before.hello({"boot": 4}))
        assert ada.greet(after.hello({"boot": 5, "exchange": 9})).counters == {"boot": 5, "exchange": 9}

    def test_a_member_cannot_fill_the_memory_with_starts(self, monkeypatch):
        monkeypatch.setattr("sottovoce.deployment.identity.session._MOST_STARTS", 3)
        ada, starts = self.started_again(4)
        for start in starts[:3]:
            ada.greet(start.hello({}))
        with pytest.raises(refusals.Equivocation, match="started 3 times"):
            ada.greet(starts[3].hello({}))


def test_nothing_is_sealed_before_a_hello():
    ada = session("ada", roster("ada", "bea"))
    for asked in (lambda: ada.seal("bea", "words", 0, b""), lambda: ada.pair_key("bea")):
        with pytest.raises(refusals.NotGreeted, match="has not said hello"):
            asked()
    assert not ada.greeted("bea")
    with pytest.raises(refusals.WrongReceiver):
        ada.seal("ada", "words", 0, b"")


def test_what_is_no_session_is_refused():
    among = roster("ada", "bea")
    for changed in ({"digest": b"short"}, {"run": ""}):
        with pytest.raises(ConfigError):
            session("ada", among, **changed)
    with pytest.raises(ConfigError, match="another key for ada"):
        Session(_impostor(), among, DIGEST, RUN, new_run_key(), fresh_boot())


def _impostor():
    from dataclasses import replace

    return replace(identity("cyd"), name="ada")


@pytest.mark.parametrize(
    "counters", [{"": 1}, {"boot": -1}, {"boot": 2**63}, {"boot": True}, {"n" * 33: 1}, {str(n): n for n in range(17)}]
)
def test_counters_are_few_short_and_whole(fresh, counters):
    with pytest.raises(ConfigError):
        fresh["ada"].hello(counters)


def test_nothing_secret_is_shown(fresh):
    shown = repr(fresh["ada"]) + repr(identity("ada")) + repr(fresh["bea"].greet(fresh["ada"].hello({"boot": 1})))
    secret = identity("ada").signing_key.private_bytes_raw()
    assert secret.hex() not in shown
    assert repr(secret)[2:-1] not in shown
    assert "PRIVATE" not in shown


def test_it_says_what_to_install_where_messagepack_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "msgpack", None)
    again = importlib.util.spec_from_file_location("packing_without_messagepack", packing.__file__)
    with pytest.raises(ConfigError, match=r"pip install 'sottovoce\[deploy\]'"):
        again.loader.exec_module(importlib.util.module_from_spec(again))
