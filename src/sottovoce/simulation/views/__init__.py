"""Recorded views: what an observer really sees of simulated runs, for attacks and audits."""

from sottovoce.simulation.views.masks import Board
from sottovoce.simulation.views.plan import Layout
from sottovoce.simulation.views.program import Seen, Statistic
from sottovoce.simulation.views.recorded import Views, layout, measure, observe, views

__all__ = ["Board", "Layout", "Seen", "Statistic", "Views", "layout", "measure", "observe", "views"]


def __dir__() -> list[str]:
    return [*__all__]
