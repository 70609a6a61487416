"""The call: what it returns is an ordinary noise whose error and guarantees are those of theory and accountant."""

import json
from itertools import combinations, pairwise

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.design import Design, KeyPlan
from sottovoce.design.design import _sized
from sottovoce.noise import bind

WHO = sv.observers
READER = WHO.eavesdropper() + WHO.final_model()
ATC = sv.algorithms.atc(step_size=0.1)
GRID = sv.topologies.grid(3, 3)
ASKED = {"rounds": 100, "sensitivity": 1.0, "curvature": 0.5}
AT_OPTIMUM = sv.problems.mean_estimation(np.zeros((9, 1, 2)), radius=1.0)  # starts at its optimum: all error is noise


def designed(targets, *, topology=GRID, algorithm=ATC, **changed):
    return sv.noise.design(topology, algorithm, targets, **{**ASKED, **changed})


@pytest.mark.parametrize("keys", ["edges", "pairs", "joint", "own"])
def test_the_accountant_states_the_target_and_the_theory_the_error(keys):
    made = designed({READER: 0.8}, keys=keys, problem=AT_OPTIMUM, curvature=None, when="final", rounds=60)
    stated = sv.account(GRID, ATC, made.noise, READER, rounds=60, sensitivity=1.0)
    assert stated.mu == pytest.approx(0.8, rel=1e-9)
    assert stated.mu <= 0.8
    assert stated.validity == "exact"
    assert made.guarantees[READER.name].mu == stated.mu
    forwards = sv.expected_msd(AT_OPTIMUM, GRID, ATC, made.noise, rounds=60)["msd_average"][-1]
    assert made.error == pytest.approx(forwards, rel=1e-12)
    assert made.bound <= made.error
    assert made.gap < 2e-2
    assert made.gain >= 1 - 1e-9
    assert made.exact


def test_more_keys_never_cost_more():
    errors = [designed({READER: 1.0}, keys=keys).error for keys in ("own", "edges", "pairs", "joint")]
    assert all(later <= earlier * (1 + 1e-3) for earlier, later in pairwise(errors))
    assert errors[-1] < 0.7 * errors[0]


def test_a_steady_design_is_steady():
    curvature = float(AT_OPTIMUM.quadratic.hessian[0, 0, 0])
    for given in ({"problem": AT_OPTIMUM, "curvature": None}, {"curvature": curvature}):
        made = designed({READER: 1.0}, **given)
        coordinates = 2 if "problem" in given else 1  # a curvature speaks of one coordinate
        forwards = sv.expected_msd(AT_OPTIMUM, GRID, ATC, made.noise, rounds=3000)["msd_average"][-1]
        assert made.error / coordinates == pytest.approx(forwards / 2, rel=1e-12)
        assert made.exact == (coordinates == 2)


def test_simulated_error_is_the_designed_one():
    made = designed({READER: 1.0}, problem=AT_OPTIMUM, curvature=None, when="final", rounds=30)
    run = sv.simulate(AT_OPTIMUM, GRID, ATC, made.noise, rounds=30, repeats=3000, seed=1, progress=False)
    found = run.metrics["msd_average"][:, -1]
    spread = found.std() / np.sqrt(len(found))
    assert abs(found.mean() - made.error) < 4.5 * spread
    assert abs(found.mean() - made.independent) > 20 * spread


def test_epsilon_and_delta_are_a_target_too():
    made = designed({READER: (2.0, 1e-5)})
    assert made.guarantees[READER.name].epsilon(1e-5) == pytest.approx(2.0, rel=1e-8)


def test_unequal_targets_and_sensitivities_are_met_agent_by_agent():
    sizes = np.linspace(0.5, 2.0, 9)
    made = designed({WHO.eavesdropper(): 1.0}, keys="own", sensitivity=sizes)
    each = sv.accounting.account_each(GRID, ATC, made.noise, WHO.eavesdropper(), rounds=100, sensitivity=sizes)
    np.testing.assert_allclose([one.mu for one in each], 1.0, rtol=1e-9)


def test_against_a_colluder_a_design_must_be_told():
    careless = designed({READER: 1.0})
    careful = designed({READER: 1.0, WHO.any_coalition(1): 1.0})
    stated = [
        sv.account(GRID, ATC, one.noise, WHO.any_coalition(1), rounds=100, sensitivity=1.0).mu
        for one in (careless, careful)
    ]
    assert stated[0] > 1.1
    assert stated[1] <= 1.0
    assert careless.error < careful.error < careful.independent
    assert careful.gap < 1e-3  # so that it is the best for both, and not one for readers that was made larger
    each = [
        sv.account(GRID, ATC, careful.noise, WHO.curious_agent(k), rounds=100, sensitivity=1.0).mu for k in range(9)
    ]
    assert max(each) <= 1.0


def test_a_design_without_that_target_says_what_one_agent_could_learn():
    careless = designed({READER: 1.0})
    (warning,) = [note for note in careless.notes if "any_coalition" in note]
    worst = sv.account(
        GRID, ATC, careless.noise, WHO.any_coalition(1) + WHO.eavesdropper(), rounds=100, sensitivity=1.0
    )
    assert f"mu = {worst.mu:.1f}"[:-1] in warning
    assert not [note for note in designed({READER: 1.0, WHO.any_coalition(1): 1.0}).notes if "any_coalition" in note]
    assert not [note for note in designed({READER: 1.0}, keys="joint").notes if "any_coalition" in note]


def test_a_named_agent_has_its_own_target():
    made = designed({READER: 1.0, WHO.curious_agent(4): 0.6})
    assert made.guarantees["curious agent 4"].mu <= 0.6
    assert made.guarantees[READER.name].mu <= 1.0
    assert max(made.guarantees["curious agent 4"].mu / 0.6, made.guarantees[READER.name].mu) == pytest.approx(
        1.0, rel=1e-9
    )


def test_where_everybody_colludes_only_own_noise_helps_and_the_report_says_so():
    ring = sv.topologies.ring(6)
    made = designed({READER: 1.0, WHO.any_coalition(2): 1.0}, topology=ring)
    assert made.gain == pytest.approx(1.0, abs=2e-3)
    assert any("own noise alone" in note for note in made.notes)


def test_under_a_generator_every_coalition_learns_what_an_eavesdropper_learns():
    made = designed({READER: 1.0}, keys="joint")
    for members in ([0], [4], [1, 5], [0, 4, 8], [0, 1, 2, 3, 5, 6, 7, 8]):
        stated = sv.account(GRID, ATC, made.noise, WHO.coalition(members), rounds=100, sensitivity=1.0)
        assert stated.mu <= 1 + 1e-9
        assert any("generator" in premise for premise in stated.assumptions)
    assert any("generator" in note for note in made.notes)


def test_floor_and_cap_are_kept():
    free = designed({READER: 1.0})
    variance = (free.independent / free.error) and float(np.max(free.unit_mu**2))  # of own noise alone, at mu = 1
    floored = designed({READER: 1.0}, own_floor=0.5 * variance)
    assert np.min(floored.keys().own ** 2) >= 0.5 * variance * (1 - 1e-9)
    capped = designed({READER: 1.0}, cap=1.2 * np.sqrt(variance))
    assert capped.largest_std <= 1.2 * np.sqrt(variance) * (1 + 1e-9)
    assert np.sqrt(np.diag(capped.keys().covariance)).max() == pytest.approx(capped.largest_std, rel=1e-9)
    assert free.error < min(floored.error, capped.error)
    assert max(floored.error, capped.error) < free.independent
    with pytest.raises(sv.IncompatibleChoice):
        designed({READER: 1.0}, cap=0.9 * np.sqrt(variance))


def test_objectives_trade_the_average_for_the_centroid():
    found = []
    for weight in (0.0, 10.0, 1000.0):
        made = designed(
            {READER: 1.0},
            problem=AT_OPTIMUM,
            curvature=None,
            when="final",
            objective={"average": 1.0, "centroid": weight},
        )
        curves = sv.expected_msd(AT_OPTIMUM, GRID, ATC, made.noise, rounds=100)
        found.append((curves["msd_average"][-1], curves["msd_centroid"][-1]))
    assert found[0][0] < found[1][0] < found[2][0]
    assert found[0][1] > found[1][1] > found[2][1]


def test_keys_say_who_shares_what_and_what_coalitions_learn(tmp_path):
    made = designed({READER: 1.0, WHO.any_coalition(1): 1.5})
    plan = made.keys()
    assert isinstance(plan, KeyPlan)
    bound = bind(made.noise, GRID.active_links())
    kept = np.zeros((9, bound.num_sources))
    np.add.at(kept, (bound.self_index, bound.self_source), made.noise.std * bound.self_value)
    np.testing.assert_allclose(plan.covariance, kept @ kept.T, rtol=1e-12, atol=1e-15)
    partners = plan.of_agent(4)
    assert set(partners["shared"]) <= {1, 3, 5, 7}
    assert partners["own"] == plan.own[4]
    for size in (1, 2):
        for members in list(combinations(range(9), size))[::5]:
            stated = sv.account(
                GRID, ATC, made.noise, WHO.coalition(members) + WHO.eavesdropper(), rounds=100, sensitivity=1.0
            )
            assert plan.learnt_by(size)[members] == pytest.approx(stated.mu, rel=1e-9)


@pytest.mark.parametrize("changed", [{}, {"keys": "joint"}, {"time": "schedule", "when": "final", "rounds": 20}])
def test_a_design_is_read_back_as_it_was(tmp_path, changed):
    made = designed({READER: 1.0}, **changed)
    again = sv.load(made.save(tmp_path / "design.json"))
    assert isinstance(again, Design)
    rounds = changed.get("rounds", 100)
    stated = [sv.account(GRID, ATC, one.noise, READER, rounds=rounds, sensitivity=1.0).mu for one in (made, again)]
    assert stated[0] == stated[1] == again.guarantees[READER.name].mu
    assert again.describe() == made.describe()


def test_a_file_that_contradicts_itself_is_refused(tmp_path):
    path = designed({READER: 1.0}).save(tmp_path / "design.json")
    held = json.loads(path.read_text())
    held["noise"]["own"][3] *= 1.01
    path.write_text(json.dumps(held))
    with pytest.raises(sv.ConfigError, match="was changed"):
        sv.load(path)
    for text in ("{}", "nonsense", json.dumps({**held, "format": 99})):
        path.write_text(text)
        with pytest.raises(sv.ConfigError):
            sv.load(path)


@pytest.mark.parametrize(
    "changed",
    [
        {"noise": {"factors_by_round": [0.1] * 20}},
        {"noise": {"memory": [[[0.5]]]}},
        {"guarantees": {READER.name: {"mu": 0.01}}},
        {"bound": 1e9},
        {"digest": None},
    ],
)
def test_a_file_whose_guarantee_is_not_that_of_its_noise_is_refused(tmp_path, changed):
    """The covariance of one round stays as it was; what is added in a run, or what is said about it, does not."""

    def edit(held, new):
        for name, value in new.items():
            held[name] = edit(held.get(name, {}), value) if isinstance(value, dict) else value
        return held

    path = designed({READER: 1.0}, time="schedule", when="final", rounds=20).save(tmp_path / "design.json")
    path.write_text(json.dumps(edit(json.loads(path.read_text()), changed)))
    with pytest.raises(sv.ConfigError, match="was changed"):
        sv.load(path)


def test_a_schedule_has_the_reference_gain_and_warns():
    """6.534 for the final model on a random graph of twenty, contraction 0.95, 200 rounds, early noise 239 times the last."""
    topology, asked = (
        sv.topologies.erdos_renyi(20, 0.3, seed=0),
        {"when": "final", "rounds": 200, "curvature": 0.5, "keys": "own"},
    )
    white, made = (designed({READER: 1.0}, topology=topology, time=time, **asked) for time in ("white", "schedule"))
    assert white.error / made.error == pytest.approx(6.534, rel=1e-3)
    factors = made.noise.factors(200)
    assert factors[0] / factors[-1] == pytest.approx(239, rel=2e-2)
    assert any("cap=" in note for note in made.notes)
    assert made.guarantees[READER.name].mu == pytest.approx(1.0, rel=1e-9)
    capped = designed({READER: 1.0}, topology=topology, time="schedule", cap=3 * white.largest_std, **asked)
    assert capped.largest_std <= 3 * white.largest_std * (1 + 1e-9)
    assert made.error < capped.error < white.error


def test_a_schedule_with_shared_noise_is_better_than_either_alone():
    asked = {"when": "final", "rounds": 60}
    white, own, both = (
        designed({READER: 1.0}, keys=keys, time=time, **asked)
        for keys, time in (("edges", "white"), ("own", "schedule"), ("edges", "schedule"))
    )
    assert both.error < min(white.error, own.error)
    assert both.bound <= both.error


REFUSED = [
    ({"topology": sv.topologies.federation(9)}, "relay"),
    ({"topology": GRID.with_dropout(0.1)}, "at random"),
    ({"algorithm": sv.algorithms.fedavg(step_size=0.1, exchange="model", local_steps=2)}, "atc, cta or consensus"),
    ({"algorithm": sv.algorithms.cta(step_size=0.1)}, "learns"),
    ({"algorithm": sv.algorithms.consensus(step_size=0.1)}, "learns"),
    ({"algorithm": sv.algorithms.consensus(step_size=0.1), "unit": "record"}, "consensus"),
    ({"participation": sv.accounting.poisson(0.1, record_norm=1.0), "unit": "record"}, "coins"),
    ({"time": "network"}, "not offered"),
    ({"time": "own"}, "keys='own'"),
    ({"time": "own", "keys": "own"}, "seen once or in turns"),
    ({"time": "schedule"}, "steady|final"),
    ({"time": "schedule", "when": "final", "own_floor": 0.1}, "white"),
    # the first message of cta and consensus costs nothing: noise that leaves it almost alone goes below a bound that weighs all rounds alike
    ({"time": "schedule", "when": "mean", "rounds": 3, "algorithm": sv.algorithms.cta(step_size=0.1)}, "cost the same"),
    (
        {"time": "schedule", "when": "mean", "rounds": 3, "algorithm": sv.algorithms.consensus(step_size=0.1)},
        "cost the same",
    ),
    (
        {"time": "schedule", "when": "mean", "rounds": 3, "algorithm": sv.algorithms.atc(step_size=lambda t: 0.1 / t)},
        "cost the same",
    ),
    ({"curvature": None}, "exactly one"),
    ({"problem": AT_OPTIMUM}, "exactly one"),
    ({"keys": "joint", "own_floor": 0.1}, "no meaning"),
    ({"keys": "edge"}, "keys"),
    ({"time": "later"}, "time"),
    ({"when": "soon"}, "when"),
    ({"cap": 0.0}, "cap"),
    ({"own_floor": -1.0}, "own_floor"),
    ({"objective": "worst"}, "objective"),
    ({"objective": 3}, "objective"),
]


@pytest.mark.parametrize(("changed", "complaint"), REFUSED)
def test_what_is_not_proven_or_makes_no_sense_is_refused(changed, complaint):
    with pytest.raises(sv.SottovoceError, match=complaint):
        designed({READER: 1.0}, **changed)


@pytest.mark.parametrize(
    "targets", [{}, None, [READER], {"eavesdropper": 1.0}, {READER: 0.0}, {READER: (1.0, 0.0)}, {READER: "1"}]
)
def test_targets_are_observers_with_numbers(targets):
    with pytest.raises(sv.ConfigError):
        designed(targets)


def test_two_observers_of_one_name_are_refused():
    other = WHO.Observer(name="eavesdropper", members=(1,))
    with pytest.raises(sv.ConfigError, match="different names"):
        designed({WHO.eavesdropper(): 1.0, other: 2.0})


@pytest.mark.parametrize("algorithm", [sv.algorithms.cta(step_size=0.1), sv.algorithms.consensus(step_size=0.1)])
def test_without_a_released_model_cta_and_consensus_can_be_designed_for(algorithm):
    made = designed(
        {WHO.eavesdropper(): 1.0}, algorithm=algorithm, problem=AT_OPTIMUM, curvature=None, when="final", rounds=40
    )
    assert sv.account(GRID, algorithm, made.noise, WHO.eavesdropper(), rounds=40, sensitivity=1.0).mu == pytest.approx(
        1.0, rel=1e-9
    )
    forwards = sv.expected_msd(AT_OPTIMUM, GRID, algorithm, made.noise, rounds=40)["msd_average"][-1]
    assert made.error == pytest.approx(forwards, rel=1e-12)


TURNS = {"unit": "record", "participation": sv.accounting.cyclic(5, 4), "when": "mean", "rounds": 20, "keys": "own"}


def test_noise_that_remembers_pays_for_records_seen_in_turns():
    white, made = (designed({READER: 1.0}, time=time, **TURNS) for time in ("white", "own"))
    question = {"rounds": 20, "sensitivity": 1.0, "unit": "record", "participation": TURNS["participation"]}
    assert sv.account(GRID, ATC, made.noise, READER, **question).mu == pytest.approx(1.0, rel=1e-9)
    assert made.error < 0.95 * white.error
    assert made.independent == pytest.approx(white.error, rel=1e-9)
    assert made.bound <= made.error
    unit = sv.problems.linear_regression(np.full((9, 1, 1), 0.5), np.zeros((9, 1)))  # curvature 0.5, at its optimum
    forwards = sv.expected_msd(unit, GRID, ATC, made.noise, rounds=20)["msd_average"]
    assert made.error == pytest.approx(forwards.mean(), rel=1e-9)
    again = made.describe()
    assert len(again["noise"]["memory"][0]) == 3


def test_what_coalitions_learn_of_noise_that_changes_over_rounds_is_the_accountants():
    cases = [
        (
            {"time": "own", **TURNS},
            {"rounds": 20, "sensitivity": 1.0, "unit": "record", "participation": TURNS["participation"]},
        ),
        ({"time": "schedule", "when": "final", "rounds": 20}, {"rounds": 20, "sensitivity": 1.0}),
    ]
    for asked, question in cases:
        made = designed({READER: 1.0}, **asked)
        learnt = made.keys().learnt_by(1)
        for agent in (0, 4):
            stated = sv.account(GRID, ATC, made.noise, WHO.curious_agent(agent) + WHO.eavesdropper(), **question)
            assert learnt[agent,] == pytest.approx(stated.mu, rel=1e-9)


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"bands": 5}, "at most 4 bands"),
        ({"when": "steady"}, "mean"),
        ({"participation": "every-round"}, "seen once"),
        ({"unit": "agent"}, "single records"),
        ({"algorithm": sv.algorithms.cta(step_size=0.1)}, "learns|atc"),
        ({"cap": 0.01}, "cap"),
        ({"problem": AT_OPTIMUM, "curvature": None}, "curvature"),
    ],
)
def test_noise_that_remembers_is_refused_where_it_is_not_proven(changed, complaint):
    with pytest.raises(sv.SottovoceError, match=complaint):
        designed({READER: 1.0}, **{"time": "own", **TURNS, **changed})


@pytest.mark.parametrize("keys", ["edges", "own"])
def test_a_floor_above_what_targets_need_is_kept(keys):
    """Own noise of variance 0.01 would do for the target; the floor of 0.3 stays, and no more is stated than it gives."""
    made = designed({READER: 10.0}, keys=keys, own_floor=0.3)
    plan = made.keys()
    assert (plan.own**2 >= 0.3 * (1 - 1e-12)).all()
    assert made.guarantees[READER.name].mu < 10.0
    assert made.guarantees[READER.name].mu == sv.account(GRID, ATC, made.noise, READER, rounds=100, sensitivity=1.0).mu
    assert made.error >= made.bound * (1 - 1e-12)


@pytest.mark.parametrize("keys", ["edges", "joint"])
def test_who_is_told_less_than_a_reader_of_everything_leaves_no_bound(keys):
    """In one round nothing reacts to messages: the linear view is what is stated, and needs less noise than limits on all messages."""
    path = sv.topologies.path(4)
    made = designed({WHO.curious_agent(0): 1.0}, topology=path, keys=keys, rounds=1, when="final")
    assert made.guarantees["curious agent 0"].mu == pytest.approx(1.0, rel=1e-9)
    assert made.bound == 0
    assert any("No bound" in note for note in made.notes)
    assert str(made)
    whole = designed({READER: 1.0}, topology=path, keys=keys, rounds=1, when="final")
    assert 0 < whole.bound <= whole.error * (1 + 1e-12)


def test_noise_that_remembers_is_for_records_that_take_part_until_the_end():
    """Two of three turns cost two thirds, so that independent rounds are cheaper and the bound lower than three turns would have it."""
    asked = {**TURNS, "rounds": 9, "participation": sv.accounting.cyclic(2, 4)}
    with pytest.raises(sv.UnsupportedClaim, match=r"cyclic\(3, 4\)"):
        designed({READER: 1.0}, time="own", **asked)
    assert designed({READER: 1.0}, time="own", **{**asked, "participation": sv.accounting.cyclic(3, 4)}).gain > 1


def test_the_error_of_the_final_model_counts_no_more_than_that_model():
    made = designed({READER: 1.0}, time="own", **{**TURNS, "when": "final"})
    unit = sv.problems.linear_regression(np.full((9, 1, 1), 0.5), np.zeros((9, 1)))
    forwards = sv.expected_msd(unit, GRID, ATC, made.noise, rounds=20)["msd_average"]
    assert made.error == pytest.approx(forwards[-1], rel=1e-9)
    assert made.bound <= made.error


def test_what_coalitions_learn_is_no_less_than_the_accountant_states_where_digits_end():
    """Agents 0 and 1 add almost the same large number; what is left between them is of the size of rounding."""
    own, factors = np.array([1e-5, 1e-5, 1.0]), np.array([[100.0, 100.0]])
    noise = sv.noise.designed(sv.noise.Gaussian(std=1.0), own=own, pairs=[(0, 1)], factors=factors)
    plan = KeyPlan(own=own, pairs=np.array([[0, 1]]), factors=factors, joint=None, unit_mu=np.full(3, 0.1))
    observer = WHO.coalition([2]) + WHO.eavesdropper()
    stated = sv.account(sv.topologies.complete(3), ATC, noise, observer, rounds=1, sensitivity=1.0)
    assert plan.learnt_by(1)[2,] == stated.mu == np.inf


def test_one_band_is_noise_without_memory():
    made = designed(
        {WHO.eavesdropper(): 1.0}, rounds=5, unit="record", participation="once", keys="own", when="mean", time="own", bands=1
    )  # fmt: skip
    assert made.noise.memory is None
    assert made.bound <= made.error == pytest.approx(made.independent, rel=1e-9)


def test_factors_too_small_to_account_are_none_and_the_size_is_in_the_law():
    joint = 1e-4 * np.array([[1.0, 0.0, 0.0], [1e-12, 2.0, 0.0], [0.5, 3e-8, 1.0]])
    noise = _sized(joint=joint)
    assert noise.std == 2e-4
    np.testing.assert_allclose(noise.parameters["joint"], [[0.5, 0, 0], [0, 1, 0], [0.25, 1.5e-8, 0.5]], rtol=1e-15)
    ring = sv.topologies.ring(3)
    assert np.isfinite(sv.account(ring, ATC, noise, READER, rounds=3, sensitivity=1.0).mu)
