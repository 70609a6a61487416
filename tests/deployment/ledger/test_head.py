"""A head that was deposited elsewhere tells whether the ledger is still the one it was."""

import json
import shutil

import pytest

from deployment.store.stores import begun, made
from sottovoce.deployment.identity import new_identity
from sottovoce.deployment.ledger import Head, Ledger, disagreement, export_head, read_head
from sottovoce.deployment.privacy import Cost
from sottovoce.deployment.store import Store
from sottovoce.errors import ConfigError, ProtocolError


@pytest.fixture(scope="session")
def owner(tmp_path_factory):
    return new_identity("basel", tmp_path_factory.mktemp("keys") / "keys", "localhost:7001")


@pytest.fixture
def path(tmp_path):
    path = made(tmp_path)
    with Store.open(path) as store:
        begun(store)
    return path


def head_of(path, owner):
    with Store.open(path, writer=False) as store:
        return export_head(Ledger(store), owner)


def compared(path, head):
    with Store.open(path, writer=False) as store:
        return disagreement(Ledger(store), head)


def test_a_ledger_agrees_with_its_head_now_and_when_it_has_grown(path, owner):
    head = head_of(path, owner)
    assert (head.entries, head.runs, head.name) == (2, 1, "patients")
    assert head.epsilon == Cost.gaussian(0.1).epsilon(1e-5)
    assert Head.parse(head.to_bytes()) == head
    assert compared(path, head) == ""
    with Store.open(path) as store:
        begun(store, bytes(32), "second")
    assert compared(path, head) == ""


def test_a_ledger_put_back_from_a_copy_contradicts_its_head(path, owner, tmp_path):
    shutil.copy(path, tmp_path / "older")
    with Store.open(path) as store:
        begun(store, bytes(32), "second")
    head = head_of(path, owner)
    path.with_name(path.name + ".lock").unlink()
    shutil.copy(tmp_path / "older", path)
    assert "an older copy was put back" in compared(path, head)
    with Store.open(path) as store:
        begun(store, bytes([1] * 32), "another second")
    assert "written anew" in compared(path, head)


def test_a_head_of_another_ledger_is_refused(path, owner, tmp_path):
    (tmp_path / "other").mkdir()
    with pytest.raises(ConfigError, match="its own heads"):
        compared(made(tmp_path / "other"), head_of(path, owner))


@pytest.mark.parametrize("field", ["entries", "hash", "epsilon", "name", "store", "at", "runs", "delta"])
def test_no_field_of_a_head_can_be_changed(path, owner, field):
    values = json.loads(head_of(path, owner).to_bytes())
    values[field] = (
        values[field] + 1 if isinstance(values[field], int | float) else values[field].replace("0", "1") + "0"
    )
    with pytest.raises(ProtocolError, match="changed after it was signed"):
        Head.parse(json.dumps(values).encode())


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"null", b'{"format": "sottovoce ledger head 1"}', b"\xff" * 9, b"[" * 100_000]
)
def test_what_is_no_head_is_refused(tmp_path, content):
    (tmp_path / "head.json").write_bytes(content)
    with pytest.raises(ConfigError, match="ledger export"):
        read_head(tmp_path / "head.json")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_head(tmp_path / "none.json")
