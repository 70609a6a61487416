"""Sending and receiving: greetings, sealed words, receipts, and all of them again until they arrive.

Words are sealed when they leave, never before: after a crash the same integers, which the store kept, are sealed again under the keys of the new
start. Nothing here draws noise or changes a state.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from sottovoce.deployment.identity import Session
from sottovoce.deployment.identity.refusals import DifferentAgreement, DifferentRoster, Equivocation
from sottovoce.deployment.party import wire
from sottovoce.deployment.party.book import Book
from sottovoce.deployment.party.neighbours import Neighbours
from sottovoce.deployment.party.outbox import Outbox
from sottovoce.deployment.store import RestoredBackup
from sottovoce.deployment.transports import Transport, nothing
from sottovoce.errors import ProtocolError

REFUSAL_WAIT = 1.0  # seconds between two answers to somebody who is refused


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
    done: Callable[[], None] = nothing  # to be called when they are written down, or of no use


class Post:
    """The mail of one party in one run, and what is not acknowledged of it."""

    def __init__(
        self, session: Session, transport: Transport, neighbours: Neighbours, book: Book, watch: Watch
    ) -> None:
        """Begin with what the store says was not acknowledged.

        Args:
            session: greets, seals and opens.
            transport: open.
            neighbours: all others of the run.
            book: what the store keeps of it.
            watch: the time, and who looks on.
        """
        self._session, self._transport, self._book, self._watch = session, transport, book, watch
        self.neighbours, self.outbox = neighbours, Outbox()
        for receiver, position, words in book.outgoing():
            self.outbox.put(receiver, position, words, watch.clock())
        self._unwritten: set[str] = set()  # whose acknowledgements are not in the file yet
        self.sent_bytes = self.resends = 0
        self.heard_at = watch.clock()  # when something genuine came last

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

    def all_settled(self) -> bool:
        """Whether all neighbours have said that they wait for no receipt of this party."""
        return all(neighbour.settled for _, neighbour in self.neighbours.items())

    def remind_unsettled(self, every: float) -> None:
        """Say again what was taken to those who may wait for it, every so many seconds."""
        now = self._watch.clock()
        for name, neighbour in self.neighbours.items():
            if not neighbour.settled and now >= neighbour.reminded + every:
                neighbour.reminded = now
                self.send_receipt(name)

    def send_words(self, receiver: str, position: int, words: bytes) -> None:
        """Send words that are written down, and again until they are acknowledged."""
        self.outbox.put(receiver, position, words, self._watch.clock())
        self._send_words(receiver, position, words)

    def send_receipt(self, receiver: str) -> None:
        """Say what was taken."""
        self._watch.moment("before ack")
        self._seal(receiver, wire.RECEIPT, self._book.taken, b"")
        self._watch.moment("after ack")

    def send_due(self) -> None:
        """Send again whatever was not answered for long enough."""
        now = self._watch.clock()
        for name in self.neighbours.to_greet(now):
            self._greet(name)
        for receiver, position, words in self.outbox.due(now):
            if self.neighbours[receiver].ready:
                self.resends += 1
                self._send_words(receiver, position, words)

    def wait(self, most: float) -> float:
        """Seconds until something is to be sent again, at most so many."""
        times = [time for time in (self.neighbours.next_due(), self.outbox.next_due()) if time is not None]
        return min([most, *(max(0.0, time - self._watch.clock()) for time in times)])

    def receive(self, timeout: float) -> Heard | None:
        """Take in one blob; returns words, and deals with everything else.

        Raises:
            RestoredBackup: another party shows what this one has signed, and this store has not.
            DifferentAgreement, DifferentRoster: a neighbour has other terms, before anything was sent.
        """
        delivery = self._transport.recv(timeout)
        if delivery is None:
            return None
        heard: Heard | None = None
        try:
            heard = self._taken_in(delivery.sender, delivery.blob)
        finally:
            if heard is None:
                delivery.done()
        return None if heard is None else heard._replace(done=delivery.done)

    def _taken_in(self, sender: str, blob: bytes) -> Heard | None:
        """Words, if that is what came."""
        if sender not in self.neighbours:
            return None
        try:
            if blob[:1] != wire.HELLO:
                return self._opened(sender, blob)
            self._greeted(sender, blob)
        except RestoredBackup:
            raise
        except (DifferentAgreement, DifferentRoster) as error:
            if not self._book.begun:
                raise
            self._refused(sender, error)
        except ProtocolError as error:
            self._refused(sender, error)
        return None

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
        except (RestoredBackup, DifferentAgreement, DifferentRoster, Equivocation) as error:
            self._answer_refused(sender)
            if not isinstance(error, RestoredBackup):
                raise
            self._refused(sender, error)
            return
        fresh = hello.boot != neighbour.start
        neighbour.start, neighbour.refusal = hello.boot, None
        self._known(sender, wire.knows(greeting, self._session.boot), fresh=fresh)
        if neighbour.wants_answer(greeting.wanted, fresh, self._watch.clock()):
            self._greet(sender)
        if fresh:
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
        receipt, content = wire.unpacked(opened.payload)
        self._book.noted(sender, receipt.proof)
        self.neighbours[sender].settled, self.heard_at = receipt.settled, self._watch.clock()
        self._known(sender, True)
        self._acknowledge(sender, receipt.taken)
        return Heard(sender, opened.position, content) if opened.kind == wire.WORDS else None

    def _refused(self, sender: str, error: ProtocolError) -> None:
        self.neighbours[sender].refusal = str(error)
        self._watch.log("refused", sender=sender, reason=str(error), kind=type(error).__name__)

    def _acknowledge(self, sender: str, taken: int) -> None:
        if self.outbox.drop(sender, taken):
            self._book.acknowledged(sender, taken)
            self._unwritten.add(sender)

    def _send_words(self, receiver: str, position: int, words: bytes) -> None:
        self._watch.moment("before send")
        self._seal(receiver, wire.WORDS, position, words)
        self._watch.moment("after send")

    def _seal(self, receiver: str, kind: str, position: int, words: bytes) -> None:
        if not self.neighbours[receiver].ready:
            return  # it could not open it; it gets everything when both have greeted
        # What is acknowledged but not written down would be sent again after a crash, to somebody who may have left by then.
        settled = receiver not in self._unwritten and not self.outbox.of(receiver)
        payload = wire.packed(wire.Receipt(self._book.taken, settled, self._book.proof), words)
        self._send(receiver, self._session.seal(receiver, kind, position, payload))

    def _send(self, receiver: str, blob: bytes) -> None:
        self.sent_bytes += len(blob)
        self._transport.send(receiver, blob)
