"""Every command shows by example how it is used, can be told to be quiet, and is completed by the shell."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from cli.test_privacy_commands import PRIVACY
from sottovoce.cli import app
from sottovoce.cli.examples import EXAMPLES
from sottovoce.deployment.identity import new_identity


def _commands() -> list[str]:
    """All commands, those of a group with its name before their own."""
    top = typer.main.get_command(app).commands
    return sorted(
        f"{name} {inner}" if inner else name for name, each in top.items() for inner in getattr(each, "commands", ("",))
    )


COMMANDS = _commands()
MINUTES = {"sottovoce reproduce cyffers2022-walk"}  # a reproduction has tests of its own
OTHERS = {
    "party run",
    "party status",
    "relay",
}  # need keys, a roster and other processes; test_party.py and test_relay.py have them
SHORTER = {"compare": ("experiment.rounds=20", "experiment.repeats=3")}
PRIVATE = {  # sentences about privacy that no command leaves out, however quiet
    "run": "the models must not be released",
    "account": "any record may be drawn in any round",
    "gradients": "A clip chosen by private data costs privacy budget",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_and_the_common_options(sottovoce, command):
    lines = [line.strip() for line in sottovoce(*command.split(), "--help").stdout.splitlines()]
    assert any(line.startswith("Example") for line in lines)
    assert [line for line in lines if line.startswith(f"sottovoce {command}")] == list(EXAMPLES[command])
    assert any("--json" in line for line in lines)
    assert any("--quiet" in line for line in lines)


def test_there_are_no_examples_of_commands_that_do_not_exist():
    assert sorted(EXAMPLES) == COMMANDS


@pytest.mark.parametrize("command", PRIVATE)
def test_quiet_is_the_result_without_progress_and_with_what_concerns_privacy(sottovoce, small, command):
    small.write_text(small.read_text() + PRIVACY)
    talking, quiet = sottovoce(command, small), sottovoce(command, small, "--quiet")
    assert quiet.exit_code == 0
    assert quiet.stderr == ""
    assert PRIVATE[command] in " ".join(quiet.stdout.split())
    assert len(quiet.stdout) <= len(talking.stdout) or "read back" in quiet.stdout


def test_a_result_that_is_read_back_says_so(sottovoce, small):
    first, again = sottovoce("run", small, "--out", "kept"), sottovoce("run", small, "--out", "kept")
    assert "Results in kept" in first.stdout
    assert "stored before and is only read back, from kept" in " ".join(again.stdout.split())
    assert '"stored": true' in sottovoce("run", small, "--out", "kept", "--json").stdout


@pytest.mark.parametrize(("typed", "offered"), [("re", {"reproduce"}), ("d", {"demo", "doctor"}), ("c", {"calibrate", "compare"})])  # fmt: skip
def test_the_shell_completes_names_of_commands(typed, offered):
    asked = {"_SOTTOVOCE_COMPLETE": "complete_bash", "COMP_WORDS": f"sottovoce {typed}", "COMP_CWORD": "1"}
    program = "import sys; sys.argv[0] = 'sottovoce'\nfrom sottovoce.cli import main; main()"
    answer = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **asked}, capture_output=True, text=True, timeout=60, check=False
    )  # fmt: skip
    assert set(answer.stdout.split()) >= offered
    assert all(each.startswith(typed) for each in answer.stdout.split())


@pytest.mark.slow
@pytest.mark.parametrize("command", sorted(set(COMMANDS) - OTHERS))
def test_examples_run_as_they_stand(sottovoce, tmp_path, command):
    for name in ("comparisons", "reproductions"):
        (tmp_path / name).symlink_to(Path(__file__).parents[2] / name)
    (tmp_path / "own.csv").write_text("age,ward,ill\n" + "31,east,yes\n52,west,no\n" * 9)
    if command != "new":
        assert sottovoce("new", "my.toml").exit_code == 0
    if command == "predict":
        assert sottovoce("run", "my.toml", "problem.dimension=2", "--out", "results").exit_code == 0
        (tmp_path / "new.csv").write_text("a,b\n0.1,0.2\n")
    if command == "pairwise":
        assert sottovoce("new", "walk.toml", "--template", "walk").exit_code == 0
    if command == "ledger":
        new_identity("basel", tmp_path / "keys", "localhost:7001")
    if command == "roster":
        assert sottovoce(*EXAMPLES["keys"][0].split()[1:]).exit_code == 0
    for line in EXAMPLES[command]:
        if line in MINUTES:
            continue
        result = sottovoce(*re.split(r"\s+", line)[1:], *SHORTER.get(command, ()))
        assert result.exit_code == 0, (line, result.output)
