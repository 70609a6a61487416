"""What an agent's functions do to differences, and how far float64 takes them from exact numbers: read off the functions that run.

The functions of a round run, one stage after the other (`begin`, every `message`, every `update`), on `Traced` values instead of vectors. A traced value is
a linear combination of the variables of its stage and knows

    coefficients    of the variables: state blocks, what was received, the gradient
    sources         the variables that it was computed from at all: where none of them differs between two worlds, it has the same bits in both
    size            a bound on its entries
    error           a bound on how far float64 is from the exact number, in any entry (running error analysis: Higham 2002, section 3.3)

    a + b, a - b     sizes and errors add up, and one rounding:  u (size + error)
    c a, a / c       both times |c| or 1 / |c|, and one rounding; 0 a is zero, and has no source
    clip, where      no rounding; clipping to a box moves no two numbers apart, so coefficients stay bounds

Everything else is refused, so that what comes out is a proof. All numbers are in units of the lattice, on which state and received are exact.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.deployment.privacy.gradients import UNIT_ROUNDOFF
from sottovoce.errors import UnsupportedClaim
from sottovoce.linear import refill, state_blocks

Sources = frozenset[int]


class Traced:
    """A vector of which only coefficients, sources, the size of its entries and their error are known."""

    __slots__ = ("coefficients", "error", "size", "sources")
    __array_ufunc__ = None  # NumPy numbers on the left hand the operation over

    def __init__(self, coefficients: np.ndarray, sources: Sources, size: float, error: float = 0.0) -> None:
        self.coefficients, self.sources, self.size, self.error = coefficients, sources, size, error

    def _plus(self, other: Any, sign: float) -> "Traced":
        that = _constant(other, self) if not isinstance(other, Traced) else other
        combined = self.coefficients + sign * that.coefficients
        size, error = self.size + that.size, self.error + that.error
        exact = 0.0 in (self.size, that.size)  # adding zero changes no number
        return Traced(
            combined, self.sources | that.sources, size, error + (0.0 if exact else UNIT_ROUNDOFF * (size + error))
        )

    def __add__(self, other: Any) -> "Traced":
        return self._plus(other, 1.0)

    def __sub__(self, other: Any) -> "Traced":
        return self._plus(other, -1.0)

    def __rsub__(self, other: Any) -> "Traced":
        return (-self)._plus(other, 1.0)

    def __mul__(self, other: Any) -> "Traced":
        factor = _number(other)
        if factor == 0.0:
            return Traced(0.0 * self.coefficients, frozenset(), 0.0)
        return self._times(factor, exact=abs(factor) == 1.0)

    def __truediv__(self, other: Any) -> "Traced":
        return self._times(1.0 / _number(other), exact=False)

    def __neg__(self) -> "Traced":
        return self._times(-1.0, exact=True)

    def _times(self, factor: float, *, exact: bool) -> "Traced":
        size, error = abs(factor) * self.size, abs(factor) * self.error
        # The factor 1 / c of a division is itself rounded here, in numbers that are only bounds.
        rounding = 0.0 if exact else 2.0 * UNIT_ROUNDOFF * (size + error)
        return Traced(factor * self.coefficients, self.sources, size, error + rounding)

    __radd__, __rmul__ = __add__, __mul__

    def __array_namespace__(self, **_: Any) -> Any:
        return _Namespace()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        _refuse()

    __hash__ = __len__ = __iter__ = __getitem__ = __bool__ = __float__ = __array__ = __pow__ = __abs__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = __matmul__ = __rtruediv__ = _refuse


class _Namespace:
    """The functions that agents' functions may use on traced values."""

    @staticmethod
    def clip(value: Traced, *_: Any, **__: Any) -> Traced:
        return value

    @staticmethod
    def where(condition: Any, first: Any, second: Any) -> Any:
        if isinstance(condition, Traced):
            _refuse()
        return first if bool(condition) else second

    def __getattr__(self, name: str) -> NoReturn:
        _refuse()


class Stage(NamedTuple):
    """What one function computes from its variables: blocks 0..b-1, then b for what was received and b + 1 for the gradient."""

    values: tuple[Traced, ...]
    point: Sources  # of all points at which the function took gradients; empty where nothing was made of them


class TracedRound(NamedTuple):
    """One round of an agent; between stages everything is rounded to the lattice."""

    begin: Stage | None
    messages: tuple[Stage, ...]  # one value each
    updates: tuple[Stage, ...]  # b values each
    blocks: int


def traced_round(algorithm: Algorithm, round_: int, *, bound: float, gradient_size: float) -> TracedRound:
    """Play one agent's round on traced values, stage by stage.

    Args:
        algorithm: whose functions.
        round_: from 1.
        bound: of the entries of states and received combinations, in units.
        gradient_size: of the entries of a gradient, in units.

    Raises:
        UnsupportedClaim: the functions do something else than add, scale and clip.
    """
    template = algorithm.init(np.zeros(1))
    b = len(state_blocks(template))

    def variable(number: int, size: float) -> Traced:
        return Traced(np.eye(b + 2)[number], frozenset({number}), size)

    state = refill(template, [variable(block, bound) for block in range(b)])

    def stage(function: Callable[..., Any], *given: Any) -> Stage:
        points: set[int] = set()

        def gradient(point: Any, step: int = 0) -> Traced:
            points.update(point.sources if isinstance(point, Traced) else ())
            return variable(b + 1, gradient_size)

        made = [_as_traced(value, b + 2) for value in state_blocks(function(*given, gradient, round_))]
        # A gradient that nothing was made of, as in rounds that only average, may be taken anywhere.
        used = any(b + 1 in value.sources for value in made)
        return Stage(tuple(made), frozenset(points) if used else frozenset())

    received = variable(b, bound)
    return TracedRound(
        begin=None if algorithm.begin is None else stage(algorithm.begin, state),
        messages=tuple(stage(exchange.message, state) for exchange in algorithm.exchanges),
        updates=tuple(stage(exchange.update, state, received) for exchange in algorithm.exchanges),
        blocks=b,
    )


def _as_traced(value: Any, variables: int) -> Traced:
    return value if isinstance(value, Traced) else Traced(np.zeros(variables), frozenset(), abs(_number(value)))


def _constant(value: Any, like: Traced) -> Traced:
    return Traced(0.0 * like.coefficients, frozenset(), abs(_number(value)))


def _number(value: Any) -> float:
    if isinstance(value, Traced) or np.size(value) != 1:
        _refuse()
    return float(np.reshape(value, ()))


def _refuse() -> NoReturn:
    raise UnsupportedClaim(
        "the functions of this algorithm do more with vectors than add them, scale them by public numbers and clip them to a box, and how rounding and "
        "float64 act on that is not proved. Use an algorithm of the library."
    )
