"""Columns as people have them: tables, what their columns mean, and whose records they are.

table          named columns of a file or a frame
coding         from cells to numbers                       column         one of them, as inputs of a model
schema         what all mean, declared without data        agent_records  who holds a record, and whom it is about
"""

from sottovoce.problems.columns.agent_records import (
    TABLES,
    AgentRecords,
    agent_names,
    files_of,
    is_pattern,
    read_records,
)
from sottovoce.problems.columns.column import Column
from sottovoce.problems.columns.schema import Schema
from sottovoce.problems.columns.table import Table, read_table, table
from sottovoce.problems.complaints import BadTable, Complaint

__all__ = [
    "TABLES",
    "AgentRecords",
    "BadTable",
    "Column",
    "Complaint",
    "Schema",
    "Table",
    "agent_names",
    "files_of",
    "is_pattern",
    "read_records",
    "read_table",
    "table",
]


def __dir__() -> list[str]:
    return [*__all__]
