"""Claims that look right and are not: each is refuted by an explicit computation, beside the claim that holds.

Likelihood ratios are those of whole transcripts, computed from the recursion itself; no accountant is involved in them.
"""

import math
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

import sottovoce as sv
from accounting import brute_force as brute
from sottovoce.accounting import gaussian
from sottovoce.accounting.mechanisms.closed_forms import every_message_mu
from sottovoce.attacks.nonlinear_relay import nonlinear_relay

LAPLACE = sv.noise.Laplace(std=math.sqrt(2.0))  # scale 1


# A record's sensitivity holds at one and the same model. Where the two worlds take gradients at different models, the other records'
# gradients differ too, and steep losses make much of that.


class Attack(NamedTuple):
    """Three agents, all weights 1/3; agent 0's data differ in one of 100 records; the transcript steers it to its target."""

    kind: str
    share: float  # of the sent noise in the own copy
    step: float
    beta: float = 50.0
    records: int = 100
    rounds: int = 25
    scale: float = 1.0
    target: float = 0.0  # where gradients are taken: 0 is the kink, far away they are flat

    def gradient(self, world, w):
        """99 clipped quadratics at 0, and one record far away on one side or the other."""
        same = np.clip(self.beta * w, -1.0, 1.0)
        return ((self.records - 1) * same + (1.0 if world == 0 else -1.0)) / self.records

    def sent(self, world, w):
        return w - self.step * self.gradient(world, w) if self.kind == "atc" else w

    def next(self, world, w, message, others):
        """Agent 0's model after a round in which these messages were read."""
        sent = self.sent(world, w)
        combined = (sent + self.share * (message - sent) + others) / 3
        if self.kind == "atc":
            return combined
        return combined - self.step * self.gradient(world, combined if self.kind == "cta" else w)

    def transcript(self):
        """Messages of agent 0 and sums of the others', chosen round by round with both worlds in sight."""
        chosen, models = [], np.zeros(2)
        for _ in range(self.rounds):
            sent = np.array([self.sent(world, models[world]) for world in (0, 1)])
            message = sent.max() + 1.0 if sent[0] > sent[1] else sent.min() - 1.0
            unsteered = np.mean([self.next(world, models[world], message, 0.0) for world in (0, 1)])
            others = 3.0 * (self.target - unsteered)
            if self.kind == "cta":  # the gradient is taken after combining: steer that point
                others = 3.0 * self.target - np.mean(
                    [sent[world] + self.share * (message - sent[world]) for world in (0, 1)]
                )
            chosen.append((message, others))
            models = np.array([self.next(world, models[world], message, others) for world in (0, 1)])
        return chosen

    def log_density(self, world, transcript):
        """Of agent 0's messages given all that was read; the other agents' factors are the same in both worlds."""
        total, w = 0.0, 0.0
        for message, others in transcript:
            total -= abs(message - self.sent(world, w)) / self.scale
            w = self.next(world, w, message, others)
        return total

    def attained(self):
        transcript = self.transcript()
        return abs(self.log_density(0, transcript) - self.log_density(1, transcript))

    def account(self, law=LAPLACE, **more):
        noise = {
            1.0: sv.noise.independent(law),
            0.0: sv.noise.independent(law, self_noise=False),
            -2.0: sv.noise.graph_homomorphic(law),
        }[self.share]
        algorithm = getattr(sv.algorithms, self.kind)(step_size=self.step)
        graph, observer = sv.topologies.complete(3), sv.observers.eavesdropper()
        return sv.account(graph, algorithm, noise, observer, rounds=self.rounds, agent=0, **more)


HIDDEN_POINT = [("atc", 0.0, 0.294), ("atc", -2.0, 2.6), ("consensus", 1.0, 0.192)]
PUBLIC_POINT = [("atc", 1.0, 0.2), ("cta", 1.0, 0.192)]


@pytest.mark.parametrize(("kind", "share", "claimed"), HIDDEN_POINT)
def test_a_records_sensitivity_is_not_enough_where_gradient_points_differ(kind, share, claimed):
    attack = Attack(kind, share, step=0.4)
    naive = attack.account(sensitivity=2.0 / attack.records)  # as if any two gradients differed by so little
    assert naive.pure_epsilon == pytest.approx(claimed, abs=5e-4)
    assert attack.attained() > 3.0 * naive.pure_epsilon
    with pytest.raises(sv.UnsupportedClaim, match="ConvexSmooth"):
        attack.account(sensitivity=2.0 / attack.records, unit="record")
    whole = attack.account(sensitivity=2.0)  # any two clipped gradients: the right claim
    assert attack.attained() <= whole.pure_epsilon


@pytest.mark.parametrize(("kind", "share", "claimed"), PUBLIC_POINT)
def test_a_records_sensitivity_is_enough_where_gradient_points_are_public(kind, share, claimed):
    attack = Attack(kind, share, step=0.4)
    found = attack.account(sensitivity=2.0 / attack.records, unit="record")
    assert found.pure_epsilon == pytest.approx(claimed, rel=1e-9)
    assert attack.attained() == pytest.approx(claimed, rel=1e-9)  # and no smaller claim would hold


@pytest.mark.parametrize(("kind", "share", "claimed"), HIDDEN_POINT)
def test_a_promise_is_refused_where_steps_are_too_long_for_it(kind, share, claimed):
    attack = Attack(kind, share, step=0.4)  # step * beta = 20
    with pytest.raises(sv.UnsupportedClaim, match="exceeds 2 / beta"):
        attack.account(
            sensitivity=0.02, unit="record", law=sv.noise.L2Laplace(scale=1.0), losses=sv.accounting.ConvexSmooth(beta=50.0)
        )  # fmt: skip


@pytest.mark.parametrize(("kind", "share", "power"), [("atc", 0.0, 0.99), ("atc", -2.0, 0.99), ("consensus", 1.0, 0.3)])
def test_with_short_steps_the_promise_holds_against_the_same_attack(kind, share, power):
    # Far from the kink differences add up; at the kink those of consensus double in every round.
    attacks = [Attack(kind, share, step=0.04, rounds=7, target=target) for target in (0.0, 10.0)]
    found = attacks[0].account(
        sensitivity=0.02, unit="record", law=sv.noise.L2Laplace(scale=1.0), losses=sv.accounting.ConvexSmooth(beta=50.0)
    )  # fmt: skip
    attained = max(attack.attained() for attack in attacks)
    assert power * found.pure_epsilon < attained <= found.pure_epsilon * (1 + 1e-9)


def test_the_promise_is_about_the_l2_norm():
    attack = Attack("atc", 0.0, step=0.04)
    with pytest.raises(sv.UnsupportedClaim, match="L2Laplace"):
        attack.account(sensitivity=0.02, unit="record", losses=sv.accounting.ConvexSmooth(beta=50.0))


# A released model is a further message. It costs nothing only where it is a function of the messages.

RING = sv.topologies.ring(6)
A = RING.matrix
LAW = sv.noise.Gaussian(std=0.7)
NOISE = {
    "self": sv.noise.independent(LAW),
    "clean": sv.noise.independent(LAW, self_noise=False),
    "homomorphic": sv.noise.graph_homomorphic(LAW),
}
EVERYTHING, FINAL = sv.observers.eavesdropper(), sv.observers.final_model()
SMOOTH = sv.accounting.ConvexSmooth(beta=1.0)


def released(kind, scheme, observer, **more):
    algorithm = getattr(sv.algorithms, kind)(step_size=0.4)
    return sv.account(RING, algorithm, NOISE[scheme], observer, rounds=5, sensitivity=1.0, agent=2, **more)


def seen(kind, scheme, **watcher):
    return brute.mu([getattr(brute, kind)(A, 0.4, 0.7)] * 5, scheme, brute.Watcher(**watcher), 2)


def test_atc_with_self_noise_releases_its_final_model_for_free():
    messages = released("atc", "self", EVERYTHING)
    both = released("atc", "self", EVERYTHING + FINAL)
    assert both.mu == pytest.approx(messages.mu, rel=1e-12)
    assert both.linear_mu == pytest.approx(messages.mu, rel=1e-9)
    assert seen("atc", "self", everything=True, final=True) == pytest.approx(messages.mu, rel=1e-9)
    assert released("atc", "self", FINAL).mu <= messages.mu


@pytest.mark.parametrize(
    ("kind", "scheme"),
    [("atc", "clean"), ("atc", "homomorphic"), ("cta", "self"), ("cta", "clean"), ("consensus", "self"), ("consensus", "homomorphic")],
)  # fmt: skip
def test_elsewhere_messages_and_final_model_together_hide_nothing(kind, scheme):
    assert math.isfinite(released(kind, scheme, EVERYTHING).mu)
    both = released(kind, scheme, EVERYTHING + FINAL)
    assert both.mu == math.inf == both.linear_mu
    assert both.validity == "infinite"
    assert seen(kind, scheme, everything=True, final=True) == math.inf
    with_promise = released(kind, scheme, EVERYTHING + FINAL, losses=SMOOTH)
    assert with_promise.mu == math.inf


def test_noise_that_cancels_in_the_average_does_not_hide_the_final_average():
    found = released("atc", "homomorphic", FINAL)
    assert found.mu == math.inf == found.linear_mu
    assert "cancels" in found.reason
    assert seen("atc", "homomorphic", final=True) == math.inf


def test_without_self_noise_the_final_model_alone_needs_the_promise():
    bare = released("atc", "clean", FINAL)
    assert bare.mu == math.inf
    assert "ConvexSmooth" in bare.reason
    assert bare.linear_mu == pytest.approx(seen("atc", "clean", final=True), rel=1e-8)
    promised = released("atc", "clean", FINAL, losses=SMOOTH)
    assert promised.validity == "absorption"
    assert promised.mu >= seen("atc", "clean", final=True) * (1 - 1e-9)
    assert math.isfinite(promised.mu)


@pytest.mark.parametrize("scheme", ["self", "clean"])
@pytest.mark.parametrize("members", [(1,), (1, 5), (4,)])
def test_noise_that_a_member_knows_does_not_hide_the_final_model(members, scheme):
    # After one round nothing has travelled on, so that the certificate is exactly what messages and average show.
    algorithm, observer = sv.algorithms.atc(step_size=0.4), sv.observers.coalition(members) + FINAL
    found = sv.account(RING, algorithm, NOISE[scheme], observer, rounds=1, sensitivity=1.0, agent=0, losses=SMOOTH)
    watcher = brute.Watcher(members=members, final=True)
    truth = brute.mu([brute.atc(A, 0.4, 0.7)], scheme, watcher, 0)
    assert found.mu == pytest.approx(truth, rel=1e-6)


@pytest.mark.parametrize("kind", ["cta", "consensus"])
def test_the_last_gradient_of_a_released_model_has_no_noise_of_its_own(kind):
    found = released(kind, "self", FINAL)
    assert found.mu == math.inf
    assert "last gradient" in found.reason


# Two-stage gradient descent: the printed algorithm starts its noiseless second stage one gradient past what was perturbed.

GRADIENTS, ETA = 6, 0.8
SCALES = [
    0.0,
    0.9,
    0.8,
    0.7,
    0.6,
    0.5,
    0.4,
    0.0,
    0.0,
    0.0,
]  # of the messages of rounds 1 to 10; gradient t goes out in round t + 1


@pytest.mark.parametrize("box", [None, 2.0])
def test_two_stage_descent_with_a_perturbed_hand_over_is_finite(box):
    algorithm = sv.algorithms.dgd(step_size=ETA, gradient_rounds=GRADIENTS, box=box)
    noise = sv.noise.independent(sv.noise.Gaussian(std=1.0)).scaled([scale or 1.0 for scale in SCALES])
    found = sv.account(RING, algorithm, noise, EVERYTHING, rounds=len(SCALES), sensitivity=1.5)
    expected = math.sqrt(sum((ETA / t * 1.5 / SCALES[t]) ** 2 for t in range(1, GRADIENTS + 1)))
    assert found.mu == pytest.approx(expected, rel=1e-12)
    assert (found.linear_mu is None) == (box is not None)  # a projection is not linear
    rounds = [brute.Round(first=A, step=ETA / t if t <= GRADIENTS else 0.0, scale=SCALES[t - 1]) for t in range(1, 11)]
    truth = brute.mu(rounds, "self", brute.Watcher(everything=True), 2) * 1.5
    assert truth == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("box", [None, 2.0])
def test_two_stage_descent_as_printed_gives_the_last_gradient_away(box):
    ours = sv.algorithms.dgd(step_size=ETA, gradient_rounds=GRADIENTS, box=box)
    linear = sv.algorithms.dgd(step_size=ETA, gradient_rounds=GRADIENTS)

    def perturbed(round_):
        return 1 < round_ <= GRADIENTS

    printed = ours._replace(sends_fresh=perturbed)
    if box is not None:
        printed = printed._replace(linear_part=linear._replace(sends_fresh=perturbed))
    noise = sv.noise.independent(sv.noise.Gaussian(std=1.0))
    found = sv.account(RING, printed, noise, EVERYTHING, rounds=10, sensitivity=1.5)
    assert found.mu == math.inf
    assert found.validity == "infinite"
    assert f"round {GRADIENTS + 1}" in found.reason
    scales = [1.0 if 1 < t <= GRADIENTS else 0.0 for t in range(1, 11)]
    rounds = [brute.Round(first=A, step=ETA / t if t <= GRADIENTS else 0.0, scale=scales[t - 1]) for t in range(1, 11)]
    assert brute.mu(rounds, "self", brute.Watcher(everything=True), 2) == math.inf
    before = sv.account(RING, printed, noise, EVERYTHING, rounds=GRADIENTS, sensitivity=1.5)
    assert math.isfinite(before.mu)  # the leak is the hand-over, nothing earlier


# The linear view of a part of the network is no guarantee: an honest agent's gradient can pass on what it hides.

NOISE_STD = 0.25
FAINT = nonlinear_relay(weight=0.1, std=NOISE_STD)
FAINT_RUN = (FAINT.topology, FAINT.algorithm, FAINT.noise, FAINT.observer)
FAINT_ASKED = {"rounds": FAINT.rounds, "sensitivity": FAINT.sensitivity, "agent": FAINT.agent}


def forwarded(message):
    """What agent 1 forwards in round 2: it starts at 0 with loss |w - 0.95|, so that it sends 1 first, then mixes and steps again."""
    first = 0.0 + 1.0  # minus the slope at 0
    mixed = 0.1 * message + 0.9 * first
    return mixed - np.sign(mixed - 0.95)


def true_delta(epsilon):
    """Of agent 2's view: agent 0's first message has mean 0 or 1, agent 1 forwards a function of it, with noise.

    The best test of what is forwarded; the relay's own `delta` is that of one threshold, by another route.
    """
    ends = np.linspace(-1.5, 2.5, 1601)  # of agent 0's message; the kink lies between two cells
    grid = np.linspace(-2.5, 4.5, 1401)
    kernel = stats.norm.pdf(grid[:, None], forwarded((ends[1:] + ends[:-1]) / 2)[None, :], NOISE_STD)
    laws = [kernel @ np.diff(stats.norm.cdf(ends, mean, NOISE_STD)) for mean in (0.0, 1.0)]
    return float(np.trapezoid(np.maximum(laws[1] - math.exp(epsilon) * laws[0], 0.0), grid))


def test_the_linear_view_of_a_curious_agent_is_below_what_it_can_learn():
    found = sv.account(*FAINT_RUN, **FAINT_ASKED)
    assert found.linear_mu == pytest.approx(0.1 / math.hypot(0.025, 0.25), rel=1e-9)
    assert found.linear_mu == pytest.approx(0.398, abs=5e-4)
    assert found.linear_validity == "exogenous-gradients"
    linear = gaussian.delta(found.linear_mu, 1.0)
    sent_once = gaussian.delta(
        every_message_mu(step_size=1.0, sensitivity=1.0, std=NOISE_STD, gradients_sent=1, feedback=0.5), 1.0
    )
    truth = true_delta(1.0)
    assert linear == pytest.approx(0.00125, abs=1e-5)
    assert truth == pytest.approx(0.915, abs=1e-3)
    assert truth == pytest.approx(FAINT.delta(1.0), abs=1e-3)
    # the sign, which tells the two means apart with probability Phi(2), is read off without error
    assert truth == pytest.approx(stats.norm.cdf(2.0) - math.e * stats.norm.sf(2.0), abs=3e-4)
    assert sent_once == pytest.approx(0.927, abs=5e-4)
    assert linear < truth <= sent_once <= found.delta(1.0)


def test_the_promise_that_would_make_it_private_is_false_there():
    # A kink has no smoothness; for the smooth losses that are promised, the certificate is above the linear view, and the kink is refused
    # by nothing but the user's word: the statement says that it rests on it.
    found = sv.account(*FAINT_RUN, **FAINT_ASKED, losses=sv.accounting.ConvexSmooth(beta=1.0))
    assert found.validity == "absorption"
    assert found.linear_mu <= found.mu * (1 + 1e-9)
    assert found.delta(1.0) < true_delta(1.0)
    assert any("promised, not checked" in line for line in found.assumptions)
    assert "promised, not checked" in str(found)


# Noise that cancels at every receiver hides nothing from whoever receives: models stay free of noise and travel on.

LOCAL = sv.noise.local_graph_homomorphic(LAW)
OBSERVERS = {
    "all links": EVERYTHING,
    "neighbour": sv.observers.curious_agent(3),
    "farthest": sv.observers.curious_agent(5),
    "coalition": sv.observers.coalition([0, 4]),
    "one link": sv.observers.links([(2, 3)]),
    "final model": FINAL,
    "one link and final model": sv.observers.links([(2, 3)]) + FINAL,
}


@pytest.mark.parametrize("who", OBSERVERS)
@pytest.mark.parametrize("kind", ["atc", "cta", "consensus"])
def test_nothing_is_proved_for_noise_that_cancels_at_receivers(kind, who):
    algorithm = getattr(sv.algorithms, kind)(step_size=0.4)
    for promise in (None, SMOOTH):
        found = sv.account(
            RING, algorithm, LOCAL, OBSERVERS[who], rounds=4, sensitivity=1.0, agent=2, losses=promise
        )  # fmt: skip
        assert found.mu == math.inf
        assert found.validity == "infinite"
        assert "cancel" in found.reason or "last gradient" in found.reason
        assert found.epsilon(1e-5) == math.inf


@pytest.mark.parametrize(("kind", "delay"), [("atc", 0), ("cta", 1), ("consensus", 1)])
@pytest.mark.parametrize("distance", [1, 2, 3])
def test_noise_that_cancels_at_receivers_is_gone_as_soon_as_a_message_arrives(kind, delay, distance):
    algorithm, observer = getattr(sv.algorithms, kind)(step_size=0.4), sv.observers.curious_agent(2 + distance)

    def after(rounds):
        found = sv.account(RING, algorithm, LOCAL, observer, rounds=rounds, sensitivity=1.0, agent=2)
        used = [getattr(brute, kind)(A, 0.4, 0.7)] * rounds
        assert found.linear_mu == brute.mu(used, "local", brute.Watcher(members=(2 + distance,)), 2)
        return found

    first = distance + delay
    assert after(first).linear_mu == math.inf
    assert f"round {first}" in after(first).reason
    if first > 1:
        assert after(first - 1).linear_mu == 0.0  # nothing of agent 2 has arrived yet


@pytest.mark.parametrize("kind", ["atc", "cta", "consensus"])
def test_one_tapped_link_of_noise_that_cancels_at_receivers_has_a_finite_linear_view(kind):
    algorithm = getattr(sv.algorithms, kind)(step_size=0.4)
    found = sv.account(RING, algorithm, LOCAL, sv.observers.links([(2, 3)]), rounds=4, sensitivity=1.0, agent=2)
    used = [getattr(brute, kind)(A, 0.4, 0.7)] * 4
    assert found.linear_mu == pytest.approx(brute.mu(used, "local", brute.Watcher(links=((2, 3),)), 2), rel=1e-9)
    assert 0 < found.linear_mu < math.inf
    both_links = sv.observers.links([(2, 3), (4, 3)])  # all that agent 3 receives: as good as being agent 3
    found = sv.account(RING, algorithm, LOCAL, both_links, rounds=4, sensitivity=1.0, agent=2)
    assert found.linear_mu == math.inf


def local_and_own(share):
    """The local scheme with a further source of its sender on every link, `share` times as strong."""

    def spread(links):
        local = LOCAL.spread(links)
        E, S = len(links.senders), local.num_sources
        return sv.noise.NoiseMap(
            owners=np.concatenate([local.owners, np.stack([links.senders, np.full(E, -1)], axis=1)]),
            link_index=np.concatenate([local.link_index, np.arange(E)]),
            link_source=np.concatenate([local.link_source, S + np.arange(E)]),
            link_value=np.concatenate([local.link_value, np.full(E, share)]),
            self_index=local.self_index,
            self_source=local.self_source,
            self_value=local.self_value,
        )

    return sv.noise.Noise(name="local and own", law=LAW, spread=spread)


@pytest.mark.parametrize("kind", ["atc", "cta", "consensus"])
@pytest.mark.parametrize("who", ["all links", "neighbour", "farthest", "coalition", "one link"])
def test_own_noise_on_every_link_makes_the_local_scheme_finite(kind, who):
    algorithm, observer = getattr(sv.algorithms, kind)(step_size=0.4), OBSERVERS[who]
    noise = local_and_own(0.5)
    found = sv.account(RING, algorithm, noise, observer, rounds=4, sensitivity=1.0, agent=2)
    watcher = brute.Watcher(everything=who == "all links", members=observer.members, links=observer.links)
    used = [getattr(brute, kind)(A, 0.4, 0.7)] * 4
    truth = brute.mu(used, "local and own", watcher, 2, ratio=0.5)
    assert found.linear_mu == pytest.approx(truth, rel=1e-6)
    assert truth * (1 - 1e-9) <= found.mu < math.inf
    bare = sv.noise.independent(sv.noise.Gaussian(std=0.35), per_edge=True, self_noise=False)
    alone = sv.account(RING, algorithm, bare, observer, rounds=4, sensitivity=1.0, agent=2)
    assert found.mu <= alone.mu * (1 + 1e-9)  # the cancelling part hides at least nothing
    if who == "all links":
        assert found.mu == pytest.approx(truth, rel=1e-6)


def test_a_source_on_another_agents_link_is_not_taken_for_noise_of_its_owner_alone():
    """Link l -> k carries z_l + z_k, so the difference of two opposite messages has no noise at all."""

    def spread(links, owners=((0, 1), (1, 0))):
        pairs, nothing = np.arange(len(links.senders)), np.arange(0)
        sources = np.concatenate([links.senders, links.receivers])
        return sv.noise.NoiseMap(
            np.array(owners),
            np.concatenate([pairs, pairs]),
            sources,
            np.ones(2 * len(pairs)),
            nothing,
            nothing,
            np.zeros(0),
        )

    noise = sv.noise.Noise(name="crossed", law=sv.noise.Gaussian(std=1.0), spread=spread)
    for algorithm in (sv.algorithms.gossip(acceleration=0.4), sv.algorithms.atc(step_size=0.5)):
        found = sv.account(
            sv.topologies.complete(2), algorithm, noise, sv.observers.eavesdropper(), rounds=1, sensitivity=1.0
        )
        assert found.validity == "infinite"
        assert found.linear_mu == np.inf
    alone = noise._replace(spread=lambda links: spread(links, ((0, -1), (1, -1))))
    with pytest.raises(sv.ConfigError, match="know"):
        sv.account(sv.topologies.complete(2), algorithm, alone, sv.observers.eavesdropper(), rounds=1, sensitivity=1.0)
