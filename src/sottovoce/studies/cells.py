"""What studies are made of: cells with a number each, and configurations in which keys are replaced.

A key is "section.key", or a section, into which a table is merged; a table with its own `kind` replaces the section. The key "config" does
this for every section of a table of sections.
"""

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sottovoce.errors import ConfigError
from sottovoce.experiments import Experiment, build, parse, refuse_turns
from sottovoce.wording import brief_value

CONFIG = "config"  # the key whose values change several sections

Cells = dict[str, dict[str, dict[str, "Cell"]]]  # [measure][series][place]
Say = Callable[[str], None]  # told what comes next


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One number of a study."""

    value: float
    error: float  # standard error over repeats; 0 for a single repeat
    theory: float | None = None


class StudyFile(NamedTuple):
    """The file that a study stands in: its configuration, its name in messages, and who is told what comes next."""

    base: Mapping[str, Any]
    source: str
    say: Say


def computed(value: float) -> Cell:
    """A number that was computed, and has no error."""
    return Cell(value=float(value), error=0.0)


def mean_over_repeats(values: np.ndarray, theory: float | None = None) -> Cell:
    """The mean over repeats; its standard error is that over repeats."""
    return Cell(value=float(values.mean()), error=float(values.std(ddof=1)) / len(values) ** 0.5, theory=theory)


def empty_cells(measures: Iterable[str], lines: Iterable[str]) -> Cells:
    """A table for every measure, with a row for every line, to be filled place by place."""
    names = list(lines)
    return {measure: {line: {} for line in names} for measure in measures}


def changed_tables(base: Mapping[str, Any], *changes: Mapping[str, Any]) -> dict[str, Any]:
    """A base configuration with keys replaced, one change after the other."""
    data = copy.deepcopy(dict(base))
    for change in changes:
        for key, value in change.items():
            replace_key(data, key, value)
    return data


def changed(base: Mapping[str, Any], *changes: Mapping[str, Any], source: str) -> Experiment:
    """The experiment of a base configuration with keys replaced; `source` says in messages where it came from."""
    config = parse(changed_tables(base, *changes), source=source)
    refuse_turns(config.algorithm.turns, "a study")
    return build(config)


def replace_key(data: dict[str, Any], key: str, value: Any) -> None:
    """Set a key of nested tables, merge a table into a section, or replace the section."""
    if key == CONFIG:
        for own, table in value.items():
            replace_key(data, own, table)
        return
    section, _, name = key.partition(".")
    if not isinstance(data.get(section, {}), dict):
        raise ConfigError(f"[{section}] is {brief_value(data[section])}, no table, so {key!r} cannot be set in it.")
    if name:
        data.setdefault(section, {})[name] = copy.deepcopy(value)
    elif "kind" in value:
        data[section] = copy.deepcopy(value)
    else:
        data[section] = {**data.get(section, {}), **copy.deepcopy(value)}


def sets_key(own: str, value: Any, key: str) -> bool:
    """Whether replacing `own` by `value` leaves nothing of what the base says at `key`, a section or "section.key"."""
    if own == CONFIG:
        return any(sets_key(section, table, key) for section, table in value.items())
    section, _, name = key.partition(".")
    if "." in own:
        return own == key
    return own == section and ("kind" in value or (bool(name) and name in value))
