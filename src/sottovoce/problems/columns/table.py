"""A table as people have it: named columns of text, numbers or yes and no, and how its rows are called.

Text stays text here; a `Schema` says what it means. Frames of pandas, polars and others come through narwhals, so that none of
them is needed by those who have files only.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError
from sottovoce.problems.complaints import Complaint, RowNames, of_column, refuse
from sottovoce.problems.loaders import check_plain_file, read_text
from sottovoce.wording import brief

Cells = NDArray[Any]  # of str (dtype object, "" is an empty cell), float64 (NaN is an empty cell) or bool

MOST_CELLS = 2**27
_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}.*|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}.*")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Table:
    """Columns of one file or frame.

    Attributes:
        source: the file's name, or "the table"; only for messages.
        columns: name -> cells [N].
        rows: what each row is called in messages.
    """

    source: str
    columns: dict[str, Cells]
    rows: RowNames

    def __len__(self) -> int:
        return len(self.rows.numbers)

    def __repr__(self) -> str:
        return f"Table({brief(self.source)!r}, {len(self)} rows, {len(self.columns)} columns)"

    def take(self, positions: NDArray[np.int64]) -> Table:
        """The rows at these positions."""
        chosen = {name: cells[positions] for name, cells in self.columns.items()}
        return Table(source=self.source, columns=chosen, rows=RowNames(self.rows.word, self.rows.numbers[positions]))


def read_table(path: str | Path) -> Table:
    """Read a .csv file (UTF-8, commas, a header) or a .parquet file.

    Raises:
        ConfigError: no such file, another ending, a header that names columns twice or not at all, rows of other lengths.
    """
    file = Path(path).expanduser()
    readers: dict[str, Callable[[Path], Table]] = {".csv": _read_csv, ".parquet": _read_parquet}
    if file.suffix.lower() not in readers:
        raise ConfigError(
            f"{brief(str(path), 200)}: columns with names are read from .csv and .parquet files; give one of these."
        )
    check_plain_file(file)
    return readers[file.suffix.lower()](file)


def table(frame: Any, *, source: str = "the table") -> Table:
    """Take columns from a frame (pandas, polars, PyArrow, whatever narwhals reads) or a dict of columns.

    Args:
        frame: the columns; a Table is returned as it is.
        source: how messages call it.

    Raises:
        ConfigError: something else, names that are no text, or columns of other lengths.
    """
    if isinstance(frame, Table):
        return frame
    columns = _of_mapping(frame) if isinstance(frame, Mapping) else _of_frame(frame)
    lengths = {len(cells) for cells in columns.values()}
    if len(lengths) != 1 or 0 in lengths:
        raise ConfigError(
            f"{source}: columns of {sorted(lengths)} rows; at least one column and one row are needed, all columns alike."
        )
    refuse(_names(source, list(columns)))
    return Table(source=source, columns=columns, rows=RowNames("record", np.arange(lengths.pop())))


def _of_mapping(frame: Mapping[Any, Any]) -> dict[str, Cells]:
    columns = {}
    for name, cells in frame.items():
        array = np.asarray(cells)
        if array.ndim != 1:
            raise ConfigError(f"column {brief(str(name))!r} has shape {array.shape}; a column is a list of cells.")
        columns[_text_name(name)] = _plain(array)
    return columns


def _of_frame(frame: Any) -> dict[str, Cells]:
    import narwhals

    try:
        held = narwhals.from_native(frame, eager_only=True)
    except TypeError as error:
        raise ConfigError(
            f"a {type(frame).__name__} is no table; give a DataFrame (pandas, polars), a dict of columns, or the path of a file."
        ) from error
    columns = {}
    for name in held.columns:
        series = held.get_column(name)
        if series.dtype.is_numeric() or series.dtype == narwhals.Boolean:
            empty = series.is_null().to_numpy()
            if series.dtype == narwhals.Boolean and not empty.any():
                columns[_text_name(name)] = series.to_numpy().astype(bool)
                continue
            numbers = np.array([np.nan if cell is None else cell for cell in series.to_list()], dtype=np.float64)
            columns[_text_name(name)] = np.where(empty, np.nan, numbers)
        else:
            columns[_text_name(name)] = _plain(np.array(series.to_list(), dtype=object))
    return columns


def _text_name(name: Any) -> str:
    if not isinstance(name, str):
        raise ConfigError(f"a column is named {brief(repr(name))}; names of columns are text, so rename it.")
    return name


def _plain(array: Cells) -> Cells:
    """Cells as numbers, as yes and no, or as text where they are anything else."""
    if array.dtype.kind == "b":
        return array
    if array.dtype.kind in "iuf":
        return array.astype(np.float64)
    texts = np.empty(len(array), dtype=object)
    texts[:] = [_text(cell) for cell in array.tolist()]
    return texts


def _text(cell: Any) -> str:
    if cell is None or cell != cell or type(cell).__name__ in ("NAType", "NaTType"):  # NaN is unequal to itself
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return str(cell).strip()


def _read_csv(path: Path) -> Table:
    lines, rows = _rows_of_text(path)
    source, names = str(path), [name.strip() for name in rows[0]]
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        raise ConfigError(
            f"{path}: one column, with marks that may separate several; separate columns by commas, and write numbers with a decimal point (where a "
            f"spreadsheet saves with semicolons, choose another separator or language there)."
        )
    if len(names) * len(rows) > MOST_CELLS:
        raise ConfigError(
            f"{path}: {len(names) * len(rows):,} cells, and {MOST_CELLS:,} are the limit; use fewer records."
        )
    _refuse_record_as_header(path, names)
    refuse([*_names(source, names), *_uneven(source, len(names), lines, rows)])
    columns = {}
    for name, cells in zip(names, zip(*rows[1:], strict=True), strict=True):
        columns[name] = np.empty(len(cells), dtype=object)
        columns[name][:] = [cell.strip() for cell in cells]
    return Table(source=source, columns=columns, rows=RowNames("row", np.array(lines[1:])))


def _refuse_record_as_header(path: Path, names: Sequence[str]) -> None:
    """Refuse a first row that is somebody's record: names of columns go into files that many read. None of its cells is repeated."""
    like = [number for number, name in enumerate(names, start=1) if _is_number(name) or _DATE.fullmatch(name)]
    if like:
        raise ConfigError(
            f"{path}, row 1: the header is missing, or column {like[0]} has a number or a date for its name; names of columns go into files that "
            f"others read. Write the names of the columns in a first row, with at least one letter in each."
        )


def _rows_of_text(path: Path) -> tuple[list[int], list[list[str]]]:
    """The rows that are not blank, the header first, and the line on which each ends."""
    stream = io.StringIO(read_text(path), newline="")
    reader = csv.reader(stream, strict=True)
    lines: list[int] = []
    rows: list[list[str]] = []
    try:
        for row in reader:
            if row:
                rows.append(row)
                lines.append(reader.line_num)
    except csv.Error as error:
        raise ConfigError(f"{path}, row {reader.line_num}: not valid CSV ({error}); correct that row.") from error
    if len(rows) < 2:
        raise ConfigError(f"{path}: a header and at least one record are needed; the file has {len(rows)} rows.")
    return lines, rows


def _uneven(source: str, width: int, lines: Sequence[int], rows: Sequence[Sequence[str]]) -> list[Complaint]:
    """What is wrong with the lengths of rows."""
    other = [line for line, row in zip(lines, rows, strict=True) if len(row) != width]
    if not other:
        return []
    advice = f"every row needs {width} cells, as the header has"
    problem, first = "too few or too many cells", f"row {other[0]}"
    return [Complaint(source=source, column=None, problem=problem, count=len(other), first=first, advice=advice)]


def _read_parquet(path: Path) -> Table:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise ConfigError(
            f"{path}: Parquet files need PyArrow; install it with pip install 'sottovoce[parquet]'."
        ) from error
    try:
        with parquet.ParquetFile(path) as file:
            cells = file.metadata.num_rows * file.metadata.num_columns
            if cells > MOST_CELLS:
                raise ConfigError(f"{path}: {cells:,} cells, and {MOST_CELLS:,} are the limit; use fewer records.")
            held = file.read()
    except ConfigError:
        raise
    except (ArrowException, OSError, ValueError) as error:
        raise ConfigError(
            f"{path}: not a Parquet file that can be read ({type(error).__name__}); write it again."
        ) from error
    found = table(held, source=str(path))
    return Table(source=found.source, columns=found.columns, rows=RowNames("record", found.rows.numbers))


def _names(source: str, names: Sequence[str]) -> list[Complaint]:
    """What is wrong with the names of columns."""
    found = []
    for number, name in enumerate(names, start=1):
        if not name:
            found.append(
                of_column(
                    source,
                    None,
                    problem=f"column {number} has no name",
                    advice="name it, or remove it if it is an index",
                )
            )
        elif name in names[: number - 1]:
            found.append(of_column(source, name, problem="two columns have this name", advice="rename or remove one"))
        elif not name.isprintable() or len(name) > 200:
            found.append(of_column(source, name, problem="no name that can be printed", advice="rename it"))
    return found


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
