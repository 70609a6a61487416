"""The pictures of the demonstration: how well the hospitals classify, their network, and who has which patients."""

from pathlib import Path

import numpy as np

from sottovoce.experiments import Demonstration
from sottovoce.reports.files import save
from sottovoce.reports.labels import label_distribution
from sottovoce.reports.networks import network
from sottovoce.reports.run_figures import run_figure


def demo_figures(found: Demonstration, folder: str | Path) -> list[Path]:
    """Draw the demonstration; returns the files written."""
    experiment = found.experiment
    problem, topology = experiment.problem, experiment.topology
    data = f"{problem.num_agents} hospitals, breast-cancer records of Wisconsin"
    named = np.array(["malignant", "benign"])
    labels = [named[(problem.arrays["targets"][k, :n] > 0).astype(int)] for k, n in enumerate(problem.sizes)]
    return [
        *run_figure(
            found.noisy,
            Path(folder) / "accuracy",
            references={
                "together, without noise": float(found.clear.metrics["accuracy"][:, -1].mean()),
                "each alone": (float(found.alone.min()), float(found.alone.mean()), float(found.alone.max())),
            },
            stated=found.stated,
        ),
        *save(
            network(topology, title="Who talks to whom"),
            folder,
            "network",
            caption=f"{data}. Lines are links; weights by the {topology.rule} rule, spectral gap {topology.spectral_gap:.3f}.",
        ),
        *save(
            label_distribution(labels, title="Who has which patients"),
            folder,
            "labels",
            caption=f"{data}: how many records with each label every hospital learns from.",
        ),
    ]
