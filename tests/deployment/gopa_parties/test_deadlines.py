"""No publication stands there with revealed masks, whatever boards, clocks and crashes do; without any one of the rules some course of events finds one."""

import random
import time
from dataclasses import replace

import pytest

from deployment.gopa_parties.exploration import NEVER, Course, World, courses
from deployment.gopa_parties.roles import DAY, NOW, Roles, public_run
from sottovoce.deployment.gopa_parties import agent
from sottovoce.deployment.gopa_parties import clock as clocks
from sottovoce.deployment.gopa_parties.clock import SYSTEM, Clock, Reading
from sottovoce.deployment.gopa_parties.deadlines import Deadlines

SEED, SAMPLE = 5, 15


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return Roles(tmp_path_factory.mktemp("keys"), public_run(rounds=1))


def sampled() -> list[Course]:
    """All courses in which one thing goes wrong, and some of those in which three do."""
    return [*courses(1), *random.Random(SEED).sample(list(courses(3)), SAMPLE)]


def explored(base: Roles, tried) -> tuple[int, int]:
    """In how many courses the victim published, and in how many masks of it were revealed; never both."""
    published = revealed = 0
    for course in tried:
        seen = World(base, course).play()
        assert not seen.exposed, f"its own noise alone protects the victim: {course}"
        published += bool(seen.left)
        revealed += bool(seen.revealed)
    return published, revealed


def test_no_course_reveals_masks_of_an_agent_that_published(base):
    published, revealed = explored(base, sampled())
    assert published > 8  # both happen, each in courses of its own
    assert revealed > 8


@pytest.mark.slow
def test_no_course_of_three_mishaps_reveals_masks_of_an_agent_that_published(base):
    published, revealed = explored(base, courses(3))
    assert published > 50
    assert revealed > 200


def test_what_leaves_an_agent_leaves_it_long_before_its_masks_are_revealed(base):
    """Where a board swallows a publication and nobody brings it past the board: the time alone, which is what is proven."""
    times = base.plan.times
    found = 0
    for course in sampled():
        seen = World(base, replace(course, handing=NEVER)).play()
        if seen.left and seen.revealed:
            found += 1
            assert min(seen.revealed) - max(seen.left) > times.drops - times.publish
    assert found > 5


def _forgiving(deadlines):
    return None if deadlines.ready is None else deadlines._why_late()


def _by(*, wall: bool, monotonic: bool):
    """The deadline of a publication by one clock alone."""

    def check(deadlines):
        if deadlines.ready is None:
            return deadlines._why_late()
        passed = deadlines.clock.read().since(deadlines.ready)
        elapsed = max([passed.wall] * wall + [passed.monotonic] * monotonic)
        return "late" if elapsed > deadlines.times.publish else None

    return check


class _SinceTheOpening(Deadlines):
    """Waits since the opening was shown, which is when an object of this class is made."""

    def __init__(self, clock, times):
        super().__init__(clock, times)
        self.opened = clock.monotonic()

    def waited(self):
        return self.clock.monotonic() - self.opened


LATER = {"crash", "down"}, {"clock", "clock_when"}, {"clock", "active_victim"}, {"opening"}, {"restarted"}
OFF = dict(zip(("a restart", "the wall clock", "the monotonic clock", "who is active", "memory"), LATER, strict=True))


@pytest.mark.parametrize("off", OFF)
def test_without_any_one_of_the_rules_a_course_exposes_an_agent(off, base, monkeypatch):
    """Each rule is switched off, and the courses are tried in which what it is against happens."""
    checks = {
        "a restart": _forgiving,  # it goes on where it was
        "the wall clock": _by(wall=False, monotonic=True),  # a machine that slept does not notice
        "the monotonic clock": _by(wall=True, monotonic=False),  # a clock that was set back has all the time of a day
    }
    if off in checks:
        monkeypatch.setattr(Deadlines, "check", checks[off])
        monkeypatch.setattr(Deadlines, "publishing", lambda deadlines: 0)
    if off == "who is active":  # others wait since the opening, which the victim is shown later
        monkeypatch.setattr(agent, "Deadlines", _SinceTheOpening)
    if off == "memory":  # who was restarted signs what it may have forgotten
        monkeypatch.setattr(Deadlines, "sure", property(lambda deadlines: deadlines.waited() >= deadlines.times.drops))
    normal = Course()
    tried = [
        course
        for course in courses(3)
        if all(getattr(course, name) != getattr(normal, name) for name in OFF[off])
        and (course.handing or off == "memory")
    ]
    assert any(World(base, course).play().exposed for course in tried)


class TestClock:
    def test_the_clock_of_the_system_counts_the_time_in_which_a_machine_sleeps(self):
        if not hasattr(time, "CLOCK_BOOTTIME"):
            pytest.skip("this system has no clock that is known to")
        before = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
        assert before <= SYSTEM.monotonic() <= time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
        assert abs(SYSTEM.wall() - time.time() * 1000) < 5000

    def test_without_such_a_clock_another_one_is_taken_that_only_grows(self, monkeypatch):
        monkeypatch.delattr(time, "CLOCK_BOOTTIME", raising=False)
        assert clocks._counts_suspension() is time.monotonic_ns

    @pytest.mark.parametrize(
        ("wall", "monotonic", "words"),
        [
            (6000, 6000, None),
            (6001, 6000, "within 6000 ms"),
            (6000, 6001, "within 6000 ms"),
            (2001, 0, "the machine slept"),
            (0, 2001, "the machine slept"),
            (DAY, 10, "the machine slept"),
            (-DAY, 10, "the machine slept"),
        ],
    )
    def test_either_clock_can_make_an_agent_late(self, wall, monotonic, words, base):
        ready = Reading(NOW, 7)
        shown = Clock(wall=lambda: ready.wall + wall, monotonic=lambda: ready.monotonic + monotonic)
        deadlines = Deadlines(shown, base.plan.times, ready=ready)
        assert deadlines.check() is None if words is None else words in deadlines.check()
        if words is not None:  # and it stays late when the clock is set right
            deadlines.clock = Clock(wall=lambda: ready.wall, monotonic=lambda: ready.monotonic)
            assert words in deadlines.check()
