"""The compiled engine against a link-by-link NumPy loop fed with the same sources, for every algorithm and scheme."""

import numpy as np
import pytest

import sottovoce as sv
from simulation.reference import run as reference_run

LAPLACE = sv.noise.Laplace(std=0.3)
KINDS = {"consensus": sv.algorithms.consensus, "cta": sv.algorithms.cta, "atc": sv.algorithms.atc}
NOISES = {
    "none": sv.noise.none(),
    "broadcast": sv.noise.independent(LAPLACE),
    "broadcast, no self-noise": sv.noise.independent(LAPLACE, self_noise=False),
    "per edge": sv.noise.independent(LAPLACE, per_edge=True),
    "per edge, no self-noise": sv.noise.independent(LAPLACE, per_edge=True, self_noise=False),
    "graph-homomorphic": sv.noise.graph_homomorphic(LAPLACE),
    "local graph-homomorphic": sv.noise.local_graph_homomorphic(LAPLACE),
    "l2-laplace": sv.noise.independent(sv.noise.L2Laplace(scale=0.1)),
    "scheduled": sv.noise.graph_homomorphic(LAPLACE).scaled(lambda t: 1 / t),
}
STEP, ROUNDS = 0.1, 6


def compare(problem, topology, noises, batch_size, *, tolerance=1e-11):
    algorithms = {kind: make(step_size=STEP) for kind, make in KINDS.items()}
    runs = sv.simulate(
        problem,
        topology,
        algorithms,
        noises,
        rounds=ROUNDS,
        repeats=2,
        seed=5,
        batch_size=batch_size,
        dtype="float64",
        progress=False,
    )
    for (kind, name), run in runs.items():
        for repeat in range(2):
            history = reference_run(
                problem, topology, kind, STEP, noises[name], rounds=ROUNDS, seed=5, repeat=repeat, batch_size=batch_size
            )
            # float32 sources in the reference would be too coarse, so it draws in the run's precision
            np.testing.assert_allclose(run.models[repeat], history[-1], atol=tolerance, err_msg=f"{kind}, {name}")
            error = history - problem.optimum
            np.testing.assert_allclose(run.metrics["msd_average"][repeat], (error**2).sum(-1).mean(-1), rtol=1e-9)
            center = np.einsum("k,tkd->td", topology.perron, history)
            np.testing.assert_allclose(
                run.metrics["msd_centroid"][repeat], ((center - problem.optimum) ** 2).sum(-1), rtol=1e-8
            )
            spread = ((history - center[:, None]) ** 2).sum(-1).mean(-1)
            np.testing.assert_allclose(run.metrics["disagreement"][repeat], spread, rtol=1e-8, atol=1e-15)


@pytest.fixture(autouse=True)
def _double_precision():
    import jax

    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("batch_size", [None, 1, 3])
def test_every_algorithm_and_scheme_on_a_directed_graph(regression, directed, batch_size):
    compare(regression, directed, NOISES, batch_size)


def test_drop_outs_move_weight_to_the_receiver_and_noise_is_bound_to_the_active_links(regression):
    topology = sv.topologies.complete(6).with_dropout(0.4)
    chosen = {name: noise for name, noise in NOISES.items() if name != "local graph-homomorphic"}
    compare(regression, topology, chosen, 1)


def test_random_pairs(regression):
    topology = sv.topologies.ring(6).with_random_pair()
    chosen = {name: NOISES[name] for name in ("none", "broadcast", "per edge", "graph-homomorphic")}
    compare(regression, topology, chosen, None)


def test_listed_schedules_follow_their_cycle(regression):
    ring, whole = sv.topologies.ring(6), sv.topologies.complete(6)
    topology = ring.with_schedule([ring, whole, sv.topologies.grid(2, 3)])
    chosen = {name: noise for name, noise in NOISES.items() if name != "local graph-homomorphic"}
    compare(regression, topology, chosen, 2)


@pytest.mark.usefixtures("compiled_as_for_users")
def test_local_graph_homomorphic_noise_on_a_listed_schedule_is_the_run_without_noise(regression):
    ring = sv.topologies.ring(6)
    topology = ring.with_schedule([ring, sv.topologies.complete(6)])
    noises = {"none": sv.noise.none(), "local": NOISES["local graph-homomorphic"]}
    runs = sv.simulate(regression, topology, sv.algorithms.atc(step_size=STEP), noises, rounds=5, progress=False)
    np.testing.assert_array_equal(runs["atc", "none"].models, runs["atc", "local"].models)


def test_wide_and_narrow_rows_of_a_star_are_added_up_alike():
    """Forty agents: the hub's row is looped over, the leaves' rows are unrolled, and both are put back in order."""
    generator = np.random.default_rng(2)
    problem = sv.problems.mean_estimation(generator.uniform(-1, 1, size=(40, 2, 2)), radius=1.0)
    chosen = {name: NOISES[name] for name in ("none", "broadcast", "per edge", "graph-homomorphic")}
    compare(problem, sv.topologies.star(40), chosen, None)
