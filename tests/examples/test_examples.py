"""The examples a user reads are run, and the functions they show stay short."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sottovoce as sv

ROOT = Path(__file__).parents[2]


def run(name):
    done = subprocess.run([sys.executable, ROOT / "examples" / name], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_users_algorithm_runs_and_agrees_with_exact_theory():
    simulated, exact = (float(line.split()[-1]) for line in run("custom_algorithm.py").strip().splitlines())
    assert simulated == pytest.approx(exact, rel=0.05)


def test_a_users_noise_runs_and_cancels_as_far_as_it_takes_back():
    errors = [float(line.split()[-1]) for line in run("custom_noise.py").strip().splitlines()]
    assert errors[0] > 3 * errors[1] > 30 * errors[2]


def test_a_users_loss_runs_privately_and_finds_the_circle():
    found = [float(part) for part in run("own_loss.py").split(";")[0].replace(", radius", "").split()[1:]]
    assert found == pytest.approx([2, -1, 3], abs=0.3)


def test_a_round_of_gopa_averages_and_states_what_it_gave_away():
    counted, error, some, all_others = run("gopa_round.py").strip().splitlines()
    assert counted.startswith("28 of 30")
    std = float(counted.split()[-1])
    assert float(error.split()[-1]) < 6 * std  # of four entries
    assert std == pytest.approx(1 / 28**0.5, rel=1e-2)
    assert 1.0 < float(some.split()[-4]) < 3.0  # hidden among the 18 honest parties that published
    assert float(all_others.split()[-1]) > 5 * float(some.split()[-4])


def test_ten_hospitals_gain_by_shared_noise_and_less_if_none_of_them_is_trusted():
    outside, inside, keys = run("ten_hospitals.py").strip().splitlines()
    gains = [float(line.split(": ")[1].split()[0]) for line in (outside, inside)]
    epsilons = [float(line.split()[-1]) for line in (outside, inside)]
    assert gains[0] > gains[1] > 1.2
    assert epsilons[0] > 4.5
    assert epsilons[1] == pytest.approx(4.0, abs=0.01)
    assert keys.endswith("[2, 3, 6, 9]")  # its neighbours in the network of this seed


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("custom_algorithm.py", "momentum_atc"),
        ("custom_noise.py", "half_cancelling"),
        ("own_loss.py", "circle_loss"),
    ],
)
def test_the_functions_take_less_than_twenty_lines_and_are_the_ones_in_the_documentation(name, function):
    source = (ROOT / "examples" / name).read_text()
    node = next(n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and n.name == function)
    assert node.end_lineno - node.lineno < 20
    docs = (ROOT / "docs" / "extending.md").read_text()
    lines = source.splitlines()[node.lineno : node.end_lineno]
    shown = [line for line in lines if line.strip() and '"""' not in line]
    for line in shown:
        assert line in docs, line


def test_the_readme_code_prints_what_its_comments_say(capsys):
    text = (Path(__file__).parents[2] / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    code = "\n".join(blocks).replace("repeats=10)", "repeats=1, progress=False)")
    exec(compile(code, "README.md", "exec"), {})
    said = [line.partition("  # ")[2] for line in code.splitlines() if line.startswith("print(")]
    assert capsys.readouterr().out.splitlines() == said
    assert len(said) == 4


def test_the_page_on_attacks_shows_an_audit_that_passes_and_one_that_fails():
    text = (ROOT / "docs" / "attacks.md").read_text()
    names: dict[str, object] = {}
    exec(compile("\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)), "attacks.md", "exec"), names)
    assert names["result"].passed
    assert names["result"].lower.epsilon > 1.0
    assert not names["broken"].passed
    assert names["seen"].messages[0].shape == (1, 5, 12, 3)


def test_the_attack_in_the_documentation_runs_and_stays_below_the_guarantee():
    text = (ROOT / "docs" / "extending.md").read_text().partition("## An attack is a function of a view")[2]
    names: dict[str, object] = {"sv": sv}
    exec(compile("\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)), "extending.md", "exec"), names)
    parts = [names[name] for name in ("topology", "algorithm", "noise", "observer")]
    promised = sv.account(*parts, rounds=5, sensitivity=1.0).epsilon(1e-3)
    assert 0.0 < names["bound"].epsilon <= promised


@pytest.mark.slow
def test_the_page_on_accuracy_learns_privately_and_spends_what_it_says():
    text = (ROOT / "docs" / "private-accuracy.md").read_text()
    names: dict[str, object] = {}
    exec(compile("\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)), "private-accuracy.md", "exec"), names)
    assert names["epsilon"] == pytest.approx(1.0, rel=1e-6)
    assert names["accuracy"] > 0.85  # the median of 20 splits is 0.95; the larger class has 0.63


@pytest.mark.slow
def test_the_readme_code_has_no_type_errors(tmp_path):
    code = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL))
    (tmp_path / "readme.py").write_text(code)
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = true\n")
    command = [sys.executable, "-m", "mypy", "--config-file", tmp_path / "mypy.ini", "--cache-dir", tmp_path / "cache"]
    done = subprocess.run([*command, tmp_path / "readme.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    (tmp_path / "readme.py").write_text(code.replace("rounds=500, unit", "rounds='500', unit"))
    done = subprocess.run([*command, tmp_path / "readme.py"], capture_output=True, text=True, check=False)
    assert "incompatible type" in done.stdout, "a wrong type is noticed"
