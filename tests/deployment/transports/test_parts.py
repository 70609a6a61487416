"""Blobs in parts: whole again whatever their order, and never more in memory than was said."""

import os
import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.deployment.transports import parts
from sottovoce.deployment.transports.parts import HEADER, Assembly, cut
from sottovoce.errors import ProtocolError

MOST = 10_000


def part(name: bytes = b"a" * 8, number: int = 0, count: int = 1, total: int = 0, content: bytes = b"") -> bytes:
    return struct.pack("<8sIII", name, number, count, total) + content


def fed(assembly: Assembly, messages):
    found = [assembly.take(message, (number, "")) for number, message in enumerate(messages)]
    return [each for each in found if each is not None]


@settings(max_examples=60)
@given(st.binary(max_size=3000), st.integers(HEADER + 128, 4000), st.randoms())
def test_a_blob_is_whole_again_in_any_order_and_with_repetitions(blob, most, chance):
    pieces = list(cut(blob, most))
    assert all(len(piece) <= most for piece in pieces)
    shuffled = pieces + pieces[: len(pieces) // 2]
    chance.shuffle(shuffled)
    assembly = Assembly(MOST)
    (whole,) = fed(assembly, shuffled)
    assert whole.blob == blob
    assert len(whole.messages) == len(pieces)
    assert len(assembly.dropped) == len(shuffled) - len(pieces)
    assert assembly.size == 0


def test_two_blobs_of_one_sender_do_not_mix():
    one, other = os.urandom(900), os.urandom(900)
    mixed = [piece for pair in zip(cut(one, 320), cut(other, 320), strict=True) for piece in pair]
    assert {whole.blob for whole in fed(Assembly(MOST), mixed)} == {one, other}


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"short", "fewer than its header"),
        (part(total=MOST + 1), "at most 10000"),
        (part(count=0), "part 0 of 0"),
        (part(number=1), "part 1 of 1"),
        (part(count=2**32 - 1, total=9000, content=b"x"), "was announced"),
        (part(count=142, total=9000, content=bytes(64)), "was announced"),  # parts that are too short
        (part(count=2, total=200, content=bytes(99)), "where its header says 100"),
        (part(count=1, total=5, content=bytes(6)), "where its header says 5"),
        (part(number=3, count=4, total=193, content=bytes(49)), "where its header says 46"),
    ],
)
def test_what_is_no_part_is_refused_and_nothing_is_held(message, why):
    assembly = Assembly(MOST)
    with pytest.raises(ProtocolError, match=why):
        assembly.take(message, (0, ""))
    assert assembly.size == 0


def test_parts_that_contradict_each_other_are_refused():
    assembly = Assembly(MOST)
    assembly.take(part(count=2, total=200, content=bytes(100)), (0, ""))
    with pytest.raises(ProtocolError, match="do not agree"):
        assembly.take(part(number=1, count=2, total=199, content=bytes(99)), (1, ""))


def test_what_one_sender_can_make_another_hold_is_bounded():
    assembly, chance = Assembly(MOST), random.Random(1)
    for number in range(3000):
        total = chance.randrange(130, MOST)
        assembly.take(part(os.urandom(8), 0, 2, total, bytes(-(-total // 2))), (number, ""))
        assert assembly.size <= MOST + parts._OVERHEAD * 4
        assert len(assembly._open) <= 4
        assert len(assembly._closed) <= 64
    assert len(assembly.dropped) >= 2990  # all of them may be acknowledged


def test_parts_of_a_blob_that_was_forgotten_are_dropped():
    assembly = Assembly(MOST)
    first, last = cut(bytes(4000), 2100 + HEADER)
    assembly.take(first, (0, ""))
    for number in range(1, 5):
        assembly.take(part(os.urandom(8), 0, 2, 9000, bytes(4500)), (number, ""))
    assert (0, "") in assembly.dropped
    assembly.dropped.clear()
    assert assembly.take(last, (9, "")) is None
    assert assembly.dropped == [(9, "")]
