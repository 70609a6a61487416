"""The board as a process: it takes messages in, writes entries down, and shows them to whoever asks."""

import math
from collections.abc import Callable, Mapping

import numpy as np

from sottovoce.deployment.gopa_parties import wire
from sottovoce.deployment.gopa_parties.board import LogKeeper
from sottovoce.deployment.gopa_parties.packing import packed, unpacked
from sottovoce.deployment.party import Book, Onlooker, Place, Refused
from sottovoce.deployment.store import RestoredBackup
from sottovoce.deployment.transports import Delivery
from sottovoce.errors import ProtocolError

LOG = "log"  # under this name the entries lie among what waits to be sent
PRESENT = 5.0  # seconds in which a reader that has not asked counts as there
AGAIN = 1.0  # seconds before entries are shown a second time to who has not taken them
_NOTHING = np.zeros((0, 0), dtype=np.int64)


class _Known:
    """What the board knows of a reader."""

    def __init__(self, now: float) -> None:
        self.heard, self.shown, self.when, self.has = now, 0, 0.0, -1


class Serving:
    """The board of one run at its transport."""

    def __init__(
        self, keeper: LogKeeper, agents: Mapping[str, int], beacon: str, place: Place, book: Book, now: float
    ) -> None:
        """Begin; nothing is sent.

        Args:
            keeper: of the log.
            agents: names -> numbers.
            beacon: its name.
            place: where the board is.
            book: its pages of the store.
            now: by the clock that all other times here are of.
        """
        self._began = now
        self._keeper, self._agents, self._beacon, self._place, self._book = keeper, agents, beacon, place, book
        self._known: dict[str, _Known] = {}
        self._refused: Refused | None = None

    def take(self, delivery: Delivery, now: float, watch: Onlooker) -> None:
        """Deal with one blob; what is refused is taken down and changes nothing."""
        if delivery.sender not in self._agents and delivery.sender != self._beacon:
            return
        kind = delivery.blob[:1]
        try:
            if kind == wire.ASK:
                self._asked(delivery.sender, wire.read_asking(delivery.blob), now)
            elif kind == wire.MESSAGE:
                self._keeper.take(delivery.blob[1:])
        except ProtocolError as error:
            self._refused = self._refused or Refused(watch.log)
            self._refused.note(delivery.sender, error)

    def present(self, now: float) -> tuple[frozenset[int], bool]:
        """Agents that were heard of lately, and whether the beacon was."""
        there = {name for name, each in self._known.items() if now - each.heard <= PRESENT}
        return frozenset(self._agents[name] for name in there - {self._beacon}), self._beacon in there

    def expected(self, now: float, seconds: float) -> frozenset[int]:
        """Agents that were heard of within so many seconds; a board that has just started may hear of anybody."""
        heard = {name: self._known[name].heard if name in self._known else self._began for name in self._agents}
        return frozenset(self._agents[name] for name, when in heard.items() if now - when <= seconds)

    def write_and_show(self, now: float, moment: Callable[[str], None]) -> bool:
        """Write down new entries, in one transaction, and then show them; whether there were any."""
        new = self._keeper.new_entries()
        if not new:
            return False
        moment("before commit")
        self._book.commit(len(self._keeper.entries) - 1, _NOTHING, {}, {LOG: packed(new)}, {})
        moment("after commit")
        for name, each in self._known.items():
            if now - each.heard <= PRESENT:
                self._show(name, each, now)
        return True

    def heard_of(self) -> dict[str, float]:
        """When every reader was last heard of in this start; minus infinity: never."""
        return {
            name: self._known[name].heard if name in self._known else -math.inf
            for name in (*self._agents, self._beacon)
        }

    def behind(self) -> list[str]:
        """Readers that have not said that they have the whole log."""
        everybody = (*self._agents, self._beacon)
        total = len(self._keeper.entries)
        return [name for name in everybody if name not in self._known or self._known[name].has < total]

    def _asked(self, sender: str, asked: wire.Asked, now: float) -> None:
        each = self._known.setdefault(sender, _Known(now))
        if asked.digest != self._keeper.log.plan.digest or asked.length > len(self._keeper.entries):
            self._answer(sender)  # it sees for itself what this board serves
            raise ProtocolError(
                f"{sender} has {asked.length} entries of the agreement {asked.digest.hex()[:16]}..., and this log has {len(self._keeper.entries)} of "
                f"{self._keeper.log.plan.digest.hex()[:16]}.... It accepted another agreement, or this board's store was set back."
            )
        try:
            self._place.store.seen(self._place.roster[sender].identity_key, *asked.proof)
        except RestoredBackup:
            self._answer(sender)  # with its own signature below larger numbers
            raise
        each.heard, each.has = now, asked.length
        if asked.length >= each.shown or now - each.when >= AGAIN:
            each.shown = asked.length
            self._show(sender, each, now)

    def _show(self, name: str, each: _Known, now: float) -> None:
        entries = self._keeper.entries
        value = wire.Shown(
            self._keeper.log.plan.digest, each.shown, len(entries), self._book.highest(name), entries[each.shown :]
        )
        for blob in wire.in_pieces(value, self._place.transport.max_blob):
            self._place.transport.send(name, blob)
        each.shown, each.when = len(entries), now

    def _answer(self, name: str) -> None:
        entries = self._keeper.entries
        value = wire.Shown(self._keeper.log.plan.digest, 0, len(entries), self._book.highest(name), ())
        self._place.transport.send(name, wire.showing(value))


def kept_entries(book: Book) -> list[bytes]:
    """The entries that a board has written down, in order."""
    found: list[bytes] = []
    for receiver, _, payload in book.outgoing():
        if receiver == LOG:
            found += unpacked(payload)
    return found
