"""What used to end in a traceback, in silence or in a half-written folder is refused in one paragraph, and leaves nothing behind."""

import json
import os
import socket
from pathlib import Path

import pytest

from sottovoce.experiments import run as running

LOGISTIC = """
[experiment]
name = "small"
rounds = 3
[topology]
kind = "ring"
agents = 3
[problem]
kind = "logistic_regression"
data = "data.csv"
ridge = 0.1
[algorithm]
kind = "atc"
step_size = 0.1
[noise]
kind = "none"
"""
ROWS = "a,b,label\n" + "".join(f"{k}.5,{-k}.25,{1 if k % 2 else -1}\n" for k in range(12))


def refused(result, *words: str) -> None:
    assert result.exit_code == 2, (result.exit_code, result.exception, result.stderr)
    assert result.stderr.startswith("sottovoce: ")
    assert "\n\n" not in result.stderr
    for word in words:
        assert word in result.stderr


def below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_cell_that_overflows_is_refused_and_leaves_no_folder(sottovoce, tmp_path):
    (tmp_path / "run.toml").write_text(LOGISTIC)
    (tmp_path / "data.csv").write_text(ROWS.replace("5.5", "1e308"))
    before = below(tmp_path)
    refused(sottovoce("run", "run.toml"), "feature 0 of record 5", "bounds")
    refused(sottovoce("gradients", "run.toml"), "above 1e+15 in size")
    assert below(tmp_path) == before


def test_bounds_make_an_overflowing_cell_usable(sottovoce, tmp_path):
    (tmp_path / "run.toml").write_text(LOGISTIC)
    (tmp_path / "data.csv").write_text(ROWS.replace("5.5", "1e308"))
    assert sottovoce("run", "run.toml", "problem.bounds=[-20, 20]").exit_code == 0


@pytest.mark.parametrize("failure", [ValueError("of some library"), KeyboardInterrupt(), MemoryError()])
def test_run_that_fails_before_its_first_round_leaves_nothing(sottovoce, small, tmp_path, monkeypatch, failure):
    before = below(tmp_path)

    def broken(*_, **__):
        raise failure

    monkeypatch.setattr(running, "chunks", broken)
    for out in ((), ("--out", "deep/er/out")):
        assert sottovoce("run", small, *out).exit_code not in (0, 2)
        assert below(tmp_path) == before


def test_run_that_diverges_after_a_checkpoint_leaves_nothing(sottovoce, small, tmp_path):
    before = below(tmp_path)
    refused(
        sottovoce("run", small, "algorithm.step_size=1e9", "experiment.chunk=1", "--json"),
        "left the finite numbers in round",
        "smaller step",
    )
    assert below(tmp_path) == before


def test_refused_folder_gets_no_lock(sottovoce, small, tmp_path):
    assert sottovoce("run", small, "--out", "out").exit_code == 0
    (tmp_path / "out" / "run.lock").unlink()
    refused(sottovoce("run", small, "noise.std=0.2", "--out", "out"), "another configuration")
    assert not (tmp_path / "out" / "run.lock").exists()


@pytest.mark.parametrize("command", ["run", "pairwise", "audit", "demo"])
def test_folder_whose_name_is_too_long_is_refused(sottovoce, small, tmp_path, command):
    before = below(tmp_path)
    needed = {"demo": (), "audit": (small, "--pairs", 20, "--confidence", 0.9, "--observer", "eavesdropper", *PRIVACY)}
    result = sottovoce(command, *needed.get(command, (small, *PRIVACY)), "--out", "x" * 300)
    refused(result, "cannot be a folder of results (File name too long)")
    assert len(result.stderr) < 300
    assert below(tmp_path) == before


PRIVACY = ("privacy={unit='record', clip=1.0, clip_norm='l2', delta=1e-5, observers=['eavesdropper']}",)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("noise={kind='gopa', law='gaussian', std=1.0, pairwise_std=1e300}", "[noise] pairwise_std: input should be less than"),
        ("noise.std=1e-300", "[noise] std: input should be at least 1e-30"),
        ("noise.extra={a=1}", "[noise] extra: unknown key"),
        ("topology.extra={kind='ring'}", "[topology] extra: unknown key"),
        ("problem.extra={a={b=1}}", "[problem] extra: unknown key"),
        ("experiment.name=" + "[" * 3000, "is no TOML value"),
        (".".join("a" * 3000) + "=1", "levels within each other"),
        ("experiment.seed=" + "9" * 5000, "is no TOML value"),
    ],
)  # fmt: skip
def test_override_is_refused_where_it_stands(sottovoce, small, override, words):
    result = sottovoce("run", small, override)
    refused(result, words)
    assert len(result.stderr) < 1000


def test_file_nested_beyond_all_measure_is_refused(sottovoce, tmp_path):
    for text in (
        "a = " + "[" * 3000 + "]" * 3000,
        "a = " + "{b=" * 3000 + "1" + "}" * 3000,
        ".".join("a" * 3000) + " = 1",
    ):
        (tmp_path / "deep.toml").write_text(text)
        for command in ("run", "compare"):
            refused(
                sottovoce(command, "deep.toml"), "deep.toml: tables and lists lie more than 12 levels within each other"
            )


@pytest.mark.parametrize("ending", ["toml", "csv", "npz", "libsvm"])
@pytest.mark.parametrize("kind", ["pipe", "folder", "socket", "device"])
def test_what_is_no_plain_file_is_refused_at_once(sottovoce, tmp_path, ending, kind):
    path = Path(f"data.{ending}")
    (tmp_path / "run.toml").write_text(LOGISTIC.replace("data.csv", str(path)))
    held = socket.socket(socket.AF_UNIX)
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "socket":
            held.bind(str(path))
        case "device":
            path.symlink_to("/dev/zero")
    with held:
        for command in ("run", "compare") if ending == "toml" else ("run",):
            refused(
                sottovoce(command, path if ending == "toml" else "run.toml"),
                f"{path}: this is a {kind}; a plain file is needed",
            )


def test_new_does_not_write_into_a_pipe(sottovoce, tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    refused(sottovoce("new", "pipe.toml", "--force"), "pipe.toml exists and is no plain file")


def test_names_cannot_write_to_the_terminal(sottovoce, tmp_path, small):
    small.write_text(small.read_text() + '"\\u001b[31m\\n\\nred" = 1\n')
    result = sottovoce("run", small)
    refused(result, r"\x1b[31m\n\nred: unknown key")


@pytest.mark.parametrize("arguments", [("demo", "\u202e"), ("run", "--\u202e"), ("--\u202e",), ("\u202e",)])
def test_words_of_the_command_line_cannot_write_to_the_terminal(sottovoce, arguments):
    result = sottovoce(*arguments)
    assert result.exit_code == 2
    assert "\u202e" not in result.stderr
    assert "u202e" in result.stderr


def test_json_before_the_command_is_not_ignored(sottovoce):
    refused(sottovoce("--json", "list"), "--json stands before 'list'", "Write it after the command")


def test_long_values_are_cut_in_messages(sottovoce, small):
    result = sottovoce(
        "run", small, f"noise.law={'x' * 5000}", f"topology.kind={'y' * 5000}", f"experiment.record={'z' * 5000}"
    )
    refused(result, "xxx...", "yyy...", "zzz...")
    assert len(result.stderr) < 1500


@pytest.mark.parametrize("accepted", ["nan", "inf", "-inf", "0", "-1", "1", "1e300"])
def test_tolerance_that_accepts_everything_or_nothing_is_refused(sottovoce, accepted):
    refused(sottovoce("reproduce", "walking", "--accept", accepted), "a relative tolerance between 0 and 1")


WALK = """
[reproduction]
title = "A token [small]"
document = "nobody"
[[privacy_study]]
kind = "walk"
name = "agents"
agents = [5, 10]
hops_per_agent = 4
epsilon = 0.1
delta = 1e-6
[[claim]]
id = "gain"
text = "Proven is [much] below local."
study = "agents"
measure = "epsilon"
check = { kind = "ratio", of = "proven, by gaps", to = "local, exact", at_most = 2.0 }
"""


@pytest.fixture
def reproductions(tmp_path) -> Path:
    for name in ("first", "second"):
        (tmp_path / "reproductions" / name).mkdir(parents=True)
        (tmp_path / "reproductions" / name / "config.toml").write_text(WALK)
    return tmp_path / "reproductions"


def test_reproduce_all_runs_all(sottovoce, reproductions, tmp_path):
    result = sottovoce("reproduce", "all", "--json")
    assert result.exit_code == 0, result.stderr
    assert [each["name"] for each in json.loads(result.stdout)["reproductions"]] == ["first", "second"]
    assert (tmp_path / "runs" / "reproductions" / "second" / "result.json").exists()


def test_departed_claim_says_where_it_holds_and_where_it_should(sottovoce, reproductions):
    assert sottovoce("reproduce", "first", "--accept", "0.05").exit_code == 0
    path = reproductions / "first" / "expected.json"
    expected = json.loads(path.read_text())
    expected["verdicts"]["gain"] = {"verdict": "holds when", "where": ["5", "7"]}
    path.write_text(json.dumps(expected))
    result = sottovoce("reproduce", "first")
    assert result.exit_code == 1
    assert "claim 'gain': holds; expected: holds at 5, 7" in result.stdout


def test_brackets_survive_in_tables(sottovoce, reproductions):
    assert "A token [small]" in sottovoce("reproduce", "list").stdout
    assert "[much]" in sottovoce("reproduce", "first").stdout
    assert "on gradients [" in " ".join(sottovoce("list").stdout.split())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "not valid JSON"),
        (b"[]", "input should be"),
        (b'{"tolerance": NaN, "cells": {}, "verdicts": {}}', "tolerance"),
        (b'{"tolerance": 0.1, "cells": 3, "verdicts": {}}', "cells"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_damaged_expected_numbers_are_refused_before_the_work(sottovoce, reproductions, tmp_path, content, words):
    (reproductions / "first" / "expected.json").write_bytes(content)
    before = below(tmp_path)
    refused(sottovoce("reproduce", "first"), "expected.json", words)
    (reproductions / "second" / "expected.json").write_bytes(content)
    (reproductions / "first" / "expected.json").unlink()
    refused(sottovoce("reproduce", "all"), "second/expected.json", words)
    assert below(tmp_path) == {name.replace("first/expected", "second/expected") for name in before}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[[privacy_study]]", "[privacy_study]", "privacy_study is"),
        ('name = "agents"', "name = {}", "name"),
        ("agents = [5, 10]", "agents = 5", "agents"),
        ('id = "gain"', "", "id: this key is missing"),
        ('title = "A token [small]"', "title = 3", "title"),
    ],
)
def test_malformed_reproduction_is_one_paragraph(sottovoce, reproductions, old, new, words):
    (reproductions / "first" / "config.toml").write_text(WALK.replace(old, new))
    result = sottovoce("reproduce", "first")
    refused(result, words)
    assert "pydantic" not in result.stderr


@pytest.mark.parametrize("label", ["$x_$", "\\u001b[31m", "", "x" * 101])
def test_label_that_no_figure_can_show_is_refused_before_the_work(sottovoce, small, tmp_path, label):
    compared = small.read_text().partition("[noise]")[0] + PRIVACY_SECTION
    small.write_text(f'{compared}[compare]\nepsilons = [1.0]\n[compare.schemes]\n"{label}" = {{ kind = "none" }}\n')
    before = below(tmp_path)
    refused(sottovoce("compare", small), "[compare] schemes", "cannot stand in a table and a figure")
    assert below(tmp_path) == before


PRIVACY_SECTION = """
[privacy]
unit = "record"
clip = 1.0
clip_norm = "l2"
delta = 1e-5
observers = ["eavesdropper"]
"""


@pytest.mark.parametrize(
    "content", ["{", "[]", "{}", '{"format_version": 1}', '{"format_version": 1, "status": 3, "config": 1}']
)
def test_damaged_header_of_a_run_is_refused(sottovoce, small, tmp_path, content):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "run.json").write_text(content)
    refused(sottovoce("run", small, "--out", "out"), "out is damaged")
    assert below(tmp_path / "out") == {"run.json"}
