"""Following the board's log over a transport: ask, read what is shown, ask again.

A reader asks at its start, from time to time, and as soon as entries seem to be missing; the board shows new entries unasked to whoever has asked
lately. Only a reader that has everything the board has announced says anything (`current`).
"""

import math
from collections.abc import Sequence
from typing import Protocol

from sottovoce.deployment.gopa_parties import wire
from sottovoce.deployment.gopa_parties.log import Log
from sottovoce.deployment.identity.refusals import DifferentAgreement
from sottovoce.deployment.party import Book
from sottovoce.deployment.transports import Transport
from sottovoce.wording import brief

EVERY = 0.5  # seconds between two questions
_SILENT = 2.0  # seconds after which people are told that the board is waited for
AT_LEAST = 0.05  # seconds between two questions when entries are missing


class Follows(Protocol):
    """A role that reads the log."""

    log: Log

    def read(self, entries: Sequence[bytes]) -> None:
        """Take entries in."""


class Reader:
    """One role's way to the board.

    Attributes:
        heard: when the board was last heard of, in seconds of the clock that all times here are of.
        grown: when the log was last seen to grow.
        answered: entries of which the board has said that it knows this reader has them.
    """

    def __init__(self, role: Follows, board: str, transport: Transport, book: Book, digest: bytes, now: float) -> None:
        """Begin; nothing is sent.

        Args:
            role: who reads.
            board: the name of the board.
            transport: open.
            book: the role's pages of its store.
            digest: of the agreement.
            now: by the clock that all other times here are of.
        """
        self._role, self._board, self._transport, self._book, self._digest = role, board, transport, book, digest
        self._asked, self._total = -math.inf, -1
        self.heard = self.grown = now
        self.answered = -1

    @property
    def length(self) -> int:
        """Entries read."""
        return self._role.log.length

    @property
    def current(self) -> bool:
        """Whether everything is read that the board has announced in this start."""
        return self._total == self.length

    def heard_of(self) -> dict[str, float]:
        """When the board was last heard of in this start; minus infinity: never."""
        return {self._board: self.heard if self._total >= 0 else -math.inf}

    def awaited(self, now: float) -> tuple[str, ...]:
        """The board, where it has not shown everything, or was not heard of for some questions."""
        return () if self.current and now - self.heard <= _SILENT else (self._board,)

    def ask(self, now: float) -> None:
        """Ask for the rest, if it is time."""
        missing = self._total > self.length
        if now - self._asked >= (AT_LEAST if missing else EVERY):
            self._asked = now
            self._transport.send(
                self._board, wire.asking(wire.Asked(self._digest, self._role.log.length, self._book.proof))
            )

    def take(self, blob: bytes, now: float) -> None:
        """Take in what the board shows.

        Raises:
            DifferentAgreement: the board serves another one.
            RestoredBackup: this party has signed more than its store holds.
            ProtocolError: the board accepted what the rules forbid, or shows another history.
        """
        shown = wire.read_showing(blob)
        if shown.digest != self._digest:
            raise DifferentAgreement(
                f"{brief(self._board)} keeps the log of the agreement {shown.digest.hex()[:16]}..., and this party has accepted "
                f"{self._digest.hex()[:16]}.... Compare digests, and accept the same one."
            )
        self._book.look_back(shown.proofs)
        self.heard = now
        self._total = max(self._total, shown.total)
        length = self._role.log.length
        if shown.first <= length < shown.first + len(shown.entries):
            self._role.read(shown.entries[length - shown.first :])
            self.grown = now
        elif not shown.entries and shown.first == length:
            self.answered = length

    def send(self, raw: bytes) -> None:
        """Send a message of the round to the board."""
        self._transport.send(self._board, wire.MESSAGE + raw)
