"""What a member can do at the relay, tried against the real server: its own mail, and nothing else.

Every attempt is made twice: against the configuration as it is written, and against the same one without its permissions, where it succeeds.
"""

import asyncio
import dataclasses
import datetime as dt
import json
import re

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from deployment.relays import Relay
from deployment.transports.test_direct import issued
from sottovoce.deployment.identity import Identity, der, new_identity, renew_identity
from sottovoce.deployment.relays import configuration, configured, look_at_mailboxes, mailboxes
from sottovoce.deployment.relays.connection import NatsError, connect
from sottovoce.errors import ConfigError

NAMES = ("ada", "bea", "cyd")


def without_permissions(text: str) -> str:
    heading, _, rest = text.partition("\n")
    said = json.loads(rest)
    del said["authorization"]["default_permissions"]
    for user in said["authorization"]["users"]:
        del user["permissions"]
    return f"{heading}\n{json.dumps(said)}"


@pytest.fixture(scope="module")
def guarded(parties, tmp_path_factory):
    with Relay(tmp_path_factory.mktemp("guarded"), parties[1]) as relay:
        yield relay


@pytest.fixture(scope="module")
def unguarded(parties, tmp_path_factory):
    with Relay(tmp_path_factory.mktemp("unguarded"), parties[1], change=without_permissions) as relay:
        yield relay


def as_member(relay: Relay, identity: Identity, play):
    """Play something over a connection of a member, and return what it returns."""

    async def run():
        inbox = mailboxes.inbox(mailboxes.token(identity.public_key))
        client = await connect(relay.address, identity.tls_secret, identity.certificate, inbox)
        try:
            return await play(client)
        finally:
            await client.close()

    return asyncio.run(run())


def asked(relay: Relay, identity: Identity, subject: str, content) -> tuple[bool, str]:
    """Whether the server answered a request otherwise than with an error, and what it objected to."""
    payload = content if isinstance(content, bytes) else json.dumps(content).encode()

    async def play(client):
        try:
            answer = await client.request(subject, payload, timeout=0.4, old_style=True)
        except (NatsError, TimeoutError):
            return False, str(client.last_error)
        said = json.loads(answer.data) if answer.data[:1] == b"{" else {}
        return "error" not in said and not (answer.headers or {}).get("Status", "").startswith("4"), str(said)

    return as_member(relay, identity, play)


ATTEMPTS = {
    "publish in the name of another": ("sv.CYD.BEA", b"forged"),
    "ask for the mail of another": ("$JS.API.CONSUMER.MSG.NEXT.SV_BEA.box", {"batch": 1, "expires": 10**8}),
    "acknowledge the mail of another": ("$JS.ACK.SV_BEA.box.1.1.1.1.1", b"+ACK"),
    "look at the mailbox of another": ("$JS.API.STREAM.INFO.SV_BEA", b""),
    "read a message of another": ("$JS.API.STREAM.MSG.GET.SV_BEA", {"last_by_subj": "sv.BEA.CYD"}),
    "list all mailboxes": ("$JS.API.STREAM.NAMES", b""),
    "copy the mail of another": ("$JS.API.STREAM.CREATE.COPY", {"name": "COPY", "mirror": {"name": "SV_BEA"}}),
    "collect mail of its own making": ("$JS.API.STREAM.CREATE.MORE", {"name": "MORE", "subjects": ["more.>"]}),
    "change its own mailbox": ("$JS.API.STREAM.INFO.SV_ADA", b""),
    "look at a consumer": ("$JS.API.CONSUMER.INFO.SV_BEA.box", b""),
    "empty the mailbox of another": ("$JS.API.STREAM.PURGE.SV_BEA", b""),
    "ask about the account": ("$JS.API.INFO", b""),
    "remove the consumer of another": ("$JS.API.CONSUMER.DELETE.SV_CYD.box", b""),
    "remove the mailbox of another": ("$JS.API.STREAM.DELETE.SV_CYD", b""),
    "write to the answers of another": ("sv-inbox.BEA.x", b"an answer"),
}


def words(text: str, identities) -> str:
    for name, identity in identities.items():
        text = text.replace(name.upper(), mailboxes.token(identity.public_key))
    return text


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_a_member_can_use_nothing_but_its_own_mailbox(parties, guarded, unguarded, attempt):
    identities, _ = parties
    subject, content = ATTEMPTS[attempt]
    subject = words(subject, identities)
    content = content if isinstance(content, bytes) else json.loads(words(json.dumps(content), identities))
    for relay in (guarded, unguarded):
        letter = words("sv.BEA.CYD", identities)
        assert asked(relay, identities["cyd"], letter, b"a letter")[0]
    before = look_at_mailboxes(guarded.folder).waiting
    done, objection = asked(guarded, identities["ada"], subject, content)
    assert not done
    assert "permissions violation for publish" in objection.lower()
    assert look_at_mailboxes(guarded.folder).waiting == before
    if attempt.startswith("write to"):  # nobody is there to answer it; what is shown is that the server passes it on
        done, objection = asked(unguarded, identities["ada"], subject, content)
        assert "permissions" not in objection
    else:
        assert asked(unguarded, identities["ada"], subject, content)[0]


@pytest.mark.parametrize("subject", ["sv.>", "sv.BEA.*", "sv-inbox.BEA.>", ">", "$JS.>", "$JS.ACK.>"])
def test_a_member_can_listen_to_nothing_but_its_own_answers(parties, guarded, unguarded, subject):
    identities, _ = parties
    letter = words("sv.BEA.CYD", identities)

    def overheard(relay: Relay) -> tuple[int, str]:
        async def play(client):
            heard = []

            async def keep(message) -> None:
                heard.append(message)

            await client.subscribe(words(subject, identities), cb=keep)
            await client.flush(1)
            await asyncio.to_thread(asked, relay, identities["cyd"], letter, b"a letter")
            await client.flush(1)
            await asyncio.sleep(0.05)
            return len(heard), str(client.last_error)

        return as_member(relay, identities["ada"], play)

    heard, objection = overheard(guarded)
    assert heard == 0
    assert "permissions violation for subscription" in objection.lower()
    heard, objection = overheard(unguarded)
    assert objection == "None"
    assert heard or not subject.startswith(("sv.", ">"))


def certified(identity: Identity, *, authority: bool = False, names: tuple[x509.GeneralName, ...] = ()) -> Identity:
    """The same party with a certificate that Sottovoce would not have made: one that may sign others, or has more names."""
    key = ec.generate_private_key(ec.SECP256R1())
    own = x509.load_der_x509_certificate(identity.certificate)
    alternative = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(own.subject)
        .issuer_name(own.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=9))
        .add_extension(x509.SubjectAlternativeName([*alternative, *names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .sign(key, SHA256())
    )
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return dataclasses.replace(identity, tls_secret=secret, certificate=certificate.public_bytes(Encoding.DER))


def with_certificate(identity: Identity, secret: bytes, chain: bytes) -> Identity:
    return dataclasses.replace(identity, tls_secret=secret, certificate=der(chain))


async def own_name(client) -> None:
    await client.flush(1)


def test_a_certificate_that_a_member_issued_in_the_name_of_another_is_not_let_in(
    parties, guarded, tmp_path, monkeypatch
):
    identities, roster = parties
    for authority in (False, True):
        secret, forged = issued(identities["ada"], identities["bea"], authority=authority)
        with pytest.raises((OSError, NatsError, TimeoutError)):
            as_member(guarded, with_certificate(identities["bea"], secret, forged), own_name)
    as_member(guarded, identities["bea"], own_name)

    # A member whose certificate may sign others is refused when the configuration is written; without that check the forger is bea.
    signer = certified(identities["ada"], authority=True)
    trusting = roster.replaced(signer.entry())
    with pytest.raises(ConfigError, match="may sign others"):
        configured(trusting, "127.0.0.1:4222", tmp_path / "refused")
    assert not (tmp_path / "refused").exists()
    monkeypatch.setattr(configuration, "check_member", lambda entry: None)
    with Relay(tmp_path / "trusting", trusting) as relay:
        secret, forged = issued(signer, identities["bea"], authority=False)
        forger = with_certificate(identities["bea"], secret, forged)
        assert asked(relay, forger, words("sv.CYD.BEA", identities), b"forged")[0]


@pytest.mark.parametrize("kind", [x509.RFC822Name, x509.DNSName])
def test_a_certificate_with_the_name_of_another_beside_its_own_is_refused(parties, tmp_path, monkeypatch, kind):
    identities, roster = parties
    name = identities["bea"].entry().server_name
    double = certified(identities["ada"], names=(kind(name),))
    if kind is x509.DNSName:
        with pytest.raises(ConfigError, match="made out for somebody else"):
            double.entry()  # no roster takes it
        return
    doubled = roster.replaced(double.entry())
    with pytest.raises(ConfigError, match="other names beside its own"):
        configured(doubled, "127.0.0.1:4222", tmp_path / "refused")
    monkeypatch.setattr(configuration, "check_member", lambda entry: None)
    with Relay(tmp_path / "trusting", doubled) as relay:  # NATS asks for names of mail first
        as_bea = with_certificate(identities["bea"], double.tls_secret, double.certificate_pem)
        assert asked(relay, as_bea, words("sv.CYD.BEA", identities), b"forged")[0]


def test_strangers_and_old_certificates_are_not_let_in(parties, guarded, tmp_path):
    _, roster = parties
    stranger = new_identity("bea", tmp_path / "stranger", "127.0.0.1:7000")
    with pytest.raises((OSError, NatsError, TimeoutError)):
        as_member(guarded, stranger, own_name)
    moved = new_identity("dan", tmp_path / "dan", "127.0.0.1:7001")
    renewed = renew_identity("dan", tmp_path / "dan")
    with Relay(tmp_path / "relay", roster.added(renewed.entry())) as relay:
        as_member(relay, renewed, own_name)
        with pytest.raises((OSError, NatsError, TimeoutError)):
            as_member(relay, moved, own_name)


def test_a_member_that_floods_takes_its_own_room_alone(parties, tmp_path):
    identities, roster = parties
    with Relay(tmp_path / "relay", roster, configuration.Limits(messages=16)) as relay:
        letter, flood = words("sv.BEA.CYD", identities), words("sv.BEA.ADA", identities)
        assert asked(relay, identities["cyd"], letter, b"a letter")[0]

        async def play(client):
            for number in range(300):
                await client.publish(flood, b"%d" % number)
            await client.flush(5)

        as_member(relay, identities["ada"], play)
        assert look_at_mailboxes(relay.folder).waiting["bea"] == 17


def test_the_configuration_names_no_party_and_lets_nobody_in_by_default(parties, guarded):
    identities, _ = parties
    text = (guarded.folder / "nats.conf").read_text()
    assert not re.search(r"\b(ada|bea|cyd)\b", text)
    assert "no_auth_user" not in text
    assert not re.search(r'"(http|https|monitor|cluster|leafnodes|websocket|mqtt|system_account)\w*"', text)
    said = json.loads(text.partition("\n")[2])
    assert said["authorization"]["default_permissions"] == {"publish": {"deny": [">"]}, "subscribe": {"deny": [">"]}}
    assert said["tls"]["verify_and_map"] is True
    assert len(said["authorization"]["users"]) == len(identities) + 1
