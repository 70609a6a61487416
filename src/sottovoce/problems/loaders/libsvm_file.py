"""LIBSVM files: one record per row, `label index:value index:value ...`, indices from 1 and increasing.

What a row leaves out is 0. The number of features is the largest index of the file. Rows are counted from 1; blank ones
and what follows a # are skipped. Records are held densely, so a file that would need too much memory is refused.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError
from sottovoce.problems.loaders.text import quoted, read_text, to_float

Floats = NDArray[np.float64]

MAX_CELLS = 2**27  # 1 GiB of float64


def read_libsvm(path: Path) -> tuple[Floats, Floats]:
    """Read a LIBSVM file.

    Returns:
        (features [N, largest index], labels [N]).

    Raises:
        ConfigError: an unreadable or empty file, a malformed row (file and row are named), or too large a table.
    """
    labels: list[float] = []
    rows: list[int] = []  # of each entry: its record
    columns: list[int] = []
    values: list[float] = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        label, *entries = line.partition("#")[0].split() or [""]
        if not label:
            continue
        labels.append(_label(path, number, label))
        last = 0
        for entry in entries:
            last, value = _entry(path, number, entry, last)
            rows.append(len(labels) - 1)
            columns.append(last - 1)
            values.append(value)
    if not labels:
        raise ConfigError(f"{path}, row 1: the file is empty; write one record per row, 'label index:value ...'.")
    if not columns:
        raise ConfigError(f"{path}, row 1: no record has a feature; write them as 'index:value' after the label.")
    features = _zeros(path, len(labels), max(columns) + 1)
    features[rows, columns] = values
    return features, np.array(labels)


def _label(path: Path, number: int, text: str) -> float:
    label = to_float(text)
    if label is not None and math.isfinite(label):
        return label
    if ":" in text:
        raise ConfigError(f"{path}, row {number}: the label is missing before {quoted(text)}; write it first.")
    hint = "; a comma-separated file must end in .csv" if "," in text else "; write 'label index:value ...'"
    raise ConfigError(f"{path}, row {number}: the label {quoted(text)} is not a finite number{hint}.")


def _entry(path: Path, number: int, text: str, last: int) -> tuple[int, float]:
    """Return the index and the value of one entry; `last` is the index before it."""
    index_text, colon, value_text = text.partition(":")
    if not colon:
        raise ConfigError(f"{path}, row {number}: {quoted(text)} has no colon; write features as 'index:value'.")
    if not index_text.removeprefix("-").isdecimal() or not index_text.isascii():
        raise ConfigError(f"{path}, row {number}: index {quoted(index_text)} is not a whole number; count from 1.")
    if len(index_text) > 18:
        raise ConfigError(f"{path}, row {number}: index {quoted(index_text)} is too large; number the features from 1.")
    index, value = int(index_text), to_float(value_text)
    if index < 1:
        raise ConfigError(f"{path}, row {number}: index {index} is below 1; LIBSVM counts features from 1.")
    if index <= last:
        raise ConfigError(f"{path}, row {number}: index {index} follows {last}; indices must increase within a row.")
    if value is None or not math.isfinite(value):
        raise ConfigError(
            f"{path}, row {number}: feature {index} is {quoted(value_text)}, not a finite number; correct or remove it."
        )
    return index, value


def _zeros(path: Path, num_records: int, dimension: int) -> Floats:
    if num_records * dimension > MAX_CELLS:
        raise ConfigError(
            f"{path}: {num_records} records of {dimension} features need {num_records * dimension / 2**27:.3g} GiB as a "
            f"dense table, and {MAX_CELLS / 2**27:.3g} GiB is the limit; hash the features to fewer, or keep fewer "
            "records."
        )
    return np.zeros((num_records, dimension))
