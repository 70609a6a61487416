"""Sending and receiving: greetings, sealed words, receipts, and all of them again until they arrive.

Words are sealed when they leave, never before: after a crash the same integers, which the store kept, are sealed again under the keys of the new
start. Nothing here draws noise or changes a state.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from sottovoce.deployment.identity import Session
from sottovoce.deployment.identity.refusals import DifferentAgreement, DifferentRoster, DifferentVersion, Equivocation
from sottovoce.deployment.party import wire
from sottovoce.deployment.party.book import Book
from sottovoce.deployment.party.evidence import Caught
from sottovoce.deployment.party.exclusion import LETTER as STATEMENT
from sottovoce.deployment.party.neighbours import Neighbours
from sottovoce.deployment.party.outbox import Outbox
from sottovoce.deployment.party.refused import Refused
from sottovoce.deployment.party.stalls import SILENT, Missing, Stalls
from sottovoce.deployment.party.statements import NO_CLAIM, Claim, packed
from sottovoce.deployment.party.testimony import Testimony
from sottovoce.deployment.store import RestoredBackup
from sottovoce.deployment.transports import Transport, nothing
from sottovoce.errors import ProtocolError

RETURNED = 4.0  # seconds of silence after which a neighbour that is heard again may have lost what was sent meanwhile
REFUSAL_WAIT = 1.0  # seconds between two answers to somebody who is refused
NEWS_WAIT = 0.1  # seconds between two bundles of statements for somebody, where there are new ones


class Watch(Protocol):
    """Time, and who looks on."""

    def clock(self) -> float:
        """Seconds that only grow."""

    def moment(self, name: str) -> None:
        """Called before and after everything that a crash could fall into, for tests that end the process there."""

    def log(self, event: str, **values: object) -> None:
        """Take down an event."""


class Heard(NamedTuple):
    """Words that came."""

    sender: str
    position: int
    content: bytes
    claim: Claim
    done: Callable[[], None] = nothing  # to be called when they are written down, or of no use


class Notice(NamedTuple):
    """A statement about lost parties that came in the open; empty: its sender shows that it knows an older agreement only."""

    sender: str
    blob: bytes


class Post:
    """The mail of one party in one run, and what is not acknowledged of it."""

    def __init__(
        self,
        session: Session,
        transport: Transport,
        neighbours: Neighbours,
        book: Book,
        watch: Watch,
        testimony: Testimony,
    ) -> None:
        """Begin with what the store says was not acknowledged.

        Args:
            session: greets, seals and opens.
            transport: open.
            neighbours: all others of the run.
            book: what the store keeps of it.
            watch: the time, and who looks on.
            testimony: what is known of who said what.

        Attributes:
            refused: what was refused of whom.
        """
        self._session, self._transport, self._book, self._watch = session, transport, book, watch
        self.neighbours, self.outbox = neighbours, Outbox()
        self.refused, self._testimony = Refused(watch.log), testimony
        testimony.keep(max(0, book.committed))  # statements are about exchanges near the one that was written down last
        book.keep_statements = testimony.keep
        self._told: dict[str, tuple[int, int]] = {}  # by neighbour: what the last message said of statements
        self._news = (0, 0), watch.clock()
        for receiver, position, words in book.outgoing():
            self.outbox.put(receiver, position, words, watch.clock())
        self._unwritten: set[str] = set()  # whose acknowledgements are not in the file yet
        self.sent_bytes = self.resends = 0
        self.heard_at = watch.clock()  # when something genuine came last
        self._shown: dict[str, tuple[bytes, float]] = {}  # which statements somebody was told last, and when
        self.stalls = Stalls(session.members, session.party)
        self.missing: tuple[Missing, ...] = ()  # who is missing anywhere, as far as others tell
        self._waited: float | None = None  # since when the others are told that this party waits

    @property
    def session(self) -> Session:
        """Which greets, seals and opens."""
        return self._session

    @property
    def run_keys(self) -> dict[str, bytes]:
        """Public keys of the others in this run."""
        return self._session.run_keys

    def written(self) -> None:
        """Note that a transaction has taken all acknowledgements along."""
        self._unwritten.clear()

    def write_acknowledgements(self) -> bool:
        """Have the store forget what others have taken, and tell those who are fully served that nobody waits for them; False: nothing was new."""
        if not self._unwritten:
            return False
        served = [name for name in sorted(self._unwritten) if not self.outbox.of(name)]
        self._book.flush()
        self._unwritten.clear()
        for name in served:
            self.send_receipt(name)
        return True

    def all_settled(self, lost: Callable[[str], bool]) -> bool:
        """Whether all neighbours, but those who count as lost, have said that they wait for no receipt of this party."""
        return all(neighbour.settled or lost(name) for name, neighbour in self.neighbours.items())

    def patience(self, least: float) -> float:
        """Seconds of silence after which nothing more is to be expected: twice the time of a receipt, at least so many."""
        return max([least, *(2 * self.outbox.usual(name) for name, _ in self.neighbours.items())])

    def tell_news(self) -> None:
        """After the last exchange: send a receipt to everybody for whom there are new statements, or who sent some."""
        for name, neighbour in self.neighbours.items():
            stand = self._testimony.passing.stand(name)
            if neighbour.ready and self._told.get(name) != stand and not self._transport.busy(name):
                self.send_receipt(name)

    def all_told(self, patience: float) -> bool:
        """Whether nobody waits for a statement; True too when for so many seconds nothing new was learnt or counted, which nobody can prolong at will."""
        names = [name for name, _ in self.neighbours.items()]
        news, now = self._testimony.stand(names), self._watch.clock()
        if news != self._news[0]:
            self._news = news, now
        return self._testimony.complete(names) or now - self._news[1] >= patience

    def remind_unsettled(self, every: float) -> None:
        """Say again what was taken to those who may wait for it, after so many seconds, and then less and less often."""
        now = self._watch.clock()
        for name, neighbour in self.neighbours.items():
            waits = not neighbour.settled or not self._testimony.served(name)
            due = neighbour.wants_reminder(now, max(every, self.outbox.usual(name)))
            if waits and due and not self._transport.busy(name):
                neighbour.reminded, neighbour.reminders = now, neighbour.reminders + 1
                self.send_receipt(name)

    def send_words(self, receiver: str, position: int, words: bytes) -> None:
        """Send words that are written down, and again until they are acknowledged."""
        self.outbox.put(receiver, position, words, self._watch.clock())
        self._send_words(receiver, position, words, onwards=True)

    def send_receipt(self, receiver: str) -> None:
        """Say what was taken."""
        self._watch.moment("before ack")
        self._seal(receiver, wire.RECEIPT, self._book.taken, b"")
        self._watch.moment("after ack")

    def send_due(self) -> None:
        """Send again whatever was not answered for long enough."""
        now = self._watch.clock()
        for name in self.neighbours.to_greet(now, self._transport.busy):
            self._greet(name)
        for receiver, position, words in self.outbox.due(now, self._transport.busy):
            if self.neighbours[receiver].ready:
                self.resends += 1
                self._send_words(receiver, position, words)

    def tell_stall(self, position: int, awaited: Callable[[], Sequence[str]], since: float) -> None:
        """Tell all neighbours who is missing, where nothing has moved for a while; that is for people, and decides nothing."""
        now = self._watch.clock()
        if self._waited is not None and since > self._waited:
            self._watch.log("moving", position=position, seconds=round(since - self._waited, 3))
            self._waited, self.missing = None, ()
        if not self.stalls.due(since, now):
            return
        names = [name for name in awaited() if name in self.neighbours]
        silent = [name for name in names if now - self.neighbours[name].heard > SILENT]
        self.missing = tuple(self.stalls.missing(position, names, silent, now))
        if self._waited is None:
            self._waited = since
            self._watch.log("waiting", position=position, awaited=names)
        told = self.stalls.packed(self.missing)
        for name, _ in self.neighbours.items():
            if not self._transport.busy(name):
                self._seal(name, wire.STALL, position, told)

    def wait(self, most: float) -> float:
        """Seconds until something is to be sent again, at most so many."""
        times = [time for time in (self.neighbours.next_due(), self.outbox.next_due()) if time is not None]
        return min([most, *(max(0.0, time - self._watch.clock()) for time in times)])

    def receive(self, timeout: float) -> Heard | Notice | None:
        """Take in one blob; returns words and what concerns lost parties, and deals with everything else.

        Raises:
            RestoredBackup: another party shows what this one has signed, and this store has not.
            DifferentAgreement, DifferentRoster, DifferentVersion: a neighbour has other terms or another release, before anything was sent.
            Caught: a party is proven to have said two things; the neighbours have been told.
        """
        delivery = self._transport.recv(timeout)
        if delivery is None:
            return None
        heard: Heard | Notice | None = None
        try:
            heard = self._taken_in(delivery.sender, delivery.blob)
        finally:
            if not isinstance(heard, Heard):
                delivery.done()
        return heard._replace(done=delivery.done) if isinstance(heard, Heard) else heard

    def _taken_in(self, sender: str, blob: bytes) -> Heard | Notice | None:
        """Words and what concerns lost parties, if that is what came."""
        if blob[:1] == STATEMENT:
            return Notice(sender, blob)
        if sender not in self.neighbours:
            self.refused.note(sender, f"nothing is expected of {sender} in this run", "Stranger")
            return Notice(sender, b"")
        try:
            if blob[:1] != wire.HELLO:
                return self._opened(sender, blob)
            self._greeted(sender, blob)
        except Caught as caught:
            self._pass_on(caught)
            raise
        except RestoredBackup:
            raise
        except (DifferentAgreement, DifferentRoster, DifferentVersion) as error:
            if not self._book.begun:
                raise
            self.note_refusal(sender, error)
            return Notice(sender, b"")
        except ProtocolError as error:
            self.note_refusal(sender, error)
        return None

    def show(self, name: str, statements: bytes, every: float) -> None:
        """Send statements in the open: new ones soon, and the same again every so many seconds.

        Not each at once: a member that says something new all the time would have everybody send all that is known just as often.
        """
        now, (told, at) = self._watch.clock(), self._shown.get(name, (b"", -math.inf))
        if now >= at + (every if statements == told else NEWS_WAIT):
            self._shown[name] = statements, now
            self._send(name, statements)

    def beat(self, every: float) -> None:
        """Let all neighbours hear that this party is there, every so many seconds."""
        now = self._watch.clock()
        for name, neighbour in self.neighbours.items():
            if neighbour.ready and now >= neighbour.reminded + every:
                neighbour.reminded = now
                self.send_receipt(name)

    def forget(self, name: str) -> None:
        """Send nothing more to somebody who is lost, and take nothing."""
        self.outbox.forget(name)
        self.neighbours.forget(name)
        self._unwritten.discard(name)
        self._book.acknowledged(name, self._book.end)

    def check(self, heard: Heard) -> None:
        """Refuse words that were to be the same for several receivers and come without their sender's statement.

        Raises:
            Forged: there is none, or it is of other words.
            Caught: the sender has signed other words too; the neighbours have been told.
        """
        try:
            self._testimony.check(heard.sender, heard.position, heard.content, heard.claim)
        except Caught as caught:
            self._pass_on(caught)
            raise

    def _pass_on(self, caught: Caught) -> None:
        """Show evidence to all neighbours, so that they stop too."""
        evidence = caught.evidence
        self._watch.log("equivocation", sender=evidence.sender, position=evidence.position)
        number = self._testimony.number_of(evidence.sender)
        pair = packed([each._replace(sender=number) for each in evidence.statements])
        for name, _ in self.neighbours.items():
            self._seal(name, wire.EVIDENCE, evidence.position, pair)

    def _greet(self, name: str) -> None:
        neighbour = self.neighbours[name]
        hello = self._session.hello({"boot": self._book.boots, "taken": self._book.taken})
        known = neighbour.start or wire.UNKNOWN
        shown = wire.Greeting(not neighbour.knows_me, known, self._book.proof, self._book.highest(name), hello)
        self._send(name, wire.greeting(shown))

    def _greeted(self, sender: str, blob: bytes) -> None:
        greeting = wire.read_greeting(blob)
        self._book.look_back(greeting.yours)
        neighbour = self.neighbours[sender]
        try:
            self._book.seen(sender, greeting.mine)
            hello = self._session.greet(greeting.hello, sender)
        except (RestoredBackup, DifferentAgreement, DifferentRoster, DifferentVersion, Equivocation) as error:
            self._answer_refused(sender)
            if not isinstance(error, RestoredBackup):
                raise
            self.note_refusal(sender, error)
            return
        fresh = hello.boot != neighbour.start
        neighbour.start, neighbour.refusal = hello.boot, None
        neighbour.boot, neighbour.heard = hello.counters.get("boot"), self._watch.clock()
        self._known(sender, wire.knows(greeting, self._session.boot), fresh=fresh)
        if neighbour.wants_answer(greeting.wanted, fresh, self._watch.clock()):
            self._greet(sender)
        if fresh:
            self._testimony.begin(sender)
            self._told.pop(sender, None)
            self._watch.log("greeted", neighbour=sender, boot=hello.counters.get("boot"))
        self._acknowledge(sender, hello.counters.get("taken", 0))

    def _known(self, sender: str, knows_me: bool, *, fresh: bool = False) -> None:
        """Note whether a neighbour knows this start; once both know each other, it is sent at once what it has not acknowledged."""
        neighbour = self.neighbours[sender]
        begins = knows_me and (fresh or not neighbour.knows_me)
        neighbour.knows_me = knows_me
        if begins:
            self.outbox.hurry(sender, self._watch.clock())

    def _answer_refused(self, sender: str) -> None:
        """Let a party see what it has signed before, or what others have agreed to; not at every knock, or two of them would never stop."""
        neighbour, now = self.neighbours[sender], self._watch.clock()
        if now >= neighbour.reminded + REFUSAL_WAIT:
            neighbour.reminded = now
            self._greet(sender)

    def _opened(self, sender: str, blob: bytes) -> Heard | None:
        opened = self._session.open(sender, blob)
        receipt, bundle, claim, content = wire.unpacked(opened.payload)
        self._book.noted(sender, receipt.proof)
        for refusal in self._testimony.take_in(sender, bundle):
            self.refused.note(sender, refusal)
        now = self._watch.clock()
        if now - self.neighbours[sender].heard > RETURNED:
            self.outbox.retry(sender, now)
        self.neighbours[sender].settled, self.neighbours[sender].heard = receipt.settled, now
        if opened.kind == wire.STALL:
            self.stalls.heard(sender, content, now)
        else:
            self.heard_at = now
        self._known(sender, True)
        self._acknowledge(sender, receipt.taken)
        if opened.kind == wire.EVIDENCE:
            self._testimony.accuse(content)
        return Heard(sender, opened.position, content, claim) if opened.kind == wire.WORDS else None

    def note_refusal(self, sender: str, error: ProtocolError) -> None:
        """Note what was refused of somebody, and why."""
        if sender in self.neighbours:
            self.neighbours[sender].refusal = str(error)
            self.neighbours[sender].refusals += 1
        self.refused.note(sender, error)

    def _acknowledge(self, sender: str, taken: int) -> None:
        self.neighbours[sender].taken = taken
        if self.outbox.drop(sender, taken, self._watch.clock()):
            self._book.acknowledged(sender, taken)
            self._unwritten.add(sender)

    def _send_words(self, receiver: str, position: int, words: bytes, *, onwards: bool = False) -> None:
        self._watch.moment("before send")
        self._seal(receiver, wire.WORDS, position, words, onwards=onwards)
        self._watch.moment("after send")

    def _seal(self, receiver: str, kind: str, position: int, words: bytes, *, onwards: bool = False) -> None:
        if not self.neighbours[receiver].ready:
            return  # it could not open it; it gets everything when both have greeted
        # What is acknowledged but not written down would be sent again after a crash, to somebody who may have left by then.
        settled = receiver not in self._unwritten and not self.outbox.of(receiver)
        receipt = wire.Receipt(self._book.taken, settled, self._book.proof)
        self._told[receiver] = self._testimony.passing.stand(receiver)
        claim = self._testimony.claim(position, words) if kind == wire.WORDS else NO_CLAIM
        payload = wire.packed(receipt, words, self._testimony.passing.bundle(receiver, onwards=onwards), claim)
        self._send(receiver, self._session.seal(receiver, kind, position, payload))

    def _send(self, receiver: str, blob: bytes) -> None:
        self.sent_bytes += len(blob)
        self._transport.send(receiver, blob)
