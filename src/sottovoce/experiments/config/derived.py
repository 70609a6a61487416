"""Tables derived from factories: the keys of a registered choice are the parameters of the function that makes it.

A parameter is read from a file as its annotation says: a whole number of at least 1, a number above 0, true or false, or one of the words of a
`Literal`; a function of the round, which no file can say, is left out of a choice between it and a number. A choice whose table says something else
than its factory takes (`fedavg`, `gopa`) has a section written by hand.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import reduce
from operator import or_
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import create_model

from sottovoce.experiments.config.values import Count, Positive, Section

_KEYS: dict[Any, Any] = {bool: bool, int: Count, float: Positive, NoneType: None}


def tables(
    registry: Mapping[str, Callable[..., Any]], base: type[Section], written: Mapping[str, type[Section]]
) -> dict[str, type[Section]]:
    """{kind: section} of a whole registry: those written by hand, and the others derived."""
    return {kind: written[kind] if kind in written else _derived(kind, make, base) for kind, make in registry.items()}


def choice(models: Mapping[str, type[Section]]) -> Any:
    """The type of a table that is one of these sections, by its `kind`."""
    return reduce(or_, models.values())


def _derived(kind: str, make: Callable[..., Any], base: type[Section]) -> type[Section]:
    hints = get_type_hints(make)
    fields: dict[str, Any] = {"kind": (Literal[kind], ...)}
    for name, parameter in inspect.signature(make).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and name not in base.model_fields:
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[name] = (_key(kind, name, hints[name]), default)
    title = f"{kind.title().replace('_', '')}Table"
    return create_model(title, __base__=base, __module__=__name__, __doc__=inspect.getdoc(make), **fields)


def _key(kind: str, name: str, hint: Any) -> Any:
    """What a file may say for a parameter."""
    if hint in _KEYS:
        return _KEYS[hint]
    if get_origin(hint) is Literal:
        return hint
    choices = get_args(hint) if get_origin(hint) in (Union, UnionType) else ()
    known = [_KEYS[each] for each in choices if each in _KEYS]
    if not known:
        raise TypeError(f"{kind}: no file can say {name}, which is {hint}; write a section for {kind!r} by hand")
    return reduce(or_, known)
