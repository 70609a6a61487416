"""Keys and masks: both ends agree, nothing else does, and the stream is the cipher's."""

import hashlib
import hmac
import struct

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from scipy import stats

from sottovoce.deployment.gopa import GaussianMasks, RoundedGaussian, UniformMasks
from sottovoce.deployment.gopa.encoding import signed
from sottovoce.deployment.gopa.keys import Context, check_exchange_key, noise_key, pair_key, stream_words
from sottovoce.deployment.gopa.masks import pair_mask, signed_mask
from sottovoce.deployment.gopa.refusals import Malformed
from sottovoce.errors import ConfigError

CONTEXT = Context(run=bytes(16), round_number=5, terms=bytes(32))
GAUSSIAN = GaussianMasks(law=RoundedGaussian(std=50.0))
PRIME = 2**255 - 19


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


def test_stream_is_chacha20():
    # First bytes of the keystream for the zero key and nonce: RFC 8439, appendix A.1, test vector 1.
    assert stream_words(bytes(32), 2).astype("<u8").tobytes().hex() == "76b8e0ada0f13d90405d6ae55386bd28"


def test_a_longer_stream_continues_the_shorter_one():
    np.testing.assert_array_equal(stream_words(b"k" * 32, 1000)[:37], stream_words(b"k" * 32, 37))


def test_noise_secret_of_another_length_is_refused():
    with pytest.raises(ConfigError, match="32"):
        noise_key(b"short", CONTEXT)


@pytest.mark.parametrize("masks", [UniformMasks(), GAUSSIAN])
def test_the_two_ends_add_opposite_masks(masks):
    ann, bob = exchange("ann"), exchange("bob")
    here = signed_mask(pair_mask(masks, pair_key(ann, raw(bob), CONTEXT), 50), own=raw(ann), peer=raw(bob))
    there = signed_mask(pair_mask(masks, pair_key(bob, raw(ann), CONTEXT), 50), own=raw(bob), peer=raw(ann))
    assert not (here + there).any()
    assert here.any()
    assert here.dtype == np.uint64


def test_gaussian_masks_have_their_scale_and_no_other():
    sample = signed(pair_mask(GAUSSIAN, b"k" * 32, 20_000)) / 50.0
    uniform = np.random.default_rng(0).uniform(-0.5, 0.5, len(sample)) / 50.0  # undoes the steps of whole numbers
    assert stats.kstest(sample + uniform, "norm").pvalue > 1e-4
    assert stats.kstest((sample + uniform) * 3 / 2, "norm").pvalue < 1e-4
    assert stats.kstest((sample + uniform) * 2 / 3, "norm").pvalue < 1e-4


def test_uniform_masks_fill_the_ring_evenly():
    words = pair_mask(UniformMasks(), b"k" * 32, 40_000)
    for shift in (56, 28, 0):
        counts = np.bincount(((words >> np.uint64(shift)) & np.uint64(255)).astype(int), minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-4
    # Power: words of 63 bits would be noticed in the highest byte.
    assert stats.chisquare(np.bincount((words >> np.uint64(57)).astype(int), minlength=256)).pvalue < 1e-4
