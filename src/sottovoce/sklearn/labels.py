"""Labels as numbers: declared classes, or those found, which are then said to be public."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets

from sottovoce.errors import ConfigError

FOUND = "the classes are public: they were taken from the labels (declare them with classes=)"


class Labels(NamedTuple):
    """The classes, and which of them every record has."""

    classes: NDArray[Any]  # [C] sorted
    codes: NDArray[np.intp]  # [N] positions in `classes`
    premises: tuple[str, ...]


def labels_of(targets: NDArray[Any], declared: Any) -> Labels:
    """Number the labels.

    Args:
        targets: [N] labels of any type.
        declared: all classes there may be; None: those that occur.

    Raises:
        ConfigError: fewer than two classes, one declared twice, or a label that was not declared.
    """
    check_classification_targets(targets)
    classes = np.unique(targets if declared is None else np.asarray(declared))
    if declared is not None and len(classes) < len(declared):
        raise ConfigError(f"classes = {list(declared)!r} names a class twice. Name each once.")
    if len(classes) < 2:
        raise ConfigError(
            f"there is one class only, in {len(targets)} record(s); a classifier needs two. Declare those that may come: classes=[...]."
        )
    known = np.isin(targets, classes)
    if not known.all():
        raise ConfigError(
            f"{int((~known).sum())} label(s) are none of the declared classes, the first is that of record {int(np.argmin(known))} (from 0). "
            f"Declare all classes there may be, of the same type as the labels."
        )
    return Labels(classes, np.searchsorted(classes, targets), (FOUND,) if declared is None else ())
