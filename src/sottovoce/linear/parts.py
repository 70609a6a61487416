"""The check that every entry point shares: each argument is the kind of thing it should be, and what to write if it is not."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from sottovoce.algorithms import ALGORITHMS, Algorithm
from sottovoce.errors import ConfigError
from sottovoce.noise import SCHEMES, Law, Noise
from sottovoce.observers import Observer
from sottovoce.topologies import TOPOLOGIES, Topology

_ABSENT: Any = object()
_KINDS: dict[str, type] = {"topology": Topology, "algorithm": Algorithm, "noise": Noise, "observer": Observer}
_NAMES: dict[str, Mapping[str, Callable[..., Any]]] = {
    "topology": TOPOLOGIES,
    "algorithm": ALGORITHMS,
    "noise": SCHEMES,
}
_FOR_EXAMPLE = {
    "problem": "one of sv.problems, such as sv.problems.linear_regression(features, targets)",
    "topology": "one of sv.topologies, such as sv.topologies.ring(10)",
    "algorithm": "one of sv.algorithms, such as sv.algorithms.atc(step_size=0.1)",
    "noise": "one of sv.noise, such as sv.noise.independent(sv.noise.Gaussian(std=0.1)), or sv.noise.none()",
    "observer": "one of sv.observers, such as sv.observers.eavesdropper()",
}


def check_parts(
    *,
    problem: Any = _ABSENT,
    topology: Any = _ABSENT,
    algorithm: Any = _ABSENT,
    noise: Any = _ABSENT,
    observer: Any = _ABSENT,
) -> None:
    """Refuse things of another kind; only what is given is checked, and dicts of algorithms or noises entry by entry.

    Args:
        problem: data and a loss.
        topology: a network of agents.
        algorithm: one, or a dict of several.
        noise: a scheme, or a dict of several.
        observer: who looks.

    Raises:
        ConfigError: with what to write instead.
    """
    given = {"problem": problem, "topology": topology, "algorithm": algorithm, "noise": noise, "observer": observer}
    given = {name: value for name, value in given.items() if value is not _ABSENT}
    for name, value in given.items():
        many = name in ("algorithm", "noise") and isinstance(value, Mapping)
        for label, one in value.items() if many else [(None, value)]:
            if _kind_of(one) != name:
                where = name if label is None else f"{name}[{label!r}]"
                raise ConfigError(f"{where} = {_shown(one)}; {_what_to_write(name, one, tuple(given))}")


def _kind_of(value: Any) -> str | None:
    """Which part of a run this is; a problem is known by what it offers, since users may write their own."""
    for name, kind in _KINDS.items():
        if isinstance(value, kind):
            return name
    return "problem" if all(hasattr(value, name) for name in ("num_agents", "dimension", "gradient")) else None


def _what_to_write(name: str, value: Any, order: tuple[str, ...]) -> str:
    """The end of the refusal: what stands in the place of `value`."""
    kind = _kind_of(value)
    if kind is not None:
        listed = f" The order is {', '.join(order)}." if len(order) > 1 else ""
        return f"this is {'an' if kind[0] in 'ao' else 'a'} {kind}, and {name} must be {_FOR_EXAMPLE[name]}.{listed}"
    if name == "noise" and isinstance(value, Law):
        return f"this is the law of one source, and a scheme must say who adds it. Write sv.noise.independent(sv.noise.{value!r})."
    if name == "topology" and all(hasattr(value, part) for part in ("nodes", "edges", "is_directed")):
        return "this is a graph without weights. Write sv.topologies.from_networkx(graph)."
    return _call_instead(name, value) or f"needed is {_FOR_EXAMPLE[name]}."


def _call_instead(name: str, value: Any) -> str | None:
    """What to write where a factory, or its name, stands for what it makes; None: it does not."""
    known = _NAMES.get(name, {})
    if isinstance(value, str) and value in known:
        return f"this is a name, and here the thing itself is needed. Write {_call(name, value)}."
    if callable(value) and getattr(value, "__name__", None) in known:
        return f"this is the function that makes one. Call it: {_call(name, value.__name__)}."
    return None


def _call(name: str, factory: str) -> str:
    """How a thing is made by its factory, with the arguments that have no default."""
    folder = {"topology": "topologies", "algorithm": "algorithms"}.get(name, name)
    needed = [
        f"{one.name}=..." if one.kind is one.KEYWORD_ONLY else one.name
        for one in inspect.signature(_NAMES[name][factory]).parameters.values()
        if one.default is one.empty
    ]
    return f"sv.{folder}.{factory}({', '.join(needed)})"


def _shown(value: Any) -> str:
    """A value in one short line: named tuples and arrays would fill the screen."""
    said = repr(value).replace("\n", " ")
    return said if len(said) <= 60 and _kind_of(value) is None else type(value).__name__
