"""The rules of a round, as one state machine that board, parties and server each run for themselves.

    REGISTRATION --CLOSE--> DRAWING --BEACON--> PREPARATION --FREEZE--> PUBLICATION --DROPS--> COSIGNING or COMPLETE
    COSIGNING --more than 2/3 signed--> REPAIR --all repairs in--> COMPLETE       (COMPLETE at once if nobody dropped)

The log is a hash chain, head <- SHA-256(head | message), that starts at the digest of the terms. Transitions cite the
head just before them; every other message cites the head at which its phase opened. The board decides WHEN a phase
ends, never WHAT follows: the active parties are exactly those that were ready, the dropped ones exactly those active
parties that did not publish, and both lists are final. A drop list takes effect when more than two thirds of the active
parties signed it, so that with fewer than a third corrupted no two lists can. Refused messages leave everything as it
was.
"""

import hashlib
from collections.abc import Callable
from enum import IntEnum

import numpy as np

from sottovoce.deployment.gopa.graph import k_out_edges, neighbours
from sottovoce.deployment.gopa.messages import Kind, Message, open_message, parse, unpack_parties, unpack_words
from sottovoce.deployment.gopa.refusals import (
    Duplicate,
    FalseList,
    Malformed,
    OutOfPhase,
    Replayed,
    TooFewParties,
    UnknownSender,
)
from sottovoce.deployment.gopa.terms import Terms
from sottovoce.deployment.identity.exchange_keys import check_exchange_key


class Phase(IntEnum):
    """Where a round stands."""

    REGISTRATION = 1
    DRAWING = 2
    PREPARATION = 3
    PUBLICATION = 4
    COSIGNING = 5
    REPAIR = 6
    COMPLETE = 7


_PHASE_OF = {
    Kind.REGISTER: Phase.REGISTRATION,
    Kind.CLOSE: Phase.REGISTRATION,
    Kind.BEACON: Phase.DRAWING,
    Kind.READY: Phase.PREPARATION,
    Kind.FREEZE: Phase.PREPARATION,
    Kind.PUBLISH: Phase.PUBLICATION,
    Kind.DROPS: Phase.PUBLICATION,
    Kind.COSIGN: Phase.COSIGNING,
    Kind.REPAIR: Phase.REPAIR,
}
_FROM_BOARD = frozenset({Kind.CLOSE, Kind.FREEZE, Kind.DROPS})


class Transcript:
    """What one reader of the log knows.

    Attributes:
        terms: the terms of the round.
        phase: where the round stands.
        head: last head of the hash chain.
        opened: head at which the current phase opened.
        registered: exchange key of every registered party.
        neighbours: for every registered party, the others it shares a mask with.
        ready: parties that posted READY.
        active: parties in the round since the freeze.
        publications: what each party published, [d] uint64.
        dropped: active parties that did not publish.
        cosigners: parties that signed the drop list.
        repairs: what each party revealed of its masks with dropped ones, [d] uint64.
    """

    def __init__(self, terms: Terms, *, read: Callable[[bytes], Message] = open_message) -> None:
        """Start at the head that stands for the terms; `read` parses a message and checks its signature."""
        self.terms = terms
        self.phase = Phase.REGISTRATION
        self.head = self.opened = terms.digest
        self.registered: dict[int, bytes] = {}
        self.neighbours: dict[int, frozenset[int]] = {}
        self.ready: set[int] = set()
        self.active: frozenset[int] = frozenset()
        self.publications: dict[int, np.ndarray] = {}
        self.dropped: frozenset[int] = frozenset()
        self.cosigners: set[int] = set()
        self.repairs: dict[int, np.ndarray] = {}
        self._read = read
        self._numbers = {key: number for number, key in enumerate(terms.roster)}

    def append(self, raw: bytes) -> Message:
        """Take a message into the log.

        Raises:
            ProtocolError: the rules forbid it here; the class says why.
        """
        message = self.check(raw)
        handler = {
            Kind.REGISTER: self._register,
            Kind.CLOSE: self._close,
            Kind.BEACON: self._draw,
            Kind.READY: self._ready,
            Kind.FREEZE: self._freeze,
            Kind.PUBLISH: self._publish,
            Kind.DROPS: self._drop,
            Kind.COSIGN: self._cosign,
            Kind.REPAIR: self._repair,
        }[message.kind]
        following = hashlib.sha256(self.head + raw).digest()
        phase = handler(message)
        self.head = following
        if phase is not None:
            self.phase, self.opened = phase, following
        return message

    def check(self, raw: bytes) -> Message:
        """Everything that does not depend on what the message says: form, round, sender, signature, phase, reference.

        Raises:
            ProtocolError: one of them is wrong.
        """
        self._check_round(parse(raw))
        message = self._read(raw)
        kind = message.kind
        if _PHASE_OF[kind] != self.phase:
            raise OutOfPhase(
                f"{kind.name} belongs to the phase {_PHASE_OF[kind].name}; the round is in {self.phase.name}. "
                "A late message is lost: join the next round."
            )
        expected = self.head if kind in _FROM_BOARD else self.opened
        if message.reference != expected:
            raise Replayed(f"{kind.name} cites another history of this round than the log holds; read the log again.")
        return message

    def check_publication(self, raw: bytes) -> int:
        """Whether a message is an active party's publication in this round, in any phase and from any bearer.

        Returns:
            The number of the party.

        Raises:
            ProtocolError: it is not.
        """
        message = parse(raw)
        self._check_round(message)
        if message.kind is not Kind.PUBLISH or self.number(message) not in self.active:
            raise UnknownSender(
                f"This {message.kind.name} message is no publication of a party that is active in this round."
            )
        self._read(raw)
        return self.number(message)

    def number(self, message: Message) -> int:
        """The number of the party that sent a message."""
        return self._numbers[message.sender]

    @property
    def survivors(self) -> frozenset[int]:
        """Parties in the sum."""
        return frozenset(self.publications)

    @property
    def repairers(self) -> frozenset[int]:
        """Surviving parties that share masks with dropped ones."""
        return frozenset(party for party in self.publications if self.neighbours[party] & self.dropped)

    @property
    def certified(self) -> bool:
        """Whether more than two thirds of the active parties signed the drop list."""
        return 3 * len(self.cosigners) > 2 * len(self.active)

    def _check_round(self, message: Message) -> None:
        if (message.run, message.round_number) != (self.terms.run, self.terms.round_number):
            raise Replayed(
                f"The message is of run {message.run.hex()}, round {message.round_number}; this is run "
                f"{self.terms.run.hex()}, round {self.terms.round_number}."
            )
        kind = message.kind
        if kind in _FROM_BOARD:
            entitled = message.sender == self.terms.board
        elif kind is Kind.BEACON:
            entitled = message.sender == self.terms.beacon
        else:
            entitled = message.sender in self._numbers
        if not entitled:
            raise UnknownSender(
                f"{kind.name} came from {message.sender.hex()[:16]}..., who may not send it in this round."
            )

    def _register(self, message: Message) -> None:
        number = self._once(message, self.registered)
        check_exchange_key(message.payload)
        if message.payload in self.registered.values():
            raise Duplicate("Another party has registered this exchange key; generate a fresh one for every round.")
        self.registered[number] = message.payload

    def _close(self, message: Message) -> Phase:
        _no_payload(message)
        if len(self.registered) <= max(self.terms.out_degree, self.terms.minimum_parties - 1):
            raise TooFewParties(
                f"{len(self.registered)} parties have registered; more than out_degree = "
                f"{self.terms.out_degree} and at least "
                f"minimum_parties = {self.terms.minimum_parties} are needed. Keep registration open."
            )
        return Phase.DRAWING

    def _draw(self, message: Message) -> Phase:
        if len(message.payload) != 32:
            raise Malformed(f"A beacon has 32 bytes; this one has {len(message.payload)}.")
        # Bound to the registrations as well: one value does not give two rounds the same graph.
        seed = hashlib.sha256(message.payload + self.opened).digest()
        parties = sorted(self.registered)
        edges = k_out_edges(seed, num_parties=len(parties), out_degree=self.terms.out_degree)
        lists = neighbours(edges, len(parties))
        self.neighbours = {
            party: frozenset(parties[other] for other in others) for party, others in zip(parties, lists, strict=True)
        }
        return Phase.PREPARATION

    def _ready(self, message: Message) -> None:
        number = self._once(message, self.ready)
        _no_payload(message)
        if number not in self.registered:
            raise UnknownSender(f"Party {number} says it is ready but has not registered.")
        self.ready.add(number)

    def _freeze(self, message: Message) -> Phase:
        active = unpack_parties(message.payload)
        if active != self.ready:
            raise FalseList(
                f"The freeze lists {sorted(active)}; ready are {sorted(self.ready)}. It must list exactly those."
            )
        if len(active) < self.terms.minimum_parties:
            raise TooFewParties(
                f"{len(active)} parties are ready; minimum_parties = {self.terms.minimum_parties}. Wait for "
                "more, or end the round."
            )
        self.active = active
        return Phase.PUBLICATION

    def _publish(self, message: Message) -> None:
        number = self._once(message, self.publications)
        if number not in self.active:
            raise UnknownSender(f"Party {number} publishes but was not ready at the freeze.")
        self.publications[number] = unpack_words(message.payload, self.terms.dimension)

    def _drop(self, message: Message) -> Phase:
        dropped = unpack_parties(message.payload)
        silent = self.active - self.survivors
        if dropped != silent:
            raise FalseList(
                f"The drop list names {sorted(dropped)}; silent are {sorted(silent)}. It must name exactly those."
            )
        self.dropped = dropped
        return Phase.COSIGNING if dropped else Phase.COMPLETE

    def _cosign(self, message: Message) -> Phase | None:
        number = self._once(message, self.cosigners)
        _no_payload(message)
        if number not in self.publications:
            raise UnknownSender(f"Party {number} signs the drop list but is not in the sum.")
        self.cosigners.add(number)
        if not self.certified:
            return None
        return Phase.REPAIR if self.repairers else Phase.COMPLETE

    def _repair(self, message: Message) -> Phase | None:
        number = self._once(message, self.repairs)
        if number not in self.repairers:
            raise UnknownSender(
                f"Party {number} shares no mask with a dropped party; there is nothing for it to repair."
            )
        self.repairs[number] = unpack_words(message.payload, self.terms.dimension)
        return Phase.COMPLETE if self.repairers == self.repairs.keys() else None

    def _once(self, message: Message, done: dict[int, bytes] | dict[int, np.ndarray] | set[int]) -> int:
        number = self.number(message)
        if number in done:
            raise Duplicate(f"Party {number} has already sent its {message.kind.name}; the first one stands.")
        return number


def _no_payload(message: Message) -> None:
    if message.payload:
        raise Malformed(f"{message.kind.name} carries no payload; this one has {len(message.payload)} bytes.")
