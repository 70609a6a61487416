"""Where two agreements differ, in words: what two parties with different digests ask each other."""

from collections.abc import Iterator
from typing import Any

from sottovoce.deployment.terms.agreement import Agreement
from sottovoce.deployment.terms.canonical_bytes import plain_of
from sottovoce.wording import brief

_ABSENT = "nothing"


def differences(first: Agreement, second: Agreement, *, most: int = 20) -> list[str]:
    """Where two agreements differ, in words; empty where they are the same."""
    found = list(_unlike(plain_of(first), plain_of(second), ""))
    more = [] if len(found) <= most else [f"and {len(found) - most} more"]
    return [*found[:most], *more]


def _unlike(first: Any, second: Any, place: str) -> Iterator[str]:
    if isinstance(first, dict) and isinstance(second, dict):
        for key in sorted(first.keys() | second.keys()):
            where = f"{place}.{brief(key)}".removeprefix(".")
            yield from _unlike(first.get(key, _ABSENT), second.get(key, _ABSENT), where)
    elif _is_list(first) and _is_list(second):
        yield from _unlike_lists(_entries(first), _entries(second), place)
    elif type(first) is not type(second) or first != second:
        yield f"{place}: {_shown(first)} in the first, {_shown(second)} in the second"


def _unlike_lists(first: list[Any], second: list[Any], place: str) -> Iterator[str]:
    if len(first) != len(second):
        yield f"{place}: {len(first)} entries in the first, {len(second)} in the second"
    for position, (one, other) in enumerate(zip(first, second, strict=False)):
        yield from _unlike(one, other, f"{place}[{position}]")


def _entries(plain: list[Any]) -> list[Any]:
    """The entries of a list without its tag, where it has one."""
    return plain[1:] if plain[:1] == ["list"] else plain


def _shown(value: Any) -> str:
    """A value as people read it, numbers with all their digits."""
    match value:
        case ["float", str(text)]:
            return _shown(text)
        case dict() | list():
            return f"{len(value)} entries"
    if isinstance(value, str) and value.lstrip("-").startswith("0x"):
        return repr(float.fromhex(value))
    return brief(str(value), 40)


def _is_list(plain: Any) -> bool:
    """Whether this is a list, and no number of a value of any shape, which is tagged."""
    return isinstance(plain, list) and plain[:1] != ["float"]
