"""Keys of a party: made once, readable by their owner alone, and by every later release."""

import datetime as dt
import json
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509

from sottovoce.deployment.identity import (
    Entry,
    load_entry,
    load_identity,
    new_identity,
    refusals,
    renew_identity,
    verify,
)
from sottovoce.deployment.identity.names import is_loopback, split_address
from sottovoce.errors import ConfigError

GOLDEN = Path(__file__).with_name("golden")
ADDRESS = "127.0.0.1:7443"


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "keys"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_keys_are_read_as_they_were_written_and_by_their_owner_alone(folder):
    made = new_identity("ward-1", folder, ADDRESS, role="relay")
    found = load_identity("ward-1", folder)
    assert found.entry() == made.entry()
    assert found.sign("test", b"x") == made.sign("test", b"x")
    assert found.tls_secret == made.tls_secret
    assert mode(folder) == 0o700
    assert {mode(path) for path in folder.iterdir()} == {0o600}
    assert sorted(path.name for path in folder.iterdir()) == ["ward-1.entry.json", "ward-1.key.json"]
    assert load_entry(folder / "ward-1.entry.json") == made.entry()


def test_the_entry_holds_no_secret_and_neither_does_what_is_printed(folder):
    made = new_identity("ward-1", folder, ADDRESS)
    secrets = json.loads((folder / "ward-1.key.json").read_text())
    shown = (folder / "ward-1.entry.json").read_text() + repr(made) + str(made) + repr(made.entry())
    for name in ("identity_secret", "tls_secret"):
        assert secrets[name] not in shown
        assert secrets[name][30:60] not in shown


def test_a_second_key_does_not_take_the_place_of_the_first(folder):
    first = new_identity("ward-1", folder, ADDRESS)
    with pytest.raises(ConfigError, match="exists"):
        new_identity("ward-1", folder, ADDRESS)
    assert load_identity("ward-1", folder).entry() == first.entry()


@pytest.mark.parametrize(("path", "opened"), [(".", 0o750), ("ward-1.key.json", 0o640), ("ward-1.key.json", 0o604)])
def test_keys_that_others_may_read_are_refused(folder, path, opened):
    new_identity("ward-1", folder, ADDRESS)
    (folder / path).chmod(opened)
    with pytest.raises(ConfigError, match="chmod"):
        load_identity("ward-1", folder)


def test_keys_go_into_no_folder_that_others_may_read(folder):
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    with pytest.raises(ConfigError, match="chmod 700"):
        new_identity("ward-1", folder, ADDRESS)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("field", ["identity_secret", "tls_secret", "certificate", "name", "role"])
@pytest.mark.parametrize("wrong", ["", "00", None, 3, "\u00e4"])
def test_a_damaged_key_is_refused_and_not_repeated(folder, field, wrong):
    new_identity("ward-1", folder, ADDRESS)
    path = folder / "ward-1.key.json"
    value = json.loads(path.read_text())
    secret = value["identity_secret"]
    value[field] = wrong
    path.write_text(json.dumps(value))
    with pytest.raises(ConfigError) as refused:
        load_identity("ward-1", folder)
    assert secret not in str(refused.value)


def test_keys_of_two_parties_are_not_mixed(folder):
    new_identity("ward-1", folder, ADDRESS)
    new_identity("ward-2", folder, ADDRESS)
    one, two = (json.loads((folder / f"ward-{number}.key.json").read_text()) for number in (1, 2))
    (folder / "ward-1.key.json").write_text(json.dumps({**one, "tls_secret": two["tls_secret"]}))
    with pytest.raises(ConfigError, match="do not belong to each other"):
        load_identity("ward-1", folder)
    shutil.copy(folder / "ward-2.key.json", folder / "ward-1.key.json")
    with pytest.raises(ConfigError, match="the name ward-1"):
        load_identity("ward-1", folder)


def test_files_of_other_formats_and_versions_are_told_apart(folder):
    new_identity("ward-1", folder, ADDRESS)
    path = folder / "ward-1.key.json"
    value = json.loads(path.read_text())
    for changed, said in (({"version": 2}, "version 2"), ({"format": "x"}, "is no sottovoce key")):
        path.write_text(json.dumps({**value, **changed}))
        with pytest.raises(ConfigError, match=said):
            load_identity("ward-1", folder)
    for content in ("", "{", "[]", '{"format": "sottovoce key", "format": "sottovoce key"}', "[" * 100_000):
        path.write_text(content)
        with pytest.raises(ConfigError, match="is no sottovoce key"):
            load_identity("ward-1", folder)
    with pytest.raises(ConfigError, match="sottovoce keys new ward-9"):
        load_identity("ward-9", folder)


def test_a_renewed_certificate_keeps_the_key_and_the_number(folder):
    old = new_identity("ward-1", folder, ADDRESS, days=10)
    new = renew_identity("ward-1", folder, address="ward-1.example.org:7443", days=20)
    assert new.entry().fingerprint == old.entry().fingerprint
    assert new.public_key == old.public_key
    assert new.certificate != old.certificate
    assert new.tls_secret != old.tls_secret
    assert load_identity("ward-1", folder).entry() == new.entry() == load_entry(folder / "ward-1.entry.json")
    assert dt.timedelta(days=19) < new.entry().valid_until - dt.datetime.now(dt.UTC) < dt.timedelta(days=21)
    assert renew_identity("ward-1", folder).address == "ward-1.example.org:7443"
    with pytest.raises(ConfigError, match="host:port"):
        renew_identity("ward-1", folder, address="nowhere")


def test_a_certificate_is_p256_and_named_after_the_key(folder):
    made = new_identity("ward-1", folder, ADDRESS)
    certificate = x509.load_der_x509_certificate(made.certificate)
    assert certificate.public_key().curve.name == "secp256r1"
    assert made.public_key[:20].hex() in certificate.subject.rfc4514_string()


@pytest.mark.parametrize("name", ["", "-x", ".x", "a b", "a/b", "..", "\u00e9t\u00e9", "a\n", "x" * 64, "a\x00", 3])
def test_names_that_would_be_trouble_are_refused(folder, name):
    with pytest.raises(ConfigError, match="cannot be a party's"):
        new_identity(name, folder, ADDRESS)
    assert not folder.exists()


@pytest.mark.parametrize(
    "address",
    ["", "host", "host:", ":7443", "host:0", "host:65536", "host:07443", "host:7443x", "ho st:7443", "300.1.1.1:7443", "1.2.3:7443", "0.0.0.0:7443",
     "::1:7443", "-a.org:7443", "a..org:7443", "a_b:7443", "host:\u0667", "host:1\n", "h" * 64 + ":1", "https://host:7443"],
)  # fmt: skip
def test_addresses_that_nobody_could_reach_are_refused(folder, address):
    with pytest.raises(ConfigError, match="host:port"):
        new_identity("ward-1", folder, address)


@pytest.mark.parametrize(
    ("address", "expected", "loopback"),
    [
        ("127.0.0.1:1", ("127.0.0.1", 1), True),
        ("127.8.0.1:1", ("127.8.0.1", 1), True),
        ("LocalHost:65535", ("LocalHost", 65535), True),
        ("10.0.0.1:7443", ("10.0.0.1", 7443), False),
        ("ward-1.Example.org:7443", ("ward-1.Example.org", 7443), False),
    ],
)
def test_addresses_are_names_or_ipv4(address, expected, loopback):
    assert split_address(address) == expected
    assert is_loopback(expected[0]) is loopback


@pytest.mark.parametrize(("role", "days"), [("boss", 10), ("agent", 0), ("agent", 10**6)])
def test_other_roles_and_times_are_refused(folder, role, days):
    with pytest.raises(ConfigError):
        new_identity("ward-1", folder, ADDRESS, role=role, days=days)


def test_a_signature_is_good_for_one_message_purpose_and_key(folder):
    ward, other = new_identity("ward-1", folder, ADDRESS), new_identity("ward-2", folder, ADDRESS)
    signature = ward.sign("ledger-head", b"x")
    verify(ward.public_key, "ledger-head", b"x", signature)
    for key, purpose, message, signed in (
        (other.public_key, "ledger-head", b"x", signature),
        (ward.public_key, "hello", b"x", signature),
        (ward.public_key, "ledger-head", b"y", signature),
        (ward.public_key, "ledger-head", b"x", signature[:-1]),
        (ward.public_key, "ledger-head", b"x", signature[:-1] + bytes([signature[-1] ^ 1])),
        (b"short", "ledger-head", b"x", signature),
    ):
        with pytest.raises(refusals.Forged):
            verify(key, purpose, message, signed)


def test_every_release_reads_the_keys_of_the_first_one(tmp_path):
    folder = tmp_path / "keys"
    shutil.copytree(GOLDEN, folder)
    folder.chmod(0o700)
    (folder / "ward-1.key.json").chmod(0o600)
    found = load_identity("ward-1", folder)
    expected = json.loads((GOLDEN / "expected.json").read_text())
    assert found.public_key.hex() == expected["identity_key"]
    assert found.entry().fingerprint == expected["fingerprint"]
    assert found.sign("golden", b"message").hex() == expected["signature"]  # Ed25519 signs without chance
    assert (found.name, found.role, found.address) == ("ward-1", "agent", "ward-1.example.org:7443")
    entry = load_entry(folder / "ward-1.entry.json")
    assert isinstance(entry, Entry)
    assert entry == found.entry()


@pytest.mark.slow
def test_keys_and_rosters_need_nothing_but_the_core(tmp_path):
    program = (
        "import sys; sys.modules['msgpack'] = sys.modules['grpc'] = None\n"
        "from pathlib import Path\n"
        "from sottovoce.deployment.identity import Roster, new_identity\n"
        "print(Roster.of([new_identity('ward-1', Path(sys.argv[1]), 'localhost:7443').entry()]))\n"
        "from sottovoce.errors import ConfigError\n"
        "try:\n    from sottovoce.deployment.identity import Session\n"
        "except ConfigError as error:\n    print(error)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "keys")]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert answer.stdout.startswith("Roster(ward-1; ")
    assert "pip install 'sottovoce[deploy]'" in answer.stdout
