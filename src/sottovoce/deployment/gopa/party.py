"""A party: its vector, its secrets, and what it does and refuses in a round.

    publishes once      hat_u = x_u + eta_u + sum_{v in A, v ~ u} Delta_uv   modulo 2^64,        A = active parties
    repairs             r_u = sum_{v dropped, v ~ u} Delta_uv

It relies on its own copy of the rules (`Transcript`), not on the board or the server, and on nothing of the other
parties but that enough of them are honest. Why it refuses:

- a second publication, and one after `publish_until`: masks may be revealed from `drops_from` on, and a vector whose
  masks are known is hidden by eta_u alone. Where clocks and delivery together take less than the gap, nobody publishes
  after others have begun to reveal.
- signing that a party dropped out, or revealing masks with it, when that party's publication has been seen ANYWHERE, on
  the board or handed over directly: a server that withholds a publication to have its masks revealed gets nothing.
- going on when fewer parties or neighbours are left than the terms promise. This depends on the graph alone and tells
  nothing of x_u.

A party knows what it has sent only while the object lives. One that crashed goes on with a new object, if a store has
kept its exchange key and every message before it was sent (`recall`); without such a store it has to stay silent for the
rest of the round, since it could publish a second time.
"""

import secrets
from collections.abc import Collection, Iterable

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from sottovoce.deployment.gopa.board import Entry
from sottovoce.deployment.gopa.keys import identity_bytes, noise_key, pair_key
from sottovoce.deployment.gopa.messages import Kind, Message, pack_words, seal
from sottovoce.deployment.gopa.refusals import (
    Duplicate,
    Equivocation,
    OutOfPhase,
    SecondPublication,
    TooFewParties,
    WithheldPublication,
    WrongTime,
)
from sottovoce.deployment.gopa.transcript import Phase, Transcript
from sottovoce.deployment.integers import pair_mask, ring, signed_mask
from sottovoce.errors import ConfigError


class Party:
    """One party in one round.

    Attributes:
        number: its position in the roster.
        transcript: what it has read of the log.
        units: its encoded vector, [d] int64; None for one that will not publish.
    """

    def __init__(
        self,
        transcript: Transcript,
        identity: Ed25519PrivateKey,
        value: np.ndarray | None,
        *,
        exchange: X25519PrivateKey,
        noise_secret: bytes | None = None,
        own_noise: np.ndarray | None = None,
    ) -> None:
        """Prepare a round from given secrets; `join` draws them.

        Args:
            transcript: what it has read of the log.
            identity: who it is.
            value: its vector, [d]; None for a party that will not publish with this object.
            exchange: its exchange key of the round.
            noise_secret: 32 bytes from which its own noise follows.
            own_noise: the noise itself in units, [d] int64, in place of a secret.
        """
        terms = transcript.terms
        if identity_bytes(identity) not in terms.roster:
            raise ConfigError("The identity is not in the roster of the round. Ask for terms that list it.")
        self.units = None if value is None else terms.encoding.encode(value)
        for vector in (self.units, own_noise):
            if vector is not None and len(vector) != terms.dimension:
                raise ConfigError(f"The value has {len(vector)} entries; the round sums vectors of {terms.dimension}.")
        self.number = terms.roster.index(identity_bytes(identity))
        self.transcript = transcript
        self._identity = identity
        self._exchange = exchange
        self._context = terms.context
        self._noise_key = None if noise_secret is None else noise_key(noise_secret, self._context)
        self._own_noise = own_noise
        self._sent: set[Kind] = set()
        self._witnessed: set[int] = set()

    @classmethod
    def join(cls, transcript: Transcript, identity: Ed25519PrivateKey, value: np.ndarray) -> "Party":
        """Prepare a round with fresh secrets from the operating system."""
        return cls(
            transcript, identity, value, exchange=X25519PrivateKey.generate(), noise_secret=secrets.token_bytes(32)
        )

    def recall(self, *, sent: Collection[Kind], witnessed: Collection[int]) -> None:
        """Go on with a round after a crash.

        Args:
            sent: what was sent before, with the same exchange key; it is not made again.
            witnessed: parties whose publications were seen before.
        """
        self._sent |= set(sent)
        self._witnessed |= set(witnessed)

    def read(self, entries: Iterable[Entry]) -> None:
        """Follow the board's log.

        Raises:
            Equivocation: an entry's head is not that of the chain this party has read.
            ProtocolError: the board accepted what the rules forbid.
        """
        for entry in entries:
            self.transcript.append(entry.raw)
            if self.transcript.head != entry.head:
                raise Equivocation(
                    "The board's head is not that of the log this party has read; compare logs with other parties."
                )

    def witness(self, raw: bytes) -> None:
        """Take note of another party's publication, handed over by anyone.

        Raises:
            ProtocolError: it is not a publication of an active party in this round.
        """
        self._witnessed.add(self.transcript.check_publication(raw))

    def register(self) -> bytes:
        """Announce the exchange key."""
        return self._send(Kind.REGISTER, self._exchange.public_key().public_bytes_raw())

    def ready(self) -> bytes:
        """Say that this party knows its neighbours and will publish."""
        self._check_neighbours(self.transcript.neighbours.get(self.number, frozenset()))
        return self._send(Kind.READY, b"")

    def publish(self, *, now: int) -> bytes:
        """The masked and noisy vector: made once, never again.

        Args:
            now: this party's own clock, in the unit of the terms.

        Raises:
            SecondPublication: it has been made.
            WrongTime: it is too late to publish.
            TooFewParties: too few neighbours are active. That enough parties are active is a rule of the freeze.
            OutOfPhase: the board is not taking publications.
        """
        self.check_publishable(now=now)
        if self.units is None:
            raise ConfigError(
                "This party was prepared without a value, and has nothing to publish. Give it its vector."
            )
        active = self.transcript.active
        total = ring(self.units) + ring(self.own_noise()) + self._masks(self._neighbours & active)
        return self._send(Kind.PUBLISH, pack_words(total))

    def check_publishable(self, *, now: int) -> None:
        """Refuse what `publish` would refuse, whatever the value.

        Args:
            now: this party's own clock, in the unit of the terms.

        Raises:
            ProtocolError: as `publish`.
        """
        if Kind.PUBLISH in self._sent:
            raise SecondPublication(
                f"Party {self.number} has published in this round; send the same bytes again or nothing."
            )
        terms, active = self.transcript.terms, self.transcript.active
        if now > terms.publish_until:
            raise WrongTime(
                f"It is {now}; publications end at {terms.publish_until}, because masks may be revealed "
                "afterwards. Stay silent."
            )
        self._check_phase(Kind.PUBLISH, Phase.PUBLICATION)
        if self.number not in active:
            raise OutOfPhase(f"Party {self.number} was not ready at the freeze; it takes no part in this round.")
        self._check_neighbours(self._neighbours & active)

    def cosign(self, *, now: int) -> bytes:
        """Sign that the listed parties dropped out.

        Args:
            now: this party's own clock, in the unit of the terms.

        Raises:
            WrongTime: it is too early to be sure of that.
            WithheldPublication: a listed party has published.
            TooFewParties: too few would be left.
        """
        if now < self.transcript.terms.drops_from:
            raise WrongTime(
                f"It is {now}; a party may be called dropped from {self.transcript.terms.drops_from} on. Wait."
            )
        self._check_phase(Kind.COSIGN, Phase.COSIGNING)
        self._check_drops()
        return self._send(Kind.COSIGN, b"")

    def repair(self) -> bytes:
        """Reveal the sum of the masks shared with dropped parties.

        Raises:
            OutOfPhase: too few have signed the drop list.
            WithheldPublication: a listed party has published.
            TooFewParties: too few would be left.
        """
        self._check_phase(Kind.REPAIR, Phase.REPAIR)
        self._check_drops()
        return self._send(Kind.REPAIR, pack_words(self._masks(self._neighbours & self.transcript.dropped)))

    def own_noise(self) -> np.ndarray:
        """This party's own noise eta_u of the round, [d] int64; whoever learns it can subtract it."""
        terms = self.transcript.terms
        if self._own_noise is not None:
            return self._own_noise
        if self._noise_key is None:
            raise ConfigError("This party was prepared without noise of its own. Give it a secret for noise, or noise.")
        return terms.own_noise.from_key(self._noise_key, terms.dimension)

    def mask(self, other: int) -> np.ndarray:
        """What this party adds for its pair with another, Delta_uv, [d] uint64; secret of the two."""
        terms, peer = self.transcript.terms, self.transcript.registered[other]
        mask = pair_mask(terms.masks, pair_key(self._exchange, peer, self._context), terms.dimension)
        return signed_mask(mask, own=self._exchange.public_key().public_bytes_raw(), peer=peer)

    @property
    def _neighbours(self) -> frozenset[int]:
        return self.transcript.neighbours[self.number]

    def _masks(self, others: frozenset[int]) -> np.ndarray:
        total = np.zeros(self.transcript.terms.dimension, dtype=np.uint64)
        for other in sorted(others):
            total += self.mask(other)
        return total

    def _check_phase(self, kind: Kind, phase: Phase) -> None:
        if self.transcript.phase != phase:
            raise OutOfPhase(
                f"{kind.name} belongs to {phase.name}; the log this party has read is in {self.transcript.phase.name}."
            )

    def _check_drops(self) -> None:
        dropped = self.transcript.dropped
        seen = dropped & (self._witnessed | ({self.number} if Kind.PUBLISH in self._sent else set()))
        if seen:
            raise WithheldPublication(
                f"The drop list names {sorted(seen)}, whose publication this party has seen. Revealing masks "
                "would expose them: the round must end without a result, and the board must explain."
            )
        self._check_count(len(self.transcript.survivors))
        self._check_neighbours((self._neighbours - dropped) & self.transcript.active)

    def _check_count(self, left: int) -> None:
        needed = self.transcript.terms.minimum_parties
        if left < needed:
            raise TooFewParties(f"{left} parties would be in the sum; the terms promise {needed}. End the round.")

    def _check_neighbours(self, left: frozenset[int]) -> None:
        needed = self.transcript.terms.minimum_neighbours
        if len(left) < needed:
            raise TooFewParties(
                f"Party {self.number} would share masks with {len(left)} parties; the terms promise {needed}."
            )

    def _send(self, kind: Kind, payload: bytes) -> bytes:
        if kind in self._sent:
            raise Duplicate(
                f"Party {self.number} has already sent {kind.name} in this round; send the same bytes again or nothing."
            )
        terms = self.transcript.terms
        message = Message(
            kind=kind,
            run=terms.run,
            round_number=terms.round_number,
            sender=terms.roster[self.number],
            reference=self.transcript.opened,
            payload=payload,
        )
        raw = seal(message, self._identity)
        self._sent.add(kind)
        return raw
