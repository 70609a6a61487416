"""The demonstration, shortened."""

import tomllib

import numpy as np
import pytest

from sottovoce.experiments import demo as module
from sottovoce.experiments.demo import demo_text, run_demo


def test_the_demonstration_learns_saves_its_runs_and_beats_the_worst_hospital_alone(tmp_path, monkeypatch):
    text = demo_text().replace("rounds = 100", "rounds = 60").replace("repeats = 10", "repeats = 3")
    monkeypatch.setattr(module, "demo_text", lambda: text)
    found = run_demo(tmp_path, progress=False)
    table = found.accuracies()
    assert table["with noise"]["worst"] <= table["with noise"]["average"] <= 1
    assert table["with noise"]["centroid"] > max(0.8, table["alone"]["worst"])
    shown = {row["observer"]: row["epsilon"]["1e-05"] for row in found.stated["guarantees"]}
    assert shown.keys() == {
        "eavesdropper",
        "eavesdropper + final model",
        "curious agent 0",
        "curious agent 0 + final model",
        "final model",
    }
    assert all(7.9 < epsilon <= 8.0 for epsilon in shown.values())  # calibrated for epsilon = 8; the others get no more
    assert any("The 3 repeats would be 3 releases about the same data" in note for note in found.stated["notes"])
    assert found.noisy.description["noise"]["name"] == "independent"
    assert found.clear.description["noise"]["name"] == "none"
    assert tomllib.loads((tmp_path / "demo.toml").read_text())["experiment"]["rounds"] == 60
    import sottovoce as sv

    np.testing.assert_array_equal(sv.load(tmp_path / "noisy").models, found.noisy.models)
    problem = found.experiment.problem
    own = problem.weighted_optimum(np.eye(20)[3])
    assert found.alone[3] == pytest.approx(float(problem.accuracy(own, *found.experiment.test)))
    from sottovoce.reports.demo import demo_figures

    paths = demo_figures(found, tmp_path / "figures")
    assert {path.name for path in paths} >= {"accuracy.png", "accuracy.svg", "network.png", "labels.png"}
    assert all(path.stat().st_size > 1000 for path in paths)


@pytest.mark.slow
def test_the_command_prints_its_table_and_names_its_folder(tmp_path):
    import json
    import subprocess
    import sys
    from pathlib import Path

    command = [Path(sys.executable).with_name("sottovoce"), "demo", "--out", tmp_path / "demo"]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    assert "together, with noise" in told.stdout
    assert "eavesdropper" in told.stdout
    assert "epsilon" in told.stdout
    assert "MB at the peak" in told.stdout
    again = subprocess.run(
        [*command, "--json"], capture_output=True, text=True, check=False
    )  # reads the finished runs back
    values = json.loads(again.stdout)
    assert values["accuracy"]["with noise"]["centroid"] > 0.85
    assert values["accuracy"]["with noise"]["average"] > values["accuracy"]["alone"]["average"] + 0.05
    assert values["guarantees"][0]["epsilon"]["1e-05"] <= 8.0
    assert all(Path(path).is_file() for path in values["figures"])
