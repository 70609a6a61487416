"""Figures of runs, networks and data: pure functions that return matplotlib figures, and `save`, which writes them.

Figures of attacks need JAX, and are imported when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sottovoce.reports.caption import describe
from sottovoce.reports.curves import curve_grid, learning_curves
from sottovoce.reports.distance import LossLine, loss_by_distance
from sottovoce.reports.exposure import exposure
from sottovoce.reports.frontier import comparison_figures, frontier
from sottovoce.reports.heat_map import heat_map
from sottovoce.reports.labels import label_distribution
from sottovoce.reports.network import network
from sottovoce.reports.save import save
from sottovoce.reports.scaling import scaling

if TYPE_CHECKING:
    from sottovoce.reports.reconstruction import reconstructions
    from sottovoce.reports.sandwich import sandwiches
    from sottovoce.reports.scores import score_histograms
    from sottovoce.reports.similarity import similarity_curves

_LATER = {
    "reconstructions": "reconstruction",
    "sandwiches": "sandwich",
    "score_histograms": "scores",
    "similarity_curves": "similarity",
}

__all__ = [
    "LossLine",
    "comparison_figures",
    "curve_grid",
    "describe",
    "exposure",
    "frontier",
    "heat_map",
    "label_distribution",
    "learning_curves",
    "loss_by_distance",
    "network",
    "reconstructions",
    "sandwiches",
    "save",
    "scaling",
    "score_histograms",
    "similarity_curves",
]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"sottovoce.reports.{_LATER[name]}"), name)
    raise AttributeError(f"module 'sottovoce.reports' has no attribute {name!r}")
