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

Everything else is refused, so that what comes out is a proof. All numbers are in units of the lattice, on which states lie; what is received does not, and its error is
counted where it is combined.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.deployment.privacy.gradients import UNIT_ROUNDOFF
from sottovoce.errors import UnsupportedClaim
from sottovoce.linear import refill, state_blocks

Sources = frozenset[int]
GradientSize = Callable[[float], float]  # from the size of a point's entries to that of its gradient's


class Traced:
    """A vector of which only coefficients, sources, the size of its entries and their error are known."""

    __slots__ = ("coefficients", "error", "size", "sources")
    __array_ufunc__ = None  # NumPy numbers on the left hand the operation over

    def __init__(self, coefficients: np.ndarray, sources: Sources, size: float, error: float = 0.0) -> None:
        self.coefficients, self.sources, self.size, self.error = coefficients, sources, size, error

    @property
    def on_lattice(self) -> bool:
        """Whether it is a block of the state, as it is or with the other sign: nothing was computed, and rounding changes nothing.

        A box may have clipped it. Rounded, that is whole numbers clipped to a box of whole numbers, which moves no two of them apart.
        """
        single = np.count_nonzero(self.coefficients) == 1 and len(self.sources) == 1
        return single and self.error == 0.0 and abs(self.coefficients[:-2].sum()) == 1.0

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
    point_size: float  # of the entries of these points


class TracedRound(NamedTuple):
    """One round of an agent; between stages everything is rounded to the lattice."""

    begin: Stage | None
    messages: tuple[Stage, ...]  # one value each
    updates: tuple[Stage, ...]  # b values each
    blocks: int

    @property
    def point_size(self) -> float:
        """A bound on the entries of every point at which a gradient is taken."""
        begins = () if self.begin is None else (self.begin,)
        return float(max(stage.point_size for stage in (*begins, *self.messages, *self.updates)))


def traced_round(
    algorithm: Algorithm, round_: int, *, bound: float, received: float, gradient: GradientSize
) -> TracedRound:
    """Play one agent's round on traced values, stage by stage.

    Args:
        algorithm: whose functions.
        round_: from 1.
        bound: of the entries of states, in units.
        received: of the entries of what was received.
        gradient: of the entries of a gradient, as a function of the size of its point.

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
        sizes = [0.0]

        def asked(point: Any, step: int = 0) -> Traced:
            at = _as_traced(point, b + 2)
            points.update(at.sources)
            sizes.append(at.size + at.error)
            return variable(b + 1, gradient(sizes[-1]))

        made = [_as_traced(value, b + 2) for value in state_blocks(function(*given, asked, round_))]
        # A gradient that nothing was made of, as in rounds that only average, may be taken anywhere.
        used = any(b + 1 in value.sources for value in made)
        return Stage(tuple(made), frozenset(points) if used else frozenset(), max(sizes))

    arrived = variable(b, received)
    return TracedRound(
        begin=None if algorithm.begin is None else stage(algorithm.begin, state),
        messages=tuple(stage(exchange.message, state) for exchange in algorithm.exchanges),
        updates=tuple(stage(exchange.update, state, arrived) for exchange in algorithm.exchanges),
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
