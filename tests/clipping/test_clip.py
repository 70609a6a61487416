"""Clipping keeps what it promises: a bound on the norm, and for generalised linear models convexity and smoothness."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from sottovoce.clipping import Clip, clip_scalar, clip_vector, largest_derivative, vector_norm
from sottovoce.errors import ConfigError

NORMS = ("l1", "l2")
numbers = st.floats(-1e150, 1e150)
vectors = arrays(np.float64, array_shapes(min_dims=1, max_dims=1, max_side=6), elements=numbers)
bounds = st.floats(1e-3, 1e3)


def order(norm):
    return 1 if norm == "l1" else 2


@given(vectors, bounds, st.sampled_from(NORMS))
def test_clipped_vector_never_exceeds_the_bound(vector, bound, norm):
    clipped = clip_vector(vector, Clip(bound, norm))
    assert vector_norm(clipped, norm) <= bound * (1 + 1e-12)


@given(vectors, bounds, st.sampled_from(NORMS))
def test_vector_inside_the_ball_is_returned_unchanged(vector, bound, norm):
    inside = vector * (0.5 * bound / max(1.0, float(vector_norm(vector, norm))))
    assert np.array_equal(clip_vector(inside, Clip(bound, norm)), inside)


@given(vectors, st.floats(-1e30, 1e30), bounds, st.sampled_from(NORMS))
def test_scalar_clipping_never_exceeds_the_bound(features, derivative, bound, norm):
    clipped = clip_scalar(np.asarray(derivative), features, Clip(bound, norm))
    assert vector_norm(clipped * features, norm) <= bound * (1 + 1e-12)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("size", [3.4e306, 1.7e307, 5e307])
def test_a_factor_that_lost_its_digits_leaves_nothing_outside_of_the_ball(size, norm):
    """Clip / norm is below the smallest number with all its digits: rounded to the nearest, it is up to half too large."""
    for clip in (Clip(bound, norm) for bound in (1e-3, 1e-12, 2.6e-17, 7.4e-17)):
        vector = np.array([size, -size / 3])
        assert vector_norm(clip_vector(vector, clip), norm) <= clip.bound * (1 + 1e-15)
        assert vector_norm(clip_scalar(np.asarray(1.0), vector, clip) * vector, norm) <= clip.bound * (1 + 1e-15)


@given(arrays(np.float64, 4, elements=st.floats(-100, 100)), st.floats(-100, 100), bounds, st.sampled_from(NORMS))
def test_scalar_clipping_equals_vector_clipping_of_the_gradient(features, derivative, bound, norm):
    clip = Clip(bound, norm)
    by_scalar = clip_scalar(np.asarray(derivative), features, clip) * features
    np.testing.assert_allclose(by_scalar, clip_vector(derivative * features, clip), rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("norm", NORMS)
def test_norm_is_the_textbook_norm(norm):
    vector = np.array([[3.0, -4.0], [0.0, 0.0]])
    np.testing.assert_allclose(vector_norm(vector, norm), np.linalg.norm(vector, order(norm), axis=1))


def test_tiny_and_huge_vectors_keep_their_l2_norm():
    np.testing.assert_allclose(vector_norm(np.array([3e-200, 4e-200]), "l2"), 5e-200)
    np.testing.assert_allclose(vector_norm(np.array([3e200, 4e200]), "l2"), 5e200)


@pytest.mark.parametrize("norm", NORMS)
def test_zero_features_give_a_finite_bound_also_in_float32(norm):
    limits = largest_derivative(np.array([[0.0, 0.0], [1e-300, 0.0], [2.0, 0.0]]), Clip(1.0, norm))
    assert np.isfinite(limits.astype(np.float32)).all()
    assert limits[2] == 0.5


@pytest.mark.parametrize("norm", NORMS)
def test_zero_gradient_stays_zero(norm):
    assert np.array_equal(clip_vector(np.zeros(3), Clip(1.0, norm)), np.zeros(3))
    assert np.array_equal(clip_scalar(np.asarray(5.0), np.zeros(3), Clip(1.0, norm)) * np.zeros(3), np.zeros(3))


@pytest.mark.parametrize("norm", NORMS)
def test_clipping_is_the_same_on_jax_under_jit_and_vmap(norm):
    generator = np.random.default_rng(0)
    vectors, derivatives = generator.standard_normal((5, 4, 3)) * 3, generator.standard_normal((5, 4)) * 3
    clip = Clip(1.5, norm)
    with jax.enable_x64(True):
        mapped = jax.jit(jax.vmap(lambda v: clip_vector(v, clip)))(jnp.asarray(vectors))
        scalar = jax.jit(jax.vmap(lambda a, v: clip_scalar(a, v, clip)))(jnp.asarray(derivatives), jnp.asarray(vectors))
        np.testing.assert_allclose(mapped, clip_vector(vectors, clip), rtol=1e-12)
        np.testing.assert_allclose(scalar, clip_scalar(derivatives, vectors, clip), rtol=1e-12)


@pytest.mark.parametrize("norm", NORMS)
def test_clipping_keeps_float32(norm):
    vector = np.ones(3, dtype=np.float32)
    assert clip_vector(vector, Clip(np.float64(0.5), norm)).dtype == np.float32
    assert clip_scalar(vector[0], vector, Clip(0.5, norm)).dtype == np.float32


@pytest.mark.parametrize("bound", [0.0, -1.0, float("nan"), float("inf"), "wide", None, True])
def test_bound_that_bounds_nothing_is_refused(bound):
    with pytest.raises(ConfigError, match="positive, finite number"):
        Clip(bound, "l2")


def test_unknown_norm_is_refused():
    with pytest.raises(ConfigError, match=r"'l1'.*'l2'"):
        Clip(1.0, "linf")
