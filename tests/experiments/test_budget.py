"""A budget fails closed: what would exceed it does not start, and what is spent is known after every round."""

import json
import math

import numpy as np
import pytest
from scipy.stats import norm

from sottovoce.errors import BudgetExhausted, ConfigError, IncompatibleChoice, UnsupportedClaim
from sottovoce.experiments import build, final_metrics, load, parse, privacy, run_experiment
from sottovoce.experiments import run as run_module
from sottovoce.experiments.record import Record, load_guarantees
from sottovoce.observers import observer_named

DELTA, ROUNDS = 1e-5, 12
BASE = {
    "experiment": {"name": "x", "rounds": ROUNDS, "repeats": 2, "seed": 5, "chunk": 5},
    "topology": {"kind": "ring", "agents": 4},
    "problem": {"kind": "linear_regression", "data": "synthetic", "samples": 8, "dimension": 2, "ridge": 0.1},
    "algorithm": {"kind": "atc", "step_size": 0.1},
    "noise": {"kind": "independent", "law": "gaussian", "std": 0.1},
    "privacy": {
        "unit": "record",
        "clip": 1.0,
        "clip_norm": "l2",
        "delta": DELTA,
        "observers": ["eavesdropper", "final_model"],
        "budget": {"epsilon": 8.0, "observer": "eavesdropper"},
    },
}


def configured(budget=8.0, *, observer="eavesdropper", until_spent=False, **changes):
    """The configuration with this budget and these keys changed; None removes a key."""
    watched = {"epsilon": budget, "observer": observer, "until_spent": until_spent}
    data = {section: {**table, **changes.get(section, {})} for section, table in BASE.items()}
    data["privacy"] = {**data["privacy"], "budget": watched}
    kept = {name: {key: value for key, value in table.items() if value is not None} for name, table in data.items()}
    return parse(kept, source="test")


def made(*arguments, **options):
    return build(configured(*arguments, **options))


def fits_by_definition(rounds, epsilon):
    """Whether ATC with self-noise is (epsilon, DELTA)-private after some rounds: mu = step (2C/n) sqrt(t) / std."""
    mu = 0.1 * (2 / 8) * math.sqrt(rounds) / 0.1
    reached = norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)
    return reached <= DELTA


@pytest.mark.parametrize("budget", [1.2, 2.0, 2.9])
def test_as_many_rounds_fit_as_the_definition_allows(budget):
    expected = max(t for t in range(1, ROUNDS + 1) if fits_by_definition(t, budget))
    assert 1 <= expected < ROUNDS
    assert privacy.within_budget(made(budget, until_spent=True)).rounds == expected
    with pytest.raises(BudgetExhausted, match=rf"the budget is {budget:g}\. {expected} of the 12 rounds fit"):
        privacy.within_budget(made(budget))


def test_a_run_that_fits_is_left_as_it_is():
    experiment = made(8.0, until_spent=True)
    assert privacy.within_budget(experiment) is experiment


def test_a_budget_that_not_a_single_round_fits_is_exhausted_even_until_spent():
    for until_spent in (False, True):
        with pytest.raises(BudgetExhausted, match="0 of the 12 rounds fit"):
            privacy.within_budget(made(0.1, until_spent=until_spent))


def test_an_infinite_epsilon_exceeds_every_budget_and_says_why():
    cta = {"kind": "cta"}
    with pytest.raises(BudgetExhausted, match=r"epsilon = inf .* The last gradient"):
        privacy.within_budget(made(1e6, observer="final_model", algorithm=cta))


def test_noise_calibrated_to_the_budget_fits_it():
    for target in (0.7, 3.0):
        experiment = made(target, noise={"std": None, "epsilon": target})
        assert privacy.within_budget(experiment) is experiment


ALGORITHMS = {
    "atc": {"kind": "atc"},
    "cta": {"kind": "cta"},
    "dgd": {"kind": "dgd", "gradient_rounds": 6},
}
LAWS = {"gaussian": {}, "laplace": {"law": "laplace"}}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("law", LAWS)
def test_what_is_spent_after_a_round_is_the_epsilon_of_a_run_that_ends_there(algorithm, law):
    experiment = made(100.0, algorithm=ALGORITHMS[algorithm], noise=LAWS[law], privacy={"observers": ["eavesdropper"]})
    observer = experiment.privacy.budget.observer
    spent = privacy.spending(experiment)
    expected = [privacy.guarantee(experiment, observer, rounds=t).epsilon(DELTA) for t in range(1, ROUNDS + 1)]
    np.testing.assert_allclose(spent, expected, rtol=1e-9, atol=1e-12)
    assert spent[-1] > 0


def test_a_budget_of_a_reader_of_messages_counts_a_model_that_somebody_is_given():
    changes = {"noise": {"kind": "graph_homomorphic"}, "privacy": {"losses": "problem"}}
    with pytest.raises(
        BudgetExhausted, match=r"eavesdropper \+ final model have epsilon = inf .* do not release the model"
    ):
        privacy.within_budget(made(1000.0, **changes))
    changes["privacy"]["observers"] = ["eavesdropper"]
    assert privacy.within_budget(made(1000.0, **changes)).rounds == ROUNDS


def test_unequal_agents_spend_what_the_worst_of_them_does():
    cancer = {
        **{"kind": "logistic_regression", "data": "breast_cancer", "samples": None, "dimension": None},
        "partition": {"kind": "dirichlet", "alpha": 0.5},
    }
    experiment = made(100.0, problem=cancer)
    observer = experiment.privacy.budget.observer
    expected = [privacy.guarantee(experiment, observer, rounds=t).epsilon(DELTA) for t in (1, 7, ROUNDS)]
    np.testing.assert_allclose(privacy.spending(experiment)[[0, 6, 11]], expected, rtol=1e-9)


def test_where_less_is_proven_than_was_sent_every_longer_run_bounds_what_is_spent():
    experiment = made(100.0, observer="final_model", experiment={"rounds": 6}, privacy={"losses": "problem"})
    observer = experiment.privacy.budget.observer
    alone = np.array([privacy.guarantee(experiment, observer, rounds=t).epsilon(DELTA) for t in range(1, 7)])
    assert privacy.guarantee(experiment, observer).validity == "absorption"
    spent = privacy.spending(experiment)
    np.testing.assert_allclose(spent, [alone[t:].min() for t in range(6)])
    assert (np.diff(spent) >= 0).all()
    sent = privacy.guarantee(experiment, observer_named("eavesdropper")).epsilon(DELTA)
    assert spent[-1] < 0.8 * sent


def test_a_grid_of_rounds_rounds_up(monkeypatch):
    experiment = made(100.0, observer="final_model", experiment={"rounds": 6}, privacy={"losses": "problem"})
    fine = privacy.spending(experiment)
    monkeypatch.setattr(privacy, "_grid", lambda rounds: [3])
    coarse = privacy.spending(experiment)
    np.testing.assert_array_equal(coarse[[2, 5]], fine[[2, 5]])
    assert (coarse >= fine).all()
    assert (coarse[:3] <= fine[2]).all()


@pytest.mark.parametrize("rounds", [1, 2, 30, 1000, 100_000])
def test_the_grid_lies_before_the_last_round_and_is_short(rounds):
    grid = privacy._grid(rounds)
    assert grid == sorted(set(grid))
    assert all(1 <= place < rounds for place in grid)
    assert len(grid) <= 40
    assert len(grid) >= min(rounds - 1, 3)


def test_spending_needs_a_budget():
    data = {**BASE, "privacy": {key: value for key, value in BASE["privacy"].items() if key != "budget"}}
    with pytest.raises(ConfigError, match="no budget"):
        privacy.spending(build(parse(data, source="test")))


def test_run_keeps_what_is_spent_and_left_after_every_round(tmp_path):
    config = configured(8.0)
    run = run_experiment(config, tmp_path / "run", progress=False)
    spent = privacy.spending(build(config))
    for repeat in range(2):
        np.testing.assert_array_equal(run.metrics["epsilon_spent"][repeat], spent)
        np.testing.assert_array_equal(run.metrics["epsilon_left"][repeat], 8.0 - spent)
    header, *rows = (tmp_path / "run" / "metrics.csv").read_text().splitlines()
    column = header.split(",").index("epsilon_spent")
    np.testing.assert_allclose([float(row.split(",")[column]) for row in rows], spent, rtol=1e-8)
    assert final_metrics(run)["epsilon_left"]["mean"] == pytest.approx(8.0 - spent[-1])
    np.testing.assert_array_equal(load(tmp_path / "run").metrics["epsilon_spent"], run.metrics["epsilon_spent"])


def test_run_keeps_the_guarantees_of_its_observers(tmp_path):
    config = configured(8.0)
    run_experiment(config, tmp_path / "run", progress=False)
    stated = json.loads((tmp_path / "run" / "guarantees.json").read_text())
    experiment = build(config)
    assert stated == privacy.simulated_statement(experiment, privacy.guarantees(experiment))
    assert stated == load_guarantees(tmp_path / "run")
    assert stated["budget"]["needed"] == pytest.approx(privacy.spending(experiment)[-1])


def test_run_without_observers_keeps_no_guarantees(tmp_path):
    data = {**BASE, "privacy": {"unit": "record", "clip": 1.0, "clip_norm": "l2"}}
    run = run_experiment(parse(data, source="test"), tmp_path / "run", progress=False)
    assert "epsilon_spent" not in run.metrics
    assert load_guarantees(tmp_path / "run") is None


def test_run_that_would_exceed_its_budget_leaves_nothing(tmp_path):
    with pytest.raises(BudgetExhausted):
        run_experiment(configured(1.0), tmp_path / "runs" / "run", progress=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("compiled_as_for_users")
def test_run_until_spent_is_the_beginning_of_the_whole_run(tmp_path):
    whole = run_experiment(configured(8.0), tmp_path / "whole", progress=False)
    part = run_experiment(configured(2.0, until_spent=True), tmp_path / "part", progress=False)
    rounds = part.rounds
    assert 1 <= rounds < ROUNDS
    assert part.metrics["loss"].shape == (2, rounds)
    np.testing.assert_array_equal(part.metrics["loss"], whole.metrics["loss"][:, :rounds])
    assert (part.metrics["epsilon_left"] >= 0).all()
    rows = load_guarantees(tmp_path / "part")["guarantees"]
    assert all(row["rounds"] == rounds for row in rows)


def test_run_for_which_nothing_is_proved_does_not_start(tmp_path):
    unproven = configured(8.0, noise={"self_noise": False}, privacy={"observers": ["eavesdropper"]})
    with pytest.raises(UnsupportedClaim, match="eavesdropper"):
        run_experiment(unproven, tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_records_that_a_run_uses_more_often_than_promised_are_refused_by_the_run_alone(tmp_path):
    config = configured(8.0, privacy={"participation": "once"})
    assert privacy.guarantees(build(config))
    with pytest.raises(IncompatibleChoice, match="uses every record in every round"):
        run_experiment(config, tmp_path / "run", progress=False)
    drawn = configured(8.0, privacy={"participation": "once"}, algorithm={"batch_size": 2})
    with pytest.raises(IncompatibleChoice, match="draws records at random"):
        run_experiment(drawn, tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("until_spent", [False, True])
def test_interrupted_run_with_a_budget_continues_bit_for_bit(tmp_path, monkeypatch, until_spent):
    config = configured(2.9 if until_spent else 8.0, until_spent=until_spent, experiment={"chunk": 2})
    whole = run_experiment(config, tmp_path / "whole", progress=False)
    real, done = Record.add_chunk, []

    def interrupted(self, last_round, *arguments, **options):
        if len(done) == 2:
            raise KeyboardInterrupt
        real(self, last_round, *arguments, **options)
        done.append(last_round)

    with monkeypatch.context() as patch:
        patch.setattr(Record, "add_chunk", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run_experiment(config, tmp_path / "run", progress=False)
    assert done == [2, 4]
    assert not (tmp_path / "run" / "guarantees.json").exists()
    resumed = run_experiment(config, tmp_path / "run", progress=False)
    assert resumed.metrics.keys() == whole.metrics.keys()
    for name, values in whole.metrics.items():
        np.testing.assert_array_equal(resumed.metrics[name], values)
    assert load_guarantees(tmp_path / "run") == load_guarantees(tmp_path / "whole")


def test_finished_run_is_read_back_without_accounting_again(tmp_path, monkeypatch):
    config = configured(8.0)
    first = run_experiment(config, tmp_path / "run", progress=False)
    monkeypatch.setattr(run_module, "_accounted", None)
    again = run_experiment(config, tmp_path / "run", progress=False)
    np.testing.assert_array_equal(first.metrics["epsilon_spent"], again.metrics["epsilon_spent"])
