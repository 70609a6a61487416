"""Stores for tests, and what is put into them."""

import numpy as np

from sottovoce.deployment.ledger import Ledger, create_ledger
from sottovoce.deployment.privacy import Cost

DIGEST = bytes(range(32))
RUN_KEY = b"the private key of this run only"
AGREEMENT = b'{"rounds": 3}'


def made(folder, name="patients.ledger"):
    """The path of a new store in a private folder."""
    folder.chmod(0o700)
    path = folder / name
    create_ledger(path, name="patients", unit="record", adjacency="replace", delta=1e-5, budget=100.0)
    return path


def begun(store, digest=DIGEST, name="trial", agreement=AGREEMENT):
    asked = {"unit": "record", "adjacency": "replace", "observer": "everybody else"}
    reservation = Ledger(store).reserve(name, digest, Cost.gaussian(0.1), **asked)
    return store.begin_run(digest, name, agreement, reservation, RUN_KEY)


def exchange(position, dimension=5):
    """What `commit` takes in exchange `position`; every number tells which exchange it belongs to."""
    numbers = np.arange(dimension, dtype=np.int64) + 1000 * (position + 1)
    return {
        "state": np.stack([numbers, -numbers]),
        "held": {"copy": numbers + 1, "batch": np.asarray([position, 7], dtype=np.int32)},
        "outgoing": {peer: (numbers.astype("<u8") + (index << 40)).tobytes() for index, peer in ((1, "bo"), (2, "cy"))},
        "spent": {"kind": "gaussian", "value": 0.1 * (position + 1)},
    }  # fmt: skip


def committed(store, position, digest=DIGEST):
    return store.commit(digest, position, **exchange(position))


def is_exchange(store, position, digest=DIGEST):
    """Whether all that the store knows of a run is what was committed in exchange `position`."""
    expected, found, run = exchange(position), store.current(digest), store.run(digest)
    return (
        run.position == position
        and found.position == position
        and np.array_equal(found.state, expected["state"])
        and set(found.held) == set(expected["held"])
        and all(np.array_equal(found.held[name], array) for name, array in expected["held"].items())
        and run.spent == expected["spent"]
        and {(out.peer, out.payload) for out in store.outgoing(digest) if out.position == position} == set(expected["outgoing"].items())
        and max(out.position for out in store.outgoing(digest)) == position
        and store.counters().exchanges == position + 1
    )  # fmt: skip
