"""Absorption in noise that agents share: published values, exact views of random networks, prices by brute force, and what wrong prices would cost."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy import sparse, stats

import sottovoce as sv
from accounting.shared_views import SHARED, Play, Shared, View, attained, random_matrix, random_play, random_shared
from accounting.two_worlds import Data, Parts, Stage, all_signs, judge
from sottovoce.accounting.proofs import absorption_certificate, absorption_problem, noise_vectors
from sottovoce.accounting.proofs.absorption import Diffusion, RoundLinks, Terminal
from sottovoce.accounting.proofs.absorption import absorption_certificate as certificate
from sottovoce.accounting.proofs.absorption_prices import made_convex, prices, shortest_undo
from sottovoce.accounting.proofs.noise_vectors import noise_vector, upper_precision
from sottovoce.errors import ConfigError
from sottovoce.linear import bound_rounds

PROMISE = sv.accounting.ConvexSmooth(1.0)
LAW = sv.noise.Gaussian(std=0.7)
THIRDS = sv.topologies.from_matrix((np.eye(6) + np.roll(np.eye(6), 1, axis=0) + np.roll(np.eye(6), -1, axis=0)) / 3)
BASE = {"rounds": 7, "sensitivity": 1.0, "unit": "agent", "agent": 2}


def base_case(ratio, distance, **question):
    noise = sv.noise.gopa(LAW, pairwise_std=0.7 * ratio) if ratio else sv.noise.independent(LAW)
    observer = sv.observers.curious_agent(2 + distance)
    return sv.account(THIRDS, sv.algorithms.atc(step_size=0.4), noise, observer, **BASE, **question)


@pytest.mark.parametrize(
    ("ratio", "distance", "expected", "sent", "linear"),
    [
        (0, 2, 0.64324, 1.51186, 0.63728),
        (0, 3, 0.37447, 1.51186, 0.37133),
        (1, 1, 1.18869, 1.18869, 1.15047),
        (1, 2, 0.55255, 1.03948, 0.53583),
        (1, 3, 0.32602, 1.01929, 0.30956),
        (2, 2, 0.46335, 0.84038, 0.40062),
        (2, 3, 0.29122, 0.81012, 0.23210),
    ],
)
def test_the_base_ring_with_pair_noise_has_its_values(ratio, distance, expected, sent, linear):
    found, without = base_case(ratio, distance, losses=PROMISE), base_case(ratio, distance)
    assert found.mu == pytest.approx(expected, abs=6e-6)
    assert without.mu == pytest.approx(sent, abs=6e-6)
    assert found.linear_mu == pytest.approx(linear, abs=6e-6)
    assert found.linear_mu < found.mu <= without.mu
    assert found.validity == ("sent-messages" if distance == 1 else "absorption")


def test_a_guarantee_says_that_it_counts_on_the_noise_of_others():
    found, alone = base_case(1, 3, losses=PROMISE), base_case(0, 3, losses=PROMISE)
    assert "agents outside the observer follow the protocol" in found.assumptions
    assert "counts on the others" in found.reason
    assert "counts on the others" not in alone.reason
    assert any("promised, not checked" in one for one in found.assumptions)
    assert found.source.startswith("docs/guarantees.md")


def stated(play, view, agent, beta):
    """What is promised of the losses of a play; beta a rounding larger."""
    return sv.account(
        *play.parts, view.observer, rounds=len(play.std), agent=agent, sensitivity=1.0, unit="agent", same_model=True,
        losses=sv.accounting.ConvexSmooth(beta * (1 + 1e-12)),
    )  # fmt: skip


def held_against(seeds, form=None):
    """(ratio attained / stated, validity) of random plays."""
    found = []
    for seed in seeds:
        play, view, agent, beta = random_play(seed, form=form)
        one = stated(play, view, agent, beta)
        if 0 < one.mu < math.inf:
            found.append((attained(play, view, agent) / one.mu, one.validity))
    return found


@pytest.mark.parametrize("form", SHARED)
def test_no_view_of_a_random_network_gives_away_more_than_is_stated(form):
    found = held_against(range(25), form)
    assert max(ratio for ratio, _ in found) <= 1 + 1e-9
    assert sum(validity == "absorption" for _, validity in found) >= 5
    assert max(ratio for ratio, validity in found if validity == "absorption") > 0.6


@pytest.mark.slow
@pytest.mark.parametrize("form", SHARED)
def test_no_view_of_many_random_networks_gives_away_more_than_is_stated(form):
    assert max(ratio for ratio, _ in held_against(range(1000, 1300), form)) <= 1 + 1e-9


def test_losses_bent_against_an_agent_round_by_round_reach_the_stated_value_and_not_more():
    """Whoever chooses the curvature of every agent in every round, 0 or nearly 2 / step, each to the observer's best."""
    rng, ratios = np.random.default_rng(5), []
    for seed in range(3000, 3040):
        play, view, agent, _ = random_play(seed)
        beta = 1.999 / play.step
        found = stated(play, view, agent, beta)
        if found.validity != "absorption" or found.mu == 0:
            continue
        bent = beta * (rng.random((len(play.std), len(play.hessians))) < 0.5)
        most = attained(play._replace(hessians=bent), view, agent)
        for place in [*np.ndindex(bent.shape)] * 2:
            other = bent.copy()
            other[place] = beta - other[place]
            value = attained(play._replace(hessians=other), view, agent)
            if value > most:
                bent, most = other, value
        ratios.append(most / found.mu)
    assert max(ratios) <= 1 + 1e-9
    assert max(ratios) > 0.97
    assert len(ratios) > 10


def _of_all_agents(monkeypatch):
    """The price of the covariance of everybody, as if members did not know the noise they share."""
    monkeypatch.setattr(noise_vectors, "known_sources", lambda owners, members: np.zeros(len(owners), dtype=bool))
    return "any"


def _of_others_alone(monkeypatch):
    """The inverse of the others' covariance, as if members were not told what they add themselves."""
    made, known = noise_vectors.upper_precision, {}

    def remembered(exchange, members):
        known["members"] = members
        return noise_vector(exchange, members)

    def without_members(C):
        return made(sparse.csr_array(sparse.diags_array(1.0 - known["members"]) @ C))

    monkeypatch.setattr(noise_vectors, "upper_precision", without_members)
    monkeypatch.setattr(absorption_certificate, "noise_vector", remembered)
    return "generator"


@pytest.mark.parametrize("mistake", [_of_all_agents, _of_others_alone])
def test_prices_of_something_else_are_refuted(mistake, monkeypatch):
    form = mistake(monkeypatch)
    assert sum(ratio > 1 + 1e-6 for ratio, _ in held_against(range(25), form)) >= 3


def turning_round():
    """Agents 1 and 2 hear the same of agent 0; only the step of agent 2 turns it round. They share a source with equal signs."""
    A = np.zeros((4, 4))
    A[[0, 0, 1, 2, 1, 2, 3, 3], [1, 2, 0, 0, 3, 3, 1, 2]] = 0.3
    A += np.diag(1.0 - A.sum(axis=0))
    factors, knows = np.zeros((4, 5)), np.zeros((4, 5), dtype=bool)
    factors[1:3, 0], knows[1:3, 0] = 2.0, True
    factors[:, 1:], knows[:, 1:] = 0.5 * np.eye(4), np.eye(4, dtype=bool)
    factors[0, 1] = 0.02
    step = 0.5
    play = Play(
        [A] * 2,
        Shared(factors, knows, sums=False, bare=False),
        np.ones(2),
        "atc",
        step,
        np.array([0, 0, 1.999 / step, 0]),
    )
    return play, View((3,), (), final=False), 0, 2.0 / step


def test_differences_that_turn_round_are_covered_and_would_catch_a_price_with_signs(monkeypatch):
    play, view, agent, beta = turning_round()
    true, found = attained(play, view, agent), stated(play, view, agent, beta)
    assert found.validity == "absorption"
    assert 0.95 * found.mu < true <= found.mu

    def with_signs(precision, width):
        made = prices(precision, width)
        return made._replace(sizes=made.precision)

    monkeypatch.setattr(absorption_problem, "prices", with_signs)
    assert stated(play, view, agent, beta).mu < 0.5 * true


@pytest.mark.parametrize(
    ("kind", "form", "members", "listed"),
    [("atc", "opposite", (2,), True), ("consensus", "any", (3,), False), ("cta", "generator", (1, 3), False)],
)
def test_records_of_the_simulator_give_away_no_more_than_is_stated(kind, form, members, listed):
    """Two worlds as they are played, with convex reactions of all agents, for members, a reader of one link and the final model."""
    rng = np.random.default_rng(len(form))
    K, rounds, step = 4, 3, 0.4
    topology = sv.topologies.ring(K)
    if listed:
        topology = topology.with_schedule([topology.matrix, 0.5 * (topology.matrix + np.eye(K))])
    algorithm = getattr(sv.algorithms, kind)(step_size=step)
    noise = random_shared(rng, K, form).noise(0.8)
    response = (1.9 / step) * rng.choice([0.0, 0.5, 1.0], K)[:, None, None]
    middle = rng.normal(size=(K, rounds, 2, 1))
    middle[0] = middle[0, 0, 0]
    data = Data(0, middle, all_signs(rounds, [1.0], size=1.0), response)
    question = {"sensitivity": 1.0, "unit": "agent", "same_model": True, "losses": sv.accounting.ConvexSmooth(2 / step)}
    observers = [sv.observers.coalition(list(members)), sv.observers.links([(2, 1)])]
    observers += [sv.observers.final_model()] if kind == "atc" else []
    verdicts = judge(
        Stage(Parts(topology, algorithm, noise, rounds), data), data, [(one, question) for one in observers]
    )
    assert all(one is not None and one.holds for one in verdicts)
    assert "absorption" in {one.validity for one in verdicts}


def attack(play, view, agent, beta, *, epsilon, samples=100_000):
    """A lower bound of delta(epsilon), wrong with probability 2e-6, for losses beta sqrt(1 + w^2) moved about; half of the samples choose what to look at."""
    rng, T, K, learnt = np.random.default_rng(3), len(play.std), len(play.hessians), samples // 2
    known, views = play.shared.knows[list(view.members)].any(axis=0), []
    goals = np.linspace(-1.0, 1.0, K)
    for world in (0.5, -0.5):
        w, rows = np.zeros((samples, K)), []
        for t, A in enumerate(play.matrices):
            gradient = beta * (w - goals) / np.sqrt(1 + (w - goals) ** 2)
            gradient[:, agent] += world
            z = rng.standard_normal((samples, len(known)))
            n = play.std[t] * z @ play.shared.factors.T
            y = w - play.step * gradient + n
            read = np.flatnonzero(A[:, list(view.members)].sum(axis=1) > 0)
            rows.append(np.concatenate([y[:, read], z[:, known]], axis=1))
            w = y @ A
        views.append(np.concatenate(rows, axis=1))
    assert len(rows) == T
    learn, count = [one[:learnt] for one in views], [one[learnt:] for one in views]
    covariance = (np.cov(learn[0].T) + np.cov(learn[1].T)) / 2
    direction = np.linalg.lstsq(covariance, learn[0].mean(axis=0) - learn[1].mean(axis=0), rcond=1e-10)[0]
    scores = [np.sort(one @ direction) for one in learn]
    grid = np.quantile(scores[0], np.linspace(0.01, 0.99, 99))
    above = [1 - np.searchsorted(one, grid) / learnt for one in scores]
    threshold = grid[np.argmax(above[0] - math.exp(epsilon) * above[1])]
    hits, total = [int(np.count_nonzero(one @ direction > threshold)) for one in count], samples - learnt
    low = stats.beta.ppf(1e-6, hits[0], total - hits[0] + 1)
    return float(low - math.exp(epsilon) * stats.beta.ppf(1 - 1e-6, hits[1] + 1, total - hits[1]))


def gaussian_delta(mu, epsilon):
    return float(stats.norm.cdf(-epsilon / mu + mu / 2) - np.exp(epsilon) * stats.norm.cdf(-epsilon / mu - mu / 2))


@pytest.mark.parametrize("bend", [0.05, 1.0, 4.9])
def test_attacks_on_curved_losses_stay_below_and_would_catch_a_smaller_value(bend):
    """A path 0 - 1 - 2 - 3 with noise of pairs like gopa's; agent 2 is curious about agent 0 and knows what it shares with its neighbours."""
    path = np.zeros((4, 4))
    path[[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]] = 0.4
    path += np.diag(1 - path.sum(axis=0))
    factors, knows = np.zeros((4, 7)), np.zeros((4, 7), dtype=bool)
    for s in range(3):
        factors[[s, s + 1], s], knows[[s, s + 1], s] = (0.6, -0.6), True
    factors[:, 3:], knows[:, 3:] = 0.4 * np.eye(4), np.eye(4, dtype=bool)
    play = Play([path] * 4, Shared(factors, knows, sums=False, bare=False), np.ones(4), "atc", 0.4, np.zeros(4))
    view = View((2,), (), final=False)
    mu = stated(play, view, 0, bend).mu
    delta = attack(play, view, 0, bend, epsilon=mu / 2)
    assert delta <= gaussian_delta(mu, mu / 2)
    if bend < 0.1:  # nearly linear, so that the attack is nearly the best one
        assert delta > gaussian_delta(0.85 * attained(play, view, 0), mu / 2)


def random_precision(rng, K):
    C = rng.normal(size=(K, K + 2)) * np.exp(rng.uniform(-2, 2, (K, 1)))
    return upper_precision(sparse.csr_array(C))[0]


@pytest.mark.parametrize("seed", range(10))
def test_no_shift_within_its_bounds_costs_more_than_its_price(seed):
    rng = np.random.default_rng(seed)
    K, d = int(rng.integers(2, 7)), int(rng.integers(1, 4))
    X = random_precision(rng, K)
    made, lengths = prices(X, K + 1), np.append(rng.exponential(size=K), 0.0)
    bound, tightest = made.of(lengths, np.zeros(K + 1), 0.0), 0.0
    for _ in range(300):
        h = rng.normal(size=(K, d))
        h *= (rng.choice([1.0, rng.random()], K) * lengths[:K] / np.linalg.norm(h, axis=1))[:, None]
        cost = np.einsum("ia,ij,ja->", h, X, h)
        assert cost <= bound * (1 + 1e-12)
    for signs in itertools.product([-1.0, 1.0], repeat=K):
        h = np.array(signs) * lengths[:K]
        tightest = max(tightest, h @ X @ h)
    assert tightest <= bound * (1 + 1e-12)
    if K == 2:
        assert tightest == pytest.approx(bound)
    vector = rng.normal(size=(1, d))  # a read-out is undone along w, beside shifts of two agents
    undo = np.append(np.zeros(min(2, K)), rng.normal(size=K + 1 - min(2, K)))
    undo[-1] = 0.0
    read = np.where(np.arange(K + 1) < 2, lengths, 0.0)
    both = made.of(read, undo, float(np.linalg.norm(vector)))
    for _ in range(100):
        h = rng.normal(size=(K, d))
        h *= (read[:K] / np.linalg.norm(h, axis=1))[:, None]
        h -= undo[:K, None] * vector
        assert np.einsum("ia,ij,ja->", h, X, h) <= both * (1 + 1e-12)


@pytest.mark.parametrize("own", [1.0, 1e-2, 1e-4, 1e-6])
def test_the_price_is_never_below_the_true_inverse_however_little_own_noise_there_is(own):
    rng = np.random.default_rng(1)
    K, ends = 6, list(itertools.combinations(range(6), 2))
    C = np.zeros((K, len(ends) + K))
    for s, (i, j) in enumerate(ends):
        C[[i, j], s] = rng.uniform(0.5, 2.0) * np.array([1.0, -1.0])
    C[:, len(ends) :] = own * np.diag(rng.uniform(0.5, 1.0, K)) * 10.0 ** rng.integers(-3, 3, K)[:, None]
    C *= 10.0 ** rng.integers(-2, 2, K)[:, None]
    X, movable = upper_precision(sparse.csr_array(C))
    with mpmath.workdps(60):
        exact = mpmath.matrix(C.tolist())
        true = (exact * exact.T) ** -1
        excess = mpmath.matrix(X.tolist()) - true
        size = [mpmath.sqrt(true[k, k]) for k in range(K)]
        relative = mpmath.matrix([[excess[i, j] / (size[i] * size[j]) for j in range(K)] for i in range(K)])
        values = mpmath.eigsy(relative, eigvals_only=True)
    if movable.all():
        assert min(values) > 0
        assert max(values) < 1e-3
    assert movable.all() or own < 1e-4


def test_noise_that_cancels_in_a_sum_hides_nothing_of_one_agent():
    C = np.array([[1.0, 0.0], [-1.0, 1.0], [0.0, -1.0]])  # what the three add is zero in all
    _, movable = upper_precision(sparse.csr_array(C))
    assert not movable.any()
    X, movable = upper_precision(sparse.csr_array(np.vstack([C, [0.0, 0.0]])[:, :1]))
    assert not movable.any()
    beside = sparse.csr_array(np.block([[C, np.zeros((3, 1))], [np.zeros((1, 2)), np.full((1, 1), 0.5)]]))
    X, movable = upper_precision(beside)
    assert movable.tolist() == [False, False, False, True]
    assert X[3, 3] == pytest.approx(4.0)


def exchange_of(noise, topology=THIRDS):
    return bound_rounds(topology, sv.algorithms.atc(step_size=0.4), noise, 1).distinct[0].exchanges[0]


def test_members_of_a_pair_take_its_source_away_and_those_of_a_generator_their_sum():
    members = np.arange(6) == 0
    rng = np.random.default_rng(2)
    ends = [(0, 1), (1, 2), (3, 5)]
    shares = rng.normal(size=(3, 2))
    pairs = noise_vector(exchange_of(sv.noise.designed(LAW, own=np.ones(6), pairs=ends, factors=shares)), members)
    S = np.eye(5)
    for (i, j), c in zip(ends[1:], shares[1:], strict=True):
        S[np.ix_([i - 1, j - 1], [i - 1, j - 1])] += np.outer(c, c)
    assert pairs.precision[1:, 1:] == pytest.approx(np.linalg.inv(S), rel=1e-9, abs=1e-12)
    L = rng.normal(size=(6, 6))
    joint = noise_vector(exchange_of(sv.noise.designed(LAW, joint=L)), members)
    assert joint.precision[1:, 1:] == pytest.approx(np.linalg.inv(L @ L.T)[1:, 1:], rel=1e-9)
    for one in (pairs, joint):
        assert not one.precision[0].any()
        assert not one.movable[0]


def test_independent_noise_as_one_vector_has_the_value_of_single_sources(monkeypatch):
    """Two routes to the same number: every source for itself, and the price of all of them together."""
    direct = [base_case(0, distance, losses=PROMISE).mu for distance in (2, 3)]
    last = sv.account(
        THIRDS,
        sv.algorithms.atc(step_size=0.4),
        sv.noise.independent(LAW),
        sv.observers.final_model(),
        losses=PROMISE,
        **BASE,
    )
    monkeypatch.setattr(absorption_certificate, "_single_sources", lambda bound, view: None)
    assert [base_case(0, distance, losses=PROMISE).mu for distance in (2, 3)] == pytest.approx(direct, rel=1e-8)
    again = sv.account(
        THIRDS,
        sv.algorithms.atc(step_size=0.4),
        sv.noise.independent(LAW),
        sv.observers.final_model(),
        losses=PROMISE,
        **BASE,
    )
    assert again.mu == pytest.approx(last.mu, rel=1e-8)


def test_agents_with_unequal_noise_of_their_own_are_absorbed_too():
    own = np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0])
    parts = (THIRDS, sv.algorithms.atc(step_size=0.4))
    found = [
        sv.account(*parts, sv.noise.designed(LAW, own=size), sv.observers.curious_agent(5), losses=PROMISE, **BASE)
        for size in (np.full(6, 0.5), own, np.full(6, 3.0))
    ]
    assert found[0].mu > found[1].mu > found[2].mu
    assert {one.validity for one in found} == {"absorption"}


@pytest.mark.parametrize("seed", range(6))
def test_more_noise_helps_and_more_members_do_not(seed):
    rng = np.random.default_rng(50 + seed)
    matrix, shared = random_matrix(rng, 5), random_shared(rng, 5, SHARED[seed % 3])
    play = Play([matrix] * 4, shared, np.ones(4), "atc", 0.4, np.zeros(5))
    alone, both = (stated(play, View(members, (), final=False), 0, 1.0) for members in ((1,), (1, 2)))
    assert alone.mu <= both.mu * (1 + 1e-6)
    louder = play._replace(std=np.array([1.0, 1.5, 1.0, 2.0]))
    assert stated(louder, View((1,), (), final=False), 0, 1.0).mu <= alone.mu * (1 + 1e-6)
    released = stated(play, View((1,), (), final=True), 0, 1.0)
    assert alone.mu <= released.mu * (1 + 1e-6)
    topology, algorithm, noise = play.parts
    without = sv.account(
        topology, algorithm, noise, sv.observers.curious_agent(1), rounds=4, agent=0, sensitivity=1.0, unit="agent"
    )
    assert alone.mu <= without.mu


def test_pairs_that_share_more_than_the_links_of_the_network_are_taken_from_members():
    """Agents 2 and 5 are not linked but share all but a little of their noise: as a member, 5 sees through it."""
    noise = sv.noise.designed(LAW, own=[1, 1, 0.1, 1, 1, 0.1], pairs=[(2, 5)], factors=[(1.0, 1.0)])
    parts = (THIRDS, sv.algorithms.atc(step_size=0.4), noise)
    friend, stranger = (sv.account(*parts, sv.observers.coalition([m, 3]), losses=PROMISE, **BASE).mu for m in (5, 0))
    # 1 / 0.1^2 against 1.01 / (1.01^2 - 1), what noise that both have in common still hides
    assert (friend / stranger) ** 2 == pytest.approx(100 / (1.01 / (1.01**2 - 1)), rel=1e-6)


def test_noise_with_a_memory_is_not_absorbed_round_by_round():
    fresh = sv.noise.gopa(LAW, pairwise_std=0.7)
    parts = (THIRDS, sv.algorithms.atc(step_size=0.4))
    again = sv.account(
        *parts, fresh._replace(memory=np.full((1, 1, 1), 0.3)), sv.observers.curious_agent(5), losses=PROMISE, **BASE
    )
    assert again.validity != "absorption"
    assert base_case(1, 3, losses=PROMISE).validity == "absorption"


def test_prices_too_large_to_hold_are_left_out_and_said(monkeypatch):
    monkeypatch.setattr(absorption_certificate, "LARGEST_SHARED", 35)
    found = base_case(1, 3, losses=PROMISE)
    assert found.validity == "sent-messages"
    assert "36 entries" in found.reason


def test_a_price_that_is_no_inverse_of_a_covariance_is_refused():
    noise = noise_vector(exchange_of(sv.noise.gopa(LAW, pairwise_std=0.7)), np.zeros(6, dtype=bool))
    wrong = noise.precision.copy()
    wrong[0, 1] *= 2
    links = RoundLinks(
        senders=np.array([0, 1]), receivers=np.array([1, 0]), weights=np.full(2, 0.5), link_source=np.array([0, 1]),
        self_weights=np.full(6, 0.5), own_source=np.arange(6), own_factor=np.ones(6), owners=np.arange(6),
        read=np.arange(6) == 1, known=np.zeros(6, dtype=bool), precision=wrong,
    )  # fmt: skip
    for precision in (wrong, -noise.precision, noise.precision[:5]):
        with pytest.raises(ConfigError, match="precision"):
            certificate(
                [links._replace(precision=precision)], std=np.ones(1), injection=np.ones((1, 6)), steps=Diffusion(1.0)
            )


def test_a_price_is_made_convex_only_where_it_is_not():
    rng, seen = np.random.default_rng(0), set()
    for _ in range(30):
        sizes = np.abs(random_precision(rng, 5))
        made, convex = made_convex(sizes)
        seen.add(convex)
        assert np.linalg.eigvalsh(made)[0] >= -1e-12 * np.abs(made).max()
        assert convex == np.array_equal(made, sizes)
        assert (made >= sizes).all()
    assert seen == {True, False}


def test_a_read_out_is_undone_by_the_cheapest_shift():
    """One round: the final model of noise that is shared costs ||D||^2 / Var(sum r_l n_l), as for one Gaussian number."""
    rng = np.random.default_rng(4)
    L, r = rng.normal(size=(3, 3)), np.array([0.2, 0.3, 0.5])
    X, _ = upper_precision(sparse.csr_array(L))
    undo = shortest_undo(X, r, np.ones(3, dtype=bool))
    assert undo @ r == pytest.approx(1.0)
    assert undo @ X @ undo == pytest.approx(1.0 / (r @ L @ L.T @ r), rel=1e-9)
    links = RoundLinks(
        senders=np.array([0, 1, 2]), receivers=np.array([1, 2, 0]), weights=np.full(3, 0.5), link_source=np.arange(3),
        self_weights=np.full(3, 0.5), own_source=np.arange(3), own_factor=np.ones(3), owners=np.arange(3),
        read=np.zeros(3, dtype=bool), known=np.zeros(3, dtype=bool), precision=X,
    )  # fmt: skip
    injection = np.array([[0.0, 0.7, 0.0]])
    found = certificate(
        [links], std=np.full(1, 2.0), injection=injection, steps=Diffusion(1.0), terminal=Terminal(r, r)
    )
    assert found.mu == pytest.approx(0.7 * 0.3 / (2.0 * math.sqrt(r @ L @ L.T @ r)), rel=1e-9)
