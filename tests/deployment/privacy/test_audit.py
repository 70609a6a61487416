"""A likelihood-ratio attack on the words that the agent's own functions make, in both worlds: it stays below the claim, and finds halved noise."""

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import beta

import sottovoce as sv
from deployment.privacy.two_worlds import gaussian_pmf
from sottovoce.deployment.agent import Wiring, own_of, prepare, start, take
from sottovoce.deployment.integers import Lattice, RoundedGaussian, ring, signed
from sottovoce.deployment.privacy import deployed_guarantee, gradient_arithmetic
from sottovoce.deployment.terms import PublicCoin, PublicRun

K, D, ROUNDS, BITS = 4, 2, 6, 9
LATTICE = Lattice(BITS)
STEP, CLIP, STD = 0.3, 0.4, 0.5  # noise of 256 units
COIN = PublicCoin(bytes(32))


def world(sign):
    """All points of agent 0 far out to one side, so that its gradients are clipped there."""
    points = np.zeros((K, 3, D))
    points[0] = 9.0 * sign
    return sv.problems.mean_estimation(points, radius=10.0).with_clipping(CLIP, "l2")


def public(noise, algorithm):
    return PublicRun(
        topology=sv.topologies.ring(K),
        algorithm=algorithm,
        noise=noise,
        rounds=ROUNDS,
        batch_size=None,
        initial_model=np.zeros(D),
    )


class Given:
    """Sources that are handed over."""

    def __init__(self, drawn):
        self.drawn = drawn

    def source(self, position, source, scale):
        return self.drawn


class Agent:
    """Agent 0, driven by its own functions; the others always send the same words."""

    def __init__(self, run, sign):
        self.wiring = Wiring(run, LATTICE, COIN)
        self.own = own_of(world(sign), 0)
        self.state = start(run, LATTICE)

    def message(self, position):
        made = prepare(self.wiring, 0, self.own, self.state, position, Given(np.zeros(D, dtype=np.int64)), None)
        return signed(next(iter(made.words.values())))

    def send(self, position, noise):
        made = prepare(self.wiring, 0, self.own, self.state, position, Given(noise), None)
        others = {k: ring(np.full(D, 2 * k + position, dtype=np.int64)) for k in self.wiring.senders(0, position)}
        self.state = take(self.wiring, 0, self.own, made.state, position, made.held, others)
        return signed(next(iter(made.words.values())))


def log_ratio(run, sign, generator, factor):
    """The log likelihood ratio of one run in the world `sign`, with noise of `factor` times its size."""
    law = RoundedGaussian(std=factor * STD / LATTICE.unit)
    here, there = Agent(run, sign), Agent(run, -sign)
    pmf, total = gaussian_pmf(STD / LATTICE.unit), 0.0
    for position in range(run.end):
        noise = law.from_words(generator.integers(0, 2**64, size=(D, 2), dtype=np.uint64))
        other = there.message(position)
        word = here.send(position, noise)
        assert (there.send(position, word - other) == word).all()  # the same words, from other noise
        total += float(
            np.log(np.maximum(pmf(noise), 1e-300)).sum() - np.log(np.maximum(pmf(word - other), 1e-300)).sum()
        )
    return sign * total


def attacked(run, factor=1.0, times=400):
    """A lower bound on mu at 99.9 % confidence: the worlds are mirror images, so the test guesses by the sign of the ratio."""
    generator = np.random.default_rng(17)
    hits, falses = (sum(log_ratio(run, sign, generator, factor) > 0 for _ in range(times)) for sign in (1, -1))
    least = beta.ppf(0.0005, hits, times - hits + 1)
    most = beta.ppf(0.9995, falses + 1, times - falses)
    return float(ndtri(least) - ndtri(most))


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["self", "clean", "homomorphic"])
def test_an_attack_on_real_words_stays_below_the_claim_and_finds_halved_noise(scheme):
    law = sv.noise.Gaussian(std=STD)
    noise = {
        "self": sv.noise.independent(law),
        "clean": sv.noise.independent(law, self_noise=False),
        "homomorphic": sv.noise.graph_homomorphic(law),
    }[scheme]
    # Steps so small that both kinds of errors occur among so few runs, whatever the scheme gives away.
    run = public(noise, sv.algorithms.atc(step_size={"self": STEP, "clean": 0.2, "homomorphic": 0.07}[scheme]))
    problem = world(1)
    claim = deployed_guarantee(
        run, agent=0, sensitivity=problem.sensitivity(unit="agent", adjacency="replace", norm="l2"),
        arithmetic=gradient_arithmetic(problem, batch_size=None), fraction_bits=BITS, collude="all", relay_trusted=False, released_to="own",
        losses=None, unit="agent", adjacency="replace",
    )  # fmt: skip
    mu = claim.cost.value
    assert 1.0 < mu < 2.0
    attained = attacked(run)
    assert attained <= mu
    assert attained > 0.4 * mu  # the attack is worth something
    assert attacked(run, factor=0.5) > mu


def test_the_words_of_the_agent_are_those_of_the_protocol_that_was_accounted():
    """One agent's states, recomputed from the words alone as docs/guarantees.md has them."""
    law = sv.noise.Gaussian(std=STD)
    for noise, factor in (
        (sv.noise.independent(law), 1.0), (sv.noise.independent(law, self_noise=False), 0.0), (sv.noise.graph_homomorphic(law), -2.0),
    ):  # fmt: skip
        run = public(noise, sv.algorithms.cta(step_size=STEP))
        agent, generator = Agent(run, 1), np.random.default_rng(3)
        weight = float(run.topology.self_weights[0])
        state = np.zeros(D, dtype=np.int64)
        for position in range(run.end):
            drawn = generator.integers(-20, 20, size=D)
            word = agent.send(position, drawn)
            assert (word == state + drawn).all()
            own = state + np.rint(factor * drawn).astype(np.int64)
            others = sum(
                float(run.topology.matrix[k, 0]) * (2 * k + position) for k in agent.wiring.senders(0, position)
            )
            received = LATTICE.unit * (weight * own + others)
            gradient = agent.own.gradient(received, None)
            state = LATTICE.to_units(received - STEP * gradient)
            assert np.abs(agent.state - state).max() <= 1  # a unit where float64 adds up in another order
            state = agent.state
