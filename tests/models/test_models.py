"""Losses of models of Flax, Equinox and Haiku: their gradients, clipping and parameters are those of the libraries themselves."""

import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sottovoce as sv

pytestmark = pytest.mark.models
ROOT = Path(__file__).parents[2]
CLIP = 0.2
ATC = sv.algorithms.atc(step_size=0.5)


def cross_entropy(logits, labels):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1).mean()


def problem_of(model, records, **options):
    parameters, apply = model
    loss = lambda p, batch: cross_entropy(apply(p, batch[0]), batch[1])  # noqa: E731
    return sv.problems.custom_loss(loss, parameters, *records, **options)


def test_a_gradient_is_the_average_of_clipped_gradients_of_single_records(model, records):
    problem = problem_of(model, records).with_clipping(CLIP, "l2")
    parameters, apply = model
    features, labels = records
    clipped = 0
    total = np.zeros(problem.dimension)
    for x, y in zip(features[1], labels[1], strict=True):
        one = jax.grad(lambda p, x=x, y=y: cross_entropy(apply(p, x[None]), y[None]))(parameters)
        flat = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(one)]).astype(float)
        clipped += np.linalg.norm(flat) > CLIP
        total += flat * min(1.0, CLIP / np.linalg.norm(flat))
    row = {name: array[1] for name, array in problem.arrays.items()}
    start = problem.initial_model.astype(np.float32)
    np.testing.assert_allclose(problem.gradient(start, row), total / 5, rtol=1e-4, atol=1e-6)
    assert clipped > 0


def test_a_run_learns_and_gives_the_models_own_parameters_back(model, records):
    parameters, apply = model
    problem = problem_of(model, records, accuracy=lambda p, x, y: (apply(p, x).argmax(-1) == y).mean())
    run = sv.simulate(problem, sv.topologies.ring(3), ATC, sv.noise.none(), rounds=60, progress=False)
    assert run.metrics["loss"][0, -1] < 0.6 * run.metrics["loss"][0, 0]
    learned = problem.parameters(run.models[0, 0])
    assert jax.tree.structure(learned) == jax.tree.structure(parameters)
    logits = apply(learned, records[0][0])
    assert logits.shape == (5, 2)
    again = sv.simulate(problem, sv.topologies.ring(3), ATC, sv.noise.none(), rounds=1, progress=False, start=learned)
    assert again.metrics["loss"][0, 0] < run.metrics["loss"][0, 5]


@pytest.mark.parametrize("unit", ["record", "agent"])
def test_a_model_is_accounted_as_any_other_loss(model, records, unit):
    problem = problem_of(model, records)
    clipped = problem.with_clipping(CLIP, "l2") if unit == "record" else problem.with_gradient_clipping(CLIP, "l2")
    change = clipped.sensitivity(unit=unit, adjacency="replace", norm="l2")
    noise = sv.noise.independent(sv.noise.Gaussian(std=0.1))
    found = sv.account(
        sv.topologies.ring(3), ATC, noise, sv.observers.eavesdropper(), rounds=4, sensitivity=change, unit=unit
    )
    assert found.mu == pytest.approx(2.0 * 0.5 * (2 * CLIP / 5 if unit == "record" else 2 * CLIP) / 0.1)
    run = sv.simulate(clipped, sv.topologies.ring(3), ATC, sv.noise.none(), rounds=1, progress=False)
    assert np.abs(run.models[0] - clipped.initial_model).max() <= 0.5 * CLIP


def test_batch_normalisation_is_refused(records):
    import flax.linen as nn

    class Network(nn.Module):
        @nn.compact
        def __call__(self, features):
            return nn.Dense(2)(nn.BatchNorm(use_running_average=False)(features))

    network = Network()
    held = network.init(jax.random.key(0), jnp.zeros((2, 3)))

    def apply(parameters, features):
        logits, _ = network.apply(
            {"params": parameters, "batch_stats": held["batch_stats"]}, features, mutable=["batch_stats"]
        )
        return logits

    with pytest.raises(sv.ConfigError, match="no batch normalisation"):
        problem_of((held["params"], apply), records)


def test_a_whole_equinox_model_is_told_how_to_come_apart(records):
    import equinox as eqx

    network = eqx.nn.MLP(3, 2, width_size=4, depth=1, key=jax.random.key(0))
    with pytest.raises(sv.ConfigError, match=r"not an array.*eqx\.partition\(model, eqx\.is_inexact_array\)"):
        problem_of((network, lambda p, x: jax.vmap(p)(x)), records)


@pytest.mark.parametrize("name", ["flax_linen_model", "flax_nnx_model", "equinox_model", "haiku_model"])
def test_the_examples_learn_and_say_what_it_costs(name):
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / f"{name}.py"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.strip().splitlines()
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert float(first.split()[1].rstrip(";")) > 0.87
    assert float(first.split()[-1]) == 2.0
    assert float(second.split()[-1]) == pytest.approx(float(first.split()[1].rstrip(";")), abs=2e-3)


def page():
    return "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "models.md").read_text(), re.DOTALL))


def test_the_code_of_the_page_has_no_type_errors(tmp_path):
    (tmp_path / "page.py").write_text(page())
    # Optax says nothing of its types.
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = true\n[mypy-optax.*]\nignore_missing_imports = true\n")
    command = [sys.executable, "-m", "mypy", "--config-file", tmp_path / "mypy.ini", "--cache-dir", tmp_path / "cache"]
    done = subprocess.run([*command, tmp_path / "page.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    (tmp_path / "page.py").write_text(page().replace('Clip(0.5, "l2")', 'Clip("0.5", "l2")'))
    done = subprocess.run([*command, tmp_path / "page.py"], capture_output=True, text=True, check=False)
    assert "incompatible type" in done.stdout, "a wrong type is noticed"


def test_the_page_on_models_runs_and_its_numbers_are_true():
    names: dict[str, object] = {}
    exec(compile(page(), "models.md", "exec"), names)
    assert names["first"].models_by_round.shape == (1, 20, 5, 82)
    assert names["proven"].mu == pytest.approx(np.sqrt(20) * 1.0 / 5 / 0.2)
    assert names["dp_sgd"].mu == pytest.approx(np.sqrt(20) * 0.5 * (2 / 200) / 0.2)
    assert names["question"].sensitivity == 2.0
    assert names["again"].description["start"] == "one model for all agents"
