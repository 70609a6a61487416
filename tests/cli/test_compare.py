"""`sottovoce compare` prints tables and a verdict, writes what it found, and refuses what it cannot compare."""

import csv
import json
import math

import pytest

FILE = """
[experiment]
name = "tiny"
rounds = 6
repeats = 4
seed = 2
[topology]
kind = "complete"
agents = 4
[problem]
kind = "linear_regression"
data = "synthetic"
samples = 20
dimension = 2
ridge = 0.1
[algorithm]
kind = "atc"
step_size = 0.1
[privacy]
unit = "record"
clip = 1.0
clip_norm = "l2"
delta = 1e-5
losses = { beta = 3.0, nu = 0.2 }
[compare]
epsilons = [1.0, 8.0]
observers = ["eavesdropper", "eavesdropper+final_model"]
algorithms = ["atc", "cta"]
[compare.schemes]
"graph-homomorphic" = { kind = "graph_homomorphic", law = "gaussian" }
"independent" = { kind = "independent", law = "gaussian" }
"pairwise" = { kind = "gopa", law = "gaussian", pairwise_std = 3.0 }
"l2-Laplace" = { kind = "independent", law = "l2_laplace" }
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(FILE)
    return path


def changed(file, *changes):
    text = FILE
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    file.write_text(text)
    return file


def test_tables_verdicts_and_files(sottovoce, file, tmp_path):
    result = sottovoce("compare", file, "--out", "found")
    assert result.exit_code == 0, result.stderr
    text = " ".join(result.stdout.split())
    for part in (
        "eavesdropper: squared distance of the common model from the best one (msd_centroid)",
        "eavesdropper + final model: ",
        "Who wins at equal epsilon:",
    ):
        assert part in text
    assert "No guarantee for graph-homomorphic (atc): The noise cancels in the centroid" in text
    assert "enforced by clipping" in text
    assert "Simulated: anyone can draw this noise again from seed 2, so the models must not be released." in text
    assert "its 4 repeats would be 4 releases, with epsilon up to" in text
    notes = result.stdout[result.stdout.index("Who wins") :].splitlines()
    assert max(map(len, notes)) <= 80
    written = {path.name for path in (tmp_path / "found").iterdir()}
    figures = {
        f"frontier-msd-{name}-{algorithm}.{kind}"
        for name in ("centroid", "average")
        for algorithm in ("atc", "cta")
        for kind in ("png", "svg")
    }
    assert written == {"comparison.json", "comparison.csv"} | figures


def test_json_and_csv_agree_and_every_calibrated_row_has_its_epsilon(sottovoce, file, tmp_path):
    result = sottovoce("compare", file, "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    folder = tmp_path / "runs" / "compare-tiny"
    assert json.loads((folder / "comparison.json").read_text()) == found["comparison"]
    with (folder / "comparison.csv").open() as file_:
        lines = list(csv.DictReader(file_))
    rows = [*found["comparison"]["rows"], *found["comparison"]["references"]]
    assert len(lines) == len(rows) == 2 * 2 * 4 * 2 + 2
    for line, row in zip(lines, rows, strict=True):
        assert (line["algorithm"], line["scheme"]) == (row["algorithm"], row["scheme"])
        assert float(line["epsilon"]) == (math.inf if row["epsilon"] is None else row["epsilon"])
        value = row["measures"].get("msd_average", {}).get("value")
        assert line["msd_average value"] == ("" if value is None else str(value))
    gaussian = {row["mu"] for row in rows if row["law"] == "Gaussian" and row["epsilon"] == 8.0}
    assert len(gaussian) == 1  # the same guarantee for all
    assert {winner["epsilon"] for winner in found["winners"]} == {1.0, 8.0}
    assert len(found["winners"]) == 2 * 2 * 2


def test_values_can_be_replaced_and_the_algorithm_and_observers_left_out(sottovoce, file):
    changed(
        file,
        ('observers = ["eavesdropper", "eavesdropper+final_model"]\nalgorithms = ["atc", "cta"]\n', ""),
        ("delta = 1e-5", 'delta = 1e-5\nobservers = ["eavesdropper"]'),
    )
    result = sottovoce("compare", file, "compare.epsilons=[2.0]", "compare.measures=[loss]", "--json")
    assert result.exit_code == 2  # a bare word in a list is no TOML
    result = sottovoce(
        "compare", file, "compare.epsilons=[2.0]", 'compare.measures=["loss"]', "experiment.rounds=3", "--json"
    )
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)["comparison"]
    assert (found["epsilons"], found["measures"], found["rounds"], found["observers"]) == (
        [2.0],
        ["loss"],
        3,
        ["eavesdropper"],
    )
    assert list(found["algorithms"]) == ["atc"]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("epsilons = [1.0, 8.0]", "epsilon = [1.0]", "epsilon: unknown key; did you mean 'epsilons'?"),
        ("epsilons = [1.0, 8.0]", "", "epsilons: this key is missing"),
        ("epsilons = [1.0, 8.0]", "epsilons = [0.0]", "epsilons.0: input should be greater than 0"),
        ("[1.0, 8.0]", '["one"]', "valid number"),
        ("eavesdropper+final_model", "eavesdroper", "did you mean 'eavesdropper'?"),
        ('["atc", "cta"]', '["atc", "sgd"]', "algorithms"),
        ("[compare]\n", "[compare]\ntail = 0\n", "tail: input should be greater than or equal to 1"),
        ("[compare]\n", "[compare]\ntail = 7\n", "only 6 rounds"),
        ('law = "gaussian" }\n"indep', 'law = "gaussian", std = 0.1 }\n"indep', "size of the noise follows from epsilons"),
        ('"graph_homomorphic"', '"graph_homomorfic"', "did you mean 'graph_homomorphic'?"),
        ("[privacy]\n", '[noise]\nkind = "none"\n[privacy]\n', "[noise]: the schemes to compare stand in [compare]"),
        ("delta = 1e-5", "", "[privacy] delta: this key is missing"),
        ("delta = 1e-5", 'delta = 1e-5\nparticipation = "once"', "[privacy] participation"),
        ("delta = 1e-5", 'delta = 1e-5\nbudget = { epsilon = 1.0, observer = "eavesdropper" }', "[privacy] budget"),
        ('observers = ["eavesdropper", "eavesdropper+final_model"]', "", "nobody looks"),
        ("repeats = 4", "repeats = 1", "no standard error"),
        ("agents = 4", "agent = 4", "did you mean 'agents'?"),
        ("[compare]\n", "[compar]\n", "[compare] epsilons: this key is missing"),
    ],
)  # fmt: skip
def test_wrong_files_are_refused_in_one_paragraph(sottovoce, file, before, after, message):
    result = sottovoce("compare", changed(file, (before, after)))
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


def test_a_file_without_privacy_or_that_is_no_file_is_refused(sottovoce, file):
    start, end = FILE.index("[privacy]"), FILE.index("[compare]")
    result = sottovoce("compare", changed(file, (FILE[start:end], "")))
    assert result.exit_code == 2
    assert "[privacy]: this section is missing" in result.stderr
    assert sottovoce("compare", "absent.toml").exit_code == 2
