"""From algorithm and noise to linear systems: what simulation, exact theory and accounting share."""

from sottovoce.linear.centroid import Centroid, centroid, exchange_topologies
from sottovoce.linear.form import LinearRound, linear_round

__all__ = ["Centroid", "LinearRound", "centroid", "exchange_topologies", "linear_round"]
