"""Optimisers of Optax between exchanges."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sottovoce as sv

pytestmark = pytest.mark.models
CLIP = sv.clipping.Clip(0.5, "l2")
HUB = sv.topologies.federation(3)
NAMES = ["adam", "sgd", "adamw", "rmsprop", "lion", "chain"]


def made(name):
    import optax

    if name == "chain":
        return optax.chain(optax.clip_by_global_norm(1.0), optax.scale_by_adam(), optax.scale(-0.1))
    options = {"momentum": 0.9, "nesterov": True} if name == "sgd" else {}
    return getattr(optax, name)(0.1, **options)


@pytest.mark.parametrize("name", NAMES)
def test_a_round_is_the_optimisers_own_walk_clipped_as_a_whole(name):
    import optax

    optimizer, problem = (
        made(name),
        sv.problems.linear_regression(np.eye(3)[:, None, :], np.array([[3.0], [1.0], [-2.0]])),
    )
    algorithm = sv.algorithms.fedavg(local_steps=4, update_clip=CLIP, local_optimizer=optimizer)
    start = np.array([0.3, -0.2, 0.1])
    run = sv.simulate(problem, HUB, algorithm, sv.noise.none(), rounds=1, dtype="float64", start=start, progress=False)
    sent = []
    with jax.enable_x64(True):
        for k in range(3):
            row = {key: jnp.asarray(value[k]) for key, value in problem.arrays.items()}
            w = jnp.asarray(start)
            state = optimizer.init(w)
            for _ in range(4):
                updates, state = optimizer.update(problem.gradient(w, row), state, w)
                w = optax.apply_updates(w, updates)
            moved = np.asarray(w) - start
            sent.append(start + moved * min(1.0, CLIP.bound / np.linalg.norm(moved)))
    np.testing.assert_allclose(run.models[0, 0], np.mean(sent, axis=0), rtol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_every_optimiser_is_accounted_by_its_clip(name):
    algorithm = sv.algorithms.fedavg(local_steps=4, update_clip=CLIP, local_optimizer=made(name))
    noise = sv.noise.central(sv.noise.Gaussian(std=0.25))
    found = sv.account(HUB, algorithm, noise, sv.observers.curious_agent(1), rounds=9, sensitivity=1.0)
    assert found.mu == pytest.approx(3 * 1.0 / 3 / 0.25)


def test_an_audit_stays_below_what_is_stated():
    algorithm = sv.algorithms.fedavg(local_steps=2, update_clip=CLIP, local_optimizer=made("adam"))
    noise = sv.noise.independent(sv.noise.Gaussian(std=1.0))
    result = sv.audit(
        HUB, algorithm, noise, sv.observers.server(), rounds=3, sensitivity=1.0, delta=1e-5, confidence=0.99, pairs=1000
    )
    assert result.passed


def test_an_optimiser_that_needs_the_loss_is_refused():
    import optax

    with pytest.raises(sv.ConfigError, match="from a gradient alone"):
        sv.algorithms.fedavg(update_clip=CLIP, local_optimizer=optax.lbfgs())
