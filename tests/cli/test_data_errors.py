"""A data file that cannot be used ends a run with exit code 2, one line that names file and row, and no folder."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

CONFIG = """
[experiment]
name = "own-data"
rounds = 3
[topology]
kind = "ring"
agents = 4
[problem]
kind = "logistic_regression"
data = "DATA"
ridge = 0.01
[algorithm]
kind = "atc"
step_size = 0.1
[noise]
kind = "none"
"""
GOOD = "age,dose,ill\n" + "".join(f"{i / 40},{i % 5},{i % 2}\n" for i in range(40))

BAD = {
    "ragged.csv": (GOOD + "1,2\n", "ragged.csv: too few or too many cells (1 row, row 42)"),
    "text.csv": (
        GOOD.replace("\n0.25,0,", "\n0.25,high,"),
        "text.csv: column 'dose': text where a number is needed (1 cell, row 12)",
    ),
    "empty.csv": ("", "empty.csv, row 1: the file is empty"),
    "headless.csv": ("1,2,0\n2,3,1\n", "headless.csv, row 1: the header is missing"),
    "nan.csv": (GOOD + "nan,1,0\n", "nan.csv: column 'age': not finite (1 cell, row 42)"),
    "order.libsvm": ("1 1:1\n0 2:1 1:1\n", "order.libsvm, row 2: index 1 follows 2"),
    "zero.svm": ("1 0:1\n", "zero.svm, row 1: index 0 is below 1"),
    "colon.txt": ("1 1:1\n0 1\n", "colon.txt, row 2: '1' has no colon"),
    "labels.txt": ("1 1:1\n1:1 2:1\n", "labels.txt, row 2: the label is missing"),
    "text.npz": ("no archive", "text.npz: not a NumPy archive"),
    "table.xls": ("", "table.xls: files that end in '.xls' cannot be read"),
}


def configured(folder: Path, data: str) -> Path:
    path = folder / "own.toml"
    path.write_text(CONFIG.replace("DATA", data))
    return path


def assert_one_line(message: str, expected: str) -> None:
    assert expected in message
    assert message.count("\n") == 1
    assert "Traceback" not in message


@pytest.mark.parametrize("name", BAD)
def test_bad_file_gives_one_line_and_leaves_nothing(sottovoce, tmp_path, name):
    content, expected = BAD[name]
    (tmp_path / name).write_text(content)
    config = configured(tmp_path, name)
    before = sorted(tmp_path.rglob("*"))
    result = sottovoce("run", config)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert_one_line(result.stderr, expected)
    assert sorted(tmp_path.rglob("*")) == before


def test_missing_file_and_missing_column_give_one_line(sottovoce, tmp_path):
    (tmp_path / "good.csv").write_text(GOOD)
    config = configured(tmp_path, "good.csv")
    for override, expected in (
        ("problem.data=absent.csv", "absent.csv: there is no such file"),
        ("problem.target=illl", "good.csv, row 1: no column is named 'illl'; did you mean 'ill'?"),
    ):
        result = sottovoce("run", config, override, "--out", "out")
        assert result.exit_code == 2
        assert_one_line(result.stderr, expected)
        assert not (tmp_path / "out").exists()


def test_objects_in_an_archive_are_never_loaded(sottovoce, tmp_path):
    np.savez(tmp_path / "own.npz", X=np.ones((4, 2)), y=np.array([{}, 1, 2, 3], dtype=object))
    result = sottovoce("run", configured(tmp_path, "own.npz"))
    assert result.exit_code == 2
    assert_one_line(result.stderr, "array 'y' cannot be read")


def test_good_file_is_learnt_from(sottovoce, tmp_path):
    (tmp_path / "good.csv").write_text(GOOD)
    overrides = ("problem.bounds=[[0,1],[0,4]]", "problem.intercept=true", "problem.test_fraction=0.2")
    result = sottovoce("run", configured(tmp_path, "good.csv"), *overrides, "--json")
    assert result.exit_code == 0, result.stderr
    folder = tmp_path / json.loads(result.stdout)["folder"]
    description = json.loads((folder / "run.json").read_text())["description"]
    assert description["problem"]["dimension"] == 3
    assert description["test_records"] == 8


def test_installed_command_refuses_a_bad_file_like_this(tmp_path):
    (tmp_path / "text.csv").write_text(BAD["text.csv"][0])
    config = configured(tmp_path, "text.csv")
    command = Path(sys.executable).with_name("sottovoce")
    done = subprocess.run([command, "run", config.name], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "sottovoce: text.csv: column 'dose': text where a number is needed (1 cell, row 12); declare what it means (categories, booleans, "
        "drop), or write numbers.\n"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own.toml", "text.csv"]
