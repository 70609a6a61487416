"""Random things to play: user algorithms, networks, schemes and laws for hypothesis, with data and questions that fit them."""

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

import sottovoce as sv
from accounting import user_algorithms as own
from accounting.two_worlds import Data, Parts, all_signs

RING = sv.topologies.ring(4)
UNEVEN = sv.topologies.from_matrix(np.array([[0.5, 0.2, 0.1], [0.3, 0.7, 0.3], [0.2, 0.1, 0.6]]))
LISTED = RING.with_schedule([RING.matrix, 0.5 * (RING.matrix + np.eye(4))])
HUB = sv.topologies.federation(4)
PEERS = (RING, UNEVEN, LISTED)

PEER_SCHEMES = {
    "self": sv.noise.independent,
    "clean": lambda law: sv.noise.independent(law, self_noise=False),
    "edge": lambda law: sv.noise.independent(law, per_edge=True),
    "homomorphic": sv.noise.graph_homomorphic,
    "gopa": lambda law: sv.noise.gopa(law, pairwise_std=1.5),
    "gradient": sv.noise.gradient,
}
LAWS = {
    "gaussian": lambda size: sv.noise.Gaussian(std=size),
    "laplace": lambda size: sv.noise.Laplace(std=size),
    "l2": lambda size: sv.noise.L2Laplace(scale=size),
}
PROMISES = ("record", "convex record", "convex agent", "strongly convex record")
HUB_SCHEMES = {"self": sv.noise.independent, "central": sv.noise.central, "gradient": sv.noise.gradient}


class Step(NamedTuple):
    """A step size by its kind, so that an example prints what it is."""

    kind: str
    size: float

    def of(self):
        a = self.size
        return {
            "constant": a,
            "one over t": lambda t: a / t,
            "fast": lambda t: a / (1 + t**2),
            "geometric": lambda t: a * 0.7**t,
            "cyclic": lambda t: a * (1 + t % 2),
            "growing": lambda t: a * t,
        }[self.kind]

    def largest(self, rounds):
        made = self.of()
        return max(made(t) for t in range(1, rounds + 1)) if callable(made) else made


STEPS = ("constant", "one over t", "fast", "geometric", "cyclic", "growing")


class Example(NamedTuple):
    """Everything about one play but the numbers in its data."""

    family: str
    parts: Parts
    dimension: int
    clip: float | None  # of whole updates
    beta: float  # a smoothness for which all steps are short enough
    seed: int  # of the data
    promise: str  # which promise is tried beside no promise

    @property
    def numbers(self):
        return self.parts.algorithm.gradients_per_round


def examples(family):
    """Random examples of a family. Each is made from one number, so that they differ in everything at once."""
    return st.integers(0, 2**32 - 1).map(lambda seed: example(family, seed))


def example(family, seed):
    """The example of a family with this number."""
    rng = np.random.default_rng([seed, sorted(FAMILIES).index(family)])  # other choices in every family
    rounds = int(rng.integers(2, 5))
    algorithm, clip, largest = FAMILIES[family](rng, rounds)
    topology = (*PEERS, HUB)[rng.integers(4)]
    schemes = HUB_SCHEMES if topology.relay else PEER_SCHEMES
    scheme, law = rng.choice(sorted(schemes)), rng.choice(["gaussian", "gaussian", "laplace", "l2"])
    if scheme == "gopa" and law == "l2":  # no such scheme
        law = "laplace"
    if family == "clipped" and scheme == "gradient":  # noise that is clipped makes records that are not affine in it
        scheme = "self"
    noise, schedule = schemes[scheme](LAWS[law](float(rng.uniform(0.3, 2.0)))), rng.integers(4)
    if schedule == 0:
        noise = noise.scaled(rng.uniform(0.5, 2.0, size=rounds).tolist())
    if schedule == 1:
        noise = noise.scaled(lambda t: 1.0 / t**0.5)
    return Example(
        family=family, parts=Parts(topology, algorithm, noise, rounds), dimension=1 if law == "l2" else int(rng.integers(1, 3)),
        clip=clip, beta=1.0 / largest, seed=seed, promise=str(rng.choice(PROMISES)),
    )  # fmt: skip


def _stepping(make):
    def made(rng, rounds):
        step = Step(str(rng.choice(STEPS)), float(rng.uniform(0.1, 0.9)))
        return make(step.of(), rng), None, step.largest(rounds)

    return made


def _clipped(rng, rounds):
    bound, step = float(rng.uniform(0.2, 2.0)), Step(str(rng.choice(STEPS)), float(rng.uniform(0.1, 0.9)))
    return own.clipped(step.of(), sv.clipping.Clip(bound, "l2")), bound, 1.0


def _linear(rng, rounds):
    sent, kept = rng.uniform(-1.0, 1.0, size=(rng.integers(1, 3), 4)), rng.uniform(-1.0, 1.0, size=(2, 5))
    sent[0, 3] = 0.0  # nothing was received before
    at, shown = (1.0, float(rng.uniform(-1.0, 1.0))), rng.uniform(-1.0, 1.0, size=2)
    return own.general(float(rng.uniform(0.0, 0.5)), at, sent, kept, shown), None, 1.0


FAMILIES = {
    "atc": _stepping(lambda step, rng: own.adapt_then_combine(step)),
    "cta": _stepping(lambda step, rng: own.combine_then_adapt(step)),
    "consensus": _stepping(lambda step, rng: own.beside(step)),
    "tracking": _stepping(lambda step, rng: own.tracking(step)),
    "momentum": _stepping(lambda step, rng: own.momentum(step, float(rng.uniform(0.1, 0.9)))),
    "averaging": _stepping(lambda step, rng: own.several_exchanges(step, int(rng.integers(2, 4)))),
    "local": _stepping(lambda step, rng: own.local(step, int(rng.integers(2, 4)))),
    "box": _stepping(lambda step, rng: own.boxed(step, 1e4)),
    "clipped": _clipped,
    "linear": _linear,
}


def observers(topology):
    """Those outside of which agent 0 is."""
    if topology.relay:
        listening = [sv.observers.server(), sv.observers.server() + sv.observers.coalition([1, 2])]
    else:
        listening = [
            sv.observers.eavesdropper(), sv.observers.coalition([1, 2]), sv.observers.links([(0, 1)]),
            sv.observers.eavesdropper() + sv.observers.final_model(),
        ]  # fmt: skip
    return [*listening, sv.observers.curious_agent(2), sv.observers.final_model()]


def plays(example):
    """(data, questions) of two kinds: agents without a promise, and one of the others."""
    rng = np.random.default_rng(example.seed)
    kinds = ["agent"] if example.clip is not None else ["agent", example.promise]
    return [_play(example, kind, rng) for kind in kinds]


def _play(example, kind, rng):
    (topology, _, noise, rounds), d, L = example.parts, example.dimension, example.numbers
    K, size = topology.num_agents, float(rng.uniform(0.5, 2.0))
    middle = rng.normal(size=(K, rounds, 2 * L, d))
    middle[0] = middle[0, 0, 0]  # any two gradients of agent 0 are within the sensitivity
    axis = rng.normal(size=d)
    axis /= np.abs(axis).sum() if noise.law.norm == "l1" else np.linalg.norm(axis)
    response, promise = rng.uniform(-1.0, 1.0, size=(K, d, d)), {}
    if kind == "agent":
        response[0] = 0.0
    if example.clip is not None or example.family == "box":
        response, middle[0] = 0.0 * response, 0.0
    if "convex" in kind:
        nu = 0.4 * example.beta if "strongly" in kind else 0.0
        response = np.stack([_between(rng, nu, example.beta, d) for _ in range(K)])
        promise = {"losses": sv.accounting.ConvexSmooth(example.beta * (1 + 1e-12), nu * (1 - 1e-12))}
    question = {"unit": "record" if "record" in kind else "agent", "sensitivity": size, **promise}
    if kind == "convex agent":
        question["same_model"] = True
    if example.clip is not None:
        question["sensitivity"], size = 2.0 * example.clip, 1e6
    changes = all_signs(rounds, axis, size=size, numbers=L)
    asked = [(observer, question) for observer in observers(topology)]
    return Data(0, middle, changes, response), asked


def _between(rng, low, high, d):
    """A symmetric matrix with eigenvalues in [low, high], often at the ends."""
    turned, _ = np.linalg.qr(rng.normal(size=(d, d)))
    return turned @ np.diag(rng.choice([low, high, rng.uniform(low, high)], size=d)) @ turned.T
