"""What must hold on every network: the accountant against brute force, and against itself, on random small cases.

A case is drawn twice: as objects of the package and as matrices for the brute-force route. Rounds, agents and examples are few so
that the whole view of a run can be stacked.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import sottovoce as sv
from accounting import brute_force as brute
from sottovoce.accounting import account_each
from sottovoce.accounting.calibration import calibrate
from sottovoce.accounting.linear_view.innovations import filtered_gram
from sottovoce.accounting.linear_view.stacked import stacked_gram
from sottovoce.linear import bound_rounds, exchange_topologies, network_round, observed_round
from sottovoce.observers import view

SINGLE = ("atc", "cta", "consensus")
SEVERAL = ("first+last", "middle+last", "first+middle", "first+middle+last")
ONE_OWNER = ("self", "clean", "edge", "edge-clean", "homomorphic")
RATIO = 1.7


def checked(examples):
    return settings(
        max_examples=examples, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )


class Case(NamedTuple):
    """One network, twice."""

    matrices: dict  # stage -> A
    kind: str
    scheme: str
    step: float
    std: float
    rounds: int
    agent: int
    observer: sv.observers.Observer
    watcher: brute.Watcher
    factors: tuple | None = None  # noise schedule

    @property
    def topology(self):
        return sv.topologies.from_matrix(next(iter(self.matrices.values())))

    @property
    def algorithm(self):
        if self.kind in SINGLE:
            return getattr(sv.algorithms, self.kind)(step_size=self.step)
        stages = {stage: sv.topologies.from_matrix(A) for stage, A in self.matrices.items()}
        return sv.algorithms.three_matrix(step_size=self.step, **stages)

    def noise(self, law=None):
        made = scheme_of(self.scheme, sv.noise.Gaussian(std=self.std) if law is None else law)
        return made if self.factors is None else made.scaled(list(self.factors))

    def account(self, *, observer=None, law=None, noise=None, **more):
        return sv.account(
            self.topology, self.algorithm, self.noise(law) if noise is None else noise, observer or self.observer,
            **{"rounds": self.rounds, "sensitivity": 1.0, "agent": self.agent, **more},
        )  # fmt: skip

    def brute_rounds(self):
        factors = self.factors or (1.0,) * self.rounds
        stages = {"atc": "last", "cta": "first", "consensus": "middle"}
        named = {stages.get(self.kind, stage): A for stage, A in self.matrices.items()}
        return [brute.Round(**named, step=self.step, scale=self.std * factors[t]) for t in range(self.rounds)]

    def leak(self):
        return brute.leak(brute.stack(self.brute_rounds(), self.scheme, self.watcher, ratio=RATIO), self.agent)


def scheme_of(name, law):
    match name:
        case "self" | "clean":
            return sv.noise.independent(law, self_noise=name == "self")
        case "edge" | "edge-clean":
            return sv.noise.independent(law, per_edge=True, self_noise=name == "edge")
        case "homomorphic":
            return sv.noise.graph_homomorphic(law)
        case "local":
            return sv.noise.local_graph_homomorphic(law)
        case "gopa":
            return sv.noise.gopa(law, pairwise_std=RATIO * law.std)
    raise ValueError(name)


def random_matrix(rng, K, weights, *, cycle=False):
    """Positive self-weights; connected. weights: metropolis, left-stochastic (two-way links), directed."""
    support = np.zeros((K, K), dtype=bool)
    for k in range(1, K):
        other = k - 1 if cycle or weights == "directed" else rng.integers(k)
        support[other, k] = True
        support[k, other] = weights != "directed"
    if cycle or weights == "directed":
        support[K - 1, 0] = True
        support[0, K - 1] |= weights != "directed"
    for first, second in itertools.permutations(range(K), 2):
        if rng.random() < 0.25:
            support[first, second] = True
            support[second, first] |= weights != "directed"
    if weights == "metropolis":
        degree = support.sum(axis=0)
        A = np.where(support, 1.0 / (1.0 + np.maximum(degree[:, None], degree[None, :])), 0.0)
        return A + np.diag(1.0 - A.sum(axis=0))
    A = np.where(support | np.eye(K, dtype=bool), rng.uniform(0.2, 1.0, (K, K)), 0.0)
    return A / A.sum(axis=0)


def drawn_observer(draw, A, agent, *, final=True):
    """An observer that does not contain the agent, and its twin."""
    K = len(A)
    outside = [k for k in range(K) if k != agent]
    links = [(j, k) for j in range(K) for k in range(K) if j != k and A[j, k] > 0]
    kinds = ["all", "one", "coalition", "links", "one and links", "all and one"]
    kind = draw(st.sampled_from([*kinds, "final", "one and final", "links and final"] if final else kinds))
    observer, watcher = None, brute.Watcher()
    parts = []
    if "all" in kind:
        parts.append(sv.observers.eavesdropper())
        watcher = watcher._replace(everything=True)
    if "one" in kind:
        member = draw(st.sampled_from(outside))
        parts.append(sv.observers.curious_agent(member))
        watcher = watcher._replace(members=(member,))
    if kind == "coalition":
        members = draw(st.lists(st.sampled_from(outside), min_size=1, max_size=max(1, K - 2), unique=True))
        parts.append(sv.observers.coalition(members))
        watcher = watcher._replace(members=tuple(members))
    if "links" in kind:
        tapped = draw(st.lists(st.sampled_from(links), min_size=1, max_size=3, unique=True))
        parts.append(sv.observers.links(tapped))
        watcher = watcher._replace(links=tuple(tapped))
    if "final" in kind:
        parts.append(sv.observers.final_model())
        watcher = watcher._replace(final=True)
    for part in parts:
        observer = part if observer is None else observer + part
    return observer, watcher


@st.composite
def cases(draw, *, kinds=SINGLE + SEVERAL, schemes=brute.SCHEMES, final=True, scheduled=False, weights=None):
    kind, scheme = draw(st.sampled_from(kinds)), draw(st.sampled_from(schemes))
    two_way = ("metropolis", "left-stochastic")
    allowed = weights or (two_way if scheme in ("gopa", "local") else (*two_way, "directed"))
    K, rounds = draw(st.integers(3, 7)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    stages = ("only",) if kind in SINGLE else kind.split("+")
    matrices = {
        stage: random_matrix(rng, K, draw(st.sampled_from(allowed)), cycle=scheme == "local") for stage in stages
    }
    agent = draw(st.integers(0, K - 1))
    observer, watcher = drawn_observer(draw, sum(matrices.values()), agent, final=final)
    factors = tuple(rng.uniform(0.5, 2.0, rounds)) if scheduled else None
    step, std = float(rng.uniform(0.1, 1.0)), float(rng.uniform(0.3, 2.0))
    return Case(matrices, kind, scheme, step, std, rounds, agent, observer, watcher, factors)


def assert_linear_view(found, leak, pattern=None):
    """`linear_mu` is infinite exactly where brute force says so, and else between the attained and the proven value."""
    assert (found.linear_mu == math.inf) == leak.infinite
    if leak.infinite:
        return
    chosen = np.arange(len(leak.gram)) if pattern is None else pattern
    Q = leak.gram[np.ix_(chosen, chosen)]
    truth = math.sqrt(max(brute.largest(Q), 0.0))
    if Q.min(initial=0.0) >= 0:
        assert found.linear_mu == pytest.approx(truth, rel=1e-8, abs=1e-12)
    else:
        assert truth * (1 - 1e-8) <= found.linear_mu
        assert found.linear_mu * (1 - found.linear_gap) <= truth * (1 + 1e-8)
        assert found.linear_gap < 1e-4


@checked(150)
@given(cases())
def test_the_linear_view_is_that_of_brute_force(case):
    assert_linear_view(case.account(), case.leak())


@checked(40)
@given(cases(scheduled=True))
def test_a_noise_schedule_is_accounted_round_by_round(case):
    assert_linear_view(case.account(), case.leak())


@checked(80)
@given(cases())
def test_a_guarantee_is_never_below_the_linear_view(case):
    found = case.account()
    assert found.mu >= found.linear_mu * (1 - 1e-9)
    if found.validity == "exact":
        assert found.mu == pytest.approx(found.linear_mu, rel=1e-6)
    if found.linear_validity == "adaptive":
        assert found.mu == pytest.approx(found.linear_mu, rel=1e-6)


@checked(60)
@given(cases(kinds=SINGLE, final=False), st.floats(1.0, 50.0))
def test_noise_of_twice_the_scale_halves_what_is_learned(case, factor):
    less, more = case.account(), case.account(noise=case.noise().scaled(factor))
    assert more.mu == pytest.approx(less.mu / factor, rel=1e-9)
    assert more.linear_mu == pytest.approx(less.linear_mu / factor, rel=1e-6)


@checked(60)
@given(cases(), st.data())
def test_more_noise_in_one_round_never_reveals_more(case, data):
    raised = [1.0] * case.rounds
    raised[data.draw(st.integers(0, case.rounds - 1))] = data.draw(st.floats(1.0, 20.0))
    promise = data.draw(st.sampled_from([None, sv.accounting.ConvexSmooth(beta=1.0 / case.step)]))
    less, more = case.account(losses=promise), case.account(noise=case.noise().scaled(raised), losses=promise)
    # The quadratic programme is solved to about 1e-6.
    assert more.mu <= less.mu * (1 + 1e-5)
    assert more.linear_mu <= less.linear_mu * (1 + 1e-5)


@checked(60)
@given(cases(schemes=("gopa",)), st.floats(1.0, 20.0))
def test_more_pairwise_noise_never_reveals_more(case, factor):
    law = sv.noise.Gaussian(std=case.std)
    more = case.account(noise=sv.noise.gopa(law, pairwise_std=RATIO * case.std * factor))
    less = case.account()
    assert more.mu <= less.mu * (1 + 1e-6)
    assert more.linear_mu <= less.linear_mu * (1 + 1e-5)


@checked(80)
@given(cases(), st.data())
def test_whoever_sees_more_learns_no_less(case, data):
    A = sum(case.matrices.values())
    links = [(j, k) for j in range(len(A)) for k in range(len(A)) if j != k and A[j, k] > 0]
    others = [k for k in range(len(A)) if k != case.agent]
    added = data.draw(
        st.one_of(
            st.just(sv.observers.final_model()),
            st.builds(sv.observers.links, st.lists(st.sampled_from(links), min_size=1, max_size=2)),
            st.builds(sv.observers.curious_agent, st.sampled_from(others)),
            st.just(sv.observers.eavesdropper()),
        )
    )
    promise = data.draw(st.sampled_from([None, sv.accounting.ConvexSmooth(beta=1.0 / case.step)]))
    less, more = case.account(losses=promise), case.account(observer=case.observer + added, losses=promise)
    assert more.mu >= less.mu * (1 - 1e-5)
    assert more.linear_mu >= less.linear_mu * (1 - 1e-5)


@checked(60)
@given(cases(schemes=[s for s in brute.SCHEMES if s != "local"]), st.data())
def test_names_of_agents_do_not_matter(case, data):
    # Local graph-homomorphic noise is left out: it pairs neighbours in the order of their numbers.
    K = case.topology.num_agents
    place = data.draw(st.permutations(range(K)))  # old number -> new number
    order = np.argsort(place)
    observer = sv.observers.Observer(
        name="renamed",
        all_links=case.observer.all_links,
        members=tuple(sorted(place[k] for k in case.observer.members)),
        links=tuple(sorted((place[j], place[k]) for j, k in case.observer.links)),
        final_model=case.observer.final_model,
    )
    renamed = case._replace(
        matrices={stage: A[np.ix_(order, order)] for stage, A in case.matrices.items()},
        agent=place[case.agent],
        observer=observer,
    )
    before, after = case.account(), renamed.account()
    assert after.mu == pytest.approx(before.mu, rel=1e-8)
    assert after.linear_mu == pytest.approx(before.linear_mu, rel=1e-5, abs=1e-12)
    if case.kind in SINGLE:
        assert after.validity == before.validity


def test_equal_values_are_stated_for_the_same_reason_whatever_the_names():
    # With two exchanges and everything read, sent messages and the exact view agree up to rounding: the reason must not depend on it.
    A = np.full((3, 3), 1 / 3)
    case = Case(
        {"first": A, "last": A}, "first+last", "self", 0.13, 1.54, 1, 0, sv.observers.eavesdropper(), brute.Watcher(everything=True)
    )  # fmt: skip
    found = {
        case._replace(agent=agent, step=step, observer=observer).account().validity
        for agent in (0,)
        for step in np.linspace(0.1, 1.0, 7)
        for observer in (case.observer + sv.observers.curious_agent(1), case.observer + sv.observers.curious_agent(2))
    }
    assert len(found) == 1


@checked(60)
@given(cases())
def test_filter_and_stacked_covariance_give_the_same_matrix(case):
    rounds = bound_rounds(case.topology, case.algorithm, case.noise(), case.rounds)
    seen = view(case.observer, *exchange_topologies(case.algorithm, case.topology))
    network = network_round(rounds.distinct[0])
    q = rounds.centroid.weights
    systems = [observed_round(network, seen, last=t == case.rounds - 1, centroid=q) for t in range(case.rounds)]
    agents = np.array([case.agent])
    one, other, leak = (
        filtered_gram(systems, rounds.scales, agents),
        stacked_gram(systems, rounds.scales, agents),
        case.leak(),
    )
    assert (one.clear_round[0] > 0) == leak.infinite
    if not leak.infinite:
        size = np.abs(leak.gram).max(initial=0.0)
        np.testing.assert_allclose(one.values[0], leak.gram, rtol=0, atol=1e-8 * size + 1e-14)
    if other is not None:
        assert not leak.infinite
        np.testing.assert_allclose(other.values[0], leak.gram, rtol=0, atol=1e-8 * size + 1e-14)


@checked(50)
@given(cases(kinds=("atc", "cta"), schemes=ONE_OWNER))
def test_absorption_lies_between_the_linear_view_and_the_sent_messages(case):
    sent = case.account()
    found = case.account(losses=sv.accounting.ConvexSmooth(beta=2.0 / case.step))
    assert found.mu <= sent.mu * (1 + 1e-9)
    leak = case.leak()
    assert found.mu >= (math.inf if leak.infinite else math.sqrt(max(brute.largest(leak.gram), 0.0)) * (1 - 1e-6))
    if found.validity == "absorption":
        assert any("promised, not checked" in line for line in found.assumptions)


@checked(30)
@given(cases(kinds=SINGLE), st.booleans())
def test_the_worst_agent_is_the_worst_of_all(case, promised):
    promise = sv.accounting.ConvexSmooth(beta=1.0 / case.step) if promised else None
    sensitivity = np.random.default_rng(case.rounds).uniform(0.5, 2.0, case.topology.num_agents)
    worst = case.account(agent=None, sensitivity=sensitivity, losses=promise)
    each = account_each(
        case.topology, case.algorithm, case.noise(), case.observer, rounds=case.rounds, sensitivity=sensitivity, losses=promise
    )  # fmt: skip
    outside = [k for k in range(case.topology.num_agents) if k not in case.observer.members]
    assert [one.agent for one in each] == outside
    assert worst.mu == pytest.approx(max(one.mu for one in each), rel=1e-9)
    assert worst.linear_mu == pytest.approx(max(one.linear_mu for one in each), rel=1e-9)
    assert each[outside.index(worst.agent)].mu == pytest.approx(worst.mu, rel=1e-9)
    alone = case.account(sensitivity=sensitivity, losses=promise)
    assert alone.mu == pytest.approx(each[outside.index(case.agent)].mu, rel=1e-5)


def test_the_agent_with_the_largest_sensitivity_need_not_be_the_worst():
    # Agent 4 sends most, but is farthest from agent 0 and its messages are absorbed on the way.
    graph, algorithm = sv.topologies.ring(8), sv.algorithms.atc(step_size=0.4)
    noise, observer = sv.noise.independent(sv.noise.Gaussian(std=0.7)), sv.observers.curious_agent(0)
    sensitivity = np.where(np.arange(8) == 4, 2.0, 1.0)
    arguments = {"rounds": 5, "sensitivity": sensitivity, "losses": sv.accounting.ConvexSmooth(beta=1.0)}
    worst = sv.account(graph, algorithm, noise, observer, **arguments)
    each = account_each(graph, algorithm, noise, observer, **arguments)
    assert each[3].agent == 4
    assert each[3].mu < 0.5 * worst.mu
    assert worst.agent in (1, 7)
    assert worst.mu == max(one.mu for one in each)
    assert worst.linear_mu == max(one.linear_mu for one in each)


@checked(60)
@given(cases(), st.data())
def test_participation_restricts_the_matrix_to_its_rounds(case, data):
    times = data.draw(st.integers(1, case.rounds))
    gap = 1 if times == 1 else data.draw(st.integers(1, max(1, (case.rounds - 1) // (times - 1))))
    assume((times - 1) * gap + 1 <= case.rounds)
    participation = data.draw(st.sampled_from([sv.accounting.cyclic(times, gap), "once"]))
    if participation == "once":
        times, gap = 1, 1
    try:
        found = case.account(
            unit="record", participation=participation, losses=sv.accounting.ConvexSmooth(beta=1.0 / case.step)
        )
    except sv.UnsupportedClaim:
        # The promise is of no use where a round has several exchanges, or where the model is released with its last gradient.
        assert case.kind in SEVERAL or (case.observer.final_model and case.kind != "atc")
        return
    leak, length = case.leak(), (times - 1) * gap + 1
    assert (found.linear_mu == math.inf) == leak.infinite
    if not leak.infinite:
        placed = [np.arange(start, start + length, gap) for start in range(case.rounds - length + 1)]
        values = [brute.largest(leak.gram[np.ix_(rows, rows)]) for rows in placed]
        assert found.linear_mu == pytest.approx(math.sqrt(max(0.0, *values)), rel=1e-5, abs=1e-9)
    assert found.mu >= found.linear_mu * (1 - 1e-5)


@st.composite
def listed(draw):
    """A schedule of doubly stochastic matrices whose union is connected; some agents are silent in some rounds."""
    K, rounds = draw(st.integers(3, 6)), draw(st.integers(2, 5))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    whole = random_matrix(rng, K, "metropolis")
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        kept = np.triu(rng.random((K, K)) < 0.6, 1)
        links = np.where((kept | kept.T) & (whole > 0), whole, 0.0)
        np.fill_diagonal(links, 0.0)
        parts.append(links + np.diag(1.0 - links.sum(axis=0)))
    matrices = [*parts, whole]
    agent, scheme = draw(st.integers(0, K - 1)), draw(st.sampled_from([s for s in brute.SCHEMES if s != "local"]))
    observer, watcher = drawn_observer(draw, whole, agent)
    return matrices, draw(st.sampled_from(SINGLE)), scheme, rounds, agent, observer, watcher


@checked(80)
@given(listed())
def test_listed_rounds_are_accounted_in_their_order(drawn):
    matrices, kind, scheme, rounds, agent, observer, watcher = drawn
    topology = sv.topologies.from_matrix(matrices[-1]).with_schedule(matrices)
    algorithm = getattr(sv.algorithms, kind)(step_size=0.4)
    noise = scheme_of(scheme, sv.noise.Gaussian(std=0.7))
    found = sv.account(topology, algorithm, noise, observer, rounds=rounds, sensitivity=1.0, agent=agent)
    used = [getattr(brute, kind)(matrices[t % len(matrices)], 0.4, 0.7) for t in range(rounds)]
    K = len(matrices[0])
    stacked = brute.stack(used, scheme, watcher, ratio=RATIO, centroid=np.full(K, 1.0 / K))
    assert_linear_view(found, brute.leak(stacked, agent))
    assert found.mu >= found.linear_mu * (1 - 1e-9)


@checked(60)
@given(
    st.integers(3, 6), st.integers(1, 5), st.sampled_from(SINGLE), st.sampled_from(["self", "gopa"]),
    st.sampled_from(["server", "one", "two", "final", "one and final", "server and one", "server and final"]), st.integers(0, 10**6),
)  # fmt: skip
def test_a_federation_is_accounted_as_brute_force_says(K, rounds, kind, scheme, who, seed):
    rng = np.random.default_rng(seed)
    records = rng.integers(1, 9, K)
    q = records / records.sum()
    topology = sv.topologies.federation(K, "records", records=records)
    members = (1, 2)[: 1 if "one" in who else 2] if "one" in who or who == "two" else ()
    assume(len(members) < K - 1)
    parts = [sv.observers.server()] if "server" in who else []
    parts += [sv.observers.coalition(members)] if members else []
    parts += [sv.observers.final_model()] if "final" in who else []
    observer = parts[0] if len(parts) == 1 else parts[0] + parts[1]
    watcher = brute.Watcher(relay=True, uplinks="server" in who, members=members, final="final" in who)
    noise = scheme_of(scheme, sv.noise.Gaussian(std=0.7))
    algorithm = getattr(sv.algorithms, kind)(step_size=0.4)
    found = sv.account(topology, algorithm, noise, observer, rounds=rounds, sensitivity=1.0, agent=0)
    used = [getattr(brute, kind)(np.repeat(q[:, None], K, axis=1), 0.4, 0.7)] * rounds
    leak = brute.leak(brute.stack(used, scheme, watcher, ratio=RATIO), 0)
    assert_linear_view(found, leak)
    assert found.mu >= found.linear_mu * (1 - 1e-9)
    if members or "server" in who:
        assert found.mu == pytest.approx(found.linear_mu, rel=1e-6)  # everybody's model is known: no gap


def pure_epsilon(case, scale):
    """The largest l1 shift of the sources that keeps every message, over gradient changes of +-1 in one dimension."""
    rounds = [r._replace(scale=scale) for r in case.brute_rounds()]
    found = brute.stack(rounds, case.scheme, brute.Watcher(everything=True))
    shift = np.linalg.lstsq(found.noise, found.gradients[:, :, case.agent], rcond=1e-12)[0]
    assert np.allclose(found.noise @ shift, found.gradients[:, :, case.agent], atol=1e-9)
    tried = np.array(list(itertools.product((-1.0, 1.0), repeat=case.rounds)))
    return float(np.abs(shift @ tried.T).sum(axis=0).max())


@checked(60)
@given(cases(schemes=("self", "clean", "edge-clean", "homomorphic"), final=False))
def test_laplace_noise_read_on_all_links_costs_what_it_must_be_shifted_by(case):
    law = sv.noise.Laplace(std=case.std * math.sqrt(2.0))
    found = case.account(law=law, observer=sv.observers.eavesdropper())
    truth = pure_epsilon(case, case.std)
    if case.kind in SINGLE:
        assert found.pure_epsilon == pytest.approx(truth, rel=1e-8, abs=1e-12)
    else:
        assert found.pure_epsilon >= truth * (1 - 1e-9)
    partial = case.account(law=law)
    assert partial.pure_epsilon <= found.pure_epsilon * (1 + 1e-12)


LAWS = {
    "gaussian": sv.noise.Gaussian(std=0.7),
    "laplace": sv.noise.Laplace(std=0.7),
    "l2_laplace": sv.noise.L2Laplace(scale=0.7),
}


@checked(60)
@given(
    cases(kinds=SINGLE, schemes=ONE_OWNER, final=False), st.sampled_from(sorted(LAWS)), st.floats(0.05, 20.0), st.floats(1e-9, 0.1)
)  # fmt: skip
def test_calibrated_noise_meets_its_target(case, law, epsilon, delta):
    assume(case.rounds > 1 or case.kind == "atc")  # otherwise nothing is sent
    sensitivity = 1.0 + np.arange(case.topology.num_agents)
    arguments = {"rounds": case.rounds, "sensitivity": sensitivity}
    noise = case.noise(LAWS[law])
    if law != "gaussian" and delta < 1e-3:
        delta = 0.0
    made = calibrate(
        case.topology, case.algorithm, noise, case.observer, **arguments, epsilon=epsilon, delta=delta
    )  # fmt: skip
    reached = sv.account(case.topology, case.algorithm, made, case.observer, **arguments)
    assert reached.epsilon(delta) == pytest.approx(epsilon, rel=1e-9)


def test_an_agent_that_is_not_there_is_said_to_take_part_all_the_same():
    """Otherwise its absence would be seen, and its noise would be missing from averages."""
    network, algorithm = sv.topologies.federation(6), sv.algorithms.fedavg(step_size=0.1)
    noise, question = sv.noise.independent(sv.noise.Gaussian(std=1.0)), {"rounds": 2, "sensitivity": 1.0}
    said = sv.account(network, algorithm, noise, sv.observers.server(), adjacency="add-remove", **question).assumptions
    assert any("takes part all the same" in one for one in said)
    unsaid = sv.account(network, algorithm, noise, sv.observers.server(), **question).assumptions
    assert not any("takes part all the same" in one for one in unsaid)
