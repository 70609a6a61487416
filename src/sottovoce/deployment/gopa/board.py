"""The board: an append-only, hash-chained, public log, and the moments at which phases end.

Trusted for: keeping the log available and showing everybody the same one. It sees nothing that is not public. It holds
no secret of any party, cannot forge a message, cannot choose the graph, cannot list a party as active or dropped
against its own log, and cannot change what it accepted. A board that shows different logs is caught as soon as two
readers compare heads, and cannot get two drop lists signed while fewer than a third of the active parties are
corrupted.

What it can do: refuse or delay messages, and so drop parties or end the round. It knows the graph before it takes READY
messages and publications, so it can leave a victim with the neighbours it likes: `minimum_neighbours` has to exceed the
number of corrupted neighbours that a party may have, and the accountant has to allow for any choice of dropped parties.
A board that swallows a publication AND keeps the publisher's own copies from all its honest neighbours can have that
party's masks revealed although it holds the publication; then only that party's own noise protects it. Run the board
apart from the server, and let parties hand publications to their neighbours too (`Party.witness`).
"""

from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.deployment.gopa.keys import identity_bytes
from sottovoce.deployment.gopa.messages import Kind, Message, pack_parties, seal
from sottovoce.deployment.gopa.refusals import WrongTime
from sottovoce.deployment.gopa.transcript import Transcript
from sottovoce.errors import ConfigError


class Entry(NamedTuple):
    """One entry of the log.

    Attributes:
        raw: the message as it was posted.
        head: SHA-256(previous head | raw).
    """

    raw: bytes
    head: bytes


class Board:
    """Takes messages in, in order, and ends phases when told to.

    Attributes:
        transcript: the state of the round.
        log: all entries so far.
    """

    def __init__(self, transcript: Transcript, identity: Ed25519PrivateKey) -> None:
        """Open an empty log under the board's identity."""
        if identity_bytes(identity) != transcript.terms.board:
            raise ConfigError("The identity is not the one that the terms name as board. Give the board its own key.")
        self.transcript = transcript
        self.log: list[Entry] = []
        self._identity = identity

    def post(self, raw: bytes) -> Entry:
        """Append a message of a party or of the beacon; the returned entry tells the sender where it stands.

        Raises:
            ProtocolError: the rules forbid the message; nothing has changed.
        """
        self.transcript.append(raw)
        self.log.append(Entry(raw, self.transcript.head))
        return self.log[-1]

    def close_registration(self) -> Entry:
        """End the registrations, before the beacon is drawn."""
        return self._end(Kind.CLOSE, b"")

    def freeze(self) -> Entry:
        """Fix the active parties: those that are ready."""
        return self._end(Kind.FREEZE, pack_parties(frozenset(self.transcript.ready)))

    def close_publication(self, *, now: int) -> Entry:
        """Fix the dropped parties: the active ones that have not published.

        Args:
            now: the board's clock, in the unit of the terms.

        Raises:
            WrongTime: some are missing, and what they sent in time may still be on its way. A publication that is
                refused after it was sent would be known while its masks are revealed.
        """
        silent = self.transcript.active - self.transcript.survivors
        if silent and now < self.transcript.terms.drops_from:
            raise WrongTime(
                f"It is {now} and parties {sorted(silent)} have not published; the phase may end at "
                f"{self.transcript.terms.drops_from}, or as soon as all have published. Wait."
            )
        return self._end(Kind.DROPS, pack_parties(silent))

    def _end(self, kind: Kind, payload: bytes) -> Entry:
        terms = self.transcript.terms
        message = Message(
            kind=kind,
            run=terms.run,
            round_number=terms.round_number,
            sender=terms.board,
            reference=self.transcript.head,
            payload=payload,
        )
        return self.post(seal(message, self._identity))


def beacon_message(transcript: Transcript, identity: Ed25519PrivateKey, value: bytes) -> bytes:
    """The beacon's message: 32 random bytes, fixed after registration closed.

    The beacon is trusted for one thing: that nobody knew `value` while parties could still register or be corrupted.
    """
    terms = transcript.terms
    message = Message(
        kind=Kind.BEACON,
        run=terms.run,
        round_number=terms.round_number,
        sender=terms.beacon,
        reference=transcript.opened,
        payload=value,
    )
    return seal(message, identity)
