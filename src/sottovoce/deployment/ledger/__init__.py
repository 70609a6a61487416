"""What has been given away of a data set over all runs, and how much more may be."""

from sottovoce.deployment.ledger.entries import Budget, Created, Released, Reserved
from sottovoce.deployment.ledger.ledger import Ledger, Totals, create_ledger
from sottovoce.deployment.ledger.sums import total_epsilon

__all__ = ["Created", "Ledger", "Released", "Reserved", "Totals", "create_ledger", "total_epsilon"]


def __dir__() -> list[str]:
    return [*__all__]
