"""Printed numbers are true too: a privacy loss is rounded up."""

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.rounding import shown, upwards


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(0.66341, 3, "0.664"), (2.5, 1, "3"), (9.991, 3, "10"), (1.0e-7, 3, "1e-07"), (1234.1, 4, "1235"), (0.0, 3, "0")],
)
def test_a_loss_is_rounded_up(value, digits, text):
    assert shown(value, digits) == text


def test_digits_that_arithmetic_does_not_have_round_nothing_up():
    assert shown(8.000000000000004, 6) == "8"
    assert shown(8.0000001, 6) == "8.00001"
    assert shown(math.inf, 3) == "inf"


@given(st.floats(1e-12, 1e12), st.integers(1, 9))
def test_what_is_printed_is_never_below_the_value_and_less_than_one_digit_above(value, digits):
    printed = Decimal(shown(value, digits))
    unit = Decimal(10) ** (Decimal(value).adjusted() + 1 - digits)
    assert Decimal(value) * (1 - Decimal("1.01e-12")) <= printed < Decimal(value) + unit
    assert upwards(upwards(value, digits), digits) == upwards(value, digits)
