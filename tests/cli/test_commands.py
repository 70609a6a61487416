"""Every command does what it says, in text and in JSON, and leaves with the right code."""

import json
import math
from importlib import import_module
from importlib.metadata import version

import pytest

from sottovoce import errors
from sottovoce.algorithms import ALGORITHMS
from sottovoce.attacks import ATTACKS
from sottovoce.experiments import load, read
from sottovoce.noise import LAWS, SCHEMES
from sottovoce.observers import OBSERVERS
from sottovoce.problems import PROBLEMS
from sottovoce.topologies import TOPOLOGIES


def test_version(sottovoce):
    assert sottovoce("--version").stdout.strip() == f"sottovoce {version('sottovoce')}"
    assert json.loads(sottovoce("--version", "--json").stdout) == {"version": version("sottovoce")}


def test_no_command_shows_help_and_is_bad_input(sottovoce):
    result = sottovoce()
    assert result.exit_code == 2
    assert "doctor" in result.stdout


def test_unknown_command_is_bad_input(sottovoce):
    assert sottovoce("rum").exit_code == 2


def test_new_writes_a_valid_commented_configuration(sottovoce, tmp_path):
    result = sottovoce("new", "mine.toml")
    assert result.exit_code == 0
    assert "# " in (tmp_path / "mine.toml").read_text()
    read(tmp_path / "mine.toml")


def test_new_does_not_overwrite_unless_forced(sottovoce, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("precious")
    refused = sottovoce("new", path)
    assert refused.exit_code == 2
    assert "--force" in refused.stderr
    assert path.read_text() == "precious"
    assert json.loads(sottovoce("new", path, "--force", "--json").stdout) == {"file": str(path)}
    read(path)


def test_new_in_a_missing_folder_is_refused(sottovoce):
    result = sottovoce("new", "absent/mine.toml")
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr


def test_list_names_and_describes_everything_registered(sottovoce):
    choices = json.loads(sottovoce("list", "--json").stdout)
    registries = (TOPOLOGIES, PROBLEMS, ALGORITHMS, SCHEMES, LAWS, OBSERVERS, ATTACKS)
    assert [set(things) for things in choices.values()] == [set(registry) for registry in registries]
    assert all(line for things in choices.values() for line in things.values())
    text = sottovoce("list").stdout
    assert all(name in text for registry in registries for name in registry)


def test_doctor_reports_versions_devices_and_extras(sottovoce, monkeypatch):
    declared = ["jax>=0.10", 'pytest>=8; extra == "dev"', 'no-such-package; extra == "later"']
    monkeypatch.setattr(import_module("sottovoce.cli.doctor"), "requires", lambda name: declared)
    facts = json.loads(sottovoce("doctor", "--json").stdout)
    assert facts["versions"]["jax"] == version("jax")
    assert facts["devices"]
    assert facts["memory_bytes"] > 0
    assert facts["threads"]["cores"] >= 1
    assert facts["extras"] == {"dev": {"pytest": version("pytest")}, "later": {"no-such-package": None}}
    text = sottovoce("doctor").stdout
    assert "jax" in text
    assert "later: missing no-such-package" in " ".join(text.split())


def test_run_prints_final_metrics_and_the_folder(sottovoce, small, tmp_path):
    before = small.read_bytes()
    result = sottovoce("run", small, "--json", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.stderr
    printed = json.loads(result.stdout)
    assert printed["folder"] == str(tmp_path / "out")
    run = load(tmp_path / "out")
    last = run.metrics["msd_centroid"][:, -1].astype(float)
    shown = printed["final_metrics"]["msd_centroid"]
    assert shown["mean"] == pytest.approx(last.mean())
    assert shown["standard_error"] == pytest.approx(last.std(ddof=1) / 3**0.5)
    assert shown["decibels"] == pytest.approx(10 * math.log10(last.mean()))
    assert printed["final_metrics"]["loss"]["decibels"] is None
    assert small.read_bytes() == before
    text = sottovoce("run", small, "--explain", "--out", tmp_path / "out")
    assert "msd_centroid" in text.stdout
    assert "out" in text.stdout


def test_run_without_out_uses_a_folder_per_configuration(sottovoce, small, tmp_path):
    first = json.loads(sottovoce("run", small, "--json").stdout)["folder"]
    again = json.loads(sottovoce("run", small, "--json").stdout)["folder"]
    other = json.loads(sottovoce("run", small, "noise.std=0.2", "--json").stdout)["folder"]
    assert first == again != other
    assert first.startswith("runs/small-")
    assert (tmp_path / first / "metrics.csv").exists()


def test_override_changes_the_run_and_not_the_file(sottovoce, small, tmp_path):
    before = small.read_bytes()
    assert (
        sottovoce("run", small, "experiment.rounds=7", "noise={kind='none'}", "--out", tmp_path / "out").exit_code == 0
    )
    assert small.read_bytes() == before
    run = load(tmp_path / "out")
    assert run.metrics["loss"].shape == (3, 7)
    assert run.description["noise"]["name"] == "none"


def test_one_repeat_has_no_standard_error(sottovoce, small):
    printed = json.loads(sottovoce("run", small, "experiment.repeats=1", "--json").stdout)
    assert printed["final_metrics"]["loss"]["standard_error"] is None


def test_folder_of_another_configuration_is_refused(sottovoce, small):
    assert sottovoce("run", small, "--out", "out").exit_code == 0
    result = sottovoce("run", small, "noise.std=0.2", "--out", "out")
    assert result.exit_code == 2
    assert "noise.std" in result.stderr


def test_bad_configuration_gives_one_paragraph_and_no_traceback(sottovoce, small):
    result = sottovoce("run", small, "noise.stdd=1", "topology.kind=rign")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "did you mean 'std'?" in result.stderr
    assert "did you mean 'ring'?" in result.stderr
    assert "Traceback" not in result.stderr


def test_debug_lets_the_error_through(sottovoce, small):
    result = sottovoce("--debug", "run", small, "noise.stdd=1")
    assert isinstance(result.exception, errors.ConfigError)


def test_refused_combination_leaves_no_folder(sottovoce, small, tmp_path):
    result = sottovoce("run", small, "algorithm.batch_size=7", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "batch_size" in result.stderr
    assert not (tmp_path / "out").exists()


def test_exhausted_budget_has_its_own_exit_code(sottovoce, small, monkeypatch):
    def refuse(*_, **__):
        raise errors.BudgetExhausted("nothing left")

    monkeypatch.setattr(import_module("sottovoce.experiments.worth"), "run_and_weigh", refuse)
    result = sottovoce("run", small)
    assert result.exit_code == 3
    assert "nothing left" in result.stderr


def test_reproduce_lists_judges_and_refuses(tmp_path):
    import json

    from typer.testing import CliRunner

    from sottovoce.cli import app

    runner = CliRunner()
    listed = runner.invoke(app, ["reproduce", "list", "--json"])
    assert "rizk2023-regression" in json.loads(listed.stdout)["reproductions"]
    small = tmp_path / "small"
    small.mkdir()
    (small / "config.toml").write_text(
        '[reproduction]\ntitle = "Small"\ndocument = "A document with a title"\n'
        '[experiment]\nname = "small"\nrounds = 20\nrepeats = 3\n[topology]\nkind = "ring"\nagents = 5\n'
        '[problem]\nkind = "linear_regression"\ndata = "synthetic"\nsamples = 8\ndimension = 2\nridge = 0.1\n'
        '[algorithm]\nkind = "atc"\nstep_size = 0.1\n[noise]\nkind = "none"\n'
        '[[study]]\nname = "s"\nmeasures = ["msd_centroid"]\ntheory = true\n'
        'series = { key = "noise", values = { a = { kind = "none" }, b = { kind = "independent", law = "gaussian", std = 1.0 } } }\n'
        'across = { key = "algorithm.kind", values = ["atc", "cta"] }\n'
        '[[claim]]\nid = "c"\ntext = "Noise hurts"\nstudy = "s"\nmeasure = "msd_centroid"\n'
        'check = { kind = "ratio", of = "b", to = "a", at_least = 1.5 }\n'
    )
    stored = runner.invoke(app, ["reproduce", str(small), "--out", str(tmp_path / "out"), "--accept", "0.1", "--json"])
    assert stored.exit_code == 0, stored.output
    found = json.loads(stored.stdout)["reproductions"][0]
    assert found["verdicts"]["c"]["verdict"] == "holds"
    assert found["differences_from_expected"] == []
    assert (tmp_path / "out" / "small" / "result.json").is_file()
    expected = json.loads((small / "expected.json").read_text())
    expected["cells"]["s"]["msd_centroid"]["b"]["atc"] *= 50
    (small / "expected.json").write_text(json.dumps(expected))
    departs = runner.invoke(app, ["reproduce", str(small), "--out", str(tmp_path / "out")])
    assert departs.exit_code == 1
    assert "DEPARTS" in departs.stdout
    for arguments in (["--accept", "-1"], ["--accept", "0.1", "experiment.rounds=5"]):
        assert runner.invoke(app, ["reproduce", str(small), *arguments]).exit_code == 2


def test_what_another_kind_leaves_out_is_said_in_words_and_in_json(sottovoce, small):
    result = sottovoce("run", small, "noise.kind=none", "--json")
    assert result.exit_code == 0, result.stderr
    assert "law, std of the file do not apply" in result.stderr
    assert json.loads(result.stdout)["notes"] == [result.stderr.strip().removeprefix("sottovoce: ")]
    assert "notes" not in json.loads(sottovoce("run", small, "--json").stdout)
