"""`run_party`: one party in one run, from the first greeting, or from wherever a crash left it, to the last receipt.

    reserve, or find the run in the store -> count this start -> greet -> one exchange after the other -> model -> stay until all is acknowledged

Where those who remain go on without somebody who is lost, the same begins again under the agreement that follows, from the exchange after the cut.

Everything that a run needs is handed in: this module reads no configuration and no data, and knows no command line.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sottovoce.deployment.identity import Identity, Roster, Session, fresh_boot, new_run_key, packing
from sottovoce.deployment.ledger import Ledger
from sottovoce.deployment.party import stalls, statements, wire
from sottovoce.deployment.party.book import Book
from sottovoce.deployment.party.evidence import Caught, keep_evidence, kept_evidence
from sottovoce.deployment.party.exclusion import Exclusion
from sottovoce.deployment.party.going_on import Course, GoesOn, GoingOn
from sottovoce.deployment.party.journal import Journal
from sottovoce.deployment.party.loop import Loop, Phase, all_others
from sottovoce.deployment.party.neighbours import Neighbours
from sottovoce.deployment.party.onlooker import Onlooker, Operation
from sottovoce.deployment.party.post import Post
from sottovoce.deployment.party.quiet import give_back_free_memory, keep_memory_private, memory_kb
from sottovoce.deployment.party.standing import Other, Standing
from sottovoce.deployment.party.stopping import Stopped
from sottovoce.deployment.party.succeeded import latest_course
from sottovoce.deployment.party.testimony import Testimony
from sottovoce.deployment.party.work import Work
from sottovoce.deployment.store import Meter, Reservation, RunRecord, Store
from sottovoce.deployment.terms import Agreement
from sottovoce.deployment.transports import Transport
from sottovoce.errors import ConfigError, ProtocolError, SottovoceError
from sottovoce.wording import brief

LONGEST_PAUSE = 0.5  # seconds between two looks at the clock


class OthersMissing(ProtocolError):
    """Others were not heard of for as long as the agreement waits. Nothing is lost: the same command goes on."""


class RunEnded(OthersMissing):
    """Others were not heard of for as long as the agreement waits, and it ends the run then."""


class Progress(NamedTuple):
    """Where a party stands, for people who look on."""

    phase: Phase
    position: int
    end: int
    awaited: tuple[str, ...]
    seconds: float  # of the last exchange; 0 before the first one
    resends: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one party is, apart from the run.

    Attributes:
        identity: its keys.
        roster: it and the others.
        store: of its data set, open for writing.
        transport: not open yet; it is closed at the end.
        folder: where the log and the measures go.
        trouble: name -> why a party cannot be reached at the moment, as far as the transport knows; empty: nothing is known.
        operation: how its process is operated.
        relayed: whether somebody else carries the blobs, who may keep some back.
    """

    identity: Identity
    roster: Roster
    store: Store
    transport: Transport
    folder: Path
    trouble: Callable[[str], str] = lambda name: ""
    operation: Operation = field(default_factory=Operation)
    relayed: bool = False

    def __repr__(self) -> str:
        return f"<Place of {self.identity.name} among {len(self.roster)} members>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """How a run ended for one party.

    Attributes:
        model: [d] float64; [0] for a relay.
        unacknowledged: who has not said that it has everything; `run_party` again serves them.
    """

    model: np.ndarray
    unacknowledged: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<Served: {len(self.model)} parameters, {len(self.unacknowledged)} others still to be served>"


def run_party(
    agreement: Agreement,
    place: Place,
    work_of: Callable[[Session], Work],
    *,
    reserve: Callable[[], Reservation],
    spent: Callable[[int], Meter],
    goes_on: GoesOn | None = None,
    progress: Callable[[Progress], None] = lambda progress: None,
    moment: Callable[[str], None] = lambda name: None,
) -> Served:
    """Take part in a run until it is done, or until others were not heard of for too long.

    Args:
        agreement: what this party has accepted.
        place: who and where it is.
        work_of: makes what it does, from the session that gives keys for shared noise.
        reserve: the entry of the ledger for this run; asked once, before anything is sent.
        spent: position -> the meter after that exchange.
        goes_on: makes what follows where the agreement excludes those who are lost; refuses what was not reserved.
        progress: told from time to time.
        moment: called before and after everything that a crash could fall into, for tests that end the process there.

    Raises:
        BudgetExhausted: the ledger does not allow the run, and nothing was sent; or going on would cost more than was reserved, and nothing more is sent.
        OthersMissing: others were not heard of within the agreement's time limit; call again to go on.
        RunEnded: somebody is lost, and the agreement ends the run then.
        Excluded: the others go on without this party.
        RestoredBackup: others have seen more of this store than it holds; nothing more is sent.
        CheatingProven: a party has said two things; the evidence lies in the folder.
        ProtocolError: a neighbour has other terms, or contradicts itself.
        StoreError: the disk failed; nothing of the exchange was sent.
    """
    keep_memory_private()
    record = begun_run(agreement, place.store, reserve)
    course = latest_course(Course(agreement, work_of, spent), place.store, place.identity, place.roster, goes_on)
    if (model := place.store.model(course.agreement.digest)) is not None and not _has_key(place.store, course):
        return Served(model=model, unacknowledged=())
    found = kept_evidence(place.folder, course.agreement.digest)
    if found is not None:
        raise Caught(found)  # the same command does not go on among cheats
    with looked_on(agreement, place, record, moment) as watch:
        try:
            place.transport.open()
            while True:
                ended = _take_part(course, place, goes_on, watch, progress)
                if isinstance(ended, Served):
                    return ended
                course = ended
        except Caught as caught:
            keep_evidence(caught.evidence, place.folder)
            raise
        finally:
            place.transport.close()


@contextlib.contextmanager
def looked_on(
    agreement: Agreement, place: Place, record: RunRecord, moment: Callable[[str], None]
) -> Iterator[Onlooker]:
    """Somebody who looks on at a party as long as it takes part, and takes down how it ended.

    Raises:
        ConfigError: health cannot be served at its address.
    """
    ledger = Ledger(place.store)
    facts: dict[str, Any] = {
        "run": agreement.run,
        "digest": agreement.digest.hex(),
        "party": place.identity.name,
        "role": place.identity.role,
        "store": str(place.store.path.absolute()),
        "program": version("sottovoce"),
        "wire": packing.VERSION,
        "delta": ledger.created.delta,
        "reserved": ledger.standing()[record.entry].cost.epsilon(ledger.created.delta),
    }
    with contextlib.closing(Journal(place.folder, place.operation.log_to)) as journal:
        watch = Onlooker(journal, moment, place.folder, facts, place.operation)
        how, says = "done", "The run is done."
        try:
            yield watch
        except (Stopped, SottovoceError) as error:
            how, says = ("stopped" if isinstance(error, Stopped) else "refused"), str(error)
            raise
        except BaseException as error:
            how, says = "failed", type(error).__name__  # what else it says is not known to be harmless
            raise
        finally:
            watch.end(how, says)


def begun_run(agreement: Agreement, store: Store, reserve: Callable[[], Reservation]) -> RunRecord:
    """The run in the store, begun now unless it was before."""
    record = store.run(agreement.digest)
    if record is None:
        return store.begin_run(agreement.digest, agreement.run, agreement.canonical(), reserve(), new_run_key())
    followed = any(other.entry == record.entry and other.digest != record.digest for other in store.runs())
    if record.status == "cancelled" or (
        record.run_key is None and store.model(agreement.digest) is None and not followed
    ):
        ended = "cancelled" if record.status == "cancelled" else "erased"
        raise ConfigError(
            f"the run {brief(agreement.run)!r} was {ended} in this store, and nothing more is sent in it. Agree on a run with another name."
        )
    return record


def _has_key(store: Store, course: Course) -> bool:
    record = store.run(course.agreement.digest)
    return record is not None and record.run_key is not None


def _take_part(
    course: Course,
    place: Place,
    goes_on: GoesOn | None,
    watch: Onlooker,
    progress: Callable[[Progress], None],
) -> Served | Course:
    """Take part under one agreement; returns the model, or what follows it."""
    agreement, record = course.agreement, place.store.run(course.agreement.digest)
    if record is None or record.run_key is None:
        raise ConfigError(
            f"the run {brief(agreement.run)!r} was erased in this store, and nothing more is sent in it. Agree on a run with another name."
        )
    largest = wire.LONGEST + max(8 * agreement.dimension, stalls.LARGEST, 2 * statements.SIZE)
    _check_room(place.transport, largest)
    session = Session(
        place.identity,
        place.roster,
        agreement.digest,
        agreement.run,
        record.run_key,
        fresh_boot(),
        largest_payload=largest,
    )
    work = course.work_of(session)
    book = Book(
        place.store,
        agreement.digest,
        place.identity,
        place.roster,
        hears_first=work.hears_first,
        end=work.end,
        spent=course.spent,
    )
    session.remember(book.run_keys)
    neighbours = Neighbours(all_others(work, range(work.end)))
    post = Post(session, place.transport, neighbours, book, watch, Testimony(session, work, book.statements))
    going_on = _going_on(course, place, book, post, watch, goes_on)
    seconds: list[float] = [0.0]

    def measure(position: int, took: float) -> None:
        if not seconds[0]:
            give_back_free_memory()
        seconds[0] = took
        watch.measure(position=position, seconds=round(took, 6), bytes=post.sent_bytes, resends=post.resends)

    loop = Loop(work, book, post, watch, measure, going_on)
    watch.log("started", boot=book.boots, position=loop.position, party=place.identity.name, run=agreement.run)

    def standing() -> Standing:
        return _standing(loop, post, book, work, place.trouble, seconds[0], watch.epsilon(book.meter))

    while not loop.advance(LONGEST_PAUSE):
        progress(_progress(loop, post, work.end, seconds[0]))
        watch.look(standing)
        watch.check_stop()
        if watch.clock() - loop.progressed > agreement.time_limit:
            break
    progress(_progress(loop, post, work.end, seconds[0]))
    if loop.phase == "go on":
        return _following(loop, book, going_on, watch)
    missing = loop.awaited()
    watch.look(standing, at_once=True)
    watch.log("stopped", phase=loop.phase, position=loop.position, missing=missing, memory_kb=memory_kb())
    if loop.model is None:
        raise _missing(loop, post, place, agreement, ends=agreement.lost_neighbour == "stop" and book.begun)
    return Served(model=loop.model, unacknowledged=tuple(missing))


def _going_on(
    course: Course, place: Place, book: Book, post: Post, watch: Onlooker, goes_on: GoesOn | None
) -> GoingOn | None:
    """What is agreed on for those who are lost; None where they are waited for."""
    if course.agreement.lost_neighbour != "exclude":
        return None
    if goes_on is None:
        raise ConfigError(
            "the agreement excludes those who are lost, and nothing says how the run goes on without them. Give goes_on."
        )
    exclusion = Exclusion(course.agreement, place.identity, place.roster, kept=book.signed(), keep=book.keep_signed)
    return GoingOn(course, exclusion, post, watch, goes_on, start=book.boots)


def _following(loop: Loop, book: Book, going_on: GoingOn | None, watch: Onlooker) -> Course:
    """Write down, in one transaction, that the run goes on under what all who remain have signed."""
    assert going_on is not None
    assert going_on.following is not None  # the loop has ended for it
    following = going_on.following
    watch.moment("before going on")
    book.succeed(following.agreement, new_run_key(), loop.state, loop.held, going_on.exclusion.signed())
    watch.moment("after going on")
    loop.let_go()
    watch.log("goes on", without=sorted(going_on.lost), after=loop.position - 1)
    return following


def _progress(loop: Loop, post: Post, end: int, seconds: float) -> Progress:
    return Progress(loop.phase, loop.position, end, tuple(loop.awaited()), seconds, post.resends)


def _standing(
    loop: Loop, post: Post, book: Book, work: Work, trouble: Callable[[str], str], seconds: float, spent: float
) -> Standing:
    others = [
        Other(
            name=name,
            heard=each.heard,
            greeted=each.ready,
            taken=each.taken,
            start=each.boot,
            refusals=each.refusals,
            trouble=trouble(name),
        )
        for name, each in post.neighbours.items()
    ]
    return Standing(
        phase=loop.phase,
        round=min(loop.position, work.end - 1) // work.exchanges + 1,
        rounds=work.end // work.exchanges,
        exchange=loop.position,
        exchanges=work.end,
        moved=loop.progressed,
        awaited=tuple(loop.awaited()),
        missing=post.missing,
        others=tuple(others),
        boots=book.boots,
        sent_bytes=post.sent_bytes,
        resends=post.resends,
        seconds=seconds,
        spent=spent,
    )


def _check_room(transport: Transport, largest: int) -> None:
    """Refuse a model whose messages do not fit into a blob, before anything is sent."""
    needed = largest + 1024  # the header of a sealed message
    if needed > transport.max_blob:
        raise ConfigError(
            f"a message of this run has up to {needed:,} bytes, and this transport carries {transport.max_blob:,}. Agree on a smaller model."
        )


def _missing(loop: Loop, post: Post, place: Place, agreement: Agreement, *, ends: bool) -> OthersMissing:
    """Who was not heard of, with what was refused of them, and why they could not be reached; where the agreement says so, the run ends with it."""
    refusals = [f"{name}: {each.refusal}" for name, each in post.neighbours.items() if each.refusal is not None]
    reasons = f" Refused of them: {brief(' '.join(refusals), 600)}" if refusals else ""
    unreached = [f"{name}: {why}" for name in loop.awaited() if (why := place.trouble(name))]
    reasons += f" Not reached: {brief('; '.join(unreached), 600)}." if unreached else ""
    who = (
        f"Not heard of for {agreement.time_limit} seconds, at exchange {loop.position} of the run {brief(agreement.run)!r}: "
        f"{', '.join(loop.awaited()) or 'the others'}."
    )
    if ends:
        place.store.give_up(agreement.digest)
        return RunEnded(
            f"{who} The parties agreed that the run ends then: its keys and its state are erased, nothing more is sent, and its cost stays in the ledger. Agree on a new "
            f"run.{reasons}"
        )
    return OthersMissing(
        f"{who} Ask them to start, and start this party again with the same command: it goes on where it is. If they "
        f"did run, compare digests and rosters with them, and see that their addresses can be reached.{reasons}"
    )
