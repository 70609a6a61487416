"""The pictures of the demonstration: how well the hospitals classify, their network, and who has which patients."""

from pathlib import Path

from sottovoce.experiments import Demonstration
from sottovoce.reports.caption import describe
from sottovoce.reports.curves import learning_curves, with_test_error
from sottovoce.reports.files import save
from sottovoce.reports.labels import label_distribution
from sottovoce.reports.networks import network


def demo_figures(found: Demonstration, folder: str | Path) -> list[Path]:
    """Draw the demonstration; returns the files written."""
    experiment = found.experiment
    problem, topology = experiment.problem, experiment.topology
    runs = {"with noise": with_test_error(found.noisy), "without noise and clipping": with_test_error(found.clear)}
    alone = f"A hospital alone reaches a test error of {1 - found.alone.mean():.3f} on average."
    data = f"{problem.num_agents} hospitals, breast-cancer records of Wisconsin"
    labels = [problem.arrays["targets"][k, :n].astype(int) for k, n in enumerate(problem.sizes)]
    return [
        *save(
            learning_curves(runs, "test_error", title="Test error of the common model"),
            folder,
            "test-error",
            caption=f"{describe(found.noisy)} Mean over repeats, band from the 10th to the 90th percentile. {alone}",
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
            caption=f"{data}: how many records with each label every hospital learns from (1: benign, -1: malignant).",
        ),
    ]
