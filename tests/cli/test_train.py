"""`sottovoce train`: a model that may be released, its ledger, and what it says."""

import json

import pytest

from sottovoce.experiments import train

PRIVATE = '[privacy]\nunit = "record"\nclip = 1.0\nclip_norm = "l2"\ndelta = 1e-5\n'
LEDGER = '[ledger]\nstore = "own.ledger"\nname = "my patients"\nbudget = {budget}\n'


@pytest.fixture
def private(small):
    """A file whose training costs about epsilon 5.2, and two of them 7.9."""
    small.write_text(small.read_text().replace("std = 0.1", "std = 0.3") + PRIVATE)
    return small


def test_a_model_is_trained_and_predicts_and_the_second_over_the_budget_is_refused(sottovoce, private, tmp_path):
    private.write_text(private.read_text() + LEDGER.format(budget=7))
    said = sottovoce("train", private)
    assert said.exit_code == 0, said.output
    printed = " ".join(said.stdout.split())
    for part in (
        "For the data's owner only", "whoever gets the model", "Ledger of my patients: 1 run", "at delta = 1e-05; the budget is 7.",
        "trained/small may be released", "One model is trained",
    ):  # fmt: skip
        assert part in printed, part
    (tmp_path / "new.csv").write_text("a,b\n1,2\n0,-1\n")
    told = sottovoce("predict", "trained/small", "new.csv", "--out", "p.csv")
    assert told.exit_code == 0, told.output
    assert "The model may be released by what its guarantee says" in " ".join(told.stdout.split())
    again = sottovoce("train", private, "--out", "again")
    assert again.exit_code == 3
    assert "above its budget of 7" in " ".join(again.stderr.split())
    assert not (tmp_path / "again").exists()


def test_what_is_printed_for_programs(sottovoce, private):
    options = ("--ledger", "l", "--dataset", "d", "--budget", "unlimited", "--out", "model", "--json")
    found = json.loads(sottovoce("train", private, *options).stdout)
    assert found["releasable"] is True
    assert found["ledger"]["budget"] == "unlimited"
    assert found["ledger"]["runs"] == 1
    assert found["guarantees"][0]["observer"] == "final model"
    assert found["owner_only"]["rows"]["together"]["common"] > 0
    quiet = sottovoce("train", private, "--ledger", "l", "--dataset", "d", "--out", "second", "--quiet")
    assert quiet.stderr == ""
    assert "2 runs" in quiet.stdout
    assert "may be released" in " ".join(quiet.stdout.split())


def test_ctrl_c_says_what_stays_spent(sottovoce, private, tmp_path, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "play", stopped)
    result = sottovoce("train", private, "--ledger", "l", "--dataset", "d", "--budget", "30", "--out", "model")
    assert result.exit_code == 130
    assert "stays spent in the ledger of 'd'" in " ".join(result.stderr.split())
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "--ledger, --dataset and --budget"),
        (("--ledger", "l", "--dataset", "d"), "needs [ledger] budget"),
        (("--ledger", "l", "--dataset", "d", "--budget", "lots"), "give an epsilon above 0"),
        (("--ledger", "l", "--dataset", "d", "--budget", "nan"), "[ledger] budget"),
        (("--ledger", "l", "--budget", "3"), "[ledger] name: this key is missing"),
    ],
)
def test_a_ledger_that_is_not_said_is_refused(sottovoce, private, tmp_path, options, said):
    result = sottovoce("train", private, *options)
    assert result.exit_code == 2, result.output
    assert said in " ".join(result.stderr.split())
    assert not (tmp_path / "l").exists()
    assert not (tmp_path / "trained").exists()
