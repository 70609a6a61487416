"""Mean-square stability limits: closed forms and behaviour on both sides."""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.theory import mean_square_radius, stability_limit


def scalar_problem(values):
    features = np.asarray(values, dtype=float)[None, :, None]
    return sv.problems.linear_regression(np.repeat(features, 2, axis=0), np.zeros((2, len(values))), ridge=0.0)


def test_one_record_limit_of_a_lone_scalar_agent_is_the_ratio_of_its_moments():
    """E (1 - 2 mu u^2)^2 < 1 iff mu < m2 / m4; agents that never listen to others are alone."""
    values = [0.5, 1.0, 2.0]
    problem = sv.problems.linear_regression(np.array(values)[None, :, None], np.zeros((1, 3)), ridge=0.0)
    topology = sv.topologies.from_matrix(np.array([[1.0]]))
    m2, m4 = np.mean(np.square(values)), np.mean(np.power(values, 4.0))
    limit = stability_limit(problem, topology, sv.algorithms.atc(step_size=0.1), batch_size=1)
    assert 0.1 * limit == pytest.approx(m2 / m4, rel=1e-5)


def test_full_gradient_limit_on_a_complete_graph_is_two_over_the_smoothness():
    problem = scalar_problem([0.5, 1.0, 2.0])
    limit = stability_limit(problem, sv.topologies.complete(2), sv.algorithms.atc(step_size=0.1))
    assert 0.1 * limit == pytest.approx(2 / problem.constants.smoothness, rel=1e-5)


def test_averaging_over_a_network_raises_the_one_record_limit():
    problem = scalar_problem([0.5, 1.0, 2.0])
    atc = sv.algorithms.atc(step_size=0.1)
    together = stability_limit(problem, sv.topologies.complete(2), atc, batch_size=1)
    lonely = 0.1 * np.mean(np.square([0.5, 1.0, 2.0])) / np.mean(np.power([0.5, 1.0, 2.0], 4.0)) / 0.01
    assert together > 1.2 * lonely


def test_iterative_and_written_out_radius_agree():
    features, targets, _ = sv.problems.synthetic_regression(num_agents=5, samples=10, dimension=2, seed=1)
    problem = sv.problems.linear_regression(features, targets, ridge=0.01)
    topology, cta = sv.topologies.ring(5), sv.algorithms.cta(step_size=0.5)
    iterated = mean_square_radius(problem, topology, cta, batch_size=1)
    from sottovoce.theory import stability

    saved, stability.DENSE_SIZE = stability.DENSE_SIZE, 10
    try:
        written_out = mean_square_radius(problem, topology, cta, batch_size=1)
    finally:
        stability.DENSE_SIZE = saved
    assert iterated == pytest.approx(written_out, rel=1e-7)


@pytest.mark.parametrize("kind", ["atc", "cta", "consensus"])
def test_the_expected_error_shrinks_below_the_limit_and_grows_above_it(kind):
    features, targets, _ = sv.problems.synthetic_regression(num_agents=5, samples=10, dimension=2, seed=1)
    problem = sv.problems.linear_regression(features, targets, ridge=0.01)
    topology = sv.topologies.ring(5)
    limit = stability_limit(problem, topology, sv.algorithms.ALGORITHMS[kind](step_size=1.0), batch_size=1)
    for factor, grows in ((0.97, False), (1.03, True)):
        algorithm = sv.algorithms.ALGORITHMS[kind](step_size=limit * factor)
        curve = sv.expected_msd(problem, topology, algorithm, sv.noise.none(), rounds=1500, batch_size=1)["msd_average"]
        assert bool(curve[-1] > 1.5 * curve[-200]) is grows


class TestDivergence:
    """A run that leaves the finite numbers stops and says where and why."""

    def problem(self):
        features, targets, _ = sv.problems.synthetic_regression(num_agents=6, samples=10, dimension=2, seed=1)
        return sv.problems.linear_regression(features, targets, ridge=0.01)

    @pytest.mark.parametrize("chunk", [1, 100])
    def test_round_agent_and_limit_are_named_whatever_the_chunk(self, chunk):
        problem, topology = self.problem(), sv.topologies.ring(6)
        atc = sv.algorithms.atc(step_size=60.0)
        with pytest.raises(sv.Diverged, match=r"in round \d+, first at agent \d+") as caught:
            sv.simulate(problem, topology, atc, sv.noise.none(), rounds=300, batch_size=1, chunk=chunk, progress=False)
        largest = 60.0 * stability_limit(problem, topology, atc, batch_size=1)
        assert f"the limit is {largest:.4g}" in str(caught.value)
        told = int(str(caught.value).split("in round ")[1].split(",")[0])
        # One round earlier everything is finite, in that round it is not.
        before = sv.simulate(problem, topology, atc, sv.noise.none(), rounds=told - 1, batch_size=1, progress=False)
        assert all(np.isfinite(values).all() for values in before.metrics.values())
        with pytest.raises(sv.Diverged, match=f"in round {told},"):
            sv.simulate(problem, topology, atc, sv.noise.none(), rounds=told, batch_size=1, progress=False)

    def test_losses_without_exact_theory_are_told_their_smoothness(self):
        generator = np.random.default_rng(0)
        labels = np.sign(generator.normal(size=(3, 5)))
        problem = sv.problems.logistic_regression(generator.normal(size=(3, 5, 2)), labels, ridge=1.0)
        with pytest.raises(sv.Diverged, match=r"2 / smoothness"):
            sv.simulate(
                problem,
                sv.topologies.ring(3),
                sv.algorithms.atc(step_size=1e3),
                sv.noise.none(),
                rounds=300,
                progress=False,
            )


def test_flat_directions_and_rounds_without_gradients_have_no_limit():
    generator = np.random.default_rng(0)
    flat = sv.problems.linear_regression(
        np.repeat(generator.normal(size=(4, 5, 1)), 3, axis=2), generator.normal(size=(4, 5)), ridge=0.0
    )
    with pytest.raises(sv.UnsupportedClaim, match="flat"):
        stability_limit(flat, sv.topologies.ring(4), sv.algorithms.atc(step_size=0.05))
    quiet = sv.algorithms.dgd(step_size=1.0, gradient_rounds=2)
    with pytest.raises(sv.UnsupportedClaim, match="takes no gradient"):
        stability_limit(scalar_problem([1.0, 2.0]), sv.topologies.complete(2), quiet, round_=5)


def test_a_step_that_forgets_everything_in_one_round_is_handled():
    """Mean estimation on a complete graph with step 1: the map is zero, its radius too, and the limit is step 2."""
    problem = sv.problems.mean_estimation(np.random.default_rng(0).uniform(-1, 1, size=(3, 1, 2)), radius=1.0)
    topology = sv.topologies.complete(3)
    assert mean_square_radius(problem, topology, sv.algorithms.atc(step_size=1.0)) == 0.0
    assert stability_limit(problem, topology, sv.algorithms.atc(step_size=1.0)) == pytest.approx(2.0, rel=1e-5)
    with pytest.raises(sv.Diverged, match="the limit is 2"):
        sv.simulate(problem, topology, sv.algorithms.atc(step_size=4.0), sv.noise.none(), rounds=2000, progress=False)


def test_any_part_of_the_state_and_any_metric_that_overflows_stops_the_run():
    from sottovoce.algorithms import Algorithm, Exchange

    problem = sv.problems.mean_estimation(np.random.default_rng(0).uniform(-1, 1, size=(3, 1, 2)), radius=1.0)
    growing = Algorithm(
        "growing",
        (Exchange(lambda s, g, t: s[0], lambda s, received, g, t: (received, 1e6 * (s[1] + 1.0))),),
        init=lambda w: (w, w),
        model=lambda s: s[0],
    )
    with pytest.raises(sv.Diverged, match="left the finite numbers"):
        sv.simulate(problem, sv.topologies.complete(3), growing, sv.noise.none(), rounds=50, progress=False)
    # step 50: the models stay below 3e38 for 22 rounds, their squares do not
    with pytest.raises(sv.Diverged, match="left the finite numbers"):
        sv.simulate(
            problem,
            sv.topologies.complete(3),
            sv.algorithms.atc(step_size=50.0),
            sv.noise.none(),
            rounds=14,
            progress=False,
        )
