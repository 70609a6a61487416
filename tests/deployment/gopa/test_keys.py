"""Keys of a round: both ends agree, nothing else does."""

import hashlib
import hmac
import struct

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from sottovoce.deployment.gopa.keys import Context, noise_key, pair_key
from sottovoce.deployment.gopa.refusals import Malformed
from sottovoce.errors import ConfigError

CONTEXT = Context(run=bytes(16), round_number=5, terms=bytes(32))


def exchange(name):
    return X25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())


def raw(key):
    return key.public_key().public_bytes_raw()


def test_both_ends_derive_the_same_key():
    ann, bob = exchange("ann"), exchange("bob")
    assert pair_key(ann, raw(bob), CONTEXT) == pair_key(bob, raw(ann), CONTEXT)


def test_pair_key_is_hkdf_with_run_round_terms_and_both_keys_bound_in():
    ann, bob = exchange("ann"), exchange("bob")
    context = Context(run=b"r" * 16, round_number=2**40, terms=b"t" * 32)
    # RFC 5869 by hand: extract, then one block of expand.
    extracted = hmac.digest(context.run, ann.exchange(bob.public_key()), "sha256")
    info = b"sottovoce/gopa/1/pair-mask" + struct.pack("<Q", 2**40) + b"t" * 32 + b"".join(sorted([raw(ann), raw(bob)]))
    assert pair_key(ann, raw(bob), context) == hmac.digest(extracted, info + b"\x01", "sha256")


@pytest.mark.parametrize(
    "other",
    [
        CONTEXT._replace(run=b"\x01" + bytes(15)),
        CONTEXT._replace(round_number=6),
        CONTEXT._replace(terms=b"\x01" + bytes(31)),
    ],
)
def test_no_key_serves_in_two_runs_rounds_or_terms(other):
    ann, bob = exchange("ann"), exchange("bob")
    assert pair_key(ann, raw(bob), CONTEXT) != pair_key(ann, raw(bob), other)
    assert noise_key(b"s" * 32, CONTEXT) != noise_key(b"s" * 32, other)


def test_three_parties_have_three_keys():
    ann, bob, eve = exchange("ann"), exchange("bob"), exchange("eve")
    keys = {pair_key(ann, raw(bob), CONTEXT), pair_key(ann, raw(eve), CONTEXT), pair_key(bob, raw(eve), CONTEXT)}
    assert len(keys) == 3


def test_a_party_shares_no_secret_with_itself():
    with pytest.raises(Malformed, match="itself"):
        pair_key(exchange("ann"), raw(exchange("ann")), CONTEXT)


def test_noise_secret_of_another_length_is_refused():
    with pytest.raises(ConfigError, match="32"):
        noise_key(b"short", CONTEXT)
