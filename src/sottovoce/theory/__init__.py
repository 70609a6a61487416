"""Exact mean-square behaviour for quadratic losses, and stability."""

from sottovoce.theory.gains import Gains, When, noise_gains
from sottovoce.theory.moments import expected_msd, steady_state
from sottovoce.theory.stability import likely_cause, mean_square_radius, stability_limit

__all__ = ["Gains", "expected_msd", "mean_square_radius", "noise_gains", "stability_limit", "steady_state"]


def __dir__() -> list[str]:
    return [*__all__]
