"""Vectors that show no coordinate: what treats all coordinates of a model alike runs on them, and nothing else does.

Linear forms are read off a few coordinates and stand for models of any size. That is right for functions that do the same to every coordinate:
operators, elementwise functions, and numbers that do not depend on the order of coordinates (a norm, a sum, a maximum). A function that looks
at a slice (a frozen layer, a step per layer), at the shape, or multiplies by a vector of its own does something else to coordinates that were
not tried. `Coordinates` refuses all of these, so that whatever runs on it treats coordinates alike: that is a proof, where trying is not.

It may hold several vectors at once, [vectors, columns], which are then tried in one go. Their norms are as many numbers, and a function that
decides by one of them in Python (`min(1.0, c / norm)`) raises `NumberNeeded`: its vectors have to be tried one by one.
"""

from typing import Any, NoReturn

import numpy as np

from sottovoce.errors import UnsupportedClaim

_LIKE = (
    "zeros_like",
    "ones_like",
    "full_like",
    "empty_like",
    "where",
    "clip",
    "real",
    "nan_to_num",
    "copy",
    "positive",
)
_REDUCTIONS = (
    "sum",
    "max",
    "min",
    "amax",
    "amin",
    "mean",
    "std",
    "var",
    "prod",
    "all",
    "any",
    "count_nonzero",
    "norm",
    "vector_norm",
)


class NumberNeeded(Exception):
    """A function needs one number where there are several, one for each vector."""


def _operator(function: np.ufunc, *, turned: bool = False) -> Any:
    """A method that applies an elementwise function to a vector and, if it takes two, to the other side."""
    return (lambda self, other: function(other, self)) if turned else (lambda *sides: function(*sides))


class Coordinates:
    """Numbers [columns], or [vectors, columns], on which only operations run that treat coordinates alike."""

    __slots__ = ("_values",)
    __array_priority__ = 1000.0

    def __init__(self, values: np.ndarray) -> None:
        self._values = values

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method == "reduce":
            return _reduced(ufunc.reduce, inputs, options)
        if method != "__call__" or options.get("out") is not None or ufunc.signature is not None:
            _refuse()
        return wrapped(ufunc(*map(_inside, inputs), **options))

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        name = function.__name__
        if name in _REDUCTIONS:
            return _reduced(function, args, options)
        if name not in _LIKE:
            _refuse()
        return wrapped(function(*map(_inside, args), **{key: _inside(value) for key, value in options.items()}))

    def __array_namespace__(self, **_: Any) -> Any:
        return _Namespace()

    @property
    def dtype(self) -> Any:
        """Of the numbers: the same for all coordinates."""
        return self._values.dtype

    def __getattr__(self, name: str) -> Any:
        if name in _REDUCTIONS:
            return lambda *args, **options: _reduced(getattr(np, name), (self, *args), options)
        if name in ("copy", "conj", "astype", "clip"):
            return lambda *args, **options: wrapped(getattr(self._values, name)(*args, **options))
        _refuse()

    __add__ = __radd__ = _operator(np.add)
    __mul__ = __rmul__ = _operator(np.multiply)
    __sub__, __rsub__ = _operator(np.subtract), _operator(np.subtract, turned=True)
    __truediv__, __rtruediv__ = _operator(np.true_divide), _operator(np.true_divide, turned=True)
    __pow__, __rpow__ = _operator(np.power), _operator(np.power, turned=True)
    __neg__, __pos__, __abs__ = _operator(np.negative), _operator(np.positive), _operator(np.absolute)
    __lt__, __le__ = _operator(np.less), _operator(np.less_equal)
    __gt__, __ge__ = _operator(np.greater), _operator(np.greater_equal)
    __eq__, __ne__ = _operator(np.equal), _operator(np.not_equal)

    def _number(self, *_: Any, **__: Any) -> NoReturn:
        if self._values.ndim > 1 and self._values.shape[1] == 1:
            raise NumberNeeded
        _refuse()

    __bool__ = __float__ = __int__ = _number

    def __getitem__(self, index: Any) -> Any:
        # A norm along the last axis gets that axis back.
        if index == (Ellipsis, None) and self._values.ndim > 1 and self._values.shape[1] == 1:
            return self
        _refuse()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        _refuse()

    __hash__ = __len__ = __iter__ = __setitem__ = __contains__ = __index__ = _refuse
    __array__ = __matmul__ = __rmatmul__ = __repr__ = __str__ = _refuse


class _Namespace:
    """The array namespace of `Coordinates`: NumPy's functions that treat coordinates alike."""

    def __getattr__(self, name: str) -> Any:
        if name == "linalg":
            return self
        found = getattr(np.linalg if name in ("norm", "vector_norm") else np, name, None)
        if isinstance(found, np.ufunc) or name in (*_LIKE, *_REDUCTIONS):
            return found
        if name in ("float32", "float64", "bool", "pi", "inf", "nan", "finfo"):
            return getattr(np, name)
        _refuse()


def wrapped(values: Any) -> Any:
    """The same numbers as a vector that shows none of its coordinates."""
    return Coordinates(np.asarray(values))


def unwrapped(value: Any) -> np.ndarray:
    """The numbers again; something without coordinates stands for every one of them, and is refused."""
    if isinstance(value, Coordinates):
        return np.asarray(value._values, dtype=float)
    return np.asarray(value, dtype=float)


def _inside(value: Any) -> Any:
    """A vector's numbers, or a single number; a vector from elsewhere has coordinates of its own."""
    if isinstance(value, Coordinates):
        return value._values
    if isinstance(value, int | float):  # first, because it is by far the most common
        return value
    if np.size(value) != 1:
        _refuse()
    return np.reshape(value, ())


def _reduced(function: Any, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """A number made of all coordinates in an order-free way."""
    axis = options.get("axis", inputs[2] if function is np.linalg.norm and len(inputs) > 2 else None)
    if axis not in (None, -1, 0) or options.get("keepdims") or options.get("out") is not None:
        _refuse()
    given = [_inside(value) for value in inputs]
    if given[0].ndim == 1:
        return function(*given, **{key: _inside(value) for key, value in options.items()})
    if len(given) > 1 and not (function is np.linalg.norm and len(given) == 2):
        raise NumberNeeded
    return Coordinates(function(*given, **{**options, "axis": -1, "keepdims": True}))


def _refuse() -> NoReturn:
    raise UnsupportedClaim(
        "the functions of an algorithm are accounted for models of any size if they treat all coordinates alike, and these look at single "
        "coordinates, at the shape, or multiply by a vector of their own (a step or a clip per layer, a frozen part). Use operators and "
        "elementwise functions of their own namespace on whole vectors; an optimiser, such as Optax has, is accounted in "
        "sv.algorithms.fedavg(update_clip=..., local_optimizer=...), which clips all that it does."
    )
