"""What a store hands out: plain values, without the file they came from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from sottovoce.deployment.store.chain import Entry
from sottovoce.reprs import short_repr

Meter = Mapping[
    str, Any
]  # plain values for JSON: what a run has given away so far (`Cost.describe()`); a meter, no promise
Status = Literal["running", "finished", "closed", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """The next entry of a ledger, which says what a run may cost at most; it becomes true in `Store.begin_run`, with the run itself.

    Attributes:
        entry: number, body and hash; it fits the ledger only as long as no other entry came first.
    """

    entry: Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A run as the store knows it.

    Attributes:
        digest: of the agreement.
        name: of the run.
        agreement: its canonical bytes.
        run_key: the private key of this run; None once it is erased.
        entry: number of the ledger entry that reserved its cost.
        status: running; finished (there is a model, and messages may still be waiting); closed (all keys erased); cancelled.
        boots: starts of a party in this run.
        position: of the last committed exchange; -1 before the first, when nothing can have been sent.
        spent: the meter after it.
    """

    digest: bytes
    name: str
    agreement: bytes
    run_key: bytes | None
    entry: int
    status: Status
    boots: int
    position: int
    spent: Meter

    def __repr__(self) -> str:
        return f"RunRecord({self.name!r}, {self.digest.hex()[:16]}..., {self.status}, position {self.position})"


class Current(NamedTuple):
    """Where a run stands: the exchange that was committed last, the state, and what that exchange still needs."""

    position: int
    state: np.ndarray
    held: dict[str, np.ndarray]

    def __repr__(self) -> str:
        return short_repr(self)


class Outgoing(NamedTuple):
    """What a peer has not acknowledged yet."""

    peer: str
    position: int
    payload: bytes

    def __repr__(self) -> str:
        return f"Outgoing({self.peer!r}, position {self.position}, {len(self.payload)} bytes)"
