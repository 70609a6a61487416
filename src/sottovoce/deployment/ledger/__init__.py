"""What has been given away of a data set over all runs, and how much more may be."""

from sottovoce.deployment.ledger.entries import Budget, Created, Released, Reserved
from sottovoce.deployment.ledger.head import Head, Signer, disagreement, export_head, read_head
from sottovoce.deployment.ledger.ledger import Ledger, Totals, create_ledger, plain
from sottovoce.deployment.ledger.sums import total_epsilon

__all__ = [
    "Created",
    "Head",
    "Ledger",
    "Released",
    "Reserved",
    "Totals",
    "create_ledger",
    "disagreement",
    "export_head",
    "read_head",
    "total_epsilon",
]


def __dir__() -> list[str]:
    return [*__all__]
