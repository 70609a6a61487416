"""How a party's loop goes on without those who are lost: who counts as lost, what is handed on, and when the next agreement holds.

A party that waits doubts every neighbour of whom nothing genuine has come for as long as the agreement says, and takes that back when it hears it again. Parties that wait
send each other receipts meanwhile, so that whoever is there is heard. Somebody is lost whom none of its neighbours hears, for a while longer: then all vote (`doubts`, `exclusion`). Before
this party has greeted everybody once nobody counts as lost: not everybody starts at the same time. Nor does anybody as long as this party hears nobody at all: then it is itself cut
off, or what carries all messages is down, and who is heard a little later than others afterwards is not lost.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from sottovoce.deployment.identity import Session
from sottovoce.deployment.party.exclusion import Excluded, Exclusion, SecondSelf, about, bundle, unbundled
from sottovoce.deployment.party.post import Notice, Post, Watch
from sottovoce.deployment.party.work import Work
from sottovoce.deployment.store import Meter
from sottovoce.deployment.terms import Agreement
from sottovoce.errors import ProtocolError

HAND_ON = 1.0  # seconds after which statements are handed on again, where there are no new ones
BEAT = 1.0  # seconds, at most, between two signs of life of a party that waits
_BEATS = 8  # of them, at least, before a silent party counts as lost
_LASTING = 4  # parts of the same time; one of them passes between the last doubt and a vote


class Course(NamedTuple):
    """An agreement, and what a party does under it."""

    agreement: Agreement
    work_of: Callable[[Session], Work]
    spent: Callable[[int], Meter]

    def __repr__(self) -> str:
        return f"<Course of {self.agreement.run!r} under {self.agreement.digest.hex()[:16]}>"


GoesOn = Callable[
    [Course, frozenset[str], int, int], Course
]  # now, who is lost, the cut, what this party had committed -> what follows


class GoingOn:
    """One party's part in going on under one agreement."""

    def __init__(
        self, course: Course, exclusion: Exclusion, post: Post, watch: Watch, goes_on: GoesOn, *, start: int
    ) -> None:
        """Begin.

        Args:
            course: the agreement that holds.
            exclusion: what parties have signed about those who are lost.
            post: how this party talks.
            watch: the time, and who looks on.
            goes_on: makes what follows; refuses with what the agreement or the ledger does not allow.
            start: number of this start of the party.
        """
        self._start = start
        self._course, self.exclusion, self._post, self._watch, self._goes_on = course, exclusion, post, watch, goes_on
        self._began = self._started = watch.clock()
        self._reached: tuple[frozenset[str], float] = frozenset(), self._began  # who is out of reach, and since when
        self._without: frozenset[str] = frozenset()
        self.following: Course | None = None  # once the cut is known

    @property
    def lost(self) -> frozenset[str]:
        """Without whom this party has voted to go on."""
        return self.exclusion.lost

    def take(self, notice: Notice) -> None:
        """Take in a statement of this agreement.

        Raises:
            Excluded: all others go on without this party.
            SecondSelf: this party has signed what its store does not know.
        """
        try:
            for statement in unbundled(notice.blob) if notice.blob else ():
                if about(statement) == self._course.agreement.digest:
                    self.exclusion.take(statement)
        except (Excluded, SecondSelf):
            raise
        except ProtocolError as error:
            self._post.note_refusal(notice.sender, error)

    def look(self, committed: int, idle: float, *, begun: bool) -> None:
        """Doubt who is silent for too long, vote against who is out of everybody's reach, join the votes of others, and hand on what is known.

        Args:
            committed: the last exchange that this party has committed.
            idle: seconds since this party last achieved something.
            begun: whether this party has greeted everybody once.
        """
        limit = self._course.agreement.exclude_after
        if idle >= (beat := min(BEAT, limit / _BEATS)):
            self._post.beat(beat)
        if not begun:
            return
        self._count_anew_where_cut_off()
        silent = [name for name, _ in self._post.neighbours.items() if idle > limit / 2 and self.is_silent(name)]
        self.exclusion.doubt(frozenset(silent), self._start << 32)
        reached = self.exclusion.out_of_reach
        agreed = frozenset() if any(self._is_heard(name) for name in reached) else reached
        new = (self._lasting(agreed) | self.exclusion.joins(self._is_heard)) - self.lost
        if new and self.exclusion.vote(new, committed):
            self._watch.log("lost", parties=sorted(self.lost), committed=committed)
        if self.exclusion.statements():
            known = bundle(self.exclusion.statements())
            for name, _ in self._post.neighbours.items():
                self._post.show(name, known, HAND_ON)

    def reduced(self, session: Session) -> Work | None:
        """What this party does up to the cut without those who are lost, when that is new; else None.

        Raises:
            BudgetExhausted: what follows would cost more than was reserved.
            ConfigError, IncompatibleChoice: those who remain cannot go on.
        """
        cut = self.exclusion.cut
        if cut is None or self._without == self.lost:
            return None
        self.following = self._goes_on(self._course, self.lost, cut, self.exclusion.voted_at)
        self._without = self.lost
        for name in self.lost:
            self._post.forget(name)
        self._watch.log("cut", after=cut, without=sorted(self.lost), follows=self.following.agreement.digest.hex())
        return self.following.work_of(session)

    def done(self, position: int, end: int, keep_state: Callable[[], None]) -> bool:
        """Whether the next exchange belongs to the agreement that follows, and all who remain have consented to it.

        Args:
            position: of the next exchange.
            end: the position after the last one.
            keep_state: writes the state after the cut down; called before this party consents.
        """
        cut = self.exclusion.cut
        if cut is None or self.following is None or self._without != self.lost or not position == cut + 1 < end:
            return False
        if not self.exclusion.consented:
            keep_state()  # others go on as soon as this consent is known, and send nothing of the old agreement again
            self.exclusion.consent(self.following.agreement.digest)
        return self.exclusion.certain

    def is_silent(self, name: str) -> bool:
        """Whether a neighbour counts as lost."""
        return name in self._post.neighbours and not self._is_heard(name)

    def has_gone(self, name: str) -> bool:
        """Whether a neighbour was not heard of for so long that a party with its model need not wait for its receipts; whoever else is heard."""
        heard = max(self._post.neighbours[name].heard, self._started)
        return self._watch.clock() - heard > self._course.agreement.exclude_after

    def _lasting(self, names: frozenset[str]) -> frozenset[str]:
        """These, once they are the same for a while: where a network was divided and heals, doubts come before their senders take them back."""
        now = self._watch.clock()
        if names != self._reached[0]:
            self._reached = names, now
        return names if now - self._reached[1] >= self._course.agreement.exclude_after / _LASTING else frozenset()

    def _count_anew_where_cut_off(self) -> None:
        """Let silence begin later as long as nobody at all is heard: then this party, or whoever carries all messages, is cut off, and once that is over everybody has as long again to be heard."""
        neighbours = [*self._post.neighbours.items()]
        if any(self.exclusion.has_finished(name) for name, _ in neighbours):
            return  # who has finished may have left
        now, last = self._watch.clock(), max((each.heard for _, each in neighbours), default=math.inf)
        if now - last > self._course.agreement.exclude_after:
            self._began = now

    def _is_heard(self, name: str) -> bool:
        return name in self._post.neighbours and self._silence(name) <= self._course.agreement.exclude_after

    def _silence(self, name: str) -> float:
        """Seconds since something genuine of a neighbour came, since this party started, or since it was cut off."""
        return self._watch.clock() - max(self._post.neighbours[name].heard, self._began)
