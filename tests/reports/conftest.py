import numpy as np
import pytest

from sottovoce.simulation.run import Run


def made_run(level: float = 1.0, *, repeats: int = 9, rounds: int = 60, seed: int = 0) -> Run:
    """Log-normal metrics around an exponential decay: the mean of decibels differs clearly from the decibels of the mean."""
    generator = np.random.default_rng(seed)
    decay = level * np.exp(-np.arange(rounds) / rounds)
    values = decay * np.exp(generator.standard_normal((repeats, rounds)))
    return Run(
        metrics={"msd_centroid": values, "loss": values},
        models=np.zeros((repeats, 4, 2)),
        description={
            "problem": {"kind": "linear_regression"},
            "topology": {"name": "ring", "num_agents": 4, "weights": "metropolis", "schedule": {"kind": "static"}},
            "algorithm": {"name": "atc", "step_size": 0.05},
            "noise": {"name": "graph_homomorphic", "law": "Laplace", "scale": 0.2 / np.sqrt(2), "schedule": None},
            "rounds": rounds,
            "repeats": repeats,
            "seed": 7,
            "batch_size": 10,
        },
    )


@pytest.fixture
def make_run():
    return made_run
