"""The transport of tests: what it is told to lose or repeat, and nothing else."""

import pytest

from sottovoce.deployment.transports import Delivery, MemoryNetwork
from sottovoce.errors import ConfigError

NAMES = ("ada", "bea")


def opened(**options):
    network = MemoryNetwork(NAMES, **options)
    pair = [network.transport(name) for name in NAMES]
    for each in pair:
        each.open()
    return pair


def arrived(**options) -> list[int]:
    ada, bea = opened(**options)
    for number in range(200):
        ada.send("bea", bytes([number]))
    found = []
    while (delivery := bea.recv(0)) is not None:
        assert delivery.sender == "ada"
        found.append(delivery.blob[0])
    return found


def test_blobs_arrive_in_order():
    assert arrived() == list(range(200))


def test_losses_and_repetitions_happen_as_often_as_asked_and_the_same_way_again():
    lost, repeated = arrived(loss=0.25, seed=3), arrived(duplication=0.25, seed=3)
    assert 120 < len(lost) < 180
    assert len(set(lost)) == len(lost)
    assert set(repeated) == set(range(200))
    assert 220 < len(repeated) < 280
    assert lost == arrived(loss=0.25, seed=3) != arrived(loss=0.25, seed=4)


def test_who_is_not_there_gets_nothing():
    ada, bea = opened()
    bea.close()
    ada.send("bea", b"lost")
    bea.open()
    ada.send("bea", b"found")
    assert [bea.recv(0), bea.recv(0)] == [Delivery("ada", b"found"), None]


def test_what_cannot_be_sent_is_refused():
    ada, bea = opened(max_blob=10)
    with pytest.raises(ConfigError, match="at most 10"):
        ada.send("bea", bytes(11))
    with pytest.raises(ConfigError, match="no party 'eve'"):
        ada.send("eve", b"")
    bea.close()
    with pytest.raises(ConfigError, match="closed"):
        bea.recv(0)
