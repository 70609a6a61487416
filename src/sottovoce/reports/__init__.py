"""Figures of runs, networks and data: pure functions that return matplotlib figures, and `save`, which writes them.

Figures of experiments and audits need what those are made with, and are imported when first used.
"""

from typing import TYPE_CHECKING

from sottovoce.imported_later import imported_later
from sottovoce.reports import style
from sottovoce.reports.caption import describe
from sottovoce.reports.curves import NAMES, curve_grid, learning_curves, with_test_error
from sottovoce.reports.distance import LossLine, loss_by_distance
from sottovoce.reports.exposure import exposure
from sottovoce.reports.frontier import comparison_figures, frontier
from sottovoce.reports.heat_map import heat_map
from sottovoce.reports.labels import label_distribution
from sottovoce.reports.network import network
from sottovoce.reports.reconstruction import reconstructions
from sottovoce.reports.save import save
from sottovoce.reports.scaling import scaling
from sottovoce.reports.similarity import similarity_curves

if TYPE_CHECKING:
    from sottovoce.reports.demo import demo_figures
    from sottovoce.reports.pairs import MU, OBSERVER, SOURCE, drawable, pairs_figures
    from sottovoce.reports.run_figures import run_figure
    from sottovoce.reports.sandwich import audit_table, sandwiches
    from sottovoce.reports.scores import audit_figures, score_histograms

__getattr__ = imported_later(
    __name__,
    {
        "demo": ("demo_figures",),
        "pairs": ("MU", "OBSERVER", "SOURCE", "drawable", "pairs_figures"),
        "run_figures": ("run_figure",),
        "sandwich": ("audit_table", "sandwiches"),
        "scores": ("audit_figures", "score_histograms"),
    },
)

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
    "run_figure",
    "sandwiches",
    "save",
    "scaling",
    "score_histograms",
    "similarity_curves",
]
