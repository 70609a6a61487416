"""Exchange keys: both ends share a secret that is bound to its use, and keys that give one to everybody are refused."""

import hashlib
import hmac

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from sottovoce.deployment.identity.exchange_keys import Malformed, check_exchange_key, pair_key

PRIME = 2**255 - 19


def exchange(name):
    return X25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())


def raw(key):
    return key.public_key().public_bytes_raw()


def test_pair_key_is_hkdf_with_both_keys_bound_in_and_the_same_at_both_ends():
    ann, bob = exchange("ann"), exchange("bob")
    # RFC 5869 by hand: extract, then one block of expand.
    extracted = hmac.digest(b"a run", ann.exchange(bob.public_key()), "sha256")
    info = b"a use" + b"".join(sorted([raw(ann), raw(bob)]))
    expected = hmac.digest(extracted, info + b"\x01", "sha256")
    assert pair_key(ann, raw(bob), salt=b"a run", use=b"a use") == expected
    assert pair_key(bob, raw(ann), salt=b"a run", use=b"a use") == expected


def test_another_run_use_or_pair_gives_another_key():
    ann, bob, eve = exchange("ann"), exchange("bob"), exchange("eve")
    keys = [
        pair_key(ann, raw(bob), salt=b"run", use=b"use"),
        pair_key(ann, raw(bob), salt=b"another", use=b"use"),
        pair_key(ann, raw(bob), salt=b"run", use=b"another"),
        pair_key(ann, raw(eve), salt=b"run", use=b"use"),
        pair_key(bob, raw(eve), salt=b"run", use=b"use"),
    ]
    assert len(set(keys)) == len(keys)


# Points of order 1, 2, 4 and 8 on Curve25519 (RFC 7748 curve; list in its security considerations' references).
LOW_ORDER = [
    0,
    1,
    PRIME - 1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
]


@pytest.mark.parametrize("number", LOW_ORDER)
def test_exchange_keys_of_small_order_are_refused(number):
    with pytest.raises(Malformed, match="small order"):
        check_exchange_key(number.to_bytes(32, "little"))


@pytest.mark.parametrize("number", [PRIME, PRIME + 9, 2**255 + 9])
def test_exchange_keys_that_are_not_canonical_are_refused(number):
    with pytest.raises(Malformed, match="below"):
        check_exchange_key(number.to_bytes(32, "little"))


@pytest.mark.parametrize("size", [0, 31, 33])
def test_exchange_keys_of_another_length_are_refused(size):
    with pytest.raises(Malformed, match="32 bytes"):
        check_exchange_key(bytes([9] * size))


def test_ordinary_exchange_keys_are_accepted():
    for name in "abcdefgh":
        check_exchange_key(raw(exchange(name)))
