"""Maps that change from round to round: every round is played, predicted and accounted with its own."""

import math

import numpy as np
import pytest

import sottovoce as sv
from accounting.brute_force import largest, leak
from accounting.stacked_maps import owners_table, stacked, table_spread
from sottovoce.accounting.linear_view.largest_mu import gram_view
from sottovoce.attacks.audit import audit
from sottovoce.deployment.terms import bind_among_parties
from sottovoce.linear import bound_rounds
from sottovoce.noise import Noise, bind
from sottovoce.observers import view

ROUNDS, STEP, STD = 5, 0.3, 0.8
TOPOLOGY = sv.topologies.erdos_renyi(6, 0.5, seed=0)
ATC = sv.algorithms.atc(step_size=STEP)
OWNERS = [
    [[k] for k in range(6)] + [[0, 1], [2, 3], [4, 5]],
    [[k] for k in range(6)],
    [[k] for k in range(6)] + [[0, 3, 5]],
]


def tilt(w, batch):
    """The mean over records of slope . w."""
    return (batch[0] * w).sum(axis=-1).mean()


def linear_losses(slopes):
    """One record per agent: its gradient is the given slope [K, d] everywhere."""
    return sv.problems.custom_loss(tilt, np.full(slopes.shape[1], 0.3), slopes[:, None, :])


def tables(*, alike: bool = False) -> list[np.ndarray]:
    """Three maps of different sources; alike: of the same."""
    made = []
    for turn, owners in enumerate([OWNERS[0]] * 3 if alike else OWNERS):
        rng = np.random.default_rng(turn)
        factors = np.zeros((6, len(owners)))
        for source, row in enumerate(owners):
            factors[row, source] = rng.uniform(0.3, 2.0, len(row)) * rng.choice([-1.0, 1.0], len(row))
        made.append((1.0, 0.6, 1.7)[turn] * factors)
    return made


def turning(order=(0, 1, 2), *, std: float = STD, alike: bool = False) -> Noise:
    made = tables(alike=alike)
    spreads = [table_spread(made[i], owners_table(OWNERS[0] if alike else OWNERS[i])) for i in range(3)]
    turns = tuple(spreads[i] for i in order)
    return Noise(name="turning", law=sv.noise.Gaussian(std=std), spread=turns[0], turns=turns)


def in_rounds(values: list, rounds: int = ROUNDS) -> list:
    return [values[t % 3] for t in range(rounds)]


def knows(members) -> list[np.ndarray]:
    return [np.array([any(k in members for k in row) for row in owners]) for owners in OWNERS]


@pytest.mark.parametrize("final", [False, True])
def test_reader_of_everything_pays_every_round_its_own_price(final):
    observer = sv.observers.eavesdropper()
    if final:
        observer = observer + sv.observers.final_model()
    for agent in range(6):
        found = sv.account(TOPOLOGY, ATC, turning(), observer, rounds=ROUNDS, sensitivity=1.0, agent=agent)
        prices = [np.linalg.inv(STD**2 * table @ table.T)[agent, agent] for table in in_rounds(tables())]
        assert found.mu == pytest.approx(STEP * math.sqrt(sum(prices)), rel=1e-10)
        seen = stacked(TOPOLOGY.matrix, STEP, [STD * one for one in in_rounds(tables())], everything=True, final=final)
        assert found.mu == pytest.approx(math.sqrt(largest(leak(seen, agent).gram)), rel=1e-10)


@pytest.mark.parametrize("members", [(3,), (1, 4), (0, 2, 5)])
def test_coalitions_against_the_stacked_covariance(members):
    factors = [STD * one for one in in_rounds(tables())]
    seen = stacked(TOPOLOGY.matrix, STEP, factors, known=in_rounds(knows(members)), members=members)
    run = bound_rounds(TOPOLOGY, ATC, turning(), ROUNDS)
    agents = np.array([k for k in range(6) if k not in members])
    found = gram_view(run, view(sv.observers.coalition(members), TOPOLOGY), agents, np.ones((1, ROUNDS), dtype=bool))
    assert found is not None
    for position, agent in enumerate(agents):
        np.testing.assert_allclose(found.gram.values[position], leak(seen, int(agent)).gram, rtol=1e-10, atol=1e-12)
        stated = sv.account(
            TOPOLOGY, ATC, turning(), sv.observers.coalition(members), rounds=ROUNDS, sensitivity=1.0, agent=int(agent)
        )
        assert stated.linear_mu <= stated.mu * (1 + 1e-9)


def test_maps_that_are_the_same_function_are_bound_once():
    run = bound_rounds(TOPOLOGY, ATC, turning((0, 1, 0, 0)), 8)
    assert run.which.tolist() == [0, 1, 0, 0, 0, 1, 0, 0]


def test_a_list_of_matrices_and_a_list_of_maps_go_round_by_themselves():
    listed = TOPOLOGY.with_schedule([TOPOLOGY.matrix, np.eye(6) / 2 + TOPOLOGY.matrix / 2])
    found = sv.account(listed, ATC, turning(), sv.observers.eavesdropper(), rounds=12, sensitivity=1.0, agent=0)
    prices = [np.linalg.inv(STD**2 * table @ table.T)[0, 0] for table in in_rounds(tables(), 12)]
    assert found.mu == pytest.approx(STEP * math.sqrt(sum(prices)), rel=1e-10)
    assert len(bound_rounds(listed, ATC, turning(), 12).distinct) == 6


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("listed", [False, True])
def test_simulation_follows_the_exact_curve_and_not_that_of_another_order(alike, listed):
    # 4000 repeats: the maps differ by factors of two and more, their errors by far more than the half per cent that is measured.
    topology = TOPOLOGY.with_schedule([TOPOLOGY.matrix, np.eye(6) / 2 + TOPOLOGY.matrix / 2]) if listed else TOPOLOGY
    problem = sv.problems.mean_estimation(np.random.default_rng(0).standard_normal((6, 1, 2)), radius=5.0)
    noise = turning(std=0.3, alike=alike)
    run = sv.simulate(problem, topology, ATC, noise, rounds=7, repeats=4000, seed=1, dtype="float64", progress=False)
    measured = run.metrics["msd_average"]
    error = measured.std(axis=0) / math.sqrt(len(measured))

    def far(order) -> np.ndarray:
        exact = sv.expected_msd(problem, topology, ATC, turning(order, std=0.3, alike=alike), rounds=7)["msd_average"]
        return np.abs(measured.mean(axis=0) - exact) / error

    assert (far((0, 1, 2)) < 4.5).all()
    assert far((0, 2, 1)).max() > 10
    assert far((1, 2, 0)).max() > 10
    assert far((0, 0, 0)).max() > 10


def test_expected_error_against_the_recursion_written_out():
    problem = sv.problems.mean_estimation(np.zeros((6, 1, 1)), radius=5.0)
    exact = sv.expected_msd(problem, TOPOLOGY, ATC, turning(), rounds=ROUNDS)["msd_average"]
    A, V = TOPOLOGY.matrix, np.zeros((6, 6))
    kept = 1.0 - STEP * problem.constants.smoothness
    for t, table in enumerate(in_rounds(tables())):
        V = A.T @ (kept**2 * V + STD**2 * table @ table.T) @ A
        assert exact[t] == pytest.approx(np.trace(V) / 6, rel=1e-10)


@pytest.mark.parametrize("alike", [True, False])
def test_recorded_runs_are_the_ordinary_ones(alike):
    problem = linear_losses(np.random.default_rng(2).standard_normal((6, 2)))
    noise, parts = turning(alike=alike), (TOPOLOGY, ATC)
    run = sv.simulate(problem, *parts, noise, rounds=ROUNDS, seed=3, dtype="float64", progress=False)
    observer = sv.observers.eavesdropper() + sv.observers.final_model()
    seen = sv.observe(problem, *parts, noise, observer, rounds=ROUNDS, seed=3)
    np.testing.assert_allclose(seen.final_model[0], run.models[0].mean(axis=0), rtol=1e-9)


def test_members_see_the_sources_of_every_round_at_their_places():
    ring = sv.topologies.ring(6)
    observer = sv.observers.coalition([0, 1])
    seen = sv.observe(linear_losses(np.zeros((6, 1))), ring, ATC, turning(alike=True), observer, rounds=3, repeats=5)
    assert seen.layout.sources[0].tolist() == [[0, -1], [1, -1], [0, 1]]
    sent = seen.layout.links[0].tolist().index([0, 1])
    table = tables(alike=True)[0]  # the first message of agent 0 is the first model and its noise
    added = seen.sources[0][:, 0, 0] * table[0, 0] + seen.sources[0][:, 0, 2] * table[0, 6]
    np.testing.assert_allclose(seen.messages[0][:, 0, sent], 0.3 + added, rtol=1e-9)


def test_audits_play_every_round_with_its_own_map():
    arguments = (TOPOLOGY, ATC, turning(alike=True), sv.observers.curious_agent(1))
    asked = {"rounds": ROUNDS, "delta": 1e-3, "confidence": 0.99, "seed": 2}
    small = audit(*arguments, **asked, sensitivity=1.0, pairs=100)
    found = audit(*arguments, **asked, sensitivity=3.0 / small.computed_mu, pairs=3000)
    assert found.attack == "likelihood"
    assert found.passed
    assert abs(found.gaussian.estimate / 3.0 - 1.0) < 0.07


def test_saved_runs_say_that_maps_change():
    assert turning().describe(5)["turns"] == 3
    assert "turns" not in sv.noise.none().describe()
    noise = turning()
    assert noise.scaled(2.0).turns == noise.turns


@pytest.mark.parametrize(
    ("topology", "algorithm", "said"),
    [
        (TOPOLOGY.with_dropout(0.1), ATC, "random"),
        (TOPOLOGY.with_random_pair(), ATC, "random"),
        (sv.topologies.complete(6).with_walk(), sv.algorithms.random_walk(step_size=0.1), "walks"),
        (sv.topologies.federation(6), sv.algorithms.fedavg(step_size=0.1, participation=0.5), "sample"),
    ],
)
def test_refused_where_rounds_are_not_known_in_advance(topology, algorithm, said):
    problem = linear_losses(np.zeros((6, 2)))
    with pytest.raises(sv.IncompatibleChoice, match=said):
        sv.simulate(problem, topology, algorithm, turning(), rounds=2)
    with pytest.raises(sv.IncompatibleChoice, match=said):
        sv.account(topology, algorithm, turning(), sv.observers.final_model(), rounds=2, sensitivity=1.0)


def test_whoever_does_not_know_the_round_gets_no_map():
    links = TOPOLOGY.active_links()
    with pytest.raises(sv.IncompatibleChoice, match="round to round"):
        bind(turning(), links)
    with pytest.raises(sv.IncompatibleChoice, match="round to round"):
        bind_among_parties(turning(), links)
    with pytest.raises(sv.IncompatibleChoice, match="earlier rounds"):
        sv.account(
            TOPOLOGY,
            ATC,
            turning()._replace(memory=np.full((1, 1, 1), 0.5)),
            sv.observers.eavesdropper(),
            rounds=2,
            sensitivity=1.0,
        )
    with pytest.raises(sv.ConfigError, match="first of turns"):
        bind(turning()._replace(spread=sv.noise.none().spread), links, round_=1)
    problem = sv.problems.mean_estimation(np.zeros((6, 1, 1)), radius=5.0)
    with pytest.raises(sv.UnsupportedClaim, match="steady"):
        sv.theory.steady_state(problem, TOPOLOGY, ATC, turning())
