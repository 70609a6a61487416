"""The certificate by which a transport knows a party: self-signed, P-256, in the name of the party's identity key.

gRPC accepts no Ed25519 certificates, hence a second key. Its owner vouches for it by signing the roster entry that holds it; who signed the
certificate itself, and what it says, prove nothing to others, who compare it byte for byte.
"""

import datetime as dt

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sottovoce.errors import ConfigError

_LARGEST = 4096  # bytes of a certificate; ours have about 450
_RENEW = "`sottovoce keys renew` makes a new one."
_EARLIER = dt.timedelta(days=1)  # for clocks that are slow


def new_certificate(identity_key: bytes, *, days: int) -> tuple[bytes, bytes]:
    """A fresh TLS key and its certificate, (PEM, DER).

    Args:
        identity_key: the public Ed25519 key of the party, after which the certificate is named.
        days: how long it is valid, counted from now.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, server_name(identity_key))])
    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + dt.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(server_name(identity_key))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .sign(key, SHA256())
    )
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return secret, certificate.public_bytes(Encoding.DER)


def server_name(identity_key: bytes) -> str:
    """The name for which a party's certificate is made out; no machine has it."""
    return f"{identity_key[:20].hex()}.party.invalid"


def pem(der: bytes) -> bytes:
    """A certificate as gRPC reads it."""
    return x509.load_der_x509_certificate(der).public_bytes(Encoding.PEM)


def der(pem_bytes: bytes) -> bytes:
    """A certificate as rosters compare it."""
    return x509.load_pem_x509_certificate(pem_bytes).public_bytes(Encoding.DER)


def valid_until(der: bytes) -> dt.datetime:
    """When a certificate ends."""
    return x509.load_der_x509_certificate(der).not_valid_after_utc


def check_certificate(der: bytes, *, owner: str, identity_key: bytes) -> None:
    """Refuse a certificate that gRPC would not take, or that is not this party's.

    Args:
        der: the certificate.
        owner: whose it is, for the message.
        identity_key: the public key after which it has to be named.

    Raises:
        ConfigError: with what is wrong, and what to do.
    """
    certificate = _parsed(der, owner)
    key = certificate.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ConfigError(f"The certificate of {owner} has no P-256 key, and gRPC takes no other. {_RENEW}")
    try:
        certificate.verify_directly_issued_by(certificate)
    except (InvalidSignature, ValueError, TypeError) as error:
        raise ConfigError(f"The certificate of {owner} is not signed by its own key. {_RENEW}") from error
    if _names(certificate) != [server_name(identity_key)]:
        raise ConfigError(f"The certificate of {owner} is made out for somebody else. {_RENEW}")


def check_valid(der: bytes, *, owner: str, now: dt.datetime | None = None) -> None:
    """Refuse a certificate that is not valid now, or at another time.

    Raises:
        ConfigError: with its date, and what to do.
    """
    certificate = _parsed(der, owner)
    now = now or dt.datetime.now(dt.UTC)
    if now >= certificate.not_valid_after_utc:
        raise ConfigError(
            f"The certificate of {owner} has expired on {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC; one that is valid is needed. "
            f"{owner} makes one with `sottovoce keys renew`, and everybody adds the new entry with `sottovoce roster renew`."
        )
    if now < certificate.not_valid_before_utc:
        raise ConfigError(
            f"The certificate of {owner} is not valid before {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC, and this machine's clock says "
            f"{now:%Y-%m-%d %H:%M}. Set the clock right."
        )


def _parsed(der: bytes, owner: str) -> x509.Certificate:
    if len(der) > _LARGEST:
        raise ConfigError(
            f"The certificate of {owner} has {len(der)} bytes; at most {_LARGEST} are read. Ask {owner} for its entry again."
        )
    try:
        certificate = x509.load_der_x509_certificate(der)
        if certificate.public_bytes(Encoding.DER) != der:
            raise ValueError("there is something behind it")
    except ValueError as error:
        raise ConfigError(
            f"The certificate of {owner} cannot be read ({error}). Ask {owner} for its entry again."
        ) from error
    return certificate


def _names(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return []
    return names.get_values_for_type(x509.DNSName)
