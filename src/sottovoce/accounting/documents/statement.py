"""What a document states: its number, where it is printed, and whether it holds.

A `DocumentStatement` is not a guarantee. It carries somebody else's number and our reading of it; nothing else in the
library accepts one in place of a guarantee. The checks below refuse inputs for which a printed formula says nothing.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sottovoce.errors import ConfigError

Kind = Literal[
    "epsilon", "sensitivity", "probability", "mutual-information", "error-bound", "budget", "share", "variance"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentStatement:
    """One number that a document states; `print` shows it as a sentence.

    Attributes:
        value: the number.
        kind: what the number is.
        source: the document and the equation.
        upper_bound: True if the value is proved to be on the safe side of what the source claims, for the case asked
            about.
        verdict: for whom the statement is made, and why it holds or does not.
    """

    value: float
    kind: Kind
    source: str
    upper_bound: bool
    verdict: str

    def __str__(self) -> str:
        holds = "which holds" if self.upper_bound else "which does not hold as claimed"
        return f"{self.source} states {self.kind} = {self.value:.6g}, {holds}: {self.verdict}."


def positive(value: float, name: str) -> float:
    """Return a finite number above 0 as a float; refuse everything else."""
    if not _is_real(value) or not 0.0 < value < math.inf:
        raise ConfigError(f"{name} = {value!r}; a finite number above 0 is needed.")
    return float(value)


def non_negative(value: float, name: str) -> float:
    """Return a finite number of at least 0 as a float; refuse everything else."""
    if not _is_real(value) or not 0.0 <= value < math.inf:
        raise ConfigError(f"{name} = {value!r}; a finite number of at least 0 is needed.")
    return float(value)


def fraction(value: float, name: str) -> float:
    """Return a number strictly between 0 and 1 as a float; refuse everything else."""
    if not _is_real(value) or not 0.0 < value < 1.0:
        raise ConfigError(f"{name} = {value!r}; a number above 0 and below 1 is needed.")
    return float(value)


def count(value: int, name: str) -> int:
    """Return a whole number of at least 1; refuse everything else."""
    given: object = value
    if not isinstance(given, int | np.integer) or isinstance(given, bool) or given < 1:
        raise ConfigError(f"{name} = {value!r}; a whole number of at least 1 is needed.")
    return int(given)


def choice(value: str, allowed: tuple[str, ...], name: str) -> str:
    """Return the value if it is one of the allowed words."""
    if value not in allowed:
        raise ConfigError(f"{name} = {value!r}; choose one of {', '.join(map(repr, allowed))}.")
    return value


def _is_real(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
