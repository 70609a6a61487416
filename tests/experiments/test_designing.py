"""Noise designed for a file: its numbers are those of the accountant and of exact theory, and the schemes beside it keep the same targets."""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.experiments import build, design_file, guarantees, read, read_comparison
from sottovoce.experiments.designing import CENTRAL, DESIGNED, GOPA, INDEPENDENT
from sottovoce.rounding import shown

FILE = """
[experiment]
name = "six"
rounds = 30
repeats = 2
[topology]
kind = "path"
agents = 4
[problem]
kind = "linear_regression"
data = "synthetic"
samples = 10
dimension = 2
ridge = 0.5
[algorithm]
kind = "atc"
step_size = 0.05
[privacy]
unit = "record"
clip = 1.0
clip_norm = "l2"
delta = 1e-5
observers = ["eavesdropper", "final_model"]
[design]
targets = { "eavesdropper+final_model" = { epsilon = 2.0 } }
when = "final"
"""
READER = "eavesdropper + final model"


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "six.toml"
    path.write_text(FILE)
    return path


def test_every_scheme_meets_the_target_and_none_passes_the_bound(file):
    found = design_file(file)
    rows = {row.scheme: row for row in found.rows}
    assert list(rows) == [INDEPENDENT, GOPA, DESIGNED, CENTRAL]
    wanted = sv.accounting.gaussian.mu(2.0, 1e-5)
    for scheme in (INDEPENDENT, GOPA, DESIGNED):
        assert rows[scheme].guarantees[READER].mu == pytest.approx(wanted, rel=1e-9)
        assert rows[scheme].guarantees[READER].epsilon(1e-5) <= 2.0 * (1 + 1e-9)
    assert rows[INDEPENDENT].error > rows[GOPA].error > rows[DESIGNED].error > rows[CENTRAL].error > 0
    assert rows[DESIGNED].gap < 0.02
    assert rows[GOPA].gain == pytest.approx(rows[INDEPENDENT].error / rows[GOPA].error)


def test_errors_are_what_exact_theory_adds_for_the_noise_of_each_row(file):
    """A second route: the difference of two exact errors, with and without the noise as it was sized."""
    found = design_file(file)
    plain = build(read(file, ["privacy=~", "design=~", "noise={kind='none'}"]))
    parts = (plain.problem, plain.topology, plain.algorithm)
    clear = sv.expected_msd(*parts, sv.noise.none(), rounds=30)["msd_average"][-1]
    for row in found.rows[:3]:
        noisy = sv.expected_msd(*parts, row.noise, rounds=30)["msd_average"][-1]
        assert row.error == pytest.approx(noisy - clear, rel=1e-9)


def test_the_best_gopa_is_better_than_its_neighbours(file):
    """The proportion of pairs' noise, tried by hand: other proportions at the same mu have larger errors."""
    found = design_file(file)
    row, run = found.row(GOPA), found.experiment
    question = sv.Question(rounds=30, sensitivity=2.0 / 10, unit="record")
    reader = sv.observers.eavesdropper() + sv.observers.final_model()
    ratio = np.sqrt(-row.covariance[0, 1] / row.covariance[0].sum())
    gains = sv.theory.noise_gains(
        run.topology, run.algorithm, objective={"average": 1.0}, when="final", rounds=30,
        problem=build(read(file, ["privacy=~", "design=~", "noise={kind='none'}"])).problem,
    ).total  # fmt: skip
    links = row.covariance / row.covariance[0].sum() - np.eye(4)
    for factor in (0.8, 1.25):
        noise = sv.noise.gopa(sv.noise.Gaussian(std=1.0), pairwise_std=float(ratio * factor))
        stated = sv.account(run.topology, run.algorithm, noise, reader, question=question)
        scale = (stated.mu / row.guarantees[READER].mu) ** 2
        assert np.sum(gains * (np.eye(4) + factor**2 * links)) * scale > row.error


def test_a_coalition_is_a_target_like_any_other_and_costs_accuracy(file):
    alone = design_file(file)
    both = design_file(file, ["design.targets.'any_coalition:1'=0.5"])
    stated = both.row(DESIGNED).guarantees
    assert stated["any agent"].mu <= 0.5 * (1 + 1e-9)
    assert both.row(DESIGNED).error > alone.row(DESIGNED).error
    loose = design_file(
        file, ["design.targets.'any_coalition:1'=5.0"]
    )  # named last, and met by what the first target asks for
    assert [row.error for row in loose.rows[:2]] == pytest.approx([row.error for row in alone.rows[:2]], rel=1e-6)
    assert any("costs accuracy" in each for each in both.limits)
    assert any("No target speaks of agents who look" in each for each in alone.limits)


def test_what_is_said_of_one_agent_is_what_the_accountant_states_for_it(file):
    """The mu beside the table, by the accountant: the worst agent that also reads every message."""
    found = design_file(file, ["design.when='steady'"])
    said = next(each for each in found.limits if "No target speaks of agents who look" in each)
    run = found.experiment
    question = sv.Question(rounds=30, sensitivity=2.0 / 10, unit="record")
    observers = [sv.observers.eavesdropper() + sv.observers.curious_agent(k) for k in range(4)]
    worst = max(each.mu for each in sv.account(run.topology, run.algorithm, run.noise, observers, question=question))
    assert f"mu = {shown(worst, 3)} instead" in said


def test_a_design_that_remembers_says_that_it_shares_nothing(file):
    turns = [
        "algorithm.batch={kind='cyclic', gap=5}",
        "design.time='own'",
        "design.keys='own'",
        "design.when='mean'",
        "design.curvature=1.0",
    ]
    assert any("shares no noise" in each for each in design_file(file, turns).limits)
    assert not any("shares no noise" in each for each in design_file(file).limits)


def test_the_limits_stand_beside_the_numbers(file):
    said = " ".join(design_file(file).limits)
    for limit in ("central bound", "follow the protocol", "guarantees hold", "collu", "Clipping"):
        assert limit in said


def test_the_frontier_and_other_networks_are_designs_of_the_same_file(file):
    ring = "design.graphs={ring={kind='ring', agents=4}, path={kind='path', agents=4}}"
    found = design_file(file, ["design.frontier=[0.0, 50.0]", ring])
    (_, average, centroid), (_, more, less) = found.frontier
    assert average == pytest.approx(found.row(DESIGNED).error, rel=1e-6)
    assert more > average
    assert less < centroid
    for scheme in (INDEPENDENT, GOPA):
        assert found.others[scheme][0] == pytest.approx(found.row(scheme).error, rel=1e-9)
    assert found.gains["path"] == pytest.approx(next(iter(found.gains.values())))
    assert found.gains["ring"][DESIGNED] > found.gains["path"][DESIGNED]


def test_a_designed_noise_runs_and_is_accounted_from_its_file(file):
    found = design_file(file)
    found.design.save("design.json")
    run = build(read(file, ["noise={kind='designed', file='design.json'}"]))
    assert {each.observer: each.mu for each in guarantees(run)}[READER] == pytest.approx(
        found.design.targets[READER], rel=1e-9
    )
    with pytest.raises(sv.ConfigError, match=r"nothing\.json"):
        build(read(file, ["noise={kind='designed', file='nothing.json'}"]))
    with pytest.raises(sv.IncompatibleChoice, match="designed for 4 agents"):
        build(read(file, ["topology.agents=5", "noise={kind='designed', file='design.json'}"]))
    with pytest.raises(sv.ConfigError, match="delta"):
        read(file, ["privacy.delta=~", "design=~", "noise={kind='designed', file='design.json'}"])


def test_a_comparison_names_a_designed_noise_by_its_file_or_has_it_designed(file):
    design_file(file).design.save("design.json")
    schemes = "compare={epsilons=[2.0], schemes={now={kind='designed'}, before={kind='designed', file='design.json'}}}"
    found = read_comparison(file, [schemes]).noises
    assert found["now"].parameters == found["before"].parameters
    with pytest.raises(sv.ConfigError, match=r"\[design\]: this section is missing"):
        read_comparison(file, ["design=~", "compare={epsilons=[2.0], schemes={now={kind='designed'}}}"])


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["design=~"], "[design]: this section is missing"),
        (["problem={kind='logistic_regression', data='breast_cancer', ridge=0.1}"], "curvature"),
        (["algorithm.batch_size=5"], "takes batches"),
        (["algorithm.batch={kind='cyclic', gap=5}"], "takes batches"),
        (["topology.kind=federation"], "federation"),
        (["topology.dropout=0.2"], "drawn at random"),
        (["algorithm.kind=consensus"], ""),
    ],
)
def test_what_nothing_is_proved_for_is_refused(file, overrides, told):
    with pytest.raises(sv.SottovoceError) as caught:
        design_file(file, overrides)
    assert told in str(caught.value)


def test_losses_that_are_not_quadratic_are_designed_by_a_curvature_that_stands_for_them(file):
    logistic = "problem={kind='logistic_regression', data='breast_cancer', ridge=0.1}"
    found = design_file(file, [logistic, "design.curvature=0.3"])
    assert not found.design.exact
    assert any("stands for the losses" in each for each in found.limits)
