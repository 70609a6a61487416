"""Privacy numbers. So far only what documents print (`documents`); guarantees of our own are not in this version."""

from sottovoce.accounting import documents

__all__ = ["documents"]
