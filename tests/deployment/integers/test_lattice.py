"""The lattice: exact against fractions, halves and the bound included, and what rounding does to differences."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sottovoce.deployment.integers import Lattice, NotFinite, OutsideTheLattice
from sottovoce.errors import ConfigError, ProtocolError

finite = st.floats(allow_nan=False, allow_infinity=False, width=64)
lattices = st.builds(Lattice, st.integers(-30, 60), bound_bits=st.integers(3, 52))


def by_fractions(lattice, value):
    """round(clip(2^f x)) in exact arithmetic; Python rounds fractions to the nearest, halves to the even neighbour."""
    scaled = Fraction(float(value)) * Fraction(2) ** lattice.fraction_bits
    return round(max(min(scaled, Fraction(lattice.bound)), Fraction(-lattice.bound)))


@given(st.lists(finite, min_size=1, max_size=6), lattices)
@example([1.7976931348623157e308, -1.7976931348623157e308, 5e-324, -0.0], Lattice(200, bound_bits=52))
@example([1.7976931348623157e308, 5e-324], Lattice(-200))
@example([0.5, 1.5, 2.5, -0.5, -1.5, -2.5], Lattice(0))
def test_units_are_the_exact_function_of_the_real_number(values, lattice):
    assert lattice.to_units(np.array(values)).tolist() == [by_fractions(lattice, value) for value in values]


@given(st.integers(-(2**20), 2**20), st.integers(-30, 40), st.sampled_from([-1, 0, 1]))
def test_halves_and_their_neighbours_go_where_they_belong(whole, bits, step):
    lattice = Lattice(bits)
    half = np.ldexp(whole + 0.5, -bits)
    value = np.nextafter(half, step * np.inf) if step else half
    nearest = {-1: whole, 0: whole + whole % 2, 1: whole + 1}[step]
    assert lattice.to_units(np.array([value])).tolist() == [nearest]


@pytest.mark.parametrize("bits", [-3, 0, 24, 60])
def test_entries_are_held_at_the_bound_and_not_before(bits):
    lattice = Lattice(bits)
    bound = np.ldexp(2.0**44, -bits)
    below, above = np.nextafter(bound, 0.0), np.nextafter(bound, np.inf)
    # Below 2^44 a float64 has steps of 2^-9 units: the last one before the bound rounds to it, 3/4 of a unit does not.
    assert lattice.to_units(np.array([below, bound, above, -bound, 1e300])).tolist() == [
        2**44,
        2**44,
        2**44,
        -(2**44),
        2**44,
    ]
    assert lattice.to_units(np.array([bound - 0.75 * lattice.unit])).tolist() == [2**44 - 1]
    assert lattice.bound == 2**44


pairs = st.integers(1, 8).flatmap(
    lambda size: st.tuples(
        *[arrays(np.float64, size, elements=st.one_of(finite, st.integers(-40, 40).map(lambda n: n / 4)))] * 2
    )
)


@given(pairs, lattices)
@example((np.full(5, 0.5), np.full(5, 1.5)), Lattice(0))
@example((np.full(3, 1e300), np.full(3, -1e300)), Lattice(0, bound_bits=3))
@example((np.full(3, 8.0), np.full(3, 7.5)), Lattice(0, bound_bits=3))
def test_differences_grow_by_at_most_one_unit_in_each_entry(both, lattice):
    a, b = both
    here, there = lattice.to_units(a).tolist(), lattice.to_units(b).tolist()
    scale = Fraction(2) ** lattice.fraction_bits
    before = [abs(Fraction(float(x)) - Fraction(float(y))) * scale for x, y in zip(a, b, strict=True)]
    after = [abs(x - y) for x, y in zip(here, there, strict=True)]
    assert all(late <= early // 1 + 1 for early, late in zip(before, after, strict=True))
    assert sum(after) <= sum(before) + len(a)
    with mpmath.workdps(800):
        norms = [
            mpmath.sqrt(
                sum(mpmath.mpf(v.numerator) ** 2 / mpmath.mpf(v.denominator) ** 2 for v in map(Fraction, vector))
            )
            for vector in (before, after)
        ]
        assert norms[1] <= norms[0] + mpmath.sqrt(len(a)) * (1 + mpmath.mpf(10) ** -700)


@pytest.mark.parametrize("size", [1, 4, 25])
def test_the_bounds_on_differences_are_attained(size):
    lattice = Lattice(20)
    a, b = np.full(size, 0.5 * lattice.unit), np.full(size, 1.5 * lattice.unit)
    change = lattice.to_units(b) - lattice.to_units(a)
    assert np.linalg.norm(change) == np.sqrt(size) + np.linalg.norm(b - a) / lattice.unit
    assert np.abs(change).sum() == size + np.abs(b - a).sum() / lattice.unit


@given(st.lists(st.integers(-(2**53), 2**53), min_size=1, max_size=5), st.integers(-200, 200))
def test_units_become_exactly_the_numbers_that_they_stand_for(units, bits):
    lattice = Lattice(bits)
    values = lattice.to_float(np.array(units))
    assert [Fraction(float(value)) for value in values] == [Fraction(unit) * Fraction(2) ** -bits for unit in units]
    assert lattice.unit == lattice.to_float(np.array([1]))[0]


@given(st.lists(st.integers(-(2**44), 2**44), min_size=1, max_size=5), st.integers(-200, 200))
def test_what_lies_on_the_lattice_stays_where_it_is(units, bits):
    lattice = Lattice(bits)
    assert lattice.to_units(lattice.to_float(np.array(units))).tolist() == units


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused(value):
    with pytest.raises(NotFinite, match="1 of 3") as refusal:
        Lattice(10).to_units(np.array([0.0, value, 1.0]))
    assert isinstance(refusal.value, ProtocolError)


@pytest.mark.parametrize("units", [2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)])
def test_whole_numbers_that_float64_does_not_hold_are_refused(units):
    with pytest.raises(OutsideTheLattice, match="1 of 2"):
        Lattice(10).to_float(np.array([0, units]))


@pytest.mark.parametrize(
    "values", [np.zeros(2, np.int64), np.zeros(2, np.float16), np.zeros(2, complex), np.array(["1"])]
)
def test_only_floating_point_becomes_units(values):
    with pytest.raises(ConfigError, match="float64"):
        Lattice(10).to_units(values)


@pytest.mark.parametrize("units", [np.zeros(2), np.zeros(2, np.uint64), np.zeros(2, np.int32)])
def test_only_int64_becomes_numbers(units):
    with pytest.raises(ConfigError, match="int64"):
        Lattice(10).to_float(units)


@pytest.mark.parametrize("bits", [201, -201, 1.0, True, "20"])
def test_resolutions_out_of_range_are_refused(bits):
    with pytest.raises(ConfigError, match="fraction_bits"):
        Lattice(bits)


@pytest.mark.parametrize("bits", [0, 53, 2.5, None])
def test_bounds_out_of_range_are_refused(bits):
    with pytest.raises(ConfigError, match="bound_bits"):
        Lattice(10, bound_bits=bits)
