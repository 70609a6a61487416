"""What every registered algorithm, scheme and topology must do, one loop over each registry."""

import inspect
from functools import cache, partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sottovoce as sv
from sottovoce.noise import bind
from sottovoce.schedules import running_round


def plain(make):
    """What is made with the numbers that it cannot do without: 2 where a whole one is needed, else 0.1."""
    parameters = inspect.signature(make).parameters.values()
    return make(**{one.name: 2 if one.annotation is int else 0.1 for one in parameters if one.default is one.empty})


MAKE_ALGORITHM = {name: partial(plain, make) for name, make in sv.algorithms.ALGORITHMS.items()} | {
    "dgd": lambda: sv.algorithms.dgd(step_size=0.5, gradient_rounds=3, box=2.0),
    "fedavg": lambda: sv.algorithms.fedavg(step_size=0.1, local_steps=3, server_step_size=0.5),
    "inexact_admm": lambda: sv.algorithms.inexact_admm(penalty=20.0),
}
MAKE_LAW = {
    "laplace": lambda: sv.noise.Laplace(std=0.1),
    "gaussian": lambda: sv.noise.Gaussian(std=0.1),
    "l2_laplace": lambda: sv.noise.L2Laplace(scale=0.1),
}
SCHEME_OPTIONS = {"gopa": {"pairwise_std": 0.2}}
ALLOWED_LAWS = {"none": ("laplace",), "gopa": ("laplace", "gaussian")}  # none has no law: tried once
SCHEMES_AND_LAWS = [(s, w) for s in sv.noise.SCHEMES for w in ALLOWED_LAWS.get(s, sv.noise.LAWS)]
DOCS = "\n".join(path.read_text() for path in (Path(__file__).parents[2] / "docs").glob("*.md"))


def scheme(name, law):
    return (
        sv.noise.none() if name == "none" else sv.noise.SCHEMES[name](MAKE_LAW[law](), **SCHEME_OPTIONS.get(name, {}))
    )


def small_problem():
    generator = np.random.default_rng(0)
    return sv.problems.linear_regression(generator.normal(size=(5, 6, 2)), generator.normal(size=(5, 6)), ridge=0.1)


def test_every_law_has_a_maker_here():
    assert MAKE_LAW.keys() == sv.noise.LAWS.keys()


@pytest.mark.parametrize("name", sv.algorithms.ALGORITHMS)
def test_an_agents_functions_give_the_same_in_numpy_jax_and_jit(name):
    algorithm = MAKE_ALGORITHM[name]()
    state, received = algorithm.init(np.array([0.3, -0.7])), np.array([0.1, 0.4])

    def round_(state, received, t):
        state = algorithm.begun(state, lambda w, step=0: 2 * w + 1, t)
        for exchange in algorithm.exchanges:
            message = exchange.message(state, lambda w, step=0: 2 * w + 1, t)
            state = exchange.update(state, received, lambda w, step=0: 2 * w + 1, t)
        return message, state

    def compiled(state, received, t, values):
        """As in a run, whose table says what the schedules are."""
        with running_round(dict(zip(algorithm.schedules, values, strict=True))):
            return round_(state, received, t)

    for t in (1, 3, 4):
        expected = round_(state, received, t)
        with jax.enable_x64(True):
            given = jax.tree.map(jnp.asarray, (state, received))
            values = [jnp.asarray(schedule(t)) for schedule in algorithm.schedules]
            found = [round_(*given, t), jax.jit(compiled)(*given, jnp.int32(t), values)]
            for pair in found:
                for left, right in zip(jax.tree.leaves(pair), jax.tree.leaves(expected), strict=True):
                    np.testing.assert_allclose(np.asarray(left), right, atol=1e-15)


OPTIONS = {"rounds": 6, "repeats": 2, "batch_size": 1, "progress": False}


def place(name):
    """Where an algorithm runs, and the schemes that are refused with it."""
    if name in ("fedavg", "inexact_admm"):
        return "federation", frozenset({"graph_homomorphic", "local_graph_homomorphic"})
    if name == "random_walk":
        return "walk", frozenset({"graph_homomorphic", "local_graph_homomorphic", "gopa", "central"})
    if name == "dgd":
        return "complete", frozenset({"graph_homomorphic", "local_graph_homomorphic", "gradient", "central"})
    return "complete", frozenset({"central"})


def placed_topology(name):
    complete = sv.topologies.complete(5)
    return {"federation": sv.topologies.federation(5), "walk": complete.with_walk(), "complete": complete}[
        place(name)[0]
    ]


@cache
def run_twice(where, dtype):
    """All algorithms of one place with all their schemes and laws, as one program, which is what makes this quick; run two times."""
    algorithms = {name: make() for name, make in MAKE_ALGORITHM.items() if place(name) == where}
    noises = {(s, w): scheme(s, w) for s, w in SCHEMES_AND_LAWS if s not in where[1]}
    topology = placed_topology(next(iter(algorithms)))
    return [sv.simulate(small_problem(), topology, algorithms, noises, dtype=dtype, **OPTIONS) for _ in range(2)]


@pytest.mark.parametrize("name", sv.algorithms.ALGORITHMS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_scheme_and_law_runs_keeps_its_type_and_repeats_itself_or_is_refused(name, dtype):
    where, algorithm = place(name), MAKE_ALGORITHM[name]()
    for s, w in [(s, w) for s, w in SCHEMES_AND_LAWS if s in where[1]]:
        with pytest.raises(sv.IncompatibleChoice):
            sv.simulate(small_problem(), placed_topology(name), algorithm, scheme(s, w), dtype=dtype, **OPTIONS)
    first, second = run_twice(where, dtype)
    clean = first[name, ("none", "laplace")]
    found = {noise: run for (one, noise), run in first.items() if one == name}
    assert found.keys() == {(s, w) for s, w in SCHEMES_AND_LAWS if s not in where[1]}
    for (s, w), run in found.items():
        assert run.models.dtype == dtype
        assert run.models.shape == (2, 5, 2)
        assert all(values.shape == (2, 6) for values in run.metrics.values())
        assert np.isfinite(run.models).all()
        np.testing.assert_array_equal(run.models, second[name, (s, w)].models)
        changes = np.abs(run.models - clean.models).max()
        assert (changes > 1e-4) == (s not in ("none", "local_graph_homomorphic")), (s, w)


@pytest.mark.parametrize("name", [name for name in sv.noise.SCHEMES if name not in ("none", "gradient")])
def test_every_scheme_of_message_noise_puts_noise_on_every_link(name):
    links = sv.topologies.complete(5).active_links()
    noise_map = bind(scheme(name, "gaussian"), links)
    assert set(noise_map.link_index) == set(range(len(links.senders)))


@pytest.mark.parametrize(
    "registry",
    [
        sv.algorithms.ALGORITHMS,
        sv.noise.SCHEMES,
        sv.noise.LAWS,
        sv.topologies.TOPOLOGIES,
        sv.problems.PROBLEMS,
        sv.observers.OBSERVERS,
        sv.attacks.ATTACKS,
    ],
)
def test_every_registered_thing_has_a_docstring_and_a_place_in_the_documentation(registry):
    for name, make in registry.items():
        assert inspect.getdoc(make), name
        assert f"`{name}`" in DOCS, f"{name} is not mentioned in docs/"
