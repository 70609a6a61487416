"""Parties of an agreement that excludes who is lost, in one process: real identities, sessions, stores and loops; wires and clock are the test's.

Noise is drawn by name and position, so that it stays a party's own when numbers change. Everything that a party prepares and takes is kept for the test.
"""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from deployment.agent.cases import LATTICE, PROBLEM
from deployment.party.parties import Crash, Wire, Wires
from deployment.terms.agreements import DECLARED, protection
from deployment.terms.agreements import PROBLEM as DESCRIBED
from sottovoce.deployment.agent import Wiring, own_of
from sottovoce.deployment.identity import Roster, Session, new_identity
from sottovoce.deployment.ledger import Ledger, create_ledger
from sottovoce.deployment.party import AgentWork, Course, RelayWork, begun_run
from sottovoce.deployment.party.book import Book
from sottovoce.deployment.party.loop import Loop, all_others
from sottovoce.deployment.party.neighbours import Neighbours
from sottovoce.deployment.party.post import Post
from sottovoce.deployment.party.run_party import _following, _going_on
from sottovoce.deployment.party.succeeded import latest_course
from sottovoce.deployment.party.testimony import Testimony
from sottovoce.deployment.privacy import Cost
from sottovoce.deployment.store import Store
from sottovoce.deployment.terms import Agreement, Member, PublicCoin, PublicRun, agreement_of, successor

SILENCE = 4  # seconds


class Draws:
    """Own noise and batches of one party, by its name; which gradients it was asked noise for is kept."""

    def __init__(self, name: str, dimension: int, drawn: list | None = None) -> None:
        self._name, self._dimension = name, dimension
        self._drawn = [] if drawn is None else drawn

    def source(self, position: int, source: int, scale: float) -> np.ndarray:
        seed = [*self._name.encode(), position]
        return np.rint(scale * np.random.default_rng(seed).standard_normal(self._dimension)).astype(np.int64)

    def gradient_noise(self, round_: int, step: int, scale: float) -> np.ndarray:
        self._drawn.append((self._name, round_, step))
        seed = [*self._name.encode(), round_, step, 1]
        return np.rint(scale * np.random.default_rng(seed).standard_normal(self._dimension)).astype(np.int64)

    def batch(self, round_: int, step: int, records: int, size: int) -> np.ndarray:
        seed = [*self._name.encode(), round_, step, 2]
        return np.sort(np.random.default_rng(seed).permutation(records)[:size])


class Kept:
    """A party's work, with a record of what it prepared and took."""

    def __init__(self, work, name: str, log: list) -> None:
        self._work, self._name, self._log = work, name, log

    def __getattr__(self, what: str):
        return getattr(self._work, what)

    def prepare(self, position, state, held, heard):
        spoken = self._work.prepare(position, state, held, heard)
        said = {to: words.tobytes() for to, words in spoken.words.items()}
        self._log.append(("prepared", self._name, position, said))
        return spoken

    def take(self, position, state, held, heard):
        after = self._work.take(position, state, held, heard)
        self._log.append(("taken", self._name, position, held["own"].copy(), dict(heard), after.copy()))
        return after


class Written(Book):
    """The pages of a run, with a record of what was written down, and so may have been sent."""

    written: list[tuple[str, int]]

    def commit(self, position, state, held, outgoing, run_keys) -> None:
        super().commit(position, state, held, outgoing, run_keys)
        self.written.append((self._identity.name, position))


class Remaining:
    """All parties of one run under lost_neighbour = "exclude"."""

    def __init__(self, folder: Path, run: PublicRun, *, minimum: int, seed: int = 0, time_limit: int = 120) -> None:
        self.run, self.chance, self.now = run, random.Random(seed), 0.0
        self.wires = Wires(self.chance)
        self.cut_links: set[frozenset[str]] = set()
        self.folder, K = folder, run.num_agents
        self.names = [f"agent-{k}" for k in range(K)] + (["relay"] if run.topology.relay else [])
        self.identities = {
            name: new_identity(
                name, folder / name, f"127.0.0.1:{9000 + k}", role="relay" if name == "relay" else "agent"
            )
            for k, name in enumerate(self.names)
        }
        self.roster = Roster.of([identity.entry() for identity in self.identities.values()])
        members = [
            Member(name=name, role=entry.role, key=entry.identity_key.hex())
            for name in self.names
            for entry in (self.roster[name],)
        ]
        self.agreement = agreement_of(
            run,
            declared=replace(
                DECLARED,
                releases="own",
                lost_neighbour="exclude",
                minimum_agents=minimum,
                exclude_after=SILENCE,
                time_limit=time_limit,
            ),
            members=members,
            protection=protection(K),
            problem=DESCRIBED,
        )
        self.log: list = []
        self.written: list[tuple[str, int]] = []
        self.drawn: list[tuple[str, int, int]] = []
        self.said: list[tuple[str, str, dict]] = []
        self.crash_at: Callable[[str, str], bool] = lambda name, moment: False
        self.stores: dict[str, Store] = {}
        self.running: dict[str, SimpleNamespace] = {}
        self.ended: dict[str, object] = {}
        self.gone: set[str] = set()
        self._runs: dict[bytes, PublicRun] = {}
        self.crashes = 0
        for name in self.names:
            create_ledger(self.store_path(name), name=name, unit="record", adjacency="replace", delta=1e-5, budget=10.0)

    def store_path(self, name: str) -> Path:
        return self.folder / name / "store.sqlite"

    def start(self, name: str) -> None:
        """Start the process of a party, for the first time or after a crash."""
        store = self.stores[name] = Store.open(self.store_path(name))

        def reserve():
            return Ledger(store).reserve(
                self.agreement.run,
                self.agreement.digest,
                Cost.gaussian(0.5),
                unit="record",
                adjacency="replace",
                observer="all others",
            )

        begun_run(self.agreement, store, reserve)
        course = latest_course(
            self._course(name, self.agreement, self.run),
            store,
            self.identities[name],
            self.roster,
            lambda *given: self._goes_on(name, *given),
        )
        self._begin(name, course)

    def _begin(self, name: str, course: Course) -> None:
        store, identity, agreement = self.stores[name], self.identities[name], course.agreement
        wire = Cut(self, name)
        wire.open()
        record = store.run(agreement.digest)
        session = Session(
            identity, self.roster, agreement.digest, agreement.run, record.run_key, self.chance.randbytes(32)
        )
        watch = SimpleNamespace(
            clock=lambda: self.now,
            moment=lambda moment: self._moment(name, moment),
            log=lambda event, **values: self.said.append((name, event, values)),
        )
        work = course.work_of(session)
        book = Written(
            store, agreement.digest, identity, self.roster, hears_first=work.hears_first, end=work.end,
            spent=course.spent,
        )  # fmt: skip
        book.written = self.written
        session.remember(book.run_keys)
        testimony = Testimony(session, work, book.statements)
        post = Post(session, wire, Neighbours(all_others(work, range(work.end))), book, watch, testimony)
        place = SimpleNamespace(identity=identity, roster=self.roster, store=store)
        going_on = _going_on(course, place, book, post, watch, lambda *given: self._goes_on(name, *given))  # type: ignore[arg-type]
        loop = Loop(work, book, post, watch, lambda position, seconds: None, going_on)
        self.running[name] = SimpleNamespace(course=course, loop=loop, book=book, going_on=going_on, watch=watch)

    def _course(self, name: str, agreement: Agreement, run: PublicRun) -> Course:
        def work_of(session: Session):
            wiring = Wiring(run, LATTICE, PublicCoin(agreement.digest), relay_trusted=True)
            names = [member.name for member in agreement.members]
            draws = Draws(name, run.dimension, self.drawn)
            if name == "relay":
                return Kept(RelayWork(wiring, names, draws), name, self.log)
            number = int(name.removeprefix("agent-"))
            work = AgentWork(wiring, names, agreement.number(name), own_of(PROBLEM, number), draws)
            return Kept(work, name, self.log)

        def spent(position: int):
            return Cost.gaussian(0.5 * ((position + 1) / run.end) ** 0.5).describe()

        self._runs[agreement.digest] = run
        return Course(agreement, work_of, spent)

    def _goes_on(self, name: str, course: Course, lost: frozenset[str], after: int, committed: int) -> Course:
        made, run = successor(course.agreement, self._runs[course.agreement.digest], sorted(lost), after=after)
        return self._course(name, made, run)

    def _moment(self, name: str, moment: str) -> None:
        if self.crash_at(name, moment):
            raise Crash

    def end(self, name: str) -> None:
        """Leave of a party what a killed process leaves."""
        self.stores.pop(name)._database.close()
        self.running.pop(name, None)
        self.wires.waiting.pop(name, None)

    def lose(self, name: str) -> None:
        """Kill a party for good."""
        self.end(name)
        self.gone.add(name)

    def step(self, name: str) -> None:
        now = self.running[name]
        try:
            if not now.loop.advance(0.0):
                return
            if now.loop.phase == "go on":
                following = _following(now.loop, now.book, now.going_on, now.watch)
                self._begin(name, following)
                return
        except Crash:
            self.crashes += 1
            self.end(name)
            self.start(name)
            return
        except Exception as error:
            self.ended[name] = error
            self.end(name)
            return
        self.ended[name] = now.course.agreement
        self.end(name)

    def play(self, *, seconds: float = 120.0, until: Callable[[], bool] = lambda: False) -> None:
        """Let parties run until all have ended, or time is up, or a test has seen enough."""
        for name in self.names:
            if name not in self.running and name not in self.gone and name not in self.ended:
                self.start(name)
        limit = self.now + seconds
        while self.running and self.now < limit and not until():
            self.now += 0.002 if any(self.wires.waiting.values()) else 0.1
            self.step(self.chance.choice(sorted(self.running)))

    def committed(self, name: str) -> int:
        return self.running[name].book.committed

    def model(self, name: str) -> np.ndarray | None:
        agreement = self.ended.get(name)
        if not isinstance(agreement, Agreement):
            return None
        with Store.open(self.store_path(name), writer=False) as store:
            return store.model(agreement.digest)


class Cut(Wire):
    """A wire that carries nothing over links that a test has cut, and nothing to or from the lost."""

    def __init__(self, parties: Remaining, name: str) -> None:
        super().__init__(parties.wires, name)
        self._parties = parties

    def open(self) -> None:
        self.wires.waiting.setdefault(self.name, [])

    def send(self, to: str, blob: bytes) -> None:
        if frozenset((self.name, to)) not in self._parties.cut_links:
            super().send(to, blob)
