"""`[algorithm] batch = { kind = "cyclic", gap = .. }`: a file's run takes records in turns, and its account counts on exactly that."""

import math

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.accounting import ConvexSmooth
from sottovoce.errors import ConfigError, IncompatibleChoice, UnsupportedClaim
from sottovoce.experiments import build, guarantees, load, parse, run_experiment
from sottovoce.experiments.audit import audits
from sottovoce.experiments.claims import Claims
from sottovoce.experiments.pairwise import pairs_of
from sottovoce.experiments.privacy import refuse_unkept_promises, within_budget
from sottovoce.experiments.release import prepare_release
from sottovoce.experiments.without_data import public_parts
from sottovoce.reports import describe

DATA = {
    "experiment": {"name": "x", "rounds": 10, "seed": 5, "dtype": "float64"},
    "topology": {"kind": "ring", "agents": 4},
    "problem": {"kind": "linear_regression", "data": "synthetic", "samples": 8, "dimension": 2, "ridge": 0.1},
    "algorithm": {"kind": "atc", "step_size": 0.1, "batch": {"kind": "cyclic", "gap": 4}},
    "noise": {"kind": "independent", "law": "gaussian", "std": 0.1},
    "privacy": {"unit": "record", "clip": 1.0, "clip_norm": "l2", "delta": 1e-5, "observers": ["eavesdropper"]},
}


def config(**changes):
    data = {section: {**table, **changes.get(section, {})} for section, table in DATA.items()}
    data |= {section: table for section, table in changes.items() if section not in data}
    kept = {name: {key: value for key, value in table.items() if value is not None} for name, table in data.items()}
    return parse(kept, source="test")


def test_the_account_of_a_record_counts_its_turns():
    (found,) = guarantees(build(config()))
    assert found.mu == pytest.approx(
        0.1 * (4 * 2.0 / 8) * math.sqrt(3) / 0.1, rel=1e-12
    )  # ten rounds, gap four: three turns
    assert found.validity == "exact"
    assert found.participation == "3 rounds, 4 apart"
    assert any("order in which an agent's records" in one for one in found.assumptions)


def test_an_agent_takes_part_in_every_round():
    (found,) = guarantees(build(config(privacy={"unit": "agent"}, problem={"ridge": 0.0})))
    assert found.mu == pytest.approx(0.1 * (1.0 + 8 / 5) * math.sqrt(10) / 0.1, rel=1e-12)
    assert found.participation == "every-round"


def test_a_run_of_the_file_is_the_run_from_python(tmp_path):
    chosen = config()
    parts = build(chosen)
    direct = sv.simulate(
        parts.problem, parts.topology, parts.algorithm, parts.noise, rounds=10, seed=5, dtype="float64",
        batch=sv.problems.cyclic_batch(4), progress=False,
    )  # fmt: skip
    run = run_experiment(chosen, tmp_path / "run", progress=False)
    np.testing.assert_array_equal(run.models, direct.models)
    back = load(tmp_path / "run")
    assert back.description["batch"] == {"kind": "cyclic", "gap": 4}
    assert "records in turns, every 4 rounds" in describe(back)
    full = run_experiment(config(algorithm={"batch": None}), tmp_path / "full", progress=False)
    assert not np.array_equal(full.models, run.models)
    assert "full gradients" in describe(full)


def test_a_budget_is_spent_by_turns():
    """With five turns' worth of budget the run ends where the sixth would begin, whatever the rounds of the file."""
    one = guarantees(build(config(experiment={"rounds": 20})))[0].epsilon(1e-5)
    budget = {"epsilon": one * (1 + 1e-9), "observer": "eavesdropper", "until_spent": True}
    cut = within_budget(build(config(experiment={"rounds": 27}, privacy={"budget": budget})))
    assert cut.rounds == 20
    assert guarantees(cut)[0].participation == "5 rounds, 4 apart"


def test_calibrated_noise_meets_epsilon_with_turns():
    (found,) = guarantees(build(config(noise={"std": None, "epsilon": 2.0})))
    assert found.epsilon(1e-5) == pytest.approx(2.0, rel=1e-5)
    assert found.epsilon(1e-5) <= 2.0
    assert found.participation == "3 rounds, 4 apart"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": {"batch_size": 2}}, "keep one"),
        ({"algorithm": {"batch": {"kind": "poisson", "gap": 2}}}, "kind"),
        ({"algorithm": {"batch": {"kind": "cyclic"}}}, "gap: this key is missing"),
        ({"algorithm": {"batch": {"kind": "cyclic", "gap": 0}}}, "gap"),
        ({"algorithm": {"batch": {"kind": "cyclic", "gap": 2, "size": 3}}}, "unknown key"),
        ({"algorithm": {"batch": 3}}, "table of keys \\(kind, gap\\)"),
        ({"algorithm": {"kind": "random_walk", "batch": {"kind": "cyclic", "gap": 2}}}, "holds the token"),
        ({"privacy": {"participation": "once"}}, "it follows from \\[algorithm\\] batch"),
        ({"deployment": {"run": "spring", "roster": "roster.json"}}, "take none in turns"),
    ],
)
def test_what_does_not_go_with_turns_is_refused_in_a_file(changes, message):
    with pytest.raises(ConfigError, match=message):
        config(**changes)


def test_more_turns_than_records_are_refused():
    with pytest.raises(ConfigError, match=r"has 8 record\(s\)"):
        build(config(algorithm={"batch": {"kind": "cyclic", "gap": 9}}))


def test_records_that_come_or_go_are_refused():
    with pytest.raises(UnsupportedClaim, match="other rounds"):
        guarantees(build(config(privacy={"adjacency": "add-remove"})))


@pytest.mark.parametrize(
    ("asked", "what"),
    [
        (lambda c: audits(build(c), pairs=1000, confidence=0.9), "an audit"),
        (lambda c: pairs_of(build(c)), "the account of pairs"),
        (public_parts, "a run among parties"),
        (prepare_release, "a run in whole numbers"),
    ],
)
def test_what_is_not_made_for_turns_says_so(asked, what):
    with pytest.raises(IncompatibleChoice, match=f"records in turns, and {what}"):
        asked(config())


def test_a_promise_about_losses_is_that_of_the_fullest_round():
    """Five turns of eight records: a round has two of them with weight 5/8 each, so that its loss is 5/4 times as steep as a record's."""
    experiment = build(config(algorithm={"batch": {"kind": "cyclic", "gap": 5}}, privacy={"losses": "problem"}))
    known = experiment.problem.losses
    assert experiment.privacy.losses == ConvexSmooth(known.beta * 10 / 8, known.nu * 5 / 8)
    refuse_unkept_promises(experiment)
    data = {name: value[0] for name, value in experiment.problem.arrays.items()}
    positions, weights = experiment.batch.table(experiment.problem.sizes)
    w, step = np.zeros(2), 1e-4
    steepest = 0.0
    for turn in range(5):
        records = experiment.problem.records(data, positions[turn, 0])
        hessian = np.stack(
            [
                experiment.problem.weighted_gradient(w + step * e, records, weights[turn, 0])
                - experiment.problem.weighted_gradient(w - step * e, records, weights[turn, 0])
                for e in np.eye(2)
            ]
        ) / (2 * step)
        values = np.linalg.eigvalsh((hessian + hessian.T) / 2)
        steepest = max(steepest, values[-1])
        assert values[0] >= known.nu * 5 / 8 - 1e-9
    assert steepest <= experiment.privacy.losses.beta * (1 + 1e-9)
    claims = Claims(unit="record", adjacency="replace", losses=known, batch=experiment.batch)
    with pytest.raises(ConfigError, match="losses of batches"):
        claims.kept(experiment.problem, experiment.algorithm, experiment.noise)


def test_claims_of_other_turns_are_refused_or_replaced_by_those_of_the_run():
    experiment = build(config())
    parts = experiment.problem, experiment.algorithm, experiment.noise
    batch = sv.problems.cyclic_batch(4)
    given = {"unit": "record", "adjacency": "replace", "batch": batch}
    for participation in ("once", sv.accounting.cyclic(1, 3)):
        with pytest.raises(IncompatibleChoice, match="every 4-th round"):
            Claims(**given, participation=participation).kept(*parts)
    few = Claims(**given, participation=sv.accounting.cyclic(1, 4)).kept(*parts)
    assert few.question(rounds=10, sensitivity=1.0).participation == batch.participation(10)
