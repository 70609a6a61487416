"""The stream is the cipher's, and a longer one begins as a shorter one."""

import numpy as np

from sottovoce.deployment.integers import stream_words


def test_stream_is_chacha20():
    # First bytes of the keystream for the zero key and nonce: RFC 8439, appendix A.1, test vector 1.
    assert stream_words(bytes(32), 2).astype("<u8").tobytes().hex() == "76b8e0ada0f13d90405d6ae55386bd28"


def test_a_longer_stream_continues_the_shorter_one():
    np.testing.assert_array_equal(stream_words(b"k" * 32, 1000)[:37], stream_words(b"k" * 32, 37))
