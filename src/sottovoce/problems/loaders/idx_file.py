"""IDX files, the format of MNIST: images in one file, their labels in another of nearly the same name; both may be gzipped.

    train-images-idx3-ubyte[.gz]    magic number, numbers of images, rows and columns, then one byte for each pixel
    train-labels-idx1-ubyte[.gz]    magic number, number of labels, then one byte for each

The magic number is two zero bytes, the type of the entries (8 stands for bytes) and the number of dimensions.
"""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError
from sottovoce.problems.loaders.npz_file import MAX_CELLS
from sottovoce.problems.loaders.text import check_plain_file

Floats = NDArray[np.float64]

_BYTES = 8


def is_idx(path: Path) -> bool:
    """Whether a file's name is one of the format."""
    return path.name.lower().removesuffix(".gz").endswith("-ubyte")


def read_idx(path: Path) -> tuple[Floats, Floats]:
    """Read pixels [N, rows * columns] of a file of images, and labels [N] of the file beside it.

    Raises:
        ConfigError: one of the two files is missing, damaged, too large, or of another type, or their numbers differ.
    """
    images = _entries(path)
    beside = path.with_name(path.name.replace("images", "labels").replace("idx3", "idx1"))
    if images.ndim < 2 or beside == path:
        raise ConfigError(
            f"{path}: the file of images is needed, whose name has 'images' and 'idx3'; its labels are found beside it."
        )
    labels = _entries(beside)
    if labels.shape != images.shape[:1]:
        raise ConfigError(f"{beside}: labels of shape {labels.shape} for {len(images)} images; each image needs one.")
    if not images.size:
        raise ConfigError(f"{path}: images of shape {images.shape}; at least one pixel is needed.")
    return images.reshape(len(images), -1).astype(np.float64), labels.astype(np.float64)


def _entries(path: Path) -> NDArray[np.uint8]:
    check_plain_file(path)
    opened = gzip.open if path.name.lower().endswith(".gz") else open
    try:
        with opened(path, "rb") as stream:
            magic = stream.read(4)
            if len(magic) != 4 or magic[:2] != b"\0\0" or magic[2] != _BYTES or not 1 <= magic[3] <= 4:
                raise ConfigError(
                    f"{path}: no IDX file of bytes; one begins with the bytes 0, 0, 8 and the number of dimensions."
                )
            shape = [int.from_bytes(stream.read(4), "big") for _ in range(magic[3])]
            count = math.prod(shape)
            if count > MAX_CELLS:
                raise ConfigError(f"{path}: {count:,} entries, and {MAX_CELLS:,} are the limit; use fewer.")
            content = stream.read(count + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(
            f"{path}: cannot be read ({type(error).__name__}); it is damaged, or no gzip file."
        ) from error
    if len(content) != count:
        raise ConfigError(
            f"{path}: its header announces {count} entries, and {'more' if len(content) > count else 'fewer'} follow; it is damaged."
        )
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)
