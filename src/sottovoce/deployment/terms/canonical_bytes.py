"""Values as bytes, one way only: the same value gives the same bytes on every machine, and different values different ones.

    dataclass                       object, with all its fields
    whole number, truth, None       as JSON has them
    float                           text in hexadecimal, exact: "0x1.999999999999ap-4"; no NaN, no infinity, no negative zero
    text                            text
    tuple of one kind               list
    Plain (of any shape)            as above, but tagged, since no type says what it is: ["float", ".."], ["list", ..]

Keys are sorted, nothing is left out, and there is no white space. Reading is strict: a key that is unknown, missing or there twice, a number in
another form, a text where a number belongs: all are refused, and so is everything that is not byte for byte what writing would give.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from sottovoce.errors import ProtocolError
from sottovoce.wording import brief, brief_value

MOST_BYTES = 64_000_000  # of one document: far beyond any run, and small enough to be read
Value = TypeVar("Value")
_WHOLE = 2**63  # whole numbers stay below this in size


class Plain(dict[str, Any]):
    """A value of any shape: texts, numbers, truths, None, and lists and tables of them; by its type only, it is a dict."""


def to_bytes(value: Any) -> bytes:
    """The bytes of a dataclass of numbers and texts.

    Raises:
        ProtocolError: a value that has no such form.
    """
    plain = _encoded(value, type(value), "agreement")
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode("ascii")


def from_bytes(kind: type[Value], given: bytes) -> Value:
    """What `to_bytes` made these bytes of.

    Raises:
        ProtocolError: with the place that is wrong.
    """
    if len(given) > MOST_BYTES:
        raise ProtocolError(f"the agreement has {len(given):,} bytes; at most {MOST_BYTES:,} are read.")
    try:
        plain = json.loads(
            given.decode("ascii"), object_pairs_hook=_once, parse_float=_no_fraction, parse_constant=_no_fraction
        )
        value: Value = _decoded(plain, kind, "agreement")
    except (ValueError, OverflowError, RecursionError) as error:
        raise ProtocolError(f"the agreement cannot be read: {brief(str(error), 200)}. Get it anew.") from error
    if to_bytes(value) != given:
        raise ProtocolError(
            "the agreement is not written as it must be, byte for byte: keys in order, no spaces, numbers in their one form. Get it anew."
        )
    return value


def plain_of(value: Any) -> Any:
    """The value as JSON has it, for people and for finding differences."""
    return _encoded(value, type(value), "agreement")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one table")
    return found


def _no_fraction(text: str) -> Any:
    raise ValueError(f"the number {brief(text)} is not written in hexadecimal")


@cache
def _types(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind)}


def _wrong(place: str, given: Any, needed: str) -> ProtocolError:
    return ProtocolError(f"{place} is {brief_value(given)}; {needed} is needed.")


def _encoded(value: Any, kind: Any, place: str) -> Any:
    """The value as JSON has it, checked against its type."""
    if kind is Plain:
        return _tagged(value, place)
    if is_dataclass(kind):
        return {name: _encoded(getattr(value, name), hint, f"{place}.{name}") for name, hint in _types(kind).items()}  # type: ignore[arg-type]
    if get_origin(kind) is tuple:
        if not isinstance(value, tuple):
            raise _wrong(place, value, "a tuple")
        inner = get_args(kind)[0]
        return [_encoded(each, inner, f"{place}[{position}]") for position, each in enumerate(value)]
    chosen = _choice(value, kind, place)
    return _hexadecimal(value, place) if chosen is float else _encoded(value, chosen, place) if chosen else value


def _choice(value: Any, kind: Any, place: str) -> Any:
    """Which type of a choice a value has; False where it is written as it is."""
    for each in _kinds(kind):
        if _fits(value, each):
            return each if each is float or is_dataclass(each) or get_origin(each) is tuple else False
    raise _wrong(place, value, _named(kind))


def _kinds(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value is of one type, and no other that passes for it: true is no whole number here, and 1 no float."""
    if kind is NoneType:
        return value is None
    if get_origin(kind) is Literal:
        return type(value) is str and value in get_args(kind)
    if get_origin(kind) is tuple:
        return isinstance(value, tuple)
    return type(value) is kind and (kind is not int or -_WHOLE < value < _WHOLE)


def _named(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(f'"{each}"' for each in get_args(kind))
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(_named(each) for each in get_args(kind))
    words = {
        int: "a whole number below 2^63",
        float: "a number",
        str: "text",
        bool: "true or false",
        NoneType: "nothing",
    }
    return words.get(kind, "a list" if get_origin(kind) is tuple else "a table")


def _hexadecimal(number: float, place: str) -> str:
    if not math.isfinite(number):
        raise _wrong(place, number, "a finite number")
    return (number + 0.0).hex()  # negative zero becomes zero


def _tagged(value: Any, place: str) -> Any:
    if isinstance(value, Mapping):
        if not all(type(key) is str for key in value):
            raise _wrong(place, value, "a table whose keys are texts")
        return {key: _tagged(each, f"{place}.{brief(key)}") for key, each in value.items()}
    if isinstance(value, list | tuple):
        return ["list", *(_tagged(each, f"{place}[{position}]") for position, each in enumerate(value))]
    if type(value) is float:
        return ["float", _hexadecimal(value, place)]
    if value is None or type(value) in (str, bool) or (type(value) is int and -_WHOLE < value < _WHOLE):
        return value
    raise _wrong(place, value, "a text, a number, true or false, or a list or table of these")


def _decoded(plain: Any, kind: Any, place: str) -> Any:
    """The value that a type and its JSON give."""
    if kind is Plain:
        return Plain(_untagged(_table(plain, place), place))
    if is_dataclass(kind):
        hints, table = _types(kind), _table(plain, place)  # type: ignore[arg-type]
        if wrong := sorted(hints.keys() ^ table.keys()):
            said = "unknown" if wrong[0] in table else "missing"
            raise ValueError(f"{place}.{brief(wrong[0])} is {said}")
        return kind(**{name: _decoded(table[name], hint, f"{place}.{name}") for name, hint in hints.items()})  # type: ignore[operator]
    if get_origin(kind) is tuple:
        if not isinstance(plain, list):
            raise _wrong(place, plain, "a list")
        inner = get_args(kind)[0]
        return tuple(_decoded(each, inner, f"{place}[{position}]") for position, each in enumerate(plain))
    if get_origin(kind) in (Union, UnionType):
        return _decoded_choice(plain, kind, place)
    if kind is float:
        return _number(plain, place)
    _choice(plain, kind, place)
    return plain


def _decoded_choice(plain: Any, kind: Any, place: str) -> Any:
    """A choice between kinds that JSON tells apart: nothing, a table, a list, a word, a number."""
    for each in get_args(kind):
        table, many = (
            is_dataclass(each) and isinstance(plain, dict),
            get_origin(each) is tuple and isinstance(plain, list),
        )
        if table or many:
            return _decoded(plain, each, place)
    if float in get_args(kind) and isinstance(plain, str):
        return _number(plain, place)
    _choice(plain, kind, place)
    return plain


def _table(plain: Any, place: str) -> dict[str, Any]:
    if not isinstance(plain, dict):
        raise _wrong(place, plain, "a table")
    return plain


def _untagged(plain: Any, place: str) -> Any:
    if isinstance(plain, dict):
        return {key: _untagged(each, f"{place}.{brief(key)}") for key, each in plain.items()}
    if not isinstance(plain, list):
        return plain
    match plain:
        case ["float", str(text)]:
            return _number(text, place)
        case ["list", *inner]:
            return [_untagged(each, f"{place}[{position}]") for position, each in enumerate(inner)]
    raise _wrong(place, plain, "a list that says what it is")


def _number(text: Any, place: str) -> float:
    if not isinstance(text, str):
        raise _wrong(place, text, "a number in hexadecimal")
    return float.fromhex(text)
