"""What is queued for one that cannot be reached stays bounded, and the newest of it stays."""

import asyncio

from sottovoce.deployment.transports import waiting
from sottovoce.deployment.transports.outgoing import Outgoing


class _Unreachable:
    """A channel on which nothing ever gets through."""

    def stream_unary(self, method):
        return self

    def __call__(self):
        return self

    def add_done_callback(self, callback):
        pass

    async def wait_for_connection(self):
        await asyncio.sleep(60)

    async def close(self):
        pass


def queued(sizes, quota):
    async def run():
        way = Outgoing(_Unreachable(), quota)
        for size in sizes:
            way.put(bytes(size))
        await asyncio.sleep(0)
        left = [len(blob) for blob in way._blobs]
        assert way._blobs._bytes == sum(left)
        way.trouble = "nobody there"
        await way.close(0.01)
        return left

    return asyncio.run(run())


def test_the_oldest_give_way():
    assert queued([10, 20, 30, 40], quota=75) == [30, 40]
    assert queued([10, 500], quota=75) == [500]


def test_there_are_never_more_than_so_many(monkeypatch):
    monkeypatch.setattr(waiting, "MOST_BLOBS", 5)
    assert queued([0] * 9, quota=75) == [0] * 5
