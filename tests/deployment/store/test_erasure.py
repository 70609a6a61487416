"""What is erased is in none of the files any more."""

import numpy as np
import pytest

from deployment.store.stores import DIGEST, RUN_KEY, begun, exchange, made
from sottovoce.deployment.store import Store, StoreError

DIMENSIONS = (5, 30_000)  # within one page, and over several


def secrets_of(position, dimension):
    """Bytes that only this exchange has, from states and from what it needed."""
    given = exchange(position, dimension)
    arrays = [*given["state"], *(array for array in given["held"].values() if array.dtype == np.int64)]
    return [array[start : start + 4].tobytes() for array in arrays for start in (0, dimension // 2, dimension - 4)]


def found(path, contents):
    files = [each.read_bytes() for each in path.parent.iterdir()]
    return sum(content in file for content in contents for file in files)


@pytest.fixture(params=DIMENSIONS)
def finished(request, tmp_path):
    """A store whose run has committed three exchanges, with what must disappear."""
    path = made(tmp_path)
    contents = [content for position in range(3) for content in secrets_of(position, request.param)]
    with Store.open(path) as store:
        begun(store, agreement=bytes(20 * request.param))
        for position in range(3):
            store.commit(DIGEST, position, **exchange(position, request.param))
        yield path, store, contents


def test_states_and_key_are_gone_when_a_run_ends(finished):
    path, store, contents = finished
    assert found(path, secrets_of(2, exchange_dimension(store))) > 0
    assert found(path, [RUN_KEY]) > 0
    for peer in ("bo", "cy"):
        store.acknowledged(DIGEST, peer, 2)
    store.finish(DIGEST, None)
    assert found(path, [*contents, RUN_KEY]) == 0
    assert store.run(DIGEST).status == "closed"
    assert store.outgoing(DIGEST) == []


def exchange_dimension(store):
    return store.current(DIGEST).state.shape[1]


def test_the_key_stays_as_long_as_a_message_waits_and_no_longer(finished):
    path, store, contents = finished
    store.acknowledged(DIGEST, "bo", 2)
    store.acknowledged(DIGEST, "cy", 1)
    store.finish(DIGEST, None)
    assert found(path, contents) == 0
    assert (store.run(DIGEST).status, store.run(DIGEST).run_key) == ("finished", RUN_KEY)
    assert [(out.peer, out.position) for out in store.outgoing(DIGEST)] == [("cy", 2)]
    store.acknowledged(DIGEST, "cy", 2)
    store.flush()
    assert (store.run(DIGEST).status, store.run(DIGEST).run_key) == ("closed", None)
    assert found(path, [RUN_KEY]) == 0


def test_giving_up_erases_messages_too(finished):
    path, store, contents = finished
    payloads = [out.payload[:32] for out in store.outgoing(DIGEST)]
    assert found(path, payloads) > 0
    store.give_up(DIGEST)
    assert found(path, [*contents, *payloads, RUN_KEY]) == 0


def test_the_model_is_kept(finished):
    path, store, _ = finished
    model = np.asarray([0.25, -3.0])
    store.finish(DIGEST, model)
    store.close()
    with Store.open(path) as store:
        assert np.array_equal(store.model(DIGEST), model)


def test_what_a_reader_kept_from_being_erased_is_erased_with_the_next_opening(finished, monkeypatch):
    path, store, contents = finished
    store._database.connection.execute("PRAGMA busy_timeout = 50")
    reader = Store.open(path, writer=False)
    with reader._database.reading() as connection:
        connection.execute("SELECT * FROM runs").fetchall()
        with pytest.raises(StoreError, match="another process is reading"):
            store.finish(DIGEST, None)
    reader.close()
    store.close()
    with Store.open(path) as store:
        assert found(path, contents) == 0
        assert store.run(DIGEST).status == "finished"
