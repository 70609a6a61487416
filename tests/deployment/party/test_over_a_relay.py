"""Parties as processes over a relay: it is killed with and without its disk, parties are killed, and models are the same bit by bit."""

import shutil
import signal
import sys
import time

import pytest

from deployment.party.eavesdropper import plaintexts
from deployment.party.test_killed_processes import Run, forks  # noqa: F401  a fixture
from deployment.relays import Relay
from sottovoce.deployment.relays import look_at_mailboxes, mailboxes

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not sys.platform.startswith("linux"), reason="processes are forked from one that has imported everything"
    ),
]
NUMBERS = 8  # bytes of one of the integers that are sent


@pytest.fixture
def relayed(folder, forks):  # noqa: F811
    """(a run over a relay, the relay), both ended afterwards."""
    made = []

    def make(shape: str, rounds: int) -> tuple[Run, Relay]:
        run = Run(folder / "run", shape, forks, rounds=rounds)
        relay = Relay(folder / "relay", run.roster)
        relay.start()
        shutil.copy(relay.folder / "relay.json", run.folder / "relay.json")
        made.append((run, relay))
        return run, relay

    yield make
    for run, relay in made:
        run.end()
        relay.kill()


def positions(run: Run) -> int:
    """Exchanges of all parties that are written down."""
    measured = [run.folder / name / "moments.txt" for name in run.names]
    return sum(path.read_text().count("after commit") for path in measured if path.exists())


def until_written(run: Run, count: int) -> None:
    deadline = time.monotonic() + 30
    while positions(run) < count:
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.parametrize("shape", ["fixed links", "a relay and few agents at a time", "two exchanges a round"])
def test_a_run_over_a_relay_ends_with_the_same_models(shape, relayed):
    run, relay = relayed(shape, 6)
    for name in run.names:
        run.start(name)
    assert [run.wait(each) for each in run.names] == [0] * len(run.names)
    run.check()
    # What is left are receipts for parties that had left already.
    assert max(look_at_mailboxes(relay.folder).waiting.values()) < run.run.end


@pytest.mark.parametrize("keep_disk", [True, False])
def test_a_relay_killed_again_and_again_changes_nothing_and_has_nothing_to_read(keep_disk, relayed):
    run, relay = relayed("fixed links", 30)
    for name in run.names:
        run.start(name)
    kept = []
    for kill in range(1, 6):
        until_written(run, kill * 25)
        relay.kill()
        kept.append(b"".join(path.read_bytes() for path in sorted(relay.store.rglob("*")) if path.is_file()))
        relay.start(keep_disk=keep_disk)
    assert [run.wait(each) for each in run.names] == [0] * len(run.names)
    run.check()

    disk, wire = b"".join(kept), run.wire()
    said = {word for versions in plaintexts(wire).values() for word in versions}
    numbers = {text[at : at + NUMBERS] for text in said for at in range(0, len(text), NUMBERS)}
    rare = {number for number in numbers if len(set(number)) > 3}  # no small ones, which are in any file
    assert len(rare) > 100
    assert [number for number in rare if number in disk] == []
    assert not any(name.encode() in disk for name in run.names)
    # The same search finds names of the mailboxes, and messages that were being delivered.
    assert all(mailboxes.token(each.identity_key).encode() in disk for each in run.roster)
    assert len(disk) > 5 * min(len(blob) for _, _, blob in wire.wires.sent)


def test_a_message_is_still_at_the_relay_when_its_receiver_dies_before_the_commit(relayed):
    run, relay = relayed("fixed links", 4)
    name = run.names[1]
    for each in run.names:
        run.start(each, "before commit 2" if each == name else "")
    assert run.wait(name) == -signal.SIGKILL
    assert (
        look_at_mailboxes(relay.folder).waiting[name] >= 2
    )  # the words of both neighbours that were taken and are not written down
    run.start(name)
    assert [run.wait(each) for each in run.names] == [0] * len(run.names)
    run.check()
