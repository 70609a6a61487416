"""What waits at a party, to be taken or to be acknowledged, and the bytes in which it travels."""

import numpy as np
import pytest

from sottovoce.deployment.party import passing, wire
from sottovoce.deployment.party.inbox import Inbox
from sottovoce.deployment.party.neighbours import ANSWER_WAIT, Neighbour, Neighbours
from sottovoce.deployment.party.outbox import FIRST_WAIT, LONGEST_WAIT, Outbox
from sottovoce.deployment.party.passing import Bundle, Passing
from sottovoce.deployment.party.statements import Claim, Statement
from sottovoce.deployment.store import Counters, Proof
from sottovoce.errors import ProtocolError

PROOF = Proof(Counters(store=bytes(16), exchanges=3, boots=1, entries=2).to_bytes(), bytes(64))


def test_a_second_message_for_an_exchange_is_harmless_if_it_is_the_same_and_refused_if_not():
    inbox = Inbox()
    assert inbox.put("a", 4, np.arange(3, dtype=np.uint64))
    assert inbox.put("a", 4, np.arange(3, dtype=np.uint64))
    with pytest.raises(ProtocolError, match="a sent two different messages for exchange 4"):
        inbox.put("a", 4, np.zeros(3, dtype=np.uint64))


def test_of_one_sender_two_exchanges_are_kept_and_no_more():
    inbox, words = Inbox(), np.zeros(3, dtype=np.uint64)
    assert [inbox.put("a", position, words) for position in (4, 5, 6)] == [True, True, False]
    assert inbox.put("b", 6, words)
    assert inbox.missing(4, ("a", "b")) == ["b"]
    assert inbox.pop(4, ("a",)).keys() == {"a"}
    assert inbox.put("a", 6, words)


def test_words_are_done_once_they_are_written_down_and_what_is_not_kept_at_once():
    inbox, words, done = Inbox(), np.zeros(3, dtype=np.uint64), []
    for position in (4, 5, 6):
        inbox.put("a", position, words, lambda position=position: done.append(position))
    assert done == [6]  # too far ahead
    inbox.put("a", 4, words, lambda: done.append("again"))
    assert done == [6, "again"]
    inbox.pop(4, ("a",))
    assert done == [6, "again"]
    inbox.written()
    inbox.written()
    assert done == [6, "again", 4]
    inbox.pop(5, ("a",))
    inbox.written()
    assert done == [6, "again", 4, 5]


def test_words_of_a_run_that_goes_on_under_another_agreement_are_done():
    inbox, words, done = Inbox(), np.zeros(3, dtype=np.uint64), []
    for position in (4, 5):
        inbox.put("a", position, words, lambda position=position: done.append(position))
    inbox.pop(4, ("a",))
    assert done == []
    inbox.let_go()
    assert sorted(done) == [4, 5]
    assert inbox.missing(5, ("a",)) == ["a"]


def test_what_is_not_acknowledged_is_sent_again_less_and_less_often():
    outbox = Outbox()
    outbox.put("a", 0, b"words", 0.0)
    assert outbox.due(FIRST_WAIT / 2) == []
    times, now = [], 0.0
    while len(times) < 6:
        now += 0.1
        times += [now] * bool(outbox.due(now))
    waits = np.diff([0.0, *times])
    assert waits[0] == pytest.approx(FIRST_WAIT, abs=0.2)
    assert (np.diff(waits) >= -0.2).all()
    assert waits[-1] == pytest.approx(LONGEST_WAIT, abs=0.2)
    outbox.hurry("a", now)
    assert outbox.due(now) == [("a", 0, b"words")]
    assert outbox.drop("a", 1, 0.0)
    assert outbox.next_due() is None


def first_repetition(outbox: Outbox, now: float, busy=lambda receiver: False) -> float:
    """Seconds until words that are put now are sent again; they stay."""
    outbox.put("a", 9, b"", now)
    waited = 0.0
    while not outbox.due(now + waited, busy):
        waited += 0.05
    return waited


def test_words_wait_twice_as_long_as_receipts_have_taken():
    outbox = Outbox()
    for position in range(20):
        outbox.put("a", position, b"", 0.0)
        assert outbox.drop("a", position + 1, 3.0)
    assert outbox.usual("a") == pytest.approx(3.0)
    assert outbox.usual("b") == 0.0
    assert first_repetition(outbox, 100.0) == pytest.approx(6.0, abs=0.1)
    for took, wait in ((0.001, FIRST_WAIT), (1e6, LONGEST_WAIT)):
        outbox = Outbox()
        outbox.put("a", 0, b"", 0.0)
        outbox.drop("a", 1, took)
        assert first_repetition(outbox, 2e6) == pytest.approx(wait, abs=0.1)


def test_words_that_were_repeated_leave_their_wait_to_the_next_until_some_are_taken_at_once():
    outbox = Outbox()
    outbox.put("a", 0, b"", 0.0)
    for _ in range(3):
        assert outbox.due(outbox.next_due())
    outbox.drop("a", 1, 9.0)
    assert outbox.usual("a") == LONGEST_WAIT / 2  # by the wait: nobody knows which copy was acknowledged
    outbox.put("a", 1, b"", 10.0)
    assert outbox.next_due() - 10.0 == pytest.approx(LONGEST_WAIT)
    outbox.drop("a", 2, 10.1)
    assert first_repetition(outbox, 20.0) == pytest.approx(FIRST_WAIT, abs=0.1)


def test_nothing_is_repeated_while_earlier_bytes_are_on_their_way_out_but_for_a_new_start():
    outbox = Outbox()
    assert first_repetition(outbox, 0.0, lambda receiver: False) == pytest.approx(FIRST_WAIT, abs=0.1)
    outbox.hurry("a", 50.0)
    assert [receiver for receiver, _, _ in outbox.due(50.0, lambda receiver: True)] == ["a"]
    assert not any(outbox.due(50.0 + k, lambda receiver: True) for k in range(100))
    outbox.drop("a", 10, 50.5)
    assert outbox.usual("a") == pytest.approx(0.5)  # it was sent once to this start
    neighbours = Neighbours(["a", "b"])
    assert neighbours.to_greet(0.0, lambda name: name == "a") == ["b"]
    assert neighbours.next_due() > 0.0
    assert neighbours.to_greet(10.0, lambda name: False) == ["a", "b"]


def test_what_was_repeated_in_vain_is_sent_when_its_receiver_is_heard_again():
    outbox = Outbox()
    outbox.put("a", 0, b"", 0.0)
    while outbox.next_due() < 5.0:
        assert outbox.due(outbox.next_due())
    outbox.put("a", 1, b"", 5.5)
    assert outbox.due(6.0) == []
    outbox.retry("a", 6.0)
    assert outbox.due(6.0) == [("a", 0, b"")]  # the other was sent once, and may be on its way
    assert outbox.due(6.1) == []


def test_a_receiver_that_owes_two_receipts_is_sent_nothing_more():
    outbox = Outbox()
    outbox.put("a", 0, b"", 0.0)
    assert not outbox.full("a")
    outbox.put("a", 1, b"", 0.0)
    assert outbox.full("a")
    assert not outbox.full("b")
    assert not outbox.drop("a", 0, 0.0)
    assert outbox.drop("a", 1, 0.0)
    assert not outbox.full("a")


def test_what_travels_is_read_back():
    receipt = wire.Receipt(7, True, PROOF)
    words = np.array([0, 1, 2**64 - 1], dtype=np.uint64)
    bundle = Bundle(
        3, 5, 7, [Statement(1, 2, bytes(range(32)), bytes(64)), Statement(2**16 - 1, 2**64 - 1, bytes(32), bytes(64))]
    )
    claim = Claim(bytes(range(32)), bytes(range(64)))
    read = wire.unpacked(wire.packed(receipt, wire.as_bytes(words), bundle, claim))
    assert read == (receipt, bundle, claim, wire.as_bytes(words))
    assert np.array_equal(wire.as_words(read.words, 3, "a"), words)
    shown = wire.Greeting(True, b"12345678", PROOF, (PROOF, PROOF), b"hello")
    assert wire.read_greeting(wire.greeting(shown)) == shown
    assert wire.knows(shown, b"12345678" + bytes(24))
    assert not wire.knows(shown, bytes(32))


@pytest.mark.parametrize("short", [b"", b"H", b"H\1" + bytes(100), b"H\1" + bytes(8) + bytes(125) + b"\3" + bytes(200)])
def test_greetings_that_are_cut_off_are_ignored(short):
    with pytest.raises(ProtocolError, match="fewer than what stands before its hello"):
        wire.read_greeting(short)


def test_messages_of_another_size_are_ignored():
    with pytest.raises(ProtocolError, match="fewer than its receipt"):
        wire.unpacked(bytes(20))
    with pytest.raises(ProtocolError, match="a sent 16 bytes where a message of this run has 24"):
        wire.as_words(bytes(16), 3, "a")


def test_reminders_come_less_and_less_often():
    one, now, times = Neighbour(), 0.0, []
    while len(times) < 6:
        if one.wants_reminder(now, 0.4):
            times.append(now)
            one.reminded, one.reminders = now, one.reminders + 1
        now += 0.05
    assert np.diff(times) == pytest.approx([0.8, 1.6, 1.6, 1.6, 1.6], abs=0.11)


def test_a_repeated_greeting_is_answered_every_second_at_most_and_that_of_a_new_start_at_once():
    one = Neighbour()
    assert one.wants_answer(True, True, 5.0)
    assert not one.wants_answer(True, False, 5.1)
    assert one.wants_answer(True, True, 5.2)
    assert not one.wants_answer(True, False, 5.1 + ANSWER_WAIT)
    assert one.wants_answer(True, False, 5.2 + ANSWER_WAIT)
    assert not one.wants_answer(False, True, 99.0)


def test_a_count_of_statements_that_no_answer_could_name_is_refused():
    last, one = 2**32 - 1, Statement(0, 0, bytes(32), bytes(64))
    queues = Passing()
    bundle, _ = passing.unpacked(passing.packed(Bundle(last - 1, last - 1, 0, [one])))
    queues.take("a", bundle)
    assert passing.packed(queues.bundle("a", onwards=False))
    with pytest.raises(ProtocolError, match="more than can be answered"):
        passing.unpacked(passing.packed(Bundle(last, last, 0, [one])))
