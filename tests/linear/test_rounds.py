"""All rounds of a run: which are the same, their noise, and what kind of step they take."""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.algorithms import Algorithm, Exchange
from sottovoce.linear import LinearRound, bound_rounds, diffusion_step, linear_round

RING = sv.topologies.ring(5)
LAW = sv.noise.Gaussian(std=0.7)
SELF = sv.noise.independent(LAW)


def test_rounds_that_are_alike_are_kept_once():
    rounds = bound_rounds(RING, sv.algorithms.atc(step_size=0.4), SELF, 50)
    assert len(rounds) == 50
    assert len(rounds.distinct) == 1
    assert not rounds.which.any()
    np.testing.assert_allclose(rounds.scales, 0.7)
    assert not rounds.projected
    np.testing.assert_allclose(rounds.centroid.weights, 0.2)


def test_a_step_size_that_changes_makes_rounds_of_its_own():
    rounds = bound_rounds(RING, sv.algorithms.atc(step_size=lambda t: 0.4 if t <= 2 else 0.4 / t), SELF, 5)
    assert rounds.which.tolist() == [0, 0, 1, 2, 3]
    sizes = [diffusion_step(rounds.at(t).form).size for t in range(5)]
    np.testing.assert_allclose(sizes, [0.4, 0.4, 0.4 / 3, 0.1, 0.08])


def test_a_schedule_is_used_in_turn():
    matrices = [RING.matrix, np.eye(5) * 0.5 + RING.matrix * 0.5, RING.matrix]
    listed = RING.with_schedule(matrices)
    rounds = bound_rounds(listed, sv.algorithms.cta(step_size=0.4), SELF, 8)
    assert [int(i) for i in rounds.which] == [0, 1, 2, 0, 1, 2, 0, 1]
    for t in range(8):
        links = rounds.at(t).exchanges[0].links
        A = np.diag(links.self_weights).astype(float)
        A[links.senders, links.receivers] = links.weights
        np.testing.assert_allclose(A, matrices[t % 3], atol=1e-14)


def test_exchanges_with_schedules_of_different_length_meet_in_all_combinations():
    first = RING.with_schedule([RING.matrix, np.eye(5) * 0.5 + RING.matrix * 0.5])
    last = RING.with_schedule([RING.matrix, np.eye(5) * 0.2 + RING.matrix * 0.8, np.eye(5) * 0.9 + RING.matrix * 0.1])
    algorithm = sv.algorithms.three_matrix(step_size=0.4, first=first, last=last)
    rounds = bound_rounds(RING, algorithm, SELF, 12)
    assert [int(i) for i in rounds.which] == [0, 1, 2, 3, 4, 5] * 2
    own = [[float(exchange.links.self_weights[0]) for exchange in rounds.at(t).exchanges] for t in range(6)]
    np.testing.assert_allclose([a for a, _ in own], [1 / 3, 2 / 3] * 3)
    np.testing.assert_allclose([b for _, b in own], [1 / 3, 0.2 + 0.8 / 3, 0.9 + 0.1 / 3] * 2)


def test_noise_follows_its_schedule_and_the_rounds_that_send_something_new():
    scaled = SELF.scaled([1.0, 2.0, 0.5, 1.0, 3.0, 1.0])
    rounds = bound_rounds(RING, sv.algorithms.atc(step_size=0.4), scaled, 6)
    np.testing.assert_allclose(rounds.scales, 0.7 * np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0]))
    two_stage = bound_rounds(RING, sv.algorithms.dgd(step_size=0.4, gradient_rounds=3), scaled, 6)
    np.testing.assert_allclose(two_stage.scales, 0.7 * np.array([0.0, 2.0, 0.5, 1.0, 0.0, 0.0]))
    none = bound_rounds(RING, sv.algorithms.atc(step_size=0.4), sv.noise.none(), 3)
    assert not none.scales.any()
    laplace = bound_rounds(RING, sv.algorithms.atc(step_size=0.4), sv.noise.independent(sv.noise.Laplace(std=2.0)), 1)
    np.testing.assert_allclose(laplace.scales, np.sqrt(2.0))  # the scale b of the law, not its standard deviation


def test_projections_are_left_out_and_marked():
    boxed = bound_rounds(RING, sv.algorithms.dgd(step_size=0.4, gradient_rounds=3, box=1.0), SELF, 5)
    free = bound_rounds(RING, sv.algorithms.dgd(step_size=0.4, gradient_rounds=3), SELF, 5)
    assert boxed.projected
    assert not free.projected
    for t in range(5):
        np.testing.assert_array_equal(boxed.at(t).form.state, free.at(t).form.state)


@pytest.mark.parametrize("rounds", [0, -3, 2.0, True, None])
def test_rounds_are_a_whole_number(rounds):
    with pytest.raises(sv.ConfigError, match="rounds"):
        bound_rounds(RING, sv.algorithms.atc(step_size=0.4), SELF, rounds)


@pytest.mark.parametrize("topology", [RING.with_dropout(0.1), RING.with_random_pair()], ids=["dropout", "pair"])
def test_random_links_cannot_be_listed(topology):
    with pytest.raises(sv.UnsupportedClaim, match="random"):
        bound_rounds(topology, sv.algorithms.atc(step_size=0.4), SELF, 3)


def test_a_schedule_shorter_than_the_run_is_refused():
    with pytest.raises(sv.ConfigError, match="3 rounds"):
        bound_rounds(RING, sv.algorithms.atc(step_size=0.4), SELF.scaled([1.0, 1.0]), 3)


def test_a_function_that_is_not_linear_in_a_later_round_is_refused():
    def message(w, gradient, round_):
        return w.clip(-1.0, 1.0) if round_ == 3 else w - 0.4 * gradient(w)

    def update(w, received, gradient, round_):
        return received

    algorithm = Algorithm("clips in round three", (Exchange(message, update),))
    bound_rounds(RING, algorithm, SELF, 2)
    with pytest.raises(sv.UnsupportedClaim, match="not linear"):
        bound_rounds(RING, algorithm, SELF, 3)


@pytest.mark.parametrize(
    ("algorithm", "kind", "size"),
    [
        (sv.algorithms.atc(step_size=0.4), "atc", 0.4),
        (sv.algorithms.cta(step_size=0.3), "cta", 0.3),
        (sv.algorithms.consensus(step_size=0.2), "consensus", 0.2),
        (sv.algorithms.three_matrix(step_size=0.4, last=RING), "atc", 0.4),
        (sv.algorithms.three_matrix(step_size=0.3, first=RING), "cta", 0.3),
        (sv.algorithms.three_matrix(step_size=0.2, middle=RING), "consensus", 0.2),
        (sv.algorithms.dgd(step_size=0.6, gradient_rounds=3), "cta", 0.6),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_rounds_of_diffusion_type_are_recognised(algorithm, kind, size):
    step = diffusion_step(linear_round(algorithm, 1))
    assert step.kind == kind
    assert step.size == pytest.approx(size)


def test_a_round_without_a_gradient_only_averages():
    step = diffusion_step(linear_round(sv.algorithms.dgd(step_size=0.6, gradient_rounds=3), 4))
    assert step.kind == "average"
    assert step.size == 0.0
    third = diffusion_step(linear_round(sv.algorithms.dgd(step_size=0.6, gradient_rounds=3), 3))
    assert third.size == pytest.approx(0.2)


def form(message, state, at, model=(1.0,)):
    return LinearRound(
        np.array([message], float), np.array(at, float), np.array([state], float), np.array(model, float)
    )


@pytest.mark.parametrize(
    "other",
    [
        form([1, 0, 0], [0, 1, 0.4], [1, 0, 0]),  # climbs instead of descending
        form([1, 0, -0.4], [0.5, 0.5, 0], [1, 0, 0]),  # keeps half of its own model, without noise
        form([1, 0, -0.4], [0, 1, -0.1], [1, 0, 0]),  # steps twice
        form([0.5, 0, -0.4], [0, 1, 0], [1, 0, 0]),  # shrinks what it sends
        form([1, 0, -0.4], [0, 1, 0], [0.5, 0, 0]),  # takes the gradient elsewhere
        form([1, 0, -0.4], [0, 1, 0], [1, 0, 0], model=(2.0,)),  # releases twice its state
        form([1, 0, 0], [0, 1, -0.4], [0.5, 0.5, 0]),
    ],
)
def test_anything_else_is_not_taken_for_diffusion(other):
    assert diffusion_step(other) is None


def test_two_exchanges_or_two_states_are_not_diffusion():
    two = sv.algorithms.three_matrix(step_size=0.4, first=RING, last=RING)
    assert diffusion_step(linear_round(two, 1)) is None

    def message(state, gradient, round_):
        return state[0] - 0.4 * state[1]

    def update(state, received, gradient, round_):
        return (received, 0.9 * state[1] + gradient(received))

    momentum = Algorithm("momentum", (Exchange(message, update),), init=lambda w: (w, 0 * w), model=lambda s: s[0])
    assert diffusion_step(linear_round(momentum, 1)) is None
