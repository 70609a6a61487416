"""Noise of unequal factors in whole numbers: sums over all words, the stated guarantee, and an attack on the words that agents really send."""

from itertools import product

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import beta

import sottovoce as sv
from deployment.privacy.two_worlds import gaussian_pmf, hockey_stick
from sottovoce.accounting import gaussian
from sottovoce.accounting.gopa.imperfect_noise import ChargedTradeoff, Way
from sottovoce.accounting.gopa.integers import largest_precision, shared_noise_total_variation
from sottovoce.deployment.agent import Wiring, own_of, prepare, start, take
from sottovoce.deployment.integers import Lattice, RoundedGaussian, signed
from sottovoce.deployment.privacy import choose_fraction_bits, deployed_guarantee, gradient_arithmetic
from sottovoce.deployment.terms import PublicCoin, PublicRun, in_whole_multiples

K, D, ROUNDS, STEP, CLIP, BITS = 4, 2, 4, 0.3, 0.4, 16
RING = sv.topologies.ring(K)
ATC = sv.algorithms.atc(step_size=STEP)
COMPUTED = sv.noise.designed(
    sv.noise.Gaussian(std=0.25),
    own=[0.62, 0.8, 0.54, 1.0],
    pairs=[(0, 1), (1, 2), (2, 3), (0, 3)],
    factors=[(1.2, -0.83), (0.9, -1.1), (0.713, -0.456), (-1.4, 0.377)],
)
NOISE = in_whole_multiples(COMPUTED)


# Sums over all words of two agents, one coordinate, one round: agent 0 sends x + A + k_0 X, agent 1 B + k_1 X.


def two_agents(own, size, multiples, change):
    """The probabilities of all pairs of words in the two worlds x = 0 and x = change."""
    window = np.arange(-90, 91)
    draws = np.arange(-int(8 * size), int(8 * size) + 1)
    weight = gaussian_pmf(size)(draws)
    second = gaussian_pmf(own[1])(window[:, None] - multiples[1] * draws)  # [words, draws]

    def world(x):
        first = gaussian_pmf(own[0])(window[:, None] - x - multiples[0] * draws)
        return (first * weight) @ second.T

    return world(0), world(change)


CASES = [
    ((3.0, 4.0), 2.5, (2, -3), 2),
    ((1.6, 1.6), 2.0, (2, -3), 1),
    ((1.3, 2.0), 3.0, (2, -1), 1),
    ((2.2, 1.8), 1.5, (3, 2), 3),
    ((0.5, 0.5), 3.0, (3, -2), 1),
    ((1.0, 1.0), 3.0, (4, -5), 1),
]


@pytest.mark.parametrize(("own", "size", "multiples", "change"), CASES)
def test_no_pair_of_words_tells_more_than_the_exact_sums_and_the_total_variation(own, size, multiples, change):
    first, second = two_agents(own, size, multiples, change)
    k = np.array(multiples, dtype=float)
    S = np.diag(np.array(own) ** 2) + size**2 * np.outer(k, k)
    mu = change * np.sqrt(np.linalg.inv(S)[0, 0])
    tau = shared_noise_total_variation(
        largest_precision(np.array(own), np.array([size]), k[:, None]), pairs=1, dimension=1
    )
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0):
        found = hockey_stick(first, second, epsilon)
        assert found <= ChargedTradeoff((Way(mu, tau),)).delta(epsilon) + 1e-12
    if min(own) > 2.9:  # own noise fills the gaps: nothing to be paid
        assert tau < 1e-6


@pytest.mark.parametrize(("own", "size", "multiples", "change"), CASES[-2:])
def test_gaps_that_own_noise_does_not_fill_would_make_the_uncharged_claim_false(own, size, multiples, change):
    first, second = two_agents(own, size, multiples, change)
    k = np.array(multiples, dtype=float)
    S = np.diag(np.array(own) ** 2) + size**2 * np.outer(k, k)
    mu = change * np.sqrt(np.linalg.inv(S)[0, 0])
    assert hockey_stick(first, second, 1.0) > 1.5 * gaussian.delta(mu, 1.0)


def test_the_total_variation_is_above_the_sum_that_it_bounds():
    """Poisson's sum over whole vectors, term by term, for two pairs that share an agent."""
    own, masks = np.array([3.0, 2.5, 4.0]), np.array([2.0, 3.0])
    whole = np.array([[2.0, 0.0], [-1.0, 3.0], [0.0, -2.0]])
    inverse = np.diag(masks**-2.0) + whole.T @ np.diag(own**-2.0) @ whole
    C = np.linalg.inv(inverse)
    terms = [np.array(z) for z in product(range(-6, 7), repeat=2) if any(z)]
    direct = sum(np.exp(-2 * np.pi**2 * z @ C @ z) for z in terms)
    stated = shared_noise_total_variation(largest_precision(own, masks, whole), pairs=2, dimension=1)
    assert direct <= stated < 100 * direct
    assert shared_noise_total_variation(largest_precision(own * [1, 0, 1], masks, whole), pairs=2, dimension=1) == 1.0


# What is stated of a run, beside what the accountant says of real numbers.


def world(sign):
    """All points of agent 0 far out to one side, so that its gradients are clipped there."""
    points = np.zeros((K, 3, D))
    points[0] = 9.0 * sign
    return sv.problems.mean_estimation(points, radius=10.0).with_clipping(CLIP, "l2")


def public(noise):
    return PublicRun(
        topology=RING, algorithm=ATC, noise=noise, rounds=ROUNDS, batch_size=None, initial_model=np.zeros(D)
    )


PROBLEM = world(1)
CHANGE = PROBLEM.sensitivity(unit="agent", adjacency="replace", norm="l2")
ASKED = dict(
    sensitivity=CHANGE, arithmetic=gradient_arithmetic(PROBLEM, batch_size=None), relay_trusted=False, released_to="own",
)  # fmt: skip


def deployed(noise, collude, *, bits=BITS, agent=0):
    return deployed_guarantee(
        public(noise), agent=agent, fraction_bits=bits, collude=collude, losses=None, unit="agent", adjacency="replace", **ASKED
    )  # fmt: skip


def exact(noise, observer, agent=0):
    question = {"rounds": ROUNDS, "sensitivity": CHANGE, "unit": "agent", "adjacency": "replace", "agent": agent}
    return float(sv.account(RING, ATC, noise, observer, **question).mu)


@pytest.mark.parametrize("agent", range(K))
@pytest.mark.parametrize("collude", [1, 2, "all"])
def test_the_guarantee_among_parties_is_that_of_real_numbers_and_the_rounding(agent, collude):
    found = deployed(NOISE, collude, agent=agent)
    others = [k for k in range(K) if k != agent]
    size = len(others) if collude == "all" else collude
    coalitions = [set(one) for one in product(others, repeat=size) if len(set(one)) == size]
    for noise in (COMPUTED, NOISE):
        mu = max(exact(noise, sv.observers.coalition(tuple(one)), agent) for one in coalitions)
        enlarged = mu * (1 + found.rounding) * (1 + found.floating_point)
        assert mu < found.cost.value
        assert found.cost.value == pytest.approx(enlarged, rel=1e-8 if noise is NOISE else 1e-5)
        # Whole multiples hide no less than what was computed; a thousandth of it is 2^-10 of an account's last digits.
        assert found.cost.value <= enlarged * (1 + 3e-9)
    assert 0 < found.rounding < 1e-3
    assert found.total_variation < 1e-28


def test_a_coarse_lattice_is_paid_for_and_a_chosen_one_costs_nothing():
    fine = choose_fraction_bits(public(NOISE), agent=0, collude=1, **ASKED)
    smallest = min(NOISE.parameters["own"]) * NOISE.std
    assert 2.0**20 <= smallest * 2.0**fine < 2.0**28
    assert deployed(NOISE, 1, bits=fine).total_variation < 1e-25
    # Draws of pairs are multiplied by up to 4096, and own noise of some hundred units leaves gaps between these.
    assert deployed(NOISE, 1, bits=11).total_variation == 1.0
    assert deployed(NOISE, 1, bits=11).guarantee.epsilon(1e-5) == np.inf


def test_whoever_knows_a_source_is_not_charged_for_it():
    """Against all others only own noise is left, whose rounding is post-processing, at any resolution."""
    assert deployed(NOISE, "all", bits=11).total_variation < 1e-28


# An attack on the words of all agents, made by their own functions.


class Draws:
    """Whole numbers of one exchange, the same at both ends of a pair; `weaker` multiplies what pairs share, or everything."""

    def __init__(self, generator, pairs_by, own_by):
        self.generator, self.pairs_by, self.own_by, self.known = generator, pairs_by, own_by, {}

    def _drawn(self, number, scale):
        if number not in self.known:
            words = self.generator.integers(0, 2**64, size=(D, 2), dtype=np.uint64)
            self.known[number] = RoundedGaussian(std=scale).from_words(words)
        return self.known[number]

    def source(self, position, source, scale):
        return self._drawn((position, source), self.own_by * scale)

    def shared(self, position, source, other, scale):
        return self._drawn((position, source), self.pairs_by * scale)


class Silent:
    def source(self, position, source, scale):
        return np.zeros(D, dtype=np.int64)

    def shared(self, position, source, other, scale):
        return np.zeros(D, dtype=np.int64)


WIRING = Wiring(public(NOISE), Lattice(BITS), PublicCoin(bytes(32)))
OWNS = {sign: [own_of(world(sign), k) for k in range(K)] for sign in (1, -1)}


def sent(agent, sign, state, position, draws):
    """What an agent of one world makes of its state."""
    return prepare(WIRING, agent, OWNS[sign][agent], state, position, draws, None)


def word(made):
    return signed(next(iter(made.words.values())))


def transcript(sign, generator, pairs_by, own_by):
    """[T, K, d] how far the words are from the middle of the two worlds, and what was drawn, in units."""
    draws, silent, found = Draws(generator, pairs_by, own_by), Silent(), []
    states = [start(WIRING.run, WIRING.lattice) for _ in range(K)]
    for position in range(WIRING.run.end):
        made = [sent(k, sign, states[k], position, draws) for k in range(K)]
        clear = np.stack([word(sent(k, sign, states[k], position, silent)) for k in range(K)]).astype(float)
        clear[0] = (clear[0] + word(sent(0, -sign, states[0], position, silent))) / 2
        found.append(np.stack([word(one) for one in made]) - clear)
        for k in range(K):
            heard = {other: made[other].words[k] for other in WIRING.senders(k, position)}
            states[k] = take(WIRING, k, OWNS[sign][k], made[k].state, position, made[k].held, heard)
    return np.stack(found), draws.known


def attacked(members, *, pairs_by=1.0, own_by=1.0, times=300):
    """A lower bound on mu at 99.9 % confidence, for members who take off what they know, and test for the direction of agent 0's gradient."""
    held = NOISE.parameters
    honest = [k for k in range(K) if k not in members]
    S = np.diag((own_by * np.array(held["own"])) ** 2)
    known = np.zeros((K, len(held["pairs"])))
    for e, ((i, j), (a, b)) in enumerate(zip(held["pairs"], held["factors"], strict=True)):
        size = np.gcd.reduce([int(abs(each) * 2.0**60) for each in (a, b)]) / 2.0**60
        c = np.zeros(K)
        c[i], c[j] = a, b
        if {i, j} & set(members):
            known[:, e] = c / size
        else:
            S += pairs_by**2 * np.outer(c, c)
    weights = np.zeros(K)
    weights[honest] = np.linalg.solve(S[np.ix_(honest, honest)], np.eye(len(honest))[honest.index(0)])
    generator = np.random.default_rng(11)

    def points(sign):
        apart, drawn = transcript(sign, generator, pairs_by, own_by)
        for t in range(len(apart)):
            for e in np.flatnonzero(known.any(axis=0)):
                apart[t] -= np.outer(known[:, e], drawn[t, int(e)])
        return float((weights @ apart).sum())

    hits, falses = (sum(points(sign) > 0 for _ in range(times)) for sign in (1, -1))
    return float(ndtri(beta.ppf(0.0005, hits, times - hits + 1)) - ndtri(beta.ppf(0.9995, falses + 1, times - falses)))


@pytest.mark.slow
@pytest.mark.parametrize("members", [(), (3,)])
def test_an_attack_on_real_words_stays_below_the_claim_and_finds_weaker_factors(members):
    observer = sv.observers.coalition(members) if members else sv.observers.eavesdropper()
    claim = exact(NOISE, observer) * (1 + deployed(NOISE, 1).rounding)
    if members:
        assert deployed(NOISE, 1).cost.value == pytest.approx(claim, rel=1e-6)  # no other agent alone learns as much
    attained = attacked(members)
    assert 0.4 * claim < attained <= claim
    assert attacked(members, pairs_by=0.5, own_by=0.5) > claim
