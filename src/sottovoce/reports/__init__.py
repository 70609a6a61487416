"""Figures of runs, networks and data: pure functions that return matplotlib figures, and `save`, which writes them."""

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
    "save",
    "scaling",
]
