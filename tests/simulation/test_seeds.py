"""The seed's draws in the open: with them a run can be played again agent by agent, for every scheme and every algorithm but the walk."""

import numpy as np
import pytest

import sottovoce as sv
from simulation.replay import replay

GAUSSIAN, LAPLACE = sv.noise.Gaussian(std=0.3), sv.noise.Laplace(std=0.2)
ROUNDS, SEED, STEP, EXACT = 4, 9, 0.1, 1e-12

PEER_NOISES = {
    "none": sv.noise.none(),
    "independent": sv.noise.independent(GAUSSIAN),
    "per edge": sv.noise.independent(GAUSSIAN, per_edge=True),
    "per edge, no self-noise": sv.noise.independent(GAUSSIAN, per_edge=True, self_noise=False),
    "graph_homomorphic": sv.noise.graph_homomorphic(LAPLACE),
    "local_graph_homomorphic": sv.noise.local_graph_homomorphic(GAUSSIAN),
    "gopa": sv.noise.gopa(GAUSSIAN, pairwise_std=0.7),
    "gradient": sv.noise.gradient(GAUSSIAN),
    "l2, falling": sv.noise.independent(sv.noise.L2Laplace(scale=0.1)).scaled(lambda t: 1 / t),
}
PEERS = {
    "consensus": sv.algorithms.consensus(step_size=STEP),
    "cta": sv.algorithms.cta(step_size=lambda t: STEP / t),
    "atc": sv.algorithms.atc(step_size=STEP),
    "gossip": sv.algorithms.gossip(),
    "muffliato": sv.algorithms.muffliato(step_size=STEP, gossip_steps=2),
    "three_matrix": sv.algorithms.three_matrix(
        step_size=STEP, first=sv.topologies.ring(6), last=sv.topologies.complete(6)
    ),
}
STOPS = {"dgd": sv.algorithms.dgd(step_size=0.5, gradient_rounds=2, box=3.0)}
STOPS_NOISES = {name: PEER_NOISES[name] for name in ("none", "independent")}
RELAY_NOISES = {
    "none": sv.noise.none(),
    "independent": sv.noise.independent(GAUSSIAN),
    "central": sv.noise.central(LAPLACE),
    "gradient": sv.noise.gradient(GAUSSIAN),
}
FEDERATED = {
    "fedavg": sv.algorithms.fedavg(step_size=STEP, local_steps=2),
    "some": sv.algorithms.fedavg(step_size=STEP, participation=0.6),
    "four": sv.algorithms.fedavg(step_size=STEP, agents_per_round=4, exchange="gradient"),
    "inexact_admm": sv.algorithms.inexact_admm(penalty=3.0),
}
GRAPH = sv.topologies.erdos_renyi(6, 0.6, seed=2)
CASES = {
    "every scheme": (GRAPH, {"atc": PEERS["atc"]}, PEER_NOISES, 3),
    "every algorithm": (GRAPH, PEERS, {"per edge": PEER_NOISES["per edge"]}, 3),
    "peers that stop": (sv.topologies.ring(6), STOPS, STOPS_NOISES, None),
    "a federation": (sv.topologies.federation(6), FEDERATED, RELAY_NOISES, 2),
    "drop-outs": (
        sv.topologies.complete(6).with_dropout(0.4),
        {"atc": PEERS["atc"]},
        {name: PEER_NOISES[name] for name in ("independent", "per edge", "graph_homomorphic")},
        None,
    ),
    "random pairs": (
        sv.topologies.ring(6).with_random_pair(),
        {"atc": PEERS["atc"]},
        {name: PEER_NOISES[name] for name in ("independent", "per edge")},
        None,
    ),
    "a list": (
        sv.topologies.ring(6).with_schedule([sv.topologies.ring(6), sv.topologies.complete(6)]),
        {"atc": PEERS["atc"]},
        {name: PEER_NOISES[name] for name in ("per edge", "graph_homomorphic", "local_graph_homomorphic")},
        None,
    ),
}


def draws(problem, topology, algorithm, noise, *, batch_size, fraction_bits=None, repeat=0):
    return sv.simulation.drawn(
        problem,
        topology,
        algorithm,
        noise,
        rounds=ROUNDS,
        seed=SEED,
        repeat=repeat,
        batch_size=batch_size,
        fraction_bits=fraction_bits,
    )


def test_the_cases_have_every_scheme_and_every_algorithm_but_the_walk():
    algorithms = {one.name for _, chosen, *_ in CASES.values() for one in chosen.values()}
    noises = {one.name for *_, chosen, _ in CASES.values() for one in chosen.values()}
    assert algorithms >= set(sv.algorithms.ALGORITHMS) - {"random_walk"}
    assert noises == set(sv.noise.SCHEMES)


def check_replay(problem, case, fraction_bits):
    topology, algorithms, noises, batch_size = case
    runs = sv.simulate(
        problem, topology, algorithms, noises, rounds=ROUNDS, repeats=2, seed=SEED, batch_size=batch_size, dtype="float64",
        record=["loss"], progress=False, draws="sources", fraction_bits=fraction_bits,
    )  # fmt: skip
    for (a, n), run in runs.items():
        parts = topology, algorithms[a], noises[n]
        drawn = draws(problem, *parts, batch_size=batch_size, fraction_bits=fraction_bits, repeat=1)
        models = replay(problem, algorithms[a], noises[n], drawn, rounds=ROUNDS, batch_size=batch_size)
        np.testing.assert_allclose(run.models[1], models, rtol=0, atol=EXACT, err_msg=f"{a}, {n}")


@pytest.mark.parametrize("case", CASES)
def test_a_run_played_by_hand_with_the_draws_of_its_seed_is_the_simulated_run(regression, case):
    check_replay(regression, CASES[case], 20)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_so_it_is_without_a_lattice(regression, case):
    check_replay(regression, CASES[case], None)


@pytest.mark.slow
def test_so_it_is_for_every_algorithm_with_every_scheme(regression):
    check_replay(regression, (GRAPH, PEERS, PEER_NOISES, 3), 20)


class InAnotherOrder:
    """The draws of a seed with its sources from the last to the first, so that they reach other receivers."""

    def __init__(self, drawn):
        self.drawn = drawn

    def __getattr__(self, name):
        return getattr(self.drawn, name)

    def sources(self, round_, exchange):
        return self.drawn.sources(round_, exchange)[::-1]


@pytest.fixture(scope="module")
def per_edge(regression):
    """One run whose Gaussian sources an ordinary run merges: its parts, and the run."""
    algorithm, noise = sv.algorithms.atc(step_size=STEP), sv.noise.independent(GAUSSIAN, per_edge=True)
    run = sv.simulate(
        regression, GRAPH, algorithm, noise, rounds=ROUNDS, seed=SEED, dtype="float64", progress=False, draws="sources"
    )
    return algorithm, noise, run


def test_sources_in_another_order_are_another_run(regression, per_edge):
    algorithm, noise, run = per_edge
    drawn = draws(regression, GRAPH, algorithm, noise, batch_size=None)
    right = replay(regression, algorithm, noise, drawn, rounds=ROUNDS)
    wrong = replay(regression, algorithm, noise, InAnotherOrder(drawn), rounds=ROUNDS)
    np.testing.assert_allclose(run.models[0], right, rtol=0, atol=EXACT)
    assert np.abs(run.models[0] - wrong).max() > 1e-3


def test_an_ordinary_run_merges_what_this_one_draws_apart(regression, per_edge):
    algorithm, noise, run = per_edge
    merged = sv.simulate(regression, GRAPH, algorithm, noise, rounds=ROUNDS, seed=SEED, dtype="float64", progress=False)
    assert np.abs(merged.models - run.models).max() > 1e-3
    assert run.description["draws"] == "sources"
    assert "draws" not in merged.description


def test_on_a_lattice_sources_are_whole_units_next_to_what_was_drawn(regression):
    algorithm = sv.algorithms.fedavg(step_size=STEP, local_steps=2)
    for noise in (sv.noise.independent(LAPLACE).scaled(lambda t: 1 / t), sv.noise.gradient(GAUSSIAN)):
        parts = regression, sv.topologies.federation(6), algorithm, noise
        near, far = (draws(*parts, batch_size=None, fraction_bits=f) for f in (None, 10))
        read = [lambda d: d.gradient_noise(2, 1)] if noise.in_gradients else [lambda d: d.sources(2, 0)]
        for values in read:
            units = values(far) * 2.0**10
            np.testing.assert_array_equal(units, np.rint(units))
            assert 0 < np.abs(values(far) - values(near)).max() <= 2.0**-11 * (1 + 1e-12)


def test_a_lattice_needs_every_source_in_double_precision(regression):
    parts = regression, GRAPH, sv.algorithms.atc(step_size=STEP), sv.noise.independent(GAUSSIAN)
    for wrong in ({"dtype": "float64"}, {"draws": "sources"}):
        with pytest.raises(sv.ConfigError, match='Add draws="sources" and dtype="float64"'):
            sv.simulate(*parts, rounds=2, fraction_bits=20, progress=False, **wrong)
    with pytest.raises(sv.ConfigError, match="fraction_bits = 300"):
        sv.simulate(*parts, rounds=2, fraction_bits=300, draws="sources", dtype="float64", progress=False)
    with pytest.raises(sv.ConfigError, match="draws"):
        sv.simulate(*parts, rounds=2, draws="some", progress=False)


def test_draws_can_be_read_where_the_data_is_elsewhere(regression):
    algorithm, noise = sv.algorithms.atc(step_size=STEP), sv.noise.independent(GAUSSIAN)
    numbers = {"rounds": ROUNDS, "seed": SEED, "batch_size": 3}
    here = sv.simulation.drawn(regression, GRAPH, algorithm, noise, **numbers)
    sizes = [int(size) for size in regression.sizes]
    there = sv.simulation.drawn(sizes, GRAPH, algorithm, noise, dimension=3, **numbers)
    np.testing.assert_array_equal(here.sources(3, 0), there.sources(3, 0))
    np.testing.assert_array_equal(here.batch(3, 0), there.batch(3, 0))
    assert here.batch(3, 0).shape == (6, 3)
    assert repr(here) == f"Drawn(seed={SEED}, repeat=0, rounds={ROUNDS})"


def test_what_no_run_draws_is_refused(regression):
    algorithm, noise = sv.algorithms.atc(step_size=STEP), sv.noise.independent(GAUSSIAN)
    drawn = draws(regression, GRAPH, algorithm, noise, batch_size=None)
    for ask in (lambda: drawn.sources(0, 0), lambda: drawn.sources(1, 1), lambda: drawn.weights(ROUNDS + 1, 0)):
        with pytest.raises(sv.ConfigError, match=r"rounds are 1 to 4, exchanges 0 to 0"):
            ask()
    with pytest.raises(sv.ConfigError, match="no batches"):
        drawn.batch(1, 0)
    with pytest.raises(sv.ConfigError, match="step 1"):
        drawn.gradient_noise(1, 1)
    with pytest.raises(sv.ConfigError, match="together with dimension="):
        sv.simulation.drawn([3] * 6, GRAPH, algorithm, noise, rounds=1, seed=0)
    with pytest.raises(sv.ConfigError, match="agent 0 has 5 record"):
        draws(regression, GRAPH, algorithm, noise, batch_size=6)
    walk = sv.algorithms.random_walk(step_size=STEP)
    with pytest.raises(sv.IncompatibleChoice, match="token"):
        draws(regression, sv.topologies.ring(6).with_walk(), walk, noise, batch_size=None)


def test_a_run_names_the_generator_of_its_seed(per_edge):
    assert per_edge[2].description["generator"] == sv.simulation.GENERATOR == "threefry2x32-20/1"
