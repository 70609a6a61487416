"""In which rounds the protected unit takes part.

"every-round" for an agent, or a record used by every full gradient; "once" for a record that enters one round's batch; `cyclic` for
one that enters at most `times` rounds, `gap` apart, as in a run with `sv.problems.cyclic_batch(gap)`. The pattern is fixed before the run and does not depend on data; the worst placement
counts. `poisson` says that every record enters every batch independently with probability `rate`, which amplifies privacy, but only
where the points at which gradients are taken are public (docs/guarantees.md).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from sottovoce.errors import ConfigError
from sottovoce.numbers import checked
from sottovoce.problems import Cyclic


@dataclass(frozen=True, slots=True)
class Poisson:
    """Every record enters every round with this probability, independently."""

    rate: float
    record_norm: float | None = None


Participation = Literal["every-round", "once"] | Cyclic | Poisson


def cyclic(times: int, gap: int) -> Cyclic:
    """Participation in at most `times` rounds that are `gap` rounds apart, starting anywhere."""
    return Cyclic(times, gap)


def poisson(rate: float, *, record_norm: float | None = None) -> Poisson:
    """Participation by secret independent coin flips: each record in each round with probability `rate`.

    Args:
        rate: the probability.
        record_norm: for adjacency "replace", the largest l2 norm of ONE record's part in a gradient (C / B for clip C and a fixed divisor
            B). That two records differ by at most the sensitivity does not bound it, and amplification needs it. With "add-remove" the
            sensitivity itself is that norm.
    """
    norm = None if record_norm is None else checked("record_norm", record_norm, "(0, inf)")
    return Poisson(checked("rate", rate, "(0, 1]"), norm)


def describe_participation(participation: Participation) -> str:
    """The participation in words."""
    match participation:
        case Cyclic(times, gap):
            return f"{times} rounds, {gap} apart"
        case Poisson(rate, _):
            return f"every round with probability {rate:g}"
        case _:
            return str(participation)


def check_fits(participation: Participation, rounds: int) -> None:
    """Refuse an unknown participation, and one that does not fit into the rounds.

    Raises:
        ConfigError: saying which.
    """
    if isinstance(participation, Poisson) or (
        isinstance(participation, str) and participation in ("every-round", "once")
    ):
        return
    if not isinstance(participation, Cyclic):
        raise ConfigError(
            f"participation = {participation!r}; use 'every-round', 'once', sv.accounting.cyclic(times, gap) or sv.accounting.poisson(rate)."
        )
    length = (participation.times - 1) * participation.gap + 1
    if length > rounds:
        raise ConfigError(
            f"cyclic(times={participation.times}, gap={participation.gap}) spans {length} rounds but the run has {rounds}. Use fewer times, "
            f"or a smaller gap."
        )


def patterns(participation: Participation, rounds: int) -> np.ndarray:
    """[A, T] bool: every placement of the participation over the rounds.

    Raises:
        ConfigError: an unknown participation, or one that does not fit into the rounds.
    """
    check_fits(participation, rounds)
    match participation:
        case "once":
            return np.eye(rounds, dtype=bool)
        case Cyclic(times, gap):
            length = (times - 1) * gap + 1
            # Where the run ends before the last of `times` turns, a record that begins late takes part less often, and in rounds of its own.
            starts = [first for first in range(rounds) if first + length <= rounds or first < gap]
            made = np.zeros((len(starts), rounds), dtype=bool)
            for row, first in zip(made, starts, strict=True):
                row[first : first + length : gap] = True
            return made
        case _:
            return np.ones((1, rounds), dtype=bool)
