"""The life of a party in a run: one exchange after the other, each written down before anything of it is sent.

    speak(p)   wait until no receiver of p owes two receipts -> prepare -> ONE transaction -> send, and say what was taken
    hear(p)    wait for the words of all senders of p -> take -> p + 1
    settle     the state is erased; stay until everything is acknowledged
    go on      those who remain have agreed to go on without somebody who is lost (`going_on`); this loop ends, and another begins

An agent speaks and then hears; a relay hears and then speaks. `taken = n` means that the words of the exchanges 0..n-1 are in a committed state:
after the transaction of exchange p an agent has taken p, a relay p + 1. A message says so to whom it goes; who sent something in the last exchange
and gets no message now is sent a receipt. Since a sender keeps what was not taken, a party that crashes anywhere goes on from its last transaction:
its own words are sent again as they were, the others' come again.

Nobody can be stuck for ever among parties that keep coming back. Of all that are not done take one with the fewest committed exchanges, m: the
words it needs next were written down by parties with at least as many, and are kept for it; what it sent before m has been taken by all, so that it
may speak.
"""

from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np

from sottovoce.deployment.identity.refusals import Forged
from sottovoce.deployment.party import wire
from sottovoce.deployment.party.book import Book
from sottovoce.deployment.party.exclusion import bundle, is_about
from sottovoce.deployment.party.going_on import HAND_ON, GoingOn
from sottovoce.deployment.party.inbox import Inbox
from sottovoce.deployment.party.post import Heard, Notice, Post, Watch
from sottovoce.deployment.party.work import Arrays, Work

Phase = Literal["greet", "speak", "hear", "finish", "settle", "done", "go on"]
LINGER = 3.0  # seconds in which a party that needs nothing more still answers others, at least
REMINDER = 0.4  # seconds after which it says again what it has taken to those who may not know


def all_others(work: Work, positions: range) -> frozenset[str]:
    """Everybody whom a party sends to, hears or shares keys with at some exchanges."""
    return frozenset(name for p in positions for name in (*work.receivers(p), *work.senders(p), *work.partners(p)))


class Loop:
    """One party in one run. `advance` does what can be done now; call it until it returns True."""

    def __init__(
        self,
        work: Work,
        book: Book,
        post: Post,
        watch: Watch,
        measure: Callable[[int, float], None],
        going_on: GoingOn | None = None,
    ) -> None:
        """Take up the run where the store has it.

        Args:
            work: what this party does.
            book: what it keeps.
            post: how it talks.
            watch: the time, and who looks on.
            measure: called with the position and the seconds of every exchange that is done.
            going_on: what is agreed on for those who are lost; None: they are waited for.
        """
        self._work, self._book, self._post, self._watch, self._measure = work, book, post, watch, measure
        self._going_on, self._certificate = going_on, book.certificate()
        self._inbox = Inbox()
        self._heard: dict[str, np.ndarray] = {}
        self._held: Arrays = {}
        self._state = np.zeros((0, 0), dtype=np.int64)
        self.phase: Phase = "greet"
        self.position = 0
        self.model: np.ndarray | None = None  # once the last exchange is taken
        self.progressed = self._began = watch.clock()  # when something was last achieved; when this exchange began
        self._after_greeting = self._resume()
        # Who has nothing more to do with this party may have left for good, and need not greet it.
        self._needed = all_others(work, range(self.position, work.end))

    def _resume(self) -> Phase:
        """Take position and state from the store; returns what comes after the greetings."""
        kept = self._book.current()
        if kept is None:
            self._state = self._work.start()
            return "hear" if self._work.hears_first else "speak"
        self.position, self._state, self._held = kept
        if self.position == self._work.end:
            self.model = self._state
            return "settle"
        if self._book.follows and not self._work.hears_first:
            self.position += 1
            return "speak"
        if not self._work.hears_first:
            if (taken := self._book.kept_state()) is None:
                return "hear"
            self._state, self.position = taken, self.position + 1
            return "speak"
        self.position += 1
        return "hear" if self.position < self._work.end else "finish"

    @property
    def state(self) -> np.ndarray:
        """The state after the last exchange that was taken."""
        return self._state

    @property
    def held(self) -> Arrays:
        """What the last exchange left for later ones of its round."""
        return self._held

    def let_go(self) -> None:
        """Forget words that came and are not needed, since the run goes on under another agreement."""
        self._inbox.let_go()

    def awaited(self) -> list[str]:
        """Of whom something is missing, for people who look on."""
        if self._going_on is not None and (missing := self._going_on.exclusion.missing()):
            return missing
        if self.phase == "greet":
            return sorted(self._not_greeted())
        if self.phase == "hear":
            return self._inbox.missing(self.position, self._work.senders(self.position))
        if self.phase == "speak":
            return [name for name in self._work.receivers(self.position) if self._post.outbox.full(name)]
        return self._post.outbox.receivers()

    def advance(self, wait: float) -> bool:
        """Take in what comes within some seconds, and do all that can be done then; True when nothing is left to do.

        Raises:
            ProtocolError: another party proves that this store was set back, or contradicts itself.
        """
        heard = self._post.receive(self._post.wait(wait))
        if isinstance(heard, Notice):
            self._take_notice(heard)
        elif heard is not None:
            self._take_in(heard)
        self._look_for_lost()
        while self._move():
            self.progressed = self._watch.clock()
        self._post.send_due()
        self._post.tell_stall(self.position, self.awaited, self.progressed)
        return self.phase in ("done", "go on")

    def _take_notice(self, notice: Notice) -> None:
        """Take in what others sign about lost parties; who knows only an older agreement is shown what came after it."""
        if self._going_on is not None:
            self._going_on.take(notice)
        if self._certificate and not is_about(notice.blob, self._post.session.agreement):
            self._post.show(notice.sender, bundle(self._certificate), HAND_ON)

    def _look_for_lost(self) -> None:
        """Go on without those who are lost, as far as all who remain agree."""
        going_on = self._going_on
        if going_on is None or self.phase == "done":
            return
        idle = self._watch.clock() - self.progressed
        committed = max(0, min(self._book.committed, self._work.end - 1))
        going_on.look(committed, idle, begun=self._book.begun or self.phase != "greet")
        if (work := going_on.reduced(self._post.session)) is not None:
            self._work = work
            self._needed = all_others(work, range(self.position, work.end))
            # A relay may have heard somebody who came back after it was voted against.
            self._heard = {name: self._heard[name] for name in self._heard if name in work.senders(self.position)}
            self.progressed = self._watch.clock()
        state = self._state
        if self.model is None and going_on.done(self.position, self._work.end, lambda: self._book.keep_state(state)):
            self.phase = "go on"

    def _take_in(self, heard: Heard) -> None:
        """Keep words that are needed now or later; what was taken before is only acknowledged again."""
        sender, position, content, _, done = heard
        if position < self._book.taken:
            done()
            self._post.send_receipt(sender)
            return
        if not position < self._work.end or sender not in self._work.senders(position):
            done()
            self._post.refused.note(
                sender, f"nothing is expected of {sender} at exchange {position}; it is ignored", "NotExpected"
            )
            return
        if position < self.position or (position == self.position and self.phase == "speak" and self._heard):
            done()
            return  # taken, but not written down yet: the receipt goes out with the next transaction
        try:
            words = wire.as_words(content, self._work.dimension, sender)
            self._post.check(heard)
        except (wire.OtherShape, Forged) as error:
            done()
            self._post.refused.note(sender, error)
            return
        if not self._inbox.put(sender, position, words, done):
            self._post.refused.note(
                sender, f"{sender} is too far ahead, at exchange {position}; it is ignored", "TooFarAhead"
            )

    def _move(self) -> bool:
        """One step, if nothing is missing for it."""
        steps: dict[Phase, Callable[[], bool]] = {
            "greet": self._all_greeted,
            "hear": self._hear,
            "speak": self._speak,
            "finish": self._finish,
            "settle": self._settle,
        }
        return self.phase in steps and steps[self.phase]()

    def _not_greeted(self) -> list[str]:
        lost = frozenset() if self._going_on is None else self._going_on.lost
        return [name for name in self._needed - lost if not self._post.neighbours[name].ready]

    def _all_greeted(self) -> bool:
        if self._not_greeted():
            return False
        self.phase, self._began = self._after_greeting, self._watch.clock()
        self._watch.log("ready", position=self.position)
        return True

    def _hear(self) -> bool:
        position, senders = self.position, self._work.senders(self.position)
        if self._inbox.missing(position, senders):
            return False
        heard = self._inbox.pop(position, senders)
        if self._work.hears_first:
            self._heard, self.phase = heard, "speak"
            return True
        self._state = self._work.take(position, self._state, self._held, heard)
        self._next()
        return True

    def _speak(self) -> bool:
        position, receivers = self.position, self._work.receivers(self.position)
        if any(self._post.outbox.full(name) for name in receivers):
            return False
        if self._going_on is not None and not self._going_on.exclusion.allows(position):
            return False
        spoken = self._work.prepare(position, self._state, self._held, self._heard)
        outgoing = {name: wire.as_bytes(words) for name, words in spoken.words.items()}
        self._watch.moment("before commit")
        self._book.commit(position, spoken.state, spoken.held, outgoing, self._post.run_keys)
        self._watch.moment("after commit")
        self._post.written()
        self._inbox.written()
        self._state, self._held, self._heard = spoken.state, spoken.held, {}
        for name, words in outgoing.items():
            self._post.send_words(name, position, words)
        self._acknowledge(position if self._work.hears_first else position - 1, told=outgoing)
        if self._work.hears_first:
            self._next()
        else:
            self.phase = "hear"
        return True

    def _acknowledge(self, position: int, told: Mapping[str, bytes]) -> None:
        """Send receipts to the senders of an exchange, but for those who were told along with words."""
        for sender in self._work.senders(position) if position >= 0 else ():
            if sender not in told:
                self._post.send_receipt(sender)

    def _next(self) -> None:
        now = self._watch.clock()
        self._measure(self.position, now - self._began)
        self._began = now
        self.position += 1
        if self.position == self._work.end:
            self.phase = "finish"
        else:
            self.phase = "hear" if self._work.hears_first else "speak"

    def _finish(self) -> bool:
        self.model = self._work.model(self._state)
        self._watch.moment("before finish")
        self._book.finish(self.model)
        self._watch.moment("after finish")
        self._post.written()
        self._inbox.written()
        if self._going_on is not None:
            self._going_on.exclusion.finish(self._work.end - 1)
        self._state, self._held = np.zeros((0, 0), dtype=np.int64), {}
        for name, _ in self._post.neighbours.items():
            self._post.send_receipt(name)
        self.phase = "settle"
        return True

    def _settle(self) -> bool:
        """Leave when everything was acknowledged and nobody waits for a receipt or a statement of ours, or after a while of silence."""
        self._post.tell_news()
        if self._post.write_acknowledgements():
            return True
        lost = _nobody if self._going_on is None else self._going_on.has_gone
        if any(not lost(name) for name in self._post.outbox.receivers()):
            return False
        linger = self._post.patience(LINGER)
        settled = self._post.all_settled(lost) or self._watch.clock() - self._post.heard_at >= linger
        if not settled or not self._post.all_told(linger):
            self._post.remind_unsettled(REMINDER)
            return False
        assert self.model is not None  # it was made before
        self._book.close(self.model)
        self.phase = "done"
        return True


def _nobody(name: str) -> bool:
    """Who counts as lost where everybody is waited for."""
    return False
