"""The same numbers whatever the chunks, interruptions, devices and company."""

import hashlib
import json
import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import sottovoce as sv
from sottovoce.simulation import Settings, chunks

LAW = sv.noise.Laplace(std=0.1)
NOISES = {
    "none": sv.noise.none(),
    "edge": sv.noise.independent(LAW, per_edge=True),
    "aggregated": sv.noise.independent(sv.noise.Gaussian(std=0.1), per_edge=True),
    "gh": sv.noise.graph_homomorphic(LAW),
}
ALGORITHMS = {kind: sv.algorithms.ALGORITHMS[kind](step_size=0.05) for kind in ("consensus", "cta", "atc")}
TOPOLOGIES = {
    "fixed": lambda: sv.topologies.erdos_renyi(20, 0.3, seed=1),
    "drop-outs": lambda: sv.topologies.erdos_renyi(20, 0.3, seed=1).with_dropout(0.2),
}


def problem():
    features, targets, _ = sv.problems.synthetic_regression(num_agents=20, samples=15, dimension=3, seed=1)
    return sv.problems.linear_regression(features, targets, ridge=0.01)


def run(topology, **options):
    settings = {"rounds": 40, "repeats": 4, "seed": 3, "batch_size": 1, "progress": False} | options
    return sv.simulate(problem(), topology, ALGORITHMS, NOISES, **settings)


def assert_bitwise_equal(left, right):
    assert left.keys() == right.keys()
    for label in left:
        np.testing.assert_array_equal(left[label].models, right[label].models, err_msg=str(label))
        for name in left[label].metrics:
            np.testing.assert_array_equal(
                left[label].metrics[name], right[label].metrics[name], err_msg=f"{label} {name}"
            )


@pytest.mark.usefixtures("compiled_as_for_users")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", TOPOLOGIES)
def test_chunk_sizes_give_bitwise_equal_results(kind, dtype):
    topology = TOPOLOGIES[kind]()
    whole = run(topology, dtype=dtype, chunk=1000)
    for chunk in (1, 7):
        assert_bitwise_equal(whole, run(topology, dtype=dtype, chunk=chunk))


@pytest.mark.usefixtures("compiled_as_for_users")
def test_going_on_from_any_chunk_gives_bitwise_equal_results():
    topology = TOPOLOGIES["fixed"]()
    settings = Settings(rounds=21, repeats=3, seed=9, batch_size=2, chunk=7)
    parts = list(chunks(problem(), topology, ALGORITHMS, NOISES, settings))
    again = list(chunks(problem(), topology, ALGORITHMS, NOISES, settings, start=(parts[0].round, parts[0].state)))
    assert [part.round for part in again] == [14, 21]
    for label in parts[-1].metrics:
        np.testing.assert_array_equal(parts[-1].models[label], again[-1].models[label])
        for name, values in parts[-1].metrics[label].items():
            np.testing.assert_array_equal(values, again[-1].metrics[label][name])


def test_a_state_of_another_run_is_refused():
    part = next(chunks(problem(), TOPOLOGIES["fixed"](), ALGORITHMS, NOISES, Settings(rounds=3, repeats=2, chunk=1)))
    same, more, longer = (
        Settings(rounds=3, repeats=2),
        Settings(rounds=3, repeats=3),
        Settings(rounds=3, repeats=2, dtype="float64"),
    )
    for settings, done in ((more, 1), (longer, 1), (same, 4)):
        with pytest.raises(sv.ConfigError, match="another run"):
            next(chunks(problem(), TOPOLOGIES["fixed"](), ALGORITHMS, NOISES, settings, start=(done, part.state)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_repeats_do_not_depend_on_how_many_run_together(dtype):
    """Same random numbers; sums over agents may be rounded differently when more lanes run side by side."""
    topology = TOPOLOGIES["fixed"]()
    together = run(topology, dtype=dtype)
    for other in (run(topology, dtype=dtype, repeats_together=1), run(topology, dtype=dtype, repeats=2)):
        for label in together:
            models = other[label].models
            np.testing.assert_allclose(
                together[label].models[: len(models)], models, rtol=0, atol=1e-6 if dtype == "float32" else 1e-14
            )


def digest():
    """A number that any bit of these runs changes, and on how many devices they ran."""
    found = hashlib.sha256()
    for make in TOPOLOGIES.values():
        # Two groups of repeats, so that a second device gets work when there is one.
        for each in run(make(), repeats_together=2).values():
            for values in (each.models, *each.metrics.values()):
                found.update(np.ascontiguousarray(values).tobytes())
    return [len(jax.devices()), found.hexdigest()]


PROGRAM = """
import json, sys
sys.path[:0] = json.loads(sys.argv[1])
from simulation import test_determinism
print(json.dumps(test_determinism.digest()))
"""


@pytest.mark.usefixtures("compiled_as_for_users")
def test_one_and_two_host_devices_give_bitwise_equal_results():
    """The other process is a user's, without any flag of these tests."""
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    command = [sys.executable, "-c", PROGRAM, json.dumps([p for p in sys.path if p])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (one, here), (two, there) = digest(), json.loads(done.stdout.strip().splitlines()[-1])
    assert (one, two) == (1, 2)
    assert here == there


def test_another_seed_gives_another_run_and_seeds_of_64_bits_count_in_full():
    topology = TOPOLOGIES["fixed"]()
    base = run(topology, rounds=3, seed=1)["atc", "edge"].models
    for other in (2, 1 + 2**32, 1 + 2**63):
        assert not np.array_equal(base, run(topology, rounds=3, seed=other)["atc", "edge"].models)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rounds": 0}, "rounds = 0"),
        ({"repeats": 0}, "repeats = 0"),
        ({"rounds": 2.5}, "rounds = 2.5"),
        ({"seed": -1}, "seed = -1"),
        ({"seed": 2**64}, "seed"),
        ({"dtype": "float16"}, "'float32', 'float64'"),
        ({"batch_size": 16}, "agent 0 has 15 records"),
        ({"batch_size": 0}, "batch_size = 0"),
        ({"chunk": -1}, "chunk = -1"),
        ({"chunk": 0}, "chunk = 0"),
        ({"repeats_together": 0}, "repeats_together = 0"),
    ],
)
def test_impossible_numbers_are_refused(options, words):
    with pytest.raises(sv.ConfigError, match=words):
        run(TOPOLOGIES["fixed"](), **options)


def test_a_topology_of_other_agents_is_refused():
    with pytest.raises(sv.ConfigError, match="20 agents but the topology has 5"):
        run(sv.topologies.ring(5))
