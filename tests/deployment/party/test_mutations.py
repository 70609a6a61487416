"""Mutated envelopes and agreements: never anything but the documented refusals, no traceback, no changed state.

The seed is in the name of each test. The fast suite plays 500 mutations, the slow one 5,000.
"""

import contextlib
import random

import numpy as np
import pytest

from deployment.gopa.rounds import RUN as GOPA_RUN
from deployment.gopa.rounds import identity as gopa_identity
from deployment.gopa.rounds import public as gopa_key
from deployment.gopa.rounds import terms as gopa_terms
from deployment.party.test_equivocation import statement
from deployment.party.test_hostile import Member, begun
from deployment.terms.agreements import agreement
from sottovoce.deployment.gopa import Kind, Message, Transcript
from sottovoce.deployment.gopa.messages import seal
from sottovoce.deployment.gopa_parties import wire as gopa_wire
from sottovoce.deployment.identity import load_roster
from sottovoce.deployment.party import passing, statements, wire
from sottovoce.deployment.party.evidence import parse_evidence
from sottovoce.deployment.terms import Agreement
from sottovoce.errors import CheatingProven, ConfigError, ProtocolError

SEED = 20261118
EXTREMES = [bytes(8), b"\xff" * 8, b"\x80" + bytes(7), bytes(7) + b"\x80", b"\xff" * 7 + b"\x7f"]


def mutated(chance: random.Random, content: bytes, other: bytes) -> bytes:
    """One to three changes: bits, bytes, numbers, pieces taken out, put in, doubled, exchanged, cut off."""
    found = bytearray(content)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(found) + 1)
        end = min(len(found), at + chance.choice([1, 2, 8, 32, 100]))
        change = chance.randrange(8)
        if change == 0 and at < len(found):
            found[at] ^= 1 << chance.randrange(8)
        elif change == 1 and at < len(found):
            found[at] = chance.randrange(256)
        elif change == 2:
            found[at : at + 8] = chance.choice(EXTREMES)
        elif change == 3:
            del found[at:end]
        elif change == 4:
            found[at:at] = chance.randbytes(chance.choice([1, 4, 64, 300]))
        elif change == 5:
            found[at:at] = found[at:end]
        elif change == 6:
            found[at:end] = other[at:end]
        else:
            del found[at:]
    return bytes(found)


def stands(parties, name: str):
    """All that a message may not change by itself: where a party is, what it holds, what it has taken in and written down."""
    loop = parties.loops[name]
    words = {sender: sorted(kept) for sender, kept in loop._inbox._words.items() if kept}
    return loop.position, loop.phase, loop._state.tobytes(), words, loop._book.taken, parties.stores[name].counters()


class Played:
    """A run in the middle, and its blobs."""

    def __init__(self, folder, chance: random.Random) -> None:
        self.chance = chance
        self.parties, self.member = begun(folder)
        self.sent = [(s, t, b) for s, t, b in self.parties.wires.sent if t == "party-2" and s == "party-1"]
        one, two = (statement(self.parties, 0, 0, words) for words in (b"a", b"b"))
        self.pair = statements.packed([one, two])
        self.good = self.member.payload(bytes(24))
        known = self.parties.loops["party-2"]._post._testimony._known
        bundle = passing.Bundle(0, 0, 0, [each.statement for each in known.values()])
        receipt = wire.Receipt(0, False, self.member.post._book.proof)
        self.with_statements = wire.packed(receipt, bytes(24), bundle)
        self.roster = self.parties.folder / "roster.json"
        self.parties.roster.save(self.roster)
        self.agreed = agreement().canonical()
        self.transcript = Transcript(gopa_terms(3))
        message = Message(
            kind=Kind.REGISTER, run=GOPA_RUN, round_number=3, sender=gopa_key(0), reference=self.transcript.opened, payload=bytes(range(32))
        )  # fmt: skip
        self.gopa = seal(message, gopa_identity(0))
        self.asking = gopa_wire.asking(gopa_wire.Asked(bytes(32), 3, receipt.proof))
        self.showing = gopa_wire.showing(gopa_wire.Shown(bytes(32), 0, 1, [receipt.proof], [self.gopa]))

    def delivered(self, *blobs: bytes) -> None:
        """Let party-2 take in blobs of party-1 while everybody else waits."""
        before = stands(self.parties, "party-2")
        self.parties.wires.waiting["party-2"].clear()
        for blob in blobs:
            self.parties.wires.send("party-1", "party-2", blob)
        while self.parties.wires.waiting["party-2"]:
            self.parties.loops["party-2"].advance(0.0)
        assert stands(self.parties, "party-2") == before

    def envelope(self) -> None:
        """A blob that was changed on its way."""
        (_, _, one), (_, _, two) = self.chance.choices(self.sent, k=2)
        blob = mutated(self.chance, one, two)
        if blob not in (one, two):  # a change can leave everything as it was
            self.delivered(blob)

    def inside(self) -> None:
        """A member seals something that is not what it should be."""
        payload = mutated(self.chance, self.chance.choice([self.good, self.with_statements]), self.good)
        kind = self.chance.choice([wire.WORDS, wire.RECEIPT, wire.EVIDENCE, "nothing known"])
        blob = self.member.post._session.seal("party-2", kind, self.chance.choice([0, 1, 2, 99]), payload)
        self.delivered(blob)

    def accused(self) -> None:
        payload = self.member.payload(mutated(self.chance, self.pair, self.pair[::-1]))
        blob = self.member.post._session.seal("party-2", wire.EVIDENCE, 0, payload)
        with contextlib.suppress(CheatingProven):  # where the change took nothing of it away
            self.delivered(blob)

    def read_only(self) -> None:
        """Everything that is read without a party."""
        content, reads = self.chance.choice([
            (self.pair, statements.unpacked),
            (self.with_statements, wire.unpacked),
            (self.gopa, self.transcript.append),
            (self.asking, gopa_wire.read_asking),
            (self.showing, lambda blob: [self.transcript.check(raw) for raw in gopa_wire.read_showing(blob).entries]),
            (self.agreed, Agreement.parse),
        ])  # fmt: skip
        head = self.transcript.head
        changed = mutated(self.chance, content, content[::-1])
        with contextlib.suppress(ProtocolError):
            reads(changed)
        if changed != content:
            assert self.transcript.head == head

    def files(self) -> None:
        content = self.roster.read_bytes()
        path = self.roster.with_name("changed.json")
        path.write_bytes(mutated(self.chance, content, content[::-1]))
        with contextlib.suppress(ConfigError, ProtocolError):
            assert load_roster(path).names == self.parties.roster.names
        found = EVIDENCE
        with contextlib.suppress(ConfigError, ProtocolError):
            parse_evidence(mutated(self.chance, found, found[::-1])).check()


EVIDENCE = b"""{"format": "sottovoce evidence 1", "agreement": "%(d)s", "run": "r", "sender": "party-0", "identity_key": "%(d)s", "position": 3,
"statements": [{"digest": "%(d)s", "signature": "%(s)s"}, {"digest": "%(e)s", "signature": "%(s)s"}]}""" % {
    b"d": b"00" * 32, b"e": b"01" * 32, b"s": b"00" * 64,
}  # fmt: skip


def play(folder, seed: int, count: int) -> None:
    chance = random.Random(seed)
    played = Played(folder, chance)
    ways = [
        played.envelope,
        played.envelope,
        played.inside,
        played.inside,
        played.accused,
        played.read_only,
        played.read_only,
        played.files,
    ]
    for number in range(count):
        way = ways[number % len(ways)]
        try:
            way()
        except Exception as error:
            raise AssertionError(f"seed {seed}, mutation {number}, {way.__name__}: {error!r}") from error


@pytest.mark.parametrize("seed", [SEED])
def test_five_hundred_mutations_end_in_documented_refusals(seed, folder):
    play(folder, seed, 500)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [SEED + 1])
def test_five_thousand_mutations_end_in_documented_refusals(seed, folder):
    play(folder, seed, 5_000)


def test_the_judge_sees_a_party_that_moved(folder):
    """The tests above can fail."""
    played = Played(folder, random.Random(0))
    real = played.parties.loops["party-2"].advance

    def moved(wait):
        played.parties.loops["party-2"]._state = np.zeros((1, 3), dtype=np.int64)
        return real(wait)

    played.parties.loops["party-2"].advance = moved
    with pytest.raises(AssertionError):
        played.delivered(b"S")


def test_a_member_whose_counters_are_no_words_is_refused(folder):
    """Names of counters that cannot be put into an order with others once ended a party."""
    parties, _ = begun(folder)
    member = Member(parties, "party-1", "party-2")
    from sottovoce.deployment.identity import packing

    greeting = wire.read_greeting(member.greeting())
    fields, _ = packing.unframed(b"H", greeting.hello)
    fields[-1] = {b"a": 1, "b": 2}
    said = greeting._replace(hello=packing.framed(b"H", fields) + bytes(64))
    parties.wires.send("party-1", "party-2", wire.greeting(said))
    while parties.wires.waiting["party-2"]:
        parties.loops["party-2"].advance(0.0)
    assert parties.loops["party-2"]._post.refused.counts["party-1"]["Malformed"] == 1
