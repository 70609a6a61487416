"""What people who look on are told of a role of GOPA: which round, who is waited for, and when the others were heard of."""

import math
from collections.abc import Callable, Mapping
from typing import Protocol

from sottovoce.deployment.gopa_parties.plan import Plan
from sottovoce.deployment.party import Book, Onlooker, Other, Phase, Progress, Standing


class Told(Protocol):
    """A role that people look at."""

    @property
    def plan(self) -> Plan:
        """Of the run."""

    @property
    def book(self) -> Book:
        """Its pages of the store."""

    @property
    def watch(self) -> Onlooker:
        """Who looks on."""

    @property
    def progress(self) -> Callable[[Progress], None]:
        """Told whenever the role looks around."""


def tell(role: Told, round_: int, length: int, awaited: tuple[str, ...], heard: Mapping[str, float]) -> None:
    """Say where a role stands, whenever it looks around.

    Args:
        role: which one.
        round_: that is open in its log; 0 before the first.
        length: entries of its log, which grow as long as anything happens.
        awaited: whom it waits for.
        heard: when each of the others was heard of, by its clock; minus infinity: never.
    """
    moved, rounds = role.watch.since(length), role.plan.run.rounds
    done = min(max(round_ - 1, 0), rounds)
    phase: Phase = "greet" if round_ == 0 else "hear" if round_ <= rounds else "settle"
    role.progress(Progress(phase, done, rounds, awaited, 0.0, 0))

    def standing() -> Standing:
        others = [Other(name=name, heard=when, greeted=when > -math.inf) for name, when in heard.items()]
        return Standing(
            phase=phase,
            round=min(max(round_, 1), rounds),
            rounds=rounds,
            exchange=done,
            exchanges=rounds,
            moved=moved,
            awaited=awaited,
            others=tuple(others),
            boots=role.book.boots,
            spent=role.watch.epsilon(role.book.meter),
        )

    role.watch.look(standing)
