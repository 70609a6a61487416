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
        with pytest.raises(sv.Diverged, match=r"agent \d+ is no longer finite after round \d+") as caught:
            sv.simulate(problem, topology, atc, sv.noise.none(), rounds=300, batch_size=1, chunk=chunk, progress=False)
        largest = 60.0 * stability_limit(problem, topology, atc, batch_size=1)
        assert f"the limit is {largest:.4g}" in str(caught.value)
        told = int(str(caught.value).split("after round ")[1].split()[0])
        # One round earlier everything is finite, in that round it is not.
        before = sv.simulate(
            problem, topology, atc, sv.noise.none(), rounds=told - 1, batch_size=1, progress=False, record=()
        )
        assert np.isfinite(before.models).all()
        with pytest.raises(sv.Diverged, match=f"after round {told} "):
            sv.simulate(problem, topology, atc, sv.noise.none(), rounds=told, batch_size=1, progress=False, record=())

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
