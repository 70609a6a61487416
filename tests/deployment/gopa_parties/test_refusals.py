"""What roles of a run with GOPA refuse: second versions of anything, other histories, other agreements, others in their name."""

import shutil
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from deployment.agent.cases import PROBLEM
from deployment.gopa_parties.roles import AGENTS, NOW, Drawn, Pages, Roles, identities, plan_for, public_run
from sottovoce.deployment.agent import own_of
from sottovoce.deployment.gopa import Kind, Phase, open_message
from sottovoce.deployment.gopa.refusals import Equivocation, Malformed, SecondPublication
from sottovoce.deployment.gopa_parties import Agent, Beacon, Clock, Log, LogKeeper, SpokenFor, wire
from sottovoce.deployment.gopa_parties.log import signed_opening
from sottovoce.deployment.gopa_parties.packing import packed, unpacked
from sottovoce.deployment.gopa_parties.reader import Reader
from sottovoce.deployment.gopa_parties.run_gopa import _check_missing
from sottovoce.deployment.gopa_parties.serving import Serving, kept_entries
from sottovoce.deployment.identity import Roster
from sottovoce.deployment.identity.refusals import DifferentAgreement, Forged
from sottovoce.deployment.ledger import Ledger, create_ledger
from sottovoce.deployment.party import Book, OthersMissing
from sottovoce.deployment.privacy import Cost
from sottovoce.deployment.store import Proof, RestoredBackup, Store
from sottovoce.deployment.transports import Delivery
from sottovoce.errors import ConfigError, ProtocolError


@pytest.fixture
def roles(tmp_path):
    return Roles(tmp_path, public_run(rounds=2))


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return identities(tmp_path_factory.mktemp("keys"))


def until(roles, phase):
    roles.play(until=lambda r: r.board.log.transcript is not None and r.board.log.transcript.phase is phase)


def test_a_publication_is_made_once_whatever_crashes(roles):
    until(roles, Phase.PUBLICATION)
    agent = roles.agents[2]
    first = agent.act()
    assert open_message(first).kind is Kind.PUBLISH
    assert agent.act() is None
    roles.start(2)
    again = roles.agents[2]
    again.read(roles.kept[again.log.length :])
    assert again.act() is None
    assert again.waiting() == []  # nor sent again, now that nobody knows how long ago it was ready
    assert agent.waiting() == [first]
    party = again._with_value(again.log.transcript)
    with pytest.raises(SecondPublication):
        party.publish(now=0)


def test_what_an_agent_could_not_write_down_it_does_not_say(roles):
    until(roles, Phase.PUBLICATION)
    agent = roles.agents[2]

    def full(step):
        raise OSError("no space left")

    agent._notebook = SimpleNamespace(write=full)
    with pytest.raises(OSError, match="no space"):
        agent.act()
    assert agent.waiting() == []
    assert agent.to_neighbours() is None


def test_a_message_in_ones_name_stops_an_agent(roles):
    """A store that was lost or set back: the log shows what it does not know."""
    until(roles, Phase.PREPARATION)
    roles.pages[3] = Pages()
    roles.start(3)
    with pytest.raises(SpokenFor, match="REGISTER of agent-3"):
        roles.agents[3].read(roles.kept)


def test_an_agent_takes_part_in_one_opening_of_a_round(roles):
    """After a crash the board shows it the round under another time; what it wrote down binds it to the first."""
    roles.turn()
    agent = roles.agents[1]
    assert len(roles.pages[1].written) == 1
    other = signed_opening(roles.keys["board"], roles.plan, 1, NOW + 999, Log(roles.plan).head)
    roles.start(1)
    agent = roles.agents[1]
    with pytest.raises(ProtocolError):
        agent.read([other])
    fresh = Agent(roles.plan, roles.keys["agent-1"], own_of(PROBLEM, 1), agent._randomness, Pages())
    fresh.read([other])
    # Of two openings the terms differ, and with them every key.
    assert fresh.log.transcript.terms.digest != agent.log.transcript.terms.digest


@pytest.mark.parametrize("change", ["round", "reference", "signature", "agreement", "length"])
def test_an_opening_that_does_not_follow_is_refused(change, keys):
    plan = plan_for(public_run(), keys)
    log = Log(plan)
    board, reference, number = keys["board"], log.head, 1
    if change == "round":
        number = 2
    if change == "reference":
        reference = bytes(32)
    if change == "signature":
        board = keys["beacon"]
    raw = signed_opening(
        board, replace(plan, digest=bytes(32)) if change == "agreement" else plan, number, NOW, reference
    )
    errors = {"round": Equivocation, "reference": Equivocation, "signature": Forged}
    with pytest.raises(errors.get(change, Malformed)):
        log.open(raw[:-1] if change == "length" else raw)
    assert log.length == 0
    with pytest.raises(ProtocolError, match="no round is open"):
        log.append(raw)


def test_nobody_else_plays_board_or_beacon(keys):
    plan = plan_for(public_run(), keys)
    with pytest.raises(ConfigError, match="not the board"):
        LogKeeper(plan, keys["beacon"], [])
    with pytest.raises(ConfigError, match="not the beacon"):
        Beacon(plan, keys["board"], Drawn())


def test_a_beacon_has_one_value_for_a_round_whatever_history_it_is_shown(tmp_path):
    first = Roles(tmp_path / "first", public_run(rounds=2))
    until(first, Phase.PREPARATION)
    (value,) = first.drawn.values
    keeper = LogKeeper(first.plan, first.keys["board"], [])
    everybody = frozenset(range(AGENTS))
    keeper.tick(everybody, expected=everybody, beacon=True)
    for n in range(AGENTS):
        agent = Agent(first.plan, first.keys[f"agent-{n}"], own_of(PROBLEM, n), first.agents[n]._randomness, Pages())
        agent.read(keeper.entries)
        keeper.take(agent.act())
    keeper.tick(everybody, expected=everybody, beacon=True)
    assert keeper.log.transcript.phase is Phase.DRAWING
    first.start_beacon()
    first.beacon.read(keeper.entries)
    said = first.beacon.act()
    assert said == value[1]  # the old one, which does not fit here
    with pytest.raises(ProtocolError):
        keeper.take(said)
    assert first.drawn.values == [value]


def test_a_board_takes_nothing_while_no_round_is_open(keys):
    keeper = LogKeeper(plan_for(public_run(), keys), keys["board"], [])
    with pytest.raises(ProtocolError, match="no round is open"):
        keeper.take(b"anything")


def test_numbers_that_are_not_finite_keep_an_agent_quiet(roles):
    until(roles, Phase.PUBLICATION)
    agent = roles.agents[2]
    broken = replace(agent._own, data={name: np.full_like(values, np.inf) for name, values in agent._own.data.items()})
    agent._own = broken
    assert agent.act() is None
    assert "NaN or infinite" in agent.quiet
    assert agent.waiting() == []


class TestWire:
    def test_what_is_packed_comes_back(self):
        parts = [b"", b"a", bytes(300)]
        assert unpacked(packed(parts)) == parts
        for cut in (1, 5, 7):
            with pytest.raises(Malformed):
                unpacked(packed(parts)[:-cut] if cut > 1 else packed([b"abc"])[:-1])

    def test_long_logs_go_in_pieces_that_fit(self):
        entries = [bytes([n]) * 900 for n in range(40)]
        proof = Proof(bytes(wire._COUNTERS), bytes(64))
        value = wire.Shown(bytes(32), 7, 47, (proof,), entries)
        blobs = list(wire.in_pieces(value, 16_000))
        assert len(blobs) > 3
        assert max(map(len, blobs)) <= 16_000
        read = [wire.read_showing(blob) for blob in blobs]
        assert [raw for one in read for raw in one.entries] == entries
        assert [one.first for one in read] == [7 + sum(len(r.entries) for r in read[:n]) for n in range(len(read))]
        assert {(one.total, one.proofs) for one in read} == {(47, (proof,))}

    @pytest.mark.parametrize("blob", [b"S", b"A" + bytes(10), b"S" + bytes(48) + b"\\xff"])
    def test_cut_off_questions_and_answers_are_refused(self, blob):
        with pytest.raises(Malformed):
            (wire.read_asking if blob[:1] == b"A" else wire.read_showing)(blob)


class Line:
    """A transport whose blobs a test carries."""

    max_blob = 2**20

    def __init__(self) -> None:
        self.sent = []

    def send(self, to, blob) -> None:
        self.sent.append((to, blob))


class Desk:
    """A board and one agent with real stores, and a test in place of the network."""

    def __init__(self, folder, keys) -> None:
        self.keys, self.plan = keys, plan_for(public_run(rounds=1), keys)
        self.roster = Roster.of([identity.entry() for identity in keys.values()])
        self.stores = {}
        for name in ("board", "agent-0"):
            create_ledger(folder / f"{name}.db", name=name, unit="agent", adjacency="replace", delta=1e-5, budget=9.0)
            self.open(folder, name)
        self.keeper = LogKeeper(self.plan, keys["board"], [])
        self.line = Line()
        self.watch = SimpleNamespace(logged=[], log=lambda event, **values: self.watch.logged.append(values))
        place = SimpleNamespace(store=self.stores["board"], roster=self.roster, transport=self.line)
        self.book = self.book_of("board")
        agents = {f"agent-{n}": n for n in range(AGENTS)}
        self.serving = Serving(self.keeper, agents, "beacon", place, self.book, 0.0)

    def open(self, folder, name) -> None:
        store = self.stores[name] = Store.open(folder / f"{name}.db")
        if store.run(self.plan.digest) is None:
            entry = Ledger(store).reserve(
                "a-run", self.plan.digest, Cost.gaussian(0.5), unit="agent", adjacency="replace", observer="all"
            )
            store.begin_run(self.plan.digest, "a-run", b"agreement", entry, bytes(32))

    def book_of(self, name) -> Book:
        spent = Cost.gaussian(0.5).describe()
        return Book(
            self.stores[name], self.plan.digest, self.keys[name], self.roster, hears_first=False, end=2**62,
            spent=lambda position: spent,
        )  # fmt: skip

    def reader(self, digest=None) -> Reader:
        agent = SimpleNamespace(log=Log(self.plan))
        agent.read = lambda entries: [agent.log.open(raw) for raw in entries]
        return Reader(agent, "board", self.line, self.book_of("agent-0"), digest or self.plan.digest, 0.0)

    def answer(self, reader) -> bytes:
        """Let a reader ask, and return what the board answers."""
        reader.ask(1.0)
        (_, question), self.line.sent = self.line.sent[-1], []
        self.serving.take(Delivery("agent-0", question), 1.0, self.watch)
        to, blob = self.line.sent.pop()
        assert to == "agent-0"
        return blob

    def close(self) -> None:
        for store in self.stores.values():
            store.close()


@pytest.fixture
def desk(tmp_path, keys):
    made = Desk(tmp_path, keys)
    yield made
    made.close()


def test_a_reader_says_nothing_before_it_has_the_whole_log(desk):
    everybody = frozenset(range(AGENTS))
    desk.keeper.tick(everybody, expected=everybody, beacon=True)
    assert desk.serving.write_and_show(0.5, lambda moment: None)
    reader = desk.reader()
    assert not reader.current
    shown = desk.answer(reader)
    reader.take(shown, 1.0)
    assert reader.current
    assert reader.length == 1
    assert reader.grown == 1.0
    reader.take(shown, 2.0)
    assert (reader.heard, reader.grown) == (2.0, 1.0)  # nothing was new
    assert kept_entries(desk.book) == desk.keeper.entries
    assert "agent-0" in desk.serving.behind()


@pytest.mark.parametrize(
    ("now", "words"), [(16.0, None), (16.5, "was not heard of for 16"), (32.0, None), (32.5, "has not grown for 32")]
)
def test_nobody_is_waited_for_without_an_end(now, words):
    """A board that is gone, and one that answers and gets nowhere."""
    role = SimpleNamespace(
        clock=Clock(wall=lambda: 0, monotonic=lambda: int(1000 * now)),
        agreement=SimpleNamespace(time_limit=16, run="a-run"),
    )
    reader = SimpleNamespace(heard=now if now > 20 else 0.0, grown=0.0)
    with nullcontext() if words is None else pytest.raises(OthersMissing, match=words):
        _check_missing(role, reader)


def test_a_reader_of_another_agreement_is_told(desk):
    reader = desk.reader(digest=bytes(32))
    blob = desk.answer(reader)
    assert "It accepted another agreement" in desk.watch.logged[0]["reason"]
    with pytest.raises(DifferentAgreement, match="Compare digests"):
        reader.take(blob, 1.0)


def test_a_store_that_was_set_back_is_told_before_it_says_anything(desk, tmp_path):
    desk.stores["agent-0"].close()
    (tmp_path / "older").mkdir(mode=0o700)
    shutil.copy(tmp_path / "agent-0.db", tmp_path / "older" / "agent-0.db")
    desk.open(tmp_path, "agent-0")
    for _ in range(2):  # two starts, which the board sees
        reader = desk.reader()
        reader.take(desk.answer(reader), 1.0)
    desk.stores["agent-0"].close()
    desk.open(tmp_path / "older", "agent-0")
    reader = desk.reader()
    blob = desk.answer(reader)
    assert desk.watch.logged[-1]["kind"] == "RestoredBackup"
    with pytest.raises(RestoredBackup, match="our own signature"):
        reader.take(blob, 1.0)
    assert not reader.current
