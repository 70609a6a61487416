"""A hop that computes its holder only is the hop that computes everybody: same draws, same models, same metrics."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sottovoce as sv
from sottovoce.algorithms import Algorithm, Exchange
from sottovoce.simulation import Settings
from sottovoce.simulation.engine import chunks
from sottovoce.simulation.rounds import random
from sottovoce.simulation.rounds.batches import draw_batch
from sottovoce.simulation.rounds.draws import draw_unit
from sottovoce.simulation.rounds.hop import only_holders_work
from sottovoce.simulation.rounds.plan import plan_comparison
from sottovoce.simulation.rounds.program import compile_advance, initial_state

K, D, ROUNDS, REPEATS, SEED = 7, 3, 25, 3, 11
WALK = sv.topologies.erdos_renyi(K, 0.6, seed=1).with_walk()
RINGS = {agents: sv.topologies.ring(agents).with_walk() for agents in (10, 100)}
GAUSSIAN, LAPLACE = sv.noise.Gaussian(std=0.3), sv.noise.Laplace(std=0.2)
NOISES = {
    "none": sv.noise.none(),
    "in messages": sv.noise.independent(GAUSSIAN),
    "in messages, twice as much": sv.noise.independent(sv.noise.Gaussian(std=0.6)),
    "laplace": sv.noise.independent(LAPLACE),
    "l2-laplace": sv.noise.independent(sv.noise.L2Laplace(scale=0.1)),
    "in gradients": sv.noise.gradient(GAUSSIAN),
    "in gradients, laplace, scheduled": sv.noise.gradient(LAPLACE).scaled(lambda t: 1 / t),
}
CASES = {
    "all records": {},
    "single precision": {"dtype": "float32"},
    "one record": {"batch_size": 1},
    "batches": {"batch_size": 2},
    "turns": {"batch": sv.problems.cyclic_batch(2)},
    "a lattice": {"draws": "sources", "fraction_bits": 20},
    "short chunks, one repeat at a time": {"chunk": 4, "repeats_together": 1},
    "models": {"record": ["models"]},
}
STEPS = {"a number": 0.1, "a schedule": lambda t: 1 / (10 + t)}


def regression(agents=K):
    generator = np.random.default_rng(0)
    sizes = [3 + k % 4 for k in range(agents)]
    features, targets = [generator.normal(size=(n, D)) for n in sizes], [generator.normal(size=n) for n in sizes]
    return sv.problems.linear_regression(features, targets, ridge=0.1)


def classification():
    generator = np.random.default_rng(2)
    labels = np.where(generator.random((K, 6)) < 0.5, -1.0, 1.0)
    return sv.problems.logistic_regression(generator.normal(size=(K, 6, D)), labels).with_clipping(0.5, "l2")


def token(step_size=0.1, contributions=2):
    return sv.algorithms.random_walk(step_size=step_size, contributions=contributions)


def of_everybody(algorithm):
    """The same walk with an update that is not seen to leave waiting agents alone, so that all are computed."""
    (exchange,) = algorithm.exchanges
    return algorithm._replace(
        exchanges=(exchange._replace(update=lambda state, received, gradient, t: received * 1.0),)
    )


def planned(algorithm, problem=None, topology=WALK, noise=NOISES["in gradients"]):
    return plan_comparison(problem or regression(), topology, {"a": algorithm}, {"n": noise}, Settings(rounds=5))


def run(problem, algorithms, noises=NOISES, **more):
    options = {"rounds": ROUNDS, "repeats": REPEATS, "seed": SEED, "dtype": "float64", "progress": False, **more}
    return sv.simulate(problem, WALK, algorithms, noises, **options)


@pytest.mark.parametrize(
    ("kind", "case"),
    [*(("regression", case) for case in CASES), ("classification", "all records"), ("classification", "batches")],
)
def test_a_hop_of_the_holder_is_the_hop_of_everybody(kind, case):
    problem = {"regression": regression, "classification": classification}[kind]()
    algorithms = {"capped": token(), "scheduled": token(STEPS["a schedule"], None)}
    options = dict(CASES[case])
    if problem.has_accuracy:
        test = np.random.default_rng(4)
        options["test"] = (test.normal(size=(40, D)), np.where(test.random(40) < 0.5, -1.0, 1.0))
    alone = run(problem, algorithms, **options)
    together = run(problem, {name: of_everybody(one) for name, one in algorithms.items()}, **options)
    near = {"rtol": 2e-5, "atol": 2e-6} if options.get("dtype") == "float32" else {"rtol": 1e-11, "atol": 1e-13}
    for labels, found in alone.items():
        expected = together[labels]
        np.testing.assert_allclose(found.models, expected.models, **near)
        np.testing.assert_allclose(found.common, expected.common, **near)
        assert set(found.metrics) == set(expected.metrics)
        for name, values in found.metrics.items():
            np.testing.assert_allclose(values, expected.metrics[name], **near)
        if expected.models_by_round is not None:
            np.testing.assert_allclose(found.models_by_round, expected.models_by_round, **near)


def test_a_hop_of_the_holder_goes_on_from_a_checkpoint_with_the_same_bits():
    whole = run(classification(), {"w": token()}, batch_size=2)
    settings = Settings(rounds=ROUNDS, repeats=REPEATS, seed=SEED, dtype="float64", batch_size=2, chunk=10)
    arguments = classification(), WALK, {"w": token()}, NOISES, settings
    first = next(iter(chunks(*arguments)))
    *_, last = chunks(*arguments, start=(first.round, first.state))
    for labels, models in last.models.items():
        np.testing.assert_array_equal(models, whole[labels].models)


@pytest.mark.parametrize("law", [GAUSSIAN, LAPLACE, sv.noise.L2Laplace(scale=1.0)], ids=lambda law: type(law).__name__)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_draws_of_holders_are_those_of_all_agents_bit_for_bit(law, dtype):
    repeats = 5
    holders = np.array([6, 0, 3, 3, 1])
    with jax.enable_x64(dtype == "float64"):
        keys = random.repeat_keys(random.seed_words(9), np.arange(repeats), random.NOISE)
        everybody = np.asarray(draw_unit(law, keys, jnp.arange(K), D, jnp.dtype(dtype)))
        found = np.asarray(draw_unit(law, keys, jnp.asarray(holders)[None, :], D, jnp.dtype(dtype)))
        batches = np.asarray(draw_batch(keys, jnp.arange(5, 5 + K), 4))
        own = np.asarray(draw_batch(keys, jnp.arange(5, 5 + K), 4, jnp.asarray(holders)))
    assert found.shape == (1, D, repeats)
    np.testing.assert_array_equal(found[0].T, everybody[holders, :, np.arange(repeats)])
    np.testing.assert_array_equal(own[0].T, batches[holders, :, np.arange(repeats)])


def test_the_work_of_a_hop_does_not_grow_with_the_agents():
    def operations(algorithm, agents):
        plan, arrays = planned(algorithm, regression(agents), RINGS[agents])
        ids = np.arange(1, dtype=np.uint32)
        arguments = arrays, ids, initial_state(plan, 1), np.int32(0), np.int32(5), np.bool_(True)
        return compile_advance(plan, 5).lower(*arguments).compile().cost_analysis()["flops"]

    assert operations(token(), 100) < 1.2 * operations(token(), 10)
    assert operations(of_everybody(token()), 100) > 3 * operations(of_everybody(token()), 10)


# Where waiting is not seen to change nothing, everybody is computed


def walking(update, *, silent=lambda state, t: state, **more):
    def message(w, gradient, t):
        return w - 0.1 * gradient(w)

    return Algorithm("own walk", (Exchange(message, update, silent=silent),), walks=True, **more)


FORGETTING = walking(lambda w, received, gradient, t: 0.9 * received)
CHANGED = {
    "forgets": FORGETTING,
    "is taken for something else": walking(lambda w, received, gradient, t: received, silent=lambda w, t: 2.0 * w),
    "takes a gradient on arrival": walking(lambda w, received, gradient, t: gradient(received) * 0.0 + received),
    "takes a gradient for nothing": walking(lambda w, received, gradient, t: (gradient(w), received)[1]),
    "begins": walking(lambda w, received, gradient, t: received, begin=lambda w, gradient, t: w),
    "swaps": walking(
        lambda state, received, gradient, t: (state[1], state[0]),
        silent=lambda state, t: state[0], init=lambda w: (w, w), model=lambda state: state[0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGED)
def test_an_algorithm_that_does_more_than_wait_is_computed_for_everybody(name):
    assert only_holders_work(planned(token())[0])
    assert only_holders_work(planned(token(STEPS["a schedule"]))[0])
    assert not only_holders_work(planned(token())[0]._replace(algorithms=(token(), CHANGED[name])))


def test_agents_who_forget_while_they_wait_forget():
    problem = regression()
    found = run(problem, FORGETTING, sv.noise.none(), repeats=1)
    path = sv.topologies.walk_paths(WALK, ROUNDS, seed=SEED)[0]
    models = np.zeros((K, D))
    for u, v in itertools.pairwise(path):
        models[u] -= 0.1 * problem.gradient(models[u], {name: values[u] for name, values in problem.arrays.items()})
        models[v] = models[u]
        models *= 0.9
    np.testing.assert_allclose(found.models[0], models, rtol=1e-11, atol=1e-14)


def test_an_update_that_keeps_part_of_its_state_sees_what_was_sent_at_both_ends():
    """The state is (model, last token seen): two rows are written, and those who wait keep both."""

    def update(state, received, gradient, t):
        return received, state[1]

    def message(state, gradient, t):
        return state[0] - 0.1 * gradient(state[0]) + state[1]

    own = Algorithm(
        "two blocks", (Exchange(message, update, silent=lambda state, t: state[0]),), init=lambda w: (w, w + 0.25), model=lambda s: s[0], walks=True,
    )  # fmt: skip
    assert only_holders_work(planned(own)[0])
    other = own._replace(
        exchanges=(own.exchanges[0]._replace(update=lambda s, received, gradient, t: (received * 1.0, s[1])),)
    )
    assert not only_holders_work(planned(other)[0])
    found, expected = (run(regression(), {"w": one}) for one in (own, other))
    for labels in found:
        np.testing.assert_allclose(found[labels].models, expected[labels].models, rtol=1e-11, atol=1e-12)
