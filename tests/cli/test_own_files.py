"""From raw files to predictions: at most three commands and one edit of the file that the first one wrote, with nothing leaked on the way.

Patients of five hospitals in one CSV (who comes back?), and stays in three hospitals with a file each (how long?). Beside the private model
stands scikit-learn's own without privacy, on the same records.
"""

import csv
import json

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

HOSPITALS = ("Zürich", "Genève", "Bern", "Basel", "Lausanne")
DIAGNOSES = ("I50", "J18", "E11", "K35", "N17")


def patients(path, count, seed):
    """Patients as hospitals write them down: text, yes and no, empty cells, numbers that name a person, days, accents."""
    rng = np.random.default_rng(seed)
    age, stays = rng.integers(18, 96, count), rng.poisson(1.2, count)
    pressure = np.round(rng.normal(125 + 0.3 * (age - 50), 15)).astype(int)
    creatinine = np.round(np.exp(rng.normal(0, 0.35, count)), 2)
    smokes, sex = rng.random(count) < 0.3, rng.choice(["f", "m"], count)
    diagnosis = rng.choice(DIAGNOSES, count, p=[0.3, 0.25, 0.2, 0.15, 0.1])
    score = 1.6 * (age - 57) / 20 + 1.4 * smokes + 0.9 * (stays - 1.2) + 1.6 * (creatinine - 1) - 0.9
    score += 1.5 * np.isin(diagnosis, ["I50", "N17"])
    again = rng.random(count) < 1 / (1 + np.exp(-1.6 * score))
    frame = pd.DataFrame(
        {
            "id": [f"P{seed}{row:05d}" for row in range(count)],
            "entrée": [f"2025-{month:02d}-11" for month in rng.integers(1, 13, count)],
            "hospital": rng.choice(HOSPITALS, count, p=[0.25, 0.2, 0.2, 0.2, 0.15]),
            "âge": age,
            "sex": sex,
            "smokes": np.where(smokes, "yes", "no"),
            "blood pressure": pressure,
            "créatinine": np.where(rng.random(count) < 0.08, None, creatinine),
            "diagnosis": diagnosis,
            "earlier stays": stays,
            "readmitted": np.where(again, "yes", "no"),
        }
    )
    frame.to_csv(path, index=False)
    return frame


def stays(path, count, seed):
    """Stays in one hospital: how many days."""
    rng = np.random.default_rng(seed)
    age, urgent = rng.integers(18, 96, count), rng.random(count) < 0.4
    ward = rng.choice(["surgery", "medicine", "maternité"], count)
    days = 4 + 0.09 * (age - 50) + 4 * urgent + 3 * (ward == "medicine") + rng.normal(0, 1.5, count)
    frame = pd.DataFrame(
        {
            "âge": age,
            "urgent": np.where(urgent, "oui", "non"),
            "ward": ward,
            "days": np.round(np.clip(days, 0, None), 1),
        }
    )
    frame.to_csv(path, index=False)
    return frame


def edit(path, completed, uncommented=()):
    """The one edit: lines that say FILL IN, from what is known without the data."""
    lines, kept = dict(completed), []
    for line in path.read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(" = ")
        if value.startswith('"FILL IN') and key in lines:
            line = f"{key} = {lines.pop(key)}"
        elif key.removeprefix("# ") in uncommented and value.startswith('"FILL IN'):
            line = f"{key.removeprefix('# ')} = {uncommented[key.removeprefix('# ')]}"
        kept.append(line)
    assert not lines
    path.write_text("\n".join(kept) + "\n", encoding="utf-8")


def sklearn_model(model, numbers, words):
    numeric = make_pipeline(SimpleImputer(), StandardScaler())
    return make_pipeline(make_column_transformer((numeric, numbers), (OneHotEncoder(), words)), model)


def predictions(path):
    with path.open(encoding="utf-8", newline="") as file:
        return [row["prediction"] for row in csv.DictReader(file)]


def written(folder, *inputs):
    """Texts of everything that the commands wrote."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name not in inputs]
    return {path.name: path.read_bytes() for path in paths}


def test_from_one_file_of_five_hospitals_to_predictions_by_three_commands_and_one_edit(sottovoce, tmp_path):
    known, new = patients(tmp_path / "patients.csv", 600, seed=1), patients(tmp_path / "new.csv", 400, seed=2)

    named = ("--data", "patients.csv", "--target", "readmitted", "--owner", "hospital")
    result = sottovoce("new", *named, "patients.toml")
    assert result.exit_code == 0, result.stderr
    draft = (tmp_path / "patients.toml").read_text(encoding="utf-8")
    assert not [name for name in (*HOSPITALS, *DIAGNOSES, "P1000", "600") if name in draft]

    edit(
        tmp_path / "patients.toml",
        {
            "labels": '["no", "yes"]', '"âge"': "[18, 100]", '"blood pressure"': "[60, 200]", '"créatinine"': "[0, 4]",
            '"earlier stays"': "[0, 6]", "sex": '["f", "m"]', "diagnosis": json.dumps(DIAGNOSES), "clip": "1.0", "delta": "1e-5",
            "epsilon": "4.0", "rounds": "20",
        },
        {'"créatinine"': "1.0"},
    )  # fmt: skip
    result = sottovoce("run", "patients.toml", "--out", "results", "--json")
    assert result.exit_code == 0, result.stderr
    epsilons = [row["epsilon"]["1e-05"] for row in json.loads(result.stdout)["guarantees"]]
    assert max(epsilons) == pytest.approx(4.0, rel=1e-4)

    result = sottovoce("predict", "results", "new.csv", "--out", "predictions.csv")
    assert result.exit_code == 0, result.stderr

    accuracy = float(np.mean(np.array(predictions(tmp_path / "predictions.csv")) == new["readmitted"]))
    numbers, words = ["âge", "blood pressure", "créatinine", "earlier stays"], ["sex", "smokes", "diagnosis"]
    open_model = sklearn_model(LogisticRegression(), numbers, words).fit(known[numbers + words], known["readmitted"])
    without_privacy = open_model.score(new[numbers + words], new["readmitted"])
    majority = max((new["readmitted"] == "yes").mean(), (new["readmitted"] == "no").mean())
    # Measured: 85.8 % with epsilon 4, 87.8 % without privacy; the most frequent class alone is right in 53.5 %.
    assert without_privacy > 0.8
    assert majority + 0.1 < accuracy < without_privacy + 0.02

    for name, content in written(tmp_path, "patients.csv", "new.csv").items():
        assert b"P10" not in content, name  # who a record is about
        assert b"2025-" not in content, name


@pytest.mark.slow
def test_from_three_files_to_predicted_days_by_three_commands_and_one_edit(sottovoce, tmp_path):
    (tmp_path / "hospitals").mkdir()
    parts = [
        stays(tmp_path / "hospitals" / f"{name}.csv", 250, seed)
        for seed, name in enumerate(("basel", "bern", "genève"))
    ]
    known, new = pd.concat(parts), stays(tmp_path / "new.csv", 300, seed=9)

    assert sottovoce("new", "--data", "hospitals", "--target", "days", "stays.toml").exit_code == 0
    assert "bern" not in (tmp_path / "stays.toml").read_text(encoding="utf-8")
    edit(
        tmp_path / "stays.toml",
        {
            '"âge"': "[18, 100]", "days": "[0, 20]", "urgent": '["non", "oui"]', "ward": '["surgery", "medicine", "maternité"]',
            "clip": "1.0", "delta": "1e-5", "epsilon": "4.0", "rounds": "30",
        },
    )  # fmt: skip
    result = sottovoce("run", "stays.toml", "--out", "results")
    assert result.exit_code == 0, result.stderr
    result = sottovoce("predict", "results", "new.csv", "--out", "predictions.csv")
    assert result.exit_code == 0, result.stderr

    error = rms(np.array(predictions(tmp_path / "predictions.csv"), dtype=float) - new["days"])
    columns = ["âge", "urgent", "ward"]
    open_model = sklearn_model(Ridge(), ["âge"], ["urgent", "ward"]).fit(known[columns], known["days"])
    without_privacy = rms(open_model.predict(new[columns]) - new["days"])
    mean = rms(known["days"].mean() - new["days"])
    # Measured: off by 1.34 days with epsilon 4, and by 1.34 without privacy, which is the noise of the data; the mean is off by 3.26.
    assert without_privacy < 1.7
    assert without_privacy - 0.05 < error < 0.7 * mean


def rms(errors):
    """The root of the mean square."""
    return float(np.sqrt(np.mean(np.square(errors))))
