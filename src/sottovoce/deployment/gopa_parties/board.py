"""The board of a run: it keeps the log, opens rounds, and decides when phases end.

It holds one key, with which it signs openings and ends of phases, and nothing else that is secret. Entries are written down before anybody is shown
them, so that after a crash it shows the log that it has shown before.

    open round t      when the last one is complete or given up, and enough agents are there; the first one when all are
    end of a phase    when all that are expected have spoken, or at the times of the plan
    give up           a round that cannot go on any more: too few published, or its time is over; it changes nothing

What follows at the end of a phase is no choice of the board's (`gopa.transcript`), and its time does no harm (`plan`).
"""

import hashlib
from collections.abc import Callable, Sequence

from sottovoce.deployment.gopa import Board, Phase, Transcript
from sottovoce.deployment.gopa_parties.log import Log, is_opening, signed_opening
from sottovoce.deployment.gopa_parties.plan import Plan
from sottovoce.deployment.identity import Identity
from sottovoce.errors import ConfigError, ProtocolError


class LogKeeper:
    """The board of one run.

    Attributes:
        log: as far as it is written.
        entries: of the log.
    """

    def __init__(self, plan: Plan, identity: Identity, kept: Sequence[bytes]) -> None:
        """Begin, or go on with the entries that were kept.

        Args:
            plan: of the run.
            identity: the board's.
            kept: entries that were written down.
        """
        if identity.public_key != plan.board:
            raise ConfigError(f"{identity.name} is not the board that the agreement lists. Give the board its own key.")
        self._plan, self._identity = plan, identity
        self.log = Log(plan)
        self.entries: list[bytes] = []
        self._board: Board | None = None
        self._round: set[bytes] = set()  # digests of the round's entries
        self._unwritten: list[bytes] = []
        for raw in kept:
            self._append(raw)
        self._unwritten.clear()

    def take(self, raw: bytes) -> None:
        """Take in a message of an agent or of the beacon; one that is in the log already changes nothing.

        Raises:
            ProtocolError: the rules forbid it; nothing has changed.
        """
        if hashlib.sha256(raw).digest() in self._round:
            return
        if self._board is None or is_opening(raw):
            raise ProtocolError("a message came while no round is open; it is ignored.")
        self._append(raw)

    def tick(self, now: int, present: frozenset[int], *, expected: frozenset[int], beacon: bool) -> None:
        """End phases and open rounds, as far as it is time.

        Args:
            now: the board's clock, in milliseconds since 1970.
            present: agents that are there: of enough of them a round is opened.
            expected: agents that may be on their way back: registration waits for them.
            beacon: whether the beacon is there.
        """
        while self._move(now, present, expected, beacon):
            pass

    def new_entries(self) -> list[bytes]:
        """Entries since the last call, to be written down and then shown."""
        found, self._unwritten = self._unwritten, []
        return found

    def awaited(self, present: frozenset[int]) -> frozenset[int]:
        """Agents whose messages the open phase is waiting for."""
        transcript = self.log.transcript
        if transcript is None:
            return frozenset(range(len(self._plan.agents))) - present
        return {
            Phase.REGISTRATION: frozenset(range(len(self._plan.agents))) - transcript.registered.keys(),
            Phase.PREPARATION: frozenset(transcript.registered) - transcript.ready,
            Phase.PUBLICATION: transcript.active - transcript.survivors,
            Phase.COSIGNING: transcript.survivors - transcript.cosigners,
            Phase.REPAIR: transcript.repairers - transcript.repairs.keys(),
        }.get(transcript.phase, frozenset())

    def _append(self, raw: bytes) -> None:
        if is_opening(raw):
            self.log.open(raw)
            transcript = self.log.transcript
            self._board = None if transcript is None else Board(transcript, self._identity.signing_key)
            self._round = set()
        else:
            assert self._board is not None  # an opening comes first
            self._board.post(raw)
        self._note(raw)

    def _note(self, raw: bytes) -> None:
        self.entries.append(raw)
        self._round.add(hashlib.sha256(raw).digest())
        self._unwritten.append(raw)

    def _move(self, now: int, present: frozenset[int], expected: frozenset[int], beacon: bool) -> bool:
        if self.log.over:
            return False
        transcript = self.log.transcript
        if transcript is None or transcript.phase is Phase.COMPLETE or self._hopeless(transcript, now):
            return self._open(now, present, beacon)
        return self._end_phase(transcript, now, expected)

    def _open(self, now: int, present: frozenset[int], beacon: bool) -> bool:
        last = self.log.round_ == self._plan.run.rounds
        needed = len(self._plan.agents) if self.log.round_ == 0 else self._plan.least
        if not last and (len(present) < needed or not beacon):
            return False
        self._append(signed_opening(self._identity, self._plan, self.log.round_ + 1, now, self.log.head))
        return True

    def _hopeless(self, transcript: Transcript, now: int) -> bool:
        """Whether a round that is not complete never will be."""
        if transcript.phase is Phase.COSIGNING and len(transcript.survivors) < transcript.terms.minimum_parties:
            return True
        unpublished = transcript.phase < Phase.PUBLICATION and now > transcript.terms.publish_until
        return unpublished or now >= self._since(self._plan.times.end)

    def _end_phase(self, transcript: Transcript, now: int, expected: frozenset[int]) -> bool:
        board, times = self._board, self._plan.times
        assert board is not None  # a round is open
        late: dict[Phase, tuple[bool, Callable[[], object]]] = {
            Phase.REGISTRATION: (now >= self._since(times.register), board.close_registration),
            Phase.PREPARATION: (now >= self._since(times.ready), board.freeze),
            Phase.PUBLICATION: (now >= transcript.terms.drops_from, lambda: board.close_publication(now=now)),
        }
        if transcript.phase not in late:
            return False
        over, end = late[transcript.phase]
        waited = self.awaited(expected)
        if transcript.phase is Phase.REGISTRATION:
            waited &= expected
        if waited and not over:
            return False
        try:
            end()
        except ProtocolError:
            return False  # too few; it stays open until the round is given up
        self._note(board.log[-1].raw)
        return True

    def _since(self, milliseconds: int) -> int:
        assert self.log.opening is not None  # a round is open
        return self.log.opening.time + milliseconds
