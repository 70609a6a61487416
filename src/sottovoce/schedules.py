"""Numbers that change from round to round: one table for everybody who asks.

A step size or a noise factor may be a function of the round. If simulator and accountant each called it in their own way, they could get
different numbers: inside a compiled program the round is a 32-bit integer, in which t ** 4 wraps round at t = 216, while on the host it is
a Python integer of any size. So such a function is called once for every round, on the host, with a Python integer, and what it returns is
kept as float64. The simulator hands that table to its program as data, the accountant reads it, and a single party looks its round up.

    step = schedule_of(lambda t: 1 / t)      a Schedule; the same function gives the same one
    step.table(5)                            [5] the first five values
    step(3)                                  the value of one round; inside a program the value of the round that runs

`UnnumberedRound` is a round that answers nothing but what its schedules say. Agents' functions that run on it depend on the round through
these values alone, so that two rounds with the same values are the same function: that is how the accountant knows it.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

import numpy as np

from sottovoce.errors import ConfigError

Array = Any

_running: ContextVar[Mapping["Schedule", Array] | None] = ContextVar("values of the round that runs", default=None)
_known: WeakKeyDictionary[Callable[..., Any], "Schedule"] = WeakKeyDictionary()


class Schedule:
    """A number for every round, from 1; called with a round it returns that round's number."""

    def __init__(self, function: Callable[[int], Any]) -> None:
        self._function = function
        self._values: dict[int, float] = {}
        self.__name__ = str(getattr(function, "__name__", "function of the round"))

    def __repr__(self) -> str:
        return f"schedule_of({self.__name__})"

    def table(self, rounds: int) -> np.ndarray:
        """[rounds] the values of rounds 1 to `rounds`; each is computed once and kept.

        Raises:
            ConfigError: the function returned something other than a finite real number.
        """
        return np.array([self._value(round_) for round_ in range(1, rounds + 1)])

    def _value(self, round_: int) -> float:
        if round_ not in self._values:
            self._values[round_] = _number(self._function(round_), round_, self.__name__)
        return self._values[round_]

    def __call__(self, round_: Any) -> Any:
        """The value of a round: a Python float, or inside a compiled program an array without axes."""
        if isinstance(round_, UnnumberedRound):
            return round_.value_of(self)
        running = _running.get()
        if running is not None and self in running:
            return running[self]
        if isinstance(round_, int | np.integer) and not isinstance(round_, bool):
            return self._value(int(round_))
        raise ConfigError(
            f"the schedule '{self.__name__}' was asked for a round that only a compiled program knows, and the algorithm does not name it "
            f"among its schedules. Give Algorithm(..., schedules=({self.__name__},))."
        )


def _number(value: Any, round_: int, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ConfigError(
            f"the function '{name}' of the round gives {value!r} in round {round_}; a finite number is needed."
        )
    return number


def schedule_of(function: Callable[[int], Any]) -> Schedule:
    """The schedule of a function of the round; the same function always has the same schedule, and so the same table."""
    if isinstance(function, Schedule):
        return function
    try:
        return _known.setdefault(function, Schedule(function))
    except TypeError:  # a callable that cannot be remembered, such as one without a hash
        return Schedule(function)


@contextmanager
def running_round(values: Mapping[Schedule, Array]) -> Iterator[None]:
    """Let schedules return these values inside the block, whatever round they are asked for: a program that runs one round uses it."""
    token = _running.set(values)
    try:
        yield
    finally:
        _running.reset(token)


class RoundNumberUsed(BaseException):
    """A function asked an unnumbered round for its number; no `except Exception` of its own may hide that."""


class UnnumberedRound:
    """A round that gives away the values of its schedules and nothing else.

    Every other use (arithmetic, comparison, truth, hashing, indexing) raises `RoundNumberUsed`.
    """

    __slots__ = ("_number", "_schedules", "asked")

    def __init__(self, number: int, schedules: tuple[Schedule, ...]) -> None:
        self._number, self._schedules = number, schedules
        self.asked = False  # whether somebody did, and perhaps caught what that raised

    # It passes for a whole number, so that nobody tells it apart by asking what it is.
    __class__ = property(lambda self: int)

    def value_of(self, schedule: Schedule) -> float:
        """The value of a schedule that was declared."""
        if schedule not in self._schedules:
            self._refuse()
        return float(schedule(self._number))

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        self.asked = True
        raise RoundNumberUsed

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __hash__ = __index__ = __int__ = __float__ = (
        _refuse
    )
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __floordiv__ = _refuse
    __rfloordiv__ = __mod__ = __rmod__ = __divmod__ = __rdivmod__ = __pow__ = __rpow__ = __neg__ = __pos__ = __abs__ = (
        _refuse
    )
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = (
        _refuse
    )
    __invert__ = __complex__ = __round__ = __trunc__ = __floor__ = __ceil__ = __matmul__ = __rmatmul__ = _refuse
    __str__ = __repr__ = __format__ = __array__ = __getitem__ = __len__ = __iter__ = __contains__ = _refuse
