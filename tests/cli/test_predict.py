"""From raw files to predictions by commands, with what the result is worth for the data's owner."""

import csv
import json
import stat

import numpy as np
import pytest

from experiments.test_model_file import FILE, ROWS
from sottovoce import reports
from sottovoce.experiments import load
from sottovoce.reports import run_figure

CONFIG = """
[experiment]
name = "wards"
rounds = 30
repeats = 2
seed = 731
[topology]
kind = "ring"
[problem]
kind = "logistic_regression"
data = "wards.csv"
target = "ill"
labels = ["no", "yes"]
owner = "house"
bounds = { age = [0, 120] }
categories = { sex = ["f", "m"] }
booleans = ["smoker"]
missing = { smoker = false }
indicators = ["smoker"]
drop = ["id"]
ridge = 0.01
intercept = true
test_fraction = 0.2
[algorithm]
kind = "atc"
step_size = 0.5
[noise]
kind = "independent"
law = "gaussian"
std = 0.5
[privacy]
unit = "record"
clip = 0.5
clip_norm = "l2"
delta = 1e-5
observers = ["eavesdropper", "final_model"]
"""
NEW = "id,age,sex,smoker,house\nx,30,f,yes,\ny,80,m,,ahouse\n\nz,500,m,no,elsewhere\n"


@pytest.fixture
def wards(tmp_path):
    lines = ["age,sex,smoker,id,house,ill"]
    lines += [
        f"{age},{sex},{smoker},{k},{'abc'[k % 3]}house,{ill}" for k, (age, sex, smoker, _, ill) in enumerate(ROWS)
    ]
    (tmp_path / "wards.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "wards.toml").write_text(CONFIG)
    (tmp_path / "new.csv").write_text(NEW)
    assert FILE["problem"]["owner"] == "house"
    return tmp_path


def test_two_commands_lead_from_a_file_to_what_the_result_is_worth_and_to_predictions(sottovoce, wards, monkeypatch):
    monkeypatch.setattr(reports, "run_figure", run_figure)
    printed = " ".join(sottovoce("run", "wards.toml", "--out", "out", "--explain").stdout.split())
    for said in (
        "For the data's owner only: exact statistics of the records, covered by no guarantee.",
        "the most frequent class", "each agent alone", "together, without noise and clipping", "together, with noise",
        "kept for testing", "for the data's owner only: after the last round", "epsilon at delta = 1e-05", "every message",
    ):  # fmt: skip
        assert said in printed, said
    assert "sottovoce predict out NEW.csv" in printed
    assert "for the data's owner only" in (wards / "out" / "owner-only.svg").read_text()
    for name in ("owner-only.json", "owner-only.png", "owner-only.svg", "resume.key", "run.json", "guarantees.json"):
        assert stat.S_IMODE((wards / "out" / name).stat().st_mode) == 0o600, name
    assert (wards / "out" / "owner-only.png").stat().st_size > 10_000
    again = json.loads(sottovoce("run", "wards.toml", "--out", "out", "--json").stdout)
    assert again["owner_only"] == json.loads((wards / "out" / "owner-only.json").read_text())
    assert "without learning" in again["owner_only"]["rows"]

    told = sottovoce("predict", "out", "new.csv", "--out", "predictions.csv", "--proba")
    assert stat.S_IMODE((wards / "predictions.csv").stat().st_mode) == 0o600
    assert told.exit_code == 0, told.output
    assert "3 predictions by the common model" in told.stdout
    assert "not for release" in " ".join(told.stdout.split())
    rows = list(csv.DictReader((wards / "predictions.csv").read_text().splitlines()))
    table = {"age": [30, 80, 500], "sex": ["f", "m", "m"], "smoker": ["yes", "", "no"]}
    run = load(wards / "out")
    assert [row["row"] for row in rows] == ["2", "3", "5"]
    assert [row["prediction"] for row in rows] == run.predict(table).tolist()
    shares = [[float(row["probability of no"]), float(row["probability of yes"])] for row in rows]
    np.testing.assert_allclose(shares, run.predict_proba(table), rtol=1e-5)

    one = sottovoce("predict", "out", "new.csv", "--out", "one.csv", "--agent", "bhouse", "--json")
    assert json.loads(one.stdout)["agent"] == "bhouse"
    assert [row["prediction"] for row in csv.DictReader((wards / "one.csv").read_text().splitlines())] == run.predict(
        table, "bhouse"
    ).tolist()

    refused = {
        ("out", "new.csv", "--out", "predictions.csv"): "--force",
        ("out", "new.csv", "--out", "new.csv"): "would replace them",
        ("out", "new.csv", "--out", "x.csv", "--agent", "nobody"): "bhouse",
        ("out", "wards.toml", "--out", "x.csv"): ".csv and .parquet",
        ("nowhere", "new.csv", "--out", "x.csv"): "not a run folder",
        ("out", "new.csv", "--out", "no/such/place.csv"): "cannot be written",
    }
    for arguments, said in refused.items():
        result = sottovoce("predict", *arguments)
        assert result.exit_code == 2, result.output
        assert said in " ".join(result.stderr.split()), result.stderr
    (wards / "other.csv").write_text("age,sex,weight\n30,x,70\n")
    wrong = " ".join(sottovoce("predict", "out", "other.csv", "--out", "x.csv").stderr.split())
    assert all(name in wrong for name in ("smoker", "sex", "weight"))  # all problems in one answer
    assert not (wards / "x.csv").exists()

    for name in ("model.json", "model.safetensors"):  # somebody who is given the model alone
        (wards / "given").mkdir(exist_ok=True)
        (wards / "given" / name).write_bytes((wards / "out" / name).read_bytes())
    assert sottovoce("predict", "given", "new.csv", "--out", "given.csv", "--proba", "-q").exit_code == 0
    assert (wards / "given.csv").read_bytes() == (wards / "predictions.csv").read_bytes()
    alone = sottovoce("predict", "given", "new.csv", "--out", "x.csv", "--agent", "bhouse")
    assert "stay with their run" in " ".join(alone.stderr.split())


def test_a_run_on_plain_numbers_predicts_for_plain_numbers(sottovoce, small, tmp_path):
    assert sottovoce("run", small, "--out", "out").exit_code == 0
    (tmp_path / "new.csv").write_text("a,b\n1,2\n0,-1\n")
    assert sottovoce("predict", "out", "new.csv", "--out", "p.csv", "--agent", "3").exit_code == 0
    rows = list(csv.DictReader((tmp_path / "p.csv").read_text().splitlines()))
    expected = load(tmp_path / "out").predict(np.array([[1.0, 2.0], [0.0, -1.0]]), agent=3)
    np.testing.assert_allclose([float(row["prediction"]) for row in rows], expected, rtol=1e-6)
    (tmp_path / "new.csv").write_text("a,b,c\n1,2,3\n")
    assert "[N, 2]" in sottovoce("predict", "out", "new.csv", "--out", "q.csv").stderr


def test_three_files_of_numbers_to_predict_are_answered_in_their_own_units(sottovoce, tmp_path):
    generator, days = np.random.default_rng(4), []
    for name in ("basel", "bern", "genf"):
        ages = generator.integers(20, 90, size=30)
        own = 4 + 0.2 * (ages - 20) + generator.normal(size=30)
        days += own.round(1).tolist()
        lines = [f"{age},{day:.1f}" for age, day in zip(ages, own, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["age,days", *lines]) + "\n")
    (tmp_path / "stay.toml").write_text(
        '[experiment]\nname = "stay"\nrounds = 200\n[topology]\nkind = "complete"\n[algorithm]\nkind = "atc"\nstep_size = 0.3\n'
        '[noise]\nkind = "none"\n[problem]\nkind = "linear_regression"\ndata = ["basel.csv", "bern.csv", "genf.csv"]\ntarget = "days"\n'
        "bounds = { age = [0, 120], days = [0, 60] }\nintercept = true\nridge = 0.0\n"
    )
    printed = sottovoce("run", "stay.toml", "--out", "out", "--json")
    assert printed.exit_code == 0, printed.output
    told = json.loads(printed.stdout)["owner_only"]
    assert told["measure"] == "error"
    assert told["rows"]["without learning"]["common"] == pytest.approx(np.std(days))
    assert told["rows"]["together"]["common"] == pytest.approx(1.0, abs=0.2)  # the noise that these days have
    assert told["rows"]["together"]["explained"] > 0.9
    assert "in clear" not in told["rows"]  # the run itself is
    (tmp_path / "new.csv").write_text("age\n20\n70\n")
    assert sottovoce("predict", "out", "new.csv", "--out", "p.csv", "--agent", "bern").exit_code == 0
    answers = [float(row["prediction"]) for row in csv.DictReader((tmp_path / "p.csv").read_text().splitlines())]
    np.testing.assert_allclose(answers, [4, 14], atol=0.8)
    assert "no probabilities" in sottovoce("predict", "out", "new.csv", "--out", "q.csv", "--proba").stderr
