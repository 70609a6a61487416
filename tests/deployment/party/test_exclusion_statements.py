"""What one member signs about others stops nobody: only what all who may go on have signed does."""

import pytest

from deployment.party.remaining import Remaining
from deployment.party.test_exclusion import check_all_went_on, run_on
from sottovoce.deployment.identity.packing import framed
from sottovoce.deployment.party import Excluded
from sottovoce.deployment.party.exclusion import LETTER, PURPOSE, Exclusion, bundle
from sottovoce.deployment.transports import Delivery
from sottovoce.errors import ProtocolError

LIAR = "agent-4"


def signed(parties: Remaining, kind: str, lost: set[str], position: int, successor: bytes = b"", by: str = LIAR):
    """A statement with a genuine signature, whatever it says."""
    members = [member.name for member in parties.agreement.members]
    bits = sum(1 << members.index(name) for name in lost).to_bytes(64, "little")
    fields = [kind, parties.agreement.digest, by, bits, position, successor]
    return framed(LETTER, [*fields, parties.identities[by].sign(PURPOSE, framed(LETTER, fields))])


def tell_all(parties: Remaining, *statements: bytes) -> None:
    for name in parties.names:
        if name != LIAR and name in parties.wires.waiting:
            parties.wires.waiting[name].append(Delivery(LIAR, bundle(statements)))


@pytest.mark.parametrize(
    ("kind", "lost", "position", "successor"),
    [
        ("consent", {"agent-0", "agent-1", "agent-2", "agent-3"}, 3, bytes(32)),
        ("vote", {"agent-0", "agent-1", "agent-2"}, 3, b""),
        ("vote", {"agent-1"}, 6, b""),
        ("vote", {"agent-1"}, 2**62, b""),
        ("vote", {"agent-1"}, -1, b""),
        ("consent", {"agent-1"}, 6, bytes(32)),
        ("finished", set(), 2, b""),
        ("finished", set(), 6, b""),
    ],
)
def test_nobody_says_what_the_agreement_does_not_allow(kind, lost, position, successor, folder) -> None:
    parties = Remaining(folder, run_on("complete"), minimum=3)
    exclusion = Exclusion(
        parties.agreement, parties.identities["agent-0"], parties.roster, kept=(), keep=lambda statements: None
    )
    with pytest.raises(ProtocolError, match="ignored"):
        exclusion.take(signed(parties, kind, lost, position, successor))
    assert not exclusion.statements()


def test_one_member_cannot_exclude_all_others(folder) -> None:
    """It alone would be all who remain, and has signed."""
    parties = Remaining(folder, run_on("complete"), minimum=3)
    parties.play(
        until=lambda: len(parties.running) == 5 and all(parties.committed(name) >= 1 for name in parties.names)
    )
    tell_all(parties, signed(parties, "consent", set(parties.names) - {LIAR}, 3, bytes(32)))
    parties.play()
    assert all(not isinstance(ended, Exception) for ended in parties.ended.values()), parties.ended
    assert len(parties.ended) == 5


def test_an_exchange_after_the_last_one_stops_nobody(folder) -> None:
    parties = Remaining(folder, run_on("complete"), minimum=3)
    parties.play(
        until=lambda: len(parties.running) == 5 and all(parties.committed(name) >= 1 for name in parties.names)
    )
    tell_all(parties, signed(parties, "finished", set(), 2**40))
    parties.lose("agent-1")
    parties.play()
    check_all_went_on(parties, {"agent-1"})


def test_doubts_without_end_are_handed_on_ten_times_a_second_at_most(folder) -> None:
    parties = Remaining(folder, run_on("complete"), minimum=3)
    parties.play(until=lambda: len(parties.running) == 5 and all(each.book.begun for each in parties.running.values()))
    one, began, sent = "agent-0", parties.now, len(parties.wires.sent)
    for number in range(200):
        parties.wires.waiting[one].append(Delivery(LIAR, bundle([signed(parties, "doubt", {"agent-1"}, number)])))
        parties.now += 0.005
        parties.step(one)
    handed = [to for sender, to, blob in parties.wires.sent[sent:] if sender == one and blob[:1] == LETTER]
    assert handed
    assert len(handed) <= 4 * (1 + 10 * (parties.now - began))


def test_who_has_voted_cannot_move_the_cut_by_saying_that_it_has_finished(folder) -> None:
    parties = Remaining(folder, run_on("complete"), minimum=3)
    exclusion = Exclusion(
        parties.agreement, parties.identities["agent-0"], parties.roster, kept=(), keep=lambda statements: None
    )
    assert exclusion.vote({"agent-1"}, 2)
    for name in ("agent-2", "agent-3"):
        exclusion.take(signed(parties, "vote", {"agent-1"}, 3, by=name))
    finished = signed(parties, "finished", set(), 5)
    early = Exclusion(
        parties.agreement,
        parties.identities["agent-0"],
        parties.roster,
        kept=[*exclusion.signed(), finished],
        keep=lambda statements: None,
    )
    assert early.cut == 5  # it finished, and need not vote
    exclusion.take(signed(parties, "vote", {"agent-1"}, 2))
    assert exclusion.cut == 3
    exclusion.take(finished)
    assert exclusion.cut == 3
    assert not exclusion.allows(4)


def test_an_excluded_party_knows_it_after_a_restart(folder) -> None:
    parties = Remaining(folder, run_on("complete"), minimum=3)
    written = [
        signed(parties, "consent", {"agent-1"}, 3, bytes(32), by=name) for name in parties.names if name != "agent-1"
    ]
    keep = {"roster": parties.roster, "keep": lambda statements: None}
    with pytest.raises(Excluded):
        Exclusion(parties.agreement, parties.identities["agent-1"], kept=written, **keep)
    Exclusion(parties.agreement, parties.identities["agent-1"], kept=written[1:], **keep)
