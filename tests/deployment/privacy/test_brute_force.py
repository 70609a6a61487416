"""The stated guarantee against the exact divergence of the integer protocol, on lattices so coarse that rounding decides."""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sottovoce as sv
from deployment.privacy.two_worlds import Protocol, gaussian_pmf, hockey_stick, laplace_pmf, played, transcripts
from sottovoce.deployment.integers import Lattice
from sottovoce.deployment.privacy import Cost, GradientArithmetic, deployed_guarantee
from sottovoce.deployment.privacy.accounted import Accounted
from sottovoce.deployment.terms import PublicRun
from sottovoce.problems import Sensitivity

BITS = 2
UNIT = 2.0**-BITS
RING = sv.topologies.ring(4)
OWN = float(RING.self_weights[0])  # 1/3
OWN_FACTOR = {"self": 1.0, "clean": 0.0, "homomorphic": -(1 - OWN) / OWN}
ALGORITHMS = {"atc": sv.algorithms.atc, "cta": sv.algorithms.cta, "consensus": sv.algorithms.consensus}
STD = 3.0  # units
WINDOW = np.arange(-26, 27)
EPSILONS = (0.0, 0.3, 1.0, 2.0)


def scheme(name, law):
    if name == "homomorphic":
        return sv.noise.graph_homomorphic(law)
    return sv.noise.independent(law, self_noise=name == "self")


@cache
def claimed(algorithm, name, *, law="gaussian", rounds, clip, dimension=1, step=1.0):
    """The deployed guarantee of gradients of norm at most `clip` units."""
    kind = sv.noise.Gaussian if law == "gaussian" else sv.noise.Laplace
    noise = scheme(name, kind(std=STD * UNIT))
    run = PublicRun(
        topology=RING, algorithm=ALGORITHMS[algorithm](step_size=step), noise=noise, rounds=rounds, batch_size=None,
        initial_model=np.zeros(dimension),
    )  # fmt: skip
    sensitivity = Sensitivity(
        2 * clip * UNIT, unit="agent", adjacency="replace", norm=noise.law.norm, compares="any two models"
    )
    return deployed_guarantee(
        run, agent=0, sensitivity=sensitivity, arithmetic=GradientArithmetic(terms=1, added=0.0), fraction_bits=BITS,
        collude="all", relay_trusted=False, released_to="own", losses=None, unit="agent", adjacency="replace",
    )  # fmt: skip


def uncharged(found):
    """The mu or epsilon of the same account at the sensitivity of real numbers."""
    return found.cost.value / (1 + found.rounding) / (1 + found.floating_point)


def without_charge(found, epsilon):
    """Its delta."""
    return Cost(kind=found.cost.kind, value=uncharged(found)).delta(epsilon)


def telling(found):
    """An epsilon at which the account without charge allows little: nothing at all beyond a pure epsilon."""
    return 0.3 if found.cost.kind == "gaussian" else 1.05 * uncharged(found)


def noise_law(law):
    return gaussian_pmf(STD) if law == "gaussian" else laplace_pmf(STD / math.sqrt(2))


def divergence(algorithm, name, *, law="gaussian", rounds, clip, others=0.0, step=1.0, epsilons=EPSILONS):
    """The exact deltas of gradients that pull as far apart as they may."""
    protocol = Protocol(
        ALGORITHMS[algorithm](step_size=step),
        Lattice(BITS),
        OWN,
        OWN_FACTOR[name],
        lambda t: others,
        noise_law(law),
        rounds,
        WINDOW,
    )
    size = clip * UNIT
    worlds = [transcripts(protocol, lambda w, t, sign=sign: sign * size * np.ones_like(w)) for sign in (-1, 1)]
    return [hockey_stick(*worlds, epsilon) for epsilon in epsilons]


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("name", OWN_FACTOR)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_exact_divergence_of_two_rounds_stays_below_the_claim(algorithm, name, law):
    for clip in (0.3, 0.51, 1.01):
        found = claimed(algorithm, name, law=law, rounds=2, clip=clip)
        for others in (0.0, 0.34, 0.5, 0.67):
            exact = divergence(algorithm, name, law=law, rounds=2, clip=clip, others=others)
            for epsilon, delta in zip(EPSILONS, exact, strict=True):
                assert delta <= found.guarantee.delta(epsilon) + 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("name", OWN_FACTOR)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_exact_divergence_of_three_rounds_stays_below_the_claim(algorithm, name, law):
    for clip in (0.3, 0.51, 0.75, 1.01):
        found = claimed(algorithm, name, law=law, rounds=3, clip=clip)
        for others in (0.0, 0.17, 0.34, 0.5, 0.67):
            exact = divergence(algorithm, name, law=law, rounds=3, clip=clip, others=others)
            for epsilon, delta in zip(EPSILONS, exact, strict=True):
                assert delta <= found.guarantee.delta(epsilon) + 1e-12


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("name", OWN_FACTOR)
def test_without_the_charge_the_claim_would_be_false(name, law):
    found = claimed("atc", name, law=law, rounds=2, clip=0.51)
    at = telling(found)
    (exact,) = divergence("atc", name, law=law, rounds=2, clip=0.51, epsilons=(at,))
    assert exact > 1.5 * without_charge(found, at) + 1e-3
    assert exact > 0.25 * found.guarantee.delta(at)  # and the charge is not much more than is needed


def test_a_clean_own_copy_needs_the_roundings_of_received_states_too():
    """With one rounding a round, as self-noise has, the account of two rounds without self-noise would be false."""
    step = 2 * 0.51
    needed = 0.0
    for others in np.linspace(0, 1, 13):
        protocol = Protocol(
            ALGORITHMS["atc"](step_size=1.0),
            Lattice(BITS),
            OWN,
            0.0,
            lambda t, o=others: o,
            gaussian_pmf(STD),
            2,
            WINDOW,
        )
        worlds = [
            transcripts(protocol, lambda w, t, sign=sign: sign * 0.51 * UNIT * np.ones_like(w)) for sign in (-1, 1)
        ]
        needed = max(needed, hockey_stick(*worlds, 0.3))
    first, second = step + 1, OWN * (step + 1) + step + 1
    short = Cost.gaussian(math.hypot(first, second) / STD)
    full = claimed("atc", "clean", rounds=2, clip=0.51)
    assert short.delta(0.3) < needed < full.guarantee.delta(0.3)


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_in_several_dimensions_the_charge_grows_as_the_norm_of_ones(law, dimension):
    """Every coordinate just beyond one half: it is rounded away from the other world's in each of them."""
    per_coordinate = 0.501
    clip = per_coordinate * (math.sqrt(dimension) if law == "gaussian" else dimension)
    found = claimed("atc", "self", law=law, rounds=1, clip=clip, dimension=dimension)
    pmf, words = noise_law(law), np.arange(-40, 41)
    plus, minus = pmf(words - 1), pmf(words + 1)
    worlds = []
    for one in (plus, minus):
        joint = one
        for _ in range(dimension - 1):
            joint = np.multiply.outer(joint, one)
        worlds.append(joint)
    for epsilon in EPSILONS:
        exact = hockey_stick(*worlds, epsilon)
        assert exact <= found.guarantee.delta(epsilon) + 1e-12
    assert hockey_stick(*worlds, telling(found)) > 1.3 * without_charge(found, telling(found)) + 1e-3
    if law == "laplace":  # pure epsilon: every coordinate moves by 2 units, in the worst case exactly
        largest = 2 * dimension / (STD / math.sqrt(2))
        assert largest <= found.cost.value <= largest * 1.02


def test_the_average_of_a_trusted_relay_is_rounded_too():
    K, clip = 3, 0.51
    federation = sv.topologies.federation(K)
    run = PublicRun(
        topology=federation, algorithm=sv.algorithms.fedavg(step_size=1.0), noise=sv.noise.central(sv.noise.Gaussian(std=STD * UNIT)),
        rounds=1, batch_size=None, initial_model=np.zeros(1),
    )  # fmt: skip
    sensitivity = Sensitivity(2 * clip * UNIT, unit="agent", adjacency="replace", norm="l2", compares="any two models")
    found = deployed_guarantee(
        run, agent=0, sensitivity=sensitivity, arithmetic=GradientArithmetic(terms=1, added=0.0), fraction_bits=BITS,
        collude="all", relay_trusted=True, released_to="public", losses=None, unit="agent", adjacency="replace",
    )  # fmt: skip
    pmf, words, worst = gaussian_pmf(STD), np.arange(-40, 41), 0.0
    for others in range(-4, 5):
        averages = [np.rint((m + others) / K) for m in (np.rint(clip), np.rint(-clip))]
        worst = max(worst, hockey_stick(*(pmf(words - average) for average in averages), 0.1))
    assert without_charge(found, 0.1) < worst <= found.guarantee.delta(0.1)


def test_noise_in_gradients_is_charged_the_rounding_of_a_gradient():
    clip = 0.51
    run = PublicRun(
        topology=RING, algorithm=sv.algorithms.consensus(step_size=0.3), noise=sv.noise.gradient(sv.noise.Gaussian(std=STD * UNIT)), rounds=1,
        batch_size=None, initial_model=np.zeros(1),
    )  # fmt: skip
    sensitivity = Sensitivity(2 * clip * UNIT, unit="agent", adjacency="replace", norm="l2", compares="any two models")
    found = deployed_guarantee(
        run, agent=0, sensitivity=sensitivity, arithmetic=GradientArithmetic(terms=1, added=0.0), fraction_bits=BITS,
        collude="all", relay_trusted=True, released_to="public", losses=None, unit="agent", adjacency="replace",
    )  # fmt: skip
    pmf, words = gaussian_pmf(STD), np.arange(-40, 41)
    exact = hockey_stick(pmf(words - 1), pmf(words + 1), 0.3)
    assert 1.3 * without_charge(found, 0.3) < exact <= found.guarantee.delta(0.3)


def test_sums_of_rounded_pair_noise_are_paid_for_in_total_variation():
    """Two honest agents share a source; a third one reads both words. Noise of half a unit, where sums of rounded Gaussians are none."""
    own, pair, std = 0.45, 0.45, 0.45 * UNIT
    K3 = sv.topologies.complete(3)
    run = PublicRun(
        topology=K3, algorithm=ALGORITHMS["atc"](step_size=1.0), noise=sv.noise.gopa(sv.noise.Gaussian(std=std), pairwise_std=std), rounds=1,
        batch_size=None, initial_model=np.zeros(1),
    )  # fmt: skip
    sensitivity = Sensitivity(2 * 0.51 * UNIT, unit="agent", adjacency="replace", norm="l2", compares="any two models")
    found = deployed_guarantee(
        run, agent=0, sensitivity=sensitivity, arithmetic=GradientArithmetic(terms=1, added=0.0), fraction_bits=BITS, collude=1,
        relay_trusted=False, released_to="own", losses=None, unit="agent", adjacency="replace",
    )  # fmt: skip
    words, pairs = np.arange(-12, 13), np.arange(-12, 13)
    worlds = []
    for m in (1, -1):
        first = gaussian_pmf(own)(words[:, None] - m - pairs[None, :])  # [word, pair]
        second = gaussian_pmf(own)(words[:, None] + pairs[None, :])
        worlds.append(np.einsum("ap,bp,p->ab", first, second, gaussian_pmf(pair)(pairs)))
    for epsilon in (0.0, 1.0, 3.0):
        assert hockey_stick(*worlds, epsilon) <= found.guarantee.delta(epsilon)
    assert found.total_variation > 0.01


PATH = sv.topologies.path(
    3
)  # its ends keep two thirds: graph-homomorphic noise is halved in their own copies, and rounded there


@pytest.mark.parametrize("name", ["clean", "homomorphic"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_no_transcript_drives_messages_farther_apart_than_gradients_and_counted_roundings(algorithm, name):
    """Per transcript, not in law: |d(m_t)| <= a_t + b_t, and more than half of what is counted happens."""
    own, clip, rounds = float(PATH.self_weights[0]), 0.51, 3
    factor = 0.0 if name == "clean" else -(1 - own) / own
    noise = scheme(name, sv.noise.Gaussian(std=STD * UNIT))
    made = ALGORITHMS[algorithm](step_size=1.0)
    run = PublicRun(
        topology=PATH, algorithm=made, noise=noise, rounds=rounds, batch_size=None, initial_model=np.zeros(1)
    )
    account = Accounted(
        run=run, lattice=Lattice(BITS), observer=sv.observers.coalition([1, 2]), agent=0, arithmetic=GradientArithmetic(terms=1, added=0.0),
        sensitivity=Sensitivity(2 * clip * UNIT, unit="agent", adjacency="replace", norm="l2", compares="any two models"),
    )  # fmt: skip
    roundings = account.roundings.messages[:, 0]
    exact = (
        np.sqrt(account.evidence.sent.each[:, 0]) * STD * UNIT * 2 * clip
    )  # a_t: price 1 / std^2, sensitivity 2 clip
    largest = np.zeros(rounds)
    for others in np.linspace(-1, 1, 41):
        protocol = Protocol(
            made, Lattice(BITS), own, factor, lambda t, o=others: o, gaussian_pmf(STD), rounds, np.arange(-7, 8)
        )
        worlds = [played(protocol, lambda w, t, sign=sign: sign * clip * UNIT * np.ones_like(w))[1] for sign in (-1, 1)]
        largest = np.maximum(largest, [np.abs(here - there).max() for here, there in zip(*worlds, strict=True)])
    assert (largest <= exact + roundings).all()
    assert (largest[1:] > exact[1:] + 0.5 * roundings[1:]).all()


def test_half_the_noise_in_an_own_copy_is_rounded_and_counted():
    """Graph-homomorphic noise at the end of a path."""
    own, clip = float(PATH.self_weights[0]), 0.499
    made = ALGORITHMS["cta"](step_size=1.0)
    run = PublicRun(
        topology=PATH, algorithm=made, noise=sv.noise.graph_homomorphic(sv.noise.Gaussian(std=STD * UNIT)), rounds=3, batch_size=None,
        initial_model=np.zeros(1),
    )  # fmt: skip
    account = Accounted(
        run=run, lattice=Lattice(BITS), observer=sv.observers.coalition([1, 2]), agent=0, arithmetic=GradientArithmetic(terms=1, added=0.0),
        sensitivity=Sensitivity(2 * clip * UNIT, unit="agent", adjacency="replace", norm="l2", compares="any two models"),
    )  # fmt: skip
    # Two states rounded, one of them combined again, and one own copy rounded.
    assert account.roundings.messages[2, 0] == pytest.approx(1 * (own * (1 + 0.5)) + own + 1, abs=0.05)


def test_links_at_random_are_charged_two_roundings_a_round_or_three():
    given = {
        "fraction_bits": 12,
        "collude": "all",
        "relay_trusted": False,
        "released_to": "own",
        "losses": None,
        "unit": "agent",
        "adjacency": "replace",
    }
    sensitivity = Sensitivity(2.0, unit="agent", adjacency="replace", norm="l2", compares="any two models")
    for noise, count in (
        (sv.noise.independent(sv.noise.Gaussian(std=1.0)), 2),
        (sv.noise.graph_homomorphic(sv.noise.Gaussian(std=1.0)), 3),
    ):
        run = PublicRun(
            topology=RING.with_dropout(0.3), algorithm=sv.algorithms.atc(step_size=lambda t: 0.1 / t), noise=noise, rounds=4, batch_size=None,
            initial_model=np.zeros(9),
        )  # fmt: skip
        found = deployed_guarantee(
            run, agent=0, sensitivity=sensitivity, arithmetic=GradientArithmetic(terms=1, added=0.0), **given
        )
        least = count * 3.0 * 2.0**-12 / (0.1 / 4 * 2.0)  # the smallest step
        assert least <= found.rounding <= 1.1 * least
    stops = sv.algorithms.dgd(step_size=0.1, gradient_rounds=2)
    run = PublicRun(
        topology=RING.with_dropout(0.3), algorithm=stops, noise=sv.noise.independent(sv.noise.Gaussian(std=1.0)), rounds=4, batch_size=None,
        initial_model=np.zeros(9),
    )  # fmt: skip
    found = deployed_guarantee(
        run, agent=0, sensitivity=sensitivity, arithmetic=GradientArithmetic(terms=1, added=0.0), **given
    )
    assert found.cost.kind == "infinite"


@pytest.mark.parametrize("name", ["self", "homomorphic"])
def test_random_silence_piles_roundings_up_below_the_claim(name):
    """ATC without a word in the first round: both rounds' roundings are in the second message."""
    clip = 0.51
    noise = scheme(name, sv.noise.Gaussian(std=STD * UNIT))
    run = PublicRun(
        topology=RING.with_dropout(0.3),
        algorithm=ALGORITHMS["atc"](step_size=1.0),
        noise=noise,
        rounds=2,
        batch_size=None,
        initial_model=np.zeros(1),
    )
    sensitivity = Sensitivity(2 * clip * UNIT, unit="agent", adjacency="replace", norm="l2", compares="any two models")
    found = deployed_guarantee(
        run, agent=0, sensitivity=sensitivity, arithmetic=GradientArithmetic(terms=1, added=0.0), fraction_bits=BITS, collude="all", relay_trusted=False,
        released_to="own", losses=None, unit="agent", adjacency="replace",
    )  # fmt: skip
    pmf, words = gaussian_pmf(STD), np.arange(-40, 41)
    piled = [np.rint(np.rint(sign * clip) + sign * clip) for sign in (-1, 1)]
    exact = hockey_stick(*(pmf(words - m) for m in piled), 0.3)
    assert exact <= found.guarantee.delta(0.3)
    if name == "self":
        assert exact > without_charge(found, 0.3)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    algorithm=st.sampled_from(sorted(ALGORITHMS)),
    name=st.sampled_from(sorted(OWN_FACTOR)),
    law=st.sampled_from(["gaussian", "laplace"]),
    clip=st.sampled_from([0.2, 0.4, 0.51, 0.9]),
    step=st.sampled_from([0.7, 1.0]),
    pieces=st.lists(st.floats(-1, 1), min_size=8, max_size=8),
    others=st.lists(st.floats(-3, 3), min_size=2, max_size=2),
)
def test_no_gradients_that_react_to_what_was_read_exceed_the_claim(algorithm, name, law, clip, step, pieces, others):
    """Gradients are any functions of the point, within the bound: here piecewise constant ones, drawn at random, in both worlds."""
    found = claimed(algorithm, name, law=law, rounds=2, clip=clip, step=step)
    protocol = Protocol(
        ALGORITHMS[algorithm](step_size=step),
        Lattice(BITS),
        OWN,
        OWN_FACTOR[name],
        lambda t: others[t - 1],
        noise_law(law),
        2,
        WINDOW,
    )

    def of_world(world):
        def gradient(points, t):
            place = (np.rint(points / UNIT).astype(int) + t) % 2 + 2 * (t - 1)
            return clip * UNIT * np.asarray(pieces)[4 * world + place]

        return gradient

    worlds = [transcripts(protocol, of_world(world)) for world in (0, 1)]
    for epsilon in EPSILONS:
        assert hockey_stick(*worlds, epsilon) <= found.guarantee.delta(epsilon) + 1e-12
