"""Runs that go on under another agreement, without parties that were lost: what was signed about them, and the step from one to the next.

Nothing of it is sent before it is written down here. A run that goes on keeps its place in the ledger: its reservation covers both.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sottovoce.deployment.store.blobs import put
from sottovoce.deployment.store.rows import drop_arrays, drop_outgoing, keep_arrays, kept_arrays, number_of
from sottovoce.deployment.store.store import HELD, STATE, TAKEN, Store

_STATEMENTS, _CERTIFICATE, _AFTER = "statements", "certificate", "after"


class Following(NamedTuple):
    """The agreement under which a run goes on."""

    digest: bytes
    agreement: bytes  # canonical
    run_key: bytes  # private, of this party

    def __repr__(self) -> str:
        return f"<Following: {self.digest.hex()[:16]}>"  # a key belongs on no screen


def succeed(
    store: Store,
    digest: bytes,
    following: Following,
    *,
    state: np.ndarray,
    held: Mapping[str, np.ndarray],
    statements: Sequence[bytes],
) -> None:
    """Let a run go on under another agreement, in one transaction: its reservation, its position and its state stay, its keys and messages end.

    Args:
        store: open for writing.
        digest: of the agreement that ends.
        following: the one that follows.
        state: after the last exchange, taken.
        held: by the last exchange, for later ones of its round: what was drawn for a round is drawn once.
        statements: by which all who remain have signed it.

    Raises:
        StoreError: the run is not running, or the successor was begun before.
    """
    with store.writing("succeed", erases=True) as connection:
        run = number_of(connection, digest, ("running",))
        name, entry, position, spent = connection.execute(
            "SELECT name, entry, position, spent FROM runs WHERE run = ?", (run,)
        ).fetchone()
        drop_outgoing(connection, run)
        drop_arrays(connection, run, (STATE, HELD, TAKEN, _STATEMENTS))
        # The meter goes on with the successor, so that nothing is counted twice.
        connection.execute("UPDATE runs SET status = 'closed', run_key = NULL, spent = '{}' WHERE run = ?", (run,))
        connection.execute(
            "INSERT INTO runs (digest, name, agreement, run_key, entry, status, boots, position, spent) "
            "VALUES (?, ?, ?, ?, ?, 'running', 0, ?, ?)",
            (
                following.digest,
                name,
                put(connection, memoryview(following.agreement), []),
                following.run_key,
                entry,
                position,
                spent,
            ),
        )
        next_run = number_of(connection, following.digest)
        keep_arrays(connection, next_run, STATE, {"": state})
        keep_arrays(connection, next_run, HELD, held)
        keep_arrays(connection, next_run, _CERTIFICATE, _arrays(statements) | {_AFTER: np.array([position])})


def keep_statements(store: Store, digest: bytes, statements: Sequence[bytes]) -> None:
    """Write down what parties have signed about those who are lost; when this returns it may be sent."""
    with store.writing("statements") as connection:
        run = number_of(connection, digest, ("running", "finished"))
        keep_arrays(connection, run, _STATEMENTS, _arrays(statements))


def statements_of(store: Store, digest: bytes) -> list[bytes]:
    """What parties have signed about those who are lost, under this agreement."""
    return [array.tobytes() for _, array in sorted(_kept(store, digest, _STATEMENTS).items())]


def certificate_of(store: Store, digest: bytes) -> list[bytes]:
    """What all who remained have signed when this agreement followed another; empty where it followed none."""
    kept = _kept(store, digest, _CERTIFICATE)
    return [array.tobytes() for name, array in sorted(kept.items()) if name != _AFTER]


def certificates_of(store: Store, digest: bytes) -> list[bytes]:
    """The same of this agreement and of all before it: the runs of one entry of the ledger are one run."""
    run = store.run(digest)
    earlier = [other.digest for other in store.runs() if run is not None and other.entry == run.entry]
    return [blob for each in earlier for blob in certificate_of(store, each)]


def followed_after(store: Store, digest: bytes) -> int:
    """The last exchange under the agreement that this one followed; -1 where it followed none."""
    kept = _kept(store, digest, _CERTIFICATE).get(_AFTER)
    return -1 if kept is None else int(kept[0])


def keep_taken(store: Store, digest: bytes, state: np.ndarray) -> None:
    """Write down the state after the last committed exchange was taken; it is gone with the next commit."""
    with store.writing("taken") as connection:
        keep_arrays(connection, number_of(connection, digest, ("running",)), TAKEN, {"": state})


def taken_state(store: Store, digest: bytes) -> np.ndarray | None:
    """The state after the last committed exchange, where it was written down."""
    return _kept(store, digest, TAKEN).get("")


def _kept(store: Store, digest: bytes, use: str) -> dict[str, np.ndarray]:
    with store.reading() as connection:
        return kept_arrays(connection, number_of(connection, digest), use)


def _arrays(blobs: Sequence[bytes]) -> dict[str, np.ndarray]:
    return {f"{number:04d}": np.frombuffer(blob, dtype=np.uint8) for number, blob in enumerate(blobs)}
