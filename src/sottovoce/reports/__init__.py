"""Figures of runs, networks and data: what they show as plain values (`pictures`), functions that paint them, and `save`, which writes them.

Whatever paints needs Matplotlib, and is imported when first used; `sottovoce.reports` and its values do without.
"""

from typing import TYPE_CHECKING

from sottovoce.imported_later import imported_later
from sottovoce.reports import pictures

if TYPE_CHECKING:
    from sottovoce.reports.caption import describe
    from sottovoce.reports.comparisons import comparison_figures, frontier
    from sottovoce.reports.curves import NAMES, curve_grid, learning_curves, with_test_error
    from sottovoce.reports.demo import demo_figures
    from sottovoce.reports.designs import design_figures
    from sottovoce.reports.distance import loss_by_distance
    from sottovoce.reports.exposed_agents import exposure
    from sottovoce.reports.files import save
    from sottovoce.reports.labels import label_distribution
    from sottovoce.reports.networks import network
    from sottovoce.reports.painting import paint
    from sottovoce.reports.pair_matrix import heat_map
    from sottovoce.reports.pairs import MU, OBSERVER, SOURCE, drawable, pairs_figures
    from sottovoce.reports.pictures.distance_picture import LossLine
    from sottovoce.reports.pictures.leak_pictures import readable_picture
    from sottovoce.reports.pictures.pair_pictures import GUESSED, GUESSES, right_guesses
    from sottovoce.reports.reconstruction import reconstructions
    from sottovoce.reports.run_figures import run_figure
    from sottovoce.reports.sandwich import audit_table, sandwiches
    from sottovoce.reports.scores import audit_figures, score_histograms
    from sottovoce.reports.similarity import similarity_curves
    from sottovoce.reports.sweeps import scaling

# No module is called as a name that it provides: Python would find the module in its place.
__getattr__ = imported_later(
    __name__,
    {
        "caption": ("describe",),
        "comparisons": ("comparison_figures", "frontier"),
        "curves": ("NAMES", "curve_grid", "learning_curves", "with_test_error"),
        "demo": ("demo_figures",),
        "designs": ("design_figures",),
        "distance": ("loss_by_distance",),
        "pictures.distance_picture": ("LossLine",),
        "exposed_agents": ("exposure",),
        "files": ("save",),
        "labels": ("label_distribution",),
        "networks": ("network",),
        "painting": ("paint",),
        "pair_matrix": ("heat_map",),
        "pairs": ("MU", "OBSERVER", "SOURCE", "drawable", "pairs_figures"),
        "pictures.pair_pictures": ("GUESSED", "GUESSES", "right_guesses"),
        "pictures.leak_pictures": ("readable_picture",),
        "reconstruction": ("reconstructions",),
        "run_figures": ("run_figure",),
        "sandwich": ("audit_table", "sandwiches"),
        "scores": ("audit_figures", "score_histograms"),
        "similarity": ("similarity_curves",),
        "sweeps": ("scaling",),
    },
)

__all__ = [
    "LossLine",
    "comparison_figures",
    "curve_grid",
    "describe",
    "design_figures",
    "exposure",
    "frontier",
    "heat_map",
    "label_distribution",
    "learning_curves",
    "loss_by_distance",
    "network",
    "paint",
    "reconstructions",
    "run_figure",
    "sandwiches",
    "save",
    "scaling",
    "score_histograms",
    "similarity_curves",
]


def __dir__() -> list[str]:
    return [*__all__]
