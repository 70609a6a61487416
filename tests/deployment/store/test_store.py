import os
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from deployment.store.stores import AGREEMENT, DIGEST, RUN_KEY, begun, committed, exchange, is_exchange, made
from sottovoce.deployment.store import AnotherWriter, Reservation, RestoredBackup, Store, StoreError, linked, schema
from sottovoce.deployment.store.arrays import packed, unpacked
from sottovoce.errors import ConfigError


@pytest.fixture
def path(tmp_path):
    return made(tmp_path)


def test_a_run_begins_with_its_entry_in_the_ledger(path):
    with Store.open(path) as store:
        run = begun(store)
        assert (run.digest, run.agreement, run.run_key, run.entry, run.position) == (DIGEST, AGREEMENT, RUN_KEY, 1, -1)
        assert store.current(DIGEST) is None
        assert len(store.entries()) == store.counters().entries == 2
    with Store.open(path) as store:
        assert store.run(DIGEST) == run
        assert store.run(bytes(32)) is None


def test_an_exchange_is_there_after_the_store_is_opened_again(path):
    with Store.open(path) as store:
        begun(store)
        for position in range(3):
            committed(store, position)
            assert is_exchange(store, position)
    with Store.open(path) as store:
        assert is_exchange(store, 2)
        assert len(store.outgoing(DIGEST)) == 6


def test_no_value_of_a_store_shows_a_key_or_a_state(path):
    with Store.open(path) as store:
        run = begun(store)
        committed(store, 0)
        shown = f"{run!r} {store.current(DIGEST)!r} {store.outgoing(DIGEST)!r}"
    assert "1000" not in shown
    assert str(RUN_KEY) not in shown
    assert "int64[2, 5]" in shown
    assert "'bo', position 0, 40 bytes" in shown


def test_an_exchange_is_committed_once(path):
    with Store.open(path) as store:
        begun(store)
        committed(store, 3)
        other = exchange(4)
        for position in (3, 0):
            with pytest.raises(StoreError, match="no exchange has two versions"):
                store.commit(DIGEST, position, **other)
        assert store.current(DIGEST).position == 3
        assert np.array_equal(store.current(DIGEST).state, exchange(3)["state"])
        assert store.counters().exchanges == 1


def test_what_is_acknowledged_is_forgotten_and_the_rest_kept(path):
    with Store.open(path) as store:
        begun(store)
        committed(store, 0)
        committed(store, 1)
        store.acknowledged(DIGEST, "bo", 0)
        waiting = [("cy", 0), ("bo", 1), ("cy", 1)]
        assert [(out.peer, out.position) for out in store.outgoing(DIGEST)] == waiting
    with Store.open(path) as store:
        assert [(out.peer, out.position) for out in store.outgoing(DIGEST)] == waiting


def test_a_reservation_that_another_entry_overtook_begins_no_run(path):
    with Store.open(path) as store:
        head = store.entries()[-1]
        early = Reservation(entry=linked(head.number + 1, head.hash, b"{}"))
        begun(store)
        with pytest.raises(StoreError, match="Reserve again"):
            store.begin_run(bytes(32), "late", AGREEMENT, early, RUN_KEY)
        assert store.run(bytes(32)) is None
        assert len(store.entries()) == 2


def test_a_run_begins_once(path):
    with Store.open(path) as store:
        begun(store)
        with pytest.raises(StoreError, match="begun before"):
            begun(store)
        assert len(store.entries()) == 2


def test_boots_are_counted_for_the_run_and_for_the_store(path):
    for boot in (1, 2):
        with Store.open(path) as store:
            if boot == 1:
                begun(store)
                begun(store, bytes(32), "other")
                store.boot(bytes(32))
            assert store.boot(DIGEST) == store.boots(DIGEST) == boot
            assert store.counters().boots == boot + 1


def test_files_are_for_their_owner_alone(path):
    with Store.open(path) as store:
        begun(store)
        modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}
    assert modes == {path.name + ending: 0o600 for ending in ("", "-wal", "-shm", ".lock")}


@pytest.mark.parametrize("ending", ["", "-wal", "-shm", ".lock"])
def test_a_file_that_others_may_read_is_refused(path, ending):
    each = path.with_name(path.name + ending)
    each.touch()
    each.chmod(0o640)
    with pytest.raises(StoreError, match=f"chmod 600 .*{ending}"):
        Store.open(path)


def test_a_folder_that_others_may_write_is_refused(path):
    path.parent.chmod(0o770)
    with pytest.raises(StoreError, match="chmod go-w"):
        Store.open(path)
    with pytest.raises(StoreError, match="chmod go-w"):
        Store.create(path.parent / "other.ledger", b"{}")


def test_a_link_to_a_store_is_refused(path, tmp_path):
    link = tmp_path / "link.ledger"
    link.symlink_to(path)
    with pytest.raises(StoreError, match="no ordinary file"):
        Store.open(link)


def test_a_second_writer_is_refused_and_a_reader_is_not(path):
    with Store.open(path) as store:
        begun(store)
        with pytest.raises(AnotherWriter, match=f"sottovoce ledger {path}"):
            Store.open(path)
        with Store.open(path, writer=False) as reader:
            assert reader.run(DIGEST).name == "trial"
            committed(store, 0)
            assert reader.run(DIGEST).position == 0
            with pytest.raises(StoreError, match="opened to be read"):
                committed(reader, 1)
        committed(store, 1)
    with Store.open(path) as store:
        assert is_exchange(store, 1)


def test_a_writer_who_ignores_the_lock_is_noticed(path):
    with Store.open(path) as store:
        begun(store)
        stranger = sqlite3.connect(path)
        stranger.execute("UPDATE runs SET boots = 7")
        stranger.commit()
        stranger.close()
        with pytest.raises(AnotherWriter, match="has written"):
            committed(store, 0)
        assert store.run(DIGEST).position == -1


def test_a_commit_waits_for_the_disk(path):
    """What only a loss of power would show: the file says how it is written, and SQLite keeps to it."""
    with Store.open(path) as store:
        asked = {
            name: store._database.connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "page_size")
        }
    assert asked == {"journal_mode": "wal", "synchronous": 2, "page_size": 65536}


def test_threads_of_one_process_take_turns(path):
    with Store.open(path) as store, ThreadPoolExecutor(4) as threads:
        begun(store)
        for position in range(4):
            commit = threads.submit(committed, store, position)
            looks = [threads.submit(store.current, DIGEST) for _ in range(6)]
            commit.result()
            for look in looks:
                found = look.result()
                assert found is None or np.array_equal(found.state, exchange(found.position)["state"])
        assert is_exchange(store, 3)


def test_a_name_of_any_bytes_will_do(tmp_path):
    tmp_path.chmod(0o700)
    path = made(tmp_path, os.fsdecode(b"caf\xe9 ?mode=ro #1%41.ledger"))
    with Store.open(path) as store:
        begun(store)
    assert path.exists()


def test_a_reader_reads_a_closed_store(path):
    with Store.open(path) as store:
        begun(store)
    with Store.open(path, writer=False) as reader:
        assert reader.run(DIGEST).status == "running"
    with Store.open(path) as store:
        assert store.run(DIGEST).status == "running"


def test_nothing_is_made_over_a_store(path):
    before = path.read_bytes()
    with pytest.raises(StoreError, match="never begun anew"):
        Store.create(path, b"{}")
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_missing_store_says_how_to_make_one(tmp_path):
    with pytest.raises(StoreError, match="sottovoce ledger create"):
        Store.open(tmp_path / "none.ledger")


@pytest.mark.parametrize("name", ["", ".", "x" * 300, "a\0b", "none/x.ledger"])
def test_a_place_where_no_file_can_be_is_refused(tmp_path, name):
    tmp_path.chmod(0o700)
    for attempt in (lambda path: Store.create(path, b"{}"), Store.open):
        with pytest.raises(StoreError):
            attempt(f"{tmp_path}/{name}")
    assert list(tmp_path.iterdir()) == []


def test_what_failed_is_told_although_the_store_is_closed_on_the_way_out(path):
    def full():
        with Store.open(path) as store:
            begun(store)
            committed(store, 0)
            store.acknowledged(DIGEST, "bo", 0)
            store._database.connection.execute("PRAGMA max_page_count = 1")
            store.commit(DIGEST, 1, **exchange(1, 100_000))

    with pytest.raises(StoreError, match="the disk is full"):
        full()


def test_an_older_format_is_brought_up_to_date_or_left_as_it_was(path, monkeypatch):
    def newer(connection):
        connection.execute("CREATE TABLE more (thing TEXT)")
        if broken:
            connection.execute("INSERT INTO none VALUES (1)")

    monkeypatch.setattr(schema, "VERSION", 2)
    monkeypatch.setitem(schema.MIGRATIONS, 1, newer)
    broken = True
    with pytest.raises(StoreError):
        Store.open(path)
    assert (
        asked(path, "PRAGMA user_version"),
        asked(path, "SELECT count(*) FROM sqlite_master WHERE name = 'more'"),
    ) == (1, 0)
    broken = False
    with Store.open(path) as store:
        begun(store)
    assert (asked(path, "PRAGMA user_version"), asked(path, "SELECT count(*) FROM more")) == (2, 0)


def asked(path, query):
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchone()[0]
    finally:
        connection.close()


def test_a_newer_format_is_refused_unread(path):
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    with pytest.raises(StoreError, match="has format 2"):
        Store.open(path)


def test_a_database_of_others_is_refused(tmp_path):
    path = tmp_path / "other.db"
    tmp_path.chmod(0o700)
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE some (thing)")
    connection.close()
    path.chmod(0o600)
    with pytest.raises(StoreError, match="no store of Sottovoce"):
        Store.open(path)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.int64).reshape(2, 3),
        np.asarray([2**64 - 1, 0], dtype=np.uint64),
        np.asarray(1.5),
        np.zeros((0, 3), dtype=bool),
        np.arange(8, dtype=">i8")[::2],
        np.frombuffer(b"bytes", dtype=np.uint8),
    ],
)
def test_an_array_comes_back_as_it_was(array):
    found = unpacked(*packed(array), of="it")
    assert found.shape == array.shape
    assert np.array_equal(found, array)
    assert found.dtype == array.dtype.newbyteorder("<")
    assert found.flags.writeable


def test_no_bit_of_an_array_changes_unnoticed():
    parts = [bytes(part) for part in packed(np.arange(4, dtype=np.int64).reshape(2, 2))]
    for which, part in enumerate(parts):
        for place in range(8 * len(part)):
            changed = bytearray(part)
            changed[place // 8] ^= 1 << place % 8
            with pytest.raises(StoreError, match="damaged"):
                unpacked(*[bytes(changed) if index == which else other for index, other in enumerate(parts)], of="it")


def test_no_block_of_a_long_array_is_changed_exchanged_or_lost_unnoticed():
    head, content = packed(np.random.default_rng(0).integers(-(2**62), 2**62, 40_000))
    blocks = [bytes(content[start : start + 65536]) for start in range(0, len(content), 65536)]
    assert np.array_equal(unpacked(head, b"".join(blocks), of="it"), np.frombuffer(content, dtype="<i8"))
    flipped = bytearray(blocks[2])
    flipped[77] ^= 0x10
    for changed in (
        [blocks[1], blocks[0], *blocks[2:]],
        [bytes(65536), *blocks[1:]],
        [*blocks[:2], bytes(flipped), *blocks[3:]],
        [*blocks[:-1], blocks[-1][::-1]],
    ):
        with pytest.raises(StoreError, match="damaged"):
            unpacked(head, b"".join(changed), of="it")


@pytest.mark.parametrize(
    "array", [np.asarray([object()]), np.asarray(["text"]), np.zeros((1,) * 9), np.zeros(2, dtype=complex)]
)
def test_what_is_no_plain_number_is_not_kept(array):
    with pytest.raises(ConfigError, match="Convert it"):
        packed(array)


def test_a_copy_without_its_wal_is_refused(path, tmp_path):
    copies = tmp_path / "copies"
    copies.mkdir(mode=0o700)
    copied = copies / path.name
    with Store.open(path) as store:
        begun(store)
        committed(store, 0)
        copied.touch(mode=0o600)
        copied.write_bytes(path.read_bytes())
    with pytest.raises(RestoredBackup, match="-wal"):
        Store.open(copied)


def test_an_older_file_put_back_beside_its_lock_is_refused(path):
    with Store.open(path) as store:
        begun(store)
    older = path.read_bytes()
    with Store.open(path) as store:
        committed(store, 0)
    path.write_bytes(older)
    with pytest.raises(RestoredBackup, match="older copy"):
        Store.open(path)


def test_a_long_agreement_is_not_written_again_with_every_exchange(tmp_path):
    written = {}
    for length in (10, 1_000_000):
        folder = tmp_path / str(length)
        folder.mkdir(mode=0o700)
        path = made(folder)
        with Store.open(path) as store:
            begun(store, agreement=bytes(length))
            committed(store, 0)
            before = path.with_name(path.name + "-wal").stat().st_size
            committed(store, 1)
            written[length] = path.with_name(path.name + "-wal").stat().st_size - before
            assert store.run(DIGEST).agreement == bytes(length)
    assert written[10] == written[1_000_000]
