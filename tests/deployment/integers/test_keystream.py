"""The stream is the cipher's, however it is taken, and its buffer is empty afterwards."""

import numpy as np
import pytest

from sottovoce.deployment.integers import Keystream, stream_words
from sottovoce.errors import ConfigError

KEY = b"k" * 32


def test_stream_is_chacha20():
    # First bytes of the keystream for the zero key and nonce: RFC 8439, appendix A.1, test vector 1.
    assert stream_words(bytes(32), 2).astype("<u8").tobytes().hex() == "76b8e0ada0f13d90405d6ae55386bd28"


def test_a_longer_stream_continues_the_shorter_one():
    np.testing.assert_array_equal(stream_words(KEY, 100_000)[:37], stream_words(KEY, 37))


@pytest.mark.parametrize("sizes", [[1, 1, 1], [3, 64, 5, 8, 7], [1000, 24], [0, 9], [40_000 // 8 * 5, 7_000]])
def test_words_taken_some_at_a_time_are_those_taken_at_once(sizes):
    with Keystream(KEY, max(sizes)) as stream:
        parts = [stream.next(size).copy() for size in sizes]
    np.testing.assert_array_equal(np.concatenate(parts), stream_words(KEY, sum(sizes)))


def test_the_buffer_is_overwritten_when_it_is_left():
    with Keystream(KEY, 50) as stream:
        words = stream.next(50)
        assert words.any()
    assert not words.any()


@pytest.mark.parametrize("key", [b"", b"k" * 31, b"k" * 33])
def test_keys_of_another_length_are_refused(key):
    with pytest.raises(ConfigError, match="32"):
        stream_words(key, 1)
    with pytest.raises(ConfigError, match="32"):
        Keystream(key, 1)


def test_more_words_than_fit_are_refused():
    with pytest.raises(ConfigError, match="at most 8"), Keystream(KEY, 8) as stream:
        stream.next(9)
    with pytest.raises(ConfigError, match="at a time"):
        Keystream(KEY, 2**30)
