"""Secret randomness: own noise is new at every call and kept nowhere; shared noise is the same at both ends only."""

import hmac
import secrets
import struct

import numpy as np
import pytest
from scipy import stats

import sottovoce as sv
from sottovoce.deployment.agent import Randomness
from sottovoce.deployment.integers import RoundedGaussian, SecretRandomness, stream_words
from sottovoce.errors import ConfigError, IncompatibleChoice, ProtocolError

GAUSSIAN, LAPLACE = sv.noise.Gaussian(std=1.0), sv.noise.Laplace(std=1.0)
RUN = b"r" * 32
KEYS = {frozenset(pair): bytes([10 * pair[0] + pair[1]]) * 32 for pair in [(0, 1), (0, 2), (1, 2)]}


def party(number, law=GAUSSIAN, run=RUN, dimension=200):
    return SecretRandomness(law, dimension, lambda other: KEYS[frozenset((number, other))], run=run)


@pytest.fixture
def keys_asked(monkeypatch):
    """Every key that the operating system was asked for."""
    asked, real = [], secrets.token_bytes
    monkeypatch.setattr(secrets, "token_bytes", lambda size: asked.append(real(size)) or asked[-1])
    return asked


def test_it_is_what_a_party_asks_of_its_randomness():
    randomness: Randomness = party(0)
    for name in (name for name in vars(Randomness) if not name.startswith("_")):
        assert callable(getattr(randomness, name))


@pytest.mark.parametrize(
    "call",
    [
        lambda own, number: own.source(3, number, 1e6),
        lambda own, number: own.gradient_noise(1, number, 1e6),
        lambda own, number: own.batch(1, number, 5000, 100),
    ],
    ids=["source", "gradient", "batch"],
)
def test_what_a_party_draws_for_itself_is_new_at_every_call(call, keys_asked):
    own = party(0)
    first, second = call(own, 0), call(own, 1)
    assert (first != second).any()
    assert first.dtype == np.int64
    # One key of 32 bytes each, and none of them is used again or kept.
    assert [len(key) for key in keys_asked] == [32, 32]
    assert keys_asked[0] != keys_asked[1]
    assert not [value for value in vars(own).values() if value in keys_asked]


@pytest.mark.parametrize(
    "call",
    [
        lambda own, time, number: own.source(time, number, 1e6),
        lambda own, time, number: own.gradient_noise(time, number, 1e6),
        lambda own, time, number: own.batch(time, number, 5000, 100),
    ],
    ids=["source", "gradient", "batch"],
)
def test_nothing_of_ones_own_is_drawn_twice_or_for_an_earlier_exchange(call, keys_asked):
    own = party(0)
    for time, number in [(1, 0), (1, 3), (1, 1), (4, 0), (4, 3)]:
        call(own, time, number)
    for time, number in [(4, 0), (4, 3), (1, 0), (1, 2), (3, 9)]:
        with pytest.raises(ProtocolError, match="drawn once"):
            call(own, time, number)
    assert len(keys_asked) == 5
    call(own, 4, 1)


def test_a_request_that_is_refused_may_be_made_again():
    own = party(0)
    with pytest.raises(ConfigError, match="units"):
        own.source(0, 0, 0.0)
    assert own.source(0, 0, 1e6).any()


def test_what_is_shared_may_be_asked_for_again():
    own = party(0)
    np.testing.assert_array_equal(own.mask(3, 1, 1), own.mask(3, 1, 1))
    np.testing.assert_array_equal(own.shared(3, 1, 1, 1e6), own.shared(3, 1, 1, 1e6))


def test_shared_words_are_the_stream_of_a_key_by_the_printed_derivation():
    # RFC 5869 by hand: extract with the run, then one block of expand.
    extracted = hmac.digest(RUN, KEYS[frozenset((0, 1))], "sha256")
    where = struct.pack("<QQ", 3, 2**40)
    for use, drawn in [
        (b"sottovoce/peers/1/uniform-mask", party(0).mask(3, 2**40, 1)),
        (b"sottovoce/peers/1/shared-source", party(0).shared(3, 2**40, 1, 1e6)),
    ]:
        key = hmac.digest(extracted, use + where + b"\x01", "sha256")
        expected = RoundedGaussian(std=1e6).from_key(key, 200) if drawn.dtype == np.int64 else stream_words(key, 200)
        np.testing.assert_array_equal(drawn, expected)


def test_own_noise_does_not_depend_on_the_keys_of_pairs(keys_asked, monkeypatch):
    own = SecretRandomness(GAUSSIAN, 20, lambda other: pytest.fail("a pair's key was asked for"), run=RUN)
    own.source(0, 0, 100.0)
    own.gradient_noise(1, 0, 100.0)
    own.batch(1, 0, 10, 3)
    # The same key from the operating system gives the same noise: nothing else enters.
    monkeypatch.setattr(secrets, "token_bytes", lambda size: b"s" * size)
    np.testing.assert_array_equal(own.source(1, 0, 100.0), party(1, run=b"q" * 32, dimension=20).source(7, 7, 100.0))


def test_shared_noise_asks_nothing_of_the_operating_system(keys_asked):
    party(0).shared(3, 1, 1, 1e6)
    party(0).mask(3, 1, 1)
    assert keys_asked == []


@pytest.mark.parametrize("law", [GAUSSIAN, LAPLACE])
def test_both_ends_of_a_pair_draw_the_same_and_again_after_a_restart(law):
    np.testing.assert_array_equal(party(0, law).shared(3, 1, 1, 1e6), party(1, law).shared(3, 1, 0, 1e6))
    np.testing.assert_array_equal(party(0, law).mask(3, 1, 1), party(1, law).mask(3, 1, 0))
    assert party(0).mask(3, 1, 1).dtype == np.uint64
    assert party(0).shared(3, 1, 1, 1e6).dtype == np.int64


def test_nothing_shared_serves_twice():
    base, other_run = party(0), party(0, run=b"q" * 32)
    masks = [
        base.mask(3, 1, 1),
        base.mask(4, 1, 1),  # another position
        base.mask(3, 2, 1),  # another source
        base.mask(1, 3, 1),  # the two exchanged
        base.mask(3, 1, 2),  # another pair
        party(1).mask(3, 1, 2),
        other_run.mask(3, 1, 1),
    ]
    shared = [
        base.shared(3, 1, 1, 1e6),
        base.shared(4, 1, 1, 1e6),
        base.shared(3, 2, 1, 1e6),
        base.shared(1, 3, 1, 1e6),
        base.shared(3, 1, 2, 1e6),
        party(1).shared(3, 1, 2, 1e6),
        other_run.shared(3, 1, 1, 1e6),
    ]
    for words in (masks, shared):
        assert len({each.tobytes() for each in words}) == len(words)
        signs = np.array([np.sign(each.view(np.int64)) for each in words])
        # Streams that have nothing to do with each other agree in the sign of about half of their entries.
        agreement = (signs[:, None] == signs[None]).mean(axis=2)[np.triu_indices(len(words), 1)]
        assert abs(agreement - 0.5).max() < 0.2
    # Another use: the mask is not the stream from which the shared source is drawn.
    assert (np.sign(base.shared(3, 1, 1, 1e6)) == np.sign(base.mask(3, 1, 1).view(np.int64))).mean() < 0.7


@pytest.mark.parametrize(("law", "shape"), [(GAUSSIAN, stats.norm()), (LAPLACE, stats.laplace(scale=np.sqrt(0.5)))])
def test_shared_noise_has_the_law_and_the_scale_of_the_round(law, shape):
    sample = party(0, law, dimension=20_000).shared(0, 0, 1, 1e6) / 1e6
    assert stats.kstest(sample, shape.cdf).pvalue > 1e-4
    assert stats.kstest(sample * 3 / 2, shape.cdf).pvalue < 1e-4
    assert stats.kstest(sample * 2 / 3, shape.cdf).pvalue < 1e-4


def test_own_noise_has_the_law_and_the_scale_of_the_round(monkeypatch):
    monkeypatch.setattr(secrets, "token_bytes", lambda size: b"s" * size)
    for draw in (lambda own: own.source(0, 0, 1e6), lambda own: own.gradient_noise(1, 0, 1e6)):
        sample = draw(party(0, LAPLACE, dimension=20_000)) / 1e6 * np.sqrt(2)
        assert stats.kstest(sample, "laplace").pvalue > 1e-4
        assert stats.kstest(sample * 3 / 2, "laplace").pvalue < 1e-4


def test_schemes_without_a_law_and_laws_without_a_sampler_are_refused():
    with pytest.raises(IncompatibleChoice, match="no sources"):
        party(0, None).source(0, 0, 1.0)
    with pytest.raises(IncompatibleChoice, match="L2Laplace"):
        party(0, sv.noise.L2Laplace(scale=1.0)).source(0, 0, 1.0)
    assert party(0, None).mask(0, 0, 1).any()


@pytest.mark.parametrize("run", [b"", b"r" * 31, "r" * 32])
def test_a_run_without_a_name_is_refused(run):
    with pytest.raises(ConfigError, match="32 bytes"):
        party(0, run=run)


def test_pair_keys_of_another_length_are_refused():
    with pytest.raises(ConfigError, match="31 bytes"):
        SecretRandomness(GAUSSIAN, 3, lambda other: b"k" * 31, run=RUN).mask(0, 0, 1)


def test_it_shows_no_secret():
    assert "SecretRandomness" in repr(party(0))
    assert RUN.hex() not in repr(party(0))
