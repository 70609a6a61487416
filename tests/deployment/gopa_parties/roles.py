"""All roles of a run with GOPA in one process, for tests: real keys, real rules, notebooks that a crash cannot take, and clocks of the test's own."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

import sottovoce as sv
from deployment.agent.cases import DIMENSION, PROBLEM
from sottovoce.clipping import Clip
from sottovoce.deployment.agent import Rehearsed, own_of
from sottovoce.deployment.gopa import open_message
from sottovoce.deployment.gopa_parties import Agent, Beacon, Clock, Ended, LogKeeper, Plan
from sottovoce.deployment.identity import new_identity
from sottovoce.deployment.integers import Lattice
from sottovoce.deployment.terms import PublicRun

AGENTS, SEED, LATTICE = 5, 11, Lattice(24)
FEDERATION = sv.topologies.federation(AGENTS)
LAW = sv.noise.Gaussian(std=0.1)
NOW = 1_800_000_000_000  # milliseconds since 1970
DAY = 86_400_000  # milliseconds


def public_run(*, rounds=3, batch_size=None, gopa=None, law=LAW, **options) -> PublicRun:
    options = {"step_size": 0.05, "local_steps": 2, "update_clip": Clip(0.2, "l2")} | options
    aggregation = gopa or sv.algorithms.Gopa(partners=3, silence=0.1, minimum_agents=4)
    return PublicRun(
        topology=FEDERATION,
        algorithm=sv.algorithms.fedavg(aggregation=aggregation, **options),
        noise=sv.noise.independent(law),
        rounds=rounds,
        batch_size=batch_size,
        initial_model=np.linspace(-0.3, 0.3, DIMENSION),
    )


def identities(folder: Path):
    names = {f"agent-{n}": "agent" for n in range(AGENTS)} | {"board": "board", "beacon": "beacon"}
    return {
        name: new_identity(name, folder / name, f"127.0.0.1:{9200 + n}", role=role)
        for n, (name, role) in enumerate(names.items())
    }


def plan_for(run, keys, *, collude="all", time_limit=16) -> Plan:
    agents = tuple(keys[f"agent-{n}"].public_key for n in range(AGENTS))
    return Plan(
        run=run,
        lattice=LATTICE,
        digest=bytes(range(32)),
        agents=agents,
        board=keys["board"].public_key,
        beacon=keys["beacon"].public_key,
        collude=collude,
        time_limit=time_limit,
    )


@dataclass
class Pages:
    """A notebook in memory that refuses what a store refuses: a step that was written before."""

    written: list = field(default_factory=list)

    def write(self, step) -> None:
        assert not self.written or step.position > self.written[-1].position, "a step was written twice"
        held = {name: np.array(value) for name, value in step.held.items()}
        self.written.append(step._replace(state=np.array(step.state), held=held))

    def last(self):
        if not self.written:
            return None
        step = self.written[-1]
        return step.position, step.state, step.held


@dataclass
class Drawn:
    """The same for a beacon."""

    values: list = field(default_factory=list)

    def write(self, round_: int, raw: bytes) -> None:
        assert not self.values or round_ > self.values[-1][0], "a value was drawn twice"
        self.values.append((round_, raw))

    def last(self):
        return self.values[-1] if self.values else None


class Roles:
    """Agents, board and beacon of one run; messages arrive at once, and agents can be taken away."""

    def __init__(self, folder: Path, run: PublicRun, **options) -> None:
        self.keys = identities(folder)
        self.run, self.plan = run, plan_for(run, self.keys, **options)
        open_run = replace(run, algorithm=run.algorithm._replace(aggregation=None, sampling=None))
        self.draws = sv.simulation.drawn(
            PROBLEM, run.topology, open_run.algorithm, run.noise, rounds=run.rounds, seed=SEED, batch_size=run.batch_size,
            fraction_bits=LATTICE.fraction_bits,
        )  # fmt: skip
        self.open_run = open_run
        self.now = NOW  # true milliseconds; by how much clocks were set or have stood still is the role's
        self.set: dict[int | str, int] = defaultdict(int)
        self.slept: dict[int | str, int] = defaultdict(int)
        self.pages = {n: Pages() for n in range(AGENTS)}
        self.ended: dict[int, list[Ended]] = {n: [] for n in range(AGENTS)}
        self.drawn = Drawn()
        self.kept: list[bytes] = []
        self.agents: dict[int, Agent] = {}
        self.swallow: Callable[[int, bytes], bool] = lambda number, raw: False
        self.sent: list[tuple[int, bytes]] = []
        for n in range(AGENTS):
            self.start(n)
        self.start_beacon()
        self.start_board()

    def clock(self, who: int | str) -> Clock:
        """The clocks of a role: an agent's number, or "board"."""
        return Clock(wall=lambda: self.now + self.set[who], monotonic=lambda: self.now - self.slept[who])

    def start(self, n: int) -> None:
        randomness = Rehearsed(self.open_run, LATTICE, self.draws, n)
        self.agents[n] = Agent(
            self.plan, self.keys[f"agent-{n}"], own_of(PROBLEM, n), randomness, self.pages[n], self.ended[n].append,
            self.clock(n),
        )  # fmt: skip

    def end(self, n: int) -> None:
        del self.agents[n]

    def start_beacon(self) -> None:
        self.beacon = Beacon(self.plan, self.keys["beacon"], self.drawn)

    def start_board(self) -> None:
        self.board = LogKeeper(self.plan, self.keys["board"], self.kept, self.clock("board"))

    def show(self) -> None:
        """Write down new entries, and let everybody read what they have not read."""
        self.kept += self.board.new_entries()
        for reader in (*self.agents.values(), self.beacon):
            reader.read(self.kept[reader.log.length :])

    def post(self, number: int, raw: bytes) -> None:
        self.sent.append((number, raw))
        if not self.swallow(number, raw):
            self.board.take(raw)

    def tick(self) -> None:
        self.board.tick(frozenset(self.agents), expected=frozenset(self.agents), beacon=True)
        self.show()

    def turn(self) -> None:
        """Let everybody say what they have to say now."""
        self.tick()
        for n, agent in list(self.agents.items()):
            agent.act()
            handed = agent.to_neighbours()
            for neighbour in () if handed is None else handed[0]:
                if neighbour in self.agents:
                    self.agents[neighbour].witness(n, handed[1])
            for raw in agent.waiting():
                self.post(n, raw)
        value = self.beacon.act()
        if value is not None:
            self.board.take(value)
        self.tick()

    def play(self, *, until=lambda roles: roles.board.log.over, step=250, most=2000) -> None:
        """Take turns, a quarter of a second each, until something is so."""
        for _ in range(most):
            if until(self):
                return
            self.turn()
            self.now += step
        raise AssertionError("it never came to that")

    def models(self) -> dict[int, np.ndarray]:
        return {n: agent.model for n, agent in self.agents.items()}


def same(models) -> bool:
    first, *others = models.values()
    return all(np.array_equal(first, other) for other in others)


def said_once(roles: Roles) -> bool:
    """Whether nobody said any step of any round in two versions."""
    said = {(n, open_message(raw).kind, open_message(raw).round_number, raw) for n, raw in roles.sent}
    return len(said) == len({step[:3] for step in said})
