import json
import math
import sqlite3

import pytest

from deployment.store.stores import AGREEMENT, RUN_KEY, exchange
from sottovoce.accounting import gaussian
from sottovoce.deployment.ledger import Created, Ledger, Released, Reserved, create_ledger
from sottovoce.deployment.privacy import Cost
from sottovoce.deployment.store import Store, StoreError, linked
from sottovoce.errors import BudgetExhausted, ConfigError, IncompatibleChoice

TERMS = {"name": "patients", "unit": "record", "adjacency": "replace", "delta": 1e-5, "budget": 2.0}
HALF = gaussian.mu(2.0, 1e-5) / math.sqrt(2.0)  # two runs of it are exactly the budget


def made(tmp_path, **changed):
    tmp_path.chmod(0o700)
    path = tmp_path / "patients.ledger"
    create_ledger(path, **{**TERMS, **changed})
    return path


@pytest.fixture
def store(tmp_path):
    with Store.open(made(tmp_path)) as opened:
        yield opened


def reserved(ledger, number, cost, **changed):
    asked = {"unit": "record", "adjacency": "replace", "observer": "everybody else", **changed}
    return ledger.reserve(f"run {number}", bytes([number]) * 32, cost, **asked)


def begun(store, number, cost, **changed):
    reservation = reserved(Ledger(store), number, cost, **changed)
    return store.begin_run(bytes([number]) * 32, f"run {number}", AGREEMENT, reservation, RUN_KEY)


def test_a_ledger_says_what_it_was_created_for(store):
    ledger = Ledger(store)
    assert (ledger.created.name, ledger.created.unit, ledger.created.adjacency) == ("patients", "record", "replace")
    assert (ledger.created.delta, ledger.created.budget) == (1e-5, 2.0)
    assert ledger.totals().reserved == ledger.totals().spent == 0.0


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"unit": "row"}, "unit"),
        ({"adjacency": "remove"}, "adjacency"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"budget": 0.0}, "unlimited"),
        ({"budget": math.inf}, "unlimited"),
        ({"budget": "infinite"}, "unlimited"),
        ({"budget": math.nan}, "unlimited"),
        ({"name": ""}, "printable"),
        ({"name": "a\x1b[31m"}, "printable"),
    ],
)
def test_nothing_that_decides_privacy_is_left_open(tmp_path, changed, words):
    with pytest.raises(ConfigError, match=words):
        made(tmp_path, **changed)
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_reserved_whole_before_anything_is_spent(store):
    begun(store, 1, Cost.gaussian(HALF))
    totals = Ledger(store).totals()
    assert totals.reserved == pytest.approx(gaussian.epsilon(HALF, 1e-5))
    assert totals.spent == 0.0
    store.commit(b"\1" * 32, 0, **{**exchange(0), "spent": Cost.gaussian(0.5 * HALF).describe()})
    assert Ledger(store).totals().spent == pytest.approx(gaussian.epsilon(0.5 * HALF, 1e-5))
    assert Ledger(store).totals().reserved == totals.reserved


def test_runs_up_to_the_budget_begin_and_the_next_one_does_not(store):
    begun(store, 1, Cost.gaussian(HALF))
    begun(store, 2, Cost.gaussian(HALF))
    assert Ledger(store).totals().reserved == pytest.approx(2.0)
    for cost in (Cost.gaussian(0.01), Cost.pure(0.001), Cost.at(0.001, 1e-6), Cost.infinite()):
        with pytest.raises(BudgetExhausted, match="nothing sent"):
            begun(store, 3, cost)
    assert len(Ledger(store).entries()) == 3
    assert store.run(b"\3" * 32) is None


def test_an_infinite_run_needs_an_unlimited_ledger_which_then_says_so_for_ever(tmp_path, store):
    with pytest.raises(BudgetExhausted, match="unlimited"):
        begun(store, 1, Cost.infinite())
    (tmp_path / "open").mkdir()
    path = made(tmp_path / "open", budget="unlimited")
    with Store.open(path) as unlimited:
        begun(unlimited, 1, Cost.gaussian(50.0))
        assert math.isfinite(Ledger(unlimited).totals().reserved)
        begun(unlimited, 2, Cost.infinite())
    with Store.open(path) as unlimited:
        begun(unlimited, 3, Cost.pure(0.1))
        assert Ledger(unlimited).totals().reserved == math.inf


@pytest.mark.parametrize("changed", [{"unit": "agent"}, {"unit": "person"}, {"adjacency": "add-remove"}])
def test_costs_for_another_unit_or_adjacency_do_not_add_up(store, changed):
    with pytest.raises(IncompatibleChoice, match="do not add up"):
        begun(store, 1, Cost.pure(0.1), **changed)


def test_a_run_that_sent_nothing_gives_back_what_it_reserved(store):
    begun(store, 1, Cost.gaussian(HALF))
    begun(store, 2, Cost.gaussian(HALF))
    Ledger(store).cancel(b"\2" * 32)
    assert Ledger(store).totals().reserved == pytest.approx(gaussian.epsilon(HALF, 1e-5))
    assert isinstance(Ledger(store).entries()[-1], Released)
    assert (store.run(b"\2" * 32).status, store.run(b"\2" * 32).run_key) == ("cancelled", None)
    with pytest.raises(StoreError, match="is cancelled"):
        store.commit(b"\2" * 32, 0, **exchange(0))
    begun(store, 3, Cost.gaussian(HALF))


def test_after_a_gaussian_run_nothing_from_before_it_is_given_back(store):
    """Else whoever saw the Gaussian run could decide whether the pure one before it counts."""
    begun(store, 1, Cost.pure(0.5))
    begun(store, 2, Cost.pure(0.25))
    Ledger(store).cancel(b"\1" * 32)
    begun(store, 3, Cost.gaussian(0.1))
    assert Ledger(store).totals().reserved == pytest.approx(0.25 + gaussian.epsilon(0.1, 1e-5))
    Ledger(store).cancel(b"\2" * 32)
    assert Ledger(store).totals().reserved == pytest.approx(0.25 + gaussian.epsilon(0.1, 1e-5))
    assert Ledger(store).totals().runs == 1


def test_a_run_with_a_committed_exchange_gives_nothing_back(store):
    begun(store, 1, Cost.gaussian(HALF))
    store.commit(b"\1" * 32, 0, **{**exchange(0), "spent": Cost.gaussian(0.1).describe()})
    before = store.entries()
    with pytest.raises(StoreError, match="stays in the ledger"):
        Ledger(store).cancel(b"\1" * 32)
    store.finish(b"\1" * 32, None)
    with pytest.raises(StoreError, match="is finished"):
        Ledger(store).cancel(b"\1" * 32)
    assert store.entries() == before


def test_giving_a_run_up_erases_it_and_keeps_its_cost(store):
    begun(store, 1, Cost.gaussian(HALF))
    reserved_before = Ledger(store).totals().reserved
    store.give_up(b"\1" * 32)
    assert Ledger(store).totals().reserved == reserved_before
    assert store.run(b"\1" * 32).run_key is None


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE ledger SET number = 7 WHERE number = 1",
        "DELETE FROM ledger WHERE number = 1",
    ],
)
def test_a_ledger_cannot_be_changed_by_sql(tmp_path, change):
    path = made(tmp_path)
    with Store.open(path) as store:
        begun(store, 1, Cost.gaussian(HALF))
    connection = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(change)
    connection.close()


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("kind", ["changed", "removed"])
def test_a_changed_or_removed_entry_is_found(tmp_path, number, kind):
    path = made(tmp_path)
    with Store.open(path) as store:
        begun(store, 1, Cost.gaussian(0.1))
        begun(store, 2, Cost.gaussian(0.2))
        body = json.loads(store.entries()[number].body)
    connection = sqlite3.connect(path)
    for trigger in ("ledger_keeps", "ledger_holds"):
        connection.execute(f"DROP TRIGGER {trigger}")
    if kind == "removed":
        connection.execute("DELETE FROM ledger WHERE number = ?", (number,))
    else:
        body["at"] = "2020-01-01T00:00:00Z"
        connection.execute(
            "UPDATE ledger SET body = ? WHERE number = ?", (json.dumps(body, sort_keys=True).encode(), number)
        )
    connection.commit()
    connection.close()
    for writer in (False, True):
        with pytest.raises(StoreError, match=r"not what was written|removed"):
            Store.open(path, writer=writer)


def test_an_entry_that_was_changed_with_its_hash_is_found_at_the_next(tmp_path):
    path = made(tmp_path)
    with Store.open(path) as store:
        begun(store, 1, Cost.gaussian(0.1))
        begun(store, 2, Cost.gaussian(0.2))
        first, second, _ = store.entries()
    changed = linked(1, first.hash, second.body.replace(b"0.1", b"0.0"))
    connection = sqlite3.connect(path)
    connection.execute("DROP TRIGGER ledger_keeps")
    connection.execute("UPDATE ledger SET body = ?, hash = ? WHERE number = 1", changed[1:])
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="entry 2 of the ledger is not what was written"):
        Store.open(path)


def test_a_changed_data_file_is_recorded_and_resets_nothing(tmp_path, store):
    data = tmp_path / "patients.csv"
    data.write_text("age\n31\n")
    digests = [Ledger(store).data_digest(data)]
    begun(store, 1, Cost.gaussian(HALF), data=digests[0])
    data.write_text("age\n31\n52\n")
    digests.append(Ledger(store).data_digest(data))
    begun(store, 2, Cost.gaussian(HALF), data=digests[1])
    assert len(set(digests)) == 2
    assert (Ledger(store).totals().data_files, Ledger(store).totals().runs) == (2, 2)
    with pytest.raises(BudgetExhausted):
        begun(store, 3, Cost.gaussian(HALF), data=digests[1])
    assert [entry.data for entry in Ledger(store).entries() if isinstance(entry, Reserved)] == digests


def test_a_data_digest_tells_nothing_to_who_guesses_the_file(tmp_path):
    data = tmp_path / "one.csv"
    data.write_text("hiv\nyes\n")
    digests = set()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        with Store.open(made(tmp_path / name)) as store:
            assert Ledger(store).data_digest(data) == Ledger(store).data_digest(data)
            digests.add(Ledger(store).data_digest(data))
    assert len(digests) == 2


def test_shares_of_delta_are_fixed_and_never_used_up(store):
    shares = []
    for number in range(1, 8):
        share = Ledger(store).next_share()
        begun(store, number, Cost.at(0.01, share))
        shares.append(share)
    assert shares[0] == 0.5e-5
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) < 1e-5
    assert Ledger(store).totals().reserved == pytest.approx(0.07)


def test_what_a_party_is_shown_is_what_is_reserved(store):
    begun(store, 1, Cost.gaussian(0.2))
    expected = Ledger(store).with_run(Cost.pure(0.3))
    begun(store, 2, Cost.pure(0.3))
    assert Ledger(store).totals().reserved == expected
    assert isinstance(Ledger(store).entries()[0], Created)
