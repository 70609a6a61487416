"""Figures of runs, networks and data: pure functions that return matplotlib figures, and `save`, which writes them."""

from sottovoce.reports.caption import describe
from sottovoce.reports.curves import curve_grid, learning_curves
from sottovoce.reports.frontier import comparison_figures, frontier
from sottovoce.reports.labels import label_distribution
from sottovoce.reports.network import network
from sottovoce.reports.save import save
from sottovoce.reports.scaling import scaling

__all__ = [
    "comparison_figures",
    "curve_grid",
    "describe",
    "frontier",
    "label_distribution",
    "learning_curves",
    "network",
    "save",
    "scaling",
]
