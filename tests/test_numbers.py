"""Numbers at the border: what counts as one, and the words for what does not."""

import math

import numpy as np
import pytest

from sottovoce.errors import ConfigError
from sottovoce.numbers import checked, chosen, is_number, is_whole, per_agent, whole

NO_NUMBERS = [None, "1", True, np.True_, 1j, [1.0], math.nan, np.float32("nan")]
NOT_WHOLE = [None, "1", True, np.True_, 1.0, np.float64(2.0), math.nan, [1]]


@pytest.mark.parametrize("value", NO_NUMBERS)
def test_what_is_no_real_number_is_in_no_interval(value):
    assert not is_number(value)
    with pytest.raises(ConfigError, match=r"p = .*; it must be a number in \[0, 1\]. Give p in that range"):
        checked("p", value, "[0, 1]")


def test_ends_belong_to_an_interval_as_written():
    for value, interval, inside in [
        (0, "[0, 1)", True), (0, "(0, 1)", False), (1, "[0, 1)", False), (1, "[0, 1]", True), (math.inf, "(0, inf)", False),
        (math.inf, "(0, inf]", True), (np.int64(3), "(2.5, 1e3)", True), (-1e-9, "[0, inf)", False), (np.float32(0.5), "(0, 1)", True),
    ]:  # fmt: skip
        assert is_number(value, interval) == inside, (value, interval)


@pytest.mark.parametrize("value", NOT_WHOLE)
def test_what_is_not_whole_is_refused(value):
    assert not is_whole(value, 0)
    with pytest.raises(ConfigError, match=r"n = .*; it must be a whole number of at least 1"):
        whole("n", value)


def test_whole_numbers_have_a_smallest_and_may_have_a_largest():
    assert is_whole(np.uint64(2**64 - 1), 0, 2**64 - 1)
    assert not is_whole(2**64, 0, 2**64 - 1)
    assert not is_whole(-1, 0)
    assert is_whole(0, 0, 0)
    assert type(whole("n", np.int32(3))) is int
    with pytest.raises(ConfigError, match="n = 2; it must be a whole number of at least 3"):
        whole("n", 2, least=3)


def test_words_and_numbers_per_agent_are_refused_with_what_is_allowed():
    with pytest.raises(ConfigError, match="dtype = 'half'; choose one of 'float32', 'float64'"):
        chosen("dtype", "half", ("float32", "float64"))
    np.testing.assert_array_equal(per_agent("sensitivity", 2, 3), [2.0, 2.0, 2.0])
    for wrong in ([1.0, 2.0], [1.0, 0.0, 1.0], [1.0, math.inf, 1.0], "1", [True, True, True]):
        with pytest.raises(ConfigError, match="one for each of the 3 agents"):
            per_agent("sensitivity", wrong, 3)
