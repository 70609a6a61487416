"""`sottovoce roster evidence`, and the code with which a party leaves that has found a cheat."""

import json

import pytest
from typer.testing import CliRunner

from deployment.identity.parties import identity, roster
from sottovoce.cli import app
from sottovoce.deployment.party.evidence import Caught, evidence_of, keep_evidence
from sottovoce.deployment.party.statements import PURPOSE, Statement, signed_bytes

AGREEMENT = bytes(range(32))


@pytest.fixture
def files(tmp_path):
    """A roster and evidence against ada."""
    among = roster("ada", "bea")
    among.save(tmp_path / "roster.json")
    pair = [
        Statement(0, 3, bytes([k]) * 32, identity("ada").sign(PURPOSE, signed_bytes(AGREEMENT, "ada", 3, bytes([k]) * 32)))
        for k in (1, 2)
    ]  # fmt: skip
    evidence = evidence_of(
        pair, agreement=AGREEMENT, run="spring", sender="ada", identity_key=identity("ada").public_key
    )
    return tmp_path / "roster.json", keep_evidence(evidence, tmp_path), evidence


def invoked(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_evidence_is_checked_against_the_roster(files):
    members, path, _ = files
    answer = invoked("roster", "evidence", path, "-r", members, "--json")
    assert answer.exit_code == 0
    (found,) = json.loads(answer.stdout)["evidence"]
    assert (found["sender"], found["position"], found["proven"]) == ("ada", 3, True)
    assert "has signed two different messages" in invoked("roster", "evidence", path, "-r", members).stdout


@pytest.mark.parametrize(
    "change", [{"sender": "bea"}, {"position": 4}, {"sender": "nobody"}, {"identity_key": identity("bea").public_key.hex()}]
)  # fmt: skip
def test_what_proves_nothing_leaves_with_1(files, change):
    members, path, _ = files
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    answer = invoked("roster", "evidence", path, "-r", members)
    assert answer.exit_code == 1
    assert "proves nothing" in answer.stdout


def test_another_file_leaves_with_2(files):
    members, path, _ = files
    path.write_text("{}")
    assert invoked("roster", "evidence", path, "-r", members).exit_code == 2
    assert invoked("roster", "evidence", path.with_name("none.json"), "-r", members).exit_code == 2


def test_a_cheat_that_was_found_is_a_verdict(files, monkeypatch):
    members, _, evidence = files

    def found(*_, **__):
        raise Caught(evidence)

    monkeypatch.setattr("sottovoce.deployment.identity.load_roster", found)
    answer = invoked("roster", "show", "-r", members)
    assert answer.exit_code == 1
    assert "Traceback" not in answer.output
