"""`sottovoce ledger`, as its owner uses it."""

import json
import math

import numpy as np
import pytest

from deployment.ledger.test_ledger import begun
from deployment.store.stores import RUN_KEY, exchange
from sottovoce.accounting import gaussian
from sottovoce.deployment.identity import new_identity
from sottovoce.deployment.privacy import Cost
from sottovoce.deployment.store import Store, succession
from sottovoce.deployment.store.succession import Following, certificate_of, succeed

CREATE = (
    "ledger",
    "create",
    "my.ledger",
    "--unit",
    "record",
    "--adjacency",
    "replace",
    "--delta",
    "1e-5",
    "--budget",
    "8",
)


@pytest.fixture
def created(sottovoce, tmp_path):
    tmp_path.chmod(0o700)
    assert sottovoce(*CREATE).exit_code == 0
    return tmp_path / "my.ledger"


def test_a_ledger_shows_its_entries_and_sums(sottovoce, created):
    with Store.open(created) as store:
        begun(store, 1, Cost.pure(0.25))
        store.commit(b"\1" * 32, 0, **{**exchange(0), "spent": Cost.pure(0.1).describe()})
        begun(store, 2, Cost.gaussian(0.5))
    told = sottovoce("ledger", created)
    words = " ".join(told.stdout.split())
    assert told.exit_code == 0
    assert "budget of epsilon 8 at delta 1e-05, for one record (replace)" in words
    assert "Spent so far (a meter)" in words
    assert "Every run counts, also those of a search for good settings." in words
    assert all(len(line) <= 80 for line in told.stdout.splitlines())
    value = json.loads(sottovoce("ledger", created, "--json").stdout)
    total = 0.25 + gaussian.epsilon(0.5, 1e-5)
    assert total <= value["reserved"] <= total * (1 + 1e-9)
    assert [entry["entry"] for entry in value["entries"]] == ["created", "reserved", "reserved"]
    assert value["entries"][1]["exchange"] == 0


def test_what_is_shown_is_rounded_up(sottovoce, created):
    with Store.open(created) as store:
        begun(store, 1, Cost.gaussian(0.5))
    exact = gaussian.epsilon(0.5, 1e-5)
    shown = [
        float(word.rstrip("."))
        for word in sottovoce("ledger", created).stdout.split()
        if word[:1].isdigit() and "." in word[:-1]
    ]
    stated = [number for number in shown if abs(number - exact) < 0.01]
    assert len(stated) == 2
    assert all(exact <= number < exact + 0.001 for number in stated)


def test_a_ledger_can_be_read_while_a_party_writes(sottovoce, created):
    with Store.open(created) as store:
        begun(store, 1, Cost.gaussian(0.5))
        assert sottovoce("ledger", created).exit_code == 0


def test_an_infinite_ledger_says_so(sottovoce, tmp_path):
    tmp_path.chmod(0o700)
    assert sottovoce(*CREATE[:-1], "unlimited").exit_code == 0
    with Store.open(tmp_path / "my.ledger") as store:
        begun(store, 1, Cost.infinite())
    told = sottovoce("ledger", "my.ledger")
    assert "epsilon infinite" in told.stdout
    assert json.loads(sottovoce("ledger", "my.ledger", "--json").stdout)["reserved"] is None


def test_nothing_that_decides_privacy_has_a_default(sottovoce, tmp_path):
    tmp_path.chmod(0o700)
    for option in range(3, len(CREATE), 2):
        told = sottovoce(*CREATE[:option], *CREATE[option + 2 :])
        assert told.exit_code == 2
        assert f"{CREATE[option]} is not given" in told.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("ledger", "none.ledger"), "sottovoce ledger create"),
        (("ledger", "check", "my.ledger"), "needs FILE and HEAD"),
        (("ledger", "my.ledger", "--budget", "8"), "has no meaning"),
        (("ledger", "export", "my.ledger", "--as", "basel"), "--folder, --out are not given"),
        (("ledger", "export", "my.ledger", "--as", "basel", "--folder", "none", "--out", "h"), "There is no key"),
        (("ledger", "cancel", "my.ledger", "none"), "0 runs are called"),
        (CREATE, "there already"),
        ((*CREATE[:2], "b.ledger", *CREATE[3:-1], "lots"), "unlimited"),
        ((*CREATE[:2], "b.ledger", *CREATE[3:-1], "nan"), "unlimited"),
    ],
)
def test_refusals_are_one_paragraph_and_exit_code_two(sottovoce, created, words, said):
    told = sottovoce(*words)
    assert told.exit_code == 2
    assert said in told.stderr
    assert "Traceback" not in told.stderr


def test_a_run_that_sent_nothing_is_cancelled_by_name(sottovoce, created):
    with Store.open(created) as store:
        begun(store, 1, Cost.gaussian(0.5))
        begun(store, 2, Cost.gaussian(0.5))
        store.commit(b"\2" * 32, 0, **{**exchange(0), "spent": Cost.gaussian(0.1).describe()})
    assert sottovoce("ledger", "cancel", created, "run 1").exit_code == 0
    assert "given back" in sottovoce("ledger", created).stdout
    told = sottovoce("ledger", "cancel", created, "run 2")
    assert told.exit_code == 2
    assert "may have been sent" in told.stderr


def test_a_run_that_nobody_goes_on_with_is_erased_and_keeps_its_cost(sottovoce, created):
    with Store.open(created) as store:
        begun(store, 1, Cost.gaussian(0.5))
        store.commit(b"\1" * 32, 0, **{**exchange(0), "spent": Cost.gaussian(0.1).describe()})
    before = json.loads(sottovoce("ledger", created, "--json").stdout)["reserved"]
    assert RUN_KEY in created.read_bytes()
    told = sottovoce("ledger", "erase", created, "run 1")
    assert told.exit_code == 0
    assert "2 messages" in told.stdout
    assert RUN_KEY not in created.read_bytes()
    assert json.loads(sottovoce("ledger", created, "--json").stdout)["reserved"] == before
    assert "is closed" in sottovoce("ledger", "erase", created, "run 1").stderr


def test_a_run_that_went_on_without_somebody_is_erased_by_its_name(sottovoce, created):
    """It stands twice in the store, under the agreement that ended and under the one that followed."""
    with Store.open(created) as store:
        begun(store, 1, Cost.gaussian(0.5))
        store.commit(b"\1" * 32, 0, **{**exchange(0), "spent": Cost.gaussian(0.1).describe()})
        following = succession.Following(b"\2" * 32, b"the next agreement", RUN_KEY)
        succession.succeed(store, b"\1" * 32, following, state=np.zeros((1, 3), np.int64), held={}, statements=[])
    assert RUN_KEY in created.read_bytes()
    told = sottovoce("ledger", "erase", created, "run 1")
    assert told.exit_code == 0, told.stderr
    assert RUN_KEY not in created.read_bytes()


def test_a_head_is_checked_with_exit_code_one_against(sottovoce, created, tmp_path):
    content = created.read_bytes()
    with Store.open(created) as store:
        begun(store, 1, Cost.gaussian(0.5))
    new_identity("basel", tmp_path / "keys", "localhost:7001")
    export = ("ledger", "export", created, "--as", "basel", "--folder", tmp_path / "keys", "--out", "head.json")
    assert sottovoce(*export).exit_code == 0
    assert "there already" in sottovoce(*export).stderr
    assert sottovoce("ledger", "check", created, "head.json").exit_code == 0
    for each in tmp_path.glob("my.ledger?*"):
        each.unlink()
    created.write_bytes(content)
    told = sottovoce("ledger", "check", created, "head.json")
    assert told.exit_code == 1
    assert "contradicts its head" in " ".join(told.stdout.split())
    assert all(len(line) <= 80 for line in told.stdout.splitlines())
    assert json.loads(sottovoce("ledger", "check", created, "head.json", "--json").stdout)["agrees"] is False


def test_long_names_fit_the_terminal(sottovoce, created):
    with Store.open(created) as store:
        for number in range(1, 4):
            begun(store, number, Cost.gaussian(math.pi / 10 * number))
            store.commit(
                bytes([number]) * 32,
                123456,
                **{
                    **exchange(0),
                    "spent": Cost.gaussian(math.pi / 100).describe(),
                    "state": np.zeros((1, 2), dtype=np.int64),
                },
            )
    told = sottovoce("ledger", created)
    assert all(len(line) <= 80 for line in told.stdout.splitlines())
    assert "running, exchange 123456" in " ".join(told.stdout.split())


def test_a_run_that_went_on_without_somebody_is_one_run(sottovoce, created):
    with Store.open(created) as store:
        begun(store, 1, Cost.gaussian(0.5))
        store.commit(b"\1" * 32, 3, **{**exchange(3), "spent": Cost.gaussian(0.2).describe()})
        state = np.ones((1, 5), dtype=np.int64)
        following = Following(b"\2" * 32, b"what follows", RUN_KEY)
        succeed(store, b"\1" * 32, following, state=state, held={}, statements=[b"signed"])
        assert certificate_of(store, b"\2" * 32) == [b"signed"]
        assert store.outgoing(b"\1" * 32) == []
    value = json.loads(sottovoce("ledger", created, "--json").stdout)
    assert (value["runs"], value["entries"][1]["exchange"], value["entries"][1]["status"]) == (1, 3, "running")
    meter = Cost.gaussian(0.2).epsilon(1e-5)
    assert meter <= value["spent_meter"] <= meter * (1 + 1e-9)
    assert "was committed" in sottovoce("ledger", "cancel", created, "run 1").stderr
    assert sottovoce("ledger", "erase", created, "run 1").exit_code == 0
    with Store.open(created) as store:
        assert [run.run_key for run in store.runs()] == [None, None]
