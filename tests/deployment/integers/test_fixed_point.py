"""Fixed point: the ball is never left, the sum comes back, and what cannot be held is refused."""

from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sottovoce.deployment.integers import FixedPoint, ring, signed
from sottovoce.deployment.integers.fixed_point import _squared_norm
from sottovoce.errors import ConfigError

finite = st.floats(allow_nan=False, allow_infinity=False, width=64)
vectors = arrays(np.float64, st.integers(1, 12), elements=finite)
encodings = st.builds(
    FixedPoint,
    clip=st.floats(2.0**-5, 100.0),
    fraction_bits=st.integers(6, 40),
)


@given(vectors, encodings)
def test_every_encoding_lies_in_the_ball_in_exact_arithmetic(vector, encoding):
    units = encoding.encode(vector)
    radius = Fraction(encoding.clip) * 2**encoding.fraction_bits
    assert sum(int(u) ** 2 for u in units) <= radius**2


@given(vectors, encodings)
@example(np.full(4, 1.7e308), FixedPoint(clip=1.0, fraction_bits=20))
@example(np.full(4, 5e-324), FixedPoint(clip=1.0, fraction_bits=20))
def test_encoding_is_within_a_unit_of_the_clipped_vector(vector, encoding):
    with localcontext(Context(prec=60)):
        entries = [Decimal(float(value)) for value in vector]
        norm = sum((value * value for value in entries), Decimal(0)).sqrt()
        clip = Decimal(encoding.clip)
        clipped = [value if norm <= clip else value * clip / norm for value in entries]
        unit = Decimal(2) ** -encoding.fraction_bits
        for value, units in zip(clipped, encoding.encode(vector), strict=True):
            assert abs(value - int(units) * unit) <= unit * Decimal("1.001") + abs(value) * Decimal("1e-12")


def test_the_ball_holds_where_floating_point_clips_a_little_short():
    # With 52 bits the error of clipping in float64 is a whole unit: many vectors need a step inwards.
    encoding = FixedPoint(clip=1.0, fraction_bits=52)
    outside = 0
    for vector in np.random.default_rng(0).normal(scale=10.0, size=(200, 3)):
        truncated = np.trunc(np.ldexp(vector / np.linalg.norm(vector), 52))
        outside += sum(int(value) ** 2 for value in truncated) > 2**104
        assert sum(int(value) ** 2 for value in encoding.encode(vector)) <= 2**104
    assert outside > 10


def test_rounding_to_the_nearest_would_leave_the_ball_where_ours_stays():
    encoding = FixedPoint(clip=4.0, fraction_bits=0)
    vector = np.array([1.6, 1.6, 1.6, 1.6, 1.6, 1.6])  # norm 3.92; rounded to twos it is 4.9
    assert sum(np.rint(vector) ** 2) > 16
    assert encoding.encode(vector).tolist() == [1] * 6


def test_rounding_is_to_the_nearest_inside_the_ball():
    assert FixedPoint(clip=8.0, fraction_bits=1).encode(np.array([0.7, -0.8])).tolist() == [1, -2]


@given(arrays(np.int64, st.integers(1, 1100), elements=st.integers(-(2**52), 2**52)))
def test_squared_norm_equals_python_integers(integers):
    assert _squared_norm(integers) == sum(int(value) ** 2 for value in integers)


@given(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=2))
def test_sums_below_half_the_ring_come_back_with_their_sign(values):
    words = ring(np.array(values, dtype=np.int64)).sum(dtype=np.uint64, keepdims=True)
    if abs(sum(values)) < 2**63:
        assert signed(words)[0] == sum(values)


@pytest.mark.parametrize("value", [[np.nan], [np.inf, 0.0], [], [[1.0]], ["a"], [True], [1j]])
def test_values_that_are_not_vectors_of_finite_numbers_are_refused(value):
    with pytest.raises(ConfigError):
        FixedPoint(clip=1.0, fraction_bits=8).encode(np.array(value))


@pytest.mark.parametrize("clip", [0.0, -1.0, np.nan, np.inf, True, "1"])
def test_clip_bounds_that_bound_nothing_are_refused(clip):
    with pytest.raises(ConfigError, match="clip"):
        FixedPoint(clip=clip, fraction_bits=8)


@pytest.mark.parametrize("bits", [-1, 53, 1.0, True])
def test_fraction_bits_out_of_range_are_refused(bits):
    with pytest.raises(ConfigError, match="fraction_bits"):
        FixedPoint(clip=1.0, fraction_bits=bits)


def test_radius_out_of_range_is_refused():
    with pytest.raises(ConfigError, match="units"):
        FixedPoint(clip=3.0, fraction_bits=52)
    with pytest.raises(ConfigError, match="units"):
        FixedPoint(clip=0.4, fraction_bits=1)


def test_a_sum_that_may_reach_half_the_ring_is_refused_and_one_below_is_not():
    encoding = FixedPoint(clip=1.0, fraction_bits=20)
    encoding.check_room(parties=1, noise_bound=2**63 - 2**20 - 1)
    with pytest.raises(ConfigError, match="fraction bits"):
        encoding.check_room(parties=1, noise_bound=2**63 - 2**20)
