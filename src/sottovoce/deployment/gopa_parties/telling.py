"""What people who look on are told of a role of GOPA: which round, who is waited for, and when the others were heard of."""

import math
from collections.abc import Callable, Mapping
from typing import Protocol

from sottovoce.deployment.gopa_parties.plan import Plan
from sottovoce.deployment.party import Book, Onlooker, Other, Phase, Progress, Standing
from sottovoce.deployment.transports import Transport


class Counted:
    """A transport that counts what is sent through it."""

    def __init__(self, transport: Transport) -> None:
        self._transport, self.sent_bytes = transport, 0
        self.open, self.recv, self.close = transport.open, transport.recv, transport.close
        self.busy = transport.busy

    @property
    def max_blob(self) -> int:
        """The most bytes in one blob."""
        return self._transport.max_blob

    def send(self, to: str, blob: bytes) -> None:
        """Begin to send a blob."""
        self.sent_bytes += len(blob)
        self._transport.send(to, blob)


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
    def line(self) -> Counted:
        """Its transport."""

    @property
    def progress(self) -> Callable[[Progress], None]:
        """Told whenever the role looks around."""


def tell(
    role: Told,
    round_: int,
    length: int,
    awaited: tuple[str, ...],
    heard: Mapping[str, float],
    *,
    at_once: bool = False,
) -> None:
    """Say where a role stands, whenever it looks around.

    Args:
        role: which one.
        round_: that is open in its log; 0 before the first.
        length: entries of its log, which grow as long as anything happens.
        awaited: whom it waits for.
        heard: when each of the others was heard of, by its clock; minus infinity: never.
        at_once: show it now, since there will be no other time.
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
            sent_bytes=role.line.sent_bytes,
            spent=role.watch.epsilon(role.book.meter),
        )

    role.watch.look(standing, at_once=at_once)
