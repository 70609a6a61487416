"""Arrays of another shape than the model's are refused where they would be broadcast: in the simulator and in linear forms."""

import dataclasses

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.algorithms import ALGORITHMS, Algorithm, Exchange
from sottovoce.linear import check_shapes, linear_round

RING, NOISE = sv.topologies.ring(4), sv.noise.independent(sv.noise.Gaussian(std=0.1))
PROBLEM = sv.problems.linear_regression(np.ones((4, 3, 2)), np.ones((4, 3)), ridge=0.1)


def stepped(w, gradient, round_):
    return w - 0.1 * gradient(w)


def kept(w, received, gradient, round_):
    return received


SMALLER = {
    "message": {"exchanges": (Exchange(lambda w, g, t: stepped(w, g, t)[:1], kept),)},
    "message of no axis": {"exchanges": (Exchange(lambda w, g, t: stepped(w, g, t).sum(), kept),)},
    "update": {"exchanges": (Exchange(stepped, lambda w, received, g, t: received[:1]),)},
    "the point at which a gradient is taken": {"exchanges": (Exchange(lambda w, g, t: w - 0.1 * g(w[:1]), kept),)},
    "begin": {"exchanges": (Exchange(stepped, kept),), "begin": lambda w, g, t: w[:1]},
    "init": {"exchanges": (Exchange(lambda w, g, t: w, kept),), "init": lambda w: w[:1]},
    "model": {"exchanges": (Exchange(stepped, kept),), "model": lambda w: w[:1]},
}


@pytest.mark.parametrize("what", SMALLER)
def test_what_would_be_broadcast_is_refused_everywhere(what):
    algorithm = Algorithm("mine", **SMALLER[what])
    message = rf"{what.split(' of no')[0]} of 'mine' has shape \((1,)?\) for a model of shape \((2|7),\)"
    eve = sv.observers.eavesdropper()
    for call in (
        lambda: sv.simulate(PROBLEM, RING, algorithm, NOISE, rounds=2, progress=False),
        lambda: sv.observe(PROBLEM, RING, algorithm, NOISE, eve, rounds=2),
        lambda: linear_round(algorithm, 1),
        lambda: sv.expected_msd(PROBLEM, RING, algorithm, NOISE, rounds=2),
    ):
        with pytest.raises(sv.ConfigError, match=message):
            call()


def test_a_gradient_of_another_shape_is_refused():
    @dataclasses.dataclass(frozen=True)
    class Short:
        whole: object = PROBLEM

        def __getattr__(self, name):
            return getattr(PROBLEM, name)

        def gradient(self, model, data):
            return PROBLEM.gradient(model, data)[:1]

        def batch_gradient(self, model, records):
            return PROBLEM.batch_gradient(model, records)[:1]

    for batch_size in (None, 2):
        with pytest.raises(
            sv.ConfigError, match=r"the gradient of 'linear_regression' has shape \(1,\) for a model of"
        ):
            sv.simulate(
                Short(), RING, sv.algorithms.atc(step_size=0.1), NOISE, rounds=1, batch_size=batch_size, progress=False
            )


def test_a_vector_of_constants_as_long_as_the_model_still_simulates():
    steps = np.array([0.1, 0.2])
    algorithm = Algorithm("scaled", (Exchange(lambda w, g, t: w - steps * g(w), kept),))
    sv.simulate(PROBLEM, RING, algorithm, NOISE, rounds=2, progress=False)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_our_own_algorithms_pass(name):
    options = {
        "three_matrix": {"first": None, "second": None, "third": None, "step_size": 0.1},
        "dgd": {"step_size": 0.1, "gradient_rounds": 2},
        "inexact_admm": {"penalty": 1.0},
        "gossip": {},
        "ring_sum": {},
        "muffliato": {"step_size": 0.1, "gossip_steps": 2},
        "fedavg": {"step_size": 0.1, "local_steps": 2},
    }.get(name, {"step_size": 0.1})
    try:
        algorithm = ALGORITHMS[name](**options)
    except TypeError:
        pytest.skip("needs matrices of its own")
    for round_ in (1, 2, 5):
        check_shapes(algorithm, round_)
