"""Optimisers between exchanges: the whole update is clipped whatever they do, and nothing else of them is relied on."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

import sottovoce as sv

CLIP = sv.clipping.Clip(0.3, "l2")
HUB = sv.topologies.federation(4)
CENTRAL = sv.noise.central(sv.noise.Gaussian(std=0.5))


class Optimizer(NamedTuple):
    """Two functions, as Optax bundles them."""

    init: object
    update: object


def adam(rate):
    """Adam without corrections of its beginning, whose steps do not depend on the gradients' size."""

    def update(gradient, state, model):
        mean, square = 0.9 * state[0] + 0.1 * gradient, 0.99 * state[1] + 0.01 * gradient**2
        return -rate * mean / (jnp.sqrt(square) + 1e-12), (mean, square)

    return Optimizer(lambda w: (jnp.zeros_like(w), jnp.zeros_like(w)), update)


def first_coordinate_only():
    """Steps that look at single coordinates and at the shape."""
    return Optimizer(lambda w: (), lambda gradient, state, model: (-gradient * (jnp.arange(len(gradient)) == 0), state))


def fedavg(optimizer, **options):
    return sv.algorithms.fedavg(**{"local_steps": 3, "update_clip": CLIP, "local_optimizer": optimizer, **options})


def test_the_message_is_the_clipped_walk_of_the_optimiser():
    start, slope = np.array([0.2, -0.1]), np.array([4.0, -1.0])
    gradient = lambda w, step=0: slope + w * (step + 1)  # noqa: E731
    sent = fedavg(adam(0.5)).exchanges[0].message(start, gradient, 1)
    held, mean, square = start.copy(), np.zeros(2), np.zeros(2)
    for step in range(3):
        g = gradient(held, step)
        mean, square = 0.9 * mean + 0.1 * g, 0.99 * square + 0.01 * g**2
        held = held - 0.5 * mean / (np.sqrt(square) + 1e-12)
    moved = held - start
    assert np.linalg.norm(moved) > CLIP.bound
    np.testing.assert_allclose(sent, start + moved * CLIP.bound / np.linalg.norm(moved), rtol=1e-9)
    assert sent.dtype == np.float64


def test_a_run_takes_these_steps_and_forgets_the_state_after_every_round():
    problem = sv.problems.linear_regression(np.ones((4, 1, 1)), np.arange(4.0)[:, None])
    algorithm = fedavg(adam(0.1), update_clip=sv.clipping.Clip(10.0, "l2"))
    settings = {"progress": False, "dtype": "float64", "record": ["loss"]}
    two = sv.simulate(problem, HUB, algorithm, sv.noise.none(), rounds=2, **settings)
    one = sv.simulate(problem, HUB, algorithm, sv.noise.none(), rounds=1, **settings)
    again = sv.simulate(problem, HUB, algorithm, sv.noise.none(), rounds=1, start=one.models[0, 0], **settings)
    np.testing.assert_allclose(two.models, again.models, rtol=1e-12)
    message = algorithm.exchanges[0].message
    rows = [{name: value[k] for name, value in problem.arrays.items()} for k in range(4)]
    sent = [message(np.zeros(1), lambda w, step=0, row=row: problem.gradient(w, row), 1) for row in rows]
    np.testing.assert_allclose(one.models[0, 0], np.mean(sent, axis=0), rtol=1e-12)


@pytest.mark.parametrize("optimizer", [adam(0.5), first_coordinate_only()], ids=["adam", "one coordinate"])
@pytest.mark.parametrize(("unit", "adjacency", "times"), [("agent", "replace", 2), ("agent", "add-remove", 1), ("record", "replace", 2)])  # fmt: skip
def test_any_optimiser_costs_what_its_clip_allows(optimizer, unit, adjacency, times):
    found = sv.account(
        HUB, fedavg(optimizer), CENTRAL, sv.observers.curious_agent(1), rounds=9, sensitivity=times * CLIP.bound, unit=unit,
        adjacency=adjacency,
    )  # fmt: skip
    assert found.mu == pytest.approx(3 * times * CLIP.bound / 4 / 0.5)
    with pytest.raises(sv.ConfigError, match=r"updates are clipped to 0\.3 as a whole"):
        sv.account(
            HUB, fedavg(optimizer), CENTRAL, sv.observers.curious_agent(1), rounds=9, sensitivity=0.5 * CLIP.bound, unit=unit,
            adjacency=adjacency,
        )  # fmt: skip


def test_two_worlds_of_an_unruly_optimiser_are_told_apart_no_better_than_is_stated():
    # Adam turns the tiniest gradients into whole steps: worlds that differ by 1e-9 send updates 2C apart, and no further.
    algorithm, sent = fedavg(adam(5.0)), []
    for side in (1e-9, -1e-9):
        sent.append(algorithm.exchanges[0].message(np.zeros(2), lambda w, step=0, g=side: np.array([g, 0.0]), 1))
    assert np.linalg.norm(sent[0] - sent[1]) == pytest.approx(2 * CLIP.bound, rel=1e-6)
    draw = np.random.default_rng(0)
    for _ in range(50):
        slopes = draw.standard_normal((2, 2)) * 10.0 ** draw.uniform(-8, 8)
        starts = draw.standard_normal((2, 2)) * 10.0 ** draw.uniform(-3, 3)
        moved = [
            algorithm.exchanges[0].message(w, lambda at, step=0, g=g: g + at, 1) - w
            for w, g in zip(starts, slopes, strict=True)
        ]
        assert np.linalg.norm(moved[0] - moved[1]) <= 2 * CLIP.bound * (1 + 1e-9) + 1e-12 * np.abs(starts).max()


def test_the_declared_clip_is_tried_on_the_optimiser_that_runs():
    honest = fedavg(adam(0.5))
    loose = fedavg(adam(0.5), update_clip=sv.clipping.Clip(0.6, "l2"))
    deceiving = honest._replace(exchanges=loose.exchanges)
    with pytest.raises(sv.UnsupportedClaim, match=r"vector of l2 norm at most 0\.3"):
        sv.account(HUB, deceiving, CENTRAL, sv.observers.curious_agent(1), rounds=2, sensitivity=0.6)


def test_noise_in_gradients_counts_every_gradient_of_the_walk():
    noise = sv.noise.gradient(sv.noise.Gaussian(std=0.5))
    found = sv.account(
        HUB, fedavg(adam(0.5)), noise, sv.observers.eavesdropper(), rounds=4, sensitivity=0.1, unit="record"
    )
    assert found.mu == pytest.approx(0.1 / 0.5 * np.sqrt(4 * 3))


def test_an_optimiser_without_a_clip_is_refused_with_the_reason():
    with pytest.raises(
        sv.IncompatibleChoice, match=r"blow a small change of a gradient up without end.*Give update_clip"
    ):
        sv.algorithms.fedavg(local_optimizer=adam(0.1))
    with pytest.raises(sv.IncompatibleChoice, match="Leave step_size out"):
        fedavg(adam(0.1), step_size=0.1)
    with pytest.raises(sv.IncompatibleChoice, match="Use exchange='model'"):
        fedavg(adam(0.1), exchange="gradient")
    with pytest.raises(sv.ConfigError, match="step_size is missing"):
        sv.algorithms.fedavg()


@pytest.mark.parametrize(
    ("optimizer", "said"),
    [
        (3, r"local_optimizer = int; needed are its functions init\(model\)"),
        (Optimizer(lambda w: (), lambda gradient: gradient), "from a gradient alone"),
        (Optimizer(lambda w: (), lambda gradient, state, model: (gradient[None], state)), r"update of shape \(1, 3\)"),
    ],
)
def test_what_is_no_optimiser_is_refused(optimizer, said):
    with pytest.raises(sv.ConfigError, match=said):
        fedavg(optimizer)


def test_the_description_names_the_optimiser_and_says_that_it_forgets():
    described = fedavg(adam(0.1)).describe()
    assert described["local_optimizer"] == "Optimizer, anew in every round"
    assert described["step_size"] is None


def test_an_optimiser_inside_a_users_own_algorithm_is_not_accounted():
    optimizer = adam(0.1)

    def message(w, gradient, round_):
        update, _ = optimizer.update(gradient(w), optimizer.init(w), w)
        return w + update

    own = sv.algorithms.Algorithm(
        "own", (sv.algorithms.Exchange(message, lambda w, received, gradient, round_: received),)
    )
    noise = sv.noise.independent(sv.noise.Gaussian(std=1.0))
    with pytest.raises(sv.UnsupportedClaim, match=r"fedavg\(update_clip=..., local_optimizer=...\)"):
        sv.account(sv.topologies.ring(4), own, noise, sv.observers.eavesdropper(), rounds=2, sensitivity=1.0)
