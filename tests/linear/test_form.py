"""The linear form read off an agent's functions."""

from typing import NamedTuple

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.algorithms import Algorithm, Exchange
from sottovoce.linear import centroid, linear_round


def test_forms_of_the_named_algorithms_by_hand():
    # The variables are state, received and gradient, in this order.
    expected = {
        "atc": ([[1, 0, -0.3]], [1, 0, 0], [[0, 1, 0]]),
        "cta": ([[1, 0, 0]], [0, 1, 0], [[0, 1, -0.3]]),
        "consensus": ([[1, 0, 0]], [1, 0, 0], [[0, 1, -0.3]]),
    }
    for name, (messages, at, state) in expected.items():
        form = linear_round(sv.algorithms.ALGORITHMS[name](step_size=0.3), 1)
        np.testing.assert_allclose(form.messages, messages)
        np.testing.assert_allclose(form.gradient_at, at)
        np.testing.assert_allclose(form.state, state)
        np.testing.assert_allclose(form.model, [1])


def test_three_matrix_form_by_hand():
    topology = sv.topologies.ring(3)
    algorithm = sv.algorithms.three_matrix(step_size=0.3, first=topology, middle=topology, last=topology)
    form = linear_round(algorithm, 1)  # variables (x, r1, r2, r3, g)
    np.testing.assert_allclose(form.messages, [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, -0.3]])
    np.testing.assert_allclose(form.gradient_at, [0, 1, 0, 0, 0])
    np.testing.assert_allclose(form.state, [[0, 0, 0, 1, 0]])


def test_step_sizes_may_depend_on_the_round():
    algorithm = sv.algorithms.atc(step_size=lambda t: 1.0 / t)
    assert linear_round(algorithm, 4).messages[0, -1] == pytest.approx(-0.25)


def test_two_stage_method_is_linear_without_projection_and_refused_with_it():
    plain = sv.algorithms.dgd(step_size=1.0, gradient_rounds=3)
    np.testing.assert_allclose(linear_round(plain, 2).state, [[0, 1, -0.5]])
    np.testing.assert_allclose(linear_round(plain, 4).state, [[0, 1, 0]])
    with pytest.raises(sv.UnsupportedClaim, match="not linear"):
        linear_round(sv.algorithms.dgd(step_size=1.0, gradient_rounds=3, box=1.0), 2)


def test_states_of_several_blocks_are_followed():
    class Momentum(NamedTuple):
        model: object
        velocity: object

    def message(state, gradient, t):
        return state.model - 0.1 * (0.9 * state.velocity + gradient(state.model))

    def update(state, received, gradient, t):
        return Momentum(received, 0.9 * state.velocity + gradient(state.model))

    algorithm = Algorithm(
        "momentum", (Exchange(message, update),), init=lambda w: Momentum(w, 0 * w), model=lambda s: s.model
    )
    form = linear_round(algorithm, 1)  # variables (model, velocity, r, g)
    np.testing.assert_allclose(form.messages, [[1, -0.09, 0, -0.1]])
    np.testing.assert_allclose(form.state, [[0, 0, 1, 0], [0, 0.9, 0, 1]])
    np.testing.assert_allclose(form.model, [1, 0])


def test_gradients_at_two_points_in_one_round_are_refused():
    def update(w, received, gradient, t):
        return received - gradient(w) - gradient(received)

    with pytest.raises(sv.UnsupportedClaim, match="more than one point"):
        linear_round(Algorithm("twice", (Exchange(lambda w, g, t: w, update),)), 1)


def test_centroid_weights_follow_the_product_of_the_matrices():
    generator = np.random.default_rng(3)
    matrices = []
    for _ in range(3):
        matrix = generator.random((5, 5)) + 0.1
        matrices.append(sv.topologies.from_matrix(matrix / matrix.sum(axis=0)))
    algorithm = sv.algorithms.three_matrix(step_size=0.1, first=matrices[0], middle=matrices[1], last=matrices[2])
    weighting = centroid(algorithm, matrices[0])
    A1, A0, A2 = (m.matrix for m in matrices)
    q = weighting.weights
    np.testing.assert_allclose(A1 @ A0 @ A2 @ q, q, atol=1e-12)
    np.testing.assert_allclose(weighting.receivers[2], q, atol=1e-12)
    np.testing.assert_allclose(weighting.receivers[1], A2 @ q, atol=1e-12)
    np.testing.assert_allclose(weighting.receivers[0], A0 @ A2 @ q, atol=1e-12)
    # Rizk et al. 2023 below eq. 43 name the transposed product; its Perron vector is constant, which is not q here.
    np.testing.assert_allclose((A1 @ A0 @ A2).T @ np.ones(5), np.ones(5), atol=1e-12)
    assert np.ptp(q) > 1e-3
