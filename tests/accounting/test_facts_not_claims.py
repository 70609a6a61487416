"""What enters a guarantee is read off the functions that run, in every round, or tried against them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sottovoce as sv
from sottovoce.algorithms import Algorithm, ClippedUpdate, Exchange, LocalSteps

EAVESDROPPER, SERVER = sv.observers.eavesdropper(), sv.observers.server()
RING, FEDERATION, WALK = sv.topologies.ring(4), sv.topologies.federation(4), sv.topologies.complete(5).with_walk()
GAUSSIAN = sv.noise.Gaussian(std=1.0)
NOISE = sv.noise.independent(GAUSSIAN)


def sending(message, **declared) -> Algorithm:
    """A user's algorithm: this message, and the state is what arrives."""
    exchange = Exchange(message, lambda w, received, gradient, t: received, silent=lambda w, t: w)
    return Algorithm("mine", (exchange,), **declared)


def steps(count: int, size: float):
    def message(w, gradient, t):
        for step in range(count):
            w = w - size * gradient(w, step)
        return w

    return message


# Poisson sampling


def poisson(noise, *, sensitivity: float = 1.0, rounds: int = 20, step: float = 1.0):
    return sv.account(
        RING, sv.algorithms.atc(step_size=step), noise, EAVESDROPPER, rounds=rounds, sensitivity=sensitivity, unit="record",
        adjacency="add-remove", participation=sv.accounting.poisson(0.5),
    )  # fmt: skip


def test_rounds_with_less_noise_are_not_taken_as_equal_because_all_prices_are_small():
    """0.389 was stated, at least 11.2 is true: nineteen rounds with 0.06 of the noise."""
    noise = sv.noise.independent(sv.noise.Gaussian(std=2000.0)).scaled([1.0] + [0.06] * 19)
    with pytest.raises(sv.UnsupportedClaim, match="with the same step and noise in every round"):
        poisson(noise, sensitivity=1e4, step=0.01)


@settings(max_examples=40, deadline=None)
@given(scale=st.floats(-60, 60), place=st.integers(0, 5), ratio=st.floats(1e-6, 10.0), unit=st.floats(0.1, 10))
def test_unequal_rounds_are_refused_at_any_scale(scale, place, ratio, unit):
    std = 10.0**scale
    factors = [1.0] * 6
    factors[place] += ratio
    noise = sv.noise.independent(sv.noise.Gaussian(std=std)).scaled(factors)
    with pytest.raises(sv.UnsupportedClaim, match="same step and noise in every round"):
        poisson(noise, sensitivity=unit * std, rounds=6)


def test_equal_rounds_are_answered_whatever_their_scale():
    values = [
        poisson(sv.noise.independent(sv.noise.Gaussian(std=3.0 * unit)), sensitivity=unit, rounds=6).epsilon(1e-5)
        for unit in (1.0, 1e-30, 1e30)
    ]
    assert values == pytest.approx([values[0]] * 3, rel=1e-6)


# walks


@pytest.mark.parametrize("declared", [{"step_size": 0.5}, {}])
def test_a_walk_is_accounted_by_the_step_it_takes(declared):
    walk = sending(lambda w, gradient, t: w - 1.5 * gradient(w), walks=True, contributions=1, parameters=declared)
    found = sv.account(WALK, walk, NOISE, EAVESDROPPER, rounds=10, sensitivity=1.0)
    assert found.mu == pytest.approx(1.5, rel=1e-12)


def test_three_steps_in_one_hop_are_refused():
    """mu 0.5 was stated and 1.5 is true."""
    walk = sending(steps(3, 0.5), walks=True, contributions=1, parameters={"step_size": 0.5},
                   local_steps=LocalSteps(sv.algorithms.atc(step_size=0.5), 3, 0.5))  # fmt: skip
    with pytest.raises(sv.UnsupportedClaim, match=r"one gradient|more than one point"):
        sv.account(WALK, walk, NOISE, EAVESDROPPER, rounds=10, sensitivity=1.0)


def test_a_hop_without_noise_is_not_accounted_as_if_it_had_some():
    walk = sv.algorithms.random_walk(step_size=0.5)._replace(sends_fresh=lambda t: t != 4)
    assert sv.account(WALK, walk, NOISE, EAVESDROPPER, rounds=10, sensitivity=1.0).mu == math.inf


def test_every_noisy_gradient_of_a_hop_counts():
    walk = sending(
        steps(3, 0.5), walks=True, contributions=1, local_steps=LocalSteps(sv.algorithms.atc(step_size=0.5), 3, 0.5)
    )
    found = sv.account(WALK, walk, sv.noise.gradient(GAUSSIAN), EAVESDROPPER, rounds=10, sensitivity=1.0)
    assert found.mu == pytest.approx(math.sqrt(3), rel=1e-12)


def walking(message, update, **more):
    walk = Algorithm(
        "mine", (Exchange(message, update, silent=more.pop("silent", lambda w, t: w)),), walks=True, **more
    )
    for noise in (NOISE, sv.noise.gradient(GAUSSIAN)):
        with pytest.raises(sv.UnsupportedClaim, match=r"on a walk the holder of the token makes the message.*in round"):
            sv.account(WALK, walk, noise, EAVESDROPPER, rounds=10, sensitivity=1.0)


def hand_on(w, gradient, t):
    return w


def test_on_a_walk_nobody_but_the_holder_may_act():
    """What the receiver, or agents that wait, do with their data was not counted: 1.0 stated, sqrt(2) and more true."""
    step = sv.algorithms.random_walk(step_size=0.5).exchanges[0].message
    take_ = sv.algorithms.random_walk(step_size=0.5).exchanges[0].update
    walking(hand_on, lambda w, received, gradient, t: received - 0.5 * gradient(received), contributions=1)
    walking(hand_on, take_, begin=lambda w, gradient, t: w - 0.5 * gradient(w))
    walking(step, take_, silent=lambda w, t: 1e6 * w)
    walking(step, take_, silent=None)
    walking(step, lambda w, received, gradient, t: received + w)
    walking(lambda state, gradient, t: state[0] - gradient(state[0]), lambda state, received, gradient, t: (received, state[1]),
            init=lambda w: (w, 0 * w), model=lambda state: state[0], silent=lambda state, t: state[0])  # fmt: skip


# declared local steps and clipped updates


def local(message, times: int, size: float):
    algorithm = sending(message, local_steps=LocalSteps(sv.algorithms.fedavg(step_size=size), times, size))
    return sv.account(FEDERATION, algorithm, NOISE, SERVER, rounds=12, sensitivity=1.0)


def test_local_steps_as_declared_are_accounted():
    assert local(steps(3, 0.5), 3, 0.5).mu == pytest.approx(3 * 0.5 * math.sqrt(12), rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(
    run=st.integers(2, 4), declared=st.integers(2, 4), size=st.floats(1e-6, 3.0), off=st.sampled_from([0.5, 1.0, 1.001, 3.0]),
    first=st.integers(1, 12),
)  # fmt: skip
def test_local_steps_that_are_not_as_declared_are_refused_in_whichever_round(run, declared, size, off, first):
    # From round `first` on the agent takes other steps than it declares.
    other = steps(min(run, declared), size * off)

    def message(w, gradient, t):
        return other(w, gradient, t) if t >= first else steps(declared, size)(w, gradient, t)

    if run >= declared and off == 1.0:
        assert local(message, declared, size).mu > 0
        return
    with pytest.raises(sv.UnsupportedClaim, match=r"local_steps declares .* do something else"):
        local(message, declared, size)


def clipped(update, bound: float = 1.0, norm: str = "l2"):
    clip = sv.clipping.Clip(bound, norm)
    algorithm = sending(
        lambda w, gradient, t: w + update(gradient(w), t),
        clipped_update=ClippedUpdate(sv.algorithms.fedavg(step_size=1.0), clip),
    )
    return sv.account(FEDERATION, algorithm, NOISE, SERVER, rounds=12, sensitivity=2.0 * bound)


@pytest.mark.parametrize("bound", [1e-6, 1.0, 1e6])
def test_a_clipped_update_as_declared_is_accounted(bound):
    clip = sv.clipping.Clip(bound, "l2")
    found = clipped(lambda g, t: -sv.clipping.clip_vector(g, clip), bound)
    assert found.mu == pytest.approx(2 * bound * math.sqrt(12), rel=1e-12)


@settings(max_examples=40, deadline=None)
@given(
    first=st.integers(1, 12),
    fault=st.sampled_from(["not clipped", "clipped to 1.001", "clipped per coordinate", "twice", "clipped in the other norm"]),
)  # fmt: skip
def test_an_update_that_is_not_clipped_as_declared_is_refused_in_whichever_round(first, fault):
    faults = {
        "not clipped": lambda g: g,
        "clipped to 1.001": lambda g: sv.clipping.clip_vector(g, sv.clipping.Clip(1.001, "l2")),
        "clipped per coordinate": lambda g: np.clip(g, -1, 1),
        "twice": lambda g: 2 * sv.clipping.clip_vector(g, sv.clipping.Clip(1.0, "l2")),
    }
    if fault == "clipped in the other norm":
        with pytest.raises(sv.UnsupportedClaim, match="clipped_update declares"):
            clipped(lambda g, t: -sv.clipping.clip_vector(g, sv.clipping.Clip(1.0, "l2")), norm="l1")
        return

    def update(g, t):
        return -(faults[fault](g) if t >= first else sv.clipping.clip_vector(g, sv.clipping.Clip(1.0, "l2")))

    with pytest.raises(sv.UnsupportedClaim, match=r"clipped_update declares .* norm at most 1 .* do something else"):
        clipped(update)


@pytest.mark.parametrize(("kind", "ratio"), [("consensus", 1.0), ("atc", 2.0), ("cta", 1.001), ("consensus", 2.0)])
def test_a_promise_about_local_steps_is_not_used_for_other_steps(kind, ratio):
    """Convex losses, three local steps of 1.9: 0.479 was stated for consensus and 2.35 attained, 2.91 for ATC with twice the step and 1263."""
    h = 1.9

    def total(w, gradient):
        found = gradient(w, 0)
        for step in range(1, 3):
            found = found + gradient(w - h * found, step)
        return found

    eta = ratio * h
    one = getattr(sv.algorithms, kind)(step_size=eta)
    exchange = {
        "atc": Exchange(lambda w, g, t: w - eta * total(w, g), lambda w, r, g, t: r),
        "cta": Exchange(lambda w, g, t: w, lambda w, r, g, t: r - eta * total(r, g)),
        "consensus": Exchange(lambda w, g, t: w, lambda w, r, g, t: r - eta * total(w, g)),
    }[kind]
    algorithm = Algorithm("mine", (exchange,), local_steps=LocalSteps(one, 3, h))
    question = {"rounds": 5, "sensitivity": 1.0, "unit": "record", "losses": sv.accounting.ConvexSmooth(1.0)}
    clean = sv.noise.independent(GAUSSIAN, self_noise=False)
    with pytest.raises(sv.UnsupportedClaim, match=r"the promise about losses says how far 3 local steps of 1\.9"):
        sv.account(RING, algorithm, clean, EAVESDROPPER, **question)


# agents that are not drawn


def sampled(message, update, silent, **more):
    algorithm = Algorithm("mine", (Exchange(message, update, silent=silent),), sampling=sv.algorithms.PoissonAgents(0.5),
                          needs_relay="a sample of agents", **more)  # fmt: skip
    return sv.account(FEDERATION, algorithm, NOISE, SERVER, rounds=6, sensitivity=1.0)


def take(w, received, gradient, t):
    return received


def test_a_sample_that_is_as_declared_is_accounted():
    found = sampled(lambda w, gradient, t: w - 0.5 * gradient(w), take, lambda w, t: w)
    assert found.mu == pytest.approx(0.5 * math.sqrt(6), rel=1e-12)


def test_what_a_silent_agent_leaves_must_not_be_anything_else_than_its_message_without_data():
    with pytest.raises(sv.UnsupportedClaim, match=r"not drawn are declared .* do something else"):
        sampled(lambda w, gradient, t: w - 0.5 * gradient(w), take, lambda w, t: 2.0 * w)


def test_a_sample_of_agents_that_keep_gradients_is_refused():
    """What the relay takes of a silent agent would be its private state, in clear."""

    def keep(w, received, gradient, t):
        return received - 0.5 * gradient(w)

    with pytest.raises(sv.UnsupportedClaim, match="keeps something of its gradients between rounds"):
        sampled(lambda w, gradient, t: w, keep, lambda w, t: w)


# rounds that are not linear


def test_a_gradient_normalised_in_every_tenth_round_is_not_called_linear():
    """0.775 was stated as exact, over 20 is true."""

    def message(w, gradient, t):
        g = gradient(w)
        return w - (g / np.linalg.norm(g) if t % 10 == 9 else g)  # the same on unit vectors

    with pytest.raises(sv.UnsupportedClaim, match="not linear in models and gradients in round 9 "):
        sv.account(RING, sending(message), NOISE, EAVESDROPPER, rounds=60, sensitivity=0.1)


@settings(max_examples=60, deadline=None)
@given(
    place=st.integers(1, 200),
    fault=st.sampled_from(["normalised", "clipped high", "clipped low", "per coordinate", "by the model", "by dimension"]),
    exponent=st.integers(-13, 3),
)  # fmt: skip
def test_one_round_that_is_not_linear_is_found_wherever_it_stands_and_however_small_the_step(place, fault, exponent):
    def bent(g, w):
        size = np.linalg.norm(g)
        return {
            "normalised": lambda: g / size,
            "clipped high": lambda: g * min(1.0, 1e8 / size),
            "clipped low": lambda: g * np.minimum(1.0, 1e-3 / size),
            "per coordinate": lambda: np.clip(g, -50.0, 50.0),
            "by the model": lambda: g * min(1.0, 1.0 / np.linalg.norm(w)),
            "by dimension": lambda: g * np.sum(np.ones_like(g)),
        }[fault]()

    def message(w, gradient, t):
        g = gradient(w)
        return w - 10.0**exponent * (bent(g, w) if t == place else g)

    with pytest.raises(sv.UnsupportedClaim, match=f"not linear in models and gradients in round {place} "):
        sv.account(RING, sending(message), NOISE, EAVESDROPPER, rounds=200, sensitivity=1.0)


def test_a_linear_part_whose_rest_is_no_projection_is_refused():
    """Inside every box the two agree; far outside the functions multiply models by five."""
    linear = sv.algorithms.atc(step_size=0.5)

    def message(w, gradient, t):
        w = np.where(np.abs(w) > 1.0, 5.0 * w, w)
        return w - 0.5 * gradient(w)

    with pytest.raises(sv.UnsupportedClaim, match="leaves out more than projections"):
        sv.account(RING, sending(message, linear_part=linear), NOISE, EAVESDROPPER, rounds=3, sensitivity=1.0)


def test_a_promise_is_not_used_where_only_the_point_of_the_gradient_is_projected():
    """0.3186 was stated where 0.410 is attained."""
    linear = sv.algorithms.atc(step_size=1.0)
    boxed = sending(lambda w, gradient, t: w - gradient(np.clip(w, -1.0, 1.0)), linear_part=linear)
    noise = sv.noise.graph_homomorphic(sv.noise.Gaussian(std=100.0))
    question = {"rounds": 14, "sensitivity": 1.0}
    with pytest.raises(sv.UnsupportedClaim, match="steps from another one"):
        sv.account(RING, boxed, noise, EAVESDROPPER, unit="record", losses=sv.accounting.ConvexSmooth(1.9), **question)
    assert sv.account(RING, boxed, noise, EAVESDROPPER, **question).mu > 0
    whole = sending(lambda w, gradient, t: np.clip(w, -1, 1) - gradient(np.clip(w, -1.0, 1.0)), linear_part=linear)
    assert (
        sv.account(
            RING, whole, noise, EAVESDROPPER, unit="record", losses=sv.accounting.ConvexSmooth(1.9), **question
        ).mu
        > 0
    )


def test_a_linear_part_that_differs_in_one_late_round_is_refused():
    linear = sv.algorithms.atc(step_size=0.5)

    def message(w, gradient, t):
        return np.clip(w, -1, 1) - (1.0 if t == 77 else 0.5) * gradient(w)

    with pytest.raises(sv.UnsupportedClaim, match=r"is another algorithm.*round 77"):
        sv.account(RING, sending(message, linear_part=linear), NOISE, EAVESDROPPER, rounds=100, sensitivity=1.0)


# coordinates


LAYER = np.arange(40) >= 10


@pytest.mark.parametrize(
    "step",
    [
        lambda w, g: np.concatenate([w[:10], w[10:] - 0.5 * g[10:]]), lambda w, g: w - np.where(LAYER, 1.0, 0.1) * g,
        lambda w, g: w - 0.5 * LAYER * g, lambda w, g: w - (0.5 if w.shape[-1] > 9 else 0.0) * g, lambda w, g: w - g[::-1],
        lambda w, g: w - np.cumsum(g), lambda w, g: w - np.sort(g), lambda w, g: w - np.array([1.0, 2.0]) @ g,
        lambda w, g: w - len(g) * g, lambda w, g: np.array([a - b for a, b in zip(w, g, strict=True)]), lambda w, g: w - g.reshape(-1),
        lambda w, g: w - np.asarray(g), lambda w, g: w - np.roll(g, 1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("noise", [NOISE, sv.noise.gradient(GAUSSIAN)], ids=["messages", "gradients"])
def test_functions_that_look_at_coordinates_are_refused(step, noise):
    """A frozen layer beyond the coordinates that were tried was accounted as if nothing were sent: epsilon = 0, `exact`."""
    with pytest.raises(sv.UnsupportedClaim, match="treat all coordinates alike"):
        sv.account(
            RING, sending(lambda w, gradient, t: step(w, gradient(w))), noise, EAVESDROPPER, rounds=3, sensitivity=1.0
        )


def test_a_clip_per_layer_is_no_clip_of_the_whole():
    def per_layer(g, t):
        clip = sv.clipping.Clip(1.0, "l2")
        return -np.concatenate([sv.clipping.clip_vector(part, clip) for part in np.split(g, 2)])

    with pytest.raises(sv.UnsupportedClaim, match="treat all coordinates alike"):
        clipped(per_layer)


def test_elementwise_functions_and_norms_are_no_coordinates():
    def message(w, gradient, t):
        g = gradient(w)
        return np.where(np.linalg.norm(g) >= 0, w - 0.5 * g, w) + 0.0 * np.abs(g).max() * w

    found = sv.account(RING, sending(message), NOISE, EAVESDROPPER, rounds=4, sensitivity=1.0)
    assert found.mu == pytest.approx(1.0, rel=1e-12)


# gradients of later rounds under noise in gradients


@settings(max_examples=20, deadline=None)
@given(place=st.integers(2, 40), number=st.sampled_from([0, 1, -1]))
def test_two_gradients_under_one_number_are_found_in_any_round(place, number):
    def message(w, gradient, t):
        return w - gradient(w) if t != place else w - gradient(w) + gradient(2.0 * w, number)

    said = (
        rf"several gradients in round {place} under the same number"
        if number == 0
        else rf"takes gradient number -?1 in round {place} "
    )
    with pytest.raises((sv.IncompatibleChoice, sv.ConfigError), match=said):
        sv.account(RING, sending(message), sv.noise.gradient(GAUSSIAN), EAVESDROPPER, rounds=40, sensitivity=1.0)


def test_gradients_that_count_only_when_they_are_large_are_not_free():
    """A dead zone: small gradients make no difference, so trying small ones shows nothing."""
    algorithm = sending(lambda w, gradient, t: w - np.where(np.abs(gradient(w)) > 1e5, gradient(w, 1), 0.0),
                        local_steps=LocalSteps(sv.algorithms.atc(step_size=1.0), 2, 1.0))  # fmt: skip
    found = sv.account(RING, algorithm, sv.noise.gradient(GAUSSIAN), EAVESDROPPER, rounds=4, sensitivity=1.0)
    assert found.mu == pytest.approx(math.sqrt(8), rel=1e-12)


# schemes known by name


def test_a_scheme_that_borrows_a_name_is_not_accounted_on_random_links():
    topology = sv.topologies.ring(6).with_dropout(0.3)
    borrowed = sv.noise.none()._replace(name="independent", law=GAUSSIAN)
    with pytest.raises(sv.UnsupportedClaim, match="links drawn at random"):
        sv.account(topology, sv.algorithms.atc(step_size=0.1), borrowed, EAVESDROPPER, rounds=3, sensitivity=1.0)
    honest = sv.account(topology, sv.algorithms.atc(step_size=0.1), NOISE, EAVESDROPPER, rounds=3, sensitivity=1.0)
    assert math.isfinite(honest.mu)
