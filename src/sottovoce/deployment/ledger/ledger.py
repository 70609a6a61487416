"""What all runs on a data set may have given away, and how much more may be.

Guaranteed: the budget and the reservations. A run is reserved with the most that it can cost, in the transaction that begins it and before its
first message; together, reservations never exceed the budget. What was "spent" is a meter: it follows committed exchanges, and nothing rests on
it. A reservation is given back only where no exchange of its run was ever committed, for then nothing was sent.

A ledger belongs to a data set that its owner named. A changed data file is recorded with the next run and resets nothing: the records that stayed
are the same records. Every run counts, also those of a search for good settings.
"""

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sottovoce.deployment.ledger.entries import (
    UNLIMITED,
    Budget,
    Created,
    LedgerEntry,
    Released,
    Reserved,
    checked_name,
    from_body,
    to_body,
)
from sottovoce.deployment.ledger.sums import total_epsilon
from sottovoce.deployment.privacy import Cost
from sottovoce.deployment.store import Entry, Reservation, RunRecord, Store, StoreError, linked
from sottovoce.errors import BudgetExhausted, IncompatibleChoice
from sottovoce.rounding import shown

_ARITHMETIC = 1e-12  # relative: digits that float64 sums do not have
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over a ledger.

    Attributes:
        runs: reserved and not given back.
        reserved: epsilon at `delta` of all of them, guaranteed.
        spent: epsilon at `delta` of what has been committed so far: a meter.
        delta: of the ledger.
        budget: epsilon, or "unlimited".
        data_files: how many different data files the runs saw.
    """

    runs: int
    reserved: float
    spent: float
    delta: float
    budget: Budget
    data_files: int


def create_ledger(path: str | Path, *, name: str, unit: str, adjacency: str, delta: float, budget: Budget) -> None:
    """Begin the ledger of a data set, in a new store.

    Args:
        path: the file of the store; nothing may be there.
        name: of the data set, for people.
        unit: "record", "person" or "agent": what is protected.
        adjacency: "replace" or "add-remove".
        delta: of every sum in this ledger.
        budget: the most epsilon at this delta, or "unlimited", without which no run with an infinite guarantee begins.

    Raises:
        ConfigError: a value that cannot be counted.
        StoreError: something is there already, or others may write the folder.
    """
    first = Created(name=name, unit=unit, adjacency=adjacency, delta=delta, budget=budget, at=now())
    Store.create(path, to_body(first))


class Ledger:
    """The ledger in an open store; entries are checked when it is read."""

    def __init__(self, store: Store) -> None:
        """Read the ledger of a store.

        Raises:
            StoreError: entries that no version wrote.
        """
        self.store = store
        first = self.entries()[0]
        if not isinstance(first, Created):
            raise StoreError(f"the ledger in {store.path} does not begin with its creation. Put back a whole copy.")
        self.created = first

    def entries(self) -> tuple[LedgerEntry, ...]:
        """What was written, the oldest first."""
        return tuple(from_body(entry.body) for entry in self.store.entries())

    def standing(self) -> dict[int, Reserved]:
        """Reservations that were not given back, by the number of their entry."""
        entries = self.entries()
        released = {entry.of for entry in entries if isinstance(entry, Released)}
        return {
            number: entry
            for number, entry in enumerate(entries)
            if isinstance(entry, Reserved) and number not in released
        }

    def counted(self) -> list[Cost]:
        """Costs that count, in the order of their reservation.

        What was given back before the first Gaussian run counts no longer. After it, only what was reserved after it can be given back: what
        pure runs before it may cost was fixed when it began (`sums`).
        """
        entries = self.entries()
        given_back = {entry.of: number for number, entry in enumerate(entries) if isinstance(entry, Released)}
        reserved = {number: entry.cost for number, entry in enumerate(entries) if isinstance(entry, Reserved)}
        gaussian = (number for number, cost in reserved.items() if cost.kind == "gaussian" and number not in given_back)
        first = next(gaussian, len(entries))
        return [
            cost
            for number, cost in reserved.items()
            if number not in given_back or (number < first < given_back[number] and cost.kind != "infinite")
        ]

    def totals(self) -> Totals:
        """The sums, as they are now."""
        standing = self.standing()
        delta = self.created.delta
        meters = [_metered(run) for run in self.store.runs() if run.entry in standing]
        return Totals(
            runs=len(standing),
            reserved=total_epsilon(self.counted(), delta),
            spent=total_epsilon(meters, delta),
            delta=delta,
            budget=self.created.budget,
            data_files=len({entry.data for entry in standing.values() if entry.data}),
        )

    def with_run(self, cost: Cost) -> float:
        """The epsilon of all reservations and of one run more: what a party is shown before it agrees."""
        return total_epsilon([*self.counted(), cost], self.created.delta)

    def next_share(self) -> float:
        """A share of delta for a run of which only one pair (epsilon, delta) can be proven: half of what earlier pairs have left.

        Such a run's cost is `Cost.at(guarantee.epsilon(share), share)`; the share is fixed with the reservation. Halving never uses up delta.
        """
        taken = math.fsum(cost.at_delta for cost in self.counted())
        return 0.5 * max(0.0, self.created.delta - taken)

    def reserve(
        self, run: str, digest: bytes, cost: Cost, *, unit: str, adjacency: str, observer: str, data: str = ""
    ) -> Reservation:
        """Check a run against the budget, and prepare the entry with which `Store.begin_run` reserves its cost; nothing is written here.

        Args:
            run: its name.
            digest: of its agreement.
            cost: at most, for this data set.
            unit: what the cost protects.
            adjacency: how two worlds differ in it.
            observer: against whom it was proven, in words.
            data: `data_digest` of the file that the run reads; empty where there is none.

        Raises:
            BudgetExhausted: together with what is reserved, it would exceed the budget; or its cost is infinite and the budget is not unlimited.
            IncompatibleChoice: a cost for another unit or adjacency.
        """
        checked_name("the name of the run", run)
        asked, kept = (unit, adjacency), (self.created.unit, self.created.adjacency)
        if asked != kept:
            raise IncompatibleChoice(
                f"the run protects one {unit} ({adjacency}), and the ledger {self.created.name!r} counts for one {kept[0]} ({kept[1]}); such numbers "
                f"do not add up. Account the run with unit = {kept[0]!r} and adjacency = {kept[1]!r}, or keep another ledger for it."
            )
        self._check_budget(run, cost)
        entry = Reserved(run=run, digest=digest.hex(), cost=cost, observer=observer, data=data, at=now())
        return Reservation(entry=self._next(entry))

    def cancel(self, digest: bytes) -> None:
        """Give back what a run reserved, if no exchange of it was ever committed; the run ends.

        Raises:
            StoreError: an exchange was committed, or there is no such run.
        """
        run = self.store.run(digest)
        if run is None:
            raise StoreError(f"no run with digest {digest.hex()[:16]}... was begun in this store. Give another one.")
        self.store.cancel(digest, self._next(Released(of=run.entry, at=now())))

    def data_digest(self, path: str | Path) -> str:
        """The digest of a data file under the store's own key: it tells that a file changed, and nobody else what is in it."""
        with Path(path).open("rb") as file:
            return self.keyed_digest(iter(lambda: file.read(_CHUNK), b""))

    def keyed_digest(self, chunks: Iterable[bytes]) -> str:
        """The digest of bytes under the store's own key."""
        digest = hashlib.blake2b(key=self.store.secret(), digest_size=32)
        for chunk in chunks:
            digest.update(chunk)
        return digest.hexdigest()

    def _check_budget(self, run: str, cost: Cost) -> None:
        budget = self.created.budget
        if budget == UNLIMITED:
            return
        delta, name, after = self.created.delta, self.created.name, self.with_run(cost)
        if cost.epsilon(delta) == math.inf:
            raise BudgetExhausted(
                f"the run {run!r} has no finite epsilon at delta = {delta:g}, and the ledger {name!r} has a budget of {plain(budget)}. Change the run so that it "
                f'protects; only a ledger created with budget = "unlimited" lets it begin. Nothing was reserved and nothing sent.'
            )
        if after * (1.0 - _ARITHMETIC) > budget:
            before = total_epsilon(self.counted(), delta)
            raise BudgetExhausted(
                f"the run {run!r} costs epsilon {shown(cost.epsilon(delta), 4)}; with epsilon {shown(before, 4)} that is reserved, the ledger {name!r} "
                f"would come to {shown(after, 4)} at delta = {delta:g}, above its budget of {plain(budget)}. Plan fewer rounds or more noise. Nothing was "
                f"reserved and nothing sent."
            )

    def _next(self, entry: LedgerEntry) -> Entry:
        last = self.store.entries()[-1]
        return linked(last.number + 1, last.hash, to_body(entry))


def _metered(run: RunRecord) -> Cost:
    return Cost.parse(run.spent) if run.spent else Cost.pure(0.0)


def plain(budget: Budget) -> str:
    """A budget as its owner wrote it, with all digits."""
    return budget if budget == UNLIMITED else repr(float(budget)).removesuffix(".0")


def now() -> str:
    """The time, UTC, as entries have it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
