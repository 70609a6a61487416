"""What a party must not forget, in one file for a data set and all its runs.

The rule that everything rests on: an exchange is committed - meter, state, what it still needs, the very integers for each neighbour, counters -
in ONE transaction, and only then sent. So after a crash the same integers are sent again, never a second noisy version of them; an exchange that
was committed is never committed again; and a run without a committed exchange has sent nothing that depends on data.

    store = Store.open(path)                      one writer; Store.open(path, writer=False) reads meanwhile
    store.begin_run(digest, ..., reservation)     the ledger's entry and the run, in one transaction
    store.boot(digest)
    store.commit(digest, position, ...)           then send; then store.acknowledged(digest, peer, position)
    store.finish(digest, model)                   state and what it needed are erased; the key too, once all is acknowledged
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np

from sottovoce.deployment.store.blobs import drop, put
from sottovoce.deployment.store.chain import BEGINNING, Entry, linked
from sottovoce.deployment.store.counters import Counters, Proof
from sottovoce.deployment.store.database import Database, Reached, make_database, nothing
from sottovoce.deployment.store.others import Others
from sottovoce.deployment.store.refusals import StoreError
from sottovoce.deployment.store.rows import (
    all_entries,
    append_entry,
    close_served_runs,
    counters_in,
    drop_arrays,
    drop_outgoing,
    keep_arrays,
    keep_outgoing,
    kept_arrays,
    kept_outgoing,
    number_of,
    release_outgoing,
    unknown,
)
from sottovoce.deployment.store.values import Current, Meter, Outgoing, Reservation, RunRecord
from sottovoce.numbers import whole

_COLUMNS = "digest, name, agreement, run_key, entry, status, boots, position, spent"
STATE, HELD, MODEL = "state", "held", "model"
TAKEN = "taken"  # the state after the last exchange, where a party has consented to go on from it (`succession`)


class Store:
    """The open store of one data set; made by `Store.open`, to be closed (`with Store.open(path) as store:`)."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._others = Others()
        self._acknowledged: dict[tuple[bytes, str], int] = {}

    @staticmethod
    def create(path: str | Path, first_entry: bytes) -> None:
        """Make a store whose ledger begins with an entry; nothing is opened.

        Raises:
            StoreError: something is there already, or others may write the folder.
        """
        first = linked(0, BEGINNING, first_entry)
        make_database(Path(path), lambda connection, name: append_entry(connection, first))

    @staticmethod
    def open(path: str | Path, *, writer: bool = True, reached: Reached = nothing) -> "Store":
        """Open the store of a data set; a writer is alone, readers may look on.

        Args:
            path: the file.
            writer: False: to read only.
            reached: told of the points before, inside and after each commit, for tests that end the process there.

        Raises:
            AnotherWriter: a second writer.
            RestoredBackup: it knows less than it once did.
            StoreError: missing, damaged, changed, readable by others, or of a newer version.
        """
        database = Database(Path(path), writer=writer, reached=reached)
        try:
            store = Store(database)
            store._check_ledger()
        except BaseException:
            database.close()
            raise
        return store

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Keep what waits to be kept, and give the file free for others."""
        try:
            if self._database.writer and self._database.usable and (self._acknowledged or self._others.waiting):
                self.flush()
        finally:
            self._database.close()

    @property
    def path(self) -> Path:
        """The file."""
        return self._database.path

    # The ledger's entries

    def entries(self) -> tuple[Entry, ...]:
        """Entries of the ledger, each checked against the one before."""
        with self._database.reading() as connection:
            return all_entries(connection)

    def append(self, entry: Entry) -> None:
        """Add an entry that depends on no run.

        Raises:
            StoreError: another entry came first.
        """
        with self._database.transaction("append") as connection:
            append_entry(connection, entry)

    def secret(self) -> bytes:
        """The key under which this store takes digests of data files."""
        with self.reading() as connection:
            return bytes(connection.execute("SELECT secret FROM store").fetchone()[0])

    # Runs

    def begin_run(
        self, digest: bytes, name: str, agreement: bytes, reservation: Reservation, run_key: bytes
    ) -> RunRecord:
        """Reserve what a run costs and begin it, in one transaction: from here on the ledger counts it.

        Args:
            digest: of the agreement; a digest begins once.
            name: of the run.
            agreement: its canonical bytes.
            reservation: the ledger's entry (`Ledger.reserve`).
            run_key: the private key of this party for this run.

        Raises:
            StoreError: the run was begun before, or another entry came first.
        """
        with self._database.transaction("begin") as connection:
            if connection.execute("SELECT 1 FROM runs WHERE digest = ?", (digest,)).fetchone():
                raise StoreError(
                    f"the run {name!r} with digest {digest.hex()[:16]}... was begun before. Go on with it, or give the new run another name."
                )
            append_entry(connection, reservation.entry)
            connection.execute(
                f"INSERT INTO runs ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, 'running', 0, -1, '{{}}')",
                (digest, name, put(connection, memoryview(agreement), []), run_key, reservation.entry.number),
            )
        return self._run(digest)

    def run(self, digest: bytes) -> RunRecord | None:
        """The run of this agreement; None where it was never begun."""
        return next((run for run in self.runs() if run.digest == digest), None)

    def runs(self) -> list[RunRecord]:
        """All runs, the oldest first."""
        with self._database.reading() as connection:
            found = f"SELECT {_COLUMNS}, content FROM runs JOIN blobs ON blobs.blob = runs.agreement ORDER BY run"
            rows = connection.execute(found).fetchall()
        return [
            RunRecord(digest=row[0], name=row[1], agreement=row[9], run_key=row[3], entry=row[4], status=row[5], boots=row[6], position=row[7],
                      spent=json.loads(row[8]))
            for row in rows
        ]  # fmt: skip

    def boot(self, digest: bytes) -> int:
        """Count one more start of a party in this run, durably, and return how many there were with it."""
        with self._database.transaction("boot") as connection:
            run = number_of(connection, digest, ("running", "finished"))
            connection.execute("UPDATE runs SET boots = boots + 1 WHERE run = ?", (run,))
            connection.execute("UPDATE store SET boots = boots + 1")
        return self.boots(digest)

    def boots(self, digest: bytes) -> int:
        """Starts of a party in this run, counted by `boot`."""
        return self._run(digest).boots

    def commit(
        self,
        digest: bytes,
        position: int,
        *,
        state: np.ndarray,
        held: Mapping[str, np.ndarray],
        outgoing: Mapping[str, bytes],
        spent: Meter,
    ) -> Counters:
        """Keep everything about an exchange in one transaction; when this returns it may be sent, and not before.

        Args:
            digest: of the run's agreement.
            position: of the exchange; larger than any committed before.
            state: of the agent, in whole units.
            held: what the exchange still needs to be completed.
            outgoing: the integers for each neighbour, as bytes before they are sealed.
            spent: the meter after this exchange.

        Returns:
            The counters to sign and send along.

        Raises:
            StoreError: an exchange of this position was committed before, or the disk failed: nothing may be sent.
        """
        whole("position", position, least=0)
        with self._database.transaction("commit") as connection:
            run = number_of(connection, digest, ("running",))
            (last,) = connection.execute("SELECT position FROM runs WHERE run = ?", (run,)).fetchone()
            if position <= last:
                raise StoreError(
                    f"exchange {position} after exchange {last} was committed: no exchange has two versions. Read `current` and send what waits in "
                    f"`outgoing`."
                )
            free = self._write_waiting(connection)
            drop_arrays(connection, run, (TAKEN,))
            length = keep_arrays(connection, run, STATE, {"": state}) + keep_arrays(connection, run, HELD, held)
            length += keep_outgoing(connection, run, position, outgoing, free)
            drop(connection, free)
            connection.execute(
                "UPDATE runs SET position = ?, spent = ? WHERE run = ?",
                (position, json.dumps(dict(spent), allow_nan=False, sort_keys=True), run),
            )
            connection.execute("UPDATE store SET exchanges = exchanges + 1")
            counters = counters_in(connection)
            self._database.expect(length)
        self._forget_waiting()
        return counters

    def current(self, digest: bytes) -> Current | None:
        """Where the run stands; None before its first exchange, and once it is finished."""
        with self._database.reading() as connection:
            run = number_of(connection, digest)
            (position,) = connection.execute("SELECT position FROM runs WHERE run = ?", (run,)).fetchone()
            states = kept_arrays(connection, run, STATE)
            return Current(position, states[""], kept_arrays(connection, run, HELD)) if states else None

    def outgoing(self, digest: bytes) -> list[Outgoing]:
        """What peers have not acknowledged yet, the oldest first."""
        with self._database.reading() as connection:
            known = {peer: position for (run, peer), position in self._acknowledged.items() if run == digest}
            return kept_outgoing(connection, number_of(connection, digest), known)

    def acknowledged(self, digest: bytes, peer: str, position: int) -> None:
        """A peer has everything up to this position: it need not be kept any longer.

        It is forgotten in memory at once and in the file with the next transaction (`flush`): a crash in between sends the same integers once more.
        """
        key = (digest, peer)
        self._acknowledged[key] = max(position, self._acknowledged.get(key, -1))

    def flush(self) -> None:
        """Write acknowledgements and counters of others that wait for the next transaction."""
        with self.writing("flush") as connection:
            closed = close_served_runs(connection)
        if closed:
            self._database.erase()

    def finish(self, digest: bytes, model: np.ndarray | None) -> None:
        """The run is over: its state and what exchanges needed are erased, and its key as soon as every message is acknowledged.

        Args:
            digest: of the run's agreement.
            model: what the run gave this party, kept for it; None: nothing is kept.

        Raises:
            StoreError: the run is not running; or a reader keeps old pages from being erased, which the next opening does.
        """
        with self.writing("finish", erases=True) as connection:
            run = number_of(connection, digest, ("running",))
            drop_arrays(connection, run, (STATE, HELD, TAKEN))
            if model is not None:
                keep_arrays(connection, run, MODEL, {"": model})
            connection.execute("UPDATE runs SET status = 'finished' WHERE run = ?", (run,))
            close_served_runs(connection)

    def give_up(self, digest: bytes) -> None:
        """Erase a run's key, its state and whatever still waits to be sent; what it cost stays in the ledger."""
        with self._database.transaction("give up") as connection:
            run = number_of(connection, digest, ("running", "finished"))
            drop_outgoing(connection, run)
            drop_arrays(connection, run, (STATE, HELD, TAKEN))
            connection.execute("UPDATE runs SET status = 'closed', run_key = NULL WHERE run = ?", (run,))
        self._database.erase()

    def cancel(self, digest: bytes, release: Entry) -> None:
        """End a run that has sent nothing, with the ledger's entry that gives back what was reserved for it.

        Nothing was sent if no exchange was committed and no model was made: the one way to send is a commit before it.

        Raises:
            StoreError: an exchange was committed; what the run reserved stays reserved.
        """
        with self._database.transaction("cancel") as connection:
            run = number_of(connection, digest, ("running",))
            (position,) = connection.execute("SELECT position FROM runs WHERE run = ?", (run,)).fetchone()
            if position >= 0:
                raise StoreError(
                    f"exchange {position} of this run was committed, and may have been sent: what was reserved stays in the ledger. Use give_up to "
                    f"erase the run's keys."
                )
            append_entry(connection, release)
            connection.execute("UPDATE runs SET status = 'cancelled', run_key = NULL WHERE run = ?", (run,))
        self._database.erase()

    def model(self, digest: bytes) -> np.ndarray | None:
        """What a finished run gave this party."""
        with self._database.reading() as connection:
            return kept_arrays(connection, number_of(connection, digest), MODEL).get("")

    @contextmanager
    def writing(self, what: str, *, erases: bool = False) -> Iterator[sqlite3.Connection]:
        """One transaction, with what waits to be written; perhaps what it dropped is overwritten."""
        with self._database.transaction(what) as connection:
            drop(connection, self._write_waiting(connection))
            yield connection
        self._forget_waiting()
        if erases:
            self._database.erase()

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        """A look at the tables."""
        return self._database.reading()

    # How far this store and those of others have come

    def counters(self) -> Counters:
        """How far this store has come, to be signed and sent with every greeting and message."""
        with self._database.reading() as connection:
            return counters_in(connection)

    def seen(self, identity_key: bytes, counters: bytes, signature: bytes) -> None:
        """Take the counters of a peer's greeting, which may not be below any that it signed before.

        Raises:
            RestoredBackup: they are.
            ProtocolError: bytes that are no counters, or not signed by this identity.
        """
        self._others.seen(self._database, identity_key, Proof(counters, signature))

    def noted(self, identity_key: bytes, counters: bytes, signature: bytes) -> None:
        """Take the counters of a peer's message; messages may overtake each other, so smaller ones are passed over.

        Raises:
            ProtocolError: bytes that are no counters, or not signed by this identity.
        """
        self._others.noted(self._database, identity_key, Proof(counters, signature))

    def highest(self, identity_key: bytes) -> tuple[Proof, ...]:
        """The highest counters that an identity signed, one for each of its stores: to be shown to itself at every greeting."""
        return self._others.highest(self._database, identity_key)

    def check_not_behind(self, own_key: bytes, proofs: Iterable[Proof]) -> None:
        """Hold this store against what peers show: counters that bear one's own signature, and nothing else.

        Args:
            own_key: the Ed25519 key of the party that owns this store, 32 bytes.
            proofs: what peers showed; those that are not signed by this key, or are about another store, count for nothing.

        Raises:
            RestoredBackup: this store has sent more than it remembers.
        """
        self._others.check_not_behind(self.counters(), own_key, proofs)

    def _run(self, digest: bytes) -> RunRecord:
        found = self.run(digest)
        if found is None:
            raise unknown(digest)
        return found

    def _check_ledger(self) -> None:
        with self._database.reading() as connection:
            entries = all_entries(connection)
            (counted,) = connection.execute("SELECT entries FROM store").fetchone()
            reserved = [number for (number,) in connection.execute("SELECT entry FROM runs")]
        if counted != len(entries) or any(number >= counted for number in reserved) or not entries:
            raise StoreError(
                f"the ledger in {self.path} has {len(entries)} entries; {counted} were written. Somebody removed some; put back a whole copy."
            )

    def _write_waiting(self, connection: sqlite3.Connection) -> list[int]:
        """Write what others acknowledged and signed; return rows of bytes that are free now, which the caller uses or drops."""
        self._others.write(connection)
        return [
            blob
            for (digest, peer), position in self._acknowledged.items()
            for blob in release_outgoing(connection, number_of(connection, digest), peer, position)
        ]

    def _forget_waiting(self) -> None:
        self._acknowledged.clear()
        self._others.waiting.clear()
