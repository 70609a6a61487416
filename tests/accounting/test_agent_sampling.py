"""A sample of agents in every round: who is amplified, by how much, and whether the engine draws what the accountant assumes.

The second route is the law of the averages itself: for few agents every possible sample is written out, so that two worlds are mixtures of Gaussians
whose hockey-stick divergence is a sum over a grid. Transcripts of the engine are attacked with the likelihood ratio of the same mixtures.
"""

import collections
import functools
import itertools
import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

import sottovoce as sv
from sottovoce.accounting.tradeoff import FixedSizeTradeoff, SubsampledTradeoff
from sottovoce.algorithms.sampling import FixedAgents, PoissonAgents
from sottovoce.simulation.rounds import random
from sottovoce.simulation.rounds.participants import draw_participants

C, K, RATE, SIZE, STEP = 0.5, 4, 0.3, 2, 0.3
STD = 0.4
CENTRAL = sv.noise.central(sv.noise.Gaussian(std=STD))
FEDERATION = sv.topologies.federation(K)
UNEVEN = sv.topologies.federation(K, "records", records=[1, 2, 3, 4])
CURIOUS, PAIR, FINAL = sv.observers.curious_agent(0), sv.observers.coalition([0, 1]), sv.observers.final_model()
SERVER, EAVESDROPPER = sv.observers.server(), sv.observers.eavesdropper()
EPSILONS = (0.1, 1.0)
GRID = np.linspace(-9.0, 9.0, 1801)
SLACK = 3e-4  # the accountant's grid, from above


def fedavg(**more):
    return sv.algorithms.fedavg(**{"step_size": STEP, "update_clip": sv.clipping.Clip(C, "l2"), **more})


def account(algorithm, observer, *, noise=CENTRAL, topology=FEDERATION, rounds=1, **more):
    if "sensitivity" not in more:
        one_side = more.get("adjacency") == "add-remove" and more.get("unit", "agent") == "agent"
        more["sensitivity"] = C if one_side else 2 * C
    return sv.account(topology, algorithm, noise, observer, rounds=rounds, **more)


# The law of an average, sample by sample


def samples(kind, members=()):
    """{(who of the members came): [(probability, sample)]} over all samples of the K agents."""
    found = {}
    for drawn in itertools.product((0, 1), repeat=K):
        chance = (
            math.prod(RATE if one else 1 - RATE for one in drawn)
            if kind == "poisson"
            else (sum(drawn) == SIZE) / math.comb(K, SIZE)
        )
        if chance > 0:
            found.setdefault(tuple(drawn[k] for k in members), []).append((chance, np.array(drawn)))
    return found


@functools.cache
def stated(tradeoff, epsilon):
    """The delta of a trade-off; composing sampled rounds takes seconds, and several tests ask for the same."""
    return tradeoff.delta(epsilon)


def mixture(cases, updates, q, weight, std=STD):
    """(chances, means, std) of the average over these samples, equal means put together."""
    chances = collections.defaultdict(float)
    for chance, drawn in cases:
        chances[round(float(weight * (q * drawn) @ np.asarray(updates)), 12)] += chance
    return np.array(list(chances.values())), np.array(list(chances)), std


def at(law, x, function=stats.norm.pdf):
    chances, means, std = law
    return (chances * function(np.atleast_1d(x)[:, None], means, std)).sum(1)


def divergence(one, other, order):
    """sup over events of one - order * other: between the points where the densities cross, by their distribution functions."""
    gap = at(one, GRID) - order * at(other, GRID)
    cross = np.flatnonzero(np.sign(gap[:-1]) * np.sign(gap[1:]) < 0)
    roots = [brentq(lambda x: (at(one, x) - order * at(other, x))[0], GRID[i], GRID[i + 1], xtol=1e-13) for i in cross]
    ends = np.array([-np.inf, *roots, np.inf])
    inside = np.diff(at(one, ends, stats.norm.cdf) - order * at(other, ends, stats.norm.cdf))
    return float(inside[inside > 0].sum())


def exact_delta(kind, worlds, epsilon, *, members=(), q=None, std=STD):
    """The larger hockey-stick divergence of the two worlds' (average, who of the members came)."""
    q = np.full(K, 1 / K) if q is None else q
    weight, totals = 1 / RATE if kind == "poisson" else K / SIZE, np.zeros(2)
    for cases in samples(kind, members).values():
        one, other = (mixture(cases, world, q, weight, std) for world in worlds)
        totals += [divergence(one, other, math.exp(epsilon)), divergence(other, one, math.exp(epsilon))]
    return totals.max()


SAMPLED = {"poisson": fedavg(participation=RATE), "fixed": fedavg(agents_per_round=SIZE)}
ATTAINED = [
    ("poisson", "replace", ([0, 0, 0, C], [0, 0, 0, -C])),
    ("poisson", "add-remove", ([0, 0, 0, C], [0, 0, 0, 0])),
    ("fixed", "replace", ([-C, -C, -C, C], [-C, -C, -C, -C])),
]


@pytest.mark.parametrize(("kind", "adjacency", "worlds"), ATTAINED)
def test_one_round_gives_away_what_the_worst_data_do(kind, adjacency, worlds):
    found = account(SAMPLED[kind], FINAL, adjacency=adjacency)
    assert isinstance(found.tradeoff, SubsampledTradeoff if kind == "poisson" else FixedSizeTradeoff)
    for epsilon in EPSILONS:
        truth = exact_delta(kind, worlds, epsilon)
        assert truth - 1e-10 <= stated(found.tradeoff, epsilon) <= truth + SLACK
    assert (
        exact_delta(kind, worlds, 1.0, std=0.8 * STD) > stated(found.tradeoff, 1.0) + SLACK
    )  # less noise than stated would show


@pytest.mark.parametrize(
    "topology", [FEDERATION, pytest.param(UNEVEN, marks=pytest.mark.slow)], ids=["uniform", "records"]
)
@pytest.mark.parametrize("kind", SAMPLED)
@pytest.mark.parametrize(("observer", "members"), [(FINAL, ()), (CURIOUS, (0,)), (PAIR, (0, 1))])
def test_no_data_give_away_more(kind, topology, observer, members):
    rng, q = np.random.default_rng(1), np.asarray(topology.active_links().self_weights)
    for agent in (2, 3):
        found = account(SAMPLED[kind], observer, topology=topology, agent=agent)
        corners = [rng.choice([-C, 0.0, C], K) for _ in range(6)] + [rng.uniform(-C, C, K) for _ in range(3)]
        for others in [np.full(K, -C), np.full(K, C), *corners]:
            one, other = others.copy(), others.copy()
            one[agent], other[agent] = C, -C
            for epsilon in EPSILONS:
                truth = exact_delta(kind, (one, other), epsilon, members=members, q=q)
                assert truth <= stated(found.tradeoff, epsilon) + 1e-10


def test_a_member_that_knows_of_itself_raises_the_rate_of_a_fixed_number():
    # K = 4, m = 2: a curious agent that was not drawn knows that two of the other three were.
    rates = [
        account(SAMPLED["fixed"], one).tradeoff.sampling_rate
        for one in (FINAL, CURIOUS, PAIR, sv.observers.coalition([0, 1, 2]))
    ]
    assert rates == pytest.approx([1 / 2, 2 / 3, 1.0, 1.0])
    worlds = ([-C, -C, -C, C], [-C, -C, -C, -C])
    for observer, members in ((CURIOUS, (0,)), (PAIR, (0, 1))):
        said = account(SAMPLED["fixed"], observer, agent=3)
        assert exact_delta("fixed", worlds, 1.0, members=members) <= stated(said.tradeoff, 1.0) + 1e-10
    # With the rate m / K the claim for a pair would be false.
    assert (
        exact_delta("fixed", worlds, 1.0, members=(0, 1))
        > stated(account(SAMPLED["fixed"], FINAL).tradeoff, 1.0) + SLACK
    )


def test_coins_of_ones_own_say_nothing_about_others():
    assert account(SAMPLED["poisson"], PAIR).tradeoff == account(SAMPLED["poisson"], FINAL).tradeoff


def test_of_a_fixed_number_a_heavier_agent_may_stand_where_one_was_not_drawn():
    q, worlds = np.array([1, 2, 3, 4]) / 10, ([-C, C, C, C], [C, C, C, C])
    found = account(SAMPLED["fixed"], FINAL, topology=UNEVEN, agent=0).tradeoff
    by_own_weight = FixedSizeTradeoff(noise_multiplier=STD / (2 * 0.1 * K / SIZE * C), sampling_rate=SIZE / K, rounds=1)
    truth = exact_delta("fixed", worlds, 0.3, q=q)
    assert truth <= stated(found, 0.3) + 1e-10
    assert truth > stated(by_own_weight, 0.3) + 0.01  # from agent 0's own weight alone the claim would be false


@pytest.mark.parametrize(("kind", "adjacency", "worlds"), ATTAINED)
def test_two_rounds_stay_below_what_is_stated(kind, adjacency, worlds):
    grid = np.linspace(-4.0, 4.0, 2001)
    q, weight, step = np.full(K, 1 / K), 1 / RATE if kind == "poisson" else K / SIZE, grid[1] - grid[0]
    (cases,) = samples(kind).values()
    one, other = (at(mixture(cases, world, q, weight), grid) for world in worlds)
    found = account(SAMPLED[kind], FINAL, adjacency=adjacency, rounds=2)
    for epsilon in EPSILONS:
        truth = max(
            np.maximum(np.outer(a, a) - math.exp(epsilon) * np.outer(b, b), 0).sum() * step**2
            for a, b in ((one, other), (other, one))
        )
        slack = SLACK if kind == "poisson" else 0.2 * truth + SLACK  # for a fixed number, composition is an upper bound
        assert truth - 1e-6 <= stated(found.tradeoff, epsilon) <= truth + slack


@pytest.mark.parametrize("cosine", [-1.0, -0.7, 0.0, 0.7])
def test_of_two_updates_opposite_ones_are_told_apart_best(cosine):
    # In two dimensions, at all orders, also below one: the pair that composition uses dominates.
    axis = np.linspace(-4.0, 4.0, 401)
    x, y = np.meshgrid(axis, axis, indexing="ij")
    scale, size = 0.6, (axis[1] - axis[0]) ** 2

    def density(u):
        normal = [
            np.exp(-((x - a) ** 2 + (y - b) ** 2) / (2 * scale**2)) / (2 * math.pi * scale**2) for a, b in ((0, 0), u)
        ]
        return (1 - RATE) * normal[0] + RATE * normal[1]

    turned, opposite = density((cosine, math.sqrt(1 - cosine**2))), density((-1.0, 0.0))
    for order in (0.3, 0.8, 1.0, 1.3, 3.0):
        some, most = (np.maximum(density((1.0, 0.0)) - order * other, 0).sum() * size for other in (turned, opposite))
        assert some <= most + 1e-9


# Who is not amplified


@pytest.mark.parametrize("algorithm", SAMPLED.values())
def test_readers_of_messages_gain_nothing_from_the_sample(algorithm):
    local = sv.noise.independent(sv.noise.Gaussian(std=STD))
    for observer in (SERVER, EAVESDROPPER, CURIOUS, FINAL):
        found = account(algorithm, observer, noise=local, rounds=5)
        assert found.mu == pytest.approx(2 * C * math.sqrt(5) / STD, rel=1e-12)
        assert found.validity == "sent-messages"
    for observer in (SERVER, EAVESDROPPER, SERVER + CURIOUS):
        assert account(algorithm, observer, rounds=5).validity == "infinite"


@pytest.mark.parametrize(("sampling", "weight"), [({"participation": 0.25}, 4.0), ({"agents_per_round": 2}, 2.0)])
@pytest.mark.parametrize("unit", ["agent", "record"])
def test_without_clipped_updates_who_takes_part_only_counts_more(sampling, weight, unit):
    algorithm = fedavg(update_clip=None, **sampling)
    found = account(algorithm, CURIOUS, topology=UNEVEN, rounds=5, unit=unit, sensitivity=1.0)
    assert found.agent == 3
    assert found.mu == pytest.approx(weight * 0.4 * STEP * math.sqrt(5) / STD, rel=1e-12)
    assert found.validity == "sent-messages"
    laplace = sv.noise.central(sv.noise.Laplace(std=STD))
    pure = account(algorithm, CURIOUS, topology=UNEVEN, rounds=5, unit=unit, sensitivity=1.0, noise=laplace)
    assert pure.pure_epsilon == pytest.approx(5 * weight * 0.4 * STEP / laplace.law.scale, rel=1e-12)


def test_noise_that_changes_from_round_to_round_is_not_amplified():
    found = account(SAMPLED["poisson"], FINAL, noise=CENTRAL.scaled([1.0, 2.0]), rounds=2)
    assert found.mu == pytest.approx(2 * C / K / RATE / STD * math.sqrt(1.25), rel=1e-12)


def test_with_one_agent_more_or_less_a_fixed_number_is_refused_because_another_takes_its_place():
    for observer in (FINAL, sv.observers.server()):
        with pytest.raises(sv.UnsupportedClaim, match="another one is drawn"):
            account(SAMPLED["fixed"], observer, adjacency="add-remove")


def test_a_promise_is_refused_for_clipped_updates_and_the_sample_is_named():
    with pytest.raises(sv.ConfigError, match="need no promise"):
        account(SAMPLED["poisson"], FINAL, losses=sv.accounting.ConvexSmooth(1.0))
    assert "with probability" in account(SAMPLED["poisson"], FINAL).participation


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("algorithm", SAMPLED.values())
def test_a_record_is_amplified_like_the_replacement_of_its_agent(algorithm, adjacency):
    found = account(algorithm, FINAL, unit="record", adjacency=adjacency, rounds=3)
    assert found.tradeoff == account(algorithm, FINAL, rounds=3).tradeoff


def test_everybody_in_every_round_is_the_gaussian_mechanism():
    by_size = account(fedavg(agents_per_round=K), FINAL, rounds=3)
    plain = account(fedavg(), FINAL, rounds=3)
    for epsilon in EPSILONS:
        assert by_size.delta(epsilon) == pytest.approx(plain.delta(epsilon), rel=1e-9)


def test_pairs_that_share_noise_cannot_be_sampled():
    with pytest.raises(sv.IncompatibleChoice, match="pairs"):
        account(SAMPLED["poisson"], SERVER, noise=sv.noise.gopa(sv.noise.Gaussian(std=1.0), pairwise_std=2.0))


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", SAMPLED.values())
def test_calibration_meets_the_target_from_the_private_side(algorithm):
    more = {"rounds": 3, "sensitivity": 2 * C}
    noise = sv.calibrate(FEDERATION, algorithm, CENTRAL, CURIOUS, epsilon=0.8, delta=1e-4, **more)
    reached = sv.account(FEDERATION, algorithm, noise, CURIOUS, **more).epsilon(1e-4)
    assert 0.8 * (1 - 1e-4) <= reached <= 0.8


# What the engine draws


def drawn(sampling, num_agents, *, repeats=4000, rounds=5, seed=11):
    """[rounds, K, repeats] bool."""
    keys = random.repeat_keys(jnp.asarray(random.seed_words(seed)), jnp.arange(repeats), random.AGENTS)
    made = [
        draw_participants(sampling, random.round_keys(keys, t, 0), num_agents, jnp.float32)
        for t in range(1, rounds + 1)
    ]
    weights = np.asarray(jnp.stack(made))
    assert set(np.unique(weights)) <= {0.0, np.float32(sampling.weight(num_agents))}
    return weights > 0


def test_coins_fall_independently_with_the_rate_given():
    came = drawn(PoissonAgents(RATE), K)
    n, count = came.size, int(came.sum())
    assert stats.binomtest(count, n, RATE).pvalue > 1e-4
    assert stats.binomtest(count, n, RATE * 1.05).pvalue < 1e-4  # 80,000 coins tell five per cent apart
    patterns = np.einsum("tkr,k->tr", came, 2 ** np.arange(K)).ravel()
    expected = [math.prod(RATE if i >> k & 1 else 1 - RATE for k in range(K)) for i in range(2**K)]
    assert stats.chisquare(np.bincount(patterns, minlength=2**K), np.array(expected) * len(patterns)).pvalue > 1e-4
    for one, other in ((came[:-1], came[1:]), (came[:, :, :-1], came[:, :, 1:])):  # rounds, then repeats
        table = [[int((one == a)[other == b].sum()) for b in (False, True)] for a in (False, True)]
        assert stats.chi2_contingency(table).pvalue > 1e-4


def test_a_fixed_number_is_drawn_evenly_over_all_sets_and_afresh_every_round():
    came = drawn(FixedAgents(2), 5)
    assert (came.sum(1) == 2).all()
    sets = np.einsum("tkr,k->tr", came, 2 ** np.arange(5))
    _, counts = np.unique(sets, return_counts=True)
    assert len(counts) == 10
    assert stats.chisquare(counts).pvalue > 1e-4
    assert stats.chisquare(counts, counts.sum() * np.array([0.11] + [0.89 / 9] * 9)).pvalue < 1e-4
    for one, other in ((sets[:-1], sets[1:]), (sets[:, :-1], sets[:, 1:])):
        assert stats.chi2_contingency(stats.contingency.crosstab(one.ravel(), other.ravel()).count).pvalue > 1e-4


VALUES = (6.0, -2.0, 1.0, 0.3)


def models(algorithm, noise, *, values=VALUES, repeats=200, rounds=1, seed=11, topology=FEDERATION):
    problem = sv.problems.mean_estimation([np.array([[v]]) for v in values], radius=10.0)
    run = sv.simulate(
        problem, topology, algorithm, noise, rounds=rounds, repeats=repeats, seed=seed, record=(), progress=False
    )
    assert np.ptp(run.models, axis=1).max() < 1e-5  # everybody has the same
    return run.models[:, 0, 0].astype(float)


@pytest.mark.parametrize("exchange", ["model", "gradient"])
@pytest.mark.parametrize("sampling", [PoissonAgents(RATE), FixedAgents(SIZE)], ids=["poisson", "fixed"])
def test_the_engine_averages_the_sample_like_the_reference(exchange, sampling):
    how = {"participation": RATE} if isinstance(sampling, PoissonAgents) else {"agents_per_round": SIZE}
    algorithm = fedavg(exchange=exchange, local_steps=2, server_step_size=0.7, **how)
    rounds, repeats = 3, 200
    came, q = drawn(sampling, K, repeats=repeats, rounds=rounds), np.array([1, 2, 3, 4]) / 10
    w = np.zeros(repeats)
    for t in range(rounds):
        first = w[None, :] - np.array(VALUES)[:, None]
        total = first + (w[None, :] - STEP * first - np.array(VALUES)[:, None])
        change = np.clip(-STEP * total, -C, C) if exchange == "model" else -STEP * np.clip(total, -C, C)
        w = w + 0.7 * (q[:, None] * came[t] * sampling.weight(K) * change).sum(0)
    assert models(algorithm, sv.noise.none(), rounds=rounds, topology=UNEVEN) == pytest.approx(w, abs=1e-5)


@pytest.mark.parametrize("kind", SAMPLED)
def test_the_average_is_right_on_average(kind):
    found = models(SAMPLED[kind], sv.noise.none(), repeats=20_000)
    truth = np.clip(STEP * np.array(VALUES), -C, C).mean()
    error = found.std() / math.sqrt(len(found))
    assert abs(found.mean() - truth) < 4 * error
    assert abs(found.mean() - (RATE if kind == "poisson" else SIZE / K) * truth) > 4 * error  # as if divided by all


def test_own_noise_comes_with_who_takes_part():
    found = models(
        SAMPLED["fixed"], sv.noise.independent(sv.noise.Gaussian(std=STD)), values=(0.0,) * K, repeats=20_000
    )
    for variance, holds in ((STD**2 / SIZE, True), (STD**2 / K, False), (1.1 * STD**2 / SIZE, False)):
        assert (1e-4 < stats.chi2(len(found)).cdf((found**2).sum() / variance) < 1 - 1e-4) == holds


@pytest.mark.parametrize(("kind", "adjacency", "worlds"), [case for case in ATTAINED if case[1] == "replace"])
def test_an_attack_on_transcripts_reaches_delta_and_not_more(kind, adjacency, worlds):
    # The likelihood-ratio event of the two mixtures, counted in runs of the engine; 40,000 runs, four standard errors.
    repeats, q, weight = 40_000, np.full(K, 1 / K), 1 / RATE if kind == "poisson" else K / SIZE
    (cases,) = samples(kind).values()  # updates of 20 times these points reach the clip
    seen = [
        models(SAMPLED[kind], CENTRAL, values=tuple(20 * v for v in world), repeats=repeats, seed=s)
        for s, world in enumerate(worlds)
    ]
    laws = [mixture(cases, world, q, weight) for world in worlds]
    found, epsilon = account(SAMPLED[kind], FINAL).tradeoff, 0.1
    hit = [at(laws[0], x) > math.exp(epsilon) * at(laws[1], x) for x in seen]
    attacked = hit[0].mean() - math.exp(epsilon) * hit[1].mean()
    error = math.sqrt(hit[0].var() / repeats + math.exp(2 * epsilon) * hit[1].var() / repeats)
    assert abs(attacked - stated(found, epsilon)) < 4 * error + SLACK
    assert attacked > stated(found.scaled(1.3), epsilon) + 4 * error  # a claim of more noise than was added is caught
