"""Runs that go on under another agreement, without parties that were lost: what was signed about them, and the step from one to the next.

Nothing of it is sent before it is written down here. A run that goes on keeps its place in the ledger: its reservation covers both.
"""

from collections.abc import Sequence

import numpy as np

from sottovoce.deployment.store.blobs import put
from sottovoce.deployment.store.rows import drop_arrays, drop_outgoing, keep_arrays, kept_arrays, number_of
from sottovoce.deployment.store.store import HELD, STATE, TAKEN, Store

_STATEMENTS, _CERTIFICATE, _AFTER = "statements", "certificate", "after"


def succeed(
    store: Store,
    digest: bytes,
    successor: bytes,
    agreement: bytes,
    run_key: bytes,
    *,
    state: np.ndarray,
    statements: Sequence[bytes],
) -> None:
    """Let a run go on under another agreement, in one transaction: its reservation, its position and its state stay, its keys and messages end.

    Args:
        store: open for writing.
        digest: of the agreement that ends.
        successor: of the one that follows.
        agreement: its canonical bytes.
        run_key: the private key of this party for it.
        state: after the last exchange, taken.
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
            (successor, name, put(connection, memoryview(agreement), []), run_key, entry, position, spent),
        )
        following = number_of(connection, successor)
        keep_arrays(connection, following, STATE, {"": state})
        keep_arrays(connection, following, _CERTIFICATE, _arrays(statements) | {_AFTER: np.array([position])})


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
