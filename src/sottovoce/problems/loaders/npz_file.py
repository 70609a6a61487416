"""NumPy archives: `features` (or `X`) of shape [N, d] and `targets` (or `labels`, or `y`) of shape [N].

Archives may hide programs in arrays of Python objects; these are never loaded. Records are counted from 0, as NumPy does.
"""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError

Floats = NDArray[np.float64]


def read_npz(path: Path) -> tuple[Floats, Floats]:
    """Read features [N, d] and targets [N] from a NumPy archive.

    Raises:
        ConfigError: no such file, no such arrays, arrays of objects or of other shapes, or a number that is not finite.
    """
    if not path.is_file():
        raise ConfigError(
            f"{path}: there is no such file; paths are relative to the folder the program was started in."
        )
    try:
        archive = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ConfigError(
            f"{path}: not a NumPy archive; write it by numpy.savez(path, features=..., targets=...)."
        ) from error
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise ConfigError(
            f"{path}: one array, not an archive; write it by numpy.savez(path, features=..., targets=...)."
        )
    with archive:
        features = _array(path, archive, ("features", "X"), shape="[N, d]", dimensions=2)
        targets = _array(path, archive, ("targets", "labels", "y"), shape="[N]", dimensions=1)
    if len(features) != len(targets):
        raise ConfigError(
            f"{path}: {len(features)} rows of features but {len(targets)} targets; each record needs one of each."
        )
    if features.size == 0:
        raise ConfigError(
            f"{path}: features have shape {features.shape}; at least one record and one feature are needed."
        )
    return features, targets


def _array(path: Path, archive: Any, names: tuple[str, ...], *, shape: str, dimensions: int) -> Floats:
    present = [name for name in names if name in archive.files]
    if len(present) != 1:
        held = ", ".join(archive.files) or "nothing"
        raise ConfigError(
            f"{path}: needs exactly one array named {' or '.join(map(repr, names))}, but holds {held}; save it under "
            f"{names[0]!r}."
        )
    try:
        array = archive[present[0]]
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ConfigError(
            f"{path}: array {present[0]!r} cannot be read, it is damaged or holds Python objects; save plain numbers."
        ) from error
    if array.dtype.kind not in "biuf":
        raise ConfigError(f"{path}: array {present[0]!r} is of type {array.dtype}; save plain numbers.")
    if array.ndim != dimensions:
        raise ConfigError(
            f"{path}: array {present[0]!r} has shape {array.shape}, but {shape} is needed; reshape it before saving."
        )
    wrong = np.argwhere(~np.isfinite(array))
    if len(wrong):
        place = f", column {wrong[0][1]}" if dimensions == 2 else ""
        raise ConfigError(
            f"{path}, record {wrong[0][0]}: array {present[0]!r}{place} is {array[tuple(wrong[0])]}; impute it or remove "
            "the record."
        )
    return np.asarray(array, dtype=np.float64)
