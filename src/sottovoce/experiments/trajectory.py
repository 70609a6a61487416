"""models_by_round.npy of a run folder: every agent's model after every round, [repeats, rounds, K, d], streamed.

The file is made whole before the first round and filled in chunk by chunk, in place: what stands beyond the last checkpoint does not count and is
written again when the run goes on. It is read back as it lies on the disk, without being taken into memory. Whoever gets the final model was
promised nothing about the models before, so the file is readable by its owner alone.
"""

import os
import shutil
from pathlib import Path

import numpy as np

from sottovoce.durable_files import PRIVATE
from sottovoce.errors import ConfigError
from sottovoce.resources import in_bytes

NAME = "models_by_round.npy"
Shape = tuple[int, int, int, int]  # repeats, rounds, agents, parameters


def check_room(folder: Path, shape: Shape, dtype: str) -> None:
    """Refuse models of all rounds that the disk cannot hold; those that are there already take no more room.

    Raises:
        ConfigError: with what they need and what is free.
    """
    if (folder / NAME).exists():
        return
    needed = float(np.prod(np.array(shape, dtype=float))) * np.dtype(dtype).itemsize
    there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    free = shutil.disk_usage(there).free
    if needed > free:
        repeats, rounds, agents, parameters = shape
        raise ConfigError(
            f"record: the models of {rounds:,} rounds ({repeats:,} repeat(s), {agents:,} agents, {parameters:,} parameters) need "
            f"{in_bytes(needed)} and {in_bytes(free)} are free on the disk of {folder}. Leave 'models' out of record, lower rounds or repeats, or "
            f"choose another disk with --out."
        )


def open_models(folder: Path, shape: Shape, dtype: str, *, resumed: bool) -> np.memmap:
    """The array to fill in: a new file, or that of the run which goes on.

    Raises:
        ConfigError: the file of the run which goes on is missing or of another shape.
    """
    if not resumed:
        _make_private(folder / NAME)
        return np.lib.format.open_memmap(folder / NAME, mode="w+", dtype=np.dtype(dtype), shape=shape)
    try:
        held = np.lib.format.open_memmap(folder / NAME, mode="r+")
    except (OSError, ValueError) as error:
        raise _damaged(folder) from error
    if held.shape != shape or held.dtype != np.dtype(dtype):
        raise _damaged(folder)
    return held


def add_models(held: np.memmap, last_round: int, models: np.ndarray) -> None:
    """Store the models [repeats, rounds of a chunk, K, d] of the rounds up to `last_round`; on the disk before this returns."""
    held[:, last_round - models.shape[1] : last_round] = models
    held.flush()


def read_models(folder: Path, models: np.ndarray) -> np.ndarray | None:
    """The models of all rounds of a finished run whose final models are `models`; None where they were not recorded.

    Raises:
        ConfigError: a file that does not belong to these models.
    """
    if not (folder / NAME).exists():
        return None
    try:
        held: np.ndarray = np.load(folder / NAME, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise _damaged(folder) from error
    if held.ndim != 4 or (held.shape[0], *held.shape[2:]) != models.shape or held.dtype != models.dtype:
        raise _damaged(folder)
    return held


def save_models(folder: Path, models: np.ndarray) -> None:
    """Write the models of all rounds of a run that is in memory."""
    _make_private(folder / NAME)
    np.save(folder / NAME, models, allow_pickle=False)


def _make_private(path: Path) -> None:
    """An empty file that its owner alone can read; what is written into it later keeps that."""
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE))


def _damaged(folder: Path) -> ConfigError:
    return ConfigError(f"{folder / NAME} is damaged or belongs to another run; remove the folder and run again.")
