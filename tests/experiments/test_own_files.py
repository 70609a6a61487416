"""Own files in the table [problem]: who holds a record, what columns mean, which records are for testing."""

import gzip

import numpy as np
import pytest

from sottovoce.errors import ConfigError
from sottovoce.experiments import build, parse

HOSPITALS = ("Basel", "Bern", "Genève")


def patients(rng, count, *, start=0):
    lines = []
    for number in range(start, start + count):
        age = rng.integers(20, 90)
        ill = "yes" if age + rng.normal(0, 10) > 55 else "no"
        creatinine = "" if number % 7 == 0 else f"{rng.uniform(0.5, 3):.2f}"
        lines.append(
            f"{number // 2},{HOSPITALS[(number // 2) % 3]},{age},{'fm'[number % 2]},{creatinine},{ill},{number / 10}"
        )
    return "id,hospital,age,sex,créatinine,ill,days\n" + "\n".join(lines) + "\n"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "patients.csv"
    path.write_text(patients(np.random.default_rng(0), 60), encoding="utf-8")
    return path


@pytest.fixture
def tables(file):
    return {
        "experiment": {"name": "own", "rounds": 3},
        "topology": {"kind": "ring"},
        "problem": {
            "kind": "logistic_regression",
            "data": str(file),
            "target": "ill",
            "labels": ["no", "yes"],
            "owner": "hospital",
            "bounds": {"age": [0, 120], "créatinine": [0, 10]},
            "categories": {"sex": ["f", "m"]},
            "missing": {"créatinine": 1.0},
            "drop": ["id", "days"],
            "ridge": 0.01,
            "intercept": True,
        },
        "algorithm": {"kind": "atc", "step_size": 0.1},
        "noise": {"kind": "none"},
    }


def made(tables):
    return build(parse(tables, source="own.toml"))


def test_owners_become_agents_with_names(tables):
    experiment = made(tables)
    assert experiment.agents == HOSPITALS
    assert experiment.topology.num_agents == 3
    described = experiment.describe()
    assert described["agents"] == list(HOSPITALS)
    assert described["features"] == ["age", "créatinine", "sex = f", "sex = m", "(intercept)"]
    assert experiment.problem.sizes.tolist() == [20, 20, 20]


def test_a_number_of_agents_that_the_owners_contradict_is_refused(tables):
    tables["topology"]["agents"] = 5
    with pytest.raises(ConfigError, match=r"names 3 owner\(s\), and \[topology\] has 5 agents"):
        made(tables)


def test_agents_are_needed_where_nobody_is_named(tables):
    tables["problem"]["owner"] = None
    del tables["problem"]["owner"]
    tables["problem"]["drop"].append("hospital")
    with pytest.raises(ConfigError, match=r"\[topology\] agents: this key is missing"):
        made(tables)
    tables["topology"]["agents"] = 4
    assert made(tables).agents is None


def test_one_file_for_each_agent(tables, tmp_path):
    for name in ("nord", "süd"):
        (tmp_path / f"{name}.csv").write_text(patients(np.random.default_rng(1), 20), encoding="utf-8")
    (tmp_path / "patients.csv").unlink()
    del tables["problem"]["owner"]
    tables["problem"]["drop"].append("hospital")
    for data in ([f"{tmp_path}/nord.csv", f"{tmp_path}/süd.csv"], f"{tmp_path}/", f"{tmp_path}/*.csv"):
        tables["problem"]["data"] = data
        assert made(tables).agents == ("nord", "süd")


def test_regression_in_its_own_units(tables):
    tables["problem"] |= {"kind": "linear_regression", "target": "days", "drop": ["id", "ill"], "test_fraction": 0.25}
    tables["problem"]["bounds"]["days"] = [0, 10]
    del tables["problem"]["labels"]
    experiment = made(tables)
    assert experiment.schema.target_bounds == (0, 10)
    assert experiment.accuracy_test is None
    assert len(experiment.test[1]) == 15


def test_classification_of_two_labels_counts_from_0(tables):
    del tables["problem"]["intercept"]
    tables["problem"] |= {"kind": "classification", "model": "linear"}
    assert set(np.unique(made(tables).problem.arrays["targets"])) == {0, 1}


def test_persons_stay_on_one_side_of_the_split(tables):
    tables["problem"] |= {"person": "id", "records_per_person": 2, "drop": ["days"], "test_fraction": 0.3}
    experiment = made(tables)
    assert len(experiment.test[1]) == 3 * 3 * 2  # of ten persons in each hospital three, with two records each


def test_a_split_by_person_keeps_each_person_whole():
    from sottovoce.problems import split

    persons = [np.repeat(np.arange(10), 3), np.repeat(np.arange(10, 14), 5)]
    (learnt, _), (tested, _) = split(
        [part[:, None] for part in persons], persons, test_fraction=0.3, seed=1, persons=persons
    )
    assert not set(np.concatenate(learnt).ravel()) & set(tested.ravel())
    assert len(tested) == 3 * 3 + 1 * 5
    with pytest.raises(ConfigError, match="each record needs one"):
        split([np.zeros((2, 1))], [np.zeros(2)], test_fraction=0.5, seed=0, persons=[np.zeros(3)])


def test_invented_agents_are_called_so(tables):
    from sottovoce.experiments import protection_notes

    del tables["problem"]["owner"]
    tables["problem"]["drop"].append("hospital")
    tables["topology"]["agents"] = 4
    tables["noise"] = {"kind": "independent", "law": "gaussian", "std": 0.1}
    tables["privacy"] = {"unit": "record", "clip": 1.0, "clip_norm": "l2", "delta": 1e-5, "observers": ["eavesdropper"]}
    at_random = " ".join(protection_notes(made(tables)))
    assert "the agents are invented" in at_random
    assert "dealt out at random" in at_random
    tables["problem"]["partition"] = {"kind": "by_label", "labels_per_agent": 1}
    by_label = " ".join(protection_notes(made(tables)))
    assert "the agents are invented" in by_label
    assert "at random" not in by_label
    assert "which agent holds a record is the same in both worlds, whatever its label is" in by_label


def test_records_to_test_on_come_from_a_file_of_their_own(tables, tmp_path):
    later = tmp_path / "later.csv"
    later.write_text(patients(np.random.default_rng(2), 12, start=60), encoding="utf-8")
    tables["problem"] |= {"person": "id", "records_per_person": 2, "drop": ["days"], "test": str(later)}
    experiment = made(tables)
    assert len(experiment.test[1]) == 12
    assert experiment.problem.sizes.sum() == 60
    later.write_text(patients(np.random.default_rng(2), 12, start=50), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"5 person\(s\) have records to learn from, too"):
        made(tables)


def test_everything_wrong_with_a_file_is_said_at_once(tables, file):
    text = file.read_text().replace(",f,", ",x,").replace("yes", "maybe")
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        made(tables)
    assert "2 problems with the data" in str(caught.value)
    assert "'sex': not among the declared categories (30 cells" in str(caught.value)
    assert "maybe" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": None}, "labels of the target are not declared"),
        ({"labels": ["a", "b", "c"]}, "two labels apart"),
        ({"target": None}, "target, the column to predict, is missing"),
        ({"bounds": [0, 1]}, "bounds go by name"),
        ({"partition": {"kind": "iid"}}, "say who holds them"),
        ({"feature_noise": [0.1, 0.2]}, "does not apply to declared columns"),
        ({"test": "x.csv", "test_fraction": 0.1}, "keep one"),
        ({"data": "breast_cancer"}, "csv and .parquet"),
        ({"data": []}, "list of paths"),
        ({"data": 3}, "list of paths"),
        ({"person": "id"}, "given together"),
        ({"unknown": "guess"}, "unknown value"),
        ({"missing": {"créatinine": [1]}}, "text, a number"),
        ({"categories": {"sex": []}}, "list of values"),
        ({"booleans": ["age"]}, "declared in bounds and in booleans"),
        ({"kind": "linear_regression"}, "predicts none"),
    ],
)
def test_what_cannot_be_declared_is_refused_without_reading_the_file(tables, file, changes, message):
    file.unlink()
    tables["problem"] = {key: value for key, value in (tables["problem"] | changes).items() if value is not None}
    with pytest.raises(ConfigError, match=message):
        parse(tables, source="own.toml")


def test_the_schema_needs_no_file(tables, file):
    file.unlink()
    schema = parse(tables, source="own.toml").problem.declared_schema()
    assert schema.features[0] == "age"
    assert schema.classes == ("no", "yes")


def idx(path, array):
    header = bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
    content = header + array.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(content) if path.name.endswith(".gz") else content)


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_images_in_idx_files(tables, tmp_path, ending):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (12, 3, 3))
    path = tmp_path / f"few-images-idx3-ubyte{ending}"
    idx(path, images)
    idx(tmp_path / f"few-labels-idx1-ubyte{ending}", np.arange(12) % 3)
    tables["topology"]["agents"] = 4
    tables["problem"] = {"kind": "classification", "data": str(path), "bounds": [0, 255], "classes": 3, "ridge": 0.0}
    experiment = made(tables)
    assert experiment.problem.sizes.tolist() == [3] * 4
    assert experiment.problem.arrays["features"].shape == (4, 3, 9)
    assert np.abs(experiment.problem.arrays["features"]).max() <= 1


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "fewer follow"),
        (lambda path: path.write_bytes(path.read_bytes() + b"x"), "more follow"),
        (lambda path: path.write_bytes(b"\1\2\3\4"), "no IDX file"),
        (lambda path: path.write_bytes(bytes([0, 0, 8, 3]) + b"\xff" * 12), "are the limit"),
        (lambda path: idx(path, np.zeros((3, 2, 2))), "each image needs one"),
        (lambda path: path.with_name("few-labels-idx1-ubyte").unlink(), "no such file"),
    ],
)
def test_damaged_idx_files_are_refused(tmp_path, break_it, message):
    from sottovoce.problems import load

    path = tmp_path / "few-images-idx3-ubyte"
    idx(path, np.ones((2, 2, 2)))
    idx(tmp_path / "few-labels-idx1-ubyte", np.ones(2))
    assert load(path)[0].shape == (2, 4)
    break_it(path)
    with pytest.raises(ConfigError, match=message):
        load(path)


def test_names_of_agents_stand_beside_their_guarantees(tables):
    from sottovoce.experiments import guarantees, statement

    tables["noise"] = {"kind": "independent", "law": "gaussian", "std": 0.1}
    tables["privacy"] = {"unit": "record", "clip": 1.0, "clip_norm": "l2", "delta": 1e-5, "observers": ["eavesdropper"]}
    experiment = made(tables)
    stated = statement(experiment, guarantees(experiment))
    assert stated["agents"] == list(HOSPITALS)
    notes = " ".join(stated["notes"])
    assert "one row of the file, not one person" in notes
    assert "who the agents are, and which of them holds a record, is public" in notes


@pytest.mark.parametrize(("delta", "said"), [(0.02, True), (1e-5, False)])
def test_a_delta_that_would_let_a_record_be_given_away_is_called_so(tables, delta, said):
    from sottovoce.experiments import guarantees, statement

    tables["noise"] = {"kind": "independent", "law": "gaussian", "std": 0.1}
    tables["privacy"] = {
        "unit": "record",
        "clip": 1.0,
        "clip_norm": "l2",
        "delta": delta,
        "observers": ["eavesdropper"],
    }
    experiment = made(tables)  # 60 records
    notes = statement(experiment, guarantees(experiment))["notes"]
    assert any("delta is not below 1 / records" in note for note in notes) is said
