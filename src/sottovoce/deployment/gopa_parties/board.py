"""The board of a run: it keeps the log, opens rounds, and decides when phases end.

It holds one key, with which it signs openings and ends of phases, and nothing else that is secret. Entries are written down before anybody is shown
them, so that after a crash it shows the log that it has shown before.

    open round t      when the last one is complete or given up, and enough agents are there; the first one when all are
    end of a phase    when all that are expected have spoken, or as long after its beginning as the plan says
    give up           a round that cannot go on any more: too few published, or its time is over; it changes nothing

What follows at the end of a phase is no choice of the board's (`gopa.transcript`), and when it ends does no harm (`deadlines`). Times are measured by
the monotonic clock since this process wrote or read the entry that began the phase; a board that was started again waits once more.
"""

import hashlib
from collections.abc import Callable, Sequence

from sottovoce.deployment.gopa import Board, Phase, Transcript
from sottovoce.deployment.gopa_parties.clock import SYSTEM, Clock
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

    def __init__(self, plan: Plan, identity: Identity, kept: Sequence[bytes], clock: Clock = SYSTEM) -> None:
        """Begin, or go on with the entries that were kept.

        Args:
            plan: of the run.
            identity: the board's.
            kept: entries that were written down.
            clock: the board's.
        """
        if identity.public_key != plan.board:
            raise ConfigError(f"{identity.name} is not the board that the agreement lists. Give the board its own key.")
        self._plan, self._identity, self._clock = plan, identity, clock
        self._began: dict[Phase, int] = {}  # when phases of the round began, by the monotonic clock
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

    def tick(self, present: frozenset[int], *, expected: frozenset[int], beacon: bool) -> None:
        """End phases and open rounds, as far as it is time.

        Args:
            present: agents that are there: of enough of them a round is opened.
            expected: agents that may be on their way back: registration waits for them.
            beacon: whether the beacon is there.
        """
        while self._move(present, expected, beacon):
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
            self._round, self._began = set(), {}
        else:
            assert self._board is not None  # an opening comes first
            self._board.post(raw)
        self._note(raw)

    def _note(self, raw: bytes) -> None:
        self.entries.append(raw)
        self._round.add(hashlib.sha256(raw).digest())
        self._unwritten.append(raw)
        if self.log.transcript is not None:
            self._began.setdefault(self.log.transcript.phase, self._clock.monotonic())

    def _move(self, present: frozenset[int], expected: frozenset[int], beacon: bool) -> bool:
        if self.log.over:
            return False
        transcript = self.log.transcript
        if transcript is None or transcript.phase is Phase.COMPLETE or self._hopeless(transcript):
            return self._open(present, beacon)
        return self._end_phase(transcript, expected)

    def _open(self, present: frozenset[int], beacon: bool) -> bool:
        last = self.log.round_ == self._plan.run.rounds
        needed = len(self._plan.agents) if self.log.round_ == 0 else self._plan.least
        if not last and (len(present) < needed or not beacon):
            return False
        time = max(0, self._clock.wall())  # a clock may stand before 1970
        self._append(signed_opening(self._identity, self._plan, self.log.round_ + 1, time, self.log.head))
        return True

    def _hopeless(self, transcript: Transcript) -> bool:
        """Whether a round that is not complete never will be."""
        if transcript.phase is Phase.COSIGNING and len(transcript.survivors) < transcript.terms.minimum_parties:
            return True
        if transcript.phase < Phase.PUBLICATION:
            return self._since(Phase.REGISTRATION) >= self._plan.times.begin
        return self._since(Phase.PUBLICATION) >= self._plan.times.end

    def _end_phase(self, transcript: Transcript, expected: frozenset[int]) -> bool:
        board, times = self._board, self._plan.times
        assert board is not None  # a round is open
        ends: dict[Phase, tuple[int, Callable[[], object]]] = {
            Phase.REGISTRATION: (times.register, board.close_registration),
            Phase.PREPARATION: (times.ready, board.freeze),
            Phase.PUBLICATION: (
                times.drops,
                lambda: board.close_publication(now=self._since(Phase.PUBLICATION)),
            ),
        }
        if transcript.phase not in ends:
            return False
        most, end = ends[transcript.phase]
        over = self._since(transcript.phase) >= most
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

    def _since(self, phase: Phase) -> int:
        """Milliseconds since a phase of this round began, as this process has seen it."""
        return self._clock.monotonic() - self._began[phase]
