"""A party computes in float64: linear models on NumPy alone, networks with JAX at 64 bits."""

import subprocess
import sys

import numpy as np
import pytest

import sottovoce as sv
from deployment.agent.recursion import Rehearsal, Table, reference
from sottovoce.deployment.agent import own_of, play
from sottovoce.deployment.integers import Lattice
from sottovoce.deployment.terms import PublicRun

WITHOUT_JAX = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("jax", "jaxlib"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocked())
import numpy as np
import sottovoce as sv
from sottovoce.deployment.agent import play
from sottovoce.deployment.integers import Lattice, SecretRandomness
from sottovoce.deployment.terms import PublicCoin, PublicRun

rng = np.random.default_rng(0)
x, law = [rng.normal(size=(9, 3)) for _ in range(4)], sv.noise.Gaussian(std=0.1)
problems = [
    sv.problems.linear_regression(x, [a.sum(1) for a in x], ridge=0.1),
    sv.problems.logistic_regression(x, [np.sign(a[:, 0]) for a in x], ridge=0.1).with_clipping(1.0, "l2"),
    sv.problems.mean_estimation(x, radius=5.0),
]
ring = sv.topologies.ring(4)
runs = [
    (ring.with_dropout(0.3), sv.algorithms.atc(step_size=0.1), sv.noise.graph_homomorphic(law)),
    (ring, sv.algorithms.dgd(step_size=0.1, gradient_rounds=2, box=1.0), sv.noise.gopa(law, pairwise_std=0.1)),
    (ring, sv.algorithms.muffliato(step_size=0.1, gossip_steps=2), sv.noise.gradient(law)),
    (sv.topologies.federation(4), sv.algorithms.fedavg(step_size=0.1, participation=0.5), sv.noise.independent(law)),
    (sv.topologies.federation(4), sv.algorithms.inexact_admm(penalty=5.0), sv.noise.central(law)),
]
for problem in problems:
    for topology, algorithm, noise in runs:
        run = PublicRun(
            topology=topology, algorithm=algorithm, noise=noise, rounds=4, batch_size=5, initial_model=np.zeros(3)
        )
        secret = lambda k: SecretRandomness(law, 3, lambda other: bytes([k ^ other]) * 32, run=bytes(32))
        models = play(run, Lattice(24), problem, secret, PublicCoin(bytes(32)), relay_trusted=True)
        assert np.isfinite(models).all() and models.dtype == np.float64
assert not any(name.partition(".")[0] in ("jax", "jaxlib") for name in sys.modules)
print("played", len(problems) * len(runs))
"""


@pytest.mark.slow
def test_parties_with_linear_models_never_import_jax():
    done = subprocess.run([sys.executable, "-c", WITHOUT_JAX], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "played 15\n"), done.stderr


def network(agents: int = 3):
    generator = np.random.default_rng(0)
    features = [generator.normal(size=(6, 2)) for _ in range(agents)]
    labels = [(x[:, 0] > 0).astype(int) for x in features]
    return sv.problems.classification(features, labels, model="mlp", hidden=3, classes=2).with_clipping(1.0, "l2")


def test_gradients_of_networks_are_float64():
    problem = network()
    own = own_of(problem, 1)
    model = np.asarray(problem.initial_model)
    found = own.gradient(model, None)
    assert found.dtype == np.float64
    # A change that single precision would lose.
    assert np.abs(own.gradient(model + 1e-10, None) - found).max() > 0
    assert np.abs(own.gradient(model + 1e-10, np.array([0, 3])) - own.gradient(model, np.array([0, 3]))).max() > 0


def test_networks_play_the_recursion_with_their_differences_measured():
    problem, lattice, law = network(), Lattice(30), sv.noise.Gaussian(std=0.05)
    run = PublicRun(
        topology=sv.topologies.ring(3), algorithm=sv.algorithms.atc(step_size=0.1), noise=sv.noise.independent(law), rounds=4,
        batch_size=3, initial_model=np.asarray(problem.initial_model),
    )  # fmt: skip
    table = Table(2, problem.dimension, law)
    models = play(run, lattice, problem, lambda agent: Rehearsal(table, agent), table)
    assert np.abs(models - reference(run, lattice, problem, table)).max() < 4 * lattice.unit


@pytest.mark.models
def test_an_optimiser_makes_the_steps_of_a_party():
    optax = pytest.importorskip("optax")
    problem, lattice, law = network(), Lattice(24), sv.noise.Gaussian(std=0.05)
    algorithm = sv.algorithms.fedavg(
        local_optimizer=optax.adam(1e-2), local_steps=2, update_clip=sv.clipping.Clip(1.0, "l2")
    )
    run = PublicRun(
        topology=sv.topologies.federation(3), algorithm=algorithm, noise=sv.noise.independent(law), rounds=2, batch_size=3,
        initial_model=np.asarray(problem.initial_model),
    )  # fmt: skip
    table = Table(2, problem.dimension, law)
    models = play(run, lattice, problem, lambda agent: Rehearsal(table, agent), table)
    assert np.abs(models - reference(run, lattice, problem, table)).max() < 1e-4
