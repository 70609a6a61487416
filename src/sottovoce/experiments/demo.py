"""The demonstration: twenty hospitals learn a tumour classifier, with and without noise, on real records, offline."""

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from sottovoce.experiments.build import build
from sottovoce.experiments.config.config import Config
from sottovoce.experiments.config.toml_file import parse
from sottovoce.experiments.experiment import Experiment
from sottovoce.experiments.record import load_guarantees
from sottovoce.experiments.run import run_experiment
from sottovoce.simulation import Run


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Demonstration:
    """What the demonstration ran and found; accuracies are on the records kept away from learning, after the last round."""

    experiment: Experiment
    noisy: Run
    clear: Run  # the same without noise and without clipping
    alone: np.ndarray  # [K] accuracy of each hospital's own best model, learnt from its own records alone
    stated: dict[str, Any]  # what is proven for the observers of the noisy run

    def accuracies(self) -> dict[str, dict[str, float]]:
        """{who: {centroid, average, worst}} over repeats."""
        names = {"centroid": "accuracy", "average": "accuracy_average", "worst": "accuracy_worst"}
        table = {
            label: {name: float(run.metrics[metric][:, -1].mean()) for name, metric in names.items()}
            for label, run in {"with noise": self.noisy, "without noise": self.clear}.items()
        }
        table["alone"] = {"average": float(self.alone.mean()), "worst": float(self.alone.min())}
        return table


def demo_text() -> str:
    """The configuration of the demonstration, with its comments."""
    return (files("sottovoce.experiments") / "demo.toml").read_text(encoding="utf-8")


def demo_config(**changes: Any) -> Config:
    """The demonstration's configuration, with whole sections replaced (None removes one)."""
    data = {**tomllib.loads(demo_text()), **changes}
    return parse({name: table for name, table in data.items() if table is not None}, source="demo.toml")


def run_demo(folder: str | Path, *, progress: bool = True) -> Demonstration:
    """Run the demonstration into `folder`: `noisy/` and `clear/` hold the runs, `demo.toml` the configuration."""
    folder = Path(folder)
    config = demo_config()
    experiment = build(config)
    noisy = run_experiment(config, folder / "noisy", progress=progress)
    clear = run_experiment(demo_config(noise={"kind": "none"}, privacy=None), folder / "clear", progress=progress)
    (folder / "demo.toml").write_text(demo_text(), encoding="utf-8")
    stated = load_guarantees(folder / "noisy")
    assert stated is not None  # the configuration names observers
    return Demonstration(experiment=experiment, noisy=noisy, clear=clear, alone=_alone(experiment), stated=stated)


def _alone(experiment: Experiment) -> np.ndarray:
    """Accuracy on the common test records of the model each agent would learn from its own records, without noise."""
    problem, test = experiment.problem, experiment.test
    assert test is not None
    assert problem.accuracy is not None
    models = [problem.weighted_optimum(np.eye(problem.num_agents)[k]) for k in range(problem.num_agents)]
    return np.array([float(problem.accuracy(model, *test)) for model in models])
