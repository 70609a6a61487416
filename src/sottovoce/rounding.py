"""Numbers for people: a privacy loss is shown rounded up, so that what is printed is true too."""

import decimal
import math

_ARITHMETIC = 1e-12  # relative: digits that float64 formulas do not have; 8.000000000000004 is 8


def upwards(value: float, digits: int) -> float:
    """The value rounded up to so many digits; infinities stay."""
    if not math.isfinite(value):
        return value
    context = decimal.Context(prec=digits, rounding=decimal.ROUND_CEILING)
    return float(context.create_decimal_from_float(value - abs(value) * _ARITHMETIC))


def shown(value: float, digits: int) -> str:
    """The value as text, rounded up to so many digits."""
    return f"{upwards(value, digits):.{digits}g}"
