"""Mutated files and command lines are answered in order; `make fuzz` plays thousands more of the same cases."""

from collections import Counter
from pathlib import Path

import pytest

from fuzz import cases
from fuzz.bases import COMPARISON, CONFIGURATIONS, DESIGN, REPRODUCTIONS, data_files
from fuzz.data_mutations import UNPICKLED
from fuzz.judge import LONGEST, SECONDS, Answer, Case, complaints, play
from fuzz.toml_text import toml_text
from sottovoce.cli import app

SEED, CASES = 0, 2000  # those of `make fuzz`
CASE = Case(family="none", arguments=("run", "config.toml"))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(0, CASES, 13)[:150])
def test_mutated_input_is_answered_in_order(number, tmp_path):
    chosen = cases.case(SEED, number)
    answer = play(chosen, tmp_path / "case")
    assert not complaints(chosen, answer), f"python -m fuzz --seed {SEED} --case {number}"


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_what_is_mutated_was_sound(name, tmp_path):
    files = {"config.toml": toml_text(CONFIGURATIONS[name]).encode(), **data_files()}
    command = "account" if name == "promised" else "run"
    chosen = Case(family="sound", arguments=(command, "config.toml"), files=files)
    answer = play(chosen, tmp_path / "case")
    assert answer.code == 0, answer.stderr
    assert not complaints(chosen, answer)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [("compare", "config.toml"), ("design", "design.toml"), *(("reproduce", name) for name in REPRODUCTIONS)],
)
def test_comparison_and_reproductions_were_sound(arguments, tmp_path):
    files = {f"reproductions/{name}/config.toml": toml_text(table).encode() for name, table in REPRODUCTIONS.items()}
    files["config.toml"], files["design.toml"] = toml_text(COMPARISON).encode(), toml_text(DESIGN).encode()
    chosen = Case(family="sound", arguments=arguments, files=files)
    answer = play(chosen, tmp_path / "case")
    assert answer.code == 0, answer.stderr
    assert not complaints(chosen, answer)


@pytest.mark.slow
def test_every_command_is_played_and_fifty_cases_have_a_process_of_their_own():
    made = [cases.case(SEED, number) for number in range(CASES)]
    words = Counter(word for each in made for word in each.arguments[:2])
    commands = {command.name for command in app.registered_commands}
    assert all(words[command] >= 10 for command in commands), words
    assert sum(each.separate for each in made) >= 45
    assert {each.family for each in made} == {name for name, (_, weight) in cases.FAMILIES.items() if weight} | {
        "design"
    }


def test_same_seed_gives_the_same_cases():
    assert [cases.case(3, number) for number in range(40)] == [cases.case(3, number) for number in range(40)]
    assert [cases.case(3, number) for number in range(40)] != [cases.case(4, number) for number in range(40)]


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        ({"code": None, "failure": "no answer"}, "no answer"),
        ({"code": 1, "failure": "KeyError: 'kind'"}, "KeyError"),
        ({"code": -9}, "left with -9"),
        ({"code": 4}, "left with 4"),
        ({"stderr": "Traceback (most recent call last):"}, "traceback"),
        ({"warned": ("RuntimeWarning in a.py: overflow",)}, "overflow"),
        ({"seconds": 100 * SECONDS}, "took 3000 s"),
        ({"changed": ("out", "out/run.lock")}, "left behind: out, out/run.lock"),
        ({"changed": (UNPICKLED,)}, "a pickle was loaded"),
        ({"code": 0, "changed": ("a.part",), "unfinished": ("a.part",)}, "unfinished: a.part"),
        ({"stderr": "sottovoce: one.\n\nTwo."}, "not one paragraph"),
        ({"stderr": "sottovoce: \x1b[31m"}, r"\x1b"),
        ({"stderr": "x" * (LONGEST + 1)}, f"{LONGEST + 1} characters"),
        ({"stderr": ""}, "no word"),
    ],
)
def test_the_judge_sees_what_is_wrong(answer, word):
    sound = {"code": 2, "stdout": "", "stderr": "sottovoce: wrong.\n", "seconds": 0.1}
    assert complaints(CASE, Answer(**sound)) == []
    assert any(word in each for each in complaints(CASE, Answer(**{**sound, **answer})))


def test_the_judge_reads_json():
    case = Case(family="none", arguments=("run", "config.toml", "--json"))
    assert complaints(case, Answer(code=0, stdout="{}", stderr="", seconds=0.1)) == []
    for text in ("", "{", '{"a": NaN}', "text"):
        assert complaints(case, Answer(code=0, stdout=text, stderr="", seconds=0.1))


def test_the_player_sees_files_that_appear_and_runs_that_did_not_finish(tmp_path, monkeypatch):
    from sottovoce.cli import new as command

    def half(*_, **__):
        Path("out").mkdir()
        Path("out/run.json").write_text('{"status": "running"}')
        Path("out/x.part").write_text("")
        raise ValueError("of some library")

    monkeypatch.setattr(command.__globals__["show"].__globals__["typer"], "echo", half)
    answer = play(Case(family="none", arguments=("new", "a.toml", "--json")), tmp_path / "case")
    assert set(answer.changed) == {"a.toml", "out", "out/run.json", "out/x.part"}
    assert set(answer.unfinished) == {"out/run.json", "out/x.part"}
    assert "ValueError" in complaints(CASE, answer)[0]
