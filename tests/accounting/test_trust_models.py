"""Whom one trusts: a relay that adds noise, agents that add their own, noise in gradients, and clipped updates.

The second route is linear algebra on impulses: the federation is written out by hand, its averages become a matrix over all gradients and all
noise sources of a run, and the distance of the two Gaussian worlds is a pseudo-inverse. Nonlinear gradients that react to what was sent are
simulated, and a likelihood-ratio attack is measured against the number stated.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

import sottovoce as sv

STD, STEP, T, K = 0.8, 0.3, 4, 4
LAW = sv.noise.Gaussian(std=STD)
FEDERATION, RING = sv.topologies.federation(K), sv.topologies.ring(6)
UNEVEN = sv.topologies.federation(K, "records", records=[1, 2, 3, 4])
CURIOUS, PAIR, FINAL = sv.observers.curious_agent(0), sv.observers.coalition([0, 1]), sv.observers.final_model()
SERVER, EAVESDROPPER = sv.observers.server(), sv.observers.eavesdropper()
SCHEMES = {
    "central": sv.noise.central(LAW),
    "independent": sv.noise.independent(LAW),
    "gopa": sv.noise.gopa(LAW, pairwise_std=2.0),
}
ALGORITHMS = {
    "model": sv.algorithms.fedavg(step_size=STEP),
    "server step": sv.algorithms.fedavg(step_size=STEP, server_step_size=0.4),
    "gradient": sv.algorithms.fedavg(step_size=STEP, exchange="gradient", server_step_size=1.5),
    "admm": sv.algorithms.inexact_admm(penalty=lambda t: 2.0 + t),
}


def account(topology, algorithm, noise, observer, **more):
    return sv.account(topology, algorithm, noise, observer, **{"rounds": T, "sensitivity": 1.0, **more})


# The averages of a federation as a matrix


def round_by_hand(name, state, gradients, t):
    """(message of every agent, what a received average makes of the state); the state is the same for all."""
    if name == "admm":
        rho, (model, dual) = 2.0 + t, state
        w = model - dual / rho
        return [w + (dual - g) / rho for g in gradients], lambda r: (r, dual + rho * (w - r))
    (w,) = state
    if name == "gradient":
        return list(gradients), lambda r: (w - 1.5 * STEP * r,)
    s = 0.4 if name == "server step" else 1.0
    return [w - STEP * g for g in gradients], lambda r: (w + s * (r - w),)


def sources_by_hand(scheme):
    """[(owners, what each agent adds to its message, what the relay adds)]."""
    own = [((k,), np.eye(K)[k], 0.0) for k in range(K)]
    if scheme == "central":
        return [((), np.zeros(K), 1.0)]
    if scheme == "independent":
        return own
    return own + [
        ((a, b), 2.0 / STD * (np.eye(K)[a] - np.eye(K)[b]), 0.0) for a, b in itertools.combinations(range(K), 2)
    ]


def distance_by_hand(name, scheme, q, members, agent, scales, *, final=False):
    """The largest mu over gradient changes of norm one, in one dimension, from the stacked Gaussian view."""
    sources = sources_by_hand(scheme)
    size = T * K + T * len(sources)
    unit, at = np.eye(size), T * K
    state = (np.zeros(size), np.zeros(size)) if name == "admm" else (np.zeros(size),)
    seen = []
    for t in range(T):
        messages, take = round_by_hand(name, state, unit[t * K : (t + 1) * K], t + 1)
        average = sum(q[k] * message for k, message in enumerate(messages))
        for i, (_, added, relay) in enumerate(sources):
            average = average + scales[t] * (q @ added + relay) * unit[at + t * len(sources) + i]
        seen.append(average)
        state = take(average)
    view = np.array([state[0]]) if final else np.array(seen)
    hidden = [
        at + t * len(sources) + i for t in range(T) for i, (o, *_) in enumerate(sources) if not set(o) & set(members)
    ]
    phi, psi = view[:, agent : T * K : K], view[:, hidden]
    gram = phi.T @ np.linalg.pinv(psi @ psi.T) @ phi
    return math.sqrt(max(v @ gram @ v for v in map(np.array, itertools.product((-1.0, 1.0), repeat=T))))


@pytest.mark.parametrize("topology", [FEDERATION, UNEVEN], ids=["uniform", "records"])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_averages_give_away_what_the_stacked_gaussian_view_says(name, scheme, topology):
    q = np.asarray(topology.active_links().self_weights)
    factors = [1.0, 0.5, 2.0, 0.7]
    noise = SCHEMES[scheme].scaled(factors)
    for observer, members in ((CURIOUS, (0,)), (PAIR, (0, 1)), (CURIOUS + FINAL, (0,))):
        for agent in (2, 3):
            expected = distance_by_hand(name, scheme, q, members, agent, STD * np.array(factors))
            for unit in ("agent", "record"):
                found = account(topology, ALGORITHMS[name], noise, observer, agent=agent, unit=unit)
                assert found.mu == pytest.approx(expected, rel=1e-9)
                assert found.validity == "exact"
    worst = account(topology, ALGORITHMS[name], noise, CURIOUS).mu  # agent 3 weighs most, or all weigh alike
    assert worst == pytest.approx(account(topology, ALGORITHMS[name], noise, CURIOUS, agent=3).mu, rel=1e-12)
    final = account(topology, ALGORITHMS[name], noise, FINAL, agent=2)
    truth = distance_by_hand(name, scheme, q, (), 2, STD * np.array(factors), final=True)
    assert final.mu >= truth * (1 - 1e-9)
    assert final.validity == "sent-messages"


def test_a_round_without_noise_is_read_in_clear():
    found = account(FEDERATION, ALGORITHMS["model"], SCHEMES["central"].scaled([1.0, 0.0, 1.0, 1.0]), CURIOUS)
    assert found.validity == "infinite"


@pytest.mark.parametrize("law", [sv.noise.Laplace(std=STD), sv.noise.L2Laplace(scale=STD)])
def test_laplace_noise_of_a_relay_adds_up_in_epsilon(law):
    found = account(UNEVEN, ALGORITHMS["gradient"], sv.noise.central(law), CURIOUS, agent=3, unit="record")
    assert found.pure_epsilon == pytest.approx(T * 0.4 / law.scale, rel=1e-12)
    assert found.validity == ("exact" if isinstance(law, sv.noise.Laplace) else "sent-messages")
    assert account(UNEVEN, ALGORITHMS["gradient"], sv.noise.central(law), FINAL, agent=3).validity == "sent-messages"


def test_several_unknown_laplace_sources_are_not_priced_as_one():
    law = sv.noise.Laplace(std=STD)
    found = account(FEDERATION, ALGORITHMS["gradient"], sv.noise.independent(law), CURIOUS)
    assert found.pure_epsilon == pytest.approx(T / law.scale, rel=1e-12)  # as if each message had been read


@pytest.mark.parametrize("observer", [SERVER, EAVESDROPPER, SERVER + CURIOUS])
def test_whoever_reads_messages_learns_everything_when_the_relay_adds_the_noise(observer):
    for algorithm in ALGORITHMS.values():
        assert account(FEDERATION, algorithm, SCHEMES["central"], observer).validity == "infinite"


@pytest.mark.parametrize("observer", [CURIOUS, FINAL])
@pytest.mark.parametrize("unit", ["agent", "record"])
def test_states_that_averages_do_not_determine_are_not_accounted_by_averages(observer, unit):
    own = sv.algorithms.inexact_admm(penalty=3.0, linearise_at="own")
    assert account(FEDERATION, own, SCHEMES["central"], observer, unit=unit).validity == "infinite"


def test_for_consensus_a_relays_noise_says_nothing_of_a_record():
    consensus = sv.algorithms.consensus(step_size=STEP)
    assert account(FEDERATION, consensus, SCHEMES["central"], CURIOUS, unit="record").validity == "infinite"


# Adaptive gradients of one record, without a promise


def transcripts(world, scheme, rng, runs):
    """[runs, T] what the log-likelihood ratio of two worlds is on averages sent in `world`; two parameters, wild gradients."""
    w, ratio = np.zeros((runs, 2)), np.zeros(runs)
    unknown = STD / K * math.sqrt(K - 1) if scheme == "independent" else STD
    for _ in range(T):
        common = 3.0 * np.sin(5.0 * w) + w**3  # everybody's gradients but the record's part
        angle = 7.0 * w[:, :1] * w[:, 1:]
        record = np.concatenate(
            [np.cos(angle), np.sin(angle)], axis=1
        )  # norm one, in a direction that reacts to the model
        base, shift = w - STEP * common, -STEP / K * record
        average = base + world * shift + unknown * rng.standard_normal(w.shape)
        ratio += ((average - base) * shift).sum(1) / unknown**2 - 0.5 * (shift**2).sum(1) / unknown**2
        w = average
    return ratio


@pytest.mark.parametrize("scheme", ["central", "independent"])
def test_an_attack_on_one_record_with_wild_gradients_reaches_mu_and_not_more(scheme):
    rng, runs = np.random.default_rng(5), 40_000
    mu = account(FEDERATION, ALGORITHMS["model"], SCHEMES[scheme], CURIOUS, unit="record").mu
    with_record, without = transcripts(1, scheme, rng, runs), transcripts(0, scheme, rng, runs)
    for said, holds in ((mu, True), (mu / 1.5, False), (1.5 * mu, False)):
        # Between the two worlds the log-likelihood ratio is Gaussian with variance mu^2 and means +-mu^2 / 2.
        p = min(
            stats.kstest(with_record, "norm", (said**2 / 2, said)).pvalue,
            stats.kstest(without, "norm", (-(said**2) / 2, said)).pvalue,
        )
        assert (p > 1e-4) == holds


# Local and central noise at the same budget


@pytest.mark.parametrize("agents", [3, 16])
@pytest.mark.parametrize("form", ["model", "gradient"])
def test_trusting_the_relay_saves_the_square_root_of_the_number_of_agents(agents, form):
    topology, budget = sv.topologies.federation(agents), {"epsilon": 1.0, "delta": 1e-5}
    arguments = {"rounds": 7, "sensitivity": 2.0, **budget}
    local = sv.calibrate(topology, ALGORITHMS[form], SCHEMES["independent"], SERVER, **arguments)
    central = sv.calibrate(topology, ALGORITHMS[form], SCHEMES["central"], FINAL, **arguments)
    on_average = local.law.std / math.sqrt(agents)  # of the mean of `agents` independent sources
    assert on_average / central.law.std == pytest.approx(math.sqrt(agents), rel=1e-12)
    for noise, observer in ((local, SERVER), (central, FINAL)):
        found = sv.account(topology, ALGORITHMS[form], noise, observer, rounds=7, sensitivity=2.0)
        assert found.epsilon(1e-5) == pytest.approx(1.0, rel=1e-9)


# Noise in gradients

IN_GRADIENTS = sv.noise.gradient(LAW)


@pytest.mark.parametrize(
    ("topology", "algorithm", "times"),
    [
        (RING, sv.algorithms.atc(step_size=STEP), 1),
        (RING.with_dropout(0.4), sv.algorithms.cta(step_size=STEP), 1),
        (RING.with_random_pair(), sv.algorithms.consensus(step_size=STEP), 1),
        (RING, sv.algorithms.three_matrix(step_size=STEP, first=RING, last=RING), 1),
        (RING, sv.algorithms.fedavg(step_size=STEP, local_steps=3), 3),
        (FEDERATION, sv.algorithms.fedavg(step_size=STEP, local_steps=3, exchange="gradient", participation=0.5), 3),
        (FEDERATION, sv.algorithms.inexact_admm(penalty=3.0, linearise_at="own"), 1),
    ],
)
@pytest.mark.parametrize("observer", [EAVESDROPPER, CURIOUS, FINAL, EAVESDROPPER + FINAL])
def test_noisy_gradients_bound_every_observer_of_every_algorithm(topology, algorithm, times, observer):
    for unit in ("agent", "record"):
        found = account(topology, algorithm, IN_GRADIENTS, observer, unit=unit)
        assert found.mu == pytest.approx(math.sqrt(times * T) / STD, rel=1e-12)
        reads_all = observer in (EAVESDROPPER, EAVESDROPPER + FINAL) and topology is RING and times == 1
        assert found.validity == ("exact" if reads_all else "sent-messages")


def test_readers_of_all_messages_of_diffusion_reach_that_bound():
    # What agent p sends is w_p - step (g + z); its readers know w_p, so each of T messages shows g + z.
    A, n = RING.weights.toarray(), RING.num_agents
    unit = np.eye(T * n)
    w, seen = np.zeros((n, T * n)), []
    for t in range(T):
        psi = w - STEP * unit[t * n : (t + 1) * n]  # gradient and noise enter alike
        seen.append(psi)
        w = A.T @ psi
    view = np.concatenate(seen)
    gram = view[:, ::n].T @ np.linalg.pinv(view @ view.T) @ view[:, ::n] / STD**2
    found = account(RING, sv.algorithms.atc(step_size=STEP), IN_GRADIENTS, EAVESDROPPER)
    assert np.sqrt(np.ones(T) @ gram @ np.ones(T)) == pytest.approx(found.mu, rel=1e-9)


def test_noise_in_gradients_counts_only_rounds_in_which_the_record_takes_part():
    algorithm = sv.algorithms.fedavg(step_size=STEP, local_steps=3)
    more = {"unit": "record", "participation": sv.accounting.cyclic(2, 2)}
    assert account(RING, algorithm, IN_GRADIENTS, EAVESDROPPER, **more).mu == pytest.approx(math.sqrt(6) / STD)
    scheduled = IN_GRADIENTS.scaled([1.0, 9.0, 1.0, 9.0])
    assert account(RING, algorithm, scheduled, EAVESDROPPER, **more).mu == pytest.approx(math.sqrt(6) / STD)


def test_gradients_without_noise_of_their_own_are_refused():
    twice = sv.algorithms.atc(step_size=STEP)
    (exchange,) = twice.exchanges
    again = exchange._replace(update=lambda w, received, gradient, t: received - 0.1 * gradient(received))
    with pytest.raises(sv.IncompatibleChoice, match="same noise"):
        account(RING, twice._replace(exchanges=(again,)), IN_GRADIENTS, EAVESDROPPER)
    with pytest.raises(sv.IncompatibleChoice, match="without noise"):
        account(RING, sv.algorithms.dgd(step_size=1.0, gradient_rounds=2), IN_GRADIENTS, EAVESDROPPER)


def points(values):
    return sv.problems.mean_estimation([np.array([[v]], dtype=float) for v in values], radius=10.0)


def final_models(algorithm, noise, *, rounds, repeats=20_000, seed=3, values=(0.0,) * K, topology=FEDERATION):
    run = sv.simulate(
        points(values), topology, algorithm, noise, rounds=rounds, repeats=repeats, seed=seed, record=(), progress=False
    )
    return run.models[:, :, 0].astype(float)


def accepts(samples, variance):
    """Whether the samples may be centred Gaussian of this variance; 20,000 of them tell 1.1 times it apart by ten deviations."""
    squares = stats.chi2(len(samples)).cdf((samples**2).sum() / variance)
    return stats.kstest(samples / math.sqrt(variance), "norm").pvalue > 1e-4 and 1e-4 < squares < 1 - 1e-4


def test_every_local_step_of_every_agent_and_round_has_fresh_noise():
    # All records are zero, so gradients are w: the model is a fixed combination of the noise of T L steps and K agents.
    c, L, rounds = 1 - STEP, 3, 2
    models = final_models(sv.algorithms.fedavg(step_size=STEP, local_steps=L), IN_GRADIENTS, rounds=rounds)
    assert np.ptp(models, axis=1).max() < 1e-5
    steps = np.array([c**i for i in range(rounds * L)])
    fresh = (STEP * STD) ** 2 * (steps**2).sum() / K
    assert accepts(models[:, 0], fresh)
    per_round = steps.reshape(rounds, L).sum(1)
    reused = [
        (STEP * STD) ** 2 * (per_round**2).sum() / K,  # the same in all steps of a round
        (STEP * STD) ** 2 * (steps.reshape(rounds, L).sum(0) ** 2).sum() / K,  # the same in every round
        fresh * K,  # the same for all agents
        fresh * 1.1,
    ]
    assert not any(accepts(models[:, 0], wrong) for wrong in reused)


def test_with_one_step_noise_in_gradients_is_self_noise_times_the_step():
    algorithm, rounds = sv.algorithms.atc(step_size=STEP), 3
    inside = final_models(algorithm, IN_GRADIENTS, rounds=rounds, topology=sv.topologies.complete(K))
    after = final_models(
        algorithm,
        sv.noise.independent(sv.noise.Gaussian(std=STEP * STD)),
        rounds=rounds,
        topology=sv.topologies.complete(K),
        seed=4,
    )
    assert stats.ks_2samp(inside[:, 0], after[:, 0]).pvalue > 1e-4
    assert stats.ks_2samp(1.1 * inside[:, 0], after[:, 0]).pvalue < 1e-4
    stated = account(RING, algorithm, IN_GRADIENTS, EAVESDROPPER).mu
    other = account(RING, algorithm, sv.noise.independent(sv.noise.Gaussian(std=STEP * STD)), EAVESDROPPER)
    assert stated == pytest.approx(other.mu, rel=1e-12)


def test_the_relay_adds_one_source_for_all_and_a_fresh_one_every_round():
    c, rounds = 1 - STEP, 3
    models = final_models(sv.algorithms.fedavg(step_size=STEP), sv.noise.central(LAW), rounds=rounds, topology=UNEVEN)
    assert np.ptp(models, axis=1).max() < 1e-5
    steps = np.array([c**i for i in range(rounds)])
    assert accepts(models[:, 0], STD**2 * (steps**2).sum())
    assert not accepts(models[:, 0], STD**2 * steps.sum() ** 2)
    assert not accepts(models[:, 0], 0.9 * STD**2 * (steps**2).sum())


# Clipped updates

CLIPPED = sv.algorithms.fedavg(step_size=STEP, local_steps=5, update_clip=sv.clipping.Clip(0.5, "l2"))


@pytest.mark.parametrize(
    ("unit", "adjacency", "times"),
    [("agent", "replace", 2), ("agent", "add-remove", 1), ("record", "replace", 2), ("record", "add-remove", 2)],
)
def test_a_clipped_update_changes_by_its_bound_or_twice_that(unit, adjacency, times):
    more = {"unit": unit, "adjacency": adjacency}
    found = account(FEDERATION, CLIPPED, SCHEMES["independent"], SERVER, sensitivity=times * 0.5, **more)
    assert found.mu == pytest.approx(times * 0.5 * math.sqrt(T) / STD, rel=1e-12)
    gradient = sv.algorithms.fedavg(
        step_size=STEP, local_steps=5, exchange="gradient", update_clip=sv.clipping.Clip(0.5, "l2")
    )
    assert account(
        FEDERATION, gradient, SCHEMES["central"], CURIOUS, sensitivity=times * 0.5, **more
    ).mu == pytest.approx(times * 0.5 / K * math.sqrt(T) / STD, rel=1e-12)
    for wrong in (0.1, times * 0.5 * (1 - 1e-6), times * 0.5 * (1 + 1e-6), (3 - times) * 0.5):
        with pytest.raises(sv.ConfigError, match="clipped"):
            account(FEDERATION, CLIPPED, SCHEMES["independent"], SERVER, sensitivity=wrong, **more)


def test_a_clip_in_l2_does_not_serve_a_law_of_l1():
    laplace = sv.noise.independent(sv.noise.Laplace(std=STD))
    with pytest.raises(sv.UnsupportedClaim, match="l1"):
        account(FEDERATION, CLIPPED, laplace, SERVER)
    in_l1 = sv.algorithms.fedavg(step_size=STEP, update_clip=sv.clipping.Clip(0.5, "l1"))
    assert account(FEDERATION, in_l1, laplace, SERVER).pure_epsilon == pytest.approx(T / laplace.law.scale, rel=1e-12)
    assert account(FEDERATION, in_l1, SCHEMES["independent"], SERVER).mu == pytest.approx(math.sqrt(T) / STD, rel=1e-12)


def test_single_records_do_not_come_and_go_under_a_clipped_update():
    with pytest.raises(sv.ConfigError, match="single records"):
        account(FEDERATION, CLIPPED, SCHEMES["independent"], SERVER, unit="record", participation="once")


@pytest.mark.parametrize("exchange", ["model", "gradient"])
def test_no_data_move_a_model_by_more_than_the_clip(exchange):
    algorithm = sv.algorithms.fedavg(
        step_size=STEP, local_steps=5, exchange=exchange, update_clip=sv.clipping.Clip(0.5, "l2")
    )
    here, there = (
        final_models(algorithm, sv.noise.none(), rounds=1, repeats=1, values=(v, 0.0, 0.0, 0.0))[0, 0]
        for v in (9.0, -9.0)
    )
    size = 1.0 / K * (1.0 if exchange == "model" else STEP)
    assert here - there == pytest.approx(size, rel=1e-5)  # 2 C times the agent's weight, which is reached


def test_every_gradient_of_a_round_draws_its_own_poisson_batch():
    # Three local steps are three sampled mechanisms, not one with a third of the noise variance: at std = 1, rate 0.1 and epsilon = 0 the
    # latter would state delta = 0.0614, and quadrature over the three noises gives 0.0739.
    found = sv.account(
        sv.topologies.federation(4), sv.algorithms.fedavg(step_size=0.1, local_steps=3), sv.noise.gradient(sv.noise.Gaussian(std=1.0)),
        sv.observers.server(), rounds=1, sensitivity=1.0, unit="record", adjacency="add-remove", participation=sv.accounting.poisson(0.1),
    )  # fmt: skip
    assert found.delta(0.0) == pytest.approx(0.0739, abs=2e-4)
    assert found.delta(0.0) == sv.accounting.subsampled.delta(
        noise_multiplier=1.0, sampling_rate=0.1, rounds=3, epsilon=0.0, adjacency="add-remove"
    )
