"""`sottovoce design`: what it prints and writes, and that everything fits a terminal."""

import json
import re
from pathlib import Path

import pytest

import sottovoce as sv

FILE = """
[experiment]
name = "six"
rounds = 30
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
[design]
targets = { "eavesdropper+final_model" = 1.0, "any_coalition:1" = 1.1, "coalition:1,2" = 3.0 }
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "six.toml"
    path.write_text(FILE)
    return path


def test_the_table_has_every_scheme_and_observer_in_eighty_columns_and_the_limits_below(sottovoce, file):
    result = sottovoce("design", file)
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    for word in ("independent", "best gopa", "designed", "central bound", "any agent", "coalition", "gap", "largest"):
        assert word in result.stdout
    said = " ".join(result.stdout.split())
    for limit in ("sparse networks", "costs accuracy", "follow the protocol", "guarantees hold all the same"):
        assert limit in said
    assert "epsilon at delta = 1e-05" in said


def test_the_folder_has_a_design_that_is_read_back_and_pictures(sottovoce, file, tmp_path):
    result = sottovoce("design", file, "design.frontier=[0.0, 10.0]", "--out", tmp_path / "out", "--json")
    assert result.exit_code == 0, result.stderr
    stated = json.loads(result.stdout, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    names = {path.name for path in (tmp_path / "out").iterdir()}
    pictures = {f"{name}.{kind}" for name in ("gains", "error", "network", "frontier") for kind in ("png", "svg")}
    assert names == {"design.json", *pictures}
    assert {path.rpartition("/")[2] for path in stated["files"]} == names
    read = sv.load(tmp_path / "out" / "design.json")
    designed = next(row for row in stated["schemes"] if row["scheme"] == "designed")
    assert designed["error"] == read.error
    assert max(designed["mu"][name] / mu for name, mu in stated["targets"].items()) == pytest.approx(1.0, rel=1e-9)
    assert [point["weight"] for point in stated["frontier"]] == [0.0, 10.0]
    for name in ("gains", "error", "network", "frontier"):
        assert "mu = 1" in (tmp_path / "out" / f"{name}.svg").read_text()


def test_a_file_with_a_designed_noise_is_designed_accounted_and_run(sottovoce, file):
    """The same file serves before and after: what [noise] names need not exist while it is made."""
    file.write_text(FILE + '[noise]\nkind = "designed"\nfile = "made/design.json"\n')
    refused = sottovoce("account", file, "privacy.observers=['eavesdropper']")
    assert refused.exit_code == 2
    assert "made/design.json" in refused.stderr
    one = 'design.targets={"eavesdropper+final_model"=1.0}'
    assert sottovoce("design", file, one, "--out", "made", "--quiet").exit_code == 0
    stated = json.loads(sottovoce("account", file, "privacy.observers=['eavesdropper+final_model']", "--json").stdout)
    assert stated["guarantees"][0]["mu"] == pytest.approx(1.0, rel=1e-9)
    ran = sottovoce("run", file, "privacy.observers=['eavesdropper+final_model']", "--out", "ran", "--json")
    assert ran.exit_code == 0, ran.stderr


def test_targets_that_no_noise_keeps_are_refused_with_a_sentence(sottovoce, file):
    result = sottovoce("design", file, "design.cap=1e-6", "--quiet")
    assert result.exit_code == 2
    assert result.stderr.startswith("sottovoce: ")
    assert "cap" in result.stderr


def test_the_page_prints_what_the_command_prints(sottovoce, tmp_path):
    """docs/noise-design.md: its file is typed, and every row of its table is found in the answer."""
    page = (Path(__file__).parents[2] / "docs" / "noise-design.md").read_text()
    written, *_ = re.findall(r"```toml\n(.*?)```", page, flags=re.DOTALL)
    (tmp_path / "hospitals.toml").write_text(written)
    result = sottovoce("design", "hospitals.toml", "--quiet")
    assert result.exit_code == 0, result.stderr
    (shown,) = re.findall(r"```text\n(.*?)```", page, flags=re.DOTALL)
    printed = [line.rstrip() for line in result.stdout.splitlines()]
    assert [line.rstrip() for line in shown.splitlines()] == printed[: len(shown.splitlines())]
    robust = 'design.targets={"eavesdropper+final_model"={epsilon=4.0}, "eavesdropper+final_model+any_coalition:1"={epsilon=4.0}}'
    for changed, gain in ((robust, 2.27), ("design.keys=joint", 3.03)):
        answer = json.loads(sottovoce("design", "hospitals.toml", changed, "--json").stdout)
        found = next(row["gain"] for row in answer["schemes"] if row["scheme"] == "designed")
        assert f"gain is {gain}" in page
        assert found == pytest.approx(gain, abs=0.005)
