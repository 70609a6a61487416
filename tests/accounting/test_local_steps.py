"""Several local steps in one message: closed forms, transcripts with known Gaussian distance, and what is refused.

The second route uses nothing of the accountant: quadratic (or linear) losses make every message an explicit function of the messages before it,
so that two worlds are Gaussians whose distance is a sum of squares over one transcript, computed by running both worlds on it.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sottovoce as sv
from sottovoce.accounting.proofs.contraction import contraction_mu
from sottovoce.accounting.question.local_steps import one_step
from sottovoce.accounting.question.promise import contraction

STEP, STD, T, L = 0.2, 0.7, 6, 4
LAW = sv.noise.Gaussian(std=STD)
SELF, CLEAN, HOMOMORPHIC = (
    sv.noise.independent(LAW),
    sv.noise.independent(LAW, self_noise=False),
    sv.noise.graph_homomorphic(LAW),
)
FEDERATION, RING = sv.topologies.federation(5), sv.topologies.ring(6)
SERVER, EAVESDROPPER = sv.observers.server(), sv.observers.eavesdropper()
SMOOTH = sv.accounting.ConvexSmooth(beta=3.0, nu=0.5)


def fedavg(steps=L, **more):
    return sv.algorithms.fedavg(**{"step_size": STEP, "local_steps": steps, **more})


def mu(topology, algorithm, noise, observer, **more):
    return sv.account(topology, algorithm, noise, observer, **{"rounds": T, "sensitivity": 1.0, **more}).mu


def geometric(c, times):
    return sum(c**i for i in range(times))


# Closed forms


def test_for_an_agent_the_sensitivity_grows_with_the_number_of_steps():
    found = sv.account(FEDERATION, fedavg(), SELF, SERVER, rounds=T, sensitivity=0.3)
    assert found.mu == pytest.approx(L * STEP * 0.3 * math.sqrt(T) / STD, rel=1e-12)
    assert found.validity == "exact"
    assert found.linear_mu == pytest.approx(found.mu, rel=1e-9)
    assert "4 local steps" in str(found)


def test_for_a_record_under_the_promise_it_grows_like_a_geometric_sum():
    c = 1 - STEP * SMOOTH.nu
    found = sv.account(FEDERATION, fedavg(), SELF, SERVER, rounds=T, sensitivity=0.3, unit="record", losses=SMOOTH)
    assert found.mu == pytest.approx(geometric(c, L) * STEP * 0.3 * math.sqrt(T) / STD, rel=1e-12)
    assert found.validity == "exact"
    assert found.linear_mu is None
    assert any("3-smooth and 0.5-strongly convex" in line for line in found.assumptions)


def test_with_merely_convex_losses_a_record_costs_as_much_as_an_agent():
    options = {"unit": "record", "losses": sv.accounting.ConvexSmooth(3.0)}
    assert mu(FEDERATION, fedavg(), SELF, SERVER, **options) == pytest.approx(mu(FEDERATION, fedavg(), SELF, SERVER))


def test_a_member_of_the_federation_reads_the_average_only():
    c, K = 1 - STEP * SMOOTH.nu, 5
    curious = sv.observers.curious_agent(0)
    one = STEP * math.sqrt(T) / STD / math.sqrt(K - 1)  # mu^2 = T (step Delta q)^2 / (std^2 (K - 1) q^2)
    assert mu(FEDERATION, fedavg(), SELF, curious) == pytest.approx(L * one, rel=1e-9)
    by_record = mu(FEDERATION, fedavg(), SELF, curious, unit="record", losses=SMOOTH)
    assert by_record == pytest.approx(geometric(c, L) * one, rel=1e-9)


@pytest.mark.parametrize(
    "options", [{"exchange": "gradient"}, {"server_step_size": 0.5}], ids=["gradient", "server step"]
)
def test_other_forms_of_the_message_are_covered(options):
    unit = 1.0 if "exchange" in options else STEP
    c = 1 - STEP * SMOOTH.nu
    assert mu(FEDERATION, fedavg(**options), SELF, SERVER) == pytest.approx(L * unit * math.sqrt(T) / STD, rel=1e-6)
    by_record = mu(FEDERATION, fedavg(**options), SELF, SERVER, unit="record", losses=SMOOTH)
    assert by_record == pytest.approx(geometric(c, L) * unit * math.sqrt(T) / STD, rel=1e-6)


@pytest.mark.parametrize("noise", [CLEAN, HOMOMORPHIC], ids=["clean", "homomorphic"])
def test_where_differences_live_on_they_shrink_by_all_steps_of_a_round(noise):
    rho = {"independent": 1 / 3, "graph_homomorphic": 1.0}[noise.name]  # a_pp (1 - s) on a ring with a_pp = 1/3
    c = 1 - STEP * SMOOTH.nu
    d, total = 0.0, 0.0
    for _ in range(T):
        d = c**L * rho * d + geometric(c, L) * STEP
        total += d**2
    for unit in ("record", "agent"):  # beside strong convexity an agent's sensitivity too is one at the same model
        found = sv.account(
            RING, fedavg(), noise, EAVESDROPPER, rounds=T, sensitivity=1.0, unit=unit, losses=SMOOTH, agent=2
        )
        assert found.mu == pytest.approx(math.sqrt(total) / STD, rel=1e-9)


def test_the_final_model_alone_forgets_with_the_contraction_of_all_steps():
    c = 1 - STEP * SMOOTH.nu
    expected = contraction_mu(
        step_size=geometric(c, L) * STEP, sensitivity=1.0, std=STD, contraction=c**L, rounds=40
    )  # fmt: skip
    found = sv.account(
        FEDERATION, fedavg(), SELF, sv.observers.final_model(), rounds=40, sensitivity=1.0, unit="record", losses=SMOOTH
    )
    assert found.mu <= expected * (1 + 1e-9)
    assert found.mu < 0.7 * mu(FEDERATION, fedavg(), SELF, SERVER, rounds=40, unit="record", losses=SMOOTH)


def test_laplace_laws_count_all_steps():
    noise = sv.noise.independent(sv.noise.Laplace(std=math.sqrt(2) * 0.5))  # scale 0.5
    found = sv.account(FEDERATION, fedavg(), noise, SERVER, rounds=T, sensitivity=1.0)
    assert found.pure_epsilon == pytest.approx(T * L * STEP / 0.5, rel=1e-12)
    l2 = sv.noise.independent(sv.noise.L2Laplace(scale=0.5))
    record = sv.account(FEDERATION, fedavg(), l2, SERVER, rounds=T, sensitivity=1.0, unit="record", losses=SMOOTH)
    assert record.pure_epsilon == pytest.approx(T * geometric(1 - STEP * SMOOTH.nu, L) * STEP / 0.5, rel=1e-12)


def test_links_at_random_are_covered():
    dropped = RING.with_dropout(0.2)
    assert mu(dropped, fedavg(), CLEAN, EAVESDROPPER) == pytest.approx(L * mu(dropped, fedavg(1), CLEAN, EAVESDROPPER))
    by_record = mu(dropped, fedavg(), CLEAN, EAVESDROPPER, unit="record", losses=SMOOTH)
    assert by_record <= mu(dropped, fedavg(), CLEAN, EAVESDROPPER)


# Limits


@pytest.mark.parametrize("noise", [SELF, CLEAN, HOMOMORPHIC], ids=["self", "clean", "homomorphic"])
@pytest.mark.parametrize("observer", [EAVESDROPPER, sv.observers.curious_agent(0), sv.observers.final_model()], ids=str)
def test_one_local_step_is_accounted_as_atc(noise, observer):
    for more in ({}, {"unit": "record", "losses": SMOOTH}):
        options = {"rounds": T, "sensitivity": 1.0, "agent": 2, **more}
        found = sv.account(RING, fedavg(1), noise, observer, **options)
        assert found == sv.account(RING, sv.algorithms.atc(step_size=STEP), noise, observer, **options)


@pytest.mark.parametrize("noise", [SELF, CLEAN, HOMOMORPHIC], ids=["self", "clean", "homomorphic"])
@pytest.mark.parametrize("observer", [EAVESDROPPER, sv.observers.curious_agent(0), sv.observers.final_model()], ids=str)
@pytest.mark.parametrize("unit", ["agent", "record"])
def test_more_local_steps_never_promise_more(noise, observer, unit):
    found = [mu(RING, fedavg(n), noise, observer, unit=unit, losses=SMOOTH, agent=2) for n in (1, 2, 5)]
    assert found == sorted(found)


def test_noise_in_every_step_is_never_worse_than_noise_after_all_of_them_at_equal_size():
    # The alternative that refusals name: L T rounds of one step each cost sqrt(L) less than T rounds of L steps.
    every = mu(FEDERATION, fedavg(1), SELF, SERVER, rounds=L * T)
    assert every == pytest.approx(mu(FEDERATION, fedavg(), SELF, SERVER) / math.sqrt(L), rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    step=st.floats(0.01, 1.0),
    times=st.integers(2, 6),
    nu=st.floats(0.0, 1.0),
    shrink=st.floats(0.2, 1.0),
    same_model=st.booleans(),
)
def test_the_restated_promise_has_the_contraction_of_all_steps(step, times, nu, shrink, same_model):
    losses = sv.accounting.ConvexSmooth(beta=2.0, nu=nu)
    schedule = [step, step * shrink, step * shrink**2]
    algorithm = fedavg(times, step_size=lambda t: schedule[t - 1])
    found = one_step(algorithm.local_steps, 3, losses=losses, same_model=same_model)
    for t, h in enumerate(schedule, start=1):
        c = contraction(h, losses)
        (exchange,) = found.algorithm.exchanges
        length = -float(exchange.message(np.zeros(1), lambda w, step=0: np.ones(1), t)[0])
        assert length == pytest.approx(h * (geometric(c, times) if same_model else times), rel=1e-12)
        assert contraction(length, found.losses) >= c**times - 1e-12
    constant = one_step(fedavg(times, step_size=step).local_steps, 3, losses=losses, same_model=same_model)
    c = contraction(step, losses)
    length = step * (geometric(c, times) if same_model else times)
    assert contraction(length, constant.losses) == pytest.approx(c**times, abs=1e-12)


# The second route: transcripts


def transcript_distance(worlds, rounds, *, std, rho, step, times, received=None):
    """Gaussian distance of one agent's messages in two worlds given one transcript; each world is a gradient function of (round, w).

    rho: what of an un-noised message's difference stays in the agent's state (0: it goes on from what it sent).
    """
    generator = np.random.default_rng(1)
    received = generator.normal(size=(rounds, 2)) if received is None else received
    states, total = [np.zeros(2), np.zeros(2)], 0.0
    for t in range(rounds):
        sent = []
        for state, gradient in zip(states, worlds, strict=True):
            w = state
            for _ in range(times):
                w = w - step * gradient(t, w)
            sent.append(w)
        difference = sent[1] - sent[0]
        total += float(difference @ difference) / std**2
        # Given the same messages the second world's own copy differs by rho times its message's difference.
        states = [received[t], received[t] + rho * difference]
    return math.sqrt(total)


def quadratic(curvatures, offset):
    H = np.diag(curvatures)
    return lambda t, w: H @ w - offset


@pytest.mark.parametrize("noise", [SELF, CLEAN, HOMOMORPHIC], ids=["self", "clean", "homomorphic"])
def test_no_transcript_of_quadratic_losses_exceeds_the_guarantee_of_a_record(noise):
    rho = {"independent": 0.0 if noise is SELF else 1 / 3, "graph_homomorphic": 1.0}[noise.name]
    stated = mu(RING, fedavg(), noise, EAVESDROPPER, unit="record", losses=SMOOTH, agent=2)
    generator, largest = np.random.default_rng(3), 0.0
    for trial in range(300):
        curvatures = generator.uniform(SMOOTH.nu, SMOOTH.beta, size=2) if trial else np.array([SMOOTH.nu, SMOOTH.beta])
        change = generator.normal(size=2) if trial else np.array([1.0, 0.0])
        change /= np.linalg.norm(change)
        base = generator.normal(size=2)
        worlds = (quadratic(curvatures, base), quadratic(curvatures, base + change))
        found = transcript_distance(worlds, T, std=STD, rho=rho, step=STEP, times=L)
        assert found <= stated * (1 + 1e-9)
        largest = max(largest, found)
    assert largest == pytest.approx(stated, rel=1e-9)  # the first trial reaches it: curvature nu, constant change


@pytest.mark.parametrize("noise", [SELF, CLEAN, HOMOMORPHIC], ids=["self", "clean", "homomorphic"])
def test_no_transcript_of_bounded_gradients_exceeds_the_guarantee_of_an_agent(noise):
    rho = {"independent": 0.0 if noise is SELF else 1 / 3, "graph_homomorphic": 1.0}[noise.name]
    stated = mu(RING, fedavg(), noise, EAVESDROPPER, agent=2)
    generator, largest = np.random.default_rng(4), 0.0

    def bounded(direction, wild):
        # Any function of round and model within a ball of diameter one: two of its values differ by at most one.
        def gradient(t, w):
            turned = direction + wild * np.sin(5.0 * w + t)
            return 0.5 * turned / max(1.0, float(np.linalg.norm(turned)))

        return gradient

    for trial in range(200):
        direction = generator.normal(size=2)
        direction /= np.linalg.norm(direction)
        wild = 0.0 if trial == 0 else generator.uniform(0, 3)
        worlds = (bounded(direction, wild), bounded(-direction, generator.uniform(0, 3) if trial else 0.0))
        found = transcript_distance(worlds, T, std=STD, rho=rho, step=STEP, times=L)
        assert found <= stated * (1 + 1e-9)
        largest = max(largest, found)
    assert largest == pytest.approx(stated, rel=1e-9)


def test_simulated_messages_have_the_stated_distance():
    """The engine's own messages in two worlds, seen through their average: sample means differ by mu standard deviations."""
    K, T_, repeats = 3, 1, 4000
    points = np.zeros((K, 4, 2))
    other = points.copy()
    other[0, :, 0] = 0.5  # gradient of mean estimation is w - mean: it changes by 0.5 in the first coordinate
    topology, algorithm = sv.topologies.federation(K), fedavg(3, step_size=0.3)
    found = []
    for data in (points, other):
        problem = sv.problems.mean_estimation(list(data), radius=1.0)
        run = sv.simulate(
            problem,
            topology,
            algorithm,
            SELF,
            rounds=T_,
            repeats=repeats,
            dtype="float64",
            progress=False,
            seed=len(found),
        )
        found.append(run.models[:, 0, 0])
    gradient_step = sv.problems.mean_estimation(list(other), radius=1.0)
    curvature = gradient_step.constants.smoothness
    losses = sv.accounting.ConvexSmooth(curvature, curvature)
    stated = sv.account(
        topology, algorithm, SELF, sv.observers.curious_agent(1), rounds=T_, sensitivity=0.5 * curvature, unit="record",
        losses=losses, agent=0,
    )  # fmt: skip
    # The reader belongs to the average: its own noise is known, so K - 1 sources hide what three hide here.
    expected = stated.mu * math.sqrt((K - 1) / K)
    pooled = math.sqrt((found[0].var() + found[1].var()) / 2)
    distance = abs(found[1].mean() - found[0].mean()) / pooled
    error = math.sqrt(2 / repeats) * 4
    assert abs(distance - expected) < error
    assert abs(distance - expected * 3 / geometric(1 - 0.3 * curvature, 3)) > error  # L Delta would not fit


# What is refused


def test_a_record_without_a_promise_is_refused_with_two_ways_out():
    with pytest.raises(sv.UnsupportedClaim) as caught:
        mu(FEDERATION, fedavg(), SELF, SERVER, unit="record")
    for part in (
        "4 local gradient steps",
        "ConvexSmooth(beta)",
        "noise in every local step",
        "sv.noise.gradient",
        "update_clip",
    ):
        assert part in str(caught.value)


def test_gradients_bounded_at_the_same_model_need_the_promise_for_an_agent_too():
    with pytest.raises(sv.UnsupportedClaim, match="same model only"):
        mu(FEDERATION, fedavg(), SELF, SERVER, same_model=True)
    assert mu(FEDERATION, fedavg(), SELF, SERVER, same_model=True, losses=SMOOTH) > 0


def test_without_a_promise_a_transcript_exceeds_what_would_be_claimed():
    """A record's change of norm one at every model, and other records that push models apart: L Delta is not enough."""
    steep = (quadratic([-2.0, -2.0], np.zeros(2)), quadratic([-2.0, -2.0], np.array([1.0, 0.0])))
    claimed = L * STEP * math.sqrt(T) / STD
    assert transcript_distance(steep, T, std=STD, rho=0.0, step=STEP, times=L) > 1.7 * claimed
    # One local step has the sensitivity of one gradient, whatever the losses.
    one = transcript_distance(steep, T, std=STD, rho=0.0, step=STEP, times=1)
    assert one == pytest.approx(mu(FEDERATION, fedavg(1), SELF, SERVER, unit="record"), rel=1e-9)


def test_the_promise_is_of_no_use_to_the_l1_norm():
    noise = sv.noise.independent(sv.noise.Laplace(std=0.5))
    with pytest.raises(sv.UnsupportedClaim, match="l2 norm"):
        sv.account(FEDERATION, fedavg(), noise, SERVER, rounds=T, sensitivity=1.0, unit="record", losses=SMOOTH)


def test_steps_too_long_for_the_promise_are_refused():
    with pytest.raises(sv.UnsupportedClaim, match="exceeds 2 / beta"):
        mu(FEDERATION, fedavg(step_size=0.7), SELF, SERVER, unit="record", losses=SMOOTH)


def test_between_the_bounds_of_the_step_the_value_is_called_a_bound():
    # c = step beta - 1 > 1 - step nu: no loss is known to reach the geometric sum.
    found = sv.account(
        FEDERATION, fedavg(step_size=0.65), SELF, SERVER, rounds=T, sensitivity=1.0, unit="record", losses=SMOOTH
    )
    assert found.validity == "sent-messages"
    assert found.mu == pytest.approx(geometric(0.95, L) * 0.65 * math.sqrt(T) / STD, rel=1e-9)


def test_poisson_sampling_is_refused():
    with pytest.raises(sv.UnsupportedClaim, match="one gradient step in a message"):
        mu(
            FEDERATION, fedavg(), SELF, SERVER, unit="record", adjacency="add-remove", losses=SMOOTH,
            participation=sv.accounting.poisson(0.1),
        )  # fmt: skip


def test_steps_below_zero_are_refused():
    with pytest.raises(sv.UnsupportedClaim, match="in round 2"):
        mu(FEDERATION, fedavg(step_size=lambda t: 0.1 if t != 2 else -0.1), SELF, SERVER)


def test_no_noise_is_infinite_whatever_was_promised():
    found = sv.account(FEDERATION, fedavg(), sv.noise.none(), SERVER, rounds=T, sensitivity=1.0, unit="record")
    assert found.validity == "infinite"


# A part of the network: the whole run as one Gaussian


def view_of_a_run(curvature, *, own_factor, final):
    """Distance between two worlds for agent 0 of the ring (or for the final average) when agent 2's gradients change by one.

    Every loss is quadratic with this curvature, so L local steps are w -> c^L w plus a constant that changes by step (1 + ... + c^(L-1)).
    """
    K, A = 6, (np.eye(6) + np.roll(np.eye(6), 1, axis=0) + np.roll(np.eye(6), -1, axis=0)) / 3
    c = 1 - STEP * curvature
    mean, spread = np.zeros(K), np.zeros((K, T * K))
    means, rows = [], []
    for t in range(T):
        mean, spread = c**L * mean, c**L * spread
        mean = mean + geometric(c, L) * STEP * (np.arange(K) == 2)
        source = np.zeros((K, T * K))
        source[np.arange(K), t * K + np.arange(K)] = STD
        sent, kept = spread + source, spread + own_factor * source
        if not final:
            means += [mean[1], mean[5]]
            rows += [sent[1], sent[5]]
        own = np.diag(A)[:, None]
        mean, spread = A.T @ mean, (A - np.diag(np.diag(A))).T @ sent + own * kept
    if final:
        means, rows = [mean.mean()], [spread.mean(axis=0)]
    known = np.zeros(T * K, dtype=bool) if final else np.arange(T * K) % K == 0
    psi, phi = np.array(rows)[:, ~known], np.array(means)
    return math.sqrt(phi @ np.linalg.pinv(psi @ psi.T, rcond=1e-12) @ phi)


@pytest.mark.parametrize(
    ("noise", "own"), [(SELF, 1.0), (CLEAN, 0.0), (HOMOMORPHIC, -2.0)], ids=["self", "clean", "gh"]
)
@pytest.mark.parametrize("unit", ["agent", "record"])
def test_what_the_network_hides_from_one_agent_is_never_overstated(noise, own, unit):
    observer = sv.observers.curious_agent(0)
    found = sv.account(RING, fedavg(), noise, observer, rounds=T, sensitivity=1.0, unit=unit, losses=SMOOTH, agent=2)
    assert found.validity == "absorption"
    for curvature in np.linspace(SMOOTH.nu, SMOOTH.beta, 9):
        assert view_of_a_run(curvature, own_factor=own, final=False) <= found.mu * (1 + 1e-9)
    # Not by a wide margin, so that forgetting a factor would show.
    assert view_of_a_run(SMOOTH.nu, own_factor=own, final=False) > {"record": 0.7, "agent": 0.5}[unit] * found.mu


@pytest.mark.parametrize("unit", ["agent", "record"])
def test_what_the_final_model_forgets_is_never_overstated(unit):
    observer = sv.observers.final_model()
    found = sv.account(RING, fedavg(), SELF, observer, rounds=T, sensitivity=1.0, unit=unit, losses=SMOOTH, agent=2)
    assert found.validity in ("absorption", "amplified-by-iteration")
    for curvature in np.linspace(SMOOTH.nu, SMOOTH.beta, 9):
        assert view_of_a_run(curvature, own_factor=1.0, final=True) <= found.mu * (1 + 1e-9)
    assert found.mu < mu(RING, fedavg(), SELF, EAVESDROPPER, unit=unit, losses=SMOOTH, agent=2)
