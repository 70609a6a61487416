"""Run: the result of one simulated run, as plain arrays with a description of what was run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """Metrics and final models of one algorithm with one noise scheme.

    Attributes:
        metrics: name -> [repeats, rounds]; entry t is the state after round t + 1.
        models: [repeats, K, d] final model of every agent.
        models_by_round: [repeats, rounds, K, d] every agent's model after every round, where it was recorded; else None.
        description: what was run: problem, topology, algorithm, noise, rounds, seed; plain values.
        common: [repeats, d] what the agents have in common in the end, the centroid or a walking token; None in runs of version 0.1.0.
    """

    metrics: dict[str, np.ndarray]
    models: np.ndarray
    description: dict[str, Any]
    models_by_round: np.ndarray | None = None
    common: np.ndarray | None = None

    @property
    def rounds(self) -> int:
        """How many rounds were run."""
        return int(self.description["rounds"])

    @property
    def repeats(self) -> int:
        """How many independent repetitions."""
        return int(self.models.shape[0])

    def to_pandas(self) -> Any:
        """A table with one row per repeat and round (needs pandas)."""
        import pandas

        rounds, repeats = np.arange(1, self.rounds + 1), np.arange(self.repeats)
        index = pandas.MultiIndex.from_product([repeats, rounds], names=["repeat", "round"])
        return pandas.DataFrame({name: values.ravel() for name, values in self.metrics.items()}, index=index)


def join(parts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Put the metrics of consecutive chunks, each [repeats, rounds in the chunk], one after the other."""
    return {name: np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]}
