"""NumPy archives: `features` (or `X`) of shape [N, d] and `targets` (or `labels`, or `y`) of shape [N].

Archives may hide programs in arrays of Python objects; these are never loaded. Records are counted from 0, as NumPy does.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError
from sottovoce.problems.loaders.text import brief, check_plain_file

Floats = NDArray[np.float64]


MAX_CELLS = 2**27  # of one array, 1 GiB of float64
_DAMAGED = (
    OSError,
    ValueError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    SyntaxError,
    zipfile.BadZipFile,
    zlib.error,
)


def read_npz(path: Path) -> tuple[Floats, Floats]:
    """Read features [N, d] and targets [N] from a NumPy archive.

    Raises:
        ConfigError: no such file, no such arrays, arrays of objects or of other shapes, too large ones, or a number that
            is not finite.
    """
    check_plain_file(path)
    try:
        stream = path.open("rb")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); give the path of a readable file.") from error
    with stream, _archive(path, stream) as archive:
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


def _archive(path: Path, stream: BinaryIO) -> zipfile.ZipFile:
    if stream.read(6) == b"\x93NUMPY":
        raise ConfigError(
            f"{path}: one array, not an archive; write it by numpy.savez(path, features=..., targets=...)."
        )
    try:
        return zipfile.ZipFile(stream)
    except _DAMAGED as error:
        raise ConfigError(
            f"{path}: not a NumPy archive; write it by numpy.savez(path, features=..., targets=...)."
        ) from error


def _array(path: Path, archive: zipfile.ZipFile, names: tuple[str, ...], *, shape: str, dimensions: int) -> Floats:
    held = [name.removesuffix(".npy") for name in archive.namelist()]
    present = [name for name in names if name in held]
    if len(present) != 1:
        raise ConfigError(
            f"{path}: needs exactly one array named {' or '.join(map(repr, names))}, but holds "
            f"{', '.join(map(brief, held[:20])) or 'nothing'}; save it under {names[0]!r}."
        )
    array = _member(path, archive, present[0])
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


def _member(path: Path, archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """One array, its size looked at before anything is allocated for it."""
    try:
        with archive.open(f"{name}.npy") as member:
            count = math.prod(_shape(member))
            if count > MAX_CELLS:
                raise ConfigError(
                    f"{path}: array {name!r} has {count} entries, and {MAX_CELLS} are the limit; save fewer records or features."
                )
        with archive.open(f"{name}.npy") as member:
            array: np.ndarray = np.lib.format.read_array(member, allow_pickle=False)
    except ConfigError:
        raise
    except (*_DAMAGED, KeyError) as error:
        raise ConfigError(
            f"{path}: array {name!r} cannot be read, it is damaged or holds Python objects; save plain numbers."
        ) from error
    return array


def _shape(member: Any) -> tuple[int, ...]:
    """The shape that an array's header states."""
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    found = np.lib.format.read_magic(member)
    if found not in read:
        raise ValueError(f"version {found} of the format holds names of fields, which plain numbers do not have")
    shape: tuple[int, ...] = read[found](member)[0]
    return shape
