"""Observers as text, as files and command lines name them: "eavesdropper", "coalition:1,2", "links:2->3", "server+final_model"."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from sottovoce.errors import ConfigError
from sottovoce.observers.observer import Observer
from sottovoce.wording import brief, suggest

_AGENT = re.compile(r"[0-9]{1,9}")
_LINK = re.compile(r"([0-9]{1,9})\s*->\s*([0-9]{1,9})")
_SHARE = re.compile(r"0(\.[0-9]{1,9})?")


class TextForm(NamedTuple):
    """How text says what an observer takes."""

    example: str
    read: Callable[
        [list[str]], Any
    ]  # the argument of its factory, from the items after the colon; None: they cannot be read


def one_agent(items: list[str]) -> int | None:
    """A single agent."""
    if len(items) > 1 and agents(items) is not None:
        listed = ",".join(items)
        raise ConfigError(
            f"observer 'curious_agent:{listed}': one agent alone is curious; several are 'coalition:{listed}'"
        )
    return int(items[0]) if _AGENT.fullmatch(items[0]) else None


def agents(items: list[str]) -> list[int] | None:
    """Agents by their numbers."""
    return [int(item) for item in items] if all(map(_AGENT.fullmatch, items)) else None


def number(items: list[str]) -> int | None:
    """How many agents."""
    return int(items[0]) if len(items) == 1 and _AGENT.fullmatch(items[0]) else None


def pairs(items: list[str]) -> list[tuple[int, int]] | None:
    """Links as sender->receiver."""
    found = [_LINK.fullmatch(item) for item in items]
    return [(int(link[1]), int(link[2])) for link in found if link] if all(found) else None


def share(items: list[str]) -> float | None:
    """A part of the agents, at least 0 and below 1."""
    return float(items[0]) if len(items) == 1 and _SHARE.fullmatch(items[0]) else None


def named(text: str, observers: Mapping[str, Callable[..., Observer]], forms: Mapping[str, TextForm]) -> Observer:
    """The observer that a text names; a plus sign puts several together.

    Raises:
        ConfigError: an unknown name, or agents or links that cannot be read.
    """
    parts = [_single(part.strip(), text, observers, forms) for part in text.split("+")]
    together = parts[0]
    for part in parts[1:]:
        together = together + part
    return together


def _single(
    text: str, whole: str, observers: Mapping[str, Callable[..., Observer]], forms: Mapping[str, TextForm]
) -> Observer:
    name, colon, rest = text.partition(":")
    if name not in observers:
        given = f"{brief(name)!r}" if name == whole else f"{brief(name)!r} in {brief(whole)!r}"
        raise ConfigError(f"unknown observer {given}{suggest(name, observers)}")
    if name not in forms:
        if colon:
            raise ConfigError(f"observer {brief(text)!r}: {name} takes nothing after its name; write {name!r}")
        return observers[name]()
    found = forms[name].read([item.strip() for item in rest.split(",")])
    if found is None:
        raise ConfigError(
            f"observer {brief(text)!r} cannot be read; write it like {forms[name].example!r}, agents numbered from 0"
        )
    return observers[name](found)
