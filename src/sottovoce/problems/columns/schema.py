"""What the columns of a table mean: declared in public, never estimated from the records.

A schema is a value that is complete without data, so that those who own the data can agree on it beforehand, and so that nothing in it
tells about a record. It turns a table into the numbers that a model takes: a number with bounds is clipped to them and scaled to [-1, 1],
yes and no become 1 and 0, a category becomes one column of zeros and ones for each of its values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError
from sottovoce.numbers import is_whole
from sottovoce.problems.columns.coding import Value, numbers, positions
from sottovoce.problems.columns.column import Column, fill_in_wrong, scaled, shown
from sottovoce.problems.columns.table import Table, table
from sottovoce.problems.complaints import Complaint, of_cells, of_column, refuse
from sottovoce.problems.loaders import add_intercept, unit_norm
from sottovoce.reprs import short_repr
from sottovoce.wording import brief, brief_value, suggest

Floats = NDArray[np.float64]

INTERCEPT = "(intercept)"
MOST_FEATURES = 100_000


@dataclass(frozen=True, kw_only=True)
class Schema:
    """What the columns of a table mean.

    The order of the model's inputs is that of `bounds`, `unscaled`, `booleans`, `categories`.

    Attributes:
        target: the column to predict; None where there is none (mean estimation).
        labels: the classes, the negative one first; None with `positive`, or when a number is predicted.
        positive: the one label that counts as yes, everything else as no.
        owner: the column that names who holds a record; None: one file or frame for each.
        person: the column that names whom a record is about; None: protection is of one row.
        records_per_person: the most records that a person may have; a table with more is refused.
        bounds: name -> public range; values outside are clipped. Bounds of the target scale it, too.
        unscaled: numbers that are taken as they are.
        booleans: columns of yes and no.
        categories: name -> declared values.
        unknown: "refuse" or "other": what becomes of values of a category that are not declared.
        missing: name -> what stands for an empty cell; for a category one of its values.
        indicators: columns of `missing` for which the model is told that the cell was empty.
        drop: columns that are not used.
        unit_norm: whether every record is divided by its own norm.
        intercept: whether one more input is always 1.

    Raises:
        ConfigError: names that are declared twice, ranges or fill-ins that cannot be, or nothing to learn from.
    """

    target: str | None = None
    labels: tuple[Value, ...] | None = None
    positive: Value | None = None
    owner: str | None = None
    person: str | None = None
    records_per_person: int | None = None
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    unscaled: tuple[str, ...] = ()
    booleans: tuple[str, ...] = ()
    categories: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    unknown: Literal["refuse", "other"] = "refuse"
    missing: Mapping[str, Value] = field(default_factory=dict)
    indicators: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    unit_norm: bool = False
    intercept: bool = False

    def __repr__(self) -> str:
        return short_repr(self)

    def __post_init__(self) -> None:
        for name in ("unscaled", "booleans", "indicators", "drop", "labels"):
            object.__setattr__(self, name, _texts(name, getattr(self, name), any_value=name == "labels"))
        object.__setattr__(self, "bounds", {name: _range(name, limits) for name, limits in dict(self.bounds).items()})
        values = {name: _values(f"categories of {brief(name)!r}", each) for name, each in dict(self.categories).items()}
        object.__setattr__(self, "categories", values)
        object.__setattr__(self, "missing", dict(self.missing))
        if found := [*self._names_wrong(), *self._counts_wrong(), *self._target_wrong(), *self._missing_wrong()]:
            raise ConfigError(f"schema: {'; '.join(found)}.")

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that become inputs of the model, in order."""
        other = self.unknown == "other"
        ranges: dict[str, tuple[float, float] | None] = {
            name: limits for name, limits in self.bounds.items() if name != self.target
        }
        made = [
            Column(name=name, kind="number", bounds=limits, **self._fill(name))
            for name, limits in (ranges | dict.fromkeys(self.unscaled)).items()
        ]
        made += [Column(name=name, kind="boolean", **self._fill(name)) for name in self.booleans]
        made += [
            Column(name=name, kind="category", categories=tuple(values), other=other, **self._fill(name))
            for name, values in self.categories.items()
        ]
        return tuple(made)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the model's inputs, in order."""
        names = tuple(name for column in self.columns for name in column.features)
        return (*names, INTERCEPT) if self.intercept else names

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Names of the classes, the negative one first; None when a number is predicted."""
        if self.positive is not None:
            return f"not {shown(self.positive)}", shown(self.positive)
        return None if self.labels is None else tuple(map(shown, self.labels))

    @property
    def target_bounds(self) -> tuple[float, float] | None:
        """The range by which the target is scaled; None: it is taken as it is."""
        return None if self.target is None else self.bounds.get(self.target)

    def inputs(self, data: Any) -> Floats:
        """What a model takes for these records, [N, len(features)]; the same for learning and for predicting.

        Args:
            data: a Table, a DataFrame or a dict of columns. It may have the target, the owner, the person and dropped columns too.

        Raises:
            BadTable: with everything that does not fit.
        """
        complaints: list[Complaint] = []
        found = self.coded_inputs(table(data), complaints)
        refuse(complaints)
        return found

    def targets(self, data: Any) -> Floats:
        """What is to be predicted [N]: -1 and 1 for two classes, 0, 1, .. for more; a number, scaled to [-1, 1] where it has bounds.

        Raises:
            BadTable: with everything that does not fit.
        """
        complaints: list[Complaint] = []
        found = self.coded_targets(table(data), complaints)
        refuse(complaints)
        return found

    def in_units_of_target(self, values: Any) -> Floats:
        """Predicted numbers as the table writes them: the scaling of the target undone."""
        scaled_values = np.asarray(values, dtype=np.float64)
        if self.target_bounds is None:
            return scaled_values
        low, high = self.target_bounds
        return low + (scaled_values + 1.0) * (high - low) / 2.0

    def coded_inputs(self, held: Table, complaints: list[Complaint]) -> Floats:
        """As `inputs`, with what is wrong added to `complaints`."""
        complaints += self._strangers(held)
        present = [column for column in self.columns if column.name in held.columns]
        parts = [column.coded(held, complaints) for column in present]
        rows = np.column_stack(parts) if parts else np.zeros((len(held), 1))
        if self.unit_norm:
            rows = unit_norm(rows)
        return add_intercept(rows, keep_norm=self.unit_norm) if self.intercept else rows

    def coded_targets(self, held: Table, complaints: list[Complaint]) -> Floats:
        """As `targets`, with what is wrong added to `complaints`."""
        if self.target is None:
            return np.zeros(len(held))
        if self.target not in held.columns:
            complaints.append(_absent(held, self.target, "the column to predict is not there"))
            return np.zeros(len(held))
        values = (self.positive,) if self.positive is not None else self.labels
        if values is None:
            found, empty = numbers(held, self.target, complaints)
            found = found if self.target_bounds is None else scaled(found, self.target_bounds)
        else:
            places, empty = positions(held, self.target, values)
            if self.positive is None:
                complaints += of_cells(
                    held.source, self.target, (places < 0) & ~empty, held.rows, problem="none of the declared labels",
                    advice="correct them, or declare all labels: labels = [..]",
                )  # fmt: skip
            found = places.astype(np.float64)
            if self.classes is not None and len(self.classes) == 2:
                found = np.where(found == len(values) - 1, 1.0, -1.0)
        complaints += of_cells(
            held.source, self.target, empty, held.rows, problem="nothing to predict", advice="remove these rows"
        )
        return found

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; what is not declared is left out."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: _jsonable(value) for name, value in plain.items() if value not in (None, (), {}, False)}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Schema:
        """What `as_dict` gave.

        Raises:
            ConfigError: keys that no schema has, or values that none can have.
        """
        known = {each.name for each in fields(cls)}
        if strange := [name for name in plain if name not in known]:
            raise ConfigError(
                f"schema: unknown key {brief_value(strange[0])}{suggest(str(strange[0]), sorted(known))}."
            )
        _check_types(plain)
        tuples: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()
        }
        return cls(**tuples)

    def _fill(self, name: str) -> dict[str, Any]:
        return {"missing": self.missing.get(name), "indicator": name in self.indicators}

    def _strangers(self, held: Table) -> list[Complaint]:
        """Columns that are declared and not there, or there and not declared."""
        found = [
            _absent(held, each.name, "this column is not there")
            for each in self.columns
            if each.name not in held.columns
        ]
        known = {each.name for each in self.columns} | {self.target, self.owner, self.person} | set(self.drop)
        found += [
            of_column(
                held.source, name, problem="nothing is declared about this column",
                advice="declare it (bounds, booleans, categories, unscaled), or name it in drop",
            )
            for name in held.columns
            if name not in known
        ]  # fmt: skip
        return found

    def _names_wrong(self) -> Iterable[str]:
        """Names that are declared twice."""
        roles: list[tuple[str, Iterable[str | None]]] = [("target", [self.target]), ("owner", [self.owner])]
        roles += [("person", [self.person]), ("drop", self.drop), ("bounds", self.bounds.keys() - {self.target})]
        roles += [("unscaled", self.unscaled), ("booleans", self.booleans), ("categories", self.categories)]
        seen: dict[str, str] = {}
        for role, names in roles:
            for name in names:
                if name is not None and name in seen:
                    yield f"{brief(name)!r} is declared in {seen[name]} and in {role}; keep one"
                elif name is not None:
                    seen[name] = role

    def _counts_wrong(self) -> Iterable[str]:
        """Numbers of features and of records of a person that cannot be."""
        if not self.columns:
            yield "no column to learn from is declared; name them in bounds, booleans, categories or unscaled"
        elif len(self.features) > MOST_FEATURES:
            yield f"{len(self.features)} features, and {MOST_FEATURES} are the limit"
        if (self.person is None) != (self.records_per_person is None):
            yield "person and records_per_person (the most records of one person) are given together"
        if self.records_per_person is not None and not is_whole(self.records_per_person, 1):
            yield f"records_per_person is a whole number of at least 1; given {brief_value(self.records_per_person)}"

    def _target_wrong(self) -> Iterable[str]:
        if self.labels is not None and self.positive is not None:
            yield "labels and positive say the same; keep one"
        if (self.labels is not None or self.positive is not None) and self.target is None:
            yield "labels and positive speak of the target, which is not named"
        if self.labels is not None and len(self.labels) < 2:
            yield "labels needs two or more"
        if self.classes is not None and self.target_bounds is not None:
            yield f"bounds of the target {brief(str(self.target))!r} do not go with labels"
        if self.unknown not in ("refuse", "other"):
            yield f'unknown is "refuse" or "other"; given {brief_value(self.unknown)}'

    def _missing_wrong(self) -> Iterable[str]:
        columns = {column.name: column for column in self.columns}
        for name, value in self.missing.items():
            if name not in columns:
                yield f"missing names {brief(name)!r}, which is no declared feature{suggest(name, columns)}".rstrip("?")
            elif wrong := fill_in_wrong(columns[name], value):
                yield f"missing of {brief(name)!r}: {wrong}"
        for name in self.indicators:
            if name not in self.missing:
                yield f"indicators names {brief(name)!r}, for which missing says nothing"


def _absent(held: Table, name: str, problem: str) -> Complaint:
    strangers = suggest(name, held.columns) if len(held.columns) <= 20 else suggest(name, [*held.columns][:20])
    return of_column(held.source, name, problem=problem, advice=f"correct the name{strangers}".rstrip("?"))


def _range(name: str, limits: Any) -> tuple[float, float]:
    pair = isinstance(limits, Sequence) and not isinstance(limits, str) and len(limits) == 2
    if not pair or not all(isinstance(each, int | float) and not isinstance(each, bool) for each in limits):
        raise ConfigError(
            f"schema: bounds of {brief(name)!r} are two numbers, [low, high]; given {brief_value(limits)}."
        )
    low, high = map(float, limits)
    if not (math.isfinite(low) and math.isfinite(high) and low < high and math.isfinite(high - low)):
        raise ConfigError(f"schema: bounds of {brief(name)!r} need finite low < high; given {brief_value(limits)}.")
    return low, high


def _values(what: str, given: Any) -> tuple[Value, ...]:
    """Declared values, each once."""
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        raise ConfigError(f"schema: {what} are a list of values; given {brief_value(given)}.")
    texts: list[str] = []
    for value in given:
        if not isinstance(value, Value) or (isinstance(value, float) and not math.isfinite(value)):
            raise ConfigError(
                f"schema: {what}: text, numbers, true and false can be declared; given {brief_value(value)}."
            )
        text = shown(value)
        if not text or text != text.strip() or not text.isprintable():
            raise ConfigError(
                f"schema: {what} hold {brief_value(text)}; a value is printable text without spaces around it."
            )
        if text in texts:
            raise ConfigError(f"schema: {what} hold {brief(text)!r} twice; keep one.")
        texts.append(text)
    return tuple(given)


def _texts(name: str, given: Any, *, any_value: bool) -> tuple[Any, ...] | None:
    if given is None:
        return None
    if given in ((), []):
        return ()
    values = _values(name, list(given) if isinstance(given, tuple) else given)
    if not any_value and not all(isinstance(value, str) for value in values):
        raise ConfigError(f"schema: {name} holds names of columns; given {brief_value(given)}.")
    return values


def _check_types(plain: Mapping[str, Any]) -> None:
    kinds = {
        "target": str, "owner": str, "person": str, "unknown": str, "unit_norm": bool, "intercept": bool,
        "bounds": Mapping, "categories": Mapping, "missing": Mapping, "records_per_person": int, "positive": Value,
        "unscaled": Sequence, "booleans": Sequence, "indicators": Sequence, "drop": Sequence, "labels": Sequence,
    }  # fmt: skip
    for name, value in plain.items():
        keys_are_text = not isinstance(value, Mapping) or all(isinstance(key, str) for key in value)
        if not isinstance(value, kinds[name]) or not keys_are_text:  # type: ignore[arg-type]
            raise ConfigError(f"schema: {name} cannot be {brief_value(value)}.")


def _jsonable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _jsonable(inner) for key, inner in value.items()}
    return [_jsonable(inner) for inner in value] if isinstance(value, tuple) else value
