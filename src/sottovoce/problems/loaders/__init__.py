"""Real data: sets that come with the package, and files in CSV, NPZ, LIBSVM and IDX format.

Nothing here scales by what it finds in the data; `scaling` says what may be done without a release.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError
from sottovoce.problems.loaders.bundled import LOADERS
from sottovoce.problems.loaders.csv_file import pick_target, read_csv
from sottovoce.problems.loaders.idx_file import is_idx, read_idx
from sottovoce.problems.loaders.libsvm_file import read_libsvm
from sottovoce.problems.loaders.npz_file import read_npz
from sottovoce.problems.loaders.scaling import add_intercept, public_bounds, scale_features, unit_norm
from sottovoce.problems.loaders.text import brief, check_plain_file, read_text

Floats = NDArray[np.float64]

LIBSVM_FILES = (".libsvm", ".svm", ".txt")  # in which the largest index of any record says how many features there are
_READERS: dict[str, Callable[[Path], tuple[Floats, Floats]]] = {
    ".npz": read_npz,
    **dict.fromkeys(LIBSVM_FILES, read_libsvm),
}
_ENDINGS = (".csv", *_READERS)
ARRAY_FILES = tuple(_READERS)  # endings of files that hold plain numbers without names


def load(source: str | Path, *, target: str | None = None) -> tuple[Floats, Floats]:
    """Load a data set by name, or a file by path; features come unscaled.

    Args:
        source: a key of LOADERS, or a path that ends in .csv (with a header), .npz (arrays `features` and `targets`),
            .libsvm, .svm or .txt (LIBSVM), or that of a file of images of the format IDX (..-images-idx3-ubyte, also .gz).
        target: for .csv, the name of the column to predict; None is the last one.

    Returns:
        (features [N, d], targets [N]).

    Raises:
        ConfigError: an unknown name or ending, or a file that cannot be used; the message names the file and the row.
    """
    path = _path(source, target)
    if path is None:
        return LOADERS[str(source)]()
    if is_idx(path):
        return read_idx(path)
    if path.suffix.lower() == ".csv":
        return pick_target(path, *read_csv(path), target=target)
    return _READERS[path.suffix.lower()](path)


def load_points(source: str | Path, *, target: str | None = None) -> tuple[Floats, Floats | None]:
    """Load points for mean estimation: like `load`, but a .csv without a target gives all its columns.

    Returns:
        (points [N, d], labels [N]); labels are None when a .csv has no target.

    Raises:
        ConfigError: as `load`.
    """
    path = _path(source, target)
    if path is not None and path.suffix.lower() == ".csv" and target is None:
        return read_csv(path)[1], None
    return load(source, target=target)


def _path(source: str | Path, target: str | None) -> Path | None:
    """Return where the file is; None when the source is the name of a data set."""
    try:
        path, named = Path(source).expanduser(), str(source) in LOADERS
    except RuntimeError as error:
        raise ConfigError(
            f"{brief(str(source), 200)}: there is no such home folder; write the whole path of the file."
        ) from error
    name = brief(str(source), 200)
    if not named and not is_idx(path) and path.suffix.lower() not in _ENDINGS:
        if path.suffix or len(path.parts) > 1:
            raise ConfigError(
                f"{name}: files that end in {brief(path.suffix) or 'nothing'!r} cannot be read; known endings are "
                f"{', '.join(_ENDINGS)}."
            )
        raise ConfigError(
            f"Unknown data set {name!r}; known are {', '.join(map(repr, sorted(LOADERS)))}, or give the path of "
            f"a file that ends in {', '.join(_ENDINGS)}; a folder is written with a / at its end."
        )
    if target is not None and (named or path.suffix.lower() != ".csv"):
        raise ConfigError(f"{name}: target={brief(target)!r} names a column, which only a .csv file has; omit it.")
    return None if named else path


__all__ = [
    "LOADERS",
    "add_intercept",
    "load",
    "load_points",
    "public_bounds",
    "scale_features",
    "unit_norm",
]


def __dir__() -> list[str]:
    return [*__all__]
