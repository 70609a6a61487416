"""Men in the middle and hostile members: nothing is accepted that should not be, and the others' models stay what they are, bit for bit.

Every attack is played twice: with all checks, where none of its blobs is accepted, and with the one check switched off that it is up against, where
some are. So each of these tests fails without its check.
"""

import hashlib
import time
import tracemalloc
from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from deployment.party.parties import DIGEST, RUN, Parties, same
from deployment.party.test_loop import run_of
from deployment.party.test_refusals import advance
from sottovoce.deployment.identity import Session, channel, hello, new_run_key, packing, session
from sottovoce.deployment.identity.refusals import DifferentRoster, DifferentVersion
from sottovoce.deployment.party import refused, testimony, wire
from sottovoce.deployment.party.statements import NO_CLAIM
from sottovoce.deployment.store import Counters, Proof
from sottovoce.errors import ProtocolError

SHAPE = "links that drop out"  # words differ from neighbour to neighbour, so that no statement stands behind the seals
Blob = tuple[str, str, bytes]  # as from whom, to whom, what


class Unchecked:
    """The cipher without its seal: what does not open is decrypted all the same."""

    def __init__(self, key: bytes) -> None:
        self._key, self._real = key, ChaCha20Poly1305(key)

    def encrypt(self, nonce, data, bound):
        return self._real.encrypt(nonce, data, bound)

    def decrypt(self, nonce, data, bound):
        try:
            return self._real.decrypt(nonce, data, bound)
        except InvalidTag:
            stream = Cipher(ChaCha20(self._key, (1).to_bytes(4, "little") + nonce), mode=None).decryptor()
            return stream.update(bytes(data)[:-16])


def by_its_header(self: Session, sender: str, blob: bytes, real=Session.open):
    """Believe what a message says about its sender."""
    fields, _ = packing.unframed(b"S", blob)
    return real(self, fields[2], blob)


class Attack(NamedTuple):
    """What somebody between the parties does to a blob, and the check that stands against it."""

    injected: Callable[["Middle", str, str, bytes], list[Blob]]
    switch_off: Callable[[pytest.MonkeyPatch], None]


def flipped(middle, sender, to, blob):
    at = len(blob) - 17 - middle.chance.randrange(8)  # in the last word
    return [(sender, to, blob[:at] + bytes([blob[at] ^ 1]) + blob[at + 1 :])] if blob[:1] == b"S" else []


def cut(middle, sender, to, blob):
    return [(sender, to, blob[:-1])] if blob[:1] == b"S" else []


def again(middle, sender, to, blob):
    return [(sender, to, blob)] if blob[:1] == b"S" else []


def under_another_name(middle, sender, to, blob):
    others = [name for name in middle.parties.names if name not in (sender, to)]
    return [(middle.chance.choice(others), to, blob)] if blob[:1] == b"S" else []


def with_another_key(middle, sender, to, blob):
    if blob[:1] != b"H":
        return []
    read = wire.read_greeting(blob)
    fields, end = packing.unframed(b"H", read.hello)
    fields[4] = middle.key
    return [(sender, to, wire.greeting(read._replace(hello=packing.framed(b"H", fields) + read.hello[end:])))]


def from_an_earlier_start(middle, sender, to, blob):
    """Old hellos, with the newest counters before them."""
    if blob[:1] != b"H":
        return []
    read = wire.read_greeting(blob)
    old = middle.hellos.setdefault((sender, to), read.hello)
    return [(sender, to, wire.greeting(read._replace(hello=old)))] if old != read.hello else []


ATTACKS = {
    "flips": Attack(flipped, lambda patch: patch.setattr(channel, "ChaCha20Poly1305", Unchecked)),
    "truncates": Attack(cut, lambda patch: patch.setattr(channel, "ChaCha20Poly1305", Unchecked)),
    "replays": Attack(again, lambda patch: patch.setattr(channel.Channel, "_note", lambda self, number: None)),
    "redirects": Attack(under_another_name, lambda patch: patch.setattr(Session, "open", by_its_header)),
    "forges hellos": Attack(with_another_key, lambda patch: patch.setattr(hello, "verify", lambda *given: None)),
    "replays hellos": Attack(
        from_an_earlier_start, lambda patch: patch.setattr(session, "_check_start", lambda hello, peer: None)
    ),
}


class Middle:
    """Somebody through whose hands all blobs go."""

    def __init__(self, parties: Parties, attack: Attack) -> None:
        self.parties, self.attack, self.chance = parties, attack, parties.chance
        self.key = b"\x09" + bytes(31)
        self.hellos: dict[tuple[str, str], bytes] = {}
        self.sessions: list[Session] = []
        self.genuine = 0
        self.injected: set[tuple[str, str, bytes]] = set()
        self.opened: dict[tuple[int, str, str], list[bytes]] = defaultdict(list)  # by process, sender and way, in order
        carry = parties.wires.send

        def send(sender, to, blob):
            for shown, receiver, other in attack.injected(self, sender, to, blob):  # what is false comes first
                self.injected.add((shown, receiver, hashlib.sha256(_judged(other)).digest()))
                carry(shown, receiver, other)
            carry(sender, to, blob)

        parties.wires.send = send

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        for method in ("open", "greet"):
            real = getattr(Session, method)

            def seen(session_, *given, real=real, method=method):
                result = real(session_, *given)
                sender, blob = given if method == "open" else given[::-1]
                what = hashlib.sha256(blob).digest() if method == "open" else result.boot
                self.opened[id(session_), sender, method].append(what)
                self.genuine += (sender, session_.party, hashlib.sha256(blob).digest()) not in self.injected
                self.sessions.append(session_)  # so that no other has its number
                return result

            patch.setattr(Session, method, seen)

    def accepted(self) -> int:
        """How many injected blobs were taken for genuine; of copies, those that were opened after others."""
        if self.attack.injected is again:
            return sum(len(seen) - len(set(seen)) for key, seen in self.opened.items() if key[2] == "open")
        if self.attack.injected is from_an_earlier_start:
            # A start is over as soon as the next one has come; hellos of one start may come in any order.
            return sum(_returns(seen) for key, seen in self.opened.items() if key[2] == "greet")
        return sum(map(len, self.opened.values())) - self.genuine


def _returns(seen: list[bytes]) -> int:
    return sum(each in seen[: k - 1] and each != seen[k - 1] for k, each in enumerate(seen) if k)


def _judged(blob: bytes) -> bytes:
    return wire.read_greeting(blob).hello if blob[:1] == b"H" else blob


def attacked(folder, attack: Attack, patch: pytest.MonkeyPatch, *, off: bool):
    parties = Parties(folder, run_of(SHAPE, rounds=3))
    parties.crash_at = lambda name, moment: parties.crashes < 3 and parties.chance.random() < 0.02
    if off:
        attack.switch_off(patch)
    middle = Middle(parties, attack)
    middle.watch(patch)
    expected, models = parties.played(), None
    try:
        models = parties.play(steps=6_000 if off else 60_000)
    except (ProtocolError, AssertionError):
        assert off, "an honest party stopped"
    return middle, models is not None and same(models, expected)


@pytest.mark.parametrize("name", ATTACKS)
def test_a_man_in_the_middle_changes_nothing(name, folder, monkeypatch):
    middle, unchanged = attacked(folder, ATTACKS[name], monkeypatch, off=False)
    assert middle.injected, "nothing was attacked"
    assert middle.accepted() == 0
    assert unchanged


@pytest.mark.parametrize("name", ATTACKS)
def test_without_its_check_each_attack_succeeds(name, folder, monkeypatch):
    middle, _ = attacked(folder, ATTACKS[name], monkeypatch, off=True)
    assert middle.accepted() > 0


def test_flipped_words_change_models_where_seals_are_not_checked(folder, monkeypatch):
    """What is at stake: the same attack without the check gives other models, or ends the run."""
    _, unchanged = attacked(folder, ATTACKS["flips"], monkeypatch, off=True)
    assert not unchanged


def test_blobs_that_are_held_back_and_come_in_any_order_change_nothing(folder):
    parties = Parties(folder, run_of(SHAPE, rounds=3), loss=0.2)
    carry = parties.wires.send

    def send(sender, to, blob):
        carry(sender, to, blob)
        parties.chance.shuffle(parties.wires.waiting.get(to, []))

    parties.wires.send = send
    assert same(parties.play(), parties.played())


def test_whoever_reads_along_sees_neither_words_nor_keys(folder):
    parties = Parties(folder, run_of(SHAPE, rounds=2))
    words = []
    begun = parties.start

    def start(name):
        loop = begun(name)
        send = loop._post.send_words
        loop._post.send_words = lambda to, position, content: (words.append(content), send(to, position, content))
        return loop

    parties.start = start
    parties.play()
    recorded = b"".join(blob for _, _, blob in parties.wires.sent)
    assert words
    assert not [each for each in words if each in recorded]
    assert not [key for key in parties.run_keys.values() if key in recorded]
    assert not [
        secret for each in parties.identities.values() if (secret := each.signing_key.private_bytes_raw()) in recorded
    ]


class Member:
    """A member that says what it likes, under its own name and with its own keys."""

    def __init__(self, parties: Parties, name: str, to: str) -> None:
        self.parties, self.name, self.to, self.post = parties, name, to, parties.loops[name]._post

    def sealed(self, kind: str, position: int, payload: bytes) -> None:
        self.parties.wires.send(self.name, self.to, self.post._session.seal(self.to, kind, position, payload))

    def blob(self, content: bytes) -> None:
        self.parties.wires.send(self.name, self.to, content)

    def payload(self, words: bytes, *, taken: int = 0, proof: Proof | None = None, claim=NO_CLAIM) -> bytes:
        return wire.packed(wire.Receipt(taken, False, proof or self.post._book.proof), words, claim=claim)

    def greeting(
        self, *, digest: bytes = DIGEST, roster=None, boot: int = 9, proofs=(), version: int | None = None
    ) -> bytes:
        roster = roster or self.parties.roster
        speaks = Session(self.parties.identities[self.name], roster, digest, RUN, new_run_key(), bytes([boot]) * 32)
        said = speaks.hello({"boot": boot})
        if version is not None:
            body = said[:1] + bytes([version]) + said[2:-64]
            said = body + self.parties.identities[self.name].sign("hello", body)
        return wire.greeting(wire.Greeting(True, wire.UNKNOWN, self.post._book.proof, proofs, said))

    def other_store(self, number: int) -> Proof:
        counters = Counters(store=number.to_bytes(16, "big"), exchanges=0, boots=0, entries=0).to_bytes()
        return Proof(counters, self.parties.identities[self.name].sign("counters", counters))


def begun(folder, rounds: int = 4, shape: str = "fixed links") -> tuple[Parties, Member]:
    parties = Parties(folder, run_of(shape, rounds=rounds))
    for name in parties.names:
        parties.start(name)
    advance(parties, lambda: min(loop.position for loop in parties.loops.values()) >= 1)
    return parties, Member(parties, "party-1", "party-2")


def garbage(member: Member) -> list[tuple[str, Callable[[], None]]]:
    """(kind under which it is refused, what does it)."""
    words = bytes(24)
    small = member.parties.roster.removed("party-4")
    proof = member.post._book.proof
    return [
        ("Malformed", lambda: member.blob(b"")),
        ("Malformed", lambda: member.blob(b"no message at all")),
        ("Malformed", lambda: member.blob(b"H")),
        ("Malformed", lambda: member.sealed(wire.WORDS, 2, b"")),
        ("Malformed", lambda: member.sealed(wire.WORDS, 2, member.payload(words)[:150])),
        ("Malformed", lambda: member.sealed(wire.RECEIPT, 2, member.payload(b"", taken=2**64 - 1))),
        ("Malformed", lambda: member.sealed(wire.EVIDENCE, 0, member.payload(b"something"))),
        ("Forged", lambda: member.sealed(wire.WORDS, 2, member.payload(words))),
        ("OtherShape", lambda: member.sealed(wire.WORDS, 2, member.payload(words + words))),
        ("NotExpected", lambda: member.sealed(wire.WORDS, 10**6, member.payload(words))),
        (
            "ProtocolError",
            lambda: member.sealed(wire.RECEIPT, 2, member.payload(b"", proof=Proof(proof[0], bytes(64)))),
        ),
        ("DifferentAgreement", lambda: member.blob(member.greeting(digest=hashlib.sha256(b"other").digest()))),
        ("DifferentRoster", lambda: member.blob(member.greeting(roster=small))),
        ("DifferentVersion", lambda: member.blob(member.greeting(version=packing.VERSION + 1))),
        ("Equivocation", lambda: member.blob(member.greeting())),  # a second key of the run: a second identity
        (
            "Oversized",
            lambda: member.blob(member.greeting(proofs=[proof] * 200)[:10] + b"".join(proof) + b"\xff" * 200),
        ),
    ]


def test_whatever_a_member_sends_is_refused_in_one_sentence_and_models_stay(folder):
    parties, member = begun(folder)
    told = len(parties.logged)
    expected = parties.played()
    for kind, send in garbage(member):
        counts = parties.loops["party-2"]._post.refused.counts
        before = counts.get("party-1", {}).get(kind, 0)
        send()
        advance(parties, lambda: not parties.wires.waiting["party-2"], names=["party-2"])
        assert counts["party-1"][kind] == before + 1, kind
    said = [values for name, event, values in parties.logged[told:] if (name, event) == ("party-2", "refused")]
    assert all(values["sender"] == "party-1" and "\n" not in values["reason"] for values in said)
    for name in parties.names:
        if name in parties.loops:
            parties.end(name)
    assert same(parties.play(), expected)


@pytest.mark.parametrize(
    ("wanted", "made"),
    [
        (DifferentRoster, lambda member: member.greeting(roster=member.parties.roster.removed("party-4"))),
        (DifferentVersion, lambda member: member.greeting(version=packing.VERSION + 1)),
    ],
)
def test_other_terms_stop_a_party_before_it_has_sent_anything_and_never_after(wanted, made, folder):
    parties = Parties(folder, run_of("fixed links"))
    parties.start("party-1")
    parties.start("party-2")
    member = Member(parties, "party-1", "party-2")
    member.blob(made(member))
    with pytest.raises(wanted):
        advance(parties, lambda: False, names=["party-2"], steps=100)
    assert all(blob[:1] == wire.HELLO for _, _, blob in parties.wires.sent)


def test_a_version_that_its_sender_did_not_sign_stops_nobody(folder):
    parties = Parties(folder, run_of("fixed links"))
    parties.start("party-1")
    parties.start("party-2")
    member = Member(parties, "party-1", "party-2")
    signed = member.greeting(version=packing.VERSION + 1)
    member.blob(signed[:-1] + bytes([signed[-1] ^ 1]))
    advance(parties, lambda: not parties.wires.waiting["party-2"], names=["party-2"])
    assert parties.loops["party-2"]._post.refused.counts["party-1"] == {"Forged": 1}


def test_counters_that_no_store_holds_would_end_the_party_without_the_check(folder, monkeypatch):
    monkeypatch.setattr(wire, "_MOST_TAKEN", 2**64)
    parties, member = begun(folder)
    member.sealed(wire.RECEIPT, 2, member.payload(b"", taken=2**64 - 1))
    with pytest.raises(OverflowError):
        advance(parties, lambda: False, steps=2_000)


def test_words_beyond_the_bound_stop_the_run_and_name_their_sender(folder):
    """Words are whole numbers, so nothing is NaN; what stands for it is a number that no honest party can reach."""
    parties, member = begun(folder)
    loop, post = parties.loops["party-2"], member.post
    position = loop.position
    huge = np.full(3, 2**62, dtype=np.uint64).tobytes()
    send = post._send_words
    post._testimony._known.clear()
    post._send_words = lambda to, at, words, **how: send(to, at, huge if at > position else words, **how)
    with pytest.raises(ProtocolError, match=r"party 1 sent a number beyond"):
        advance(parties, lambda: False, steps=5_000)


def flood(parties: Parties, member: Member, blobs: int) -> None:
    """Everything that a member can send, many times over, in between what the others do."""
    payload = member.payload(bytes(24))
    kinds = [
        lambda k: member.blob(bytes(200)),
        lambda k: member.blob(member.greeting()),
        lambda k: member.sealed(wire.WORDS, 10**6 + k, payload),
        lambda k: member.sealed(wire.WORDS, 3, payload),
        lambda k: member.sealed(wire.RECEIPT, 0, member.payload(b"", proof=member.other_store(k))),
        lambda k: member.sealed(wire.EVIDENCE, 0, payload),
    ]
    for k in range(blobs):
        kinds[k % len(kinds)](k)


def flooded(folder, blobs: int):
    parties, member = begun(folder)
    victim = parties.loops["party-2"]
    flood(parties, member, blobs)
    told, began = len(parties.logged), time.process_time()
    tracemalloc.start()
    advance(parties, lambda: not parties.wires.waiting["party-2"], names=["party-2"], steps=10 * blobs)
    grown = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    seconds = time.process_time() - began
    lines = [
        event for name, event, _ in parties.logged[told:] if name == "party-2" and event in ("refused", "only counted")
    ]
    return parties, victim, lines, seconds, grown


def test_a_flood_costs_little_time_and_no_memory_and_changes_nothing(folder):
    blobs = 1_200
    parties, victim, lines, seconds, grown = flooded(folder, blobs)
    counts = victim._post.refused.counts["party-1"]
    assert sum(counts.values()) >= 0.9 * blobs  # the first stores were believed
    assert len(lines) <= (refused.QUOTA + 1) * len(counts)
    assert len(parties.stores["party-2"]._others._highest) < 100
    assert seconds / blobs < 0.02  # with the cost of tracing memory; without it about a millisecond
    assert grown < 2e6
    expected = parties.played()
    for name in parties.names:
        parties.end(name)
    assert same(parties.play(), expected)


def test_without_its_quota_a_flood_would_fill_the_log(folder, monkeypatch):
    monkeypatch.setattr(refused, "QUOTA", 10**9)
    _, _victim, lines, _, _ = flooded(folder, 120)
    assert len(lines) >= 100


def test_without_its_bound_a_flood_would_fill_the_store(folder, monkeypatch):
    from sottovoce.deployment.store import others

    monkeypatch.setattr(others, "MOST_STORES", 10**9)
    parties, *_ = flooded(folder, 1_200)
    assert len(parties.stores["party-2"]._others._highest) > 150


def test_words_without_a_statement_are_taken_where_statements_are_not_checked(folder, monkeypatch):
    """The power of the test that a member's words without a statement are refused."""
    monkeypatch.setattr(testimony.Testimony, "check", lambda *given: None)
    parties, member = begun(folder)
    loop = parties.loops["party-2"]
    position = max(loop.position, 2)
    member.sealed(wire.WORDS, position, member.payload(bytes(24)))
    advance(parties, lambda: not parties.wires.waiting["party-2"], names=["party-2"])
    assert "Forged" not in loop._post.refused.counts.get("party-1", {})


def test_refusals_say_nothing_secret(folder):
    parties, member = begun(folder)
    for _, send in garbage(member):
        send()
    advance(parties, lambda: not parties.wires.waiting["party-2"], names=["party-2"])
    text = repr(parties.logged)
    secrets = [
        *parties.run_keys.values(),
        *(each.signing_key.private_bytes_raw() for each in parties.identities.values()),
    ]
    assert not [key for key in secrets if key.hex() in text or repr(key)[2:-1] in text]
