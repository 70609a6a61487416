"""Courses of one round that a malicious board and bad luck can bring about, played by the real agents.

The board is everybody's enemy: it shows entries to whom it likes when it likes, ends phases as early as it can, swallows the publication of one agent,
the victim, and has it called dropped. Clocks are set, machines sleep, processes crash. Only one thing is kept: what agents hand each other directly arrives
within less than L/4. Time goes on in steps of L/16.
"""

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, fields

from deployment.agent.cases import PROBLEM
from deployment.gopa_parties.roles import AGENTS, DAY, LATTICE, NOW, Drawn, Pages, Roles
from sottovoce.deployment.agent import Rehearsed, own_of
from sottovoce.deployment.gopa import Kind, Phase, open_message
from sottovoce.deployment.gopa_parties import Agent, Beacon, Clock, LogKeeper
from sottovoce.errors import ProtocolError

VICTIM, STEPS = 2, 44
NEVER = 10**6  # steps


@dataclass(frozen=True, kw_only=True)
class Course:
    """What goes wrong, in steps of L/16; the first of each list is what goes right.

    Attributes:
        opening: how much later than the others the victim is shown the opening.
        active_others: how long after it was written the others are shown who is active.
        active_victim: how long after it was written the victim is.
        clock: what happens to the victim's clocks: set by a day, or asleep for 9 steps in which its monotonic clock does, or does not, go on.
        clock_when: after its READY has left, or after its publication was written down and before it leaves.
        crash: whether the victim's process ends, and after which of the two.
        down: for how long.
        restarted: whether all others are restarted: whenever they were handed the publication, or just before they would sign.
        handing: how long a publication is under way between agents.
        all_set: what the wall clocks of all others are set by when it is fixed who is active.
    """

    opening: int = 0
    active_others: int = 0
    active_victim: int = 0
    clock: str = ""
    clock_when: Kind = Kind.READY
    crash: Kind | None = None
    down: int = 0
    restarted: str = ""
    handing: int = 0
    all_set: int = 0


CHOICES = {
    "opening": (0, 13),
    "active_others": (0, 5),
    "active_victim": (0, 5, 7, 13, 20),
    "clock": ("", "set forward", "set back", "asleep", "asleep and counted"),
    "clock_when": (Kind.READY, Kind.PUBLISH),
    "crash": (None, Kind.READY, Kind.PUBLISH),
    "down": (0, 13),
    "restarted": ("", "when handed", "before they sign"),
    "handing": (0, 3),
    "all_set": (0, DAY, -DAY),
}


def courses(most: int) -> Iterator[Course]:
    """All courses in which at most so many things go wrong."""
    normal = Course()
    names = [each.name for each in fields(Course)]
    for count in range(most + 1):
        for chosen in itertools.combinations(names, count):
            others = [[value for value in CHOICES[name] if value != getattr(normal, name)] for name in chosen]
            for values in itertools.product(*others):
                found = dict(zip(chosen, values, strict=True))
                # Where and how long matters only for what happens at all.
                if ("clock_when" in found and "clock" not in found) or ("down" in found and "crash" not in found):
                    continue
                yield Course(**found)


@dataclass
class Seen:
    """What came out of a course: when the publication of the victim left it, and who revealed masks shared with it, when; in milliseconds."""

    left: list[int] = field(default_factory=list)
    revealed: list[int] = field(default_factory=list)

    @property
    def exposed(self) -> bool:
        """Whether the victim stands there with its own noise alone."""
        return bool(self.left and self.revealed)


class World:
    """One round of one course."""

    def __init__(self, base: Roles, course: Course) -> None:
        self.base, self.course, self.seen = base, course, Seen()
        self.step_ms = 1000 * base.plan.time_limit // 16
        self.now = 0
        self.set = dict.fromkeys(range(AGENTS), 0)
        self.slept = dict.fromkeys(range(AGENTS), 0)
        self.pages = {n: Pages() for n in range(AGENTS)}
        self.agents = {n: self.process(n) for n in range(AGENTS)}
        self.beacon = Beacon(base.plan, base.keys["beacon"], Drawn())
        self.board = LogKeeper(base.plan, base.keys["board"], [], Clock(wall=lambda: NOW, monotonic=lambda: 10**9))
        self.active: int | None = None  # the step at which it was fixed who is active, and the entries until then
        self.entries_until_active = 0
        self.away_until = self.restarts = -1
        self.under_way: list[tuple[int, int, bytes]] = []

    def process(self, n: int) -> Agent:
        clock = Clock(wall=lambda: NOW + self.now + self.set[n], monotonic=lambda: self.now - self.slept[n])
        base = self.base
        randomness = Rehearsed(base.open_run, LATTICE, base.draws, n)
        return Agent(base.plan, base.keys[f"agent-{n}"], own_of(PROBLEM, n), randomness, self.pages[n], clock=clock)

    def play(self) -> Seen:
        for step in range(STEPS):
            self.now = step * self.step_ms
            self.board_moves(step)
            self.bring(step)
            for n in (*(each for each in range(AGENTS) if each != VICTIM), VICTIM):
                if n != VICTIM or step >= self.away_until:
                    self.turn(n, step)
        return self.seen

    def board_moves(self, step: int) -> None:
        """End every phase as soon as it can be ended."""
        board, everybody = self.board, frozenset(range(AGENTS))
        if self.active is None:
            board.tick(everybody, expected=everybody, beacon=True)
        self.beacon.read(board.entries[self.beacon.log.length :])
        value = self.beacon.act()
        if value is not None:
            board.take(value)
        transcript = board.log.transcript
        if transcript.phase is Phase.PUBLICATION and self.active is None:
            self.active, self.entries_until_active = step, len(board.entries)
            for n in everybody - {VICTIM}:
                self.set[n] = self.course.all_set
        if transcript.phase is Phase.PUBLICATION and transcript.survivors == everybody - {VICTIM}:
            board._board._end(Kind.DROPS, bytes([VICTIM, 0, 0, 0]))
            board._note(board._board.log[-1].raw)

    def visible(self, n: int, step: int) -> int:
        """How many entries an agent is shown."""
        everything = len(self.board.entries)
        late = self.course.active_victim if n == VICTIM else self.course.active_others
        if n == VICTIM and step < self.course.opening:
            return 0
        if self.active is None:
            return everything
        if step < self.active + late:
            return self.entries_until_active - 1
        return self.entries_until_active if n == VICTIM else everything

    def turn(self, n: int, step: int) -> None:
        agent = self.agents[n]
        agent.read(self.board.entries[agent.log.length : self.visible(n, step)])
        if n != VICTIM and self.restarts == step:
            self.agents[n] = agent = self.process(n)
            agent.read(self.board.entries[agent.log.length : self.visible(n, step)])
        made = agent.act()
        kind = None if made is None or n != VICTIM else open_message(made).kind
        if kind is Kind.PUBLISH and self.mishap(kind, step):
            return
        self.send(n, agent, step)
        if kind is Kind.READY:
            self.mishap(kind, step)

    def mishap(self, kind: Kind, step: int) -> bool:
        """What happens to the victim after its READY left, or before its publication does; whether it does not get to send it now."""
        course = self.course
        if course.clock and course.clock_when is kind:
            self.set[VICTIM] += {"set forward": DAY, "set back": -DAY}.get(course.clock, 0)
            if course.clock.startswith("asleep"):
                self.away_until = step + 9
                self.slept[VICTIM] += 0 if course.clock.endswith("counted") else 9 * self.step_ms
        if course.crash is kind:
            self.away_until = max(self.away_until, step + course.down)
            self.agents[VICTIM] = self.process(VICTIM)
            return True
        return self.away_until > step

    def send(self, n: int, agent: Agent, step: int) -> None:
        for raw in agent.waiting():
            kind = open_message(raw).kind
            if n == VICTIM and kind is Kind.PUBLISH:
                self.seen.left.append(self.now)
                continue
            if kind is Kind.REPAIR:
                self.seen.revealed.append(self.now)
            with contextlib.suppress(ProtocolError):  # of a phase that is over
                self.board.take(raw)
        handed = agent.to_neighbours()
        if handed is not None and n == VICTIM:
            self.seen.left.append(self.now)
            self.under_way += [(step + self.course.handing, each, handed[1]) for each in handed[0]]

    def bring(self, step: int) -> None:
        """Hand over what has been under way long enough, and plan the restart of the others."""
        arrived = [each for each in self.under_way if each[0] <= step]
        self.under_way = [each for each in self.under_way if each[0] > step]
        for _, to, raw in arrived:
            self.agents[to].witness(VICTIM, raw)
            if self.course.restarted == "when handed":
                self.restarts = step
        if self.course.restarted == "before they sign" and self.active is not None:
            self.restarts = self.active + self.course.active_others + 9
