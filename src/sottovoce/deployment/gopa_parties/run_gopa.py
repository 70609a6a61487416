"""`run_gopa`: one role of a run with GOPA as a process, from its first question, or from wherever a crash left it, to the end of the run.

    agent     reserve -> follow the log -> speak when it is its turn -> model
    beacon    follow the log -> draw when registration is closed
    board     keep the log, show it, end phases -> stay until all have the whole log

Everything that a run needs is handed in: this module reads no configuration and no data, and knows no command line.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sottovoce.deployment.agent import Own, Randomness
from sottovoce.deployment.gopa_parties import wire
from sottovoce.deployment.gopa_parties.agent import STEPS, Agent, Step
from sottovoce.deployment.gopa_parties.beacon import Beacon
from sottovoce.deployment.gopa_parties.board import LogKeeper
from sottovoce.deployment.gopa_parties.log import Ended
from sottovoce.deployment.gopa_parties.packing import as_array
from sottovoce.deployment.gopa_parties.plan import Plan, names_by_role, plan_of
from sottovoce.deployment.gopa_parties.reader import Follows, Reader
from sottovoce.deployment.gopa_parties.serving import Serving, kept_entries
from sottovoce.deployment.party import (
    Book,
    Journal,
    Onlooker,
    OthersMissing,
    Phase,
    Place,
    Progress,
    Served,
    begun_run,
    keep_memory_private,
)
from sottovoce.deployment.store import Meter, Reservation
from sottovoce.deployment.terms import Agreement, PublicRun
from sottovoce.deployment.transports import Delivery
from sottovoce.errors import ConfigError
from sottovoce.wording import brief

PAUSE = 0.1  # seconds between two looks at the clock
AGAIN = 1.0  # seconds before something that the log does not show is sent again
LINGER = 3.0  # seconds in which a reader waits for the board to know that it has everything
_MOST_AT_ONCE = 64  # blobs that are taken in before anything is done with them
_NOTHING = np.zeros((0, 0), dtype=np.int64)


class Records(NamedTuple):
    """What an agent has beside its key."""

    own: Own
    randomness: Randomness

    def __repr__(self) -> str:
        return f"<Records: {self.own!r}>"


class _Role(NamedTuple):
    """One start of one role."""

    plan: Plan
    agreement: Agreement
    place: Place
    book: Book
    watch: Onlooker
    progress: Callable[[Progress], None]

    def names(self) -> dict[str, tuple[str, ...]]:
        return {role: tuple(names) for role, names in names_by_role(self.agreement).items()}


def run_gopa(
    agreement: Agreement,
    run: PublicRun,
    place: Place,
    records: Records | None,
    *,
    reserve: Callable[[], Reservation],
    spent: Callable[[int], Meter],
    progress: Callable[[Progress], None] = lambda progress: None,
    moment: Callable[[str], None] = lambda name: None,
) -> Served:
    """Take part in a run until it has ended, or until others were not heard of for too long.

    Args:
        agreement: what this role has accepted.
        run: its public parts.
        place: who and where it is; the role is that of its identity.
        records: of an agent; None for board and beacon, which have none.
        reserve: the entry of the ledger for this run; asked once, before anything is sent.
        spent: rounds that this agent has published in -> the meter after them.
        progress: told from time to time.
        moment: called before and after everything that a crash could fall into, for tests that end the process there.

    Raises:
        BudgetExhausted: the ledger does not allow the run; nothing was sent.
        OthersMissing: others were not heard of within the agreement's time limit; call again to go on.
        RestoredBackup: the board has seen more of this store than it holds; nothing more is sent.
        ProtocolError: the board broke the rules, or somebody speaks in this party's name.
        StoreError: the disk failed; nothing of the step was sent.
    """
    role = place.identity.role
    if (role == "agent") != (records is not None) or role not in _ROLES:
        raise ConfigError(f"{place.identity.name} is {role}; an agent has records, a board and a beacon have none.")
    keep_memory_private()
    plan = plan_of(run, agreement)
    record = begun_run(agreement, place.store, reserve)
    if record.run_key is None:
        model = place.store.model(agreement.digest)
        return Served(model=np.zeros(0) if model is None else model, unacknowledged=())
    journal = Journal(place.folder)
    try:
        _check_room(place, plan)
        place.transport.open()
        book = Book(
            place.store,
            agreement.digest,
            place.identity,
            place.roster,
            hears_first=False,
            end=2**62,
            spent=lambda position: spent(published_rounds(position)),
        )
        watch = Onlooker(journal, moment)
        watch.log("started", boot=book.boots, party=place.identity.name, run=agreement.run, role=role)
        return _ROLES[role](_Role(plan, agreement, place, book, watch, progress), records)
    finally:
        place.transport.close()
        journal.close()


def published_rounds(position: int) -> int:
    """In how many rounds an agent may have published, at a position of its store."""
    return position // STEPS + (position % STEPS >= 2)


def _run_agent(role: _Role, records: Records | None) -> Served:
    assert records is not None  # checked
    plan, place, watch = role.plan, role.place, role.watch
    model = place.store.model(role.agreement.digest)
    if model is not None:
        return Served(model=model, unacknowledged=())
    own, randomness = records
    agent = Agent(plan, place.identity, own, randomness, _Pages(role), lambda ended: _ended(role, ended))
    reader = _reader(role, agent)
    numbers = {name: number for number, name in enumerate(role.names()["agent"])}
    names = list(numbers)
    again = -np.inf
    while not agent.log.over:
        now = watch.clock()
        for delivery in _deliveries(role):
            if delivery.sender in numbers and delivery.blob[:1] == wire.HAND:
                agent.witness(numbers[delivery.sender], delivery.blob[1:])
            else:
                _take(role, reader, delivery, now)
        _check_heard(role, reader, agent)
        reader.ask(now)
        if not reader.current:
            continue
        new = agent.act(_milliseconds)
        again = -np.inf if new is not None else again
        if now - again >= AGAIN:
            again = now
            _send(role, reader, agent, names)
        _tell(role, agent.log.round_, ())
    return _finish(role, reader, agent.model)


def _send(role: _Role, reader: Reader, agent: Agent, names: list[str]) -> None:
    """Send what the log does not show, and a publication to the neighbours too."""
    for raw in agent.waiting(_milliseconds()):
        role.watch.moment("before send")
        reader.send(raw)
        role.watch.moment("after send")
    neighbours, raw = agent.to_neighbours(_milliseconds()) or (frozenset(), b"")
    for neighbour in sorted(neighbours):
        role.place.transport.send(names[neighbour], wire.HAND + raw)


def _check_heard(role: _Role, reader: Reader, agent: Agent) -> None:
    """Stop where nobody is heard of, or where a publication may still lie somewhere on its way when masks are revealed."""
    if agent.unheard(_milliseconds()):
        raise OthersMissing(
            f"The board's log does not show what {role.place.identity.name} published in round {agent.log.round_}, and the time for it is over. This "
            "process stops, so that nothing is sent late. Start it again with the same command: it goes on with the next round."
        )
    _check_missing(role, reader)


def _check_missing(role: _Role, reader: Reader) -> None:
    if role.watch.clock() - reader.heard > role.agreement.time_limit:
        raise OthersMissing(
            f"The board was not heard of for {role.agreement.time_limit} seconds, in the run {brief(role.agreement.run)!r}. Ask whoever runs it to start "
            "it, and start this party again with the same command: it goes on where it is."
        )


def _run_beacon(role: _Role, records: Records | None) -> Served:
    beacon = Beacon(role.plan, role.place.identity, _Values(role))
    reader = _reader(role, beacon)
    again = -np.inf
    while not beacon.log.over:
        now = role.watch.clock()
        for delivery in _deliveries(role):
            _take(role, reader, delivery, now)
        _check_missing(role, reader)
        reader.ask(now)
        raw = beacon.act() if reader.current else None
        if raw is not None and now - again >= AGAIN:
            again = now
            reader.send(raw)
        elif raw is None:
            again = -np.inf
        _tell(role, beacon.log.round_, ())
    return _finish(role, reader, None)


def _run_board(role: _Role, records: Records | None) -> Served:
    place, watch, names = role.place, role.watch, role.names()
    keeper = LogKeeper(role.plan, place.identity, kept_entries(role.book))
    agents = {name: number for number, name in enumerate(names["agent"])}
    progressed = watch.clock()
    serving = Serving(keeper, agents, names["beacon"][0], place, role.book, progressed)
    while not (keeper.log.over and not serving.behind()):
        now = watch.clock()
        for delivery in _deliveries(role):
            serving.take(delivery, now, watch)
        present, beacon = serving.present(now)
        expected = serving.expected(now, role.plan.times.register / 1000)
        keeper.tick(_milliseconds(), present, expected=expected, beacon=beacon)
        if serving.write_and_show(now, watch.moment):
            progressed = now
        waits = serving.behind() if keeper.log.over else [names["agent"][n] for n in sorted(keeper.awaited(present))]
        _tell(role, keeper.log.round_, tuple(waits))
        if now - progressed > role.agreement.time_limit:
            _check_served(role, keeper, waits)
            break
    return _leave(role, tuple(serving.behind()))


def _check_served(role: _Role, keeper: LogKeeper, waits: Sequence[str]) -> None:
    if not keeper.log.over:
        raise OthersMissing(
            f"{', '.join(waits) or 'the beacon'} were not heard of for {role.agreement.time_limit} seconds, in round {keeper.log.round_} of the run "
            f"{brief(role.agreement.run)!r}. Ask them to start, and start the board again with the same command: it goes on where it is."
        )


def _leave(role: _Role, left: tuple[str, ...]) -> Served:
    """End a board; its log stays, for those who have not read all of it."""
    store, digest = role.place.store, role.agreement.digest
    record = store.run(digest)
    if record is not None and record.status == "running":
        store.finish(digest, None)
    role.watch.log("stopped", missing=left)
    return Served(model=np.zeros(0), unacknowledged=left)


def _reader(role: _Role, reads: Follows) -> Reader:
    (board,) = role.names()["board"]
    return Reader(reads, board, role.place.transport, role.book, role.plan.digest, role.watch.clock())


def _deliveries(role: _Role) -> Iterator[Delivery]:
    """What has come: wait a little for the first, and for no other."""
    wait = PAUSE
    for _ in range(_MOST_AT_ONCE):
        delivery = role.place.transport.recv(wait)
        if delivery is None:
            return
        yield delivery
        delivery.done()  # everything that counts is asked for or sent again until the log shows it
        wait = 0.0


def _take(role: _Role, reader: Reader, delivery: Delivery, now: float) -> None:
    (board,) = role.names()["board"]
    if delivery.sender == board and delivery.blob[:1] == wire.SHOW:
        reader.take(delivery.blob, now)


def _finish(role: _Role, reader: Reader, model: np.ndarray | None) -> Served:
    """Keep the model, erase everything else, and let the board know that this reader needs nothing more."""
    role.watch.moment("before finish")
    role.place.store.finish(role.agreement.digest, model)
    role.watch.moment("after finish")
    until = role.watch.clock() + LINGER
    while reader.answered < reader.length and role.watch.clock() < until:
        reader.ask(role.watch.clock())
        for delivery in _deliveries(role):
            _take(role, reader, delivery, role.watch.clock())
    role.watch.log("stopped", missing=[])
    return Served(model=np.zeros(0) if model is None else model, unacknowledged=())


def _tell(role: _Role, round_: int, awaited: tuple[str, ...]) -> None:
    rounds = role.plan.run.rounds
    phase: Phase = "greet" if round_ == 0 else "hear" if round_ <= rounds else "settle"
    role.progress(Progress(phase, min(max(round_ - 1, 0), rounds), rounds, awaited, 0.0, 0))


def _ended(role: _Role, ended: Ended) -> None:
    parties = [] if ended.sum is None else sorted(ended.sum.parties)
    dropped = sorted(ended.transcript.dropped)
    role.watch.log("round", number=ended.round_, counts=ended.sum is not None, parties=parties, dropped=dropped)


def _check_room(place: Place, plan: Plan) -> None:
    """Refuse a model whose messages do not fit into a blob, before anything is sent."""
    needed = 8 * plan.run.dimension + 2**14
    if needed > place.transport.max_blob:
        raise ConfigError(
            f"a message of this run has up to {needed:,} bytes, and this transport carries {place.transport.max_blob:,}. Agree on a smaller model."
        )


def _milliseconds() -> int:
    """The time, since 1970."""
    return time.time_ns() // 1_000_000


class _Pages:
    """An agent's notebook: its pages of the store."""

    def __init__(self, role: _Role) -> None:
        self._book, self._watch = role.book, role.watch

    def write(self, step: Step) -> None:
        """Keep a step."""
        self._watch.moment("before commit")
        self._book.commit(step.position, step.state, step.held, {}, {})
        self._watch.moment("after commit")

    def last(self) -> tuple[int, np.ndarray, Mapping[str, np.ndarray]] | None:
        """The last step."""
        return self._book.current()


class _Values:
    """A beacon's values: its pages of the store."""

    def __init__(self, role: _Role) -> None:
        self._book, self._watch = role.book, role.watch
        kept = role.book.current()
        self._last = None if kept is None else (kept.position, kept.held["value"].tobytes())

    def write(self, round_: int, raw: bytes) -> None:
        """Keep a value."""
        self._watch.moment("before commit")
        self._book.commit(round_, _NOTHING, {"value": as_array(raw)}, {}, {})
        self._watch.moment("after commit")
        self._last = round_, raw

    def last(self) -> tuple[int, bytes] | None:
        """The last value."""
        return self._last


_ROLES: dict[str, Callable[[_Role, Records | None], Served]] = {
    "agent": _run_agent,
    "beacon": _run_beacon,
    "board": _run_board,
}
