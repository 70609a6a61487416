"""The roster: every entry is its owner's own, nobody is listed twice, and people can compare it by voice."""

import datetime as dt
import json
import math
from dataclasses import replace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

from deployment.identity.parties import identity, roster
from sottovoce.deployment.identity import Entry, Roster, load_entry, load_roster, new_identity, refusals, renew_identity
from sottovoce.deployment.identity.entry import signed_bytes, signed_entry
from sottovoce.deployment.identity.fingerprint import fingerprint
from sottovoce.errors import ConfigError, SottovoceError

LATER = dt.datetime.now(dt.UTC) + dt.timedelta(days=3000)


def entry(owner: str, **changes) -> Entry:
    """An entry that its owner signed, with something else in it."""
    of = identity(owner)
    fields = {"name": of.name, "role": of.role, "address": of.address, "certificate": of.certificate, **changes}
    return signed_entry(of.signing_key, **fields)


def test_a_roster_is_read_as_it_was_written(tmp_path):
    made = roster("cyd", "ada", "bea")
    made.save(tmp_path / "roster.json")
    assert load_roster(tmp_path / "roster.json") == made
    assert made.names == ("ada", "bea", "cyd")
    assert made["bea"].identity_key == identity("bea").public_key
    assert "bea" in made
    assert len(made) == 3
    with pytest.raises(refusals.UnknownParty, match="no 'eve'; it lists ada, bea, cyd"):
        made["eve"]


@pytest.mark.parametrize("field", ["name", "role", "identity_key", "address", "certificate", "signature"])
def test_every_field_of_an_entry_is_signed(tmp_path, field):
    made, other = roster("ada", "bea").as_json(), roster("cyd").as_json()["entries"][0]
    changed = {**other, "role": "relay"}
    made["entries"][0][field] = changed[field]
    (tmp_path / "roster.json").write_text(json.dumps(made))
    with pytest.raises(refusals.Forged, match="is not signed by the key in it"):
        load_roster(tmp_path / "roster.json")


def test_signed_bytes_of_different_entries_differ_wherever_fields_meet():
    key = bytes(32)
    assert signed_bytes("ab", "c", key, "d", b"") != signed_bytes("a", "bc", key, "d", b"")
    assert signed_bytes("a", "b", key, "cd", b"e") != signed_bytes("a", "b", key, "c", b"de")


@pytest.mark.parametrize(
    ("what", "second"),
    [
        ("name", lambda folder: new_identity("ADA", folder, "127.0.0.1:9").entry()),
        ("identity key", lambda folder: entry("ada", name="ada-2", address="127.0.0.1:9")),
        ("address", lambda folder: new_identity("eve", folder, identity("ada").address).entry()),
    ],
)
def test_no_two_members_have_anything_in_common(tmp_path, what, second):
    with pytest.raises(ConfigError, match=f"with the same {what}"):
        Roster.of([entry("ada"), second(tmp_path / "keys")])


def test_one_certificate_has_one_owner():
    twin = replace(entry("ada"), name="twin", address="127.0.0.1:9", identity_key=bytes(32))
    from sottovoce.deployment.identity.roster import _refuse_duplicates

    with pytest.raises(ConfigError, match="with the same certificate"):
        _refuse_duplicates([entry("ada"), twin])


def test_an_entry_twice_is_noticed():
    with pytest.raises(ConfigError, match="the same name"):
        Roster.of([entry("ada"), entry("ada")])


def test_an_expired_certificate_is_refused_with_its_date():
    made = identity("ada").entry()
    with pytest.raises(
        ConfigError, match=f"has expired on {made.valid_until:%Y-%m-%d %H:%M} UTC.*keys renew.*roster renew"
    ):
        Roster.of([made], now=LATER)
    with pytest.raises(ConfigError, match="Set the clock right"):
        Roster.of([made], now=dt.datetime(2001, 1, 1, tzinfo=dt.UTC))
    Roster.of([made], now=made.valid_until - dt.timedelta(seconds=1))
    assert Roster.of([made], now=LATER, expired=True).names == ("ada",)


def self_signed(key, *, name: str, signer=None) -> bytes:
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=9))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    )
    signing = signer or key
    algorithm = None if isinstance(signing, ed25519.Ed25519PrivateKey) else SHA256()
    return builder.sign(signing, algorithm).public_bytes(Encoding.DER)


@pytest.mark.parametrize(
    ("said", "certificate"),
    [
        ("no P-256 key", lambda name: self_signed(ed25519.Ed25519PrivateKey.generate(), name=name)),
        ("no P-256 key", lambda name: self_signed(ec.generate_private_key(ec.SECP384R1()), name=name)),
        ("not signed by its own key", lambda name: self_signed(_p256(), name=name, signer=_p256())),
        ("made out for somebody else", lambda name: identity("bea").certificate),
        ("made out for somebody else", lambda name: self_signed(_p256(), name="x.party.invalid")),
        ("cannot be read", lambda name: b"nothing"),
        ("cannot be read", lambda name: identity("ada").certificate + b"more"),
        ("at most 4096", lambda name: bytes(5000)),
    ],
)
def test_certificates_of_no_use_are_refused(said, certificate):
    name = identity("ada").entry().server_name
    with pytest.raises(ConfigError, match=said):
        entry("ada", certificate=certificate(name))


def _p256():
    return ec.generate_private_key(ec.SECP256R1())


def test_the_number_of_a_key_is_long_enough_and_its_own():
    number = identity("ada").entry().fingerprint
    assert [len(group) for group in number.split()] == [5] * 8
    assert math.log2(10**40) > 80
    numbers = roster("ada", "bea", "cyd").fingerprints()
    assert numbers["ada"] == number
    assert len({*numbers.values(), roster("ada", "bea", "cyd").fingerprint}) == 4
    assert fingerprint("key", b"x") != fingerprint("roster", b"x")


def test_numbers_are_what_they_always_were():
    # SHA-256("sottovoce/fingerprint/key\\0" + 32 zero bytes) modulo 10^40, by another program (sha256sum and bc).
    assert fingerprint("key", bytes(32)) == "96501 28910 62222 39055 12086 68611 77928 08612"


def test_the_digest_is_about_members_and_not_about_where_they_are(tmp_path):
    folder = tmp_path / "keys"
    ward = new_identity("ward", folder, "127.0.0.1:9")
    before = Roster.of([ward.entry(), entry("ada")])
    after = before.replaced(renew_identity("ward", folder, address="127.0.0.1:10").entry())
    assert after != before
    assert after.digest == before.digest
    assert after.fingerprint == before.fingerprint
    others = (before.removed("ada"), before.added(entry("bea")), Roster.of([ward.entry(), entry("ada", role="relay")]))
    assert len({before.digest, *(other.digest for other in others)}) == 4


def test_only_address_and_certificate_can_be_renewed(tmp_path):
    before = roster("ada", "bea")
    stranger = new_identity("bea", tmp_path / "keys", "127.0.0.1:9").entry()
    with pytest.raises(ConfigError, match="another identity key"):
        before.replaced(stranger)
    with pytest.raises(ConfigError, match="another role"):
        before.replaced(entry("bea", role="relay"))
    with pytest.raises(ConfigError, match="bea is in the roster already"):
        before.added(stranger)
    with pytest.raises(refusals.UnknownParty):
        before.replaced(entry("cyd"))


def test_files_that_are_no_rosters_are_refused(tmp_path):
    path = tmp_path / "roster.json"
    good = roster("ada").as_json()
    bad = good["entries"][0]
    for value in (
        {},
        [],
        {**good, "version": 2},
        {**good, "more": 1},
        {**good, "entries": {}},
        {**good, "entries": [{}]},
        {**good, "entries": [{**bad, "more": "x"}]},
        {**good, "entries": [{**bad, "identity_key": "xy"}]},
        {**good, "entries": [{**bad, "identity_key": "00"}]},
        {**good, "entries": [{**bad, "certificate": "?"}]},
        {**good, "entries": [{**bad, "name": 3}]},
        {**good, "entries": [{**bad, "name": "a/b"}]},
    ):
        path.write_text(json.dumps(value))
        with pytest.raises(SottovoceError):
            load_roster(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_roster(tmp_path / "none.json")
    path.write_text(json.dumps(good))
    with pytest.raises(ConfigError, match="is no sottovoce roster entry"):
        load_entry(path)
