"""From files or frames to the records of each agent: who holds them, by a column or by one file each, and whom they are about.

An agent is named by its value in the column `owner`, or by its file. Of persons only numbers are kept, one for each, in no order that
tells a name: whoever splits or counts needs to know which records belong together, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError
from sottovoce.problems.columns.schema import Schema
from sottovoce.problems.columns.table import Cells, Table, read_table, table
from sottovoce.problems.complaints import Complaint, of_cells, of_column, refuse
from sottovoce.problems.persons import person_keys
from sottovoce.wording import brief

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

TABLES = (".csv", ".parquet")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class AgentRecords:
    """The records of every agent, ready for a problem: `sv.problems.logistic_regression(*records.parts)`.

    Attributes:
        names: of the agents; None where the data do not say who holds a record.
        features: inputs of each agent's records, K arrays [n_k, d].
        targets: K arrays [n_k].
        persons: whom each record is about, as numbers, K arrays [n_k]; None where nothing says so.
        schema: what the columns mean.
        test: inputs [N, d] and targets [N] of records that were read for testing; None where none were.
    """

    names: tuple[str, ...] | None
    features: list[Floats]
    targets: list[Floats]
    persons: list[Whole] | None
    schema: Schema
    test: tuple[Floats, Floats] | None = None

    @property
    def parts(self) -> tuple[list[Floats], list[Floats]]:
        """Features and targets, as problems take them."""
        return self.features, self.targets

    def __repr__(self) -> str:
        total = sum(map(len, self.features))
        return f"AgentRecords({len(self.features)} agents, {total} records, {len(self.schema.features)} features)"


def read_records(data: Any, schema: Schema, *, test: Any = None) -> AgentRecords:
    """Read what agents hold.

    Args:
        data: a path of a .csv or .parquet file, a folder, a pattern such as "data/*.csv", a DataFrame (pandas, polars) or a dict of
            columns; or a list of these. With `schema.owner` that column says who holds a record; without it every file or frame of a
            list, folder or pattern is one agent, and a single file or frame is not split.
        schema: what the columns mean.
        test: a file, a frame or several, with records to test on; columns of owners are not needed there. Where it says whom its records
            are about, nobody may be among those learnt from.

    Raises:
        ConfigError: with everything that does not fit, of all files together.
    """
    held = _tables(data)
    complaints: list[Complaint] = []
    features = [schema.coded_inputs(each, complaints) for each in held]
    targets = [schema.coded_targets(each, complaints) for each in held]
    owners = _owners(held, schema, complaints)
    persons = _persons(held, schema, complaints)
    tested = None if test is None else _tested(_tables(test), held, schema, complaints)
    refuse(complaints)
    if schema.owner is None:
        split = len(held) > 1 or _is_many(data)
        names = _file_names(held) if split else None
        made = AgentRecords(names=names, features=features, targets=targets, persons=persons, schema=schema)
    else:
        made = _by_owner(schema, np.concatenate(owners), np.concatenate(features), np.concatenate(targets), persons)
    _check_persons(made)
    return replace(made, test=tested)


def files_of(source: str | Path | Sequence[str | Path], endings: Sequence[str] = TABLES) -> list[Path]:
    """The files that a path, a folder, a pattern or a list of paths names, sorted where no order was given.

    Raises:
        ConfigError: nothing is there, or a file is named twice.
    """
    listed = [source] if isinstance(source, str | Path) else list(source)
    found = [path for each in listed for path in _matching(each, endings)]
    for position, path in enumerate(found):
        if path in found[:position]:
            raise ConfigError(
                f"{brief(str(path), 200)} is named twice; its records would count twice, so name it once."
            )
    if not found:
        raise ConfigError("data names no file; give a path, a folder, a pattern or a list of paths.")
    return found


def is_pattern(source: str | Path) -> bool:
    """Whether a text names many files, as "data/*.csv" does."""
    return any(mark in str(source) for mark in "*?[")


def agent_names(files: Sequence[Path]) -> tuple[str, ...]:
    """The agents' names: those of their files without folder and ending.

    Raises:
        ConfigError: two files of one name, or a name that cannot be shown.
    """
    names = tuple(path.name.partition(".")[0] for path in files)
    for position, name in enumerate(names):
        if name in names[:position]:
            raise ConfigError(
                f"two files are named {brief(name)!r}, which would be two agents of one name; rename one."
            )
        if not _printable(name):
            raise ConfigError(f"a file is named {brief(name)!r}, which cannot stand in a table; rename it.")
    return names


def _matching(source: str | Path, endings: Sequence[str]) -> list[Path]:
    try:
        path = Path(source).expanduser()
        if path.is_dir():
            found = sorted(each for each in path.iterdir() if each.is_file() and each.suffix.lower() in endings)
        elif is_pattern(source) and not path.exists():
            anchor = Path(path.anchor) if path.is_absolute() else Path()
            found = sorted(each for each in anchor.glob(str(path.relative_to(anchor))) if each.is_file())
        else:
            return [path]
    except (OSError, ValueError, RuntimeError, NotImplementedError) as error:
        raise ConfigError(
            f"{brief(str(source), 200)}: cannot be looked for ({type(error).__name__}); write a path."
        ) from error
    if not found:
        raise ConfigError(
            f"{brief(str(source), 200)}: no file there; {', '.join(endings)} files are looked for, and paths are relative to the folder the "
            f"program was started in."
        )
    return found


def _is_many(data: Any) -> bool:
    """Whether data are written as one for each agent, be it a list of one."""
    if isinstance(data, str | Path):
        return is_pattern(data) or Path(data).expanduser().is_dir()
    return isinstance(data, list | tuple)


def _tables(data: Any) -> list[Table]:
    if isinstance(data, str | Path):
        return [read_table(path) for path in files_of(data)]
    if not isinstance(data, list | tuple):
        return [table(data)]
    held = []
    for position, each in enumerate(data):
        if isinstance(each, str | Path):
            held += [read_table(path) for path in files_of(each)]
        else:
            held.append(table(each, source=f"table {position}"))
    if not held:
        raise ConfigError("data is an empty list; give at least one file or frame.")
    if twice := [
        each.source for position, each in enumerate(held) if each.source in [other.source for other in held[:position]]
    ]:
        raise ConfigError(f"{brief(twice[0], 200)} is named twice; its records would count twice, so name it once.")
    return held


def _owners(held: Sequence[Table], schema: Schema, complaints: list[Complaint]) -> list[Cells]:
    """Who holds each record, as text; empty where a table is not split by a column."""
    found = _names_of(held, schema.owner, complaints, whose="owners", nobody="nobody holds the record")
    for each, names in found:
        strange = np.array([not _printable(name) for name in names.tolist()]) & (names != "")
        complaints += of_cells(
            each.source, str(schema.owner), strange, each.rows, problem="a name of more than 100 characters, or one that cannot be printed",
            advice="use a shorter name",
        )  # fmt: skip
    complaints += _alike([names for _, names in found], schema.owner)
    return [names for _, names in found]


def _alike(owners: Sequence[Cells], column: str | None) -> list[Complaint]:
    """One owner in two spellings: as two agents, each would have a part of what is to be protected together."""
    names = {name for part in owners for name in part.tolist()} - {""}
    alike = len(names) - len(set(person_keys(names)))
    problem = f"{alike} name(s) of owners are another owner's, written in another way"
    return [of_column("the data", column, problem=problem, advice="write each owner in one way")] if alike else []


def _persons(held: Sequence[Table], schema: Schema, complaints: list[Complaint]) -> list[Whole] | None:
    """Whom each record is about, as numbers that are the same in all tables."""
    found = _names_of(held, schema.person, complaints, whose="persons", nobody="about nobody")
    if len(found) != len(held):
        return None
    texts = [person_keys(names.tolist()) for _, names in found]
    _, first, places = np.unique(np.concatenate(texts).astype(str), return_index=True, return_inverse=True)
    # Numbered by their first records: numbered by their names, another name of one person would move others between learning and testing.
    numbers = np.argsort(np.argsort(first))[places]
    return np.split(numbers.astype(np.int64), np.cumsum([len(each) for each in texts])[:-1])


def _names_of(
    held: Sequence[Table], column: str | None, complaints: list[Complaint], *, whose: str, nobody: str
) -> list[tuple[Table, Cells]]:
    """The tables that have a column of names, each with these; no tables where no column is declared."""
    found = []
    for each in held if column is not None else ():
        if column not in each.columns:
            complaints.append(
                of_column(each.source, column, problem=f"the column of {whose} is not there", advice="correct its name")
            )
            continue
        names, advice = _as_text(each.columns[column]), "fill them in, or remove the rows"
        complaints += of_cells(each.source, column, names == "", each.rows, problem=nobody, advice=advice)
        found.append((each, names))
    return found


def _tested(
    held: Sequence[Table], learnt: Sequence[Table], schema: Schema, complaints: list[Complaint]
) -> tuple[Floats, Floats]:
    """Inputs and targets to test on."""
    features = [schema.coded_inputs(each, complaints) for each in held]
    targets = [schema.coded_targets(each, complaints) for each in held]
    known = {name for each in learnt for name in _names_in(each, schema.person)}
    for each in held:
        both = sum(name in known for name in _names_in(each, schema.person))
        if both:
            problem = f"{both} person(s) have records to learn from, too"
            complaints.append(
                of_column(each.source, schema.person, problem=problem, advice="keep a person's records on one side")
            )
    return np.concatenate(features), np.concatenate(targets)


def _names_in(held: Table, column: str | None) -> set[str]:
    return (
        set()
        if column is None or column not in held.columns
        else set(person_keys(_as_text(held.columns[column]).tolist())) - {""}
    )


def _by_owner(
    schema: Schema, owners: Cells, features: Floats, targets: Floats, persons: list[Whole] | None
) -> AgentRecords:
    names, places = np.unique(owners.astype(str), return_inverse=True)
    rows = [np.flatnonzero(places == k) for k in range(len(names))]
    about = None if persons is None else np.concatenate(persons)
    return AgentRecords(
        names=tuple(map(str, names)),
        features=[features[each] for each in rows],
        targets=[targets[each] for each in rows],
        persons=None if about is None else [about[each] for each in rows],
        schema=schema,
    )


def _check_persons(records: AgentRecords) -> None:
    """Refuse persons with more records than declared, or with records at two agents."""
    if records.persons is None or records.schema.records_per_person is None:
        return
    most = records.schema.records_per_person
    counts = [np.unique(part, return_counts=True) for part in records.persons]
    over = sum(int((count > most).sum()) for _, count in counts)
    everybody = np.concatenate([person for person, _ in counts])
    shared = len(everybody) - len(np.unique(everybody))
    found = []
    if over:
        found.append(
            of_column("the data", records.schema.person, problem=f"{over} person(s) have more than records_per_person = {most} records",
                      advice="raise it, which takes more noise, or keep fewer records of each")
        )  # fmt: skip
    if shared and len(records.persons) > 1:
        found.append(
            of_column("the data", records.schema.person, problem=f"{shared} person(s) have records with more than one owner",
                      advice="protection is computed for persons whose records lie with one agent; keep their records in one place, or, if owners number "
                "their persons alike, write the owner's name before the number")
        )  # fmt: skip
    refuse(found)


def _file_names(held: Sequence[Table]) -> tuple[str, ...]:
    return agent_names([Path(each.source) for each in held])


def _as_text(cells: Cells) -> Cells:
    """Names as text, also where a table holds them as numbers."""
    if cells.dtype.kind == "O":
        return cells
    texts = np.empty(len(cells), dtype=object)
    texts[:] = ["" if cell != cell else str(int(cell)) if cell == int(cell) else repr(cell) for cell in cells.tolist()]
    return texts


def _printable(name: str) -> bool:
    return 0 < len(name) <= 100 and name.isprintable()
