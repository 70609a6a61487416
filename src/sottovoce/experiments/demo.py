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
from sottovoce.experiments.run import run_built, run_experiment
from sottovoce.experiments.worth import Worth, weigh
from sottovoce.simulation import Run


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Demonstration:
    """What the demonstration ran and found; accuracies are on the records kept away from learning, after the last round."""

    experiment: Experiment
    noisy: Run
    clear: Run  # the same without noise and without clipping
    worth: Worth
    stated: dict[str, Any]  # what is proven for the observers of the noisy run

    @property
    def alone(self) -> np.ndarray:
        """[K] accuracy of each hospital's own best model, learnt from its own records alone."""
        return self.worth.alone

    def accuracies(self) -> dict[str, dict[str, float]]:
        """{who: {centroid, average, worst}} over repeats."""
        names = {"with noise": "together", "without noise": "in clear", "alone": "alone"}
        rows = {label: self.worth.rows[name].describe() for label, name in names.items()}
        columns = {"centroid": "common", "average": "average", "worst": "worst"}
        return {label: {new: row[old] for new, old in columns.items() if old in row} for label, row in rows.items()}


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
    noisy = run_built(config, experiment, folder / "noisy", progress=progress)
    clear = run_experiment(demo_config(noise={"kind": "none"}, privacy=None), folder / "clear", progress=progress)
    (folder / "demo.toml").write_text(demo_text(), encoding="utf-8")
    stated = load_guarantees(folder / "noisy")
    assert stated is not None  # the configuration names observers
    worth = weigh(experiment, noisy, clear)
    return Demonstration(experiment=experiment, noisy=noisy, clear=clear, worth=worth, stated=stated)
