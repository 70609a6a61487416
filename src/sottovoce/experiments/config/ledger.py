"""What the [ledger] table of an experiment's file may say: where is counted what trainings give away of the records, and how much may be.

store = "hospitals.ledger"        the file that keeps the ledger, for its owner alone; begun by the first training
name = "hospitals"                what the owner calls the data set: other files of the same records belong to the same one
budget = 8.0                      the most epsilon over all trainings, or "unlimited"; written once, when the ledger is begun
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from sottovoce.experiments.config.values import Positive, Section, wrong
from sottovoce.wording import brief, brief_value


def _path(text: str) -> str:
    if not text.strip() or "\0" in text:
        raise wrong(f"write the path of a file, such as 'patients.ledger'; given {brief_value(text)}")
    return text


def _name(text: str) -> str:
    if not text.isprintable() or text != text.strip():
        raise wrong(f"write printable characters without blanks at the ends; given {brief(text)!r}")
    return text


def _budget(given: Any) -> Any:
    if isinstance(given, str) and given != "unlimited":
        raise wrong(f'write an epsilon above 0, or "unlimited"; given {brief_value(given)}')
    return float(given) if type(given) is int else given


Budget = Annotated[Positive | Literal["unlimited"], BeforeValidator(_budget)]


class LedgerSection(Section):
    """Where a data set's owner counts what is given away of it."""

    store: Annotated[str, AfterValidator(_path)]
    name: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_name)]
    budget: Budget | None = None  # None: the ledger is there already, and has one
