"""How values show themselves in a session: one line that says what they are, with the shapes of arrays in place of their numbers.

A class takes it by `def __repr__(self) -> str: return short_repr(self)`. Numbers of records never stand in it, so that a session can be shown to others.
"""

import dataclasses
from collections.abc import Mapping, Set
from typing import Any

from sottovoce.wording import brief

_LONGEST = 70  # of one part
_MOST_ITEMS = 4  # of a tuple or list that is shown whole


def short_repr(value: Any) -> str:
    """The name of the class and its fields; functions and what is not set are left out, arrays are shapes."""
    parts = []
    for name, default in _fields(value):
        held = getattr(value, name)
        if name.startswith("_") or _unset(held, default) or (callable(held) and not hasattr(held, "shape")):
            continue
        parts.append(f"{name}={shown_part(held)}")
    return f"{type(value).__name__}({', '.join(parts)})"


def described_repr(value: Any) -> str:
    """The name of the class and what it says of itself in `describe()`: a bundle of functions has no better fields."""
    described = dict(value.describe())
    parts = [repr(described.pop("name")), *(f"{key}={shown_part(held)}" for key, held in described.items())]
    return f"{type(value).__name__}({', '.join(parts)})"


def shown_part(held: Any) -> str:
    """One value inside another: a shape for an array, names for a mapping, a count for a long list."""
    if hasattr(held, "shape") and hasattr(held, "dtype"):
        return f"{held.dtype}{list(held.shape)}" if held.shape else brief(str(held), _LONGEST)
    if isinstance(held, Mapping):
        return f"{{{brief(', '.join(map(str, held)), _LONGEST)}}}"
    if isinstance(held, tuple | list | Set) and not hasattr(held, "_fields"):
        return _listed(held)
    if dataclasses.is_dataclass(held) or hasattr(held, "_fields"):
        text = repr(held)
        return text if len(text) <= _LONGEST and "\n" not in text else f"{type(held).__name__}(...)"
    return brief(repr(held), _LONGEST)


def _listed(items: Any) -> str:
    shown = [shown_part(each) for each in items] if len(items) <= _MOST_ITEMS else []
    text = f"({', '.join(shown)}{',' if len(shown) == 1 else ''})"
    return text if len(items) <= _MOST_ITEMS and len(text) <= _LONGEST else f"({len(items):,} items)"


def _fields(value: Any) -> list[tuple[str, Any]]:
    """Names of the fields of a dataclass or named tuple, with their defaults."""
    if dataclasses.is_dataclass(value):
        return [(each.name, each.default) for each in dataclasses.fields(value)]
    return [(name, value._field_defaults.get(name, dataclasses.MISSING)) for name in value._fields]


def _unset(held: Any, default: Any) -> bool:
    """Whether a field has the empty value it would have had anyway."""
    return held is None or (default is not dataclasses.MISSING and held is default)
