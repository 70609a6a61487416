"""A simulation's random numbers in files, so that the parties of a rehearsal read them without drawing, and without JAX.

sources-P.npy         [S, d] of the exchange at position P
gradient-R-S.npy      [K, d] noise in gradient S of round R
batch-R-S.npy         [K, B] positions of records
links-P.npz           weights of the links, where they are drawn
counts.npy            [rounds, K] how much every agent counts, where agents are sampled
"""

from pathlib import Path

import numpy as np

from sottovoce.deployment.agent import Draws
from sottovoce.deployment.terms import PublicRun
from sottovoce.errors import ConfigError
from sottovoce.topologies import ActiveLinks, Dropout, RandomPair

MOST_BYTES = 2**32  # of all sources together


def save_draws(draws: Draws, run: PublicRun, folder: Path) -> None:
    """Write everything that parties of a run may ask for.

    Raises:
        ConfigError: it would fill the disk.
    """
    folder.mkdir(parents=True, exist_ok=True)
    first = draws.sources(1, 0).nbytes * run.end
    if first > MOST_BYTES:
        raise ConfigError(
            f"the sources of this rehearsal would take {first / 2**30:.1f} GiB on disk. Rehearse fewer rounds: experiment.rounds=20."
        )
    for position in range(run.end):
        round_, exchange = run.at(position)
        np.save(folder / f"sources-{position}.npy", draws.sources(round_, exchange))
        if isinstance(run.topology.schedule, Dropout | RandomPair):
            np.savez(folder / f"links-{position}.npz", **draws.weights(round_, exchange)._asdict())
    for round_ in range(1, run.rounds + 1):
        for step in range(run.algorithm.gradients_per_round):
            if run.noise.in_gradients:
                np.save(folder / f"gradient-{round_}-{step}.npy", draws.gradient_noise(round_, step))
            if run.batch_size is not None:
                np.save(folder / f"batch-{round_}-{step}.npy", draws.batch(round_, step))
    if run.algorithm.sampling is not None:
        np.save(folder / "counts.npy", np.stack([draws.counts(round_) for round_ in range(1, run.rounds + 1)]))


class SavedDraws:
    """What `save_draws` wrote, read when it is asked for."""

    def __init__(self, folder: Path, run: PublicRun) -> None:
        self._folder, self._exchanges = folder, run.exchanges

    def weights(self, round_: int, exchange: int) -> ActiveLinks:
        """The weights of the links in one exchange."""
        with np.load(self._folder / f"links-{self._position(round_, exchange)}.npz", allow_pickle=False) as kept:
            return ActiveLinks(**kept)

    def sources(self, round_: int, exchange: int) -> np.ndarray:
        """[S, d] every source of an exchange; rows that nobody looks at are not read."""
        return self._array(f"sources-{self._position(round_, exchange)}")

    def gradient_noise(self, round_: int, step: int) -> np.ndarray:
        """[K, d] what every agent adds to one gradient of a round."""
        return self._array(f"gradient-{round_}-{step}")

    def batch(self, round_: int, step: int) -> np.ndarray:
        """[K, B] positions of the records of one gradient of a round."""
        return self._array(f"batch-{round_}-{step}")

    def counts(self, round_: int) -> np.ndarray:
        """[K] how much every agent counts in a round."""
        return np.array(self._array("counts")[round_ - 1])

    def _position(self, round_: int, exchange: int) -> int:
        return (round_ - 1) * self._exchanges + exchange

    def _array(self, name: str) -> np.ndarray:
        return np.asarray(np.load(self._folder / f"{name}.npy", mmap_mode="r", allow_pickle=False))
