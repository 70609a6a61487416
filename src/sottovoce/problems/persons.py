"""Persons: several records of one person, all of them at one agent, at most m of them.

Two data sets differ in the values of ALL records of one person. How many records each person has, and at which agent, is the same in both:
that is public. Both facts, at most m records and a single agent, are what the sensitivity of a person rests on, so they are checked
wherever it is known which record belongs to whom. Who that is is then forgotten: a problem keeps m, and no identifier.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError
from sottovoce.numbers import whole
from sottovoce.reprs import short_repr

Integers = NDArray[np.int64]


class Persons(NamedTuple):
    """What is known of persons.

    Attributes:
        records: m, the most records that one person has, all of them at one agent.
        checked: whether that was held against the records; else it is the caller's promise.
    """

    records: int
    checked: bool

    def __repr__(self) -> str:
        return short_repr(self)


def person_keys(names: Iterable[Any]) -> list[str]:
    """What names of persons are compared by, so that a person written in two ways counts as one.

    Programs write 7 as 7.0 or 007, and an accent in one character or in two. Two persons who are taken for one are refused or need more noise;
    one who is taken for two would be protected less than is said. So whatever looks alike is one: letters large or small, with characters that
    do not show, and whole numbers with zeros around them.
    """
    return [_key(str(name)) for name in names]


def _key(name: str) -> str:
    text = "".join(sign for sign in unicodedata.normalize("NFKC", name).casefold() if sign.isprintable()).strip()
    number = re.fullmatch(r"0*(\d+)(\.0*)?", text)
    return number[1] if number else text


def declared_persons(records_per_person: int, persons: Sequence[Any] | None, sizes: NDArray[np.int64]) -> Persons:
    """Return what is declared of persons, held against whose record each one is where that is given.

    Args:
        records_per_person: m, the most records that one person may have.
        persons: K arrays of whole numbers, whose record each one is, [n_k]; None where nobody can tell.
        sizes: the number of records of each agent, [K].

    Raises:
        ConfigError: no such number, identifiers that do not fit the records, a person with more than m records, or at two agents.
    """
    most = whole("records_per_person", records_per_person)
    if persons is None:
        return Persons(most, checked=False)
    owners = _identifiers(persons, sizes)
    _refuse_too_many(owners, most)
    _refuse_two_agents(owners)
    return Persons(most, checked=True)


def _identifiers(persons: Sequence[Any], sizes: NDArray[np.int64]) -> list[Integers]:
    """One array of whole numbers per agent, as long as its records."""
    if len(persons) != len(sizes):
        raise ConfigError(
            f"persons were given for {len(persons)} agents, and the problem has {len(sizes)}. Give one array for each agent."
        )
    found = []
    for agent, (given, size) in enumerate(zip(persons, sizes, strict=True)):
        held = np.asarray(given)
        if held.dtype.kind not in "iu" or held.shape != (size,):
            raise ConfigError(
                f"persons of agent {agent} have type {held.dtype} and shape {held.shape}; needed is a whole number for each of "
                f"its {size} records. Number the persons."
            )
        found.append(held.astype(np.int64))
    return found


def _refuse_too_many(owners: list[Integers], most: int) -> None:
    """Refuse a person with too many records at one agent; places are named, persons are not."""
    for agent, held in enumerate(owners):
        _, which, counts = np.unique(held, return_inverse=True, return_counts=True)
        if counts.max() > most:
            first = int(np.flatnonzero(counts[which] > most)[0])
            raise ConfigError(
                f"agent {agent}: {int((counts > most).sum())} person(s) have more than records_per_person = {most} records, the most "
                f"{int(counts.max())}; the first is the person of record {first}. Keep at most {most} records of each, by a rule that "
                f"looks at no other person, or declare a larger number, which needs more noise."
            )


def _refuse_two_agents(owners: list[Integers]) -> None:
    """Refuse a person whose records lie at several agents: each would change, and more than one message with them."""
    each = [np.unique(held, return_index=True) for held in owners]
    agents = np.repeat(np.arange(len(owners)), [len(ids) for ids, _ in each])
    records = np.concatenate([first for _, first in each])
    _, which, counts = np.unique(np.concatenate([ids for ids, _ in each]), return_inverse=True, return_counts=True)
    twice = np.flatnonzero(counts[which] > 1)
    if len(twice):
        here, there = np.flatnonzero(which == which[twice[0]])[:2]
        raise ConfigError(
            f"{int((counts > 1).sum())} person(s) have records at several agents; record {records[here]} of agent {agents[here]} and record "
            f"{records[there]} of agent {agents[there]} belong to the same person. All records of a person must be at one agent: a change "
            f"at two of them shows in the messages of both, for which nothing is proved. Bring them together; where agents number their "
            f"persons independently, make the numbers distinct."
        )
