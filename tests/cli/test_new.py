"""`sottovoce new --data`: what it writes, what it says to the owner alone, and what it refuses."""

import json
import tomllib

import pytest

PATIENTS = "id,hospital,âge,sex,readmitted\n" + "".join(
    f"P{row:03d},{'Bâle' if row % 2 else 'Bern'},{'' if row == 3 else 31 + row},{'fm'[row % 2]},{('never', 'again')[row % 3 == 0]}\n"
    for row in range(24)
)


@pytest.fixture
def patients(tmp_path):
    (tmp_path / "patients.csv").write_text(PATIENTS, encoding="utf-8")
    return ("--data", "patients.csv", "--target", "readmitted", "--owner", "hospital")


def test_a_file_for_own_data_is_written_with_names_and_kinds_alone(sottovoce, patients, tmp_path):
    result = sottovoce("new", *patients, "mine.toml")
    assert result.exit_code == 0, result.stderr
    said = " ".join(result.stdout.split())
    assert "complete its 7 lines that say FILL IN" in said
    assert "For the data's owner only: there are empty cells in âge." in said
    text = (tmp_path / "mine.toml").read_text(encoding="utf-8")
    assert "âge" in tomllib.loads(text)["problem"]["bounds"]
    assert not [word for word in ("Bâle", "Bern", "never", "again", "P001", "54") if word in text]


def test_json_says_nothing_about_cells(sottovoce, patients):
    stated = json.loads(sottovoce("new", *patients, "mine.toml", "--json").stdout)
    kinds = {"id": "identifier", "hospital": "category", "âge": "number", "sex": "category", "readmitted": "category"}
    assert stated == {"file": "mine.toml", "lines_to_complete": 7, "columns": kinds}


def test_values_are_shown_to_the_owner_and_nothing_is_written(sottovoce, patients, tmp_path):
    result = sottovoce("new", *patients, "mine.toml", "--show-values")
    assert result.exit_code == 0
    for shown in ("31 to 54", "again, never", "Bern, Bâle", "24 values", "is a leak", "for the data's owner only"):
        assert shown in " ".join(result.stdout.split())
    assert [path.name for path in tmp_path.iterdir()] == ["patients.csv"]
    assert "has no JSON" in sottovoce("new", *patients, "--show-values", "--json").stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--target", "readmited"), "did you mean 'readmitted'?"),
        (("--owner", "hopital"), "did you mean 'hospital'?"),
        (("--person", "ID"), "no column has this name"),
        (("--template", "gossip"), "--data and --template"),
        (("--kind", "forest"), "choose one of 'logistic_regression'"),
        (("--data", "absent.csv"), "no such file"),
        (("--data", "patients.csv"), "named twice"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_nothing_is_written(sottovoce, patients, tmp_path, arguments, expected):
    result = sottovoce("new", *patients, *arguments)
    assert result.exit_code == 2
    assert expected in " ".join(result.stderr.split())
    assert not (tmp_path / "experiment.toml").exists()


def test_own_files_need_a_target_and_options_of_own_files_need_those(sottovoce, patients):
    assert "needs --target" in sottovoce("new", "--data", "patients.csv").stderr
    assert "name these by --data" in sottovoce("new", "--owner", "hospital").stderr


def test_an_existing_file_is_not_overwritten(sottovoce, patients, tmp_path):
    (tmp_path / "mine.toml").write_text("precious")
    assert "--force" in sottovoce("new", *patients, "mine.toml").stderr
    assert (tmp_path / "mine.toml").read_text() == "precious"
