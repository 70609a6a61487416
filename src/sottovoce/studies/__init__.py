"""Studies: what a document claims, run, drawn and judged.

reproduction         a folder with a configuration, the claims of a document, and the numbers that are expected
curves               [[study]]: one configuration varied along two directions
kinds                [[privacy_study]]: one file per kind, with its section of the file, its computation and its pictures
claims, tables       verdicts on claims, and the numbers as they are printed
"""

from sottovoce.studies.claims import Verdict
from sottovoce.studies.kinds import KINDS
from sottovoce.studies.reproduction import (
    Outcome,
    Reproduction,
    differences,
    expected_of,
    list_reproductions,
    outcome_figures,
    read_expected,
    read_reproduction,
    reproduce,
)
from sottovoce.studies.tables import CellTable, cell_tables, markdown
