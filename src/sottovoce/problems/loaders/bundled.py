"""Data sets that come with the package, so that nothing is downloaded; `data/README.md` says whose they are.

    name             records  features   target
    breast_cancer    569      30         1 benign (357), -1 malignant (212)
    digits           1797     64         1 even digit, -1 odd digit; features 0 to 16
    digits_classes   1797     64         the digit, 0 to 9: for splitting by label, not for logistic regression
    diabetes         442      10         disease progression, its published range 25..346 mapped to [-1, 1]

The ten features of diabetes were standardised by their publishers, with the mean and spread of ALL 442 patients: a
part of the published set that no agent can undo, and that a private data set must not copy.
"""

from __future__ import annotations

from importlib.resources import as_file, files

import numpy as np
from numpy.typing import NDArray

from sottovoce.problems.loaders.npz_file import read_npz

Floats = NDArray[np.float64]

_PROGRESSION = (25.0, 346.0)  # as stated in the description of the data set


def _arrays(name: str) -> tuple[Floats, Floats]:
    with as_file(files("sottovoce.problems.loaders") / "data" / f"{name}.npz") as path:
        return read_npz(path)


def _breast_cancer() -> tuple[Floats, Floats]:
    """569 tumours, 30 measurements of cell nuclei; 1 is benign."""
    features, labels = _arrays("breast_cancer")
    return features, 2.0 * labels - 1.0


def _digits() -> tuple[Floats, Floats]:
    """1797 handwritten digits of 8 x 8 pixels; 1 is an even digit."""
    features, digits = _arrays("digits")
    return features, 1.0 - 2.0 * (digits % 2.0)


def _digits_classes() -> tuple[Floats, Floats]:
    """1797 handwritten digits of 8 x 8 pixels, labelled 0 to 9."""
    return _arrays("digits")


def _diabetes() -> tuple[Floats, Floats]:
    """442 patients, 10 standardised measurements; the progression of the disease, scaled to [-1, 1]."""
    features, progression = _arrays("diabetes")
    low, high = _PROGRESSION
    return features, 2.0 * (progression - low) / (high - low) - 1.0


LOADERS = {
    "breast_cancer": _breast_cancer,
    "diabetes": _diabetes,
    "digits": _digits,
    "digits_classes": _digits_classes,
}
