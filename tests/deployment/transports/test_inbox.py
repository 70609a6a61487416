"""What waits is bounded for each sender, and handed out in turn."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.deployment.transports.inbox import _OVERHEAD, Inbox

SENDERS = ("ada", "bea")


def in_loop(play):
    """Run a coroutine function of an inbox with room for three blobs of 100 bytes."""

    async def run():
        inbox = Inbox(SENDERS, 3 * (100 + _OVERHEAD), asyncio.get_running_loop())
        return await play(inbox)

    return asyncio.run(run())


def test_a_sender_waits_when_its_room_is_full_and_goes_on_when_something_was_taken():
    async def play(inbox):
        for _ in range(3):
            await inbox.put("ada", bytes(100))
        waiting = asyncio.ensure_future(inbox.put("ada", bytes(100)))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        await inbox.put("bea", bytes(100))  # who has room of its own
        assert inbox.get(0).sender == "ada"
        await asyncio.wait_for(waiting, 1)
        assert inbox.waiting_bytes("ada") == 3 * (100 + _OVERHEAD)

    in_loop(play)


def test_a_blob_larger_than_the_room_comes_through_alone():
    async def play(inbox):
        await inbox.put("ada", bytes(10_000))
        waiting = asyncio.ensure_future(inbox.put("ada", b""))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        assert len(inbox.get(0).blob) == 10_000
        await asyncio.wait_for(waiting, 1)

    in_loop(play)


def test_empty_blobs_count_too():
    async def play(inbox):
        for _ in range(3 * (100 + _OVERHEAD) // _OVERHEAD):
            await inbox.put("ada", b"")
        waiting = asyncio.ensure_future(inbox.put("ada", b""))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        waiting.cancel()

    in_loop(play)


@settings(max_examples=50)
@given(st.lists(st.sampled_from(SENDERS), max_size=5))
def test_senders_take_turns_and_each_ones_blobs_keep_their_order(arrivals):
    async def play(inbox):
        inbox._quota = 10**6
        for number, sender in enumerate(arrivals):
            await inbox.put(sender, bytes([number]))
        found = []
        while (delivery := inbox.get(0)) is not None:
            found.append((delivery.sender, delivery.blob[0]))
        return found

    found = in_loop(play)
    for sender in SENDERS:
        assert [number for who, number in found if who == sender] == [
            n for n, who in enumerate(arrivals) if who == sender
        ]
    both = min(arrivals.count(sender) for sender in SENDERS)
    for sender in SENDERS:
        assert sum(who == sender for who, _ in found[: 2 * both]) == both
