"""What a comparison at equal privacy found: rows, the winner for an observer, a table.

Within one observer and one epsilon every row with a guarantee satisfies the same (epsilon, delta), so rows may be ranked by their
error. All rows of a comparison use the same random numbers repeat by repeat. Two rows are therefore compared by the differences
x_r - y_r of their repeats r: with D their mean and S the standard error of D, the smaller one wins when D > 2 S, else it is a tie.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import filterfalse
from typing import Any

import numpy as np

from sottovoce.accounting import Guarantee
from sottovoce.errors import ConfigError
from sottovoce.noise import Noise
from sottovoce.reprs import short_repr

STANDARD_ERRORS = 2.0  # a smaller distance is a tie
NO_GUARANTEE = "no guarantee"
SHOWN = 4  # a sentence about a tie names so many, and counts the others


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measured:
    """One measure of one row."""

    per_repeat: np.ndarray  # [repeats]
    theory: float | None  # the exact expectation; None where there is none

    @property
    def value(self) -> float:
        """The mean over repeats."""
        return float(self.per_repeat.mean())

    @property
    def standard_error(self) -> float | None:
        """Of the mean; None for a single repeat."""
        return _standard_error(self.per_repeat)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Row:
    """One algorithm with one scheme, calibrated for one observer at one epsilon.

    Attributes:
        observer: for whom epsilon holds; None for the reference without noise.
        algorithm: its label.
        scheme: its label.
        epsilon: asked for; infinite for the reference without noise.
        noise: the calibrated noise; None where no guarantee exists.
        std: standard deviation of one coordinate of one source of that noise.
        guarantee: what holds at that noise; its epsilon(delta) is `epsilon`.
        epsilon_of_repeats: what all repeats together would give away, at the same delta; None where it is not computed.
        reason: why it holds, or why there is none.
        measured: measure -> numbers; empty where no guarantee exists.
    """

    observer: str | None
    algorithm: str
    scheme: str
    epsilon: float
    noise: Noise | None
    std: float | None
    guarantee: Guarantee | None
    epsilon_of_repeats: float | None
    reason: str
    measured: Mapping[str, Measured]

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def pair(self) -> tuple[str, str]:
        """Its algorithm and its scheme."""
        return self.algorithm, self.scheme

    @property
    def possible(self) -> bool:
        """Whether some amount of this noise gives the guarantee asked for."""
        return self.noise is not None

    @property
    def scale(self) -> float | None:
        """The scale of the calibrated law: the standard deviation of a Gaussian, b of the Laplace laws."""
        return None if self.noise is None or self.noise.law is None else self.noise.law.scale

    @property
    def law(self) -> str | None:
        """The name of the calibrated law."""
        return None if self.noise is None or self.noise.law is None else type(self.noise.law).__name__

    def describe(self) -> dict[str, Any]:
        """Plain values for JSON; an infinite epsilon is null."""
        guarantee = self.guarantee
        return {
            "observer": self.observer,
            "algorithm": self.algorithm,
            "scheme": self.scheme,
            "epsilon": _finite(self.epsilon),
            "epsilon_of_repeats": _finite(self.epsilon_of_repeats),
            "law": self.law,
            "scale": self.scale,
            "std": self.std,
            "validity": None if guarantee is None else guarantee.validity,
            "agent": None if guarantee is None else guarantee.agent,
            "mu": None if guarantee is None else _finite(guarantee.mu),
            "linear_mu": None if guarantee is None else _finite(guarantee.linear_mu),
            "reason": self.reason,
            "measures": {
                name: {"value": found.value, "standard_error": found.standard_error, "theory": found.theory}
                for name, found in self.measured.items()
            },
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """Which (algorithm, scheme) has the smallest error for one observer at one epsilon.

    Attributes:
        observer: for whom epsilon holds.
        measure: the error.
        epsilon: the same for all.
        best: the smallest first, with all that are not told apart from it; empty when no scheme has a guarantee.
        value: the smallest error.
        beaten: the others, the smallest first.
        impossible: those without a guarantee.
    """

    observer: str
    measure: str
    epsilon: float
    best: tuple[tuple[str, str], ...]
    value: float | None
    beaten: tuple[tuple[str, str], ...]
    impossible: tuple[tuple[str, str], ...]

    @property
    def tie(self) -> bool:
        """Whether several are not told apart."""
        return len(self.best) > 1

    @property
    def verdict(self) -> str:
        """Who wins, in words."""
        if not self.best:
            return "no scheme has a guarantee"
        if self.tie:
            more = [f"{len(self.best) - SHOWN} more"] if len(self.best) > SHOWN else []
            return f"a tie between {_listed([*map(_pair, self.best[:SHOWN]), *more])}"
        return f"{_pair(self.best[0])} wins" + ("" if self.beaten else ", the only one with a guarantee,")

    def __str__(self) -> str:
        """One sentence for people."""
        value = "" if self.value is None else f" with {self.value:.3g}"
        return f"{self.observer}, epsilon = {self.epsilon:g}, {self.measure}: {self.verdict}{value}."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Comparison:
    """Schemes at the same epsilon, for the same observers.

    Attributes:
        rows: every observer, algorithm, scheme and epsilon.
        references: every algorithm without noise (epsilon is infinite).
        epsilons: rising.
        delta: the same for all.
        measures: errors; the smallest is the best.
        tail: rounds averaged over, at the end of the run.
        notes: what the numbers rest on.
        description: what was run, as plain values.
    """

    rows: tuple[Row, ...]
    references: tuple[Row, ...]
    epsilons: tuple[float, ...]
    delta: float
    measures: tuple[str, ...]
    tail: int
    notes: tuple[str, ...]
    description: Mapping[str, Any]

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def observers(self) -> tuple[str, ...]:
        """Their names, in order."""
        return tuple(dict.fromkeys(row.observer for row in self.rows if row.observer is not None))

    def winner(
        self, observer: object, measure: str, epsilon: float | None = None, *, algorithm: str | None = None
    ) -> Winner:
        """The smallest error at equal privacy; a tie is said to be one.

        Args:
            observer: an observer or its name.
            measure: one of `measures`.
            epsilon: one of `epsilons`; None when there is only one.
            algorithm: rank the schemes of this one only; None ranks all.

        Raises:
            ConfigError: something that was not compared, or a single repeat, which has no standard error.
        """
        name, asked = str(observer), self._epsilon(epsilon)
        _known("observer", name, self.observers)
        _known("measure", measure, self.measures)
        _known("algorithm", algorithm, [None, *(row.algorithm for row in self.references)])
        chosen = self._rows(name, asked, algorithm)
        ranked = sorted(filter(_possible, chosen), key=lambda row: row.measured[measure].value)
        best = [row for row in ranked if not _told_apart(ranked[0], row, measure)]
        return Winner(
            observer=name,
            measure=measure,
            epsilon=asked,
            best=tuple(row.pair for row in best),
            value=ranked[0].measured[measure].value if ranked else None,
            beaten=tuple(row.pair for row in ranked if row not in best),
            impossible=tuple(row.pair for row in filterfalse(_possible, chosen)),
        )

    def _rows(self, observer: str, epsilon: float, algorithm: str | None) -> list[Row]:
        """The rows of one observer at one epsilon, of one algorithm or of all."""
        here = [row for row in self.rows if (row.observer, row.epsilon) == (observer, epsilon)]
        return [row for row in here if algorithm in (None, row.algorithm)]

    def winners(self) -> list[Winner]:
        """The winner for every observer, measure and epsilon."""
        return [
            self.winner(observer, measure, epsilon)
            for observer in self.observers
            for measure in self.measures
            for epsilon in self.epsilons
        ]

    def sentences(self) -> list[str]:
        """Who wins, one sentence per observer and measure."""
        return [
            _sentence([self.winner(observer, measure, epsilon) for epsilon in self.epsilons])
            for observer in self.observers
            for measure in self.measures
        ]

    def table(self, observer: object = None) -> str:
        """The rows of one observer, or of all, as text with the notes below."""
        names = self.observers if observer is None else (str(observer),)
        parts = []
        for name in names:
            lines = [name, aligned([self.header, *self.lines(name)])]
            parts.append("\n".join([*lines, *self.reasons(name)]))
        return "\n\n".join([*parts, "\n".join(self.notes)])

    @property
    def header(self) -> list[str]:
        """The names of the columns of `lines`."""
        return ["algorithm", "scheme", "epsilon", "law", "scale", "validity", *self.measures]

    def lines(self, observer: str) -> list[list[str]]:
        """The rows of one observer as text, value +- standard error (exact expectation); without a guarantee at any epsilon, one line."""
        _known("observer", observer, self.observers)
        rows = [row for row in self.rows if row.observer == observer]
        possible = {row.pair for row in rows if row.possible}
        lines = []
        for row in rows:
            if row.pair in possible:
                lines.append(self._line(row))
            elif row.epsilon == self.epsilons[0]:
                lines.append([*self._line(row)[:2], "any", *self._line(row)[3:]])
        return lines + [self._line(row) for row in self.references]

    def by_epsilon(self, observer: str, measure: str) -> list[list[str]]:
        """One measure of one observer as text: a line of column names, then one per scheme and algorithm with a column per epsilon.

        Who has no guarantee at any epsilon is left out; `reasons` lists them.
        """
        _known("observer", observer, self.observers)
        _known("measure", measure, self.measures)
        lines: dict[tuple[str, str], list[str]] = {}
        for row in self.rows:
            if row.observer == observer:
                line = lines.setdefault((row.scheme, row.algorithm), [row.scheme, row.algorithm])
                line.append(_number(row.measured[measure]) if row.possible else NO_GUARANTEE)
        clear = [
            [row.scheme, row.algorithm, *[_number(row.measured[measure])] * len(self.epsilons)]
            for row in self.references
        ]
        shown = [line for line in lines.values() if set(line[2:]) != {NO_GUARANTEE}]
        return [["scheme", "algorithm", *(f"epsilon = {epsilon:g}" for epsilon in self.epsilons)], *shown, *clear]

    def reasons(self, observer: str) -> list[str]:
        """Why some have no guarantee, one sentence per reason."""
        found: dict[str, dict[str, None]] = {}
        for row in self.rows:
            if row.observer == observer and not row.possible:
                found.setdefault(row.reason, {})[_pair(row.pair)] = None
        return [f"No guarantee for {_listed(list(names))}: {reason}" for reason, names in found.items()]

    def _line(self, row: Row) -> list[str]:
        fixed = [row.algorithm, row.scheme, "inf" if math.isinf(row.epsilon) else f"{row.epsilon:g}"]
        if not row.possible:
            return [*fixed, "", "", NO_GUARANTEE, *("" for _ in self.measures)]
        validity = "reference" if row.guarantee is None else row.guarantee.validity
        scale = "" if row.scale is None else f"{row.scale:.4g}"
        return [*fixed, row.law or "", scale, validity, *(_number(row.measured[name]) for name in self.measures)]

    def describe(self) -> dict[str, Any]:
        """Everything as plain values for JSON."""
        return {
            **self.description,
            "delta": self.delta,
            "epsilons": list(self.epsilons),
            "measures": list(self.measures),
            "tail": self.tail,
            "notes": list(self.notes),
            "rows": [row.describe() for row in self.rows],
            "references": [row.describe() for row in self.references],
        }

    def _epsilon(self, epsilon: float | None) -> float:
        if epsilon is None:
            if len(self.epsilons) > 1:
                raise ConfigError(f"several epsilons were compared; name one of {', '.join(map(str, self.epsilons))}.")
            return self.epsilons[0]
        if epsilon not in self.epsilons:
            raise ConfigError(
                f"epsilon = {epsilon!r} was not compared; choose from {', '.join(map(str, self.epsilons))}."
            )
        return epsilon


def _possible(row: Row) -> bool:
    return row.possible


def _sentence(winners: Sequence[Winner]) -> str:
    """The winners of one observer and measure at all epsilons, neighbouring equal ones together."""
    groups: list[list[Winner]] = []
    for found in winners:
        if groups and set(groups[-1][0].best) == set(found.best):
            groups[-1].append(found)
        else:
            groups.append([found])
    parts = []
    for group in groups:
        where = "at every epsilon" if len(groups) == 1 else f"at epsilon = {_listed([f'{w.epsilon:g}' for w in group])}"
        parts.append(f"{group[0].verdict} {where}")
    return f"{winners[0].observer}, {winners[0].measure}: {'; '.join(parts)}."


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _told_apart(smaller: Row, larger: Row, measure: str) -> bool:
    if smaller is larger:
        return False
    differences = larger.measured[measure].per_repeat - smaller.measured[measure].per_repeat
    error = _standard_error(differences)
    if error is None:
        raise ConfigError(
            "one repeat has no standard error, so no winner can be named. Compare with repeats of 2 or more."
        )
    return float(differences.mean()) > STANDARD_ERRORS * error


def _standard_error(values: np.ndarray) -> float | None:
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else None


def _known(what: str, value: str | None, known: Sequence[str | None]) -> None:
    if value not in known:
        named = ", ".join(repr(each) for each in known if each is not None)
        raise ConfigError(f"{what} {value!r} was not compared; choose from {named}.")


def _number(found: Measured) -> str:
    error = found.standard_error
    # Without noise the repeats differ by rounding alone, which is no standard error worth showing.
    shown = "" if error is None or error <= 1e-9 * abs(found.value) else f" +- {error:.1g}"
    theory = "" if found.theory is None else f" ({found.theory:.3g})"
    return f"{found.value:.3g}{shown}{theory}"


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Lines of cells as text with straight columns."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _pair(pair: tuple[str, str]) -> str:
    return f"{pair[1]} ({pair[0]})"


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
