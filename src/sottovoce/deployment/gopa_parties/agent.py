"""An agent of a run with GOPA: it reads the log, and writes down what it will say before it says it.

    read(entries)     follow the board, check everything, move the model when a round has ended
    act()             the next message, if it is this agent's turn: made, written down in one transaction, and only then handed out
    waiting()         messages that the log does not show yet: the same bytes, to be sent again

One transaction holds the exchange key of the round, the log as far as it was read, every message that was said in the round, and the meter. Whoever
comes back after a crash therefore has the same key, and says the same bytes again or nothing; a publication is made once, from noise that is drawn for it alone
and kept nowhere. The store's positions make a second one impossible: a step of a round is written once.

    position = 8 (round - 1) + step,      steps: REGISTER, READY, PUBLISH, COSIGN, REPAIR

An agent takes part in one opening of a round, the first it was shown and wrote down; what the log shows of its own must be what it has said, or
somebody else speaks in its name. A publication goes to the neighbours as well (`to_neighbours`), who then refuse to call this agent dropped whatever
the board does. When a publication may leave, and when others may call its agent dropped, is `deadlines`.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from sottovoce.deployment.agent import Own, Randomness, final_model, flatten, unflatten
from sottovoce.deployment.gopa import Kind, Message, Party, Phase, Transcript
from sottovoce.deployment.gopa.refusals import WrongTime
from sottovoce.deployment.gopa_parties.clock import SYSTEM, Clock
from sottovoce.deployment.gopa_parties.deadlines import Deadlines
from sottovoce.deployment.gopa_parties.log import Ended, Log, is_opening
from sottovoce.deployment.gopa_parties.packing import as_array, packed, unpacked
from sottovoce.deployment.gopa_parties.plan import Plan
from sottovoce.deployment.gopa_parties.value import contribution, first_state, moved
from sottovoce.deployment.identity import Identity
from sottovoce.errors import ProtocolError

STEPS = 8  # positions of a round in the store
_STEP = {Kind.REGISTER: 0, Kind.READY: 1, Kind.PUBLISH: 2, Kind.COSIGN: 3, Kind.REPAIR: 4}
_MOST_BESIDE = 1024  # bytes of a publication beside its words


class SpokenFor(ProtocolError):
    """The log shows a message of this party that it has not said: another process has its key, or its store was set back."""


class Step(NamedTuple):
    """One transaction of an agent."""

    position: int
    state: np.ndarray
    held: Mapping[str, np.ndarray]

    def __repr__(self) -> str:
        return f"<Step at position {self.position}>"


class Notebook(Protocol):
    """Where an agent writes down what it will say."""

    def write(self, step: Step) -> None:
        """Keep a step durably; when this returns it may be said."""

    def last(self) -> tuple[int, np.ndarray, Mapping[str, np.ndarray]] | None:
        """(position, state, held) of the last step; None before the first."""


@dataclass(slots=True)
class _Round:
    """What an agent keeps in mind of the round that is open."""

    opening: bytes
    before: int  # entries of the log before the opening
    deadlines: Deadlines
    entries: list[bytes] = field(default_factory=list)  # since then
    said: dict[Kind, bytes] = field(default_factory=dict)
    exchange: X25519PrivateKey | None = None
    handed: dict[int, bytes] = field(default_factory=dict)  # publications, by whoever brought them
    quiet: str | None = None  # why this agent says nothing more
    published_here: bool = False  # the publication was handed out by this process


class Agent:
    """One agent of a run.

    Attributes:
        log: what it has read.
        ended: is called with every round that ends, after the model has moved.
    """

    def __init__(
        self,
        plan: Plan,
        identity: Identity,
        own: Own,
        randomness: Randomness,
        notebook: Notebook,
        ended: Callable[[Ended], None] = lambda ended: None,
        clock: Clock = SYSTEM,
    ) -> None:
        """Begin, or go on where the notebook ends.

        Args:
            plan: of the run.
            identity: who it is.
            own: its records.
            randomness: where batches and its own noise come from.
            notebook: its store.
            ended: told of every round that ends.
            clock: this agent's own.
        """
        self._plan, self._identity, self._own, self._randomness = plan, identity, own, randomness
        self._notebook, self.ended, self._clock = notebook, ended, clock
        self.number = plan.agents.index(identity.public_key)
        self.log = Log(plan)
        self._state = first_state(plan)
        self._round = self._new_round(b"", 0)
        self._resume()

    @property
    def quiet(self) -> str | None:
        """Why it says nothing more in this round; None while it does."""
        return self._round.quiet

    @property
    def late(self) -> str | None:
        """Why what this agent owes the log of this round will not come; None where it may, or is there."""
        transcript = self.log.transcript
        owed = transcript is not None and Kind.READY in self._round.said and self.number not in transcript.survivors
        return self._round.deadlines.late if owed else None

    @property
    def model(self) -> np.ndarray:
        """[d] float64: what all hold now."""
        return final_model(self._plan.unmasked, self._plan.lattice, self._state)

    def read(self, entries: Sequence[bytes]) -> None:
        """Follow the log.

        Raises:
            SpokenFor: an entry in this agent's name that it has not made.
            ProtocolError: the board accepted what the rules forbid, or shows another history.
        """
        for raw in entries:
            if is_opening(raw):
                self._open(raw)
            else:
                self._check_own(message := self.log.append(raw), raw)
                self._round.entries.append(raw)
                if message.kind is Kind.FREEZE:
                    self._round.deadlines.active = self._clock.monotonic()

    def witness(self, sender: int, raw: bytes) -> None:
        """Take a publication that its sender hands over; one is kept of each, until the round of it is over, and none that is too large."""
        if sender != self.number and len(raw) <= 8 * self._plan.run.dimension + _MOST_BESIDE:
            self._round.handed[sender] = raw

    def act(self) -> bytes | None:
        """The next message of this agent, if it is its turn; it is written down before it is returned.

        Raises:
            StoreError: it could not be written down; then it may not be sent, and this object is of no more use.
        """
        transcript = self.log.transcript
        if transcript is None:
            return None
        kind = self._turn(transcript)
        if kind is None or self.quiet is not None:
            return None
        if kind is Kind.REGISTER:
            self._round.exchange = X25519PrivateKey.generate()
        if kind is Kind.READY:
            self._round.deadlines.ready = self._clock.read()
        try:
            raw = self._made(kind, transcript)
        except ProtocolError as refusal:
            # Not saying anything is always allowed, and what forbids a step now forbids it for the rest of the round.
            self._round.quiet = str(refusal)
            return None
        said = {**self._round.said, kind: raw}
        self._write(_STEP[kind], said)
        self._round.said = said
        return raw

    def waiting(self) -> list[bytes]:
        """What this agent has said in the current phase and the log does not show, as far as it may leave now."""
        transcript = self.log.transcript
        if transcript is None:
            return []
        found = {
            kind: raw
            for kind, raw in self._round.said.items()
            if not _shown(transcript, kind, self.number) and not self._too_late(kind)
        }
        self._round.published_here |= Kind.PUBLISH in found
        return [*found.values()]

    def unheard(self) -> bool:
        """Whether a publication of this process is not in the log long after its time: it may still lie in some queue, which must be emptied.

        Half of the time between the last publication and the first revealed mask is left then.
        """
        transcript = self.log.transcript
        if transcript is None or not self._round.published_here or self.number in transcript.survivors:
            return False
        return self._round.deadlines.unheard()

    def to_neighbours(self) -> tuple[frozenset[int], bytes] | None:
        """Neighbours that should have this agent's publication from itself, and its bytes; None where there is none to hand over now."""
        transcript, raw = self.log.transcript, self._round.said.get(Kind.PUBLISH)
        if transcript is None or raw is None or self._too_late(Kind.PUBLISH):
            return None
        # Not in the phase of publications alone: a board that names dropped agents early would keep neighbours that crash from getting it again.
        self._round.published_here = True
        return transcript.neighbours[self.number] & transcript.active, raw

    def _too_late(self, kind: Kind) -> bool:
        """Whether something that was said may not leave this process any more: a publication, or the READY that promises one."""
        return kind in (Kind.READY, Kind.PUBLISH) and self._round.deadlines.check() is not None

    def _new_round(self, opening: bytes, before: int) -> _Round:
        return _Round(opening, before, Deadlines(self._clock, self._plan.times))

    def _open(self, raw: bytes) -> None:
        round_, before = self.log.round_, self.log.length
        over = self.log.open(raw)
        if over is not None:
            self._state = moved(self._plan, self._state, round_, over.sum)
            self.ended(over)
        self._round = self._new_round(raw, before)

    def _resume(self) -> None:
        kept = self._notebook.last()
        if kept is None:
            return
        _, state, held = kept
        self._state = unflatten(self._plan.unmasked, state)
        opening, *entries = unpacked(held["log"].tobytes())
        before = int(held["before"][0])
        self.log = Log.resume(self._plan, opening, before)
        self.log.open(opening)
        self._round = current = self._new_round(opening, before)
        current.exchange = X25519PrivateKey.from_private_bytes(held["exchange"].tobytes())
        current.said = {Kind(raw[0]): raw[1:] for raw in unpacked(held["said"].tobytes())}
        self.read(entries)

    def _check_own(self, message: Message, raw: bytes) -> None:
        if message.sender == self._identity.public_key and self._round.said.get(message.kind) != raw:
            raise SpokenFor(
                f"The log of round {self.log.round_} shows a {message.kind.name} of {self._identity.name} that this store does not know. Another process "
                "uses the same key, or the store was set back to an older copy. Nothing more is sent; find the other one before going on."
            )

    def _turn(self, transcript: Transcript) -> Kind | None:
        """What this agent has to say in the phase that the log is in."""
        n, sure = self.number, self._round.deadlines.sure
        turns: dict[Phase, tuple[Kind, bool]] = {
            Phase.REGISTRATION: (Kind.REGISTER, True),
            Phase.PREPARATION: (Kind.READY, n in transcript.registered),
            Phase.PUBLICATION: (Kind.PUBLISH, n in transcript.active),
            Phase.COSIGNING: (Kind.COSIGN, n in transcript.survivors and sure),
            Phase.REPAIR: (Kind.REPAIR, n in transcript.repairers and (sure or Kind.COSIGN in self._round.said)),
        }
        kind, mine = turns.get(transcript.phase, (Kind.REGISTER, False))
        return kind if mine and kind not in self._round.said else None

    def _made(self, kind: Kind, transcript: Transcript) -> bytes:
        party, deadlines = self._party(transcript), self._round.deadlines
        if kind is Kind.PUBLISH:
            self._check_time()
            party.check_publishable(now=deadlines.publishing())  # before records are touched and noise is drawn
            made = self._with_value(transcript).publish(now=deadlines.publishing())
            self._check_time()  # that took time
            return made
        if kind is Kind.COSIGN:
            return party.cosign(now=deadlines.waited())
        return {Kind.REGISTER: party.register, Kind.READY: party.ready, Kind.REPAIR: party.repair}[kind]()

    def _check_time(self) -> None:
        late = self._round.deadlines.check()
        if late is not None:
            raise WrongTime(late)

    def _with_value(self, transcript: Transcript) -> Party:
        plan, round_ = self._plan, self.log.round_
        made = contribution(plan, self.number, self._own, self._state, round_, self._randomness)
        return self._party(transcript, plan.lattice.to_float(made.value), made.own_noise)

    def _party(
        self, transcript: Transcript, value: np.ndarray | None = None, own_noise: np.ndarray | None = None
    ) -> Party:
        assert self._round.exchange is not None  # drawn when this agent registered
        party = Party(transcript, self._identity.signing_key, value, exchange=self._round.exchange, own_noise=own_noise)
        party.recall(sent=self._round.said.keys(), witnessed=self._seen(transcript))
        return party

    def _seen(self, transcript: Transcript) -> frozenset[int]:
        """Whose publications of this round were handed over to this process."""
        found = set()
        for raw in self._round.handed.values():
            with contextlib.suppress(ProtocolError):  # of another round, or nobody's
                found.add(transcript.check_publication(raw))
        return frozenset(found)

    def _write(self, step: int, said: Mapping[Kind, bytes]) -> None:
        exchange = self._round.exchange
        assert exchange is not None  # drawn when this agent registered
        held = {
            "exchange": as_array(exchange.private_bytes_raw()),
            "log": as_array(packed([self._round.opening, *self._round.entries])),
            "said": as_array(packed(bytes([kind]) + raw for kind, raw in said.items())),
            "before": np.array([self._round.before], dtype=np.int64),
        }
        position = STEPS * (self.log.round_ - 1) + step
        self._notebook.write(Step(position, flatten(self._state), held))


def _shown(transcript: Transcript, kind: Kind, number: int) -> bool:
    """Whether a message is in the log, or too late for it."""
    phase, there = {
        Kind.REGISTER: (Phase.REGISTRATION, transcript.registered),
        Kind.READY: (Phase.PREPARATION, transcript.ready),
        Kind.PUBLISH: (Phase.PUBLICATION, transcript.publications),
        Kind.COSIGN: (Phase.COSIGNING, transcript.cosigners),
        Kind.REPAIR: (Phase.REPAIR, transcript.repairs),
    }[kind]
    return transcript.phase is not phase or number in there
