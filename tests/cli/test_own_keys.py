"""`sottovoce keys` and `sottovoce roster`, as people who set up a run use them."""

import json
from pathlib import Path

import pytest

from sottovoce.deployment.identity import load_identity, load_roster


def one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture
def wards(sottovoce, tmp_path):
    for number in (1, 2):
        made = sottovoce(
            "keys", "new", f"ward-{number}", "--address", f"127.0.0.1:{7442 + number}", "--folder", f"keys-{number}"
        )
        assert made.exit_code == 0, made.output
    added = sottovoce("roster", "add", "keys-1/ward-1.entry.json", "keys-2/ward-2.entry.json")
    assert added.exit_code == 0, added.output
    return tmp_path


def test_two_parties_find_each_other(sottovoce, wards):
    told = one_line(sottovoce("roster", "show").stdout)
    for number in (1, 2):
        shown = json.loads(sottovoce("keys", "show", f"ward-{number}", "--folder", f"keys-{number}", "--json").stdout)
        for group in shown["fingerprint"].split():
            assert group in told
        assert load_identity(f"ward-{number}", wards / f"keys-{number}").entry().fingerprint == shown["fingerprint"]
    assert "compare each number with its owner by voice" in told
    assert load_roster(wards / "roster.json").fingerprint in told
    assert sottovoce("roster", "check").exit_code == 0


def test_no_command_prints_a_secret(sottovoce, wards):
    said = "".join(
        sottovoce(*command).output
        for command in (
            ("keys", "show", "ward-1", "--folder", "keys-1"),
            ("keys", "show", "ward-1", "--folder", "keys-1", "--json"),
            ("keys", "renew", "ward-1", "--folder", "keys-1"),
            ("roster", "show", "--json"),
            ("keys", "new", "ward-1", "--folder", "keys-1", "--address", "h:1"),
            ("roster", "add", "keys-1/ward-1.key.json"),
            ("--debug", "roster", "add", "keys-1/ward-1.key.json"),
        )
    )
    secret = json.loads((wards / "keys-1" / "ward-1.key.json").read_text())
    assert secret["identity_secret"] not in said
    assert not any(line in said for line in secret["tls_secret"].splitlines() if len(line) > 30)
    assert "PRIVATE" not in said


def test_a_key_that_was_lost_is_taken_out_and_replaced(sottovoce, wards):
    before = load_roster(wards / "roster.json")
    (wards / "keys-2" / "ward-2.key.json").unlink()
    assert sottovoce("keys", "new", "ward-2", "-a", "127.0.0.1:7444", "-f", "new-keys").exit_code == 0
    refused = sottovoce("roster", "renew", "new-keys/ward-2.entry.json")
    assert refused.exit_code == 2
    assert "another identity key" in one_line(refused.stderr)
    assert load_roster(wards / "roster.json") == before
    assert sottovoce("roster", "remove", "ward-2").exit_code == 0
    assert sottovoce("roster", "add", "new-keys/ward-2.entry.json").exit_code == 0
    assert load_roster(wards / "roster.json").digest != before.digest


def test_a_party_that_moves_is_the_same_member(sottovoce, wards):
    before = load_roster(wards / "roster.json")
    moved = sottovoce("keys", "renew", "ward-2", "--folder", "keys-2", "--address", "ward-2.example.org:7443")
    assert moved.exit_code == 0
    assert sottovoce("roster", "renew", "keys-2/ward-2.entry.json").exit_code == 0
    after = load_roster(wards / "roster.json")
    assert after["ward-2"].address == "ward-2.example.org:7443"
    assert after.digest == before.digest


def test_an_entry_that_was_lost_is_written_again(sottovoce, wards):
    entry = wards / "keys-1" / "ward-1.entry.json"
    before = entry.read_bytes()
    entry.unlink()
    assert sottovoce("keys", "show", "ward-1", "--folder", "keys-1").exit_code == 0
    assert entry.read_bytes() == before


def test_a_certificate_that_ends_soon_is_said(sottovoce, wards):
    assert sottovoce("keys", "renew", "ward-1", "--folder", "keys-1", "--days", 7).exit_code == 0
    renewed = sottovoce("roster", "renew", "keys-1/ward-1.entry.json", "--json")
    assert "the certificate of ward-1 ends on" in one_line(renewed.stderr)
    assert len(json.loads(renewed.stdout)["notes"]) == 1


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("keys", "make", "x"), "does not exist; there are new, show, renew"),
        (("keys", "new", "x"), "needs --address and --folder"),
        (("keys", "show", "x"), "needs --folder"),
        (("keys", "show", "x", "--folder", "f", "--days", 3), "--days has no meaning"),
        (("keys", "show", "x", "--folder", "f"), "sottovoce keys new x"),
        (("keys", "new", "x", "--folder", "f", "--address", "y"), "host:port"),
        (("roster", "join"), "there are add, show, check, renew, remove"),
        (("roster", "add"), "needs files of entries"),
        (("roster", "show", "x"), "takes no names or files"),
        (("roster", "show"), "roster.json cannot be read"),
        (("roster", "remove", "x"), "roster.json cannot be read"),
        (("roster", "add", "none.json"), "none.json cannot be read"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_paragraph(sottovoce, command, said):
    refused = sottovoce(*command)
    assert refused.exit_code == 2
    assert said in one_line(refused.stderr)
    assert not Path("roster.json").exists()


def test_a_changed_entry_is_refused_and_nothing_is_written(sottovoce, wards):
    entry = wards / "keys-1" / "ward-1.entry.json"
    entry.write_text(entry.read_text().replace("127.0.0.1:7443", "127.0.0.1:7999"))
    refused = sottovoce("roster", "add", entry, "--roster", "other.json")
    assert refused.exit_code == 2
    assert "not signed by the key in it" in one_line(refused.stderr)
    assert not (wards / "other.json").exists()


@pytest.mark.parametrize("width", [80, 140])
def test_everything_fits_the_terminal(sottovoce, wards, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    for command in (("roster", "show"), ("keys", "show", "ward-1", "--folder", "keys-1"), ("roster", "check", "-q")):
        assert max(map(len, sottovoce(*command).stdout.splitlines())) <= width
