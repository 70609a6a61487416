"""A round in one process: all roles, every message as bytes, parties falling silent where asked.

For tests and for trying things out. Board, beacon, server and every party keep their own transcript; they exchange
nothing but bytes.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.deployment.gopa.board import Board, Entry, beacon_message
from sottovoce.deployment.gopa.messages import Message, open_message, parse
from sottovoce.deployment.gopa.party import Party
from sottovoce.deployment.gopa.terms import Terms
from sottovoce.deployment.gopa.transcript import Phase, Transcript
from sottovoce.reprs import short_repr

Silence = Literal["registration", "preparation", "publication", "cosigning", "repair"]
_ORDER: tuple[Silence, ...] = ("registration", "preparation", "publication", "cosigning", "repair")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """All roles of one round in one process.

    Attributes:
        board: the board.
        beacon: identity of the beacon.
        parties: every party of the roster.
        server: the server's copy of the log.
        silence: the step from which a party says nothing more, by its number.
    """

    board: Board
    beacon: Ed25519PrivateKey
    parties: tuple[Party, ...]
    server: Transcript
    silence: Mapping[int, Silence]

    def __repr__(self) -> str:
        return short_repr(self)

    def speaks(self, party: Party, step: Silence) -> bool:
        """Whether a party still takes part in a step."""
        last = self.silence.get(party.number)
        return last is None or _ORDER.index(step) < _ORDER.index(last)

    def deliver(self, entry: Entry) -> None:
        """Let the server and every party read a new entry."""
        self.server.append(entry.raw)
        for party in self.parties:
            party.read([entry])

    def post(self, raw: bytes) -> None:
        """Post a message and let everybody read it."""
        self.deliver(self.board.post(raw))

    def play(self, *, beacon_value: bytes, until: Phase = Phase.COMPLETE) -> Transcript:
        """Play the round to a phase, or as far as the parties that speak take it.

        Returns:
            The server's transcript.
        """
        steps: dict[Phase, Callable[[], None]] = {
            Phase.REGISTRATION: self._register,
            Phase.DRAWING: lambda: self.post(beacon_message(self.board.transcript, self.beacon, beacon_value)),
            Phase.PREPARATION: self._prepare,
            Phase.PUBLICATION: self._publish,
            Phase.COSIGNING: self._cosign,
            Phase.REPAIR: self._repair,
        }
        while (phase := self.server.phase) < until:
            steps[phase]()
            if self.server.phase == phase:
                break
        return self.server

    def _register(self) -> None:
        for party in self._speaking("registration"):
            self.post(party.register())
        self.deliver(self.board.close_registration())

    def _prepare(self) -> None:
        for party in self._speaking("preparation"):
            self.post(party.ready())
        self.deliver(self.board.freeze())

    def _publish(self) -> None:
        for party in self._speaking("publication"):
            self.post(party.publish(now=self.server.terms.publish_until))
        self.deliver(self.board.close_publication(now=self.server.terms.drops_from))

    def _cosign(self) -> None:
        for party in self._speaking("cosigning"):
            if self.server.phase is Phase.COSIGNING:
                self.post(party.cosign(now=self.server.terms.drops_from))

    def _repair(self) -> None:
        for party in self._speaking("repair"):
            if party.number in self.server.repairers:
                self.post(party.repair())

    def _speaking(self, step: Silence) -> list[Party]:
        return [party for party in self.parties if self.speaks(party, step)]


def rehearse(
    terms: Terms,
    *,
    identities: Sequence[Ed25519PrivateKey],
    board: Ed25519PrivateKey,
    beacon: Ed25519PrivateKey,
    values: Sequence[np.ndarray],
    silence: Mapping[int, Silence],
) -> Rehearsal:
    """Set up all roles of one round.

    Args:
        terms: the terms of the round.
        identities: the parties' identities, in the order of the roster.
        board: identity of the board.
        beacon: identity of the beacon.
        values: the parties' vectors, [d] each.
        silence: the step from which a party says nothing more, by its number.
    """
    read = _remembering()
    parties = tuple(
        Party.join(Transcript(terms, read=read), identity, value)
        for identity, value in zip(identities, values, strict=True)
    )
    return Rehearsal(
        board=Board(Transcript(terms, read=read), board),
        beacon=beacon,
        parties=parties,
        server=Transcript(terms, read=read),
        silence=dict(silence),
    )


def _remembering() -> Callable[[bytes], Message]:
    """Read messages, checking the signature of equal bytes once: in one process every role would repeat it."""
    good: set[bytes] = set()

    def read(raw: bytes) -> Message:
        digest = hashlib.sha256(raw).digest()
        message = parse(raw) if digest in good else open_message(raw)
        good.add(digest)
        return message

    return read
