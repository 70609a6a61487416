"""The numbers of a reproduction as tables: for a terminal, and as a Markdown page."""

import math
from typing import NamedTuple

from sottovoce.studies.cells import Cell
from sottovoce.studies.reproduction import Outcome


class CellTable(NamedTuple):
    """One measure of one study, as it is printed."""

    title: str
    header: list[str]  # what is swept, then its values
    rows: list[list[str]]  # one per series: its label, then "value +- standard error" at every place


def cell_tables(outcome: Outcome) -> list[CellTable]:
    """Every number a reproduction found, one table for each study and measure."""
    found = []
    for name, result in outcome.studies.items():
        for measure, table in result.cells.items():
            rows = [[line, *(_cell(cell) for cell in row.values())] for line, row in table.items()]
            header = [result.section.axis, *result.section.places()]
            found.append(CellTable(f"{name}: {result.section.words(measure)}", header, rows))
    return found


def markdown(outcome: Outcome) -> str:
    """The same tables as a Markdown page."""
    about = outcome.reproduction.about
    parts = [
        f"# {about.title}\n{about.document}. Values with +- are means over repeats, +- one standard error; others are computed."
    ]
    for table in cell_tables(outcome):
        lines = [table.header, ["---"] * len(table.header), *table.rows]
        parts.append(f"## {table.title}\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines))
    return "\n\n".join(parts) + "\n"


def _cell(cell: Cell) -> str:
    """The value to the second digit of its standard error (four digits without one), and exact theory in brackets."""
    digits = 4
    if cell.error > 0 and cell.value != 0:
        digits = min(max(math.floor(math.log10(abs(cell.value))) - math.floor(math.log10(cell.error)) + 2, 2), 6)
    text = f"{cell.value:#.{digits}g}".rstrip(".") + (f" +- {cell.error:#.2g}" if cell.error > 0 else "")
    return text + ("" if cell.theory is None else f" ({cell.theory:#.4g})")
