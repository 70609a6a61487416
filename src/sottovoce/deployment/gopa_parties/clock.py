"""The two clocks of a machine, handed to everything in this package that asks for the time.

    wall         milliseconds since 1970: people set it, servers set it, it may jump by a day in both directions
    monotonic    milliseconds since some beginning: it only grows, and ends with the machine

The monotonic one is a clock that goes on while the machine is suspended, where the operating system has one: CLOCK_BOOTTIME on Linux, whose
CLOCK_MONOTONIC stands still then.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


class Reading(NamedTuple):
    """What the two clocks said at one moment."""

    wall: int
    monotonic: int

    def since(self, earlier: "Reading") -> "Reading":
        """How long ago that was, by either clock."""
        return Reading(self.wall - earlier.wall, self.monotonic - earlier.monotonic)


@dataclass(frozen=True, slots=True)
class Clock:
    """Where all times of a role come from.

    Attributes:
        wall: milliseconds since 1970.
        monotonic: milliseconds that only grow.
    """

    wall: Callable[[], int]
    monotonic: Callable[[], int]

    def __repr__(self) -> str:
        return "<Clock>"

    def read(self) -> Reading:
        """Both clocks, now."""
        return Reading(self.wall(), self.monotonic())

    def seconds(self) -> float:
        """Seconds that only grow."""
        return self.monotonic() / 1000


def _counts_suspension() -> Callable[[], int]:
    kind = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic_ns if kind is None else lambda: time.clock_gettime_ns(kind)


_monotonic_ns = _counts_suspension()
SYSTEM = Clock(wall=lambda: time.time_ns() // 1_000_000, monotonic=lambda: _monotonic_ns() // 1_000_000)
